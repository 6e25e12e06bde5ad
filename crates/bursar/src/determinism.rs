//! Determinism: runs that a seed decides, their traces, and the search for a seed that fails.
//!
//! Room: interface.
//!
//! [`explore`](crate::explore) runs a program under many seeds; [`Explore`] says more about how. [`Builder::seeded`](crate::Builder::seeded) makes a runtime that a seed decides, and
//! [`Builder::replay`](crate::Builder::replay) one that does what a [`Trace`] says. See the [guide](crate#finding-what-depends-on-the-order) for an example.
#[doc(inline)]
pub use sched_tasks::decide::Choice;
#[doc(inline)]
pub use sched_tasks::{
    Decision, Drawn, Event, Explore, Explored, Finding, Logged, Outcome, ParseTraceError, Trace, What, is_seeded,
};
