//! The only room with effects: threads, clocks and sleep.

pub(crate) mod chance;
pub(crate) mod clock;
pub(crate) mod give_way;
pub(crate) mod log;
mod overflow_cleanup;
mod pending_ends;
mod permit;
pub(crate) mod runtime;
mod search;
pub(crate) mod seeded;
pub(crate) mod shared;
pub(crate) mod stacks;
pub(crate) mod stats;
mod stepwise;
pub(crate) mod thread_task;
pub(crate) mod trace;
pub(crate) mod unblock;
mod view;
pub(crate) mod watchdog;
pub(crate) mod worker;
