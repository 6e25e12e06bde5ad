//! Why a policy, or a message about one, is refused.
//!
//! Room: values.

use std::{error::Error, fmt, sync::Arc};

use policy_cpu::Nanos;

use super::cpu_profile::{Hint, clipped};
use crate::cpu::AdmitError;
use crate::cpu::Length;

/// What a refusal is about, so that a file can be marked where it says it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Concern {
    /// The message, or the policy as a whole.
    Whole,
    /// The default profile.
    Default,
    /// A profile by its place in the set, and the field if it is one.
    Profile(usize, Option<&'static str>),
    /// What a hint leads to, by its place in the set.
    Hint(usize),
    /// A rule, by its place in the set, and the field if it is one.
    Rule(usize, Option<&'static str>),
}

/// Why it is refused. What was in force stays.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// An epoch that is older than the one in force.
    EpochFell {
        /// The number that was offered.
        offered: u64,
        /// The number in force.
        in_force: u64,
    },
    /// The number in force, with another policy.
    EpochReused {
        /// The number.
        number: u64,
    },
    /// An epoch so far ahead that no honest service gets there.
    EpochJumped {
        /// The number that was offered.
        offered: u64,
        /// The largest number that is taken now.
        limit: u64,
    },
    /// Messages or proposals come too quickly.
    TooFast {
        /// Of what.
        what: &'static str,
        /// How many at once are taken.
        burst: u32,
        /// And so many in a second after that.
        per_second: u32,
    },
    /// A message that is too long. It was not read to its end.
    TooLong {
        /// How many bytes are taken.
        limit: usize,
    },
    /// Bytes that are no message.
    Garbled {
        /// What is wrong with them; of bounded length.
        what: String,
    },
    /// Too many of something.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many may be.
        limit: usize,
    },
    /// A name or a pattern that cannot be one.
    BadName {
        /// Of what.
        concern: Concern,
        /// The name, or its beginning.
        name: String,
        /// What is wrong with it, and what may be written.
        why: &'static str,
        /// How many bytes it may have.
        limit: usize,
    },
    /// A profile or a hint that is there twice.
    Twice {
        /// The second one.
        concern: Concern,
        /// Its name.
        name: Arc<str>,
    },
    /// A profile that the policy does not have.
    NoProfile {
        /// What names it.
        concern: Concern,
        /// The name.
        name: String,
    },
    /// A number outside its range.
    OutOfRange {
        /// Which profile and field.
        concern: Concern,
        /// The profile.
        profile: Arc<str>,
        /// The field.
        field: &'static str,
        /// What it says.
        value: u64,
        /// The smallest value.
        least: u64,
        /// The largest value.
        most: u64,
        /// Whether these are nanoseconds.
        is_time: bool,
    },
    /// A reserve whose budget, deadline and period are not in order.
    BadReserve {
        /// Which profile and field.
        concern: Concern,
        /// The profile.
        profile: Arc<str>,
        /// How much.
        budget: Nanos,
        /// By when.
        deadline: Nanos,
        /// How often.
        period: Nanos,
    },
    /// CPUs that the machine does not have.
    NoSuchCpus {
        /// Which profile and field.
        concern: Concern,
        /// The profile.
        profile: Arc<str>,
        /// What it asks for: CPU 7, or 9 CPUs.
        asked: String,
        /// How many CPUs there are.
        cpus: u32,
    },
    /// The machine cannot promise the reserve of a profile beside those of the profiles before it.
    NotAdmitted {
        /// Which profile.
        concern: Concern,
        /// The profile.
        profile: Arc<str>,
        /// Why not.
        why: Box<AdmitError>,
    },
}

impl Refusal {
    /// What it is about.
    pub fn concern(&self) -> &Concern {
        match self {
            Refusal::EpochFell { .. }
            | Refusal::EpochReused { .. }
            | Refusal::EpochJumped { .. }
            | Refusal::TooFast { .. }
            | Refusal::TooLong { .. }
            | Refusal::Garbled { .. }
            | Refusal::TooMany { .. } => &Concern::Whole,
            Refusal::BadName { concern, .. }
            | Refusal::Twice { concern, .. }
            | Refusal::NoProfile { concern, .. }
            | Refusal::OutOfRange { concern, .. }
            | Refusal::BadReserve { concern, .. }
            | Refusal::NoSuchCpus { concern, .. }
            | Refusal::NotAdmitted { concern, .. } => concern,
        }
    }

