//! Sets of CPUs.
//!
//! Room: values.

use core::array;
use core::fmt;

/// The most CPUs of a machine.
pub const CPUS_MAX: u32 = 256;

/// A set of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CpuSet([u64; (CPUS_MAX / 64) as usize]);

impl CpuSet {
    /// No CPU.
    pub const NONE: CpuSet = CpuSet([0; (CPUS_MAX / 64) as usize]);
    /// Every CPU that a machine may have.
    pub const ALL: CpuSet = CpuSet([u64::MAX; (CPUS_MAX / 64) as usize]);

    /// One CPU.
    pub const fn one(cpu: u32) -> CpuSet {
        let mut set = CpuSet::NONE;
        set.insert(cpu);
        set
    }

    /// The first so many CPUs.
    pub fn first(count: u32) -> CpuSet {
        (0..count).collect()
    }

    /// Adds a CPU.
    pub const fn insert(&mut self, cpu: u32) {
        assert!(cpu < CPUS_MAX, "there are at most 256 CPUs");
        self.0[(cpu / 64) as usize] |= 1 << (cpu % 64);
    }

    /// Adds a CPU, or takes it out.
    pub const fn set(&mut self, cpu: u32, is_in: bool) {
        assert!(cpu < CPUS_MAX, "there are at most 256 CPUs");
        let word = &mut self.0[(cpu / 64) as usize];
        *word = *word & !(1 << (cpu % 64)) | (is_in as u64) << (cpu % 64);
    }

    /// The first CPU that is not below `from`; else the first of all.
    pub fn next_from(&self, from: u32) -> Option<u32> {
        let after = |start: u32| {
            let mut word = start / 64;
            let mut bits = self.0.get(word as usize)? & (u64::MAX << (start % 64));
            loop {
                if bits != 0 {
                    return Some(word * 64 + bits.trailing_zeros());
                }
                word += 1;
                bits = *self.0.get(word as usize)?;
            }
        };
        after(from).or_else(|| after(0))
    }

    /// Whether it has the CPU.
    pub const fn contains(&self, cpu: u32) -> bool {
        cpu < CPUS_MAX && self.0[(cpu / 64) as usize] & 1 << (cpu % 64) != 0
    }

    /// Whether it has a CPU other than this one.
    pub(crate) fn has_others_than(mut self, cpu: u32) -> bool {
        self.set(cpu, false);
        !self.is_empty()
    }

    /// How many it has.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        let [a, b, c, d] = self.0;
        a | b | c | d == 0
    }

    /// What is in both.
    #[must_use]
    pub fn and(self, other: CpuSet) -> CpuSet {
        CpuSet(array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// What is in either.
    #[must_use]
    pub fn or(self, other: CpuSet) -> CpuSet {
        CpuSet(array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// What is in this one alone.
    #[must_use]
    pub fn without(self, other: CpuSet) -> CpuSet {
        CpuSet(array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The CPUs, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let words = self.0;
        let last = words.iter().rposition(|&word| word != 0).unwrap_or(0);
        let (mut at, mut bits) = (0, words[0]);
        core::iter::from_fn(move || {
            while bits == 0 {
                if at >= last {
                    return None;
                }
                at += 1;
                bits = words[at];
            }
            let low = bits.trailing_zeros();
            bits &= bits - 1;
            Some(at as u32 * 64 + low)
        })
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = CpuSet::NONE;
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl fmt::Display for CpuSet {
    /// As Linux writes it: `0-3,8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut first = true;
        while let Some(from) = cpus.next() {
            let mut to = from;
            while let Some(next) = cpus.next_if(|&next| next == to + 1) {
                to = next;
            }
            let comma = if first { "" } else { "," };
            first = false;
            match to - from {
                0 => write!(f, "{comma}{from}")?,
                _ => write!(f, "{comma}{from}-{to}")?,
            }
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_set_is_written_as_linux_writes_it() {
        let set: CpuSet = [0, 1, 2, 3, 8, 64, 65, 255].into_iter().collect();
        assert_eq!(set.to_string(), "0-3,8,64-65,255");
        assert_eq!((set.len(), CpuSet::NONE.to_string(), CpuSet::ALL.to_string()), (8, "none".into(), "0-255".into()));
    }

    #[test]
    fn sets_combine() {
        let (low, high) = (CpuSet::first(4), (2..6).collect::<CpuSet>());
        assert_eq!(low.and(high), (2..4).collect());
        assert_eq!(low.or(high), CpuSet::first(6));
        assert_eq!(low.without(high), CpuSet::first(2));
        assert!(!low.contains(300));
        let some: CpuSet = [3, 70, 200].into_iter().collect();
        let next: std::vec::Vec<_> = [0, 3, 4, 71, 201, 255].map(|from| some.next_from(from).unwrap()).into();
        assert_eq!(next, [3, 3, 70, 200, 3, 3]);
        assert_eq!(CpuSet::NONE.next_from(9), None);
        assert_eq!(some.iter().collect::<std::vec::Vec<_>>(), [3, 70, 200]);
        assert_eq!(CpuSet::ALL.iter().collect::<CpuSet>(), CpuSet::ALL);
        assert_eq!(CpuSet::NONE.iter().next(), None);
        assert!(some.has_others_than(3) && CpuSet::one(200).has_others_than(3) && !CpuSet::one(3).has_others_than(3));
    }
}
