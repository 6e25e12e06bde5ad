//! Why jobs cannot go to Slurm.
//!
//! Room: values.

use core::fmt;
use std::path::PathBuf;

/// Why jobs cannot go to Slurm at all.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlurmError {
    /// Its commands are not installed here.
    Missing {
        /// The command that is missing.
        command: String,
    },
    /// slurmctld does not answer.
    Unreachable {
        /// What the command printed.
        why: String,
    },
    /// There is no such partition.
    NoPartition {
        /// The one that was named.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// The marks folder cannot be used.
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Slurm refuses what a job wants.
    Refused {
        /// The job.
        job: String,
        /// What Slurm says.
        why: String,
    },
}

impl fmt::Display for SlurmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { command } => write!(
                f,
                "`{command}` is not installed on this machine, so no job can go to Slurm; start on a login node of the cluster, or use `--on local`"
            ),
            Self::Unreachable { why } => {
                write!(f, "Slurm does not answer: {why}; try again when `sinfo` does, or use `--on local`")
            }
            Self::NoPartition { name, known } => {
                write!(f, "there is no partition `{name}`; there are: {}. Set `partition` in [slurm]", known.join(", "))
            }
            Self::Folder { path, why } => write!(
                f,
                "{} cannot be used for the marks of jobs: {why}; set BURSAR_STATE_DIR to a folder that all nodes share",
                path.display()
            ),
            Self::Refused { job, why } => write!(f, "Slurm refuses job `{job}`: {why}"),
        }
    }
}

impl std::error::Error for SlurmError {}
