//! `bursar run`: a graph of commands, or one, within what the machine has; recorded, so that it can go on after a crash.
//!
//! Room: surface. Reads files, starts keepers and writes the journal; what runs when is decided by `sched-jobs`.
//!
//! - `options.rs`: what can be said; `limits.rs`: what it comes to; `plan.rs`: the jobs.
//! - `learn.rs`: what earlier runs teach; `left.rs`: what an earlier life of this run left.
//! - `begin.rs`: a new run; `resume.rs`: one that goes on; `stage.rs`: what both do.
//! - `front.rs`: what is shown, and the socket that others steer it by; `share.rs`: one budget with other runs.
//! - `record.rs`: into the journal; `steward.rs`: signals and other interruptions.

mod begin;
mod cards;
mod dry;
mod execute;
mod follow;
mod frontend;
mod initial_state;
mod learn;
mod limits;
mod options;
mod plan;
mod record;
mod resume;
mod share;
mod signal_handler;
mod submit;

pub(crate) use self::options::Options;
use crate::exit::Failure;

/// Refuses what `run` would refuse though the file is right: jobs that no graphics card of this machine can ever hold, flow files that are wrong.
pub(crate) fn check(plan: &surface_jobfile::Plan) -> Result<(), Failure> {
    begin::check_flows(plan)?;
    // No history changes what a job takes of cards.
    let demands: Vec<_> = plan.jobs.iter().map(|job| submit::demand(job, None, false)).collect();
    begin::check_cards(plan, &demands, &begin::settle(plan, &options::LimitArgs::default()))
}

/// Runs what the options say. Gives the code for the shell.
pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    if options.retry_failed && options.resume.is_none() {
        let message = "--retry-failed is about a run that has ended; write `bursar run --resume [RUN] --retry-failed`";
        return Err(Failure::usage(message.to_owned()));
    }
    match &options.resume {
        Some(wanted) => resume::resume(options, wanted.as_deref()),
        None => begin::begin(options),
    }
}
