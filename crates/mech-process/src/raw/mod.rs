//! The two system calls that rustix and std do not offer.
//!
//! Room: mechanism.

mod inherit;
mod reap;

#[cfg(test)]
pub(crate) use inherit::ignore_file_size_signal;
pub(crate) use inherit::keep_ended_children;
pub(crate) use reap::reap;
