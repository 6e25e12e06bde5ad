//! The page itself: sections as HTML from here, charts and the table by `page.js` from the data at the end.
//!
//! Room: surface.

use std::fmt::Write;
use std::time::Duration;

use sched_jobs::State;
use serde_json::{Value, json};
use surface_text::amounts::{kilobytes, measured};

use super::text::{date, escape, script_json, short};
use super::{Facts, Kind, Link, Span, critical_path, extents, lanes, spans, usage};
use crate::JobRow;

/// How many failures are shown in full.
const FAILURES_SHOWN: usize = 50;
/// How many links of the critical path are listed.
const LINKS_SHOWN: usize = 200;
const LEVELS_MAX: usize = 4_000;

fn time(us: u64) -> String {
    measured(Duration::from_micros(us))
}

/// Everything computed from the facts.
struct Summary {
    wall_us: u64,
    spans: Vec<Span>,
    lanes: Vec<Option<u32>>,
    path: Vec<Link>,
    /// Time waited and run, of each job.
    waited_us: Vec<u64>,
    ran_us: Vec<u64>,
}

impl Summary {
    fn of(facts: &Facts<'_>) -> Summary {
        let last_us = facts.events.iter().map(|event| event.offset_us).max().unwrap_or(0);
        let spans = spans(facts.events, last_us);
        let extents = extents(&spans, facts.jobs.len());
        let mut waited_us = vec![0; facts.jobs.len()];
        let mut ran_us = vec![0; facts.jobs.len()];
        for span in &spans {
            let sums = match span.kind {
                Kind::Waiting => &mut waited_us,
                Kind::Running => &mut ran_us,
                Kind::Paused => continue,
            };
            if let Some(sum) = sums.get_mut(span.job as usize) {
                *sum += span.to_us - span.from_us;
            }
        }
        let path = critical_path(&extents, facts.edges);
        Summary { wall_us: last_us, lanes: lanes(&extents), path, spans, waited_us, ran_us }
    }
}

pub(super) fn write(facts: &Facts<'_>) -> String {
    let summary = Summary::of(facts);
    let mut page = String::with_capacity(64 * 1024 + facts.jobs.len() * 300);
    let title = escape(&facts.run.name);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title} · {} · bursar</title>\n<style>\n{}</style></head>\n<body><main>\n",
        facts.run.id,
        include_str!("page.css"),
    );
    header(&mut page, facts, &summary);
    failures(&mut page, facts);
    page.push_str(TIMELINE);
    path(&mut page, facts, &summary);
    page.push_str(REST);
    let _ = write!(
        page,
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}</script>\n</main></body></html>\n",
        script_json(&data(facts, &summary)),
        include_str!("page.js"),
    );
    page
}

const TIMELINE: &str = "<section id=\"timeline\"><h2>Timeline</h2>\
    <div class=\"bar\"><span class=\"switch\"><button type=\"button\" id=\"by-job\">One row a job</button>\
    <button type=\"button\" id=\"packed\">Packed</button></span>\
    <span class=\"legend\"><i class=\"waiting\"></i>waits<i class=\"succeeded\"></i>succeeded\
    <i class=\"failed\"></i>failed<i class=\"cancelled\"></i>cancelled<i class=\"running\"></i>unfinished\
    <i class=\"paused\"></i>paused<i class=\"critical\"></i>critical path</span>\
    <span class=\"hint\">drag to zoom, double-click for all</span></div>\
    <div class=\"axis\"><canvas id=\"axis\"></canvas></div>\
    <div class=\"scroll\" id=\"scroll\"><div id=\"tall\"><canvas id=\"gantt\"></canvas></div></div>\
    <div id=\"tip\" role=\"tooltip\" hidden></div></section>\n";

