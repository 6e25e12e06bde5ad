//! What a turn has to say, besides how it ended.
//!
//! Room: decisions. Values only.

use alloc::{sync::Arc, vec::Vec};

use crate::time::Time;

/// What a source has to say after it was asked for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Produced {
    /// There may be more: ask again.
    More,
    /// Nothing now: ask again after a tick or a wake.
    Idle,
    /// That was all.
    End,
}

/// What the scheduler must learn of a turn.
#[derive(Debug, Default)]
pub struct Log {
    /// Edges that have something now, and had not.
    pub filled: Vec<u32>,
    /// Edges that have room now, for a producer that waits.
    pub roomy: Vec<u32>,
    /// Messages that were emitted.
    pub emitted: u64,
    /// Messages that were handled.
    pub handled: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Failed messages that are tried again.
    pub retries: u64,
    /// Messages that the node took and that came to nothing.
    pub lost: u64,
    /// The node asks for the end of the whole flow.
    pub shutdown: bool,
    /// The node wants no more input.
    pub finish: bool,
    /// `on_tick` was called.
    pub ticked: bool,
    /// The node asks for a tick then.
    pub tick_at: Option<Time>,
    /// What the node failed with last.
    pub last_error: Option<Arc<str>>,
    /// What it failed with for good: the first cause.
    pub failure: Option<Arc<str>>,
}

impl Log {
    /// The last error was for good.
    #[cold]
    pub fn fail_for_good(&mut self) {
        if self.failure.is_none() {
            self.failure.clone_from(&self.last_error);
        }
    }

    /// As new, with its memory kept.
    pub fn clear(&mut self) {
        self.filled.clear();
        self.roomy.clear();
        *self = Log {
            filled: core::mem::take(&mut self.filled),
            roomy: core::mem::take(&mut self.roomy),
            ..Log::default()
        };
    }
}
