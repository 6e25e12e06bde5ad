//! A tree of processes: started, frozen, measured and ended as one.
//!
//! Room: mechanism. Knows processes, signals and control groups; knows nothing of jobs, graphs or priorities.
//!
//! Each command that runs has a *keeper* above it, a small process of our own, used for command after command. The keeper is what makes
//! a tree one thing: whatever the command starts stays below it, and it outlives a client that is killed. A client has a pool, [`Keepers`].
//!
//! # What it does not do
//! - It runs on Linux only: 5.4 or later.
//! - Memory is looked at every 50 ms, so a limit is held with that delay. A tree that is ended for it really holds that much: pages
//!   that are shared count once.
//! - A keeper that somebody kills takes the knowledge of its command with it. Its tree is ended as far as it can be found.
//! - A command that becomes another user (`sudo`) can be ended only by a client that may signal that user; a warning says so.
//! - A process that ignores SIGCHLD, or reaps in no way, hides the CPU time of its children: the kernel throws it away.
#![deny(unsafe_code)]

mod cgroup;
mod gpu;
pub mod keeper;
mod launch;
mod log;
pub mod machine;
mod os_text;
mod pool;
pub mod procfs;
#[allow(unsafe_code, reason = "two system calls; their files say why")]
mod raw;
mod record;
mod wire;

pub use cgroup::Confinement;
pub use launch::{End, How, Launch, Limits, OverRam, Report, Stdin, Streams};
pub use log::LimitedLog;
pub use pool::{Handle, KeeperProgram, Keepers, Listener, Recovered, Seen, Survivor};

/// The variable by which a keeper's processes are known if it is killed; its value is the keeper's name.
pub const MARK: &str = "BURSAR_KEEPER";
