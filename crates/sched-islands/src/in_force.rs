//! What the system granted to an island.
//!
//! Room: values.

use std::fmt;

/// What the system granted on one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuInForce {
    /// The CPU.
    pub cpu: u32,
    /// The priority of its thread with `SCHED_FIFO`, or why it has none.
    pub realtime: Result<u8, String>,
}

/// What the system granted to an island.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InForce {
    /// Its CPUs.
    pub cpus: Vec<CpuInForce>,
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, one) in self.cpus.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            match &one.realtime {
                Ok(priority) => write!(f, "{separator}CPU {} with SCHED_FIFO {priority}", one.cpu)?,
                Err(why) => write!(f, "{separator}CPU {} without SCHED_FIFO ({why})", one.cpu)?,
            }
        }
        Ok(())
    }
}
