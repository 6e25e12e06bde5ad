//! `bursar run`: a DAG of commands, or one command, within limits; recorded, so that it can be resumed after a crash.
//!
//! Room: surface.
//!
//! Reads files, starts keepers and writes the journal; what runs when is decided by `sched-jobs`.
//!
//! - `options.rs`: the command line; `limits.rs`: the limits; `plan.rs`: the jobs.
//! - `learn.rs`: estimates from earlier runs; `initial_state.rs`: how the jobs of a resumed run continue.
//! - `begin.rs`: a new run; `resume.rs`: a resumed one; `execute.rs`: what both do.
//! - `slurm.rs`: jobs that go to Slurm.
//! - `frontend.rs`: the display and the control socket; `share.rs`: one budget with other runs.
//! - `record.rs`: events into the journal; `signal_handler.rs`: signals and other interruptions.

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
pub(crate) mod slurm;
mod submit;

pub(crate) use self::options::Options;
use crate::exit::Failure;

/// Refuses what `run` would refuse though the file is valid: jobs that never fit into the hard limits, CPUs that are not there, and flow files that are not
/// valid.
pub(crate) fn check(plan: &surface_jobfile::Plan) -> Result<(), Failure> {
    begin::check_flows(plan)?;
    begin::check_programs(plan)?;
    begin::check_cpus(plan)?;
    // What a job takes of what is hard does not depend on history.
    let demands: Vec<_> = plan.jobs.iter().map(|job| submit::demand(job, None, false)).collect();
    begin::check_demands(plan, &demands, &begin::settle(plan, &options::LimitArgs::default()))
}

/// Runs what the options ask for. Returns the exit code.
pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    if options.retry_failed && options.resume.is_none() {
        let message = "--retry-failed needs a run that has ended; write `bursar run --resume [RUN] --retry-failed`";
        return Err(Failure::usage(message.to_owned()));
    }
    // clap does not insist on `requires` where the required argument conflicts with one that is given.
    let of_commands = [
        ("--priority", options.priority.is_some()),
        ("--timeout", options.timeout.is_some()),
        ("--log-limit", options.log_limit.is_some()),
        ("--name", options.name.is_some()),
    ];
    if let Some((option, _)) = of_commands.iter().find(|(_, given)| *given && options.command.is_empty()) {
        let message = format!(
            "{option} is for a single command (`bursar run {option} … -- COMMAND`); for jobs of a file, set it in the file"
        );
        return Err(Failure::usage(message));
    }
    match &options.resume {
        Some(wanted) => resume::resume(options, wanted.as_deref()),
        None => begin::begin(options),
    }
}
