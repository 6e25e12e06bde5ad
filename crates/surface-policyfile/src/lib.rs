//! A policy file: TOML to profiles for CPU time, hints and rules, checked.
//!
//! Room: surface. Knows TOML, JSON and their lines; knows nothing of services and clients.
//!
//! # Invariant
//! Any bytes give a [`PolicyFile`] or [`Problems`]: no panic, and memory in proportion to [`FILE_BYTES_MAX`].
//!
//! What has to hold for a policy is decided in `policy_admission::service`, once, for files and for messages alike. Here each refusal gets its line.
//!
//! ```
//! use policy_admission::service::{Epoch, Machine};
//!
//! let file = surface_policyfile::parse("policy.toml", r#"
//!     [profile.audio]
//!     weight = 4096
//!     budget = "300us"
//!     period = "5ms"
//!
//!     [[rule]]
//!     service = "mixer-*"
//!     profile = "audio"
//! "#)?;
//! let epoch = Epoch::new(1, file.set().clone(), &Machine::new(2)).unwrap();
//! assert_eq!(epoch.profile("service:mixer-2").0.weight, 4096);
//! # Ok::<(), surface_policyfile::Problems>(())
//! ```
#![forbid(unsafe_code)]

mod keys;
mod read;
mod reference;
mod spans;

use std::fs;
use std::path::Path;

pub use reference::{reference, schema};
pub use surface_text::{Location, Problem, Problems};

use policy_admission::service::{Machine, PolicySet, Refusal};
use surface_text::source;
use surface_text::tree::Dialect;
use surface_text::{Report, Span};

use spans::Spans;

/// The longest policy file, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// A policy, and where each part of it is written.
#[derive(Clone, Debug)]
pub struct PolicyFile {
    name: String,
    text: String,
    set: PolicySet,
    spans: Spans,
}

/// Reads a policy file.
///
/// # Errors
/// Everything that is wrong with it on any machine, or why it cannot be read.
pub fn load(path: &Path) -> Result<PolicyFile, Problems> {
    // A pipe would keep a service waiting that reads its file again.
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        let help = "give the name of a regular file, such as examples/policy.toml";
        return Err(Problems::of_file(&path.display().to_string(), "is not a regular file", help));
    }
    let (bytes, _) = source::read(path, FILE_BYTES_MAX, "name a policy file, such as examples/policy.toml")?;
    parse_bytes(&path.display().to_string(), &bytes)
}

/// Reads the text of a policy file. `name` is used in messages; its ending chooses the syntax (`.json`, else TOML).
///
/// # Errors
/// Everything that is wrong with it on any machine.
pub fn parse(name: &str, text: &str) -> Result<PolicyFile, Problems> {
    parse_bytes(name, text.as_bytes())
}

const DIALECT: Dialect = Dialect {
    brackets: 8,
    dots: 8,
    levels: 64,
    json_depth: 16,
    deep: "a policy file needs three levels; write it flat",
    line: "a line is `key = value`, a profile starts with `[profile.NAME]`, a rule with `[[rule]]`, and text is in quotes",
    shape: "a policy file in JSON is { \"profile\": { \"batch\": { \"weight\": 256 } } }",
};

/// As [`parse`], for bytes of any origin.
///
/// # Errors
/// Everything that is wrong with it on any machine.
pub fn parse_bytes(name: &str, bytes: &[u8]) -> Result<PolicyFile, Problems> {
    let (tree, mut values) = source::tree(name, bytes, FILE_BYTES_MAX, "split it by machine or by service", &DIALECT)?;
    let (set, spans) = read::read(&tree, &mut values);
    for refusal in set.problems() {
        spans.report(&refusal, &mut values.report);
    }
    if !values.report.is_empty() {
        return Err(values.report.finish(name, bytes));
    }
    Ok(PolicyFile { name: name.to_owned(), text: values.source.to_owned(), set, spans })
}

impl PolicyFile {
    /// What it says.
    pub const fn set(&self) -> &PolicySet {
        &self.set
    }

    /// The same, without its lines.
    pub fn into_set(self) -> PolicySet {
        self.set
    }

    /// What this machine cannot do; none if it can do everything.
    pub fn problems_on(&self, machine: &Machine) -> Option<Problems> {
        self.problems(&self.set.problems_on(machine))
    }

    /// Refusals of what it says, with their lines; none if there are none.
    pub fn problems(&self, refusals: &[Refusal]) -> Option<Problems> {
        self.collected(|report| refusals.iter().for_each(|refusal| self.spans.report(refusal, report)))
    }

    /// What is allowed, and is probably not meant: profiles that nothing leads to, and rules that never decide.
    pub fn warnings(&self) -> Option<Problems> {
        self.collected(|report| {
            for profile in self.set.unused() {
                let index = self.set.profiles.iter().position(|known| known.name == profile.name).unwrap_or(0);
                // The one that is always there was not written.
                let Some(at) = self.spans.profile(index) else { continue };
                let message = format!("nothing leads to profile `{}`: no rule, no hint, not the default", profile.name);
                report.add(at, message, "remove it, unless programs ask for it by its name");
            }
            for (index, rule) in self.set.rules.iter().enumerate() {
                let earlier = self.set.rules[..index].iter().position(|earlier| read::covers(earlier, rule));
                if let Some(earlier) = earlier {
                    let message =
                        format!("rule {} never decides: rule {} matches all of its names", index + 1, earlier + 1);
                    report.add(self.spans.rule(index), message, "move it before that rule, or remove it");
                }
            }
        })
    }

    /// Where a rule is written.
    pub fn rule_location(&self, index: usize) -> Option<Location> {
        let at = self.set.rules.get(index).map(|_| self.spans.rule(index).clone())?;
        self.location(&at)
    }

    /// Where a profile is written; none for `normal`, which is there without.
    pub fn profile_location(&self, name: &str) -> Option<Location> {
        let index = self.set.profiles.iter().position(|profile| &*profile.name == name)?;
        self.location(self.spans.profile(index)?)
    }

    fn location(&self, at: &Span) -> Option<Location> {
        let found = self.collected(|report| report.add(at, "", ""))?;
        found.iter().next().and_then(|problem| problem.location)
    }

    fn collected(&self, add: impl FnOnce(&mut Report)) -> Option<Problems> {
        let mut report = Report::default();
        add(&mut report);
        (!report.is_empty()).then(|| report.finish(&self.name, self.text.as_bytes()))
    }
}
