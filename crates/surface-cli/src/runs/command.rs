//! The command of a job of a plan.
//!
//! Room: surface.

use std::ffi::OsString;
use std::time::Duration;

use sched_jobs::process::{Class, Command, OnCrash, OverRam, ProcessLimits, Reservation};
use surface_jobfile::{self as jobfile, Plan};

/// Limit of disk space for a log, unless its job sets another, in MB.
const LOG_LIMIT_MB: u64 = 1_000;

/// Limit of disk space for a log of a job. `None`: no limit.
pub(crate) fn log_bytes_max(job: &jobfile::Job) -> Option<u64> {
    let mb = job.log_limit_mb.unwrap_or(LOG_LIMIT_MB);
    (mb > 0).then(|| mb.saturating_mul(1_000_000))
}

/// What a job may use, and how the system treats it; `class` is that of jobs that do not say their own.
pub(crate) fn limits(job: &jobfile::Job, class: Option<Class>) -> ProcessLimits {
    let time = Duration::from_micros;
    let reservation = job.reservation.map(|jobfile::Reservation { budget_us, deadline_us, period_us }| Reservation {
        budget: time(budget_us),
        deadline: time(deadline_us),
        period: time(period_us),
    });
    ProcessLimits {
        wall: job.timeout_ms.map(Duration::from_millis),
        ram_mb: job.ram_limit_mb,
        over_ram: match job.over_ram {
            jobfile::OverRam::Kill => OverRam::Kill,
            jobfile::OverRam::Warn => OverRam::Warn,
        },
        cpus: (!job.cpus.is_empty()).then(|| job.cpus.iter().map(|cpu| *cpu as usize).collect()),
        nice: job.nice,
        class: job.class.map(of_file).or(class).filter(|_| reservation.is_none()),
        weight: job.weight,
        reservation,
    }
}

fn of_file(class: jobfile::Class) -> Class {
    match class {
        jobfile::Class::Normal => Class::Normal,
        jobfile::Class::Latency => Class::Latency,
        jobfile::Class::Batch => Class::Batch,
        jobfile::Class::Idle => Class::Idle,
    }
}

/// The command of a job.
pub(crate) fn command(job: &jobfile::Job, plan: &Plan, keep_incomplete: bool) -> Command {
    let mut argv: Vec<OsString> = job.action.argv().into_iter().map(OsString::from).collect();
    let own = job.flow_path(&plan.base).or_else(|| job.exec_path(&plan.base).map(|(file, _)| file));
    if let Some(file) = own {
        // This program, wherever it is. From a keeper that is the same file.
        argv[0] = std::env::current_exe().map_or_else(|_| "/proc/self/exe".into(), OsString::from);
        argv.pop();
        argv.push(file.into());
    }
    let mut command = Command::new(argv);
    command.env = job.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    command.cwd = Some(job.folder(&plan.base));
    command.limits = limits(job, None);
    if let Some(ms) = job.grace_ms {
        command.grace = Duration::from_millis(ms);
    }
    command.log_bytes_max = log_bytes_max(job);
    command.outputs = job.output_paths(&plan.base);
    command.keep_incomplete = keep_incomplete || job.incomplete == jobfile::Incomplete::Keep;
    command.on_crash = match job.on_crash {
        jobfile::OnCrash::Adopt => OnCrash::Adopt,
        jobfile::OnCrash::Restart => OnCrash::Restart,
        jobfile::OnCrash::Fail => OnCrash::Fail,
    };
    command
}
