//! Signals, read by a thread of their own.
//!
//! Room: surface.

use mech_process::procfs::ignored_signals;
use signal_hook::iterator::{Handle, Signals};

/// Tells each of these signals until it is not wanted any more: until `tell` says false. Those that somebody had us ignore (`nohup`) stay
/// ignored. Closing the handle ends it, too.
///
/// # Errors
/// If the system refuses.
pub(crate) fn listen(wanted: &[i32], mut tell: impl FnMut(i32) -> bool + Send + 'static) -> std::io::Result<Handle> {
    let ignored = ignored_signals();
    let wanted = wanted.iter().filter(|signal| ignored >> (**signal - 1) & 1 == 0);
    let mut signals = Signals::new(wanted)?;
    let handle = signals.handle();
    std::thread::Builder::new().name("bursar-signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if !tell(signal) {
                return;
            }
        }
    })?;
    Ok(handle)
}
