//! The one call that rustix and std do not offer: `wait4`.

mod reap;

pub(crate) use reap::reap;
