//! `ps`, `runs`, `show`: active runs, all runs, and one run.
//!
//! Room: surface.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use surface_journal::{Filter, JobRow, RunRow, Status};
use surface_text::amounts::ago;

use crate::control::{JobLine, Request, RunLine, is_stopped, remove_stale};
use crate::exit::{Exit, Failure};
use crate::out::{json, now_ms, print, table};
use crate::runs::{RunResolver, job_status, orphans};
use crate::view::text::{clean, counted, listed, megabytes, time};

/// Jobs of a run that `ps` shows without `--all`.
const SHOWN: usize = 20;
/// Lines of `show` about what is in force, and names in each.
const IN_FORCE_LINES: usize = 20;
const IN_FORCE_NAMES: usize = 4;
/// Interrupted runs whose sockets `ps` cleans up.
const TIDIED: usize = 20;

/// Options of `bursar ps`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Ps {
    /// All jobs of these runs, also those that have ended
    #[arg(short, long)]
    all: bool,
    /// One JSON array, with an object for each run
    #[arg(long)]
    json: bool,
}

/// Which runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Runs {
    /// At most this many, newest first
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Only runs with this status
    #[arg(long, value_enum)]
    status: Option<StatusFilter>,
    /// One JSON array, with an object for each run
    #[arg(long)]
    json: bool,
}

/// The status of a run.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum StatusFilter {
    Running,
    Paused,
    Interrupted,
    Succeeded,
    Failed,
    Cancelled,
}

/// Which run.
#[derive(Debug, Clone, Args)]
pub(crate) struct Show {
    /// The run: `r-7f3a`, its beginning, or `latest`
    #[arg(default_value = "latest")]
    run: String,
    /// Only jobs that failed or were cancelled
    #[arg(long)]
    failed: bool,
    /// One object: the run and its jobs
    #[arg(long)]
    json: bool,
}

/// An active run, for programs.
#[derive(Serialize)]
struct Live<'a> {
    #[serde(flatten)]
    run: &'a RunRow,
    /// What the run itself reports; absent if it does not answer.
    live: Option<&'a RunLine>,
    /// Jobs that outlived the run, which was interrupted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    still_running: Vec<&'a str>,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    run: &'a RunRow,
    list: &'a [&'a JobRow],
}

