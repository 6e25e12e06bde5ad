//! Ctrl-C: the first cancels what runs, the second ends the process.
//!
//! # Invariant
//! After the first Ctrl-C every nursery that is watched, or will be, is cancelled.
//!
//! # Why it holds
//! The handler sets `ASKED` and then takes the lock to see who is watched; `watch` puts its nursery in under the lock and then
//! looks at `ASKED`. One of the two sees the other.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use bursar::Canceller;

static ASKED: AtomicBool = AtomicBool::new(false);
static WATCHED: Mutex<Option<Canceller>> = Mutex::new(None);

/// Listens for Ctrl-C from now on.
pub(crate) fn listen() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, SeqCst) {
            std::process::exit(super::INTERRUPTED.into());
        }
        if let Some(canceller) = &*WATCHED.lock().unwrap_or_else(PoisonError::into_inner) {
            canceller.cancel();
        }
    })
}

/// Whether somebody pressed Ctrl-C.
pub(crate) fn is_asked() -> bool {
    ASKED.load(SeqCst)
}

/// Lets Ctrl-C cancel this nursery, and no other.
pub(crate) fn watch(canceller: Canceller) {
    *WATCHED.lock().unwrap_or_else(PoisonError::into_inner) = Some(canceller.clone());
    if is_asked() {
        canceller.cancel();
    }
}
