//! The only room with effects: threads, clocks and sleep.

mod burial;
pub(crate) mod chance;
pub(crate) mod clock;
mod dues;
pub(crate) mod give_way;
pub(crate) mod log;
mod permit;
pub(crate) mod runtime;
mod search;
pub(crate) mod seeded;
pub(crate) mod shared;
mod sight;
pub(crate) mod stacks;
pub(crate) mod stats;
mod stepwise;
pub(crate) mod thread_task;
pub(crate) mod trace;
pub(crate) mod unblock;
pub(crate) mod watchdog;
pub(crate) mod worker;
