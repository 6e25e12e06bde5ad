//! A set of CPUs, as the system has it.
//!
//! Room: values.

use std::fmt;

/// The most CPUs that the system is asked about.
pub const CPUS_MAX: usize = 1024;

/// CPUs, by number.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuMask(pub(crate) [u64; CPUS_MAX / 64]);

impl CpuMask {
    /// No CPU.
    pub const NONE: CpuMask = CpuMask([0; CPUS_MAX / 64]);

    /// One CPU.
    pub fn one(cpu: usize) -> Self {
        [cpu].into_iter().collect()
    }

    /// Whether it has a CPU.
    pub fn has(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// How many it has.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Its CPUs, the first first.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let mask = *self;
        (0..CPUS_MAX).filter(move |cpu| mask.has(*cpu))
    }

    /// Those that both have.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        CpuMask(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Those that one of them has.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        CpuMask(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Its own but for those of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        CpuMask(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }
}

impl FromIterator<usize> for CpuMask {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut mask = Self::NONE;
        for cpu in cpus {
            assert!(cpu < CPUS_MAX, "CPU {cpu} of at most {CPUS_MAX}");
            mask.0[cpu / 64] |= 1 << (cpu % 64);
        }
        mask
    }
}

/// As the system writes it: `0-3,7`.
impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_written_as_the_system_writes_it() {
        let mask: CpuMask = [0, 1, 2, 7, 64, 65, 1023].into_iter().collect();
        assert_eq!(mask.to_string(), "0-2,7,64-65,1023");
        assert_eq!(CpuMask::NONE.to_string(), "");
        assert_eq!(mask.count(), 7);
    }

    #[test]
    fn masks_are_sets() {
        let (a, b): (CpuMask, CpuMask) = ([0, 1, 70].into_iter().collect(), [1, 2].into_iter().collect());
        assert_eq!(a.and(b), CpuMask::one(1));
        assert_eq!(a.without(b).to_string(), "0,70");
        assert_eq!(a.or(b).to_string(), "0-2,70");
        assert!(a.has(70) && !a.has(2) && !a.has(5000));
    }
}
