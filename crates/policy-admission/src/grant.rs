//! A request for a capability: terms, a label, and whether it may be passed on.
//!
//! Room: values.

use std::sync::Arc;

use crate::Terms;

/// Whether anything may be derived from a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delegation {
    /// Its holder may attenuate and delegate it.
    Allowed,
    /// Its holder may use it, and revoke it. Nothing may be derived from it.
    Final,
}

/// Terms, with a label and whether they may be passed on. A request: it grants nothing.
///
/// ```
/// use policy_admission::{CapSpawn, Delegation, Grant, Ledger};
///
/// let root = Ledger::new().grant(CapSpawn::new());
/// let team = Grant::new(CapSpawn::new().max_tasks(100)).label("team").delegation(Delegation::Allowed);
/// let team = root.attenuate(team)?;
/// let member = team.attenuate(CapSpawn::new().max_tasks(10))?; // by default it cannot be passed on
/// assert!(member.attenuate(CapSpawn::new()).is_err());
/// # Ok::<(), policy_admission::CapError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Grant<T: Terms> {
    pub(crate) terms: T,
    pub(crate) delegation: Option<Delegation>,
    pub(crate) label: Option<Arc<str>>,
}

impl<T: Terms> Grant<T> {
    /// These terms.
    pub const fn new(terms: T) -> Self {
        Self { terms, delegation: None, label: None }
    }

    /// Whether it may be passed on. By default, a capability granted by a ledger may, and a derived one may not.
    #[must_use]
    pub fn delegation(mut self, delegation: Delegation) -> Self {
        self.delegation = Some(delegation);
        self
    }

    /// How many bytes of a label are kept: the log remembers labels that tenants chose, and has to stay small.
    pub const LABEL_BYTES_MAX: usize = 128;

    /// The name of the holder: the log shows it. By default, a derived capability has the label of the one above.
    #[must_use]
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        let label = label.as_ref();
        self.label = Some(label[..label.floor_char_boundary(Self::LABEL_BYTES_MAX)].into());
        self
    }
}

impl<T: Terms> From<T> for Grant<T> {
    fn from(terms: T) -> Self {
        Self::new(terms)
    }
}
