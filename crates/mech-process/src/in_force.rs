//! What the system has in force for a command, as it says itself.
//!
//! Room: mechanism. Knows what can be read back; knows nothing of how it was set.
//!
//! # Invariant
//! Every value was read from the system, by a call that returns what the kernel has. Nothing is copied from what was asked for.

use std::fmt::Write as _;
use std::time::Duration;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::autogroup;
use crate::cpu_group::{self, GroupValue};
use crate::limits::Limits;
use crate::machine::cpu_list;
use crate::raw::sched::{self, Attributes};

/// A scheduling policy of Linux, with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Policy {
    /// `SCHED_OTHER`: the fair scheduler.
    Other,
    /// `SCHED_BATCH`: the same, without preempting others when it wakes.
    Batch,
    /// `SCHED_IDLE`: the fair scheduler with the smallest weight.
    Idle,
    /// `SCHED_FIFO` with this priority.
    Fifo(u32),
    /// `SCHED_RR` with this priority.
    RoundRobin(u32),
    /// `SCHED_DEADLINE`.
    Deadline {
        /// CPU time in each period.
        budget: Duration,
        /// How soon in each period.
        deadline: Duration,
        /// How often.
        period: Duration,
    },
    /// Another one, by its number.
    Unknown(u32),
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Policy::Other => f.write_str("SCHED_OTHER"),
            Policy::Batch => f.write_str("SCHED_BATCH"),
            Policy::Idle => f.write_str("SCHED_IDLE"),
            Policy::Fifo(priority) => write!(f, "SCHED_FIFO {priority}"),
            Policy::RoundRobin(priority) => write!(f, "SCHED_RR {priority}"),
            Policy::Deadline { budget, deadline, period } => {
                write!(f, "SCHED_DEADLINE {budget:?} of every {period:?}, within {deadline:?}")
            }
            Policy::Unknown(number) => write!(f, "policy {number}"),
        }
    }
}

/// A priority for reading and writing. Disks without an I/O scheduler that looks at it ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum IoPriority {
    /// As the niceness says.
    ByNice,
    /// Before all others; 0 is first.
    Realtime(u8),
    /// 0 is first, 7 is last, 4 is usual.
    BestEffort(u8),
    /// Only on an idle disk.
    Idle,
}

impl IoPriority {
    /// The number of `ioprio_set`.
    pub(crate) fn number(self) -> u16 {
        match self {
            IoPriority::ByNice => 0,
            IoPriority::Realtime(level) => 1 << 13 | u16::from(level),
            IoPriority::BestEffort(level) => 2 << 13 | u16::from(level),
            IoPriority::Idle => 3 << 13,
        }
    }

    fn of_number(number: u16) -> IoPriority {
        let level = (number & 7) as u8;
        match number >> 13 {
            1 => IoPriority::Realtime(level),
            2 => IoPriority::BestEffort(level),
            3 => IoPriority::Idle,
            _ => IoPriority::ByNice,
        }
    }
}

impl std::fmt::Display for IoPriority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IoPriority::ByNice => f.write_str("I/O by nice"),
            IoPriority::Realtime(level) => write!(f, "I/O realtime {level}"),
            IoPriority::BestEffort(level) => write!(f, "I/O best-effort {level}"),
            IoPriority::Idle => f.write_str("I/O idle"),
        }
    }
}

/// What a [`Refusal`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Setting {
    /// [`Limits::class`], or [`Limits::nice`].
    Class,
    /// [`Limits::weight`].
    Weight,
    /// [`Limits::cpus`].
    Cpus,
    /// [`Limits::reservation`].
    Reservation,
}

/// Something that the system refused, so that the next best was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Refusal {
    /// What it is about.
    pub setting: Setting,
    /// What was refused, and why.
    pub why: String,
}

impl Refusal {
    pub(crate) fn new(setting: Setting, what: &str, why: &dyn std::fmt::Display) -> Refusal {
        Refusal { setting, why: format!("{what} is refused ({why})") }
    }
}

/// What the system has in force for the first process of a command. What that starts has the same, but for a reservation: see [`Policy::Deadline`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InForce {
    /// Its policy.
    pub policy: Policy,
    /// Its niceness.
    pub nice: i32,
    /// Its time slice, where the policy is a fair one and the kernel tells it.
    pub slice: Option<Duration>,
    /// Its I/O priority.
    pub io: IoPriority,
    /// The CPUs that it may run on.
    pub cpus: Vec<usize>,
    /// The niceness of its autogroup, where autogroups divide the CPUs.
    pub autogroup: Option<i32>,
    /// The weight of its control group, if it has one of its own.
    pub weight: Option<GroupValue>,
    /// The CPUs of its control group, if it has one of its own.
    pub cpuset: Option<GroupValue>,
    /// What was refused when it was started.
    pub refused: Vec<Refusal>,
}

