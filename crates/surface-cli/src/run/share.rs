//! One budget with the other runs of this user.
//!
//! Room: driver.
//!
//! # Invariant
//! A run that cannot share still runs, and prints that it does not share.

use std::path::Path;
use std::sync::Arc;

use mech_process::{Keepers, machine};
use sched_jobs::process::Processes;
use sched_jobs::{Builder, Config, Demand, Jobs};
use surface_neighbours::{Listener, Notifier, Settings};

use super::limits::AT_ONCE;
use super::slurm::WITH_SLURM;
use crate::exit::say;

/// One part in this many of the memory is always used by the system and other programs: a job that needs more than the rest does not wait for it.
const USUALLY_USED: u64 = 16;

/// Lets the scheduler see what other runs use, and them what we use. The notifier reports when they give something back.
pub(crate) fn join(
    builder: Builder,
    config: &Config,
    demands: &[Demand],
    processes: &Arc<Processes>,
    keepers_dir: &Path,
    overcommit: bool,
) -> (Builder, Option<Notifier>) {
    let mut shared = config.clone();
    // The limit of `--jobs`, and how many jobs are with Slurm, concern this run alone.
    shared.limits.named.retain(|(name, _)| name != AT_ONCE && name != WITH_SLURM);
    let promised: Vec<u64> = demands.iter().map(|demand| demand.ram_mb).collect();
    let processes = Arc::downgrade(processes);
    let resident_mb = move || {
        let used = processes.upgrade().map(|processes| processes.usage_mb()).unwrap_or_default();
        used.into_iter().map(|(job, mb)| mb.min(promised[job.index()])).sum()
    };
    // A keeper that cannot be asked may have a running job.
    let is_alive = |dir: &Path| Keepers::inspect(dir).map_or(true, |seen| seen.is_busy());
    let mut settings = Settings::new(&shared).resident_mb(resident_mb).jobs_outlive_it(keepers_dir, is_alive);
    if overcommit {
        settings = settings.available_mb(|| None); // jobs do not wait for memory
    } else {
        // In a container, what its control group leaves.
        let most = machine::memory_total_mb().map(|mb| mb - mb / USUALLY_USED);
        settings = settings.available_mb(machine::memory_available_mb).most_mb(most);
    }
    if !config.limits.gpus.is_empty() {
        settings = settings.vram_mb(|| {
            let figures = |card: machine::Gpu| (card.id, card.total_mb, card.used_mb);
            machine::gpus().into_iter().map(figures).collect()
        });
    }
    match surface_neighbours::join(settings) {
        Ok((budget, notifier)) => (builder.neighbours(budget), Some(notifier)),
        Err(error) => {
            say!("bursar: this run does not share its limits with others: {error}");
            (builder, None)
        }
    }
}

/// Checks again which jobs may start whenever other runs give something back. To be dropped before the jobs, which it holds.
pub(crate) fn listen(notifier: Option<Notifier>, jobs: &Jobs) -> Option<Listener> {
    let jobs = jobs.clone();
    let listener = notifier?.listen(move || jobs.poke());
    listener
        .inspect_err(|error| say!("bursar: this run is not notified when other runs give something back: {error}"))
        .ok()
}
