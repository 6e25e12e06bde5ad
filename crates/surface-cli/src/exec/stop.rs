//! What ends a program from outside: signals, and an output that cannot be written.
//!
//! Room: driver.
//!
//! # Invariant
//! A program that is to stop is cancelled once it runs, also if that was asked before it began.
//!
//! # Why it holds
//! The wish and the canceller are under one lock: whichever comes second finds the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bursar::Canceller;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::{Failure, say};
use crate::signals::{self, FirstSignal};

/// What ends a program from outside.
#[derive(Default)]
pub(super) struct Stop {
    pub(super) signal: FirstSignal,
    state: Mutex<StopState>,
}

#[derive(Default)]
struct StopState {
    is_cancelled: bool,
    canceller: Option<Canceller>,
}

impl Stop {
    /// Signals cancel the program; the second ends the process.
    pub(super) fn listen(self: &Arc<Self>) -> Result<signal_hook::iterator::Handle, Failure> {
        let stop = Arc::clone(self);
        let listening = signals::listen(&[SIGINT, SIGTERM, SIGHUP], move |signal| {
            if !stop.signal.note(signal) {
                std::process::exit(signals::code(signal).into());
            }
            say!(
                "cancelling the program; {} kills it",
                if signal == SIGINT { "Ctrl-C again" } else { "a second signal" }
            );
            stop.cancel();
            true
        });
        listening.map_err(|error| Failure::broken(format!("signals cannot be handled: {error}")))
    }

    /// The program that it is for. If it was stopped before it began, it is cancelled now.
    pub(super) fn is_for(&self, canceller: Canceller) {
        let mut state = self.lock();
        let is_cancelled = state.is_cancelled;
        state.canceller = Some(canceller.clone());
        drop(state);
        if is_cancelled {
            canceller.cancel();
        }
    }

    pub(super) fn cancel(&self) {
        let mut state = self.lock();
        state.is_cancelled = true;
        let canceller = state.canceller.clone();
        drop(state); // a task that cancels may let others run
        if let Some(canceller) = canceller {
            canceller.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, StopState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
