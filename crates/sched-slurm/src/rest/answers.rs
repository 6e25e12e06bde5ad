//! What slurmrestd answers, beside jobs.
//!
//! Room: surface.
//!
//! # Invariant
//! A success is not read as an error, and an error that says nothing about the job is told from one that does.

use core::fmt;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// An error that Slurm names, inside an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Problem {
    error: Option<String>,
    description: Option<String>,
    #[serde(alias = "error_code", alias = "errno")]
    error_number: Option<i64>,
}

/// The error of Slurm for an id that it does not know.
const INVALID_JOB_ID: i64 = 2017;

impl Problem {
    /// Whether it is one. The answer to a change of a task of an array lists an error without number and name, for a success.
    pub fn is_real(&self) -> bool {
        self.error.is_some() || self.error_number.is_some_and(|number| number != 0)
    }

    /// Whether Slurm does not know the id of the job.
    pub fn is_unknown_job(&self) -> bool {
        self.error_number == Some(INVALID_JOB_ID)
    }

    /// Whether it says what is wrong.
    pub fn has_reason(&self) -> bool {
        !matches!(self.error_number, None | Some(-1))
    }

    /// Whether it is one of the connection to slurmctld, or between its parts: it says nothing about the job.
    pub fn is_of_transport(&self) -> bool {
        self.error_number.is_some_and(|number| matches!(number, 1000..2000 | 5000..6000))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |text: &Option<String>| text.clone().filter(|text| text != "Unspecified error" && !text.is_empty());
        let text = known(&self.error).or(known(&self.description)).or(self.error.clone());
        f.write_str(text.as_deref().unwrap_or("it names no error"))
    }
}

/// An answer that is a few values.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Said {
    /// The id of a job that was submitted. With it `errors` are remarks.
    pub job_id: Option<u64>,
    /// What went wrong.
    pub errors: Vec<Problem>,
}

/// The names of the paths of the description that slurmrestd gives of itself.
#[derive(Debug, Deserialize)]
pub struct Offer {
    paths: BTreeMap<String, IgnoredAny>,
}

impl Offer {
    /// The versions of its plugin for jobs.
    pub fn versions(&self) -> Vec<String> {
        let version = |path: &String| path.strip_prefix("/slurm/")?.strip_suffix("/job/submit").map(str::to_owned);
        self.paths.keys().filter_map(version).collect()
    }
}

/// A node, and what it has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// The partitions that it is in.
    pub partitions: Vec<String>,
    /// Its generic resources.
    pub gres: Option<String>,
}

/// A partition.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PartitionName {
    /// Its name.
    pub name: String,
}
