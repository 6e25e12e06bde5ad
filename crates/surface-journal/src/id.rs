//! The names of runs: short enough to type.
//!
//! Room: values.
//!
//! `r-` and four to six characters of 32 that are not mistaken for each other: no `i`, `l`, `o`, `u`.
//! Four give a million ids; a fifth and a sixth are added when random ids collide too often.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};

use serde::{Deserialize, Serialize};

const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The name of a run, as in `r-7k2m`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    /// A random one; longer when shorter ones were `taken` already.
    pub(crate) fn random(taken: u32) -> RunId {
        let length = 4 + (taken / 3).min(2) as usize;
        // The keys of a `RandomState` come from the system and differ each time.
        let mut bits = RandomState::new().build_hasher().finish();
        let mut text = String::from("r-");
        for _ in 0..length {
            text.push(char::from(LETTERS[(bits % 32) as usize]));
            bits /= 32;
        }
        RunId(text)
    }

    /// As the journal wrote it.
    pub(crate) fn stored(text: String) -> RunId {
        RunId(text)
    }

    /// The text, as in `r-7k2m`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::RunId;

    #[test]
    fn ids_are_short_and_grow_when_taken() {
        for (taken, length) in [(0, 6), (2, 6), (3, 7), (6, 8), (1_000, 8)] {
            let id = RunId::random(taken);
            assert_eq!(id.as_str().len(), length, "{id} after {taken} that were taken");
        }
    }

    #[test]
    fn a_thousand_ids_are_nearly_all_different() {
        let ids: std::collections::BTreeSet<_> = (0..1_000).map(|_| RunId::random(0)).collect();
        assert!(ids.len() > 990, "only {} of 1000 ids differ", ids.len());
    }
}
