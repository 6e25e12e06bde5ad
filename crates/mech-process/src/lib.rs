//! A tree of processes: started, frozen, measured and ended as one.
//!
//! Room: mechanism. Knows processes, signals and control groups; knows nothing of jobs, graphs or priorities.
//!
//! Each running command has a *keeper* above it: a small process of ours, the subreaper of the command. A keeper runs one command after another.
//! All processes that the command starts stay below the keeper, so the tree can be handled as one. A keeper outlives a client that is killed.
//! A client has a pool of keepers, [`Keepers`].
//!
//! # What it does not do
//! - It runs on Linux only: 5.4 or later.
//! - Memory is sampled every 50 ms, so a limit is enforced with that delay. Shared pages are counted once before a tree is killed for its memory.
//! - If another process kills a keeper, the exit status of its command is lost. Its tree is killed as far as it can be found.
//! - A command that becomes another user (`sudo`) can be killed only by a client that may signal that user; a warning says so.
//! - A reservation (`SCHED_DEADLINE`) is that of a command's first thread: Linux does not let it be inherited.
//! - A process that ignores SIGCHLD, or never reaps, hides the CPU time of its children: the kernel discards it.
#![deny(unsafe_code)]

mod autogroup;
mod cgroup;
mod class;
mod cpu_group;
mod gpu;
mod in_force;
pub mod keeper;
mod launch;
mod limits;
mod log;
pub mod machine;
mod os_text;
mod pool;
pub mod procfs;
#[allow(unsafe_code, reason = "a few system calls; their files say why")]
mod raw;
mod record;
mod wire;

pub use cgroup::Confinement;
pub use class::{Class, Reservation, UnknownClass};
pub use cpu_group::GroupValue;
pub use in_force::{InForce, IoPriority, Policy, Refusal, Setting};
pub use launch::{End, How, Launch, Report, Stdin, Streams};
pub use limits::{Limits, OverRam};
pub use log::LimitedLog;
pub use pool::{Handle, KeeperProgram, Keepers, Listener, Recovered, Snapshot, Survivor};
pub use raw::stream_was_closed;

/// The variable by which a keeper's processes are known if it is killed; its value is the keeper's name.
pub const MARK: &str = "BURSAR_KEEPER";

/// The variable that a process has which a pool started as a keeper. Commands do not have it.
pub(crate) const STARTED_AS_KEEPER: &str = "BURSAR_KEEPER_START";