impl InForce {
    /// What is in force for a process now. `None`: there is no such process.
    ///
    /// ```
    /// use mech_process::InForce;
    ///
    /// let mine = InForce::of(std::process::id() as i32).unwrap();
    /// assert!(!mine.cpus.is_empty() && (-20..=19).contains(&mine.nice));
    /// ```
    pub fn of(pid: i32) -> Option<InForce> {
        let attributes = sched::get(pid).ok()?;
        let io = IoPriority::of_number(sched::io(pid).unwrap_or(0));
        let set = rustix::thread::sched_getaffinity(Pid::from_raw(pid)).ok()?;
        let weight = cpu_group::weight_of(pid);
        Some(InForce {
            policy: policy(&attributes),
            nice: attributes.nice,
            slice: is_fair(&attributes)
                .then(|| Duration::from_nanos(attributes.runtime_ns))
                .filter(|one| !one.is_zero()),
            io,
            cpus: (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
            autogroup: if weight.is_none() && autogroup::is_on() { autogroup::nice(pid) } else { None },
            weight,
            cpuset: cpu_group::cpus_of(pid),
            refused: Vec::new(),
        })
    }

    /// In words, beside what was asked for. `None`: nothing was asked for.
    ///
    /// ```
    /// use mech_process::{Class, InForce, Limits};
    ///
    /// let mine = InForce::of(std::process::id() as i32).unwrap();
    /// let mut asked = Limits::default();
    /// assert_eq!(mine.words(&asked), None);
    /// asked.class = Some(Class::Normal);
    /// assert!(mine.words(&asked).unwrap().starts_with("class normal: SCHED_"));
    /// ```
    pub fn words(&self, asked: &Limits) -> Option<String> {
        let mut all: Vec<String> = Vec::new();
        let refused = |setting: Setting| -> Vec<&str> {
            self.refused.iter().filter(|one| one.setting == setting).map(|one| one.why.as_str()).collect()
        };
        let noted = |mut text: String, setting: Setting| {
            let refused = refused(setting);
            if !refused.is_empty() {
                let _ = write!(text, " ({})", refused.join("; "));
            }
            text
        };
        if asked.reservation.is_some() {
            let refused = refused(Setting::Reservation);
            all.push(match self.policy {
                Policy::Deadline { .. } => {
                    format!("reservation: {}, for its first thread alone: what it starts is SCHED_OTHER", self.policy)
                }
                Policy::Fifo(_) => format!(
                    "reservation: {}, uses {} for all it starts: nothing enforces the budget",
                    refused.join("; "),
                    self.policy
                ),
                _ => format!("reservation: {}, uses {}", refused.join("; "), self.fair()),
            });
        }
        if let Some(class) = asked.class.filter(|_| asked.reservation.is_none()) {
            all.push(noted(format!("class {class}: {}", self.fair()), Setting::Class));
        } else if asked.nice.is_some() {
            all.push(noted(format!("nice: {}", self.fair()), Setting::Class));
        }
        if let Some(weight) = asked.weight {
            all.push(match &self.weight {
                Some(group) => noted(format!("weight {weight}: {group}"), Setting::Weight),
                None => {
                    let of = if self.autogroup.is_some() { " of the process and its autogroup" } else { "" };
                    format!("weight {weight}: {}, uses nice {}{of}", refused(Setting::Weight).join("; "), self.nice)
                }
            });
        }
        if let Some(cpus) = &asked.cpus {
            let mut text = format!("cpus {}: affinity {}", cpu_list(cpus), cpu_list(&self.cpus));
            if let Some(group) = &self.cpuset {
                let _ = write!(text, ", {group}");
            }
            all.push(noted(text, Setting::Cpus));
        }
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Policy, niceness, slice, autogroup, I/O.
    fn fair(&self) -> String {
        let mut text = format!("{}, nice {}", self.policy, self.nice);
        if let Some(slice) = self.slice {
            let _ = write!(text, ", slice {slice:?}");
        }
        if let Some(nice) = self.autogroup {
            let _ = write!(text, ", autogroup nice {nice}");
        }
        let _ = write!(text, ", {}", self.io);
        text
    }
}

fn is_fair(attributes: &Attributes) -> bool {
    matches!(attributes.policy, sched::OTHER | sched::BATCH | sched::IDLE)
}

fn policy(attributes: &Attributes) -> Policy {
    let nanos = Duration::from_nanos;
    match attributes.policy {
        sched::OTHER => Policy::Other,
        sched::FIFO => Policy::Fifo(attributes.priority),
        sched::ROUND_ROBIN => Policy::RoundRobin(attributes.priority),
        sched::BATCH => Policy::Batch,
        sched::IDLE => Policy::Idle,
        sched::DEADLINE => Policy::Deadline {
            budget: nanos(attributes.runtime_ns),
            deadline: nanos(attributes.deadline_ns),
            period: nanos(attributes.period_ns),
        },
        other => Policy::Unknown(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_priority_is_read_as_it_was_written() {
        for io in [IoPriority::ByNice, IoPriority::Realtime(2), IoPriority::BestEffort(7), IoPriority::Idle] {
            assert_eq!(IoPriority::of_number(io.number()), io);
        }
    }

    #[test]
    fn what_was_refused_is_beside_what_is_used_instead() {
        let mut mine = InForce::of(std::process::id().cast_signed()).unwrap();
        mine.refused.push(Refusal::new(Setting::Reservation, "SCHED_DEADLINE", &"EPERM"));
        mine.policy = Policy::Fifo(10);
        let budget = Duration::from_millis(1);
        let asked = Limits { reservation: Some(crate::Reservation::new(budget, budget * 10)), ..Limits::default() };
        let words = mine.words(&asked).unwrap();
        assert_eq!(
            words,
            "reservation: SCHED_DEADLINE is refused (EPERM), uses SCHED_FIFO 10 for all it starts: nothing enforces the budget"
        );
    }
}
