//! How a process tree ended, as an outcome, a message and an exit code.
//!
//! Room: values.

use std::time::Duration;

use mech_process::How;

use policy_jobs::{Cause, megabytes};

use crate::executor::Outcome;

/// The outcome of an attempt whose command ended like this.
pub(super) fn outcome(how: &How) -> Outcome {
    match how {
        How::Exit(0) => Outcome::Succeeded,
        How::Cancelled => Outcome::Stopped,
        _ => Outcome::Failed(Cause::Error(words(how))),
    }
}

/// How it ended, as a short message for people.
///
/// ```
/// use mech_process::How;
/// use sched_jobs::process::words;
///
/// assert_eq!(words(&How::Exit(3)), "exited with 3");
/// assert_eq!(words(&How::Signal(11)), "killed by SIGSEGV");
/// ```
pub fn words(how: &How) -> String {
    match how {
        How::Exit(code) => format!("exited with {code}"),
        How::Signal(number) => match signal_name(*number) {
            Some(name) => format!("killed by {name}"),
            None => format!("killed by signal {number}"),
        },
        How::TimedOut { after } => format!("ran longer than its timeout of {}", span(*after)),
        How::OverMemory { used_mb, limit_mb } => {
            let (used, limit) = (megabytes(*used_mb), megabytes(*limit_mb));
            format!("used {used}, its limit is {limit}: killed")
        }
        How::Cancelled => "cancelled".to_owned(),
        other => other.to_string(),
    }
}

/// The exit code that a shell would return: 128 plus the number of a signal, 124 for a timeout, 127 for a command that could not start.
///
/// ```
/// use mech_process::How;
/// use sched_jobs::process::exit_code;
///
/// assert_eq!((exit_code(&How::Exit(3)), exit_code(&How::Signal(9))), (3, 137));
/// ```
pub fn exit_code(how: &How) -> i32 {
    match how {
        How::Exit(code) => *code,
        How::Signal(number) => 128 + number,
        How::TimedOut { .. } => 124,
        How::OverMemory { .. } => 137,
        How::Cancelled => 130,
        How::CouldNotStart(_) => 127,
        _ => 125, // how it ended is not known: `How::KeeperLost`
    }
}

/// A duration as job files write it.
fn span(time: Duration) -> String {
    let ms = time.as_millis();
    match ms {
        0..1_000 => format!("{ms} ms"),
        _ if !ms.is_multiple_of(1_000) => format!("{:.1} s", time.as_secs_f64()),
        1_000..60_000 => format!("{} s", ms / 1_000),
        _ if !ms.is_multiple_of(60_000) => format!("{} m {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ if !ms.is_multiple_of(3_600_000) => format!("{} m", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_says_what_happened_and_what_the_limit_was() {
        let seconds = Duration::from_secs;
        assert_eq!(words(&How::TimedOut { after: seconds(600) }), "ran longer than its timeout of 10 m");
        assert_eq!(words(&How::TimedOut { after: seconds(90) }), "ran longer than its timeout of 1 m 30 s");
        assert_eq!(
            words(&How::TimedOut { after: Duration::from_millis(1500) }),
            "ran longer than its timeout of 1.5 s"
        );
        assert_eq!(words(&How::TimedOut { after: seconds(7200) }), "ran longer than its timeout of 2 h");
        let over = How::OverMemory { used_mb: 4_200, limit_mb: 4_000 };
        assert_eq!(words(&over), "used 4.2 GB, its limit is 4.0 GB: killed");
        assert_eq!(words(&How::Signal(64)), "killed by signal 64");
    }

    #[test]
    fn only_an_exit_with_0_is_a_success() {
        assert_eq!(outcome(&How::Exit(0)), Outcome::Succeeded);
        assert_eq!(outcome(&How::Cancelled), Outcome::Stopped);
        for how in [How::Exit(1), How::Signal(9), How::KeeperLost, How::CouldNotStart("no".to_owned())] {
            assert!(matches!(outcome(&how), Outcome::Failed(Cause::Error(_))), "{how:?}");
        }
    }
}
