//! The name of a capability: a slot, and which of the slot's occupants is meant.
//!
//! Room: values.
//!
//! # Invariant
//! No two capabilities of one ledger ever have the same name, so a name that outlived its capability finds nothing.
//!
//! A name is not authority: to do anything with one takes a [`Ledger`](crate::Ledger) or a capability above it.

use std::fmt;

/// Names a capability. Fits 64 bits, and those are never all zero.
///
/// ```
/// use policy_admission::{CapId, CapSpawn, Ledger};
///
/// let id = Ledger::new().grant(CapSpawn::new()).id();
/// assert_eq!(CapId::from_bits(id.to_bits()), id);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl CapId {
    /// As one number, for languages without structs of two.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// Back from the number. Any number will do: one that names nothing is refused wherever it is used.
    pub const fn from_bits(bits: u64) -> CapId {
        CapId { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

impl fmt::Display for CapId {
    /// `3v2`: the second occupant of slot 3.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}v{}", self.slot, self.generation)
    }
}

impl fmt::Debug for CapId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CapId({self})")
    }
}
