//! What earlier runs teach about this one: what jobs will need, and which need not run.
//!
//! # Invariant
//! In doubt a job runs: it is skipped only if its outputs are up to date, everything it needs is skipped, and the last success under
//! its name was of the same command.

use std::collections::HashMap;
use std::path::Path;

use surface_jobfile::{Freshness, Plan};
use surface_journal::{Estimate, Filter, Journal, JournalError, State, group_fingerprint};

/// How many earlier runs of a file are looked at for the last success of each job.
const RUNS_LOOKED_AT: usize = 10;

/// What each job needed earlier, in the order of the plan; by its own command, else, if wanted, by others of its group.
pub(crate) fn estimates(
    journal: &Journal,
    plan: &Plan,
    file: Option<&Path>,
    by_group: bool,
) -> Result<Vec<Option<Estimate>>, JournalError> {
    let own: Vec<u64> = plan.jobs.iter().map(surface_jobfile::Job::fingerprint).collect();
    let mut estimates = journal.estimates(&own)?;
    let mut groups: HashMap<&str, u64> = HashMap::new();
    for (job, estimate) in plan.jobs.iter().zip(&estimates) {
        if estimate.is_none() && by_group {
            groups.entry(&job.group).or_insert_with(|| group_fingerprint(file, &job.group));
        }
    }
    if groups.is_empty() {
        return Ok(estimates);
    }
    let (names, prints): (Vec<&str>, Vec<u64>) = groups.into_iter().unzip();
    let by_group: HashMap<&str, Estimate> = names
        .into_iter()
        .zip(journal.estimates(&prints)?)
        .filter_map(|(name, estimate)| Some((name, estimate?)))
        .collect();
    for (job, estimate) in plan.jobs.iter().zip(&mut estimates) {
        *estimate = estimate.or_else(|| by_group.get(job.group.as_str()).copied());
    }
    Ok(estimates)
}

/// The command of the last success of each job, by name, in earlier runs of the same file.
pub(crate) fn last_commands(journal: &Journal, file: Option<&Path>) -> Result<HashMap<String, u64>, JournalError> {
    let mut commands = HashMap::new();
    let runs = journal.runs(Filter { limit: Some(200), ..Filter::default() })?;
    for run in runs.iter().filter(|run| run.file.is_some() && run.file.as_deref() == file).take(RUNS_LOOKED_AT) {
        for job in journal.jobs(&run.id)?.into_iter().filter(|job| job.state == State::Succeeded) {
            commands.entry(job.name).or_insert(job.fingerprint);
        }
    }
    Ok(commands)
}

/// Why each job runs, in the order of the plan; `None` if it need not.
pub(crate) fn reasons_to_run(plan: &Plan, last: &HashMap<String, u64>) -> Vec<Option<String>> {
    let mut reasons: Vec<Option<String>> = vec![Some(String::from("always")); plan.jobs.len()];
    for at in plan.order().unwrap_or_default() {
        let job = &plan.jobs[at];
        if let Some(need) = job.needs.iter().find(|need| reasons[**need].is_some()) {
            reasons[at] = Some(format!("it needs {}", plan.jobs[*need].name));
            continue;
        }
        reasons[at] = match job.up_to_date(&plan.base) {
            Freshness::Undeclared => Some("it declares no outputs".to_owned()),
            Freshness::Stale(reason) => Some(reason),
            Freshness::Fresh => match last.get(&job.name) {
                Some(print) if *print == job.fingerprint() => None,
                Some(_) => Some("its command has changed".to_owned()),
                None => Some("no earlier success is known".to_owned()),
            },
        };
    }
    reasons
}

/// Memory of an estimate in MB (10^6 bytes), at least 1: 0 would be "takes none".
pub(crate) fn ram_mb(estimate: &Estimate) -> u64 {
    (estimate.peak_rss_kb.saturating_mul(1_024)).div_ceil(1_000_000).max(1)
}
