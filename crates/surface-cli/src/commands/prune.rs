//! `prune`: removes old runs, or only their logs.
//!
//! Room: surface.
//!
//! # Invariant
//! A run that is active, that could be resumed, or whose jobs still run is never removed unless the options ask for it.
//!
//! # Why it holds
//! The journal takes the lock of a run before it removes anything of it, and a live keeper holds the lock of its record.

use std::fs;
use std::path::Path;

use clap::Args;
use mech_process::Keepers;
use serde::Serialize;
use surface_journal::{Filter, Journal, RunRow, Status};
use surface_text::amounts;

use crate::exit::{Exit, Failure};
use crate::out::{json, now_ms, print};
use crate::runs::keepers_dir;

/// Options of `bursar prune`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Remove runs whose last activity is older than this, as `30d` or `12h`
    #[arg(long, value_name = "AGE", value_parser = age_ms)]
    older: Option<u64>,
    /// Remove all but this many of the newest runs
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Remove the oldest runs, until all runs together take no more disk space than this, as `2GB`
    #[arg(long, value_name = "SIZE", value_parser = size_mb)]
    size: Option<u64>,
    /// Remove only their logs, and keep the runs
    #[arg(long)]
    logs: bool,
    /// Also remove runs that were interrupted and could be resumed
    #[arg(long)]
    interrupted: bool,
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

fn age_ms(text: &str) -> Result<u64, String> {
    surface_jobfile::millis(text).map_err(|why| format!("{why}; write `30d`, `12h` or `90m`"))
}

fn size_mb(text: &str) -> Result<u64, String> {
    surface_jobfile::megabytes(text).map_err(|why| format!("{why}; write `2GB` or `500MB`"))
}

#[derive(Serialize)]
struct Pruned {
    runs: Vec<String>,
    bytes: u64,
    /// Interrupted, and kept because `--interrupted` was not given.
    interrupted: usize,
    /// Chosen, but a process runs them, or their jobs still run.
    busy: Vec<String>,
    dry_run: bool,
}

/// `bursar prune`
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if options.older.is_none() && options.keep.is_none() && options.size.is_none() {
        let message = "choose runs with --older 30d, --keep 100 or --size 2GB; with several, a run that one of them chooses is removed";
        return Err(Failure::usage(message));
    }
    let (journal, chosen) = open(options)?;
    let mut pruned = Pruned { runs: Vec::new(), bytes: 0, interrupted: 0, busy: Vec::new(), dry_run: options.dry_run };
    if !options.interrupted {
        let kept = Filter { status: Some(Status::Interrupted), ..Filter::default() };
        pruned.interrupted = journal.runs(kept)?.len();
    }
    for (run, bytes) in chosen {
        let is_gone = !is_busy(&journal, &run)
            && (options.dry_run
                || if options.logs { journal.remove_logs(&run.id)? } else { journal.remove(&run.id)? });
        if is_gone {
            pruned.runs.push(run.id.to_string());
            pruned.bytes += bytes;
        } else {
            pruned.busy.push(run.id.to_string());
        }
    }
    if !pruned.runs.is_empty() && !options.dry_run && !options.logs {
        journal.compact()?;
    }
    if options.json {
        json(&pruned)?;
    } else {
        print(&summary(&pruned, options.logs))?;
    }
    Ok(Exit::Success)
}

/// The journal, and the runs to remove. On a full disk, where the journal cannot be opened, logs are removed first.
fn open(options: &Options) -> Result<(Journal, Vec<(RunRow, u64)>), Failure> {
    let dir = Journal::default_dir()?;
    match Journal::open(&dir) {
        Ok(journal) => {
            let chosen = chosen(&journal, options)?;
            Ok((journal, chosen))
        }
        Err(error) if error.is_full() => {
            let journal = Journal::open_to_read(&dir)?;
            let chosen = chosen(&journal, options)?;
            if options.dry_run {
                return Ok((journal, chosen));
            }
            for (run, _) in chosen.iter().filter(|(run, _)| !is_busy(&journal, run)) {
                journal.remove_logs(&run.id)?;
            }
            drop(journal);
            Ok((Journal::open(&dir)?, chosen))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether jobs of a run still run: they need its folder, and their ends are recorded there.
fn is_busy(journal: &Journal, run: &RunRow) -> bool {
    Keepers::inspect(&keepers_dir(&journal.folder(&run.id))).map_or(true, |seen| seen.is_busy())
}

/// The runs that a rule chooses, oldest first, with their sizes.
fn chosen(journal: &Journal, options: &Options) -> Result<Vec<(RunRow, u64)>, Failure> {
    let now = now_ms();
    let bytes_of = |run: &RunRow| {
        let folder = journal.folder(&run.id);
        bytes(&if options.logs { folder.join("logs") } else { folder })
    };
    let runs = journal.runs(Filter::default())?;
    let sizes: Vec<u64> = runs.iter().map(bytes_of).collect();
    let mut over = options.size.map_or(0, |mb| sizes.iter().sum::<u64>().saturating_sub(mb.saturating_mul(1_000_000)));
    let mut chosen = Vec::new();
    let count = runs.len();
    for (back, (run, bytes)) in runs.into_iter().zip(sizes).rev().enumerate() {
        let newer = count - 1 - back;
        let may = match run.status {
            Status::Running | Status::Paused => false,
            Status::Interrupted => options.interrupted,
            Status::Succeeded | Status::Failed | Status::Cancelled => true,
        };
        let is_old = options.older.is_some_and(|age| now.saturating_sub(run.seen_ms) > age);
        let is_surplus = options.keep.is_some_and(|keep| newer >= keep);
        if may && (is_old || is_surplus || over > 0) {
            over = over.saturating_sub(bytes);
            chosen.push((run, bytes));
        }
    }
    Ok(chosen)
}

/// The size of a folder; links are not followed.
fn bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

fn summary(pruned: &Pruned, logs: bool) -> String {
    let count = pruned.runs.len();
    let runs = amounts::counted(count, "run");
    let what = if logs { format!("the logs of {runs}") } else { runs };
    let done = if pruned.dry_run { "would remove" } else { "removed" };
    let mut text = format!("{done} {what}, {}\n", amounts::bytes(pruned.bytes));
    if !pruned.busy.is_empty() {
        text.push_str(&format!("kept {}: their jobs still run\n", pruned.busy.join(", ")));
    }
    match pruned.interrupted {
        0 => {}
        1 => text.push_str("kept 1 run that was interrupted and can be resumed; --interrupted removes it, too\n"),
        count => text.push_str(&format!(
            "kept {count} runs that were interrupted and can be resumed; --interrupted removes them, too\n"
        )),
    }
    text
}
