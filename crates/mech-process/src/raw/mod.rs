//! What rustix and std do not offer: reaping with usage, an inherited disposition, the scheduler's attributes, steps between fork and exec, and streams that were closed at the beginning.
//!
//! Room: mechanism.

mod before_exec;
mod inherit;
mod reap;
pub(crate) mod sched;
mod streams;

pub(crate) use before_exec::BeforeExec;
#[cfg(test)]
pub(crate) use inherit::ignore_file_size_signal;
pub(crate) use inherit::keep_ended_children;
pub(crate) use reap::reap;
pub use streams::stream_was_closed;
