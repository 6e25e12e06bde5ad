//! What the policy says about CPU time: profiles, and the hints that lead to them.
//!
//! Room: values.

use std::{error::Error, fmt, str::FromStr, sync::Arc};

use policy_cpu::{ContextSpec, CpuSet, Latency, Nanos, Overrun, Weight};

/// What a program says about its work, if it does not know the operator's profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Hint {
    /// A person or a device waits for it.
    LatencySensitive,
    /// Only its end matters.
    Batch,
    /// It serves a device.
    Driver,
    /// It asks again and again whether there is something to do.
    Poller,
    /// It works on its own, for a person who does not watch.
    Agent,
}

impl Hint {
    /// All of them.
    pub const ALL: [Hint; 5] = [Hint::LatencySensitive, Hint::Batch, Hint::Driver, Hint::Poller, Hint::Agent];

    /// As it is written in files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Hint::LatencySensitive => "latency-sensitive",
            Hint::Batch => "batch",
            Hint::Driver => "driver",
            Hint::Poller => "poller",
            Hint::Agent => "agent",
        }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that is no hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseHintError {
    word: String,
}

impl fmt::Display for ParseHintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<&str> = Hint::ALL.map(Hint::name).into();
        write!(f, "`{}` is not a hint; write one of {}", clipped(&self.word), all.join(", "))
    }
}

impl Error for ParseHintError {}

impl FromStr for Hint {
    type Err = ParseHintError;

    fn from_str(word: &str) -> Result<Hint, ParseHintError> {
        let found = Hint::ALL.into_iter().find(|hint| hint.name() == word);
        found.ok_or_else(|| ParseHintError { word: clipped(word).to_owned() })
    }
}

/// Where the work of a profile may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CpuDemand {
    /// On any CPU.
    #[default]
    Any,
    /// On so many CPUs, whichever they are.
    Count(u32),
    /// On these.
    Set(CpuSet),
}

/// CPU time that is reserved: so much, by a deadline, in every period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reserve {
    /// How much.
    pub budget: Nanos,
    /// How often.
    pub period: Nanos,
    /// By when, after the period began.
    pub deadline: Nanos,
    /// Of equal deadlines, the more critical goes first.
    pub criticality: u8,
    /// What happens when the budget is spent.
    pub overrun: Overrun,
}

impl Reserve {
    /// So much time in every period; due at its end; when it is spent, the work waits.
    pub const fn new(budget: Nanos, period: Nanos) -> Self {
        Reserve { budget, period, deadline: period, criticality: 0, overrun: Overrun::Throttle }
    }
}

/// How one kind of work gets CPU time.
///
/// ```
/// use policy_admission::service::{CpuProfile, Reserve};
///
/// let mut audio = CpuProfile::new("audio");
/// audio.weight = 4096; // four times as much as a normal task
/// audio.reserve = Some(Reserve::new(300_000, 5_000_000));
/// assert_eq!(audio.context_spec().unwrap().period, 5_000_000);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuProfile {
    /// What rules and hints call it.
    pub name: Arc<str>,
    /// Its share among others: 1024 is that of a normal task.
    pub weight: u32,
    /// How soon it would like to be served.
    pub latency: Latency,
    /// How long it runs at a time; as its latency says, unless said otherwise.
    pub slice: Nanos,
    /// Time that is reserved for it.
    pub reserve: Option<Reserve>,
    /// Where it may run.
    pub cpus: CpuDemand,
}

impl CpuProfile {
    /// A profile with the weight and the slice of a normal task.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        CpuProfile {
            name: name.into(),
            weight: Weight::NORMAL.get(),
            latency: Latency::Normal,
            slice: Latency::Normal.slice(),
            reserve: None,
            cpus: CpuDemand::Any,
        }
    }

    /// The scheduling context that it asks for, if time is reserved.
    pub fn context_spec(&self) -> Option<ContextSpec> {
        let Reserve { budget, period, deadline, criticality, overrun } = self.reserve?;
        let cpus = match self.cpus {
            CpuDemand::Set(cpus) => cpus,
            CpuDemand::Any | CpuDemand::Count(_) => CpuSet::ALL,
        };
        Some(ContextSpec { deadline, criticality, cpus, overrun, ..ContextSpec::new(budget, period) })
    }
}

/// The beginning of a text of any length, for a message.
pub(super) fn clipped(text: &str) -> &str {
    let end = text.char_indices().nth(40).map_or(text.len(), |(end, _)| end);
    &text[..end]
}
