//! CPU time as something that is shared, reserved and limited: [weights](crate::NurseryOptions::weight) and [contexts](crate::NurseryOptions::context) of nurseries; and periodic tasks
//! on CPUs of their own: an `Island`, with the feature `islands`.
//!
//! Room: interface.

#[cfg(feature = "islands")]
pub use sched_islands::{
    AdmittedIsland, Buffer, CpuInForce, Cycle, Ended, InForce, Island, IslandError, IslandHandle, IslandStats,
    IslandTaskStats, Program, Realtime,
};
pub use sched_tasks::{Context, Overrun, Share};
