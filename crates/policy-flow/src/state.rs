//! The states of a node.
//!
//! Room: state.
//!
//! ```text
//!             Started            InputsEnded          Finished
//!  Created ────────────> Running ───────────> Ending ──────────> Ended ──┐
//!     │                  │  ^  │                │                        │ Halted
//!     │            Paused│  │  └───── Broke ────┴──────> Failed ─────────┤
//!     │                  v  │Resumed                        ^            v
//!     │                 Paused ──────── Broke ──────────────┘         Stopped
//!     └──────── Broke (on_start failed) ───────────────────────────────^
//! ```

use core::fmt;

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeState {
    /// Not started.
    Created,
    /// It has its turns.
    Running,
    /// It has no turns, except for control messages.
    Paused,
    /// No more input comes; what it still emits is on its way.
    Ending,
    /// It has nothing more to do.
    Ended,
    /// Its error policy stopped it.
    Failed,
    /// `on_stop` was called.
    Stopped,
}

/// An event of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// `on_start` was called.
    Started,
    /// It was paused.
    Paused,
    /// It was resumed.
    Resumed,
    /// No more input comes, or it was stopped.
    InputsEnded,
    /// `on_end` was called, and all it emitted is accepted.
    Finished,
    /// It failed, and its error policy stops it.
    Broke,
    /// `on_stop` was called.
    Halted,
}

/// An event that cannot happen to a node in its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IllegalMove {
    /// The state of the node.
    pub from: NodeState,
    /// The event.
    pub event: Event,
}

impl NodeState {
    /// The only function that makes one state from another.
    pub(crate) const fn after(self, event: Event) -> Result<NodeState, IllegalMove> {
        use {Event as E, NodeState as S};
        Ok(match (self, event) {
            (S::Created, E::Started) => S::Running,
            (S::Running, E::Paused) => S::Paused,
            (S::Paused, E::Resumed) => S::Running,
            (S::Running | S::Paused, E::InputsEnded) => S::Ending,
            (S::Ending, E::Finished) => S::Ended,
            (S::Created | S::Running | S::Paused | S::Ending, E::Broke) => S::Failed,
            (_, E::Halted) => S::Stopped,
            // A request that comes too late, or twice, changes nothing and breaks no rule.
            (S::Paused, E::Paused) | (S::Running, E::Resumed) => self,
            (S::Ending | S::Ended | S::Failed | S::Stopped, E::Paused | E::Resumed | E::InputsEnded) => self,
            (from, event) => return Err(IllegalMove { from, event }),
        })
    }

    /// Whether it has ended: it emits nothing more.
    pub const fn is_over(self) -> bool {
        matches!(self, NodeState::Ended | NodeState::Failed | NodeState::Stopped)
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeState::Created => "created",
            NodeState::Running => "running",
            NodeState::Paused => "paused",
            NodeState::Ending => "ending",
            NodeState::Ended => "ended",
            NodeState::Failed => "failed",
            NodeState::Stopped => "stopped",
        })
    }
}
