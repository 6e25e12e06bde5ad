//! What a turn reports besides its outcome: signals, counts, and requests of the node.
//!
//! Room: values.

use alloc::{sync::Arc, vec::Vec};

use crate::time::Time;

/// The answer of a source that was asked for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Produced {
    /// There may be more: ask again.
    More,
    /// No messages now: ask again after a tick or a wake.
    Idle,
    /// The stream has ended.
    End,
}

/// What a turn reports to the scheduler.
#[derive(Debug, Default)]
pub struct Log {
    /// Edges that were empty and have messages.
    pub filled: Vec<u32>,
    /// Edges that have room for a producer that waits.
    pub roomy: Vec<u32>,
    /// Messages that were emitted.
    pub emitted: u64,
    /// Messages that were handled.
    pub handled: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Failed messages that are tried again.
    pub retries: u64,
    /// Messages that the node took and lost.
    pub lost: u64,
    /// The node asks the whole flow to shut down.
    pub shutdown: bool,
    /// The node takes no more input.
    pub finish: bool,
    /// `on_tick` was called.
    pub ticked: bool,
    /// The node asks for a tick at this time.
    pub tick_at: Option<Time>,
    /// The last error of the node.
    pub last_error: Option<Arc<str>>,
    /// Why it failed for good: the first cause.
    pub failure: Option<Arc<str>>,
}

impl Log {
    /// Marks the last error as the failure for good.
    #[cold]
    pub fn fail_for_good(&mut self) {
        if self.failure.is_none() {
            self.failure.clone_from(&self.last_error);
        }
    }

    /// Empties it, and keeps its memory.
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
