//! A whole policy, as it is written down: profiles, and who gets which.
//!
//! Room: values. Knows what a policy says; knows nothing of whether it is right.

use std::{fmt, sync::Arc};

use super::cpu_profile::{CpuProfile, Hint};

/// Whose names a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// Any name, as it is.
    Name,
    /// A session: names that begin with `session:`.
    Session,
    /// An account: names that begin with `account:`.
    Account,
    /// A service: names that begin with `service:`.
    Service,
}

impl Subject {
    /// All of them.
    pub const ALL: [Subject; 4] = [Subject::Name, Subject::Session, Subject::Account, Subject::Service];

    /// As it is written in files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Subject::Name => "name",
            Subject::Session => "session",
            Subject::Account => "account",
            Subject::Service => "service",
        }
    }

    /// What is left of a name for the pattern; none if it is not such a name.
    fn of(self, name: &str) -> Option<&str> {
        match self {
            Subject::Name => Some(name),
            Subject::Session | Subject::Account | Subject::Service => name.strip_prefix(self.name())?.strip_prefix(':'),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Names that match a pattern get a profile.
///
/// A `*` stands for any text, also for none; a pattern has at most one. So a match costs no more than the pattern is long, however long the name is.
///
/// ```
/// use policy_admission::service::{Rule, Subject};
///
/// let rule = Rule::new(Subject::Service, "mixer-*", "audio");
/// assert!(rule.matches("service:mixer-2"));
/// assert!(!rule.matches("mixer-2"), "that is not said to be a service");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Whose names.
    pub subject: Subject,
    /// Which of them.
    pub pattern: Arc<str>,
    /// What they get.
    pub profile: Arc<str>,
}

impl Rule {
    /// A rule by these three.
    pub fn new(subject: Subject, pattern: impl Into<Arc<str>>, profile: impl Into<Arc<str>>) -> Self {
        Rule { subject, pattern: pattern.into(), profile: profile.into() }
    }

    /// Whether it is about this name.
    pub fn matches(&self, name: &str) -> bool {
        let Some(name) = self.subject.of(name) else { return false };
        match self.pattern.split_once('*') {
            None => *self.pattern == *name,
            Some((start, end)) => {
                name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
            }
        }
    }
}

impl fmt::Display for Rule {
    /// `service = "mixer-*"`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = \"{}\"", self.subject, self.pattern)
    }
}

/// A policy: it may be wrong. What was checked is an [`Epoch`](super::Epoch).
///
/// ```
/// use policy_admission::service::{CpuProfile, Hint, PolicySet, Rule, Subject};
///
/// let mut batch = CpuProfile::new("encoder");
/// batch.weight = 256;
/// let mut set = PolicySet::new(CpuProfile::new("normal"));
/// set.profiles.push(batch);
/// set.hints.push((Hint::Batch, "encoder".into()));
/// set.rules.push(Rule::new(Subject::Account, "nightly", "encoder"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicySet {
    /// The profile of everything else.
    pub default: Arc<str>,
    /// All profiles. No two have the same name.
    pub profiles: Vec<CpuProfile>,
    /// Which profile a hint leads to; a hint that is not here leads to the default.
    pub hints: Vec<(Hint, Arc<str>)>,
    /// In order: the first that matches decides.
    pub rules: Vec<Rule>,
}

impl PolicySet {
    /// A policy in which everything gets this profile.
    pub fn new(default: CpuProfile) -> Self {
        PolicySet { default: default.name.clone(), profiles: vec![default], hints: Vec::new(), rules: Vec::new() }
    }

    /// Profiles that nothing leads to: not the default, no hint, no rule. A program can still ask for one by its name.
    pub fn unused(&self) -> impl Iterator<Item = &CpuProfile> {
        self.profiles.iter().filter(|profile| {
            let is_it = |name: &Arc<str>| *name == profile.name;
            !is_it(&self.default)
                && !self.hints.iter().any(|(_, name)| is_it(name))
                && !self.rules.iter().any(|rule| is_it(&rule.profile))
        })
    }
}

impl Default for PolicySet {
    /// What holds where no policy was ever given: all work is normal.
    fn default() -> Self {
        PolicySet::new(CpuProfile::new("normal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_name_or_its_ends() {
        let matches = |pattern: &str, name: &str| Rule::new(Subject::Name, pattern, "x").matches(name);
        assert!(matches("db", "db") && !matches("db", "db1") && !matches("db", "d"));
        assert!(matches("db-*", "db-") && matches("db-*", "db-1") && !matches("db-*", "db"));
        assert!(matches("*-db", "a-db") && !matches("*-db", "a-dbx"));
        assert!(matches("a*a", "aa") && matches("a*a", "aba") && !matches("a*a", "a"), "both ends do not overlap");
        assert!(matches("*", "") && matches("", "") && !matches("", "a"));
    }

    #[test]
    fn a_rule_for_services_is_not_for_accounts() {
        let rule = Rule::new(Subject::Service, "db", "x");
        assert!(rule.matches("service:db"));
        assert!(!rule.matches("account:db") && !rule.matches("db") && !rule.matches("service:service:db"));
    }
}
