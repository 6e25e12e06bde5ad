//! What a run publishes about itself, in 1,024 bytes.
//!
//! Room: values.
//!
//! # Invariant
//! Bytes that `encode` did not make are no record: torn, half-written or foreign ones fail the checksum.
//!
//! Checked by `a_record_torn_at_any_byte_is_none`.

use vocab::Fnv1a;

use crate::NAMED_MAX;

/// Bytes of a record.
pub(crate) const BYTES: usize = 1024;
const WORDS: usize = BYTES / 8;
/// The name of the format, and its version: other versions use another file.
const MAGIC: u64 = u64::from_le_bytes(*b"BURSARN1");
const FIRST_NAMED: usize = 20;
const NAMED_WORDS: usize = 4;
const WAITS: u64 = 1;
const WANTS: u64 = 2;
const ALONE: u64 = 4;
const CARDS: u64 = 8;

const _: () = assert!(FIRST_NAMED + NAMED_MAX * NAMED_WORDS <= WORDS);

/// How much of each: CPU slots, MB of memory, MB of video memory.
pub(crate) type Amounts = [u64; 3];
pub(crate) const CPU: usize = 0;
pub(crate) const RAM: usize = 1;
pub(crate) const VRAM: usize = 2;

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Unique, also within one process.
    pub(crate) id: u64,
    pub(crate) pid: u32,
    /// When the process started: process ids are reused.
    pub(crate) start: u64,
    pub(crate) running: u64,
    pub(crate) held: Amounts,
    pub(crate) limit: Amounts,
    /// How much of the held memory its jobs really use.
    pub(crate) resident_mb: u64,
    /// Whether it wants a notification when something is given back.
    pub(crate) waits: bool,
    pub(crate) want: Option<Want>,
    pub(crate) named: Vec<Named>,
}

/// What a run would start if others gave something back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Want {
    /// Since when, on the clock of `crate::now`.
    pub(crate) since: u64,
    pub(crate) amounts: Amounts,
    /// Nothing else may run.
    pub(crate) alone: bool,
    /// It wants graphics cards.
    pub(crate) cards: bool,
}

/// A named resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: u64,
    pub(crate) held: u64,
    pub(crate) wanted: u64,
    pub(crate) limit: u64,
}

/// A name as a number. If two names ever have one number, they share one limit, which is safe.
pub(crate) fn number_of(name: &str) -> u64 {
    Fnv1a::of(name.as_bytes())
}

/// A graphics card as a number: different from that of any resource, since names of resources have no control characters.
pub(crate) fn number_of_card(id: &str) -> u64 {
    number_of(&format!("\u{1}card {id}"))
}

fn checksum(words: &[u64; WORDS]) -> u64 {
    words.iter().enumerate().filter(|(at, _)| *at != 1).fold(0x9E37_79B9_7F4A_7C15, |sum: u64, (_, word)| {
        let mixed = (sum ^ word).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        mixed ^ (mixed >> 29)
    })
}

