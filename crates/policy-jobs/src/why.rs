//! Why a job is not running, in one line.
//!
//! Room: values.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::demand::Resource;
use crate::error::Cause;
use crate::state::State;

/// One resource that a ready job lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceShortage {
    /// Which.
    pub resource: Resource,
    /// How much of it the job needs.
    pub needs: u64,
    /// How much is free.
    pub free: u64,
    /// How much there is in all.
    pub limit: u64,
    /// How much other runs on this machine hold.
    pub elsewhere: u64,
    /// How much is reserved for another job.
    pub kept: u64,
    /// Whether the machine has no more, although the limit would allow it.
    pub machine: bool,
    /// For video memory on cards: then `needs` is per card, and `free` and `limit` are those of the card with most free.
    pub cards: Option<CardAvailability>,
}

/// How many graphics cards a job needs, and how many are free for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CardAvailability {
    /// How many it needs.
    pub wanted: u32,
    /// How many have enough free now.
    pub fit: u32,
    /// How many there are.
    pub all: u32,
}

/// A job that holds something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Its name.
    pub job: String,
    /// How much it holds.
    pub amount: u64,
    /// How long it probably still runs.
    pub left: Option<Duration>,
    /// Whether it is paused: then it keeps its memory, and its end is not known.
    pub paused: bool,
}

/// What a job is waiting for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Waits {
    /// For other jobs: the names and states of the first ones, and how many there are.
    Dependencies {
        /// The first of them.
        first: Vec<(String, State)>,
        /// How many in all.
        count: usize,
    },
    /// For the end of a back-off.
    BackOff {
        /// How long.
        left: Duration,
        /// The error of the last attempt.
        error: Option<Cause>,
        /// Which attempt comes next.
        attempt: u32,
    },
    /// For room.
    Room {
        /// What is missing; the scarcest first.
        short: Vec<ResourceShortage>,
        /// Who holds the first of these.
        holders: Vec<Holder>,
        /// How many ready jobs rank before it.
        ahead: usize,
        /// The job for which room is reserved, if it is another one.
        reserved_for: Option<String>,
        /// When it may start, if that is known.
        starts_in: Option<Duration>,
    },
    /// For its turn: it fits, and jobs with a higher rank start first.
    Turn {
        /// How many ready jobs rank before it.
        ahead: usize,
    },
    /// To be resumed.
    Resume {
        /// The state it was paused from.
        from: State,
        /// It was resumed, and waits for its CPU slots.
        asked: bool,
    },
    /// For nothing: it runs.
    Nothing {
        /// Since when.
        since: Duration,
        /// Its progress.
        progress: Option<f32>,
        /// How long it probably still runs.
        left: Option<Duration>,
        /// It was asked to pause.
        pausing: bool,
        /// It was asked to end.
        cancelling: bool,
        /// What its closure says it waits for.
        inside: Option<String>,
    },
    /// It has ended.
    Ended {
        /// Why, if it did not succeed.
        cause: Option<Cause>,
    },
}

/// The answer to *why is this waiting?*
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Why {
    /// The job.
    pub job: String,
    /// Its state.
    pub state: State,
    /// What it waits for.
    pub waits: Waits,
}