/// `bursar ps`
pub(crate) fn ps(options: &Ps) -> Result<Exit, Failure> {
    let resolver = RunResolver::open()?;
    let gone = Filter { status: Some(Status::Interrupted), limit: Some(TIDIED), ..Filter::default() };
    for run in resolver.runs(gone)? {
        let _ = remove_stale(&resolver.journal_of(&run.id).folder(&run.id)); // optional: a resume does the same
    }
    let mut lines: Vec<(RunRow, Option<RunLine>)> = Vec::new();
    for run in resolver.live()? {
        let limit = if options.all || options.json { None } else { Some(SHOWN) };
        let request = Request::Ps { all: options.all, limit };
        // A run that ends while we ask is left out.
        let line =
            resolver.client(&run.id)?.and_then(|mut client| client.ask(request).ok()).and_then(|answer| answer.run);
        lines.push((run, line));
    }
    let orphaned = resolver.orphans()?;
    if options.json {
        let live = lines.iter().map(|(run, line)| Live { run, live: line.as_ref(), still_running: Vec::new() });
        let orphaned = orphaned.iter().map(|(run, jobs)| Live {
            run,
            live: None,
            still_running: jobs.iter().map(|job| job.name.as_str()).collect(),
        });
        json(&live.chain(orphaned).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    if lines.is_empty() && orphaned.is_empty() {
        crate::exit::say!("bursar: no run is active; `bursar runs` lists past runs");
    }
    for (run, line) in &lines {
        print(&live_text(run, line.as_ref()))?;
    }
    for (run, jobs) in &orphaned {
        let (id, name, jobs) = (&run.id, clean(&run.name), orphans::names(jobs));
        print(&format!(
            "{id}  {name}  interrupted, but its jobs still run: {jobs}\n  \
             `bursar run --resume {id}` continues them, `bursar cancel {id}` ends them\n"
        ))?;
    }
    Ok(Exit::Success)
}

fn live_text(run: &RunRow, line: Option<&RunLine>) -> String {
    let name = clean(&run.name);
    let Some(line) = line else {
        let pid = run.pid;
        let why = match is_stopped(pid) {
            true => format!("is stopped (Ctrl-Z); `kill -CONT {pid}` continues it"),
            false => "does not answer".to_owned(),
        };
        return format!("{}  {name}  {}, but process {pid} {why}\n", run.id, run.status);
    };
    let status = if line.unpaused > 0 { "pausing".to_owned() } else { run.status.to_string() };
    let count = |state: &str| line.counts.get(state).copied().unwrap_or(0);
    let total: usize = line.counts.values().sum();
    let mut text = format!(
        "{}  {name}  {} for {}  {}/{total} done{}  cpu {} · ram {}{}\n",
        run.id,
        status,
        time(Duration::from_millis(line.age_ms)),
        count("succeeded"),
        if count("failed") > 0 { format!(", {} failed", count("failed")) } else { String::new() },
        line.cpu_slots,
        megabytes(line.ram_mb),
        if line.vram_mb > 0 { format!(" · vram {}", megabytes(line.vram_mb)) } else { String::new() },
    );
    let rows: Vec<Vec<String>> = line.jobs.iter().map(job_cells).collect();
    for row in table(&rows).lines() {
        text.push_str(&format!("  {row}\n"));
    }
    if line.more > 0 {
        text.push_str(&format!("  … and {} more; `--all` lists them\n", line.more));
    }
    text
}

fn job_cells(job: &JobLine) -> Vec<String> {
    let mut says = Vec::new();
    says.extend(job.progress.filter(|_| !job.is_over()).map(|done| format!("{:.0} %", done * 100.0)));
    says.extend(Some(job.attempts).filter(|attempts| *attempts > 1).map(|attempts| format!("attempt {attempts}")));
    says.extend(job.error.as_ref().map(|error| clean(error)));
    says.extend(job.elsewhere.as_ref().map(|words| clean(words)));
    let state = job.stand.as_ref().unwrap_or(&job.state);
    vec![clean(&job.name), clean(state), says.join(", ")]
}

/// `bursar runs`
pub(crate) fn runs(options: &Runs) -> Result<Exit, Failure> {
    let resolver = RunResolver::open()?;
    let status = options.status.map(|stands| match stands {
        StatusFilter::Running => Status::Running,
        StatusFilter::Paused => Status::Paused,
        StatusFilter::Interrupted => Status::Interrupted,
        StatusFilter::Succeeded => Status::Succeeded,
        StatusFilter::Failed => Status::Failed,
        StatusFilter::Cancelled => Status::Cancelled,
    });
    let runs = resolver.runs(Filter { status, limit: Some(options.limit), ..Filter::default() })?;
    let stands = |run: RunRow| job_status::of_run(resolver.journal_of(&run.id), run);
    let runs: Vec<RunRow> = runs.into_iter().map(stands).collect::<Result<_, _>>()?;
    if options.json {
        json(&runs)?;
        return Ok(Exit::Success);
    }
    if runs.is_empty() {
        crate::exit::say!("bursar: no such runs; start one with `bursar run FILE`");
        return Ok(Exit::Success);
    }
    let mut rows = vec![["RUN", "NAME", "STATUS", "DONE", "BEGAN", "TOOK", "FILE"].map(str::to_owned).to_vec()];
    let now = now_ms();
    for run in &runs {
        let file = run.file.as_ref().map(|file| clean(&file.display().to_string())).unwrap_or_default();
        rows.push(vec![
            run.id.to_string(),
            clean(&run.name),
            run.status.to_string(),
            format!("{}/{}", run.counts.succeeded, run.jobs),
            ago(Duration::from_millis(now.saturating_sub(run.began_ms))),
            took(run, now),
            file,
        ]);
    }
    print(&table(&rows))?;
    Ok(Exit::Success)
}

/// `bursar show`
pub(crate) fn show(options: &Show) -> Result<Exit, Failure> {
    let resolver = RunResolver::open()?;
    let run = resolver.run(&options.run)?;
    let journal = resolver.journal_of(&run.id);
    let (run, jobs) = job_status::of(journal, run)?;
    let is_bad = |job: &&JobRow| matches!(job.state, sched_jobs::State::Failed | sched_jobs::State::Cancelled);
    let shown: Vec<&JobRow> = jobs.iter().filter(|job| !options.failed || is_bad(job)).collect();
    if options.json {
        json(&Shown { run: &run, list: &shown })?;
        return Ok(Exit::Success);
    }
    let now = now_ms();
    let mut text = format!("{}  {}  {}\n", run.id, clean(&run.name), run.status);
    let counts = &run.counts;
    let parts = [
        (counts.succeeded, "succeeded"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
        (counts.running, "running"),
        (counts.paused, "paused"),
        (counts.ready, "ready"),
        (counts.queued, "queued"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    text.push_str(&format!("{}: {}\n", counted(run.jobs as usize, "job"), parts.join(", ")));
    text.push_str(&format!(
        "began {}, took {}",
        ago(Duration::from_millis(now.saturating_sub(run.began_ms))),
        took(&run, now)
    ));
    if let Some(file) = &run.file {
        text.push_str(&format!(", from {}", clean(&file.display().to_string())));
    }
    text.push_str(&format!("\nlogs in {}\n\n", resolver.journal_of(&run.id).folder(&run.id).join("logs").display()));
    let mut rows = vec![["JOB", "STATE", "TRIES", "TOOK", "WAITED", "PEAK", "CPU", ""].map(str::to_owned).to_vec()];
    rows.extend(shown.iter().map(|job| row_cells(job)));
    text.push_str(&table(&rows));
    text.push_str(&in_force(&shown));
    text.push_str(match run.status {
        Status::Interrupted => "\nIt was interrupted; resume it with ",
        Status::Failed | Status::Cancelled => "\nRetry what did not succeed with ",
        _ => "",
    });
    match run.status {
        Status::Interrupted => text.push_str(&format!("`bursar run --resume {}`.\n", run.id)),
        Status::Failed | Status::Cancelled => {
            text.push_str(&format!("`bursar run --resume {} --retry-failed`.\n", run.id));
        }
        _ => {}
    }
    print(&text)?;
    Ok(Exit::Success)
}

/// What the system has in force for the commands, or had; jobs with the same are named together.
fn in_force(jobs: &[&JobRow]) -> String {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for job in jobs {
        let Some(words) = job.detail.in_force.as_deref() else { continue };
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, names)) => names.push(job.name.clone()),
            None => groups.push((words, vec![job.name.clone()])),
        }
    }
    let line = |(words, names): &(&str, Vec<String>)| {
        format!("  {}: {}\n", listed(names, IN_FORCE_NAMES, |name| clean(name)), clean(words))
    };
    let lines: String = groups.iter().take(IN_FORCE_LINES).map(line).collect();
    match groups.len() {
        0 => String::new(),
        count if count > IN_FORCE_LINES => {
            format!(
                "\nIn force:\n{lines}  … and {} more; `bursar why JOB` says it of one job\n",
                count - IN_FORCE_LINES
            )
        }
        _ => format!("\nIn force:\n{lines}"),
    }
}

fn row_cells(job: &JobRow) -> Vec<String> {
    let ms = |ms: Option<u64>| ms.map(|ms| time(Duration::from_millis(ms))).unwrap_or_default();
    let detail = &job.detail;
    let between = |from: Option<u64>, to: Option<u64>| Some(to?.saturating_sub(from?) / 1000);
    let error = detail.error.as_ref().or(detail.how.as_ref().filter(|_| job.state != sched_jobs::State::Succeeded));
    let error = error.map(|error| clean(error.lines().next().unwrap_or_default())).unwrap_or_default();
    vec![
        clean(&job.name),
        job.state.name().to_owned(),
        Some(job.attempts_begun()).filter(|begun| *begun > 0).map(|begun| begun.to_string()).unwrap_or_default(),
        ms(detail.wall_ms.or(between(job.started_us, job.ended_us))),
        ms(detail.waited_ms.or(between(job.ready_us, job.started_us))),
        detail.peak_rss_kb.map(|kb| megabytes(kb.div_ceil(1000))).unwrap_or_default(),
        ms(detail.cpu_ms),
        error,
    ]
}

/// How long a run took, or has taken so far.
fn took(run: &RunRow, now: u64) -> String {
    let until = if run.status.is_live() { now } else { run.seen_ms };
    time(Duration::from_millis(until.saturating_sub(run.began_ms)))
}