const REST: &str = "<section id=\"resources\"><h2>Resources given out</h2><div id=\"charts\"></div></section>\n\
    <section id=\"jobs\"><h2>Jobs</h2>\
    <div class=\"bar\"><input id=\"filter\" type=\"search\" placeholder=\"filter by name, group, command or state\" \
    aria-label=\"filter jobs\"><span id=\"shown\" class=\"hint\"></span></div>\
    <div class=\"wide\"><table><thead><tr id=\"heads\"></tr></thead><tbody id=\"rows\"></tbody></table></div>\
    <button type=\"button\" id=\"more\" hidden>Show more</button></section>\n\
    <noscript><p>The timeline, the resources and the table of jobs are drawn by a script in this file.</p></noscript>\n";

fn header(page: &mut String, facts: &Facts<'_>, summary: &Summary) {
    let run = facts.run;
    let began = date(run.began_ms);
    let file = run.file.as_ref().map(|file| format!(" · <code>{}</code>", escape(&file.to_string_lossy())));
    let _ = write!(
        page,
        "<header><div><h1>{}</h1><p><code>{}</code>{} · <time datetime=\"{began}\">{began}</time></p></div>\
         <span class=\"badge {status}\">{status}</span></header>\n<div class=\"tiles\">",
        escape(&run.name),
        run.id,
        file.unwrap_or_default(),
        status = run.status,
    );
    let ran_us: u64 = summary.ran_us.iter().sum();
    let waited_us: u64 = summary.waited_us.iter().sum();
    let cpu_ms: u64 = facts.jobs.iter().filter_map(|job| job.detail.cpu_ms).sum();
    let peak = facts.jobs.iter().filter_map(|job| Some((job.detail.peak_rss_kb?, job))).max_by_key(|(peak, _)| *peak);
    let again = facts.jobs.iter().filter(|job| job.attempt > 1).count();
    let counts = run.counts;
    let mut details = vec![format!("{} succeeded", counts.succeeded)];
    for (many, what) in [
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
        (counts.queued + counts.ready + counts.running + counts.paused, "unfinished"),
    ] {
        if many > 0 {
            details.push(format!("{many} {what}"));
        }
    }
    if again > 0 {
        details.push(format!("{again} tried again"));
    }
    let mut tile = |name: &str, value: String, detail: String| {
        let _ = write!(page, "<div><h3>{name}</h3><b>{value}</b><small>{}</small></div>", escape(&detail));
    };
    let on_path_us: u64 = summary.path.iter().map(|link| link.length_us).sum();
    tile("Wall time", time(summary.wall_us), format!("{} of work on the critical path", time(on_path_us)));
    tile("Jobs", run.jobs.to_string(), details.join(", "));
    let parallel = ran_us as f64 / summary.wall_us.max(1) as f64;
    tile("Parallelism", format!("{parallel:.1}×"), format!("{} of work, {} of waiting", time(ran_us), time(waited_us)));
    let busy = cpu_ms as f64 * 1_000.0 / summary.wall_us.max(1) as f64;
    tile("CPU time", time(cpu_ms * 1_000), format!("{busy:.1} cores busy on average"));
    match peak {
        Some((peak, job)) => tile("Largest job", kilobytes(peak), format!("peak of {}", short(&job.name, 40))),
        None => tile("Largest job", "–".into(), "no peaks were measured".into()),
    }
    page.push_str("</div>\n");
}

fn failures(page: &mut String, facts: &Facts<'_>) {
    let failed: Vec<&JobRow> = facts.jobs.iter().filter(|job| job.state == State::Failed).collect();
    if failed.is_empty() {
        return;
    }
    let _ = write!(page, "<section id=\"failures\"><h2>Failures <em>{}</em></h2>", failed.len());
    for job in failed.iter().take(FAILURES_SHOWN) {
        let how = job.detail.how.as_deref().unwrap_or("failed");
        let attempts = if job.attempt > 1 { format!(", attempt {}", job.attempt) } else { String::new() };
        let _ = write!(
            page,
            "<article><h4>{}<span>{}{attempts}</span></h4><code>{}</code>",
            escape(&job.name),
            escape(how),
            escape(&short(&job.command, 500)),
        );
        if let Some(error) = &job.detail.error {
            let _ = write!(page, "<pre>{}</pre>", escape(error));
        }
        page.push_str("</article>");
    }
    if failed.len() > FAILURES_SHOWN {
        let _ = write!(page, "<p class=\"hint\">and {} more in the table</p>", failed.len() - FAILURES_SHOWN);
    }
    page.push_str("</section>\n");
}

