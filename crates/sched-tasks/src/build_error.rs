//! Why a runtime was not built.
//!
//! Room: values.

use std::{error::Error, fmt, sync::Arc};

use policy_admission::{CapError, Profile};

/// Why a runtime could not be made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum BuildError {
    /// Not between 1 and 256.
    Workers {
        /// How many were asked for.
        wanted: usize,
    },
    /// The stacks could not be reserved as asked for.
    Stacks(Arc<mech_fiber::StackError>),
    /// The profile has no scheduler.
    NoScheduler {
        /// The profile.
        profile: Profile,
    },
    /// The profile needs everything granted by a ledger, and there is none.
    NoLedger {
        /// The profile.
        profile: Profile,
    },
    /// A capability is missing, revoked or used up.
    NotAllowed(CapError),
    /// The system would not start a thread.
    Thread {
        /// Which worker it was for.
        worker: usize,
        /// What the system said.
        error: Arc<std::io::Error>,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoScheduler { profile } => {
                write!(
                    f,
                    "the profile {profile} has no scheduler; build with `.profile(Profile::Service)` to have tasks"
                )
            }
            BuildError::NoLedger { profile } => {
                write!(f, "in the profile {profile} everything is granted by name; build with `.ledger(&ledger)`")
            }
            BuildError::NotAllowed(error) => error.fmt(f),
            BuildError::Workers { wanted } => write!(
                f,
                "{wanted} workers wanted, but a runtime has 1 to {}; leave `.workers()` out for one per CPU",
                crate::MAX_WORKERS
            ),
            BuildError::Stacks(error) => f.write_str(&about_stacks(error)),
            BuildError::Thread { worker, error } => write!(
                f,
                "no thread for worker {worker}: {error}; ask for fewer workers or raise the process limit (`ulimit -u`)"
            ),
        }
    }
}

impl Error for BuildError {}

/// What is wrong with the stacks, in terms of [`crate::Builder`].
pub(crate) fn about_stacks(error: &mech_fiber::StackError) -> String {
    error.to_string().replace("`max_stacks`", "`max_fibers`").replace("a second slab", "a second runtime")
}
