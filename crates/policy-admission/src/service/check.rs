//! What has to hold before a policy comes into force.
//!
//! Room: decisions.
//!
//! # Invariant
//! A policy without a refusal has bounded size, unique names, values in range, and reserves that the machine can promise all at once.
//!
//! # Why it costs a bounded time
//! Counts and ranges come first; what is outside them is not looked at further. Admission then sees at most [`RESERVES_MAX`] reserves, with periods between
//! [`PERIOD_MIN`] and [`PERIOD_MAX`].

use std::collections::HashSet;
use std::ops::RangeInclusive;

use policy_cpu::{CPUS_MAX, Nanos, Weight};

use super::cpu_profile::{CpuDemand, CpuProfile, clipped};
use super::refusal::{Concern, Refusal};
use super::set::PolicySet;
use crate::cpu::{CpuAdmission, HOUSEKEEPING_PERMILLE, Island};

/// The most profiles of a policy.
pub const PROFILES_MAX: usize = 64;
/// The most rules of a policy.
pub const RULES_MAX: usize = 256;
/// The most profiles with a reserve.
pub const RESERVES_MAX: usize = 16;
/// The longest name of a profile, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest pattern of a rule, in bytes.
pub const PATTERN_BYTES_MAX: usize = 128;
/// The shortest slice.
pub const SLICE_MIN: Nanos = 100_000;
/// The longest slice.
pub const SLICE_MAX: Nanos = 100_000_000;
/// The shortest period of a reserve.
pub const PERIOD_MIN: Nanos = 100_000;
/// The longest period of a reserve.
pub const PERIOD_MAX: Nanos = 10_000_000_000;
/// The smallest budget of a reserve: less is not worth a switch.
pub const BUDGET_MIN: Nanos = 10_000;

/// The machine that a policy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    cpus: u32,
    reserve: u32,
}

impl Machine {
    /// A machine of so many CPUs, of each of which 5 % are kept for housekeeping.
    pub fn new(cpus: u32) -> Self {
        Machine { cpus: cpus.clamp(1, CPUS_MAX), reserve: HOUSEKEEPING_PERMILLE }
    }

    /// The machine that this process runs on: as many CPUs as it may use.
    pub fn here() -> Self {
        Machine::new(std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32))
    }

    /// What is kept of every CPU, in thousandths.
    #[must_use]
    pub fn housekeeping_permille(mut self, reserve: u32) -> Self {
        self.reserve = reserve.min(1000);
        self
    }

    /// How many CPUs it has.
    pub const fn cpus(&self) -> u32 {
        self.cpus
    }

    /// An admission on which nothing is admitted yet.
    fn admission(&self) -> CpuAdmission {
        CpuAdmission::new(self.cpus).housekeeping_permille(self.reserve)
    }
}

impl PolicySet {
    /// Everything that is wrong with it on any machine; nothing if it is right.
    pub fn problems(&self) -> Vec<Refusal> {
        let reserves = self.profiles.iter().filter(|profile| profile.reserve.is_some()).count();
        let counts = [
            ("profiles", self.profiles.len(), PROFILES_MAX),
            ("rules", self.rules.len(), RULES_MAX),
            ("profiles with a reserve", reserves, RESERVES_MAX),
            ("hints", self.hints.len(), super::Hint::ALL.len()),
        ];
        let too_many: Vec<Refusal> = counts
            .into_iter()
            .filter(|(_, count, limit)| count > limit)
            .map(|(what, count, limit)| Refusal::TooMany { what, count, limit })
            .collect();
        if !too_many.is_empty() {
            return too_many; // more than this is not worth looking at
        }
        let mut found = Vec::new();
        let mut names = HashSet::new();
        for (index, profile) in self.profiles.iter().enumerate() {
            let concern = Concern::Profile(index, None);
            if let Some(why) = bad_name(&profile.name) {
                let name = clipped(&profile.name).to_owned();
                found.push(Refusal::BadName { concern, name, why, limit: NAME_BYTES_MAX });
            } else if !names.insert(&profile.name) {
                found.push(Refusal::Twice { concern, name: profile.name.clone() });
            }
            ranges(index, profile, &mut found);
        }
        let mut known = |concern: Concern, name: &std::sync::Arc<str>| {
            if !names.contains(name) {
                found.push(Refusal::NoProfile { concern, name: clipped(name).to_owned() });
            }
        };
        known(Concern::Default, &self.default);
        for (index, (_, name)) in self.hints.iter().enumerate() {
            known(Concern::Hint(index), name);
        }
        for (index, rule) in self.rules.iter().enumerate() {
            known(Concern::Rule(index, Some("profile")), &rule.profile);
        }
        for (index, (hint, _)) in self.hints.iter().enumerate() {
            if self.hints[..index].iter().any(|(before, _)| before == hint) {
                found.push(Refusal::hint_twice(index, *hint));
            }
        }
        for (index, rule) in self.rules.iter().enumerate() {
            if let Some(why) = bad_pattern(&rule.pattern) {
                let concern = Concern::Rule(index, Some(rule.subject.name()));
                let name = clipped(&rule.pattern).to_owned();
                found.push(Refusal::BadName { concern, name, why, limit: PATTERN_BYTES_MAX });
            }
        }
        found
    }

