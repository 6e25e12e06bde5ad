//! CPU time as something that is shared, reserved and limited: [weights](crate::NurseryOptions::weight) and [contexts](crate::NurseryOptions::context) of nurseries.
//!
//! Room: interface.

pub use sched_tasks::{Context, Overrun, Share};
