//! Cancel tokens: one word that stops many nurseries, and whoever waits for it.
//!
//! Room: surface.
//!
//! # Invariant
//! A token that was cancelled stays so. Every nursery that was attached to it is cancelled, whichever came first.
//!
//! # Why it holds
//! To attach takes the lock under which a cancellation takes the list; and looks, under it, whether the token is cancelled.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use sched_tasks::{Receiver, RecvTimeoutError, Sender, channel};

use crate::{
    codes::{JANUS_TIMED_OUT, Refusal},
    door::{coded, door, number},
    handles::{self, Held},
    nursery::{JanusNursery, Nursery},
};

/// One word that stops many nurseries.
pub struct JanusCancelToken;

pub(crate) struct CancelToken {
    /// Closed when it is cancelled. Nothing is sent.
    sender: Sender<i64>,
    receiver: Receiver<i64>,
    attached: Mutex<Vec<Weak<Nursery>>>,
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

    fn cancel(&self) {
        let attached = {
            let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
            self.sender.close();
            std::mem::take(&mut *attached)
        };
        attached.iter().filter_map(Weak::upgrade).for_each(|nursery| nursery.open.cancel());
    }

    fn attach(&self, nursery: &Arc<Nursery>) {
        let is_cancelled = {
            let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
            let is_cancelled = self.receiver.is_closed();
            if !is_cancelled {
                if attached.len() == attached.capacity() {
                    attached.retain(|nursery| nursery.strong_count() > 0); // before it grows
                }
                attached.push(Arc::downgrade(nursery));
            }
            is_cancelled
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
            let (sender, receiver) = channel(1);
            handles::insert(Arc::new(CancelToken { sender, receiver, attached: Mutex::default() }))
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
    number(|| Ok(i32::from(handles::get::<CancelToken>(token)?.receiver.is_closed())))
}

/// Has a nursery cancelled when the token is; at once if that was before.
#[unsafe(no_mangle)]
pub extern "C" fn janus_cancel_token_attach(token: *mut JanusCancelToken, nursery: *mut JanusNursery) -> i32 {
    coded(|| {
        let (token, nursery) = (handles::get::<CancelToken>(token)?, handles::get::<Nursery>(nursery)?);
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
