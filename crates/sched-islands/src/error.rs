//! Why an island is refused.
//!
//! Room: values.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mech_cpu::TakeError;
use policy_admission::cpu::AdmitError;
use sched_tasks::TaskError;

/// Why an island is not admitted, or does not run. Nothing has changed then.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum IslandError {
    /// What it asks for does not fit.
    NotAdmitted(Arc<AdmitError>),
    /// The CPUs cannot be had for it alone.
    NotIsolated {
        /// The island.
        island: String,
        /// Why not.
        error: Arc<TakeError>,
    },
    /// The caller's task may not take from others.
    NotAllowed(TaskError),
    /// It asks for no CPU.
    NoCpu {
        /// The island.
        island: String,
    },
    /// Two of its tasks have one name.
    TwoOfOneName {
        /// The island.
        island: String,
        /// The name.
        task: String,
    },
    /// A task comes after one that has another period.
    OtherPeriod {
        /// The island.
        island: String,
        /// The task.
        task: String,
        /// What it comes after.
        after: String,
    },
    /// A period is longer than time is counted.
    PeriodTooLong {
        /// The island.
        island: String,
        /// The task.
        task: String,
        /// Its period, as far as it is counted.
        period: Duration,
    },
    /// Tasks of one CPU do not interrupt each other, and one would come too late because of another.
    Blocked {
        /// The island.
        island: String,
        /// The task.
        task: String,
        /// Its deadline.
        deadline: Duration,
        /// The task it may have to wait for.
        by: String,
        /// For so long.
        budget: Duration,
    },
    /// Its CPUs could not be given back in the time it allows.
    RevocationTooSlow {
        /// The island.
        island: String,
        /// How long it takes.
        latency: Duration,
        /// How long it may take.
        limit: Duration,
    },
    /// More memory than was admitted.
    NoMemory {
        /// The island.
        island: String,
        /// How many bytes are wanted, in whole pages.
        wanted: u64,
        /// How many are left.
        left: u64,
    },
    /// The system does not give the memory.
    System {
        /// The island.
        island: String,
        /// What it was asked for.
        what: &'static str,
        /// What it said.
        error: String,
    },
    /// A closure is for a task that the island does not have, or has a closure for already.
    UnknownTask {
        /// The island.
        island: String,
        /// The task.
        task: String,
    },
    /// A task has no closure.
    Unbound {
        /// The island.
        island: String,
        /// The task.
        task: String,
    },
    /// Its lease was revoked.
    Revoked {
        /// The island.
        island: String,
    },
    /// The system does not permit its realtime policy, and the island requires it.
    NotRealtime {
        /// The island.
        island: String,
        /// On which CPU.
        cpu: u32,
        /// What the system said.
        error: String,
    },
}

impl fmt::Display for IslandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(&mut Printable(f))
    }
}

/// Writes text that commands no terminal, whatever names are in it.
struct Printable<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Printable<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            let plain = part.trim_end_matches(char::is_control);
            self.0.write_str(plain)?;
            part[plain.len()..].chars().try_for_each(|_| self.0.write_str("\u{fffd}"))?;
        }
        Ok(())
    }
}

impl IslandError {
    fn write(&self, f: &mut impl fmt::Write) -> fmt::Result {
        match self {
            Self::NotAdmitted(refused) => write!(f, "{refused}"),
            Self::NotIsolated { island, error } => write!(f, "{island} cannot have CPUs for itself: {error}"),
            Self::NotAllowed(error) => write!(f, "{error}"),
            Self::NoCpu { island } => write!(f, "{island} asks for no CPU; an island needs one, `lease(1)`"),
            Self::TwoOfOneName { island, task } => write!(f, "{island} has two tasks called {task}"),
            Self::OtherPeriod { island, task, after } => {
                write!(f, "{island}: {task} comes after {after}, and has another period; give both the same")
            }
            Self::PeriodTooLong { island, task, period } => {
                write!(f, "{island}: {task} has a period of {period:?}; 100 years is the longest")
            }
            Self::Blocked { island, task, deadline, by, budget } => write!(
                f,
                "{island}: {task} has to be done within {deadline:?} and may have to wait {budget:?} for {by}, which is not interrupted; \
                 give {by} a smaller budget, or lease one CPU more"
            ),
            Self::RevocationTooSlow { island, latency, limit } => write!(
                f,
                "{island} wants its CPUs to be given back within {limit:?}, and it may take {latency:?}; allow that much"
            ),
            Self::NoMemory { island, wanted, left } => write!(
                f,
                "{island} wants {wanted} bytes for a buffer, in whole pages, and {left} are left of what was admitted; ask for more with `memory`"
            ),
            Self::System { island, what, error } => write!(f, "{island}: the system gives no {what}: {error}"),
            Self::UnknownTask { island, task } => {
                write!(f, "{island} has no task {task} without a closure; name each of its tasks once")
            }
            Self::Unbound { island, task } => write!(f, "{island}: task {task} has no closure; give it one with `on`"),
            Self::Revoked { island } => write!(f, "the lease of {island} was revoked"),
            Self::NotRealtime { island, cpu, error } => write!(
                f,
                "{island} requires SCHED_FIFO on CPU {cpu}, and the system refuses it: {error}; run it with that privilege (`ulimit -r`, \
                 CAP_SYS_NICE) or with `Realtime::IfPermitted`"
            ),
        }
    }
}

impl Error for IslandError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotAdmitted(refused) => Some(&**refused),
            Self::NotIsolated { error, .. } => Some(&**error),
            _ => None,
        }
    }
}
