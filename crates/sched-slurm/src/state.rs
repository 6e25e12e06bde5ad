//! Where an attempt stands, between this program and Slurm.
//!
//! Room: state.
//!
//! ```text
//!             1              3             5
//!  Wanted ────────► Submitted ────► Began ────► Ended
//!     ▲  └───────────── 3 ───────────▲           ▲
//!     │       2        │             │           │
//!     └────────────────┘             └─ 5 from any of them: marks may be seen late
//!  Wanted, Submitted ── 4 ──► Revoked
//! ```
//!
//! # Invariant
//! What is revoked never begins.
//!
//! # Why it holds
//! It is revoked only after this program has taken the permit, and a script begins only after it has taken it.

use core::fmt;

/// The state of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// It has a permit and is to be submitted.
    Wanted,
    /// Slurm has accepted it.
    Submitted,
    /// Its script has taken the permit: the command runs, or has run.
    Began,
    /// How it ended is known, or known to be unknowable.
    Ended,
    /// This program has taken the permit: it will never begin.
    Revoked,
}

/// What moves an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// 1. Slurm has accepted it, or has it in its queue.
    Accepted,
    /// 2. Slurm does not know it any more, and it has not begun.
    Forgotten,
    /// 3. Its script has taken the permit.
    Started,
    /// 4. This program has taken the permit.
    Revoked,
    /// 5. Its mark of the end was read, or it is lost.
    Finished,
}

/// A move that no attempt makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IllegalMove {
    /// The state it was in.
    pub from: State,
    /// What should have moved it.
    pub event: Event,
}

impl fmt::Display for IllegalMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} cannot follow {:?}", self.event, self.from)
    }
}

impl std::error::Error for IllegalMove {}

impl State {
    /// The only function that makes one `State` from another.
    ///
    /// # Errors
    /// If no attempt makes this move.
    pub const fn after(self, event: Event) -> Result<State, IllegalMove> {
        use {Event as E, State as S};
        Ok(match (self, event) {
            (S::Wanted | S::Submitted, E::Accepted) => S::Submitted,
            (S::Wanted | S::Submitted, E::Forgotten) => S::Wanted,
            (S::Wanted | S::Submitted | S::Began, E::Started) => S::Began,
            (S::Wanted | S::Submitted, E::Revoked) => S::Revoked,
            (S::Wanted | S::Submitted | S::Began, E::Finished) => S::Ended,
            // An answer of Slurm that came after the marks.
            (S::Began, E::Accepted) => S::Began,
            (S::Ended, E::Accepted | E::Started | E::Finished) => S::Ended,
            // A second submission of an attempt that was given up: it finds no permit.
            (S::Revoked, E::Accepted | E::Revoked) => S::Revoked,
            (from, event) => return Err(IllegalMove { from, event }),
        })
    }

    /// Whether nothing more happens to it.
    pub const fn is_over(self) -> bool {
        matches!(self, State::Ended | State::Revoked)
    }
}
