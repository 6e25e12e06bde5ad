//! Why a flow ended, as far as somebody outside wanted it.
//!
//! Room: surface.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

use bursar::flow::Handle;

/// What became of the flow because of signals, keys and other commands.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    signal: AtomicI32,
    is_drained: AtomicBool,
    is_killed: AtomicBool,
}

impl Verdict {
    /// Notes a signal, and says whether it is the first.
    pub(crate) fn signalled(&self, signal: i32) -> bool {
        self.signal.compare_exchange(0, signal, SeqCst, SeqCst).is_ok()
    }

    /// The signal that ended the flow.
    pub(crate) fn signal(&self) -> Option<i32> {
        Some(self.signal.load(SeqCst)).filter(|signal| *signal != 0)
    }

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
