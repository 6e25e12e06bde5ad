//! Whether and how a flow was stopped from outside.
//!
//! Room: state.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use bursar::flow::Handle;

use crate::signals::FirstSignal;

/// How signals, keys and other commands have stopped the flow.
#[derive(Debug, Default)]
pub(crate) struct StopState {
    /// The signal that stopped it.
    pub(crate) signal: FirstSignal,
    is_drained: AtomicBool,
    is_killed: AtomicBool,
}

impl StopState {
    /// Lets the flow deliver messages on their way, and end.
    pub(crate) fn drain(&self, handle: &Handle) {
        self.is_drained.store(true, SeqCst);
        handle.shutdown();
    }

    /// Whether it was drained.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained.load(SeqCst)
    }

    /// Stops the flow without delivering messages on their way.
    pub(crate) fn kill(&self, handle: &Handle) {
        self.is_killed.store(true, SeqCst);
        handle.stop_now();
    }

    /// Whether it was stopped at once.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(SeqCst)
    }
}
