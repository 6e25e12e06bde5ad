//! The id of a job in Slurm.
//!
//! Room: values.

use core::fmt;
use core::str::FromStr;

/// A job in Slurm: one that was submitted alone, or a task of a job array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlurmId {
    /// The id that `sbatch` printed.
    pub job: u64,
    /// Which task of the array.
    pub task: Option<u32>,
}

impl From<u64> for SlurmId {
    fn from(job: u64) -> Self {
        Self { job, task: None }
    }
}

/// As Slurm writes it: `123`, or `123_4`.
impl fmt::Display for SlurmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Some(task) => write!(f, "{}_{task}", self.job),
            None => self.job.fmt(f),
        }
    }
}

impl FromStr for SlurmId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (job, task) = match text.split_once('_') {
            Some((job, task)) => (job, Some(task.parse().map_err(drop)?)),
            None => (text, None),
        };
        Ok(Self { job: job.parse().map_err(drop)?, task })
    }
}
