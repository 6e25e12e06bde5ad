//! What this program asks of a cluster.
//!
//! Room: driver.
//!
//! A small trait, so that commands, a REST service and tests are alike to the rest of the driver.

use core::fmt;
use core::time::Duration;

use crate::id::SlurmId;
use crate::request::{Submission, Terms};
use crate::rows::{Fate, Row};

/// The time limit of a call. `sbatch` tries again for two minutes while the queue is full.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

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
    /// Submits a job, or a job array. Returns its id.
    ///
    /// # Errors
    /// See [`CallError`].
    fn submit(&self, submission: &Submission) -> Result<u64, CallError>;

    /// Whether a job could ever run on these terms; nothing is submitted. A cluster that cannot say so without a submission says nothing against it. The result is what a person should
    /// know of it.
    ///
    /// # Errors
    /// [`CallError::Refused`] if it could not.
    fn try_out(&self, terms: &Terms) -> Result<Option<String>, CallError>;

    /// All jobs of this user in the queue.
    ///
    /// # Errors
    /// See [`CallError`].
    fn queue(&self) -> Result<Vec<Row>, CallError>;

    /// What became of a job; `None` if Slurm does not know the id. Slurm keeps nothing of a task that was cancelled while it waited: it is one that an array with this id
    /// does not have any more.
    ///
    /// # Errors
    /// See [`CallError`].
    fn fate(&self, id: SlurmId) -> Result<Option<Fate>, CallError>;

    /// Asks these jobs to end; with `now` they are killed.
    ///
    /// # Errors
    /// See [`CallError`].
    fn cancel(&self, ids: &[SlurmId], now: bool) -> Result<(), CallError>;

    /// Keeps these jobs from starting, or the opposite. One that has just begun may be held, too, and runs on.
    ///
    /// # Errors
    /// See [`CallError`]. If it is refused for one of them, it was done to the others.
    fn hold(&self, ids: &[SlurmId], held: bool) -> Result<(), CallError>;

    /// Freezes these jobs, which run, or the opposite.
    ///
    /// # Errors
    /// See [`CallError`]. If it is refused for one of them, it was done to the others.
    fn freeze(&self, ids: &[SlurmId], frozen: bool) -> Result<(), CallError>;

    /// One more than the greatest number that a task of an array may have: `MaxArraySize`, or a number that is likely not above it.
    ///
    /// # Errors
    /// See [`CallError`].
    fn array_size_max(&self) -> Result<u32, CallError>;

    /// The most characters of the list of tasks of an array: of a longer one this cluster does not say which of them still wait.
    fn task_list_max(&self) -> usize {
        usize::MAX
    }

    /// All partitions.
    ///
    /// # Errors
    /// See [`CallError`].
    fn partitions(&self) -> Result<Vec<Partition>, CallError>;
}
