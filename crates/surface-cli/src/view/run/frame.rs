//! The live area: a line for each important group, and one for the run.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! A frame has at most `height` lines, none wider than `width`, whatever the plan.
//!
//! # Why it holds
//! Lines are built from columns of fixed width and cut at the end; groups that find no room are folded into one line that counts them.
//! Checked by `a_frame_is_never_larger_than_the_terminal`.

use std::collections::HashMap;
use std::time::Duration;

use sched_jobs::{Limits, State, Usage};

use super::board::{Board, Group};
use super::forecast::Forecast;
use crate::view::paint::{Paint, cut};
use crate::view::text::{about, listed, time, used};

const BAR: usize = 10;
const LABEL: usize = 28;
/// Groups named as what another waits for.
const NAMES: usize = 3;

/// Everything a frame shows besides the board.
pub(crate) struct FrameContext<'a> {
    pub(crate) run: &'a str,
    pub(crate) limits: &'a Limits,
    pub(crate) usage: &'a Usage,
    /// What the ready jobs of a group lack, by group: `vram`.
    pub(crate) lacks: &'a HashMap<usize, String>,
    /// Whether a job wants video memory: only then it is of interest.
    pub(crate) has_vram: bool,
    pub(crate) now: Duration,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) paint: Paint,
}

/// The lines of the live area.
pub(crate) fn frame(board: &Board, forecast: &mut Forecast, context: &FrameContext<'_>) -> Vec<String> {
    let bound = forecast.left(board, context.now);
    let room = context.height.saturating_sub(1);
    let shown = choose(board, room);
    let width = shown.iter().map(|group| console::measure_text_width(&board.groups()[*group].label)).max();
    let width = width.unwrap_or(0).min(LABEL).min(context.width / 3).max(4);
    let runs = Running::of(board, forecast, context.now);
    // The run ends no sooner than each of its groups, and what needs that: the two figures never contradict each other.
    let by_group = board.groups().iter().enumerate().filter_map(|(index, group)| {
        let part = runs.part(index);
        Some(eta(group, part, runs.1[index])? + part.after)
    });
    let left = bound.map(|bound| by_group.fold(bound, Duration::max));
    let mut lines: Vec<String> = Vec::with_capacity(shown.len() + 2);
    for &group in &shown {
        lines.push(line(board, group, &runs, context, width));
    }
    if shown.len() < board.groups().len() && lines.len() < room {
        lines.push(context.paint.dim(&folded(board, &shown)));
    }
    lines.push(status(board, left, context));
    cut(&mut lines, context.width);
    lines
}

/// What is shown of the groups, in the order of the file: what runs or went wrong, then what comes next, then what is done.
fn choose(board: &Board, room: usize) -> Vec<usize> {
    let groups = board.groups();
    if groups.len() <= room {
        return (0..groups.len()).collect();
    }
    let room = room.saturating_sub(1); // one line says what is left out
    let interest = |group: &Group| {
        let [queued, ready, running, paused, _, failed, _] = group.counts;
        match () {
            () if running + paused > 0 => 0,
            () if failed > 0 => 1,
            () if ready > 0 => 2,
            () if queued > 0 && group.open() < group.total => 3,
            () if queued > 0 => 4,
            () => 5,
        }
    };
    let mut buckets: [Vec<usize>; 6] = Default::default();
    for (index, group) in groups.iter().enumerate() {
        let bucket = &mut buckets[interest(group)];
        if bucket.len() < room {
            bucket.push(index);
        }
    }
    let mut shown: Vec<usize> = buckets.into_iter().flatten().take(room).collect();
    shown.sort_unstable();
    shown
}

fn folded(board: &Board, shown: &[usize]) -> String {
    let (mut done, mut failed, mut busy, mut waiting) = (0, 0, 0, 0);
    let mut next = shown.iter().peekable();
    for (index, group) in board.groups().iter().enumerate() {
        if next.next_if_eq(&&index).is_some() {
            continue;
        }
        let bad = group.count(State::Failed) + group.count(State::Cancelled);
        match () {
            () if bad > 0 => failed += 1,
            () if group.open() == 0 => done += 1,
            () if group.count(State::Queued) == group.total => waiting += 1,
            () => busy += 1,
        }
    }
    let parts = [(failed, "failed or cancelled"), (busy, "running"), (waiting, "waiting"), (done, "done")];
    let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    format!(" … and {} more: {}", board.groups().len() - shown.len(), parts.collect::<Vec<_>>().join(", "))
}

/// What the running jobs of a group add up to.
#[derive(Default, Clone, Copy)]
struct Part {
    /// Jobs, as far as they have come.
    done: f64,
    /// The time they still need, together and the longest.
    left: Duration,
    longest: Duration,
    guessed: bool,
    ran: Duration,
    /// The longest chain of what comes after one of them.
    after: Duration,
}

struct Running(HashMap<usize, Part>, Vec<Option<Duration>>);

impl Running {
    fn of(board: &Board, forecast: &Forecast, now: Duration) -> Running {
        let mut parts: HashMap<usize, Part> = HashMap::new();
        for &job in board.running() {
            let part = parts.entry(board.group_of(job)).or_default();
            let ran = board.since(job, now);
            part.ran = part.ran.max(ran);
            let guess = forecast.guess(job);
            let by_time = guess.map(|guess| (ran.as_secs_f64() / guess.as_secs_f64()).min(0.95));
            part.done += board.progress(job).map(f64::from).or(by_time).unwrap_or(0.0);
            if let Some(guess) = guess {
                let left = guess.saturating_sub(ran);
                part.guessed = true;
                part.left += left;
                part.longest = part.longest.max(left);
                part.after = part.after.max(forecast.after(job));
            }
        }
        let usual = board.groups().iter().map(Group::mean).collect();
        Running(parts, usual)
    }

