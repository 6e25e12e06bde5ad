//! The states of a job, and the one function that moves it.
//!
//! Room: state.
//!
//! ```text
//!            1            2             3
//!   Queued ----> Ready ------> Running ----> Succeeded
//!    ^ | ^  \      | ^   \       | ^   \ 4
//!    | | |   \6    | |    \6     | |    +--> Failed --7--+
//!    | |5|8   \    | |8    \     | |8   \ 6              |
//!    | v |     \   v |5     \    v |5    +-> Cancelled    |
//!    | Paused   \ Paused     \  Paused        |9         |
//!    +----------------------------------------+----------+
//!
//!   1 all dependencies succeeded    4 failed            7 tried again, after a back-off or on request
//!   2 chosen                        5 paused            8 resumed: back to the state it was paused from
//!   3 returned                      6 cancelled         9 revived: what cancelled it is tried again
//! ```
//!
//! # Invariant
//! No job leaves `Succeeded`. A job leaves `Failed` or `Cancelled` only by a retry. So each life cycle, from a submission or a retry to its end, ends in exactly
//! one of the three.

use core::fmt;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It waits for a dependency, or for the end of a back-off.
    Queued,
    /// It waits only for room.
    Ready,
    /// It runs.
    Running,
    /// A user paused it; it continues when it is resumed.
    Paused,
    /// It succeeded. This never changes.
    Succeeded,
    /// Its last attempt failed.
    Failed,
    /// A user cancelled it, or an ancestor of it failed.
    Cancelled,
}

/// What can happen to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Move {
    /// The last dependency succeeded, or the back-off is over.
    Unblocked,
    /// It was chosen to run.
    Chosen,
    /// It was paused.
    Paused,
    /// It was resumed, and goes back to the state it was paused from: `Queued`, `Ready` or `Running`.
    Resumed(State),
    /// It returned successfully.
    Succeeded,
    /// It failed.
    Failed,
    /// It was cancelled, or an ancestor failed or was cancelled.
    Cancelled,
    /// It is retried after a failure.
    Retried,
    /// The ancestor it was cancelled for is retried, so it waits for that one again.
    Revived,
}

/// A move that no job makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IllegalMove {
    /// Where the job was.
    pub from: State,
    /// What happened to it.
    pub event: Move,
}

impl State {
    /// All states, in the order of a life cycle.
    pub const ALL: [State; 7] =
        [State::Queued, State::Ready, State::Running, State::Paused, State::Succeeded, State::Failed, State::Cancelled];

    /// The only function that makes one `State` from another.
    ///
    /// # Errors
    /// If no job makes that move.
    pub const fn after(self, event: Move) -> Result<State, IllegalMove> {
        use {Move as E, State as S};
        Ok(match (self, event) {
            (S::Queued, E::Unblocked) => S::Ready,
            (S::Ready, E::Chosen) => S::Running,
            (S::Running, E::Succeeded) => S::Succeeded,
            (S::Running, E::Failed) => S::Failed,
            (S::Queued | S::Ready | S::Running, E::Paused) => S::Paused,
            (S::Paused, E::Resumed(to @ (S::Queued | S::Ready | S::Running))) => to,
            (S::Queued | S::Ready | S::Running | S::Paused, E::Cancelled) => S::Cancelled,
            (S::Failed, E::Retried) | (S::Cancelled, E::Revived) => S::Queued,
            (from, event) => return Err(IllegalMove { from, event }),
        })
    }

    /// Whether the job has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, State::Succeeded | State::Failed | State::Cancelled)
    }

    /// The state as one lower-case word, as in listings and journals.
    pub const fn name(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Ready => "ready",
            State::Running => "running",
            State::Paused => "paused",
            State::Succeeded => "succeeded",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }

    /// The state with that name. The American spelling is accepted, because older journals have it.
    pub fn from_name(name: &str) -> Option<State> {
        let name = if name == "canceled" { "cancelled" } else { name };
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for IllegalMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a job that is {} cannot be {:?}", self.from, self.event)
    }
}

impl core::error::Error for IllegalMove {}

#[cfg(test)]
mod tests {
    use super::{Move, State};

    #[test]
    fn a_job_makes_exactly_the_moves_that_are_drawn() {
        use {Move as E, State as S};
        let legal = [
            (S::Queued, E::Unblocked, S::Ready),
            (S::Queued, E::Paused, S::Paused),
            (S::Queued, E::Cancelled, S::Cancelled),
            (S::Ready, E::Chosen, S::Running),
            (S::Ready, E::Paused, S::Paused),
            (S::Ready, E::Cancelled, S::Cancelled),
            (S::Running, E::Paused, S::Paused),
            (S::Running, E::Succeeded, S::Succeeded),
            (S::Running, E::Failed, S::Failed),
            (S::Running, E::Cancelled, S::Cancelled),
            (S::Paused, E::Resumed(S::Queued), S::Queued),
            (S::Paused, E::Resumed(S::Ready), S::Ready),
            (S::Paused, E::Resumed(S::Running), S::Running),
            (S::Paused, E::Cancelled, S::Cancelled),
            (S::Failed, E::Retried, S::Queued),
            (S::Cancelled, E::Revived, S::Queued),
        ];
        let events =
            [E::Unblocked, E::Chosen, E::Paused, E::Succeeded, E::Failed, E::Cancelled, E::Retried, E::Revived]
                .into_iter()
                .chain(S::ALL.map(E::Resumed));
        for event in events {
            for from in S::ALL {
                let expected = legal.iter().find(|row| (row.0, row.1) == (from, event)).map(|row| row.2);
                assert_eq!(from.after(event).ok(), expected, "{from} and {event:?}");
            }
        }
    }

    #[test]
    fn every_state_is_found_by_its_name() {
        for state in State::ALL {
            assert_eq!(State::from_name(state.name()), Some(state));
        }
        assert_eq!(State::from_name("canceled"), Some(State::Cancelled), "as older journals have it");
    }
}
