//! What a command may use, and how the system is to treat it.
//!
//! Room: values.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::class::{Class, Reservation};

/// What a tree may use. The default is: anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Time it may run; frozen time does not count.
    pub wall: Option<Duration>,
    /// Memory of the whole tree, in MB (10^6 bytes). Sampled every 50 ms, so a tree can be over its limit for that long.
    pub ram_mb: Option<u64>,
    /// What happens to a tree over `ram_mb`.
    pub over_ram: OverRam,
    /// The CPUs it may run on, by number: its affinity, and a cpuset where a control group can be made.
    pub cpus: Option<Vec<usize>>,
    /// Its niceness, −20 to 19; over that of its class. One that is not permitted is an error.
    pub nice: Option<i32>,
    /// How the system treats it. `None`: as the client.
    #[serde(default)]
    pub class: Option<Class>,
    /// Its share of CPU time beside others, 1 to 10,000; the usual is 100. A control group where one can be made, else its niceness.
    #[serde(default)]
    pub weight: Option<u32>,
    /// CPU time that is reserved for it. Class and weight do not apply then.
    #[serde(default)]
    pub reservation: Option<Reservation>,
}

/// What happens to a tree that uses more memory than its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OverRam {
    /// It is killed at once, with [`How::OverMemory`](crate::How::OverMemory).
    #[default]
    Kill,
    /// A warning is reported, once, and the tree runs on.
    Warn,
}
