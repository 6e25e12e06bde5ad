//! The states of a nursery, and the one function that moves it.
//!
//! Room: state.
//!
//! ```text
//!               close 1               last child ended 3
//!      Open ───────────────► Closing ─────────────────────► Closed
//!        │                      │
//!        │ cancel 2             │ cancel 2
//!        └─────────► Cancelling ◄┘
//!                        │ last child ended 3
//!                        ▼
//!                    Cancelled
//! ```
//! 1 `NurseryCore::close`, 2 `NurseryCore::cancel`, 3 `NurseryCore::end`. A body that returns does not close its nursery: children
//! may spawn siblings until the last of them has ended. Then the nursery passes through Closing to its end.

use std::fmt;

/// The state of a nursery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum NurseryState {
    /// Takes tasks.
    Open = 0,
    /// Takes no more tasks, and waits for those it has.
    Closing = 1,
    /// Has cancelled its tasks, and waits for them.
    Cancelling = 2,
    /// All tasks ended.
    Closed = 3,
    /// All tasks ended, after a cancellation.
    Cancelled = 4,
}

/// What happens to a nursery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NurseryEvent {
    /// It takes no more tasks.
    Close,
    /// A child failed, time was up, or a caller cancelled it.
    Cancel,
    /// The body returned and the last child ended.
    LastChildEnded,
}

/// An event that cannot happen in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IllegalMove {
    /// The state it was in.
    pub from: NurseryState,
    /// What was to happen.
    pub event: NurseryEvent,
}

impl NurseryState {
    /// The only function that makes one `NurseryState` from another.
    pub const fn after(self, event: NurseryEvent) -> Result<NurseryState, IllegalMove> {
        use {NurseryEvent as E, NurseryState as S};
        Ok(match (self, event) {
            (S::Open | S::Closing, E::Close) => S::Closing,
            (S::Open | S::Closing, E::Cancel) => S::Cancelling,
            (S::Open | S::Closing, E::LastChildEnded) => S::Closed,
            (S::Cancelling, E::LastChildEnded) => S::Cancelled,
            // Closing or cancelling again, or too late, lost a race; it broke no rule.
            (S::Cancelling | S::Closed | S::Cancelled, E::Close | E::Cancel) => self,
            (S::Closed | S::Cancelled, E::LastChildEnded) => return Err(IllegalMove { from: self, event }),
        })
    }

    /// Whether tasks may be spawned into it.
    pub const fn takes_tasks(self) -> bool {
        matches!(self, NurseryState::Open)
    }

    /// Whether its tasks were cancelled.
    pub const fn is_cancelled(self) -> bool {
        matches!(self, NurseryState::Cancelling | NurseryState::Cancelled)
    }

    pub(crate) const fn from_bits(bits: u8) -> NurseryState {
        match bits {
            0 => NurseryState::Open,
            1 => NurseryState::Closing,
            2 => NurseryState::Cancelling,
            3 => NurseryState::Closed,
            _ => NurseryState::Cancelled,
        }
    }
}

impl fmt::Display for NurseryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NurseryState::Open => "open",
            NurseryState::Closing => "closing",
            NurseryState::Cancelling => "cancelling",
            NurseryState::Closed => "closed",
            NurseryState::Cancelled => "cancelled",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{NurseryEvent as E, NurseryState as S};

    const STATES: [S; 5] = [S::Open, S::Closing, S::Cancelling, S::Closed, S::Cancelled];

    #[test]
    fn an_ended_nursery_never_moves_again() {
        for state in [S::Closed, S::Cancelled] {
            assert_eq!(state.after(E::Close), Ok(state));
            assert_eq!(state.after(E::Cancel), Ok(state));
            assert!(state.after(E::LastChildEnded).is_err());
        }
    }

    #[test]
    fn a_cancelled_nursery_never_ends_as_closed() {
        for state in STATES {
            let cancelled = state.after(E::Cancel).unwrap();
            if let Ok(end) = cancelled.after(E::LastChildEnded) {
                assert_eq!(end, S::Cancelled);
            }
        }
    }

    #[test]
    fn bits_and_states_are_the_same_thing() {
        for state in STATES {
            assert_eq!(S::from_bits(state as u8), state);
        }
    }
}
