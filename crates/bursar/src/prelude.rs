//! What most programs use: `use bursar::prelude::*;`
//!
//! Room: interface.
//!
//! It leaves out locks, sockets, and types of errors that are rarely named: see [`sync`](crate::sync), [`net`](crate::net) and the other modules.

#[doc(no_inline)]
pub use crate::{
    Canceller, Nursery, NurseryOptions, OnFailure, Priority, Reason, Receiver, RunError, Runtime, Sender, Task,
    TaskError, block_on, channel, checkpoint, fiber_local, is_cancelled, join, nursery, nursery_with, run, select,
    shield, sleep, sleep_async, timeout, unblock, unbounded, yield_now,
};