    fn part(&self, group: usize) -> Part {
        self.0.get(&group).copied().unwrap_or_default()
    }
}

fn line(board: &Board, index: usize, runs: &Running, context: &FrameContext<'_>, width: usize) -> String {
    let group = &board.groups()[index];
    let paint = context.paint;
    let part = runs.part(index);
    let [queued, ready, running, paused, succeeded, failed, cancelled] = group.counts;
    let label = console::pad_str(&group.label, width, console::Alignment::Left, Some("…")).into_owned();
    let done = (f64::from(succeeded) + part.done) / f64::from(group.total.max(1));
    let filled = (done * BAR as f64) as usize;
    let bar = format!("{}{}", "█".repeat(filled.min(BAR)), "░".repeat(BAR - filled.min(BAR)));
    let bar = if failed > 0 { paint.red(&bar) } else { paint.green(&bar) };
    let mut says: Vec<String> = Vec::new();
    if failed > 0 {
        says.push(paint.red(&if group.total == 1 { "failed".into() } else { format!("{failed} failed") }));
    }
    if cancelled > 0 {
        says.push(paint.yellow(&if group.total == 1 { "cancelled".into() } else { format!("{cancelled} cancelled") }));
    }
    if running > 0 {
        says.push(if group.total == 1 { format!("running {}", time(part.ran)) } else { format!("running {running}") });
    }
    if paused > 0 {
        says.push(paint.yellow(&if group.total == 1 { "paused".into() } else { format!("paused {paused}") }));
    }
    if ready > 0 {
        let why = context.lacks.get(&index).map(|lack| format!(" ({lack})")).unwrap_or_default();
        says.push(if group.total == 1 { format!("waiting{why}") } else { format!("waiting {ready}{why}") });
    } else if queued > 0 && running + paused == 0 {
        let needs = waits_for(board, group).map(|names| format!("waiting for {names}"));
        says.extend(needs.or_else(|| group.began.map(|_| "waiting for a retry".to_owned())));
    }
    let count = match (group.open(), failed + cancelled) {
        (0, 0) => "done".to_owned(),
        _ if group.total == 1 => String::new(),
        _ => format!("{succeeded}/{}", group.total),
    };
    if group.open() == 0 && failed + cancelled == 0 {
        says.push(match (group.began, group.ended) {
            (Some(began), Some(ended)) => time(ended.saturating_sub(began)),
            _ => "already".to_owned(),
        });
    }
    let mut text = if count.is_empty() { String::new() } else { format!("{count:<6} ") };
    text.push_str(&says.join(", "));
    if let Some(eta) = eta(group, part, runs.1[index]) {
        let gap = 38_usize.saturating_sub(console::measure_text_width(&text)).max(2);
        text.push_str(&" ".repeat(gap));
        text.push_str(&paint.dim(&format!("eta {}", about(eta))));
    }
    format!(" {label} {bar} {text}").trim_end().to_owned()
}

/// Names of the groups that a group waits for.
fn waits_for(board: &Board, group: &Group) -> Option<String> {
    let needs = group.needs.iter().map(|need| &board.groups()[*need as usize]);
    let open: Vec<&Group> = needs.filter(|need| need.open() > 0).collect();
    (!open.is_empty()).then(|| listed(&open, NAMES, |need| need.label.as_str()))
}

/// When an active group will be done, if it continues with as many jobs as run now.
fn eta(group: &Group, part: Part, usual: Option<Duration>) -> Option<Duration> {
    let running = group.count(State::Running);
    if running == 0 || !part.guessed {
        return None;
    }
    let waiting = group.open() - running;
    let each = usual.unwrap_or(part.left / running);
    Some(((part.left + each * waiting) / running).max(part.longest))
}

fn status(board: &Board, left: Option<Duration>, context: &FrameContext<'_>) -> String {
    let FrameContext { limits, usage, run, paint, .. } = context;
    let mut parts = vec![format!("cpu {}/{}", usage.cpu_slots, limits.cpu_slots)];
    parts.push(format!("ram {}", used(usage.ram_mb, limits.ram_mb)));
    if context.has_vram {
        parts.push(format!("vram {}", used(usage.vram_mb, limits.vram_mb)));
    }
    for (name, limit) in &limits.named {
        let held = usage.named.iter().find(|(known, _)| known == name).map_or(0, |(_, held)| *held);
        parts.push(format!("{name} {held}/{limit}"));
    }
    parts.push(format!("{}/{} done", board.count(State::Succeeded), board.total()));
    if board.count(State::Failed) > 0 {
        parts.push(format!("{} failed", board.count(State::Failed)));
    }
    if let Some(left) = left.filter(|_| board.open() > 0) {
        parts.push(format!("eta {}", about(left)));
    }
    let paused = board.count(State::Paused) > 0 && board.count(State::Running) + board.count(State::Ready) == 0;
    let name = format!("run {run}");
    let hint = match (board.open(), paused) {
        (0, _) => None,
        (_, true) => Some(format!("resume: bursar resume {run}")),
        (_, false) => Some(format!("pause: bursar pause {run}")),
    };
    // The name of the run is what a person needs most; where there is room, what to do with it, too.
    let taken: usize = parts.iter().map(|part| console::measure_text_width(part) + 3).sum();
    let fits = |text: &str| taken + text.len() < context.width;
    match hint {
        Some(hint) if fits(&format!("{name} · {hint}")) => parts.extend([name, hint]),
        Some(hint) if fits(&hint) => parts.push(hint),
        _ if fits(&name) => parts.push(name),
        _ => parts.insert(0, name),
    }
    paint.dim(&format!(" {}", parts.join(" · ")))
}
