//! What this program asks of a cluster.
//!
//! Room: driver.
//!
//! A small trait, so that commands, a REST service and tests are alike to the rest of the driver.

use core::fmt;

use crate::request::Submission;
use crate::rows::{Fate, Row};

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// Slurm has answered: no.
    Refused(String),
    /// Slurm has answered: not now. The queue is full, or this user has as many jobs in it as are allowed.
    Full(String),
    /// It is not known whether Slurm did it: it did not answer, or not in time.
    Unanswered(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) | Self::Full(why) | Self::Unanswered(why) => f.write_str(why),
        }
    }
}

/// What a partition offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Its generic resources, as `gpu:2,vram:16K`.
    pub gres: String,
}

/// A cluster. Calls may block for seconds; they come from one thread.
pub trait Cluster: Send + Sync {
    /// Submits a job. Returns its id.
    ///
    /// # Errors
    /// See [`CallError`].
    fn submit(&self, submission: &Submission) -> Result<u64, CallError>;

    /// Whether a job with these options could ever run; nothing is submitted.
    ///
    /// # Errors
    /// [`CallError::Refused`] if it could not.
    fn try_out(&self, options: &[String]) -> Result<(), CallError>;

    /// All jobs of this user in the queue.
    ///
    /// # Errors
    /// See [`CallError`].
    fn queue(&self) -> Result<Vec<Row>, CallError>;

    /// What became of a job; `None` if Slurm does not know the id.
    ///
    /// # Errors
    /// See [`CallError`].
    fn fate(&self, id: u64) -> Result<Option<Fate>, CallError>;

    /// Asks these jobs to end; with `now` they are killed.
    ///
    /// # Errors
    /// See [`CallError`].
    fn cancel(&self, ids: &[u64], now: bool) -> Result<(), CallError>;

    /// Keeps a job that waits from starting, and freezes one that runs; or the opposite.
    ///
    /// # Errors
    /// See [`CallError`].
    fn freeze(&self, id: u64, frozen: bool, has_begun: bool) -> Result<(), CallError>;

    /// All partitions.
    ///
    /// # Errors
    /// See [`CallError`].
    fn partitions(&self) -> Result<Vec<Partition>, CallError>;
}
