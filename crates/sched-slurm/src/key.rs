//! The key of a submission: which attempt at which job of which run.
//!
//! Room: values.
//!
//! # Invariant
//! Two attempts never have the same key, whatever program, folder or machine they are from.
//!
//! # Why it holds
//! The comment of a job in Slurm names the marks folder, which one run has for itself, and the key (`batch.rs`), which has a number that grows when an attempt with the same number
//! is made again by a later process of the run.

use core::fmt;
use core::str::FromStr;

/// One attempt at one job of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The number of the job in its run.
    pub job: u32,
    /// Which attempt: the first is 1.
    pub attempt: u32,
    /// Which attempt of this number: a run that was interrupted and resumed makes an attempt that was cancelled again.
    pub edition: u32,
}

/// What opens the token of an attempt; tokens of commands on this machine open with a number.
const TOKEN: &str = "slurm/";

impl Key {
    /// As the scheduler's journal keeps it.
    pub fn token(self) -> String {
        format!("{TOKEN}{self}")
    }

    /// The key of a token, if it is one of this crate.
    pub fn of_token(token: &str) -> Option<Self> {
        token.strip_prefix(TOKEN)?.parse().ok()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.job, self.attempt, self.edition)
    }
}

impl FromStr for Key {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(job)), Some(Some(attempt)), Some(Some(edition)), None) => Ok(Self { job, attempt, edition }),
            _ => Err(()),
        }
    }
}
