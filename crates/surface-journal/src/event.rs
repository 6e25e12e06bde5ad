//! What is recorded while a run is active.
//!
//! Room: values.
//!
//! # Invariant
//! An event says only what is new: what it leaves `None` stays as the attempt had it. A new attempt starts empty.

use std::collections::BTreeMap;

use sched_jobs::State;
use serde::{Deserialize, Serialize};

use crate::Outputs;

/// Limit for the text of an error.
const ERROR_BYTES_MAX: usize = 4096;

/// What a job needs, or was given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// CPU slots.
    pub cpu_slots: u32,
    /// Memory.
    pub ram_mb: u64,
    /// Video memory.
    pub vram_mb: u64,
    /// Named resources, as in `licence = 2`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, u64>,
}

/// Something to record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// A job moved to another state.
    Moved(Box<Moved>),
    /// A job reported progress; only the latest figure is kept.
    Progressed {
        /// Which job of the run.
        job: u32,
        /// How far: 0 to 1.
        fraction: f64,
    },
    /// The run as a whole was paused, or resumed.
    RunPaused(bool),
    /// What the system has in force for the command of a job: only the latest is kept.
    InForce {
        /// Which job of the run.
        job: u32,
        /// In words.
        words: String,
    },
    /// A job started to make files, or has made them.
    Outputs(Box<Outputs>),
}

/// A job moved to another state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Which job of the run: its index in [`NewRun::jobs`](crate::NewRun::jobs).
    pub job: u32,
    /// Which attempt, from 1. What leads to an attempt (queued again, ready) belongs to it.
    pub attempt: u32,
    /// Where it is now.
    #[serde(with = "state_name")]
    pub state: State,
    /// Milliseconds since 1970; the writer's clock if `None`.
    pub at_ms: Option<u64>,
    /// Microseconds since the run began, which no change of the clock disturbs; the writer's if `None`.
    pub offset_us: Option<u64>,
    /// What else is known.
    pub detail: Detail,
}

impl Moved {
    /// A move that happens now, about which nothing else is known.
    pub fn new(job: u32, attempt: u32, state: State) -> Moved {
        Moved { job, attempt, state, at_ms: None, offset_us: None, detail: Detail::default() }
    }

    /// With what else is known.
    #[must_use]
    pub fn with(self, detail: Detail) -> Moved {
        Moved { detail, ..self }
    }
}

impl From<Outputs> for Event {
    fn from(outputs: Outputs) -> Event {
        Event::Outputs(Box::new(outputs))
    }
}

impl From<Moved> for Event {
    fn from(moved: Moved) -> Event {
        Event::Moved(Box::new(moved))
    }
}

/// What is known about an attempt; `None` is "nothing new".
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// What the executor finds it by after a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The process, if it is one of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How it ended, in words: "exit 3", "killed by signal 9", "out of time".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// How it ended, as a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The most memory it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_kb: Option<u64>,
    /// The most memory that it was seen to have on graphics cards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_vram_mb: Option<u64>,
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Time from start to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Time from ready to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Why it failed; what is over 4 KiB is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the system had in force for it: its class, weight, CPUs or reservation, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_force: Option<String>,
    /// What it was given, if other than what was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
}

impl Detail {
    /// Cuts what would let the journal grow without bound.
    pub(crate) fn bound(&mut self) {
        if let Some(error) = &mut self.error
            && error.len() > ERROR_BYTES_MAX
        {
            error.truncate(error.floor_char_boundary(ERROR_BYTES_MAX - '…'.len_utf8()));
            error.push('…');
        }
    }
}

/// States are written by name, so that the database can be read without us.
pub(crate) mod state_name {
    use sched_jobs::State;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(state: &State, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(state.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<State, D::Error> {
        let name = std::borrow::Cow::<str>::deserialize(deserializer)?;
        State::from_name(&name).ok_or_else(|| serde::de::Error::custom(format!("no state is called `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::Detail;

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let mut detail = Detail { error: Some("é".repeat(3_000)), ..Detail::default() };
        detail.bound();
        let error = detail.error.unwrap();
        assert!(error.len() <= 4096 && error.len() > 4090, "{} bytes", error.len());
        assert!(error.ends_with("é…"));
    }
}