impl Record {
    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut words = [0; WORDS];
        words[0] = MAGIC;
        (words[2], words[3], words[4], words[5]) = (self.id, u64::from(self.pid), self.start, self.running);
        words[6..9].copy_from_slice(&self.held);
        words[9..12].copy_from_slice(&self.limit);
        words[12] = self.resident_mb;
        words[13] = if self.waits { WAITS } else { 0 };
        if let Some(want) = &self.want {
            words[13] |= WANTS | if want.alone { ALONE } else { 0 } | if want.cards { CARDS } else { 0 };
            words[14] = want.since;
            words[15..18].copy_from_slice(&want.amounts);
        }
        words[18] = self.named.len() as u64;
        for (named, at) in self.named.iter().zip((FIRST_NAMED..).step_by(NAMED_WORDS)) {
            words[at..at + NAMED_WORDS].copy_from_slice(&[named.name, named.held, named.wanted, named.limit]);
        }
        words[1] = checksum(&words);
        let mut bytes = [0; BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        if bytes[..8] != MAGIC.to_le_bytes() {
            return None; // most often an empty slot: saves the checksum
        }
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(from.try_into().expect("eight bytes"));
        }
        if words[1] != checksum(&words) {
            return None;
        }
        let three = |at: usize| -> Amounts { words[at..at + 3].try_into().expect("three words") };
        let count = usize::try_from(words[18]).ok().filter(|count| *count <= NAMED_MAX)?;
        let named = (FIRST_NAMED..).step_by(NAMED_WORDS).take(count).map(|at| Named {
            name: words[at],
            held: words[at + 1],
            wanted: words[at + 2],
            limit: words[at + 3],
        });
        Some(Self {
            id: words[2],
            pid: u32::try_from(words[3]).ok()?,
            start: words[4],
            running: words[5],
            held: three(6),
            limit: three(9),
            resident_mb: words[12],
            waits: words[13] & WAITS != 0,
            want: (words[13] & WANTS != 0).then(|| Want {
                since: words[14],
                amounts: three(15),
                alone: words[13] & ALONE != 0,
                cards: words[13] & CARDS != 0,
            }),
            named: named.collect(),
        })
    }

    /// The run is dead: it waits for nothing.
    pub(crate) fn forget_wants(&mut self) {
        (self.waits, self.want) = (false, None);
        self.named.iter_mut().for_each(|named| named.wanted = 0);
    }

    /// How much it holds of the resource with this number.
    pub(crate) fn held_of(&self, number: u64) -> u64 {
        self.named.iter().find(|named| named.name == number).map_or(0, |named| named.held)
    }

    /// Whether something that `before` held or wanted is free for others now.
    pub(crate) fn gives_back(&self, before: &Record) -> bool {
        let less = |(now, before): (&u64, &u64)| now < before;
        let named_less =
            |old: &Named| self.named.iter().find(|new| new.name == old.name).map_or(0, |new| new.held) < old.held;
        self.running < before.running
            || self.held.iter().zip(&before.held).any(less)
            || before.named.iter().any(named_less)
            || (before.want.is_some() && self.want != before.want)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn names_have_the_same_number_in_every_version() {
        // Runs of different versions share one file.
        assert_eq!(number_of("licence"), 0x3192_3591_5852_50b4);
        assert_eq!(number_of_card("0"), 0x078b_e628_86b3_e302);
    }

    pub(crate) fn sample() -> Record {
        Record {
            id: 7,
            pid: 4321,
            start: 99,
            running: 2,
            held: [3, 4096, 1],
            limit: [8, 16_000, 7680],
            resident_mb: 300,
            waits: true,
            want: Some(Want { since: 5, amounts: [4, 5, 6], alone: true, cards: true }),
            named: (0..NAMED_MAX as u64).map(|i| Named { name: i, held: i + 1, wanted: i + 2, limit: i + 3 }).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let plain = Record { want: None, waits: false, named: Vec::new(), ..sample() };
        for record in [sample(), plain] {
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
    }

    #[test]
    fn a_record_torn_at_any_byte_is_none() {
        let (old, new) = (sample(), Record { id: 8, held: [1, 2, 3], named: Vec::new(), ..sample() });
        let (old, new) = (old.encode(), new.encode());
        for at in 0..BYTES {
            let torn: Vec<u8> = new[..at].iter().chain(&old[at..]).copied().collect();
            let whole = torn == new || torn == old;
            assert!(whole || Record::decode(&torn).is_none(), "torn at byte {at}");
            let mut flipped = new;
            flipped[at] ^= 0x10;
            assert!(Record::decode(&flipped).is_none(), "flipped at byte {at}");
            assert!(Record::decode(&new[..at]).is_none(), "cut at byte {at}");
        }
    }

    #[test]
    fn less_of_anything_is_given_back_and_more_is_not() {
        let before = sample();
        assert!(!before.gives_back(&before));
        for part in 0..3 {
            let mut less = before.clone();
            less.held[part] -= 1;
            assert!(less.gives_back(&before) && !before.gives_back(&less), "part {part}");
        }
        let mut less = before.clone();
        less.named[0].held = 0;
        assert!(less.gives_back(&before));
        let done = Record { want: None, ..before.clone() };
        assert!(done.gives_back(&before), "what was kept for it is free");
    }
}