/// A duration for people.
fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `a`, `a and b`, `a, b and 7 more`.
fn list(names: &[String], count: usize) -> String {
    match (names, count) {
        ([], _) => String::new(),
        ([one], 1) => one.clone(),
        ([one, two], 2) => format!("{one} and {two}"),
        (names, count) if count > names.len() => format!("{} and {} more", names.join(", "), count - names.len()),
        ([first @ .., last], _) => format!("{} and {last}", first.join(", ")),
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = &self.job;
        match &self.waits {
            Waits::Dependencies { first, count } => {
                let names: Vec<String> = first.iter().map(|(name, state)| format!("{name} ({state})")).collect();
                write!(f, "{job} waits for {}", list(&names, *count))
            }
            Waits::BackOff { left, error, attempt } => {
                write!(f, "{job} is retried in {} (attempt {attempt})", about(*left))?;
                error.as_ref().map_or(Ok(()), |error| write!(f, "; the last attempt failed: {error}"))
            }
            Waits::Room { short, holders, ahead, reserved_for, starts_in } => {
                write_room(f, job, short, holders)?;
                if let Some(other) = reserved_for {
                    write!(f, ". Room is reserved for {other}, which has waited longest")?;
                }
                match ahead {
                    0 if reserved_for.is_some() => {}
                    // Jobs of other runs may have waited longer; which run is next is decided when something is released.
                    0 if short.first().is_some_and(|short| short.elsewhere > 0) => {
                        f.write_str(". First in line of its run")?;
                    }
                    0 => f.write_str(". First in line")?,
                    1 => f.write_str(". 1 job ranks before it")?,
                    n => write!(f, ". {n} jobs rank before it")?,
                }
                starts_in.map_or(Ok(()), |time| write!(f, "; expected start in ~{}", about(time)))
            }
            Waits::Turn { ahead: 0 } => write!(f, "{job} is about to start"),
            Waits::Turn { ahead: 1 } => write!(f, "{job} fits and waits for its turn: 1 job ranks before it"),
            Waits::Turn { ahead } => write!(f, "{job} fits and waits for its turn: {ahead} jobs rank before it"),
            Waits::Resume { asked: true, .. } => write!(f, "{job} was resumed and waits for its CPU slots"),
            Waits::Resume { from, .. } => write!(f, "{job} is paused (it was {from}); resume it to continue"),
            Waits::Nothing { since, progress, left, pausing, cancelling, inside } => {
                write!(f, "{job} does not wait: it has been running for {}", about(*since))?;
                if let Some(progress) = progress {
                    write!(f, ", {:.0} % done", progress * 100.0)?;
                }
                if let Some(left) = left {
                    write!(f, ", ~{} left", about(*left))?;
                }
                if *cancelling {
                    f.write_str("; it was asked to end")?;
                } else if *pausing {
                    f.write_str("; it was asked to pause and has not reached a checkpoint yet")?;
                }
                inside.as_ref().map_or(Ok(()), |inside| write!(f, "; in it, {inside}"))
            }
            Waits::Ended { cause: None } => write!(f, "{job} does not wait: it {}", self.state),
            Waits::Ended { cause: Some(cause) } => {
                let ended = if self.state == State::Cancelled { "was cancelled" } else { "failed" };
                write!(f, "{job} does not wait: it {ended}: {cause}")
            }
        }
    }
}

fn write_room(f: &mut fmt::Formatter<'_>, job: &str, short: &[ResourceShortage], holders: &[Holder]) -> fmt::Result {
    let Some(first) = short.first() else { return write!(f, "{job} waits for room") };
    let resource = &first.resource;
    let amount = |amount| resource.amount(amount);
    write!(f, "{job} waits for {resource}: needs {}", amount(first.needs))?;
    match first.cards {
        Some(CardAvailability { wanted: 1, .. }) => {
            let (free, limit) = (amount(first.free), amount(first.limit));
            write!(f, " on one card, the one with most free has {free} of {limit}")?;
        }
        Some(CardAvailability { wanted, fit, all }) => {
            write!(f, " on each of {wanted} cards, {fit} of {all} have that free")?;
        }
        None => write!(f, ", {} free", amount(first.free))?,
    }
    if first.machine && first.cards.is_some() {
        f.write_str("; other programs use the rest")?;
    } else if first.machine {
        f.write_str(" on this machine; other programs use the rest")?;
    } else if first.cards.is_none() {
        write!(f, " of {}", amount(first.limit))?;
    }
    let also: Vec<String> = short[1..].iter().map(|other| other.resource.to_string()).collect();
    if !also.is_empty() {
        write!(f, "; also short of {}", list(&also, also.len()))?;
    }
    let mut held: Vec<String> = holders
        .iter()
        .take(3)
        .map(|holder| {
            let left = match (holder.paused, holder.left) {
                (true, _) => ", paused".to_owned(),
                (false, Some(left)) => format!(", ~{} left", about(left)),
                (false, None) => String::new(),
            };
            format!("{} ({}{left})", holder.job, amount(holder.amount))
        })
        .collect();
    let mut count = holders.len();
    if first.elsewhere > 0 {
        held.truncate(2);
        held.push(format!("other runs ({})", amount(first.elsewhere)));
        count += 1;
    }
    if held.is_empty() { Ok(()) } else { write!(f, ". Held by {}", list(&held, count)) }
}
