//! The only room with effects: threads, clocks and sleep.

mod burial;
pub(crate) mod clock;
mod dues;
pub(crate) mod runtime;
mod search;
pub(crate) mod shared;
pub(crate) mod stats;
pub(crate) mod unblock;
pub(crate) mod watchdog;
pub(crate) mod worker;
