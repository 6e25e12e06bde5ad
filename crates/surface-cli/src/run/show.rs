//! What is happening, in plain lines.

use std::collections::HashMap;
use std::thread::JoinHandle;

use sched_jobs::{Event, Jobs, What};
use surface_jobfile::Plan;

/// Lines that are being printed.
pub(crate) struct Shown(Option<JoinHandle<()>>);

/// Prints what happens to the jobs from now on.
pub(crate) fn start(jobs: &Jobs, plan: &Plan, run: &str, is_quiet: bool, _is_json: bool) -> Shown {
    if is_quiet {
        return Shown(None);
    }
    println!("run {run}: {} jobs", plan.jobs.len());
    let names: Vec<String> = plan.jobs.iter().map(|job| job.name.clone()).collect();
    let mut events = jobs.events();
    let mut open = names.len();
    let thread = std::thread::spawn(move || {
        let mut started = HashMap::new();
        while open > 0 {
            let Some(event) = events.recv() else { return };
            let Event { job, what, .. } = event;
            let name = &names[job.index()];
            let took = |started: &HashMap<_, std::time::Duration>| {
                started.get(&job).map_or(0.0, |at| (event.at().saturating_sub(*at)).as_secs_f64())
            };
            match what {
                What::Started { attempt } => {
                    started.insert(job, event.at());
                    println!("started {name} (attempt {attempt})");
                }
                What::Retrying { attempt, after_ms } => {
                    println!("retry   {name} in {after_ms} ms: attempt {attempt} failed")
                }
                What::Succeeded => println!("done    {name} {:.1} s", took(&started)),
                What::Failed => println!("failed  {name} {:.1} s", took(&started)),
                What::Canceled => println!("canceled {name}"),
                What::Revived => open += 1,
                _ => {}
            }
            open -= usize::from(matches!(what, What::Succeeded | What::Failed | What::Canceled));
        }
    });
    Shown(Some(thread))
}

impl Shown {
    /// Everything has ended.
    pub(crate) fn finish(self) {
        drop(self.0);
    }
}
