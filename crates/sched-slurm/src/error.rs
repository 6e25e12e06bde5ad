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
    /// slurmctld or slurmrestd does not answer.
    Unreachable {
        /// What is known of it.
        why: String,
    },
    /// It answers, and not to this program.
    Unusable {
        /// What it says.
        why: String,
    },
    /// `rest` names no slurmrestd that may be asked.
    Rest {
        /// What it names.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing says who asks slurmrestd.
    NoUser {
        /// Where it is.
        address: String,
        /// What to do.
        why: &'static str,
    },
    /// There is no such partition.
    NoPartition {
        /// The one that was named.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// An option of `[slurm]` that bursar sets itself, or that keeps jobs from being submitted.
    Option {
        /// The option.
        option: String,
        /// What to do instead.
        instead: &'static str,
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
                write!(f, "Slurm does not answer: {why}; try again when it does, or use `--on local`")
            }
            Self::Unusable { why } => write!(f, "Slurm cannot be used: {why}"),
            Self::Rest { address, why } => write!(f, "`rest` in [slurm] is `{address}`: {why}"),
            Self::NoUser { address, why } => write!(f, "slurmrestd at {address} cannot be asked: {why}"),
            Self::NoPartition { name, known } => {
                write!(f, "there is no partition `{name}`; there are: {}. Set `partition` in [slurm]", known.join(", "))
            }
            Self::Option { option, instead } => {
                write!(f, "`options` in [slurm] cannot have `{option}`: {instead}")
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
