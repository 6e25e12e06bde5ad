//! What most programs use: `use bursar::prelude::*;`
//!
//! Locks, sockets and the types of errors that are rarely named are left out: see [`sync`](crate::sync), [`net`](crate::net) and the root.

#[doc(no_inline)]
pub use crate::{
    Canceller, Nursery, NurseryOptions, OnFailure, Priority, Reason, Receiver, RunError, Runtime, Sender, Task,
    TaskError, block_on, channel, checkpoint, fiber_local, is_cancelled, join, nursery, nursery_with, run, select,
    shield, sleep, sleep_async, timeout, unblock, unbounded, yield_now,
};
