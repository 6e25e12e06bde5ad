//! What earlier runs say about this one: estimates of what jobs need, and which jobs are up to date.
//!
//! Room: driver.
//!
//! # Invariant
//! In doubt a job runs: it is skipped only if everything it needs is skipped, its outputs are newer than its inputs, what it reads is as it was, and they are as the same command
//! left them when it succeeded.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use sched_jobs::process::Stamp;
use surface_jobfile::{Freshness, Plan};
use surface_journal::{Estimate, FileStamp, Journal, JournalError, Output, group_fingerprint};

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

/// What is known of the files that a plan's jobs make.
#[derive(Default)]
pub(crate) struct KnownOutputs(HashMap<PathBuf, Output>);

impl KnownOutputs {
    /// Asks the journal, once for all of them.
    pub(crate) fn of(journal: &Journal, plan: &Plan) -> Result<KnownOutputs, JournalError> {
        let paths: Vec<PathBuf> = plan.jobs.iter().flat_map(|job| job.output_paths(&plan.base)).collect();
        let known = journal.outputs(&paths)?;
        Ok(KnownOutputs(paths.into_iter().zip(known).filter_map(|(path, known)| Some((path, known?))).collect()))
    }

    /// Why the outputs of a job, which exist, cannot be trusted, if so.
    fn doubt(&self, plan: &Plan, at: usize) -> Option<String> {
        let (job, base) = (&plan.jobs[at], &plan.base);
        let reads = LazyCell::new(|| plan.sources_hash(at));
        job.output_paths(base).iter().zip(&job.outputs).find_map(|(path, output)| {
            let now = Stamp::of(path)?.map(|Stamp { size, changed_ns }| FileStamp { size, changed_ns });
            match self.0.get(path) {
                None => Some("no earlier success is known".to_owned()),
                Some(known) if !known.is_whole => Some(format!("output {output} was left incomplete")),
                Some(known) if known.fingerprint != job.fingerprint() => Some("its command has changed".to_owned()),
                Some(known) if known.inputs.is_some_and(|then| then != *reads) => {
                    Some("what it reads was changed since it started".to_owned())
                }
                Some(known) if !known.is_as_made(now) => Some(format!("output {output} was changed since it was made")),
                Some(_) => None,
            }
        })
    }
}

/// Why each job runs, in the order of the plan; `None` if it need not.
pub(crate) fn reasons_to_run(plan: &Plan, known: &KnownOutputs) -> Vec<Option<String>> {
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
            Freshness::Fresh => known.doubt(plan, at),
        };
    }
    reasons
}

/// Memory of an estimate in MB (10^6 bytes), at least 1: 0 would be "takes none".
pub(crate) fn ram_mb(estimate: &Estimate) -> u64 {
    estimate.peak_rss_kb.div_ceil(1_000).max(1)
}
