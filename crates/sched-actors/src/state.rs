//! The states of a supervised child, and the one function that moves it.
//!
//! ```text
//!             launched 1             started 2
//!   Waiting ─────────────► Starting ───────────► Running ─┐
//!      │                    ▲  │  └── stop asked 3 ──┐    │ stop asked 3
//!      │         launched 1 │  │                     ▼    ▼
//!      │      Restarting ───┘  │ returned 4        Stopping
//!      │          ▲            │ failed 4             │ returned 4, failed 4
//!      │ stop     │ queued 5   ▼                      ▼
//!      └ asked 3 ─┼──── Stopped or Failed ◄───────────┘
//!                 └───────────┘
//! ```
//! 1 `Keeper::launch`, 2 `Keeper::heard`, 3 `Keeper::begin_stop`, 4 `Keeper::ended`, 5 `Keeper::queue`. One that was asked to stop ends as Stopped, however it
//! took it; what it said is kept beside.

use std::fmt;

/// Where a child stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildState {
    /// Not started yet: those before it come first.
    Waiting,
    /// It was given a fiber, and has not said that it is ready.
    Starting,
    /// It runs.
    Running,
    /// It was asked to stop.
    Stopping,
    /// It ended and will be started again.
    Restarting,
    /// It returned or was stopped.
    Stopped,
    /// It failed, and is not started again.
    Failed,
}

/// What happens to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// It was given a fiber.
    Launched,
    /// It is ready.
    Started,
    /// It is to end.
    StopAsked,
    /// It ended well.
    Returned,
    /// It ended otherwise.
    Failed,
    /// It is to be started again.
    Queued,
}

/// Something that cannot happen in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IllegalStep {
    /// The state it was in.
    pub from: ChildState,
    /// What was to happen.
    pub happening: Happening,
}

impl ChildState {
    /// The only function that makes one `ChildState` from another.
    pub const fn after(self, happening: Happening) -> Result<ChildState, IllegalStep> {
        use {ChildState as S, Happening as H};
        Ok(match (self, happening) {
            (S::Waiting | S::Restarting, H::Launched) => S::Starting,
            (S::Starting, H::Started) => S::Running,
            (S::Starting | S::Running, H::StopAsked) => S::Stopping,
            // It got ready before it heard that it is to stop, or is asked once more.
            (S::Stopping, H::Started | H::StopAsked) => S::Stopping,
            (S::Waiting | S::Restarting, H::StopAsked) => S::Stopped,
            (S::Starting | S::Running | S::Stopping, H::Returned) | (S::Stopping, H::Failed) => S::Stopped,
            (S::Starting | S::Running, H::Failed) => S::Failed,
            (S::Stopped | S::Failed | S::Restarting, H::Queued) => S::Restarting,
            (S::Waiting, H::Queued) => S::Waiting,
            // Whoever has ended need not be asked.
            (S::Stopped | S::Failed, H::StopAsked) => self,
            (from, happening) => return Err(IllegalStep { from, happening }),
        })
    }

    /// Whether it has a fiber.
    pub const fn has_fiber(self) -> bool {
        matches!(self, ChildState::Starting | ChildState::Running | ChildState::Stopping)
    }

    /// Whether it runs or will: it has not ended for good.
    pub const fn is_alive(self) -> bool {
        !matches!(self, ChildState::Stopped | ChildState::Failed)
    }
}

impl fmt::Display for ChildState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ChildState::Waiting => "waiting",
            ChildState::Starting => "starting",
            ChildState::Running => "running",
            ChildState::Stopping => "stopping",
            ChildState::Restarting => "restarting",
            ChildState::Stopped => "stopped",
            ChildState::Failed => "failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ChildState as S, Happening as H};

    const STATES: [S; 7] = [S::Waiting, S::Starting, S::Running, S::Stopping, S::Restarting, S::Stopped, S::Failed];

    #[test]
    fn only_one_with_a_fiber_can_end() {
        for state in STATES {
            for ending in [H::Returned, H::Failed] {
                assert_eq!(state.after(ending).is_ok(), state.has_fiber(), "{state} after {ending:?}");
            }
        }
    }

    #[test]
    fn one_that_was_asked_to_stop_never_counts_as_failed() {
        for state in STATES {
            let asked = state.after(H::StopAsked).unwrap();
            for ending in [H::Returned, H::Failed] {
                assert_ne!(asked.after(ending), Ok(S::Failed), "{state}");
            }
        }
    }

    #[test]
    fn one_that_ended_is_launched_only_after_it_was_queued() {
        for state in [S::Stopped, S::Failed] {
            assert!(state.after(H::Launched).is_err());
            assert_eq!(state.after(H::Queued).unwrap().after(H::Launched), Ok(S::Starting));
        }
    }
}
