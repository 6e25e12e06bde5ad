//! The two calls that rustix and std do not offer.

mod inherit;
mod reap;

pub(crate) use inherit::keep_ended_children;
pub(crate) use reap::reap;
