'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const by = (id) => document.getElementById(id);
  const [NAME, GROUP, COMMAND, STATE, ATTEMPT, WAITED, RAN, CPU, RSS, SLOTS, RAM, VRAM, HOW, ERROR, LANE, VIDEO, FORCE] = Array(17).keys();
  const critical = new Set(data.critical);
  const wall = Math.max(data.wall, 1);

  // The formats of `measured` and `kilobytes` of surface-text: digits that are left out are cut off.
  const cut = Math.floor;
  const time = (us) => us === 0 ? '0' : us < 1e3 ? us + ' µs' : us < 1e4 ? cut(us / 1e3) + '.' + cut(us / 1e2) % 10 + ' ms' : us < 1e6 ? cut(us / 1e3) + ' ms'
    : us < 6e7 ? cut(us / 1e6) + '.' + cut(us / 1e5) % 10 + ' s' : us < 3.6e9 ? cut(us / 6e7) + ' min ' + cut(us / 1e6) % 60 + ' s'
    : us < 8.64e10 ? cut(us / 3.6e9) + ' h ' + cut(us / 6e7) % 60 + ' min' : cut(us / 8.64e10) + ' d ' + cut(us / 3.6e9) % 24 + ' h';
  const memory = (kb) => kb < 1e3 ? kb + ' kB' : kb < 1e4 ? cut(kb / 1e3) + '.' + cut(kb / 1e2) % 10 + ' MB'
    : kb < 1e6 ? cut(kb / 1e3) + ' MB' : cut(kb / 1e6) + '.' + cut(kb / 1e5) % 10 + ' GB';
  const make = (tag, text, className) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text; // never as HTML: names are anything
    if (className) element.className = className;
    return element;
  };
  document.querySelectorAll('time').forEach((t) => { t.textContent = new Date(t.dateTime).toLocaleString(); });

  // Rows: jobs in the order they started, or lanes that jobs share.
  const first = new Map();
  for (const [job, kind, from] of data.spans) {
    const begin = first.get(job) ?? [Infinity, Infinity];
    if (kind === 0) begin[1] = Math.min(begin[1], from); else begin[0] = Math.min(begin[0], from);
    first.set(job, begin);
  }
  const ran = [...first.keys()].filter((job) => data.jobs[job] && data.jobs[job][LANE] !== null);
  ran.sort((a, b) => first.get(a)[0] - first.get(b)[0] || a - b);
  const rowOf = new Map(ran.map((job, row) => [job, row]));
  const lanes = ran.reduce((most, job) => Math.max(most, data.jobs[job][LANE] + 1), 0);
  // Drawn in this order: waits below, then what ran. Each row's spans are sorted, so that a search finds those in view.
  const byRow = (count, row, waits) => {
    const rows = Array.from({ length: count }, () => []);
    for (const span of data.spans) if (rowOf.has(span[0]) && (span[1] || waits)) rows[row(span[0])].push(span);
    rows.forEach((spans) => spans.sort((a, b) => a[2] - b[2]));
    return rows;
  };
  const layouts = {
    job: { rows: byRow(ran.length, (job) => rowOf.get(job), true), height: ran.length > 60 ? 16 : 22, gutter: 170 },
    // In a shared lane a wait would cover the bar before it.
    packed: { rows: byRow(lanes, (job) => data.jobs[job][LANE], false), height: lanes > 40 ? 10 : 20, gutter: 64 },
  };
  let layout = ran.length > 300 ? layouts.packed : layouts.job;
  let view = [0, wall];
  let drag = null;
  let hover = null;
  let colour = {};
  const readColours = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of ['succeeded', 'failed', 'canceled', 'running', 'paused', 'waiting', 'critical', 'grid', 'text', 'dim', 'line', 'area', 'limit', 'card'])
      colour[name] = style.getPropertyValue('--' + name).trim();
  };
  const surface = (canvas, height) => {
    const ratio = devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    canvas.style.width = width + 'px'; canvas.style.height = height + 'px';
    const pen = canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = '11.5px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    return [pen, width];
  };
  const scroll = by('scroll'), tall = by('tall'), gantt = by('gantt'), tip = by('tip');
  const right = 12;
  const x = (us, width, gutter) => gutter + (us - view[0]) / (view[1] - view[0]) * (width - gutter - right);
  const ticks = () => {
    const rough = (view[1] - view[0]) / 8;
    const nice = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 15e6, 3e7, 6e7, 12e7, 3e8, 6e8, 9e8, 18e8, 36e8, 72e8, 144e8, 432e8, 864e8];
    const step = nice.find((n) => n >= rough) ?? Math.ceil(rough / 864e8) * 864e8;
    const all = [];
    for (let us = Math.ceil(view[0] / step) * step; us <= view[1]; us += step) all.push(us);
    return all;
  };
  const grid = (pen, width, height, gutter) => {
    pen.fillStyle = colour.grid;
    for (const us of ticks()) pen.fillRect(Math.round(x(us, width, gutter)), 0, 1, height);
  };
  // The first span of a sorted row that does not end before the view; spans in a row do not overlap.
  const firstIn = (spans, us) => {
    let low = 0, high = spans.length;
    while (low < high) { const mid = (low + high) >> 1; if (spans[mid][3] < us) low = mid + 1; else high = mid; }
    return low;
  };
  const clip = (pen, text, room) => {
    if (pen.measureText(text).width <= room) return text;
    let keep = Math.floor(text.length * room / pen.measureText(text).width);
    while (keep > 0 && pen.measureText(text.slice(0, keep) + '…').width > room) keep--;
    return keep > 0 ? text.slice(0, keep) + '…' : '';
  };
  const colourOf = (span) => span[1] === 0 ? colour.waiting : span[1] === 2 ? colour.paused
    : span[4] === 'paused' || span[4] === 'running' ? (span[4] === 'running' ? colour.running : colour[data.jobs[span[0]][STATE]] ?? colour.running)
    : colour[span[4]] ?? colour.running;

  const drawTimeline = () => {
    const { rows, height, gutter } = layout;
    const shown = Math.min(520, Math.max(rows.length * height + 6, 40));
    tall.style.height = Math.max(rows.length * height + 6, 40) + 'px';
    let [pen, width] = surface(by('axis'), 22);
    pen.fillStyle = colour.dim;
    pen.textAlign = 'center';
    for (const us of ticks()) {
      const at = x(us, width, gutter), text = us ? time(us) : '0', half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.min(Math.max(at, half), width - half), 11);
    }
    [pen, width] = surface(gantt, shown);
    grid(pen, width, shown, gutter);
    const top = scroll.scrollTop, pad = height > 12 ? 3 : 1;
    const outlined = [];
    for (let row = Math.floor(top / height); row < rows.length && row * height - top < shown; row++) {
      const y = row * height - top + 3, tallness = height - pad;
      const spans = rows[row];
      let last = -1;
      for (let n = firstIn(spans, view[0]); n < spans.length && spans[n][2] <= view[1]; n++) {
        const span = spans[n];
        const from = Math.max(x(span[2], width, gutter), gutter), to = Math.min(x(span[3], width, gutter), width - right);
        if (to < last && span[1]) continue; // under a pixel that is drawn already
        last = Math.max(to, from + 1);
        pen.fillStyle = colourOf(span);
        const wide = Math.max(to - from, 1), thin = span[1] === 0 ? tallness * .3 : 0;
        pen.beginPath();
        pen.roundRect(from, y + thin, wide, tallness - 2 * thin, Math.min(3, wide / 2, tallness / 2 - thin));
        pen.fill();
        if (span[1] === 1 && critical.has(span[0])) outlined.push([from, y, wide, tallness]);
        if (layout === layouts.packed && height > 12 && span[1] === 1 && wide > 40) {
          pen.fillStyle = '#fff'; pen.textAlign = 'left';
          pen.fillText(clip(pen, data.jobs[span[0]][NAME], wide - 12), from + 6, y + tallness / 2 + .5);
        }
      }
      if (layout === layouts.job) {
        const job = ran[row];
        pen.fillStyle = critical.has(job) ? colour.critical : job === hover ? colour.text : colour.dim;
        pen.textAlign = 'right';
        pen.fillText(clip(pen, data.jobs[job][NAME], gutter - 16), gutter - 10, y + tallness / 2 + .5);
      }
    }
    pen.strokeStyle = colour.critical;
    pen.lineWidth = 2;
    for (const [from, y, wide, tallness] of outlined) {
      pen.beginPath(); pen.roundRect(from, y, Math.max(wide, 2), tallness, Math.min(3, wide / 2)); pen.stroke();
    }
    if (drag) {
      pen.globalAlpha = .15; pen.fillStyle = colour.text;
      pen.fillRect(Math.min(drag[0], drag[1]), 0, Math.abs(drag[1] - drag[0]), shown);
      pen.globalAlpha = 1;
    }
  };

  const charts = [['CPU slots', 1, (n) => String(n)], ['Memory', 2, (n) => memory(n * 1000)], ['Video memory', 3, (n) => memory(n * 1000)]]
    .map(([name, column, format], n) => ({ name, column, format, limit: data.limits[n] }))
    .filter((chart) => chart.column === 1 || data.levels.some((level) => level[chart.column] > 0));
  for (const chart of charts) {
    chart.top = Math.max(chart.limit, ...data.levels.map((level) => level[chart.column]), 1);
    const box = make('div', undefined, 'chart'), head = make('h3');
    const peak = data.levels.reduce((most, level) => Math.max(most, level[chart.column]), 0);
    const left = make('span'); left.append(make('b', chart.name));
    left.append('at most ' + chart.format(peak) + (chart.limit ? ' of ' + chart.format(chart.limit) : ', no limit'));
    chart.now = make('span'); chart.canvas = make('canvas');
    head.append(left, chart.now); box.append(head, chart.canvas); by('charts').append(box);
    chart.canvas.addEventListener('mousemove', (event) => {
      const us = view[0] + (event.offsetX - layout.gutter) / (chart.canvas.clientWidth - layout.gutter - right) * (view[1] - view[0]);
      let level = data.levels[0];
      for (const next of data.levels) { if (next[0] > us) break; level = next; }
      chart.now.textContent = chart.format(level[chart.column]) + ' at ' + time(Math.max(0, Math.round(us)));
    });
    chart.canvas.addEventListener('mouseleave', () => { chart.now.textContent = ''; });
  }
  const drawCharts = () => {
    const left = layout.gutter; // under the timeline, so that one time is one place
    for (const chart of charts) {
      const height = 92, [pen, width] = surface(chart.canvas, height);
      grid(pen, width, height, left);
      const y = (n) => height - 1 - n / chart.top * (height - 10);
      const line = new Path2D(), area = new Path2D();
      let at = left, value = 0;
      pen.save(); // what lies outside the view is cut off
      pen.beginPath(); pen.rect(left, 0, width - left - right + 1, height); pen.clip();
      area.moveTo(x(0, width, left), height);
      data.levels.forEach((level, n) => {
        const px = x(level[0], width, left);
        area.lineTo(px, y(value));
        if (n) line.lineTo(px, y(value)); else line.moveTo(px, y(level[chart.column]));
        value = level[chart.column];
        area.lineTo(px, y(value)); line.lineTo(px, y(value));
        at = px;
      });
      area.lineTo(at, height); area.closePath();
      pen.fillStyle = pen.strokeStyle = colour.area;
      pen.globalAlpha = .22; pen.fill(area); pen.globalAlpha = 1;
      pen.lineWidth = 1.5; pen.stroke(line);
      pen.restore();
      pen.fillStyle = colour.line; pen.fillRect(left, height - 1, width - left - right, 1);
      pen.fillStyle = colour.dim; pen.textAlign = 'right';
      pen.fillText(chart.format(chart.top), left - 8, y(chart.top));
      pen.fillText('0', left - 8, height - 6);
      if (chart.limit) {
        const level = Math.round(y(chart.limit)) + .5;
        pen.strokeStyle = colour.limit; pen.lineWidth = 1; pen.setLineDash([5, 4]);
        pen.beginPath(); pen.moveTo(left, level); pen.lineTo(width - right, level); pen.stroke();
        pen.setLineDash([]);
      }
    }
  };

  let asked = false;
  const draw = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; drawTimeline(); drawCharts(); });
  };
  const choose = (next) => {
    layout = next;
    by('by-job').setAttribute('aria-pressed', layout === layouts.job);
    by('packed').setAttribute('aria-pressed', layout === layouts.packed);
    scroll.scrollTop = 0;
    draw();
  };
  by('by-job').addEventListener('click', () => choose(layouts.job));
  by('packed').addEventListener('click', () => choose(layouts.packed));
  scroll.addEventListener('scroll', draw);
  addEventListener('resize', draw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); draw(); });

  const usAt = (px) => view[0] + (px - layout.gutter) / (gantt.clientWidth - layout.gutter - right) * (view[1] - view[0]);
  const spanAt = (event) => {
    const row = Math.floor((event.offsetY - 3 + scroll.scrollTop) / layout.height), us = usAt(event.offsetX);
    const slack = (view[1] - view[0]) / gantt.clientWidth * 2;
    const spans = layout.rows[row] ?? [];
    if (layout === layouts.job && event.offsetX < layout.gutter) return spans.at(-1);
    let found;
    for (let n = firstIn(spans, us - slack); n < spans.length && spans[n][2] <= us + slack; n++) if (!found || spans[n][1]) found = spans[n];
    return found;
  };
  const tell = (event) => {
    const span = spanAt(event);
    tip.hidden = !span;
    const job = span ? span[0] : null;
    if (job !== hover) { hover = job; draw(); }
    if (!span) return;
    const row = data.jobs[span[0]];
    tip.replaceChildren(make('b', row[NAME]));
    const say = (text) => tip.append(make('div', text));
    say(row[STATE] + (row[HOW] ? ' · ' + row[HOW] : '') + (row[ATTEMPT] > 1 ? ' · attempt ' + row[ATTEMPT] : '') + (critical.has(span[0]) ? ' · on the critical path' : ''));
    say(['waits', 'runs', 'is paused'][span[1]] + ' from ' + time(span[2]) + ' to ' + time(span[3]) + ' (' + time(span[3] - span[2]) + ')');
    say('in all waited ' + time(row[WAITED]) + ', ran ' + time(row[RAN]) + (row[CPU] !== null ? ', CPU ' + time(row[CPU] * 1e3) : ''));
    say(row[SLOTS] + ' CPU · ' + memory(row[RAM] * 1000) + (row[VRAM] ? ' · ' + memory(row[VRAM] * 1000) + ' video' : '') + (row[RSS] !== null ? ' · peak ' + memory(row[RSS]) : '') + (row[VIDEO] !== null ? ', video ' + memory(row[VIDEO] * 1000) : ''));
    if (row[FORCE]) say(row[FORCE]);
    if (row[COMMAND]) tip.append(make('code', row[COMMAND]));
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.min(event.clientX + 14, innerWidth - box.width - 8) + 'px';
    tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18) + 'px';
  };
  gantt.addEventListener('mousemove', (event) => { if (drag) { drag[1] = event.offsetX; draw(); } else tell(event); });
  gantt.addEventListener('mouseleave', () => { tip.hidden = true; drag = null; hover = null; draw(); });
  gantt.addEventListener('mousedown', (event) => { drag = [event.offsetX, event.offsetX]; tip.hidden = true; event.preventDefault(); });
  gantt.addEventListener('mouseup', () => {
    if (drag && Math.abs(drag[1] - drag[0]) > 6) {
      const ends = drag.map((px) => Math.min(Math.max(usAt(px), 0), wall)).sort((a, b) => a - b);
      if (ends[1] - ends[0] >= 20) view = ends;
    }
    drag = null;
    draw();
  });
  gantt.addEventListener('dblclick', () => { view = [0, wall]; draw(); });

  // The table. Failures first, then in order of the file; a click on a head sorts by it.
  const rank = { failed: 0, running: 1, paused: 2, ready: 3, queued: 4, canceled: 5, succeeded: 6 };
  const heads = [
    ['Job', NAME], ['State', STATE], ['Waited', WAITED, time], ['Ran', RAN, time], ['CPU time', CPU, (ms) => time(ms * 1e3)],
    ['Peak', RSS, memory], ...(data.jobs.some((row) => row[VIDEO] !== null) ? [['Video peak', VIDEO, (mb) => memory(mb * 1000)]] : []),
    ['Slots', SLOTS, String], ['Memory', RAM, (mb) => memory(mb * 1000)], ['Attempts', ATTEMPT, String],
  ];
  let order = data.jobs.map((_, n) => n), sort = null, many = 100;
  const key = (n, column) => column === STATE ? rank[data.jobs[n][STATE]] : data.jobs[n][column];
  const listed = () => {
    const words = by('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
    return order.filter((n) => {
      const row = data.jobs[n];
      const text = (row[NAME] + ' ' + row[GROUP] + ' ' + row[COMMAND] + ' ' + row[STATE]).toLowerCase();
      return words.every((word) => text.includes(word));
    });
  };
  const fill = () => {
    const found = listed(), rows = document.createDocumentFragment();
    for (const n of found.slice(0, many)) {
      const row = data.jobs[n], line = make('tr', undefined, critical.has(n) ? 'critical' : '');
      const name = make('td', row[NAME]);
      name.append(make('span', row[COMMAND], 'dim'));
      if (row[FORCE]) name.append(make('span', row[FORCE], 'dim'));
      if (row[ERROR]) name.append(make('span', row[ERROR], 'error'));
      const state = make('td'), mark = make('span', undefined, 'state');
      mark.append(make('i', undefined, row[STATE]), row[STATE]);
      state.append(mark);
      if (row[HOW]) state.append(make('span', row[HOW], 'dim'));
      line.append(name, state);
      for (const [, column, format] of heads.slice(2)) line.append(make('td', row[column] === null ? '–' : format(row[column]), 'n'));
      rows.append(line);
    }
    by('rows').replaceChildren(rows);
    by('shown').textContent = Math.min(many, found.length) + ' of ' + found.length + (found.length < data.jobs.length ? ' found' : '');
    by('more').hidden = found.length <= many;
  };
  const resort = (column, down) => {
    sort = [column, down];
    const sign = down ? -1 : 1;
    order.sort((a, b) => {
      const one = key(a, column), other = key(b, column);
      if (one === null || other === null) return (one === null) - (other === null) || a - b; // unknown ones last
      return sign * (typeof one === 'string' ? one.localeCompare(other, undefined, { numeric: true }) : one - other) || a - b;
    });
    [...by('heads').children].forEach((head, n) => {
      if (heads[n][1] === column) head.setAttribute('aria-sort', down ? 'descending' : 'ascending'); else head.removeAttribute('aria-sort');
      head.textContent = heads[n][0] + (heads[n][1] === column ? (down ? ' ↓' : ' ↑') : '');
    });
    fill();
  };
  for (const [title, column, format] of heads) {
    const head = make('th', title, format ? 'n' : '');
    head.tabIndex = 0;
    const click = () => resort(column, sort[0] === column ? !sort[1] : Boolean(format));
    head.addEventListener('click', click);
    head.addEventListener('keydown', (event) => { if (event.key === 'Enter') click(); });
    by('heads').append(head);
  }
  by('filter').addEventListener('input', () => { many = 100; fill(); });
  by('more').addEventListener('click', () => { many += 500; fill(); });

  readColours();
  choose(layout);
  resort(STATE, false);
})();
