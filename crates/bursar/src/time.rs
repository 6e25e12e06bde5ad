//! Channels that time sends into: [`after`] and [`ticker`]. Futures of [`sleep_async`](crate::sleep_async) and [`timeout`](crate::timeout), and the error of the latter.
//!
//! Room: interface.
//!
//! Fibers and threads use [`sleep`](crate::sleep), and [`Nursery::timeout`](crate::Nursery::timeout) for a whole tree. All of them go by [`now`](crate::now), which is virtual in a
//! [seeded](crate::Builder::seeded) run.
#[doc(inline)]
pub use sched_tasks::{Elapsed, Sleep, after, ticker};
