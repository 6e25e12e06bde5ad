//! What belongs to a [`Runtime`](crate::Runtime): why it was not built, how its workers choose, and what they counted.
//!
//! Room: interface.
//!
//! A [`Builder`](crate::Builder) makes one; see the [guide](crate#choosing-a-runtime) for an example.
#[doc(inline)]
pub use mech_fiber::{GuardKind, SlabStats, StackError};
#[doc(inline)]
pub use sched_tasks::{
    BuildError, Choices, Diagnostics, MAX_WORKERS, Stats, Stuck, VictimStrategy, WorkerStats, current_worker,
};
