//! What Slurm says of jobs: rows of `squeue`, and of one job of `scontrol show job`.
//!
//! Room: surface.
//!
//! Pure: it reads text that a command printed.

use core::fmt;

use crate::id::SlurmId;

/// The columns of `squeue -o`, one row for each task of an array. The comment, which may have any character, is last.
pub const COLUMNS: &str = "%F|%K|%T|%r|%N|%S|%j|%k";

/// A job in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: SlurmId,
    /// Its state, as Slurm spells it: `PENDING`, `RUNNING`, `SUSPENDED`…
    pub state: String,
    /// Why it waits: `Resources`, `Priority`…
    pub reason: String,
    /// Where it runs.
    pub node: Option<String>,
    /// When it started, or is expected to.
    pub start: Option<String>,
    /// Its name.
    pub name: String,
    /// Its comment, which has our key.
    pub comment: String,
}

impl Row {
    /// Reads one line; `None` for a line that is no row.
    pub fn read(line: &str) -> Option<Self> {
        let mut parts = line.splitn(8, '|');
        let mut next = || parts.next().map(str::trim);
        let known = |text: &str| Some(text.to_owned()).filter(|text| !matches!(text.as_str(), "" | "N/A" | "(null)"));
        Some(Self {
            id: SlurmId { job: next()?.parse().ok()?, task: next()?.parse().ok() },
            state: next()?.to_owned(),
            reason: next()?.to_owned(),
            node: known(next()?),
            start: known(next()?),
            name: next()?.to_owned(),
            comment: next()?.to_owned(),
        })
    }

    /// Whether it waits to start.
    pub fn is_pending(&self) -> bool {
        matches!(self.state.as_str(), "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED")
    }

    /// Whether it has a node, and its processes are frozen.
    pub fn is_frozen(&self) -> bool {
        matches!(self.state.as_str(), "SUSPENDED" | "STOPPED")
    }

    /// Whether it waits, and is kept from starting.
    pub fn is_held(&self) -> bool {
        self.is_pending() && self.reason.contains("JobHeld")
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slurm job {} ", self.id)?;
        match (&self.node, &self.start) {
            (Some(node), _) if !self.is_pending() => write!(f, "is {} on {node}", self.state.to_lowercase()),
            (_, start) if self.is_pending() => {
                write!(f, "is {} ({})", self.state.to_lowercase(), self.reason)?;
                start.as_ref().map_or(Ok(()), |start| write!(f, ", expected to start at {start}"))
            }
            _ => write!(f, "is {}", self.state.to_lowercase()),
        }
    }
}

/// What became of a job that is not in the queue any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    /// `COMPLETED`, `FAILED`, `CANCELLED`, `TIMEOUT`, `NODE_FAIL`, `OUT_OF_MEMORY`…
    pub state: String,
    /// Slurm's word on it.
    pub reason: String,
    /// Where it ran, or was to run; `None` if it never left the queue.
    pub node: Option<String>,
    /// Its comment: the id may have been given to another job.
    pub comment: String,
    /// What its script exited with, as a shell has it: 128 plus the number of a signal. `None` if that is not said.
    pub code: Option<i32>,
}

impl Fate {
    /// Reads the one line of `scontrol show job --oneliner`.
    pub fn read(line: &str) -> Option<Self> {
        let field = |name: &str| {
            let at = line.find(&format!(" {name}=")).map(|at| at + name.len() + 2)?;
            Some(line[at..].split(' ').next().unwrap_or_default().to_owned())
        };
        // A comment may have spaces: it ends where the next field begins.
        let comment = line.split_once(" Comment=").map(|(_, rest)| {
            let end = rest.match_indices(' ').map(|(at, _)| at).find(|&at| {
                let word = rest[at + 1..].split(' ').next().unwrap_or_default();
                word.split_once('=').is_some_and(|(name, _)| name.chars().next().is_some_and(char::is_uppercase))
            });
            rest[..end.unwrap_or(rest.len())].trim_end().to_owned()
        });
        Some(Self {
            state: field("JobState")?,
            reason: field("Reason").unwrap_or_default(),
            node: field("NodeList").filter(|node| !matches!(node.as_str(), "" | "(null)")),
            comment: comment.unwrap_or_default(),
            code: field("ExitCode").and_then(|code| {
                let (code, signal) = code.split_once(':')?;
                Some(if signal == "0" { code.parse().ok()? } else { 128 + signal.parse::<i32>().ok()? })
            }),
        })
    }

    /// What became of a task, given all tasks of its array that Slurm knows. Of one that was cancelled while it waited it knows nothing any more.
    pub fn of_task(id: SlurmId, tasks: Vec<Row>) -> Option<Self> {
        let cancelled = |row: &Row| Self {
            state: "CANCELLED".to_owned(),
            reason: String::new(),
            node: None,
            comment: row.comment.clone(),
            code: None,
        };
        let of_array = tasks.first().map(cancelled);
        tasks.into_iter().find(|row| row.id == id).map(Self::from).or(of_array)
    }

    /// Whether Slurm has ended it.
    pub fn is_over(&self) -> bool {
        !matches!(
            self.state.as_str(),
            "PENDING" | "CONFIGURING" | "RUNNING" | "SUSPENDED" | "STOPPED" | "COMPLETING" | "REQUEUED" | "STAGE_OUT"
        )
    }

    /// For people, beside the id of the job.
    pub fn words(&self) -> String {
        match self.state.as_str() {
            "TIMEOUT" => "ran longer than Slurm's time limit".to_owned(),
            "OUT_OF_MEMORY" => "used more memory than Slurm gave it: raise `ram`".to_owned(),
            "NODE_FAIL" => "its node failed".to_owned(),
            "CANCELLED" => "was cancelled in Slurm".to_owned(),
            "PREEMPTED" => "was preempted in Slurm".to_owned(),
            // So ends what a node kills for its memory without cgroups.
            "FAILED" if self.reason == "JobLaunchFailure" => {
                "was ended by its node (JobLaunchFailure), as is what takes more memory than its `ram`,".to_owned()
            }
            state if matches!(self.reason.as_str(), "" | "None") => format!("ended in Slurm as {state}"),
            state => format!("ended in Slurm as {state} ({})", self.reason),
        }
    }
}

impl From<Row> for Fate {
    fn from(row: Row) -> Self {
        Self { state: row.state, reason: row.reason, node: row.node, comment: row.comment, code: None }
    }
}
