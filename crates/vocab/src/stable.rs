//! Numbers that are the same on every machine and in every version: a hash, and a pseudo-random series.
//!
//! Room: values.
//!
//! Journals keep hashes, runs of different versions share them, and seeds are written into files. The standard library's hash may change
//! between releases, and a crate's generator between its versions, so both are written out here.

/// FNV-1a, of 64 bits: for names and fingerprints, not against an adversary.
///
/// ```
/// let mut hash = vocab::Fnv1a::new();
/// hash.write(b"foo");
/// hash.write(b"bar");
/// assert_eq!(hash.finish(), vocab::Fnv1a::of(b"foobar"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fnv1a(u64);

impl Fnv1a {
    /// The hash of nothing.
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut hash = Self::new();
        hash.write(bytes);
        hash.finish()
    }

    /// Adds more bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The hash of all bytes so far.
    pub const fn finish(self) -> u64 {
        self.0
    }
}

impl Default for Fnv1a {
    fn default() -> Self {
        Self::new()
    }
}

/// SplitMix64: a pseudo-random series determined by its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The series of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number of it.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_its_authors_published() {
        assert_eq!(Fnv1a::of(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fnv1a::of(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv1a::of(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn the_series_is_the_one_its_authors_published() {
        let mut series = SplitMix64::new(0);
        let first = [series.next_u64(), series.next_u64(), series.next_u64()];
        assert_eq!(first, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }
}
