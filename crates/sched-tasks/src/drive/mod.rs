//! The loops of a runtime: threads that run tasks, and how they start and stop.
//!
//! Room: driver. Knows threads, fibers and sleep; knows nothing of what users hold of a nursery.

mod overflow_cleanup;
mod permit;
mod raw;
pub(crate) mod runtime;
mod search;
pub(crate) mod seeded;
mod stepwise;
mod stop;
pub(crate) mod thread_task;
mod worker;
