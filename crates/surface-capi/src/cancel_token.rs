//! Cancel tokens: one word that stops many nurseries, and wakes all that wait for it.
//!
//! Room: surface.
//!
//! # Invariant
//! A token that was cancelled stays so. Every nursery that was attached to it is cancelled, whichever came first.
//!
//! # Why it holds
//! A cancellation takes the list away, under the lock under which others attach: these find none, and cancel the nursery themselves. Nothing that may let another task run is done under that lock.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use sched_tasks::{Receiver, RecvTimeoutError, Sender, try_channel};

use crate::{
    codes::{JANUS_TIMED_OUT, Refusal},
    door::{coded, door, number},
    handles::{self, Held},
    nursery::{self, JanusNursery, Nursery},
};

/// One word that stops many nurseries.
pub struct JanusCancelToken;

pub(crate) struct CancelToken {
    /// Closed when it is cancelled. Nothing is sent.
    sender: Sender<i64>,
    receiver: Receiver<i64>,
    /// None: it was cancelled.
    attached: Mutex<Option<Vec<Weak<Nursery>>>>,
}

impl Held for CancelToken {
    type Opaque = JanusCancelToken;
    const KIND: u8 = b'T';
    const NAME: &'static str = "cancel token";
    const MADE_BY: &'static str = "janus_cancel_token_create";
}

impl CancelToken {
    /// A channel that is closed when the token is cancelled.
    pub(crate) fn cancelled(&self) -> &Receiver<i64> {
        &self.receiver
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Weak<Nursery>>>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cancelled(&self) -> bool {
        self.lock().is_none()
    }

    fn cancel(&self) {
        let attached = self.lock().take();
        self.sender.close();
        let nurseries = attached.into_iter().flatten().filter_map(|nursery| nursery.upgrade());
        let nurseries = nurseries.filter(|nursery| !nursery.made.is_past()); // else it is in the parent of a fork
        nurseries.for_each(|nursery| nursery.open.cancel());
    }

    fn attach(&self, nursery: &Arc<Nursery>) {
        let is_cancelled = match &mut *self.lock() {
            None => true,
            Some(attached) => {
                if attached.len() == attached.capacity() {
                    attached.retain(|nursery| nursery.strong_count() > 0); // before it grows
                }
                attached.push(Arc::downgrade(nursery));
                false
            }
        };
        if is_cancelled {
            nursery.open.cancel();
        }
    }
}

/// Makes a token. NULL if that is not possible.
#[unsafe(no_mangle)]
pub extern "C" fn janus_cancel_token_create() -> *mut JanusCancelToken {
    door(
        |_| std::ptr::null_mut(),
        || {
            let (sender, receiver) = try_channel(1)?;
            handles::insert(Arc::new(CancelToken { sender, receiver, attached: Mutex::new(Some(Vec::new())) }))
        },
    )
}

/// Cancels everything that is attached to a token, now and later, and wakes those that wait for it. Again it does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn janus_cancel_token_cancel(token: *mut JanusCancelToken) -> i32 {
    coded(|| {
        handles::get::<CancelToken>(token)?.cancel();
        Ok(())
    })
}

/// Whether a token was cancelled: 1, 0, or a code below 0.
#[unsafe(no_mangle)]
pub extern "C" fn janus_cancel_token_is_cancelled(token: *mut JanusCancelToken) -> i32 {
    number(|| Ok(i32::from(handles::get::<CancelToken>(token)?.is_cancelled())))
}

/// Has a nursery cancelled when the token is; at once if that was before.
#[unsafe(no_mangle)]
pub extern "C" fn janus_cancel_token_attach(token: *mut JanusCancelToken, nursery: *mut JanusNursery) -> i32 {
    coded(|| {
        let (token, nursery) = (handles::get::<CancelToken>(token)?, nursery::get(nursery)?);
        token.attach(&nursery);
        Ok(())
    })
}

/// Waits until a token is cancelled, so long at most: `JANUS_OK` if it is, else `JANUS_TIMED_OUT`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_cancel_token_wait(token: *mut JanusCancelToken, timeout_nanoseconds: u64) -> i32 {
    coded(|| {
        let token = handles::get::<CancelToken>(token)?;
        match token.receiver.recv_timeout(Duration::from_nanos(timeout_nanoseconds)) {
            Err(RecvTimeoutError::Timeout) => Err(Refusal::new(
                JANUS_TIMED_OUT,
                format!("the token was not cancelled within {timeout_nanoseconds} ns; wait longer, or go on"),
            )),
            Ok(_) | Err(RecvTimeoutError::Closed) => Ok(()),
        }
    })
}

/// Lets go of the handle, and cancels nothing.
#[unsafe(no_mangle)]
pub extern "C" fn janus_cancel_token_destroy(token: *mut JanusCancelToken) -> i32 {
    coded(|| handles::remove::<CancelToken>(token).map(drop))
}
