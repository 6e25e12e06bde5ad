//! Where each part of a policy is written.
//!
//! Room: values.

use policy_admission::service::{Concern, Refusal};
use surface_text::{Report, Span};

/// A profile or a rule: where it begins, and where its fields are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// None for the profile that is there without being written.
    pub(crate) at: Option<Span>,
    pub(crate) fields: Vec<(&'static str, Span)>,
}

impl Part {
    fn field(&self, name: Option<&str>) -> Option<&Span> {
        let found = name.and_then(|name| self.fields.iter().find(|(field, _)| *field == name));
        found.map(|(_, at)| at).or(self.at.as_ref())
    }
}

/// In the order of the policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    pub(crate) default: Span,
    pub(crate) profiles: Vec<Part>,
    pub(crate) hints: Vec<Span>,
    pub(crate) rules: Vec<Part>,
}

impl Spans {
    /// The header of a profile.
    pub(crate) fn profile(&self, index: usize) -> Option<&Span> {
        self.profiles.get(index)?.at.as_ref()
    }

    /// The beginning of a rule.
    pub(crate) fn rule(&self, index: usize) -> &Span {
        self.rules.get(index).and_then(|rule| rule.at.as_ref()).unwrap_or(&self.default)
    }

    /// Adds a refusal where it belongs.
    pub(crate) fn report(&self, refusal: &Refusal, report: &mut Report) {
        let start = 0..0;
        let at = match refusal.concern() {
            Concern::Default => Some(&self.default),
            Concern::Profile(index, field) => self.profiles.get(*index).and_then(|part| part.field(*field)),
            Concern::Hint(index) => self.hints.get(*index),
            Concern::Rule(index, field) => self.rules.get(*index).and_then(|part| part.field(*field)),
            _ => None,
        };
        report.add(at.unwrap_or(&start), refusal.to_string(), refusal.way_out());
    }
}
