//! Signals, read by a thread of their own.
//!
//! Room: driver.

use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use mech_process::procfs::ignored_signals;
use signal_hook::iterator::{Handle, Signals};

/// The first signal of several.
#[derive(Debug, Default)]
pub(crate) struct FirstSignal(AtomicI32);

impl FirstSignal {
    /// Notes a signal. Returns whether it is the first.
    pub(crate) fn note(&self, signal: i32) -> bool {
        self.0.compare_exchange(0, signal, SeqCst, SeqCst).is_ok()
    }

    pub(crate) fn get(&self) -> Option<i32> {
        Some(self.0.load(SeqCst)).filter(|signal| *signal != 0)
    }
}

/// The exit code of a shell for an end by this signal.
pub(crate) fn code(signal: i32) -> u8 {
    128 + u8::try_from(signal).unwrap_or(0)
}

/// Reports each of these signals until `report` returns false. Signals that were ignored when the process started (`nohup`) stay
/// ignored. Closing the handle ends it, too.
///
/// # Errors
/// If the system refuses.
pub(crate) fn listen(wanted: &[i32], mut report: impl FnMut(i32) -> bool + Send + 'static) -> std::io::Result<Handle> {
    let ignored = ignored_signals();
    let wanted = wanted.iter().filter(|signal| ignored >> (**signal - 1) & 1 == 0);
    let mut signals = Signals::new(wanted)?;
    let handle = signals.handle();
    std::thread::Builder::new().name("bursar-signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if !report(signal) {
                return;
            }
        }
    })?;
    Ok(handle)
}
