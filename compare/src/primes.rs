//! The work of `thread-scale` and `process-scale`: the primes up to a limit, in chunks that cost the same.
//!
//! # Balanced
//! Trial division costs more for larger numbers, and most for primes, so a chunk must not be a range. Chunk `c` of 256 has every 256th odd number, from the `c`-th on: each has as many small as large
//! ones. And as many primes: the numbers of a chunk are those of one remainder modulo 512, all of which are odd, and primes are spread evenly over the remainders that have no factor in common with the
//! modulus. (With 96 chunks a third of them would have no prime at all but 3.)
//!
//! # Checked
//! [`expected`] comes from another algorithm, the sieve of Eratosthenes in one piece.

use std::ops::{Add, Range};
use std::time::{Duration, Instant};

/// A power of two: see above.
pub const CHUNKS: usize = 256;

/// How many primes, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    pub count: u64,
    pub sum: u64,
}

impl Checksum {
    fn with(self, prime: u32) -> Self {
        Self { count: self.count + 1, sum: self.sum + u64::from(prime) }
    }
}

/// What some chunks came to, and how long the search for primes took, without anything around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub checksum: Checksum,
    pub work: Duration,
}

impl Add for Found {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let checksum =
            Checksum { count: self.checksum.count + other.checksum.count, sum: self.checksum.sum + other.checksum.sum };
        Self { checksum, work: self.work + other.work }
    }
}

impl std::iter::Sum for Found {
    fn sum<I: Iterator<Item = Self>>(found: I) -> Self {
        found.fold(Self::default(), Add::add)
    }
}

/// The numbers to search, and the odd primes to divide by.
#[derive(Debug)]
pub struct Primes {
    limit: u32,
    divisors: Vec<u32>,
}

impl Primes {
    pub fn new(limit: u32) -> Self {
        Self { limit, divisors: sieve(limit.isqrt()).filter(|prime| *prime > 2).collect() }
    }

    /// The primes of one chunk. Chunk 0 has 2 as well.
    pub fn chunk(&self, chunk: usize) -> Found {
        let began = Instant::now();
        let numbers = (2 * chunk as u32 + 1..=self.limit).step_by(2 * CHUNKS);
        let two = if chunk == 0 && self.limit >= 2 { Checksum::default().with(2) } else { Checksum::default() };
        let checksum = numbers.filter(|&number| self.is_prime(number)).fold(two, Checksum::with);
        Found { checksum, work: began.elapsed() }
    }

    /// The chunks of one of `parts` threads or processes, which differ in `part`.
    pub fn part(&self, part: usize, parts: usize) -> impl Iterator<Item = Found> {
        chunks_of(part, parts).map(|chunk| self.chunk(chunk))
    }

    fn is_prime(&self, number: u32) -> bool {
        let has_factor = || {
            let small = self.divisors.iter().take_while(|&&prime| prime * prime <= number);
            small.into_iter().any(|prime| number.is_multiple_of(*prime))
        };
        number > 1 && !has_factor()
    }
}

/// Which chunks `part` of `parts` has.
pub fn chunks_of(part: usize, parts: usize) -> std::iter::StepBy<Range<usize>> {
    (part..CHUNKS).step_by(parts)
}

/// What all chunks have to come to.
pub fn expected(limit: u32) -> Checksum {
    sieve(limit).fold(Checksum::default(), Checksum::with)
}

/// The primes up to `limit`, all at once.
fn sieve(limit: u32) -> impl Iterator<Item = u32> {
    let mut is_composite = vec![false; limit as usize + 1];
    (2..=limit).filter(move |&number| {
        let is_prime = !is_composite[number as usize];
        if is_prime {
            let multiples = (u64::from(number) * u64::from(number)..=u64::from(limit)).step_by(number as usize);
            multiples.for_each(|multiple| is_composite[multiple as usize] = true);
        }
        is_prime
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_primes_as_tables_say() {
        assert_eq!(expected(3_000_000).count, 216_816);
        assert_eq!(expected(10), Checksum { count: 4, sum: 17 });
    }

    #[test]
    fn the_chunks_find_what_the_sieve_finds_however_they_are_dealt_out() {
        for limit in [0, 1, 2, 3, 4, 9, 25, 512, 1_000, 50_000] {
            let primes = Primes::new(limit);
            for parts in [1, 2, 3, 256, 300] {
                let all: Found = (0..parts).flat_map(|part| primes.part(part, parts)).sum();
                assert_eq!(all.checksum, expected(limit), "up to {limit} in {parts} parts");
            }
        }
    }

    #[test]
    fn chunks_have_about_the_same_number_of_primes() {
        let primes = Primes::new(300_000);
        let mean = expected(300_000).count as f64 / CHUNKS as f64;
        for chunk in 0..CHUNKS {
            let count = primes.chunk(chunk).checksum.count as f64;
            assert!((count / mean - 1.0).abs() < 0.25, "chunk {chunk} has {count}, of {mean} on average");
        }
    }
}
