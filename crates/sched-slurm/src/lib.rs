//! Jobs of a graph on the nodes of a Slurm cluster: an executor of `sched-jobs`.
//!
//! Room: interface.
//!
//! The scheduler keeps the graph, priorities, retries and limits of its own; Slurm places and enforces. Between the two there is a *marks folder* on a file system that
//! all nodes share: scripts of jobs write there when they start and end, and these marks are the truth. What Slurm says about a job matters only where marks are missing.
//!
//! # Invariant
//! The command of an attempt is started at most once, whatever happens to this program, to slurmctld, and to the queue.
//!
//! # Why it holds
//! Each attempt has one *permit*, a file in the marks folder. A script renames it to a name of its own before it starts the command, and this program renames it before it
//! gives an attempt up. A file is renamed once, so of any number of submissions of an attempt one starts its command, or none does if this program was first. So a
//! submission that may have been lost can be submitted again without knowing; see `marks.rs`, `script.rs`.
//!
//! # Rejected
//! Trusting job ids: slurmctld writes its state with a delay, and after a crash gives the ids of lost submissions to other jobs.
//! Trusting `afterok`: a dependency on an id that Slurm does not know any more counts as satisfied. Nor would it save a wait: a job that needs another is submitted when the mark
//! of its end is seen, by inotify or at the next look at the folder (0.1 to 1 s), and no question to slurmctld lies between. Slurm's own step from a job to one that depends on it takes as
//! long (0.06 to 0.94 s measured), and it would know nothing of retries, outputs that are missing, jobs that run here, and resources that are counted here.
#![forbid(unsafe_code)]

pub mod batch;
pub mod decide;
mod drive;
pub mod ends;
mod error;
mod id;
pub mod key;
pub mod marks;
pub mod nodes;
pub mod request;
pub mod rest;
pub mod rows;
pub mod sbatch;
pub mod script;
pub mod state;

pub use drive::access::{Credentials, Location};
pub use drive::cluster::{CallError, Cluster, Partition};
pub use drive::commands::Commands;
pub use drive::folder::{Left, Remains, left, read_end};
pub use drive::leftovers::{CancelError, cancel_left};
pub use drive::rest::Rest;
pub use drive::{Job, Listen, News, Settings, Slurm, Stand, check, check_request};
pub use error::SlurmError;
pub use id::SlurmId;
pub use request::{Request, Site, VramAs};
