//! Channels of 64-bit integers.
//!
//! Room: surface.

use std::{sync::Arc, time::Duration};

use sched_tasks::{
    Receiver, RecvTimeoutError, SendTimeoutError, Sender, TryRecvError, TrySendError, try_channel, try_unbounded,
};

use crate::{
    codes::{JANUS_CLOSED, JANUS_EMPTY, JANUS_FULL, JANUS_INVALID_ARGUMENT, JANUS_TIMED_OUT, Refusal},
    door::{coded, door, number},
    handles::{self, Held},
    pointers::Out,
};

/// A channel: values from many tasks and threads to many. Each value is received once, in the order they were sent.
pub struct JanusChannel;

/// As a capacity: a channel that is never full. In the header it is written by hand.
pub const JANUS_CHANNEL_UNBOUNDED: usize = usize::MAX;

/// The largest capacity of a channel that has one.
pub const JANUS_CHANNEL_CAPACITY_MAX: usize = 1 << 24;

pub(crate) struct Channel {
    pub(crate) sender: Sender<i64>,
    pub(crate) receiver: Receiver<i64>,
}

impl Held for Channel {
    type Opaque = JanusChannel;
    const KIND: u8 = b'C';
    const NAME: &'static str = "channel";
    const MADE_BY: &'static str = "janus_channel_create";
}

#[cold]
pub(crate) fn closed() -> Refusal {
    Refusal::new(JANUS_CLOSED, "the channel is closed; no value will come or go any more")
}

#[cold]
fn refusal(code: i32, text: &str) -> Refusal {
    Refusal::new(code, text)
}

/// Makes a channel for so many values. With 0 a sender waits until its value is taken; with `JANUS_CHANNEL_UNBOUNDED` it never waits. NULL if that is not possible.
#[unsafe(no_mangle)]
pub extern "C" fn janus_channel_create(capacity: usize) -> *mut JanusChannel {
    door(
        |_| std::ptr::null_mut(),
        || {
            let (sender, receiver) = match capacity {
                JANUS_CHANNEL_UNBOUNDED => try_unbounded()?,
                0..=JANUS_CHANNEL_CAPACITY_MAX => try_channel(capacity)?,
                _ => {
                    return Err(Refusal::new(
                        JANUS_INVALID_ARGUMENT,
                        format!(
                            "a channel for {capacity} values is too large: the limit is {JANUS_CHANNEL_CAPACITY_MAX}; take less, or JANUS_CHANNEL_UNBOUNDED"
                        ),
                    ));
                }
            };
            handles::insert(Arc::new(Channel { sender, receiver }))
        },
    )
}

/// Sends a value, and waits while the channel is full. `JANUS_CLOSED` if it is closed: then the value was not sent.
#[unsafe(no_mangle)]
pub extern "C" fn janus_channel_send(channel: *mut JanusChannel, value: i64) -> i32 {
    coded(|| handles::get::<Channel>(channel)?.sender.send(value).map_err(|_| closed()))
}

/// The same, and waits so long at most: `JANUS_TIMED_OUT`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_channel_send_timeout(channel: *mut JanusChannel, value: i64, timeout_nanoseconds: u64) -> i32 {
    coded(|| {
        let sent =
            handles::get::<Channel>(channel)?.sender.send_timeout(value, Duration::from_nanos(timeout_nanoseconds));
        sent.map_err(|error| match error {
            SendTimeoutError::Closed(_) => closed(),
            SendTimeoutError::Timeout(_) => {
                refusal(JANUS_TIMED_OUT, "the channel stayed full; receive from it, or wait longer")
            }
        })
    })
}

/// The same without waiting: `JANUS_FULL`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_channel_try_send(channel: *mut JanusChannel, value: i64) -> i32 {
    coded(|| {
        let sent = handles::get::<Channel>(channel)?.sender.try_send(value);
        sent.map_err(|error| match error {
            TrySendError::Closed(_) => closed(),
            TrySendError::Full(_) => {
                refusal(JANUS_FULL, "the channel is full; receive from it first, or use `janus_channel_send`")
            }
        })
    })
}

/// Takes the oldest value, and waits for one. `JANUS_CLOSED` if the channel is closed and everything was received; then `value` is left as it is, as with every other code.
///
/// # Safety
/// `value` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_channel_recv(channel: *mut JanusChannel, value: *mut i64) -> i32 {
    coded(|| {
        // SAFETY: as the caller promised.
        let out = unsafe { Out::new(value, "value") }?; // before anything is taken
        handles::get::<Channel>(channel)?.receiver.recv().map(|value| out.put(value)).map_err(|_| closed())
    })
}

/// The same, and waits so long at most: `JANUS_TIMED_OUT`.
///
/// # Safety
/// `value` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_channel_recv_timeout(
    channel: *mut JanusChannel,
    value: *mut i64,
    timeout_nanoseconds: u64,
) -> i32 {
    coded(|| {
        // SAFETY: as the caller promised.
        let out = unsafe { Out::new(value, "value") }?;
        let received =
            handles::get::<Channel>(channel)?.receiver.recv_timeout(Duration::from_nanos(timeout_nanoseconds));
        received.map(|value| out.put(value)).map_err(|error| match error {
            RecvTimeoutError::Closed => closed(),
            RecvTimeoutError::Timeout => {
                refusal(JANUS_TIMED_OUT, "the channel stayed empty; send to it, or wait longer")
            }
        })
    })
}

/// The same without waiting: `JANUS_EMPTY`.
///
/// # Safety
/// `value` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_channel_try_recv(channel: *mut JanusChannel, value: *mut i64) -> i32 {
    coded(|| {
        // SAFETY: as the caller promised.
        let out = unsafe { Out::new(value, "value") }?;
        handles::get::<Channel>(channel)?.receiver.try_recv().map(|value| out.put(value)).map_err(|error| match error {
            TryRecvError::Closed => closed(),
            TryRecvError::Empty => {
                refusal(JANUS_EMPTY, "the channel is empty; send to it first, or use `janus_channel_recv`")
            }
        })
    })
}

/// Closes a channel: nothing can be sent any more. What was sent can be received.
#[unsafe(no_mangle)]
pub extern "C" fn janus_channel_close(channel: *mut JanusChannel) -> i32 {
    coded(|| {
        handles::get::<Channel>(channel)?.sender.close();
        Ok(())
    })
}

/// Whether a channel is closed: 1, 0, or a code below 0.
#[unsafe(no_mangle)]
pub extern "C" fn janus_channel_is_closed(channel: *mut JanusChannel) -> i32 {
    number(|| Ok(i32::from(handles::get::<Channel>(channel)?.receiver.is_closed())))
}

/// How many values are in a channel, or a code below 0.
#[unsafe(no_mangle)]
pub extern "C" fn janus_channel_len(channel: *mut JanusChannel) -> i64 {
    number(|| Ok(i64::try_from(handles::get::<Channel>(channel)?.receiver.len()).unwrap_or(i64::MAX)))
}

/// Closes a channel and lets go of the handle. Those that wait for it get `JANUS_CLOSED`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_channel_destroy(channel: *mut JanusChannel) -> i32 {
    coded(|| {
        handles::remove::<Channel>(channel)?.sender.close();
        Ok(())
    })
}