    /// Everything that this machine cannot do, of a policy that is right otherwise. Reserves are admitted in order, all at once on the machine.
    pub fn problems_on(&self, machine: &Machine) -> Vec<Refusal> {
        let mut found = Vec::new();
        let mut admission = machine.admission();
        for (index, profile) in self.profiles.iter().enumerate() {
            let name = profile.name.clone();
            let concern = Concern::Profile(index, Some("cpus"));
            let lacking = match profile.cpus {
                CpuDemand::Any => None,
                CpuDemand::Count(count) => (count > machine.cpus).then(|| format!("{count} CPUs")),
                CpuDemand::Set(cpus) => cpus.iter().find(|cpu| *cpu >= machine.cpus).map(|cpu| format!("CPU {cpu}")),
            };
            if let Some(asked) = lacking {
                found.push(Refusal::NoSuchCpus { concern, profile: name, asked, cpus: machine.cpus });
                continue;
            }
            let Some(spec) = profile.context_spec() else { continue };
            if let Err(why) = admission.admit(&Island::new("policy").task(&*name, spec)) {
                let concern = Concern::Profile(index, Some("budget"));
                found.push(Refusal::NotAdmitted { concern, profile: name, why: Box::new(why) });
            }
        }
        found
    }
}

fn ranges(index: usize, profile: &CpuProfile, found: &mut Vec<Refusal>) {
    let mut range = |field: &'static str, value: u64, range: RangeInclusive<u64>, is_time: bool| {
        let is_in = range.contains(&value);
        if !is_in {
            let concern = Concern::Profile(index, Some(field));
            let (least, most) = range.into_inner();
            let profile = profile.name.clone();
            found.push(Refusal::OutOfRange { concern, profile, field, value, least, most, is_time });
        }
        is_in
    };
    range("weight", profile.weight.into(), Weight::MIN.into()..=Weight::MAX.into(), false);
    range("slice", profile.slice, SLICE_MIN..=SLICE_MAX, true);
    match profile.cpus {
        CpuDemand::Any => {}
        CpuDemand::Count(count) => drop(range("cpus", count.into(), 1..=CPUS_MAX.into(), false)),
        CpuDemand::Set(cpus) => drop(range("cpus", cpus.len().into(), 1..=CPUS_MAX.into(), false)),
    }
    let Some(reserve) = profile.reserve else { return };
    let super::Reserve { budget, period, deadline, .. } = reserve;
    let is_right = range("period", period, PERIOD_MIN..=PERIOD_MAX, true)
        && range("budget", budget, BUDGET_MIN..=PERIOD_MAX, true);
    if is_right && !(budget <= deadline && deadline <= period) {
        let concern = Concern::Profile(index, Some(if deadline > period { "deadline" } else { "budget" }));
        found.push(Refusal::BadReserve { concern, profile: profile.name.clone(), budget, deadline, period });
    }
}

fn bad_name(name: &str) -> Option<&'static str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    match () {
        () if name.is_empty() => Some("is empty"),
        () if name.len() > NAME_BYTES_MAX => Some("is too long"),
        () if !name.chars().all(fits) => Some("has a character that a name cannot have"),
        () => None,
    }
}

fn bad_pattern(pattern: &str) -> Option<&'static str> {
    match () {
        () if pattern.is_empty() => Some("is an empty pattern"),
        () if pattern.len() > PATTERN_BYTES_MAX => Some("is too long"),
        () if pattern.chars().any(char::is_control) => Some("has a control character"),
        () if pattern.matches('*').count() > 1 => Some("has more than one `*`"),
        () => None,
    }
}
