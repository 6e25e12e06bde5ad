//! The states of a supervised child, and the one function that moves it.
//!
//! Room: state.
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
//! 1 `SupervisorLoop::launch`, 2 `SupervisorLoop::on_child_report`, 3 `SupervisorLoop::begin_stop`, 4
//! `SupervisorLoop::ended`, 5 `SupervisorLoop::queue`. A child that was asked to stop ends as Stopped, also if it
//! failed; its error is kept beside.

use std::fmt;

/// The state of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildState {
    /// Not started yet: the children before it come first.
    Waiting,
    /// It was given a fiber, and has not reported that it is ready.
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
pub enum ChildEvent {
    /// It was given a fiber.
    Launched,
    /// It is ready.
    Started,
    /// It is to end.
    StopAsked,
    /// It ended well.
    Returned,
    /// It ended with an error.
    Failed,
    /// It is to be started again.
    Queued,
}

/// An event that cannot happen in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IllegalStep {
    /// The state it was in.
    pub from: ChildState,
    /// What was to happen.
    pub event: ChildEvent,
}

impl ChildState {
    /// The only function that makes one `ChildState` from another.
    pub const fn after(self, event: ChildEvent) -> Result<ChildState, IllegalStep> {
        use {ChildEvent as E, ChildState as S};
        Ok(match (self, event) {
            (S::Waiting | S::Restarting, E::Launched) => S::Starting,
            (S::Starting, E::Started) => S::Running,
            (S::Starting | S::Running, E::StopAsked) => S::Stopping,
            // It got ready before it saw that it is to stop, or is asked once more.
            (S::Stopping, E::Started | E::StopAsked) => S::Stopping,
            (S::Waiting | S::Restarting, E::StopAsked) => S::Stopped,
            (S::Starting | S::Running | S::Stopping, E::Returned) | (S::Stopping, E::Failed) => S::Stopped,
            (S::Starting | S::Running, E::Failed) => S::Failed,
            (S::Stopped | S::Failed | S::Restarting, E::Queued) => S::Restarting,
            (S::Waiting, E::Queued) => S::Waiting,
            // A child that has ended need not be asked.
            (S::Stopped | S::Failed, E::StopAsked) => self,
            (from, event) => return Err(IllegalStep { from, event }),
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
    use super::{ChildEvent as E, ChildState as S};

    const STATES: [S; 7] = [S::Waiting, S::Starting, S::Running, S::Stopping, S::Restarting, S::Stopped, S::Failed];

    #[test]
    fn only_one_with_a_fiber_can_end() {
        for state in STATES {
            for ending in [E::Returned, E::Failed] {
                assert_eq!(state.after(ending).is_ok(), state.has_fiber(), "{state} after {ending:?}");
            }
        }
    }

    #[test]
    fn one_that_was_asked_to_stop_never_counts_as_failed() {
        for state in STATES {
            let asked = state.after(E::StopAsked).unwrap();
            for ending in [E::Returned, E::Failed] {
                assert_ne!(asked.after(ending), Ok(S::Failed), "{state}");
            }
        }
    }

    #[test]
    fn one_that_ended_is_launched_only_after_it_was_queued() {
        for state in [S::Stopped, S::Failed] {
            assert!(state.after(E::Launched).is_err());
            assert_eq!(state.after(E::Queued).unwrap().after(E::Launched), Ok(S::Starting));
        }
    }
}
