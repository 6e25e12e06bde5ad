//! Why a flow ended, as far as somebody outside wanted it.
//!
//! Room: surface.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use bursar::flow::Handle;

use crate::signals::FirstSignal;

/// What became of the flow because of signals, keys and other commands.
#[derive(Debug, Default)]
pub(crate) struct StopState {
    /// What wanted it to end from outside.
    pub(crate) signal: FirstSignal,
    is_drained: AtomicBool,
    is_killed: AtomicBool,
}

impl StopState {
    /// Lets the flow deliver what is on its way, and end.
    pub(crate) fn drain(&self, handle: &Handle) {
        self.is_drained.store(true, SeqCst);
        handle.shutdown();
    }

    /// Whether somebody did.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained.load(SeqCst)
    }

    /// Stops the flow without delivering what is on its way.
    pub(crate) fn kill(&self, handle: &Handle) {
        self.is_killed.store(true, SeqCst);
        handle.stop_now();
    }

    /// Whether somebody did.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(SeqCst)
    }
}
