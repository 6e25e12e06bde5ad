//! A policy that passed all checks, with its number.
//!
//! Room: decisions.
//!
//! # Invariant
//! There is no `Epoch` whose policy has a problem on its machine: the only constructor checks.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::check::Machine;
use super::cpu_profile::{CpuProfile, Hint};
use super::refusal::Refusal;
use super::set::PolicySet;

/// A policy in force, and which one it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    number: u64,
    set: PolicySet,
    /// Places in `set.profiles`.
    default: usize,
    hints: [usize; Hint::ALL.len()],
    rules: Vec<usize>,
    names: BTreeMap<Arc<str>, usize>,
}

/// Why a name got its profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Because {
    /// This rule matches, counted from 0, and none before it.
    Rule(usize),
    /// No rule matches, and it is the name of the profile.
    Name,
    /// The hint leads there.
    Hint(Hint),
    /// Nothing else leads anywhere.
    Default,
}

impl Epoch {
    /// A policy under this number, if nothing is wrong with it on this machine.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn new(number: u64, set: PolicySet, machine: &Machine) -> Result<Epoch, Vec<Refusal>> {
        let mut problems = set.problems();
        if problems.is_empty() {
            problems = set.problems_on(machine);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Epoch::of_checked(number, set))
    }

    /// What holds before any policy was given.
    pub(super) fn initial() -> Epoch {
        Epoch::of_checked(0, PolicySet::default())
    }

    fn of_checked(number: u64, set: PolicySet) -> Epoch {
        let places = set.profiles.iter().enumerate();
        let names: BTreeMap<Arc<str>, usize> = places.map(|(index, profile)| (profile.name.clone(), index)).collect();
        let default = names[&set.default];
        let rules = set.rules.iter().map(|rule| names[&rule.profile]).collect();
        let mut hints = [default; Hint::ALL.len()];
        for (hint, profile) in &set.hints {
            hints[*hint as usize] = names[profile];
        }
        Epoch { number, set, default, hints, rules, names }
    }

    /// Its number. Numbers only grow.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// What it says.
    pub const fn set(&self) -> &PolicySet {
        &self.set
    }

    /// The profile of a name, and why: the first rule that matches; else the profile of that name; else the default.
    ///
    /// Rules come first, so a program that names a profile asks for it, and the operator has the last word.
    pub fn profile(&self, name: &str) -> (&CpuProfile, Because) {
        let rule = self.set.rules.iter().position(|rule| rule.matches(name));
        let (index, because) = match (rule, self.names.get(name)) {
            (Some(rule), _) => (self.rules[rule], Because::Rule(rule)),
            (None, Some(index)) => (*index, Because::Name),
            (None, None) => (self.default, Because::Default),
        };
        (&self.set.profiles[index], because)
    }

    /// The profile that a hint leads to, and why.
    pub fn hint(&self, hint: Hint) -> (&CpuProfile, Because) {
        let is_there = self.set.hints.iter().any(|(known, _)| *known == hint);
        let because = if is_there { Because::Hint(hint) } else { Because::Default };
        (&self.set.profiles[self.hints[hint as usize]], because)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (profiles, rules) = (self.set.profiles.len(), self.set.rules.len());
        write!(f, "epoch {}: {profiles} profiles, {rules} rules, default `{}`", self.number, self.set.default)
    }
}