    /// What to do about it.
    pub fn way_out(&self) -> String {
        match self {
            Refusal::EpochFell { in_force, .. } | Refusal::EpochReused { number: in_force } => {
                format!("start the service with `--after {in_force}`")
            }
            Refusal::EpochJumped { .. } => "start the service with its own counter, without `--after`".into(),
            Refusal::TooFast { .. } => "send an epoch when the policy changes, and a heartbeat a second".into(),
            Refusal::TooLong { .. } => "split the policy, or shorten its names".into(),
            Refusal::Garbled { .. } => "a message is a line of JSON; is another program using this socket?".into(),
            Refusal::TooMany { limit, .. } => format!("keep {limit}, and let patterns cover the rest"),
            Refusal::BadName { concern: Concern::Rule(..), limit, .. } => {
                format!(
                    "write at most {limit} bytes, with one `*` at most, which stands for any text; several rules may give one profile"
                )
            }
            Refusal::BadName { limit, .. } => {
                format!("write at most {limit} bytes: letters, digits and any of `_-.`")
            }
            Refusal::Twice { .. } => "remove one of the two, or give it another name".into(),
            Refusal::NoProfile { name, .. } => format!("add `[profile.{}]`, or name another one", clipped(name)),
            Refusal::OutOfRange { least, most, is_time, .. } => {
                format!("write {} to {}", Amount(*least, *is_time), Amount(*most, *is_time))
            }
            Refusal::BadReserve { .. } => "write 0 < budget <= deadline <= period".into(),
            Refusal::NoSuchCpus { cpus: 1, .. } => "name CPU 0, or leave it out to run anywhere".into(),
            Refusal::NoSuchCpus { cpus, .. } => {
                format!("name CPUs from 0 to {}, or a number up to {cpus}", cpus.saturating_sub(1))
            }
            Refusal::NotAdmitted { .. } => "lower its budget, lengthen its period, or give it other CPUs".into(),
        }
    }
}

/// A number, as a time where it is one.
struct Amount(u64, bool);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1 { Length(self.0).fmt(f) } else { self.0.fmt(f) }
    }
}

/// Who names a profile, for a message.
fn who(concern: &Concern) -> String {
    match concern {
        Concern::Default => "`default`".into(),
        Concern::Hint(_) => "a hint".into(),
        Concern::Rule(index, _) => format!("rule {}", index + 1),
        Concern::Profile(index, _) => format!("profile {}", index + 1),
        Concern::Whole => "the policy".into(),
    }
}

impl fmt::Display for Refusal {
    /// Names the value and the limit; [`way_out`](Refusal::way_out) says what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::EpochFell { offered, in_force } => {
                write!(f, "epoch {offered} does not come after epoch {in_force}, which is in force")
            }
            Refusal::EpochReused { number } => {
                write!(f, "epoch {number} is in force with another policy; a new policy needs a larger number")
            }
            Refusal::EpochJumped { offered, limit } => {
                write!(f, "epoch {offered} is beyond {limit}, the limit for now")
            }
            Refusal::TooFast { what, burst, per_second } => {
                write!(f, "{what} come too quickly; {burst} at once and {per_second} a second are taken")
            }
            Refusal::TooLong { limit } => write!(f, "a message has more than {limit} bytes, the limit"),
            Refusal::Garbled { what } => write!(f, "this is not a message: {what}"),
            Refusal::TooMany { what, count, limit } => write!(f, "there are {count} {what}, but the limit is {limit}"),
            Refusal::BadName { concern, name, why, limit } => {
                write!(f, "{}: `{}` {why}; the limit is {limit} bytes", who(concern), clipped(name))
            }
            Refusal::Twice { concern: Concern::Hint(_), name } => write!(f, "hint `{name}` is there twice"),
            Refusal::Twice { name, .. } => write!(f, "profile `{name}` is there twice"),
            Refusal::NoProfile { concern, name } => {
                write!(f, "{} names the profile `{}`, which is not there", who(concern), clipped(name))
            }
            Refusal::OutOfRange { profile, field, value, least, most, is_time, .. } => {
                let limit = if value < least { ("minimum", least) } else { ("limit", most) };
                let (value, most) = (Amount(*value, *is_time), Amount(*limit.1, *is_time));
                write!(f, "profile `{profile}`: {field} is {value}, but the {} is {most}", limit.0)
            }
            Refusal::BadReserve { profile, budget, deadline, period, .. } => write!(
                f,
                "profile `{profile}` asks for {} with a deadline of {} in every {}",
                Length(*budget),
                Length(*deadline),
                Length(*period)
            ),
            Refusal::NoSuchCpus { profile, asked, cpus, .. } => {
                write!(f, "profile `{profile}` asks for {asked}, but the machine has {cpus}")
            }
            Refusal::NotAdmitted { why, .. } => write!(f, "{why}"),
        }
    }
}

impl Error for Refusal {}

impl Refusal {
    /// About a hint that is there twice.
    pub(super) fn hint_twice(index: usize, hint: Hint) -> Refusal {
        Refusal::Twice { concern: Concern::Hint(index), name: hint.name().into() }
    }
}
