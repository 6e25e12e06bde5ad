//! What Slurm says of jobs: rows of `squeue`, and of one job of `scontrol show job`.
//!
//! Room: surface.
//!
//! Pure: it reads text that a command printed.

use core::fmt;

/// The columns of `squeue -o`. The comment, which may have any character, is last.
pub const COLUMNS: &str = "%A|%T|%r|%N|%S|%j|%k";

/// A job in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: u64,
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
        let mut parts = line.splitn(7, '|');
        let mut next = || parts.next().map(str::trim);
        let known = |text: &str| Some(text.to_owned()).filter(|text| !matches!(text.as_str(), "" | "N/A" | "(null)"));
        Some(Self {
            id: next()?.parse().ok()?,
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
    /// Its comment: the id may have been given to another job.
    pub comment: String,
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
            comment: comment.unwrap_or_default(),
        })
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
            state if matches!(self.reason.as_str(), "" | "None") => format!("is {} in Slurm", state.to_lowercase()),
            state => format!("is {} in Slurm ({})", state.to_lowercase(), self.reason),
        }
    }
}
