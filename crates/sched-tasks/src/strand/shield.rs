//! Shields: what must not be interrupted.
//!
//! Room: interface.

use crate::strand::{self, Strand};

/// Runs `body` without interruption: a cancellation waits until it has returned. Only a deadlock of a [seeded](crate::Builder::seeded) run, which would wait
/// for ever, unwinds it all the same.
///
/// ```
/// use bursar::{nursery, shield, yield_now};
///
/// let mut saved = false;
/// let outcome = nursery(|n| {
///     n.cancel();
///     shield(|| {
///         yield_now(); // would unwind, outside a shield
///         saved = true;
///     });
///     yield_now(); // unwinds
///     Ok("never")
/// });
/// assert!(saved && outcome.unwrap_err().is_cancelled());
/// ```
pub fn shield<R>(body: impl FnOnce() -> R) -> R {
    strand::with(Strand::ensure_room);
    struct Lower;
    impl Drop for Lower {
        fn drop(&mut self) {
            // A thread that ends may have another strand by now, without shields.
            strand::with(|strand| strand.traces.shields().set(strand.traces.shields().get().saturating_sub(1)));
        }
    }
    strand::with(|strand| strand.traces.shields().set(strand.traces.shields().get() + 1));
    let _lower = Lower;
    body()
}