fn path(page: &mut String, facts: &Facts<'_>, summary: &Summary) {
    if summary.path.is_empty() {
        return;
    }
    let on_path_us: u64 = summary.path.iter().map(|link| link.length_us).sum();
    let waits_us: u64 = summary.path.iter().map(|link| link.wait_us).sum();
    let advice = if waits_us > on_path_us {
        "Most of it is waiting for room: more of what was used up (see below) would help more than faster jobs."
    } else {
        "Only a shorter one of these makes the run shorter."
    };
    let jobs = if summary.path.len() == 1 { "job" } else { "jobs" };
    let _ = write!(
        page,
        "<section id=\"critical\"><h2>Critical path <em>{} {jobs}</em></h2><p class=\"hint\">The chain of dependencies that decided \
         the end: {} of work and {} of waiting. {advice}</p><ol>",
        summary.path.len(),
        time(on_path_us),
        time(waits_us),
    );
    let longest_us = summary.path.iter().map(|link| link.wait_us + link.length_us).max().unwrap_or(1).max(1);
    for link in summary.path.iter().take(LINKS_SHOWN) {
        let Some(job) = facts.jobs.get(link.job as usize) else { continue };
        let percent = |us: u64| us as f64 * 100.0 / longest_us as f64;
        let waited = if link.wait_us > 0 { format!("waited {}", time(link.wait_us)) } else { String::new() };
        let _ = write!(
            page,
            "<li><span class=\"name\" title=\"{0}\">{0}</span><span class=\"track\"><i class=\"waiting\" \
             style=\"width:{1:.2}%\"></i><i class=\"{2}\" style=\"width:{3:.2}%\"></i></span>\
             <b>{4}</b><small>{waited}</small></li>",
            escape(&short(&job.name, 120)),
            percent(link.wait_us),
            job.state.name(),
            percent(link.length_us),
            time(link.length_us),
        );
    }
    page.push_str("</ol>");
    if summary.path.len() > LINKS_SHOWN {
        let _ = write!(page, "<p class=\"hint\">and {} more</p>", summary.path.len() - LINKS_SHOWN);
    }
    page.push_str("</section>\n");
}

/// What the script draws. Names of fields are short because there may be a hundred thousand rows.
fn data(facts: &Facts<'_>, summary: &Summary) -> Value {
    let jobs = facts.jobs.iter().enumerate().map(|(index, job)| {
        let given = job.given();
        json!([
            short(&job.name, 120),
            short(&job.group, 60),
            short(&job.command, 160),
            job.state.name(),
            job.attempt,
            summary.waited_us[index],
            summary.ran_us[index],
            job.detail.cpu_ms,
            job.detail.peak_rss_kb,
            given.cpu_slots,
            given.ram_mb,
            given.vram_mb,
            job.detail.how.as_deref().map(|how| short(how, 80)),
            job.detail.error.as_deref().map(|error| short(error, 160)),
            summary.lanes[index],
            job.detail.peak_vram_mb,
            job.detail.in_force.as_deref().map(|words| short(words, 240)),
        ])
    });
    let spans = summary.spans.iter().map(|span| {
        let kind = match span.kind {
            Kind::Waiting => 0,
            Kind::Running => 1,
            Kind::Paused => 2,
        };
        json!([span.job, kind, span.from_us, span.to_us, span.then.name()])
    });
    let levels = usage(&summary.spans, facts.jobs, LEVELS_MAX);
    json!({
        "wall": summary.wall_us,
        "jobs": jobs.collect::<Vec<_>>(),
        "spans": spans.collect::<Vec<_>>(),
        "critical": summary.path.iter().map(|link| link.job).collect::<Vec<_>>(),
        "levels": levels.iter().map(|level| json!([level.at_us, level.cpu_slots, level.ram_mb, level.vram_mb]))
            .collect::<Vec<_>>(),
        "limits": [facts.limits.cpu_slots, facts.limits.ram_mb, facts.limits.vram_mb],
    })
}
