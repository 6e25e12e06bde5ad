//! Estimates for a command, from its earlier successes.
//!
//! Room: driver.
//!
//! # Invariant
//! One row a fingerprint, of at most `KEPT` samples, and at most `FINGERPRINTS_MAX` rows once a run has ended: history never grows
//! with the number of runs. Only successes count: a failure says little about what a success needs.
//!
//! A group of a file (`foreach` entries that differ in a parameter) has a fingerprint, too, so a new parameter gets an estimate from
//! the others.

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use vocab::Fnv1a;

use std::path::Path;

use crate::bound::forget_beyond;
use crate::{Journal, JournalError};

/// How many successes are remembered.
const KEPT: usize = 5;
/// How many commands are remembered; the longest unused go first.
const FINGERPRINTS_MAX: i64 = 200_000;
const SAMPLE_BYTES: usize = 24;

/// What a job may need, from its latest successes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// How many successes there were, also those no longer remembered.
    pub runs: u64,
    /// The largest peak of the last five, and a tenth more; 0 if none was measured.
    pub peak_rss_kb: u64,
    /// The median of the last five.
    pub wall_ms: u64,
    /// The median of the last five.
    pub cpu_ms: u64,
}

/// One success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) peak_rss_kb: u64,
    pub(crate) wall_ms: u64,
    pub(crate) cpu_ms: u64,
}

/// The fingerprint of a group of jobs in a file, for jobs that never ran themselves. The same in every version of the program.
pub fn group_fingerprint(file: Option<&Path>, group: &str) -> u64 {
    use std::os::unix::ffi::OsStrExt;
    let name = file.and_then(Path::file_name).map_or(&b""[..], |name| name.as_bytes());
    let mut hash = Fnv1a::new();
    for part in [name, b"\0group\0", group.as_bytes()] {
        hash.write(part);
    }
    hash.finish()
}

fn encode(samples: &[Sample]) -> Vec<u8> {
    samples
        .iter()
        .flat_map(|sample| [sample.peak_rss_kb, sample.wall_ms, sample.cpu_ms])
        .flat_map(u64::to_le_bytes)
        .collect()
}

fn decode(bytes: &[u8]) -> Vec<Sample> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let sample = |bytes: &[u8]| Sample {
        peak_rss_kb: word(&bytes[..8]),
        wall_ms: word(&bytes[8..16]),
        cpu_ms: word(&bytes[16..]),
    };
    bytes.chunks_exact(SAMPLE_BYTES).map(sample).collect()
}

fn estimate_of(runs: u64, samples: &[Sample]) -> Option<Estimate> {
    let median = |of: fn(&Sample) -> u64| {
        let mut values: Vec<u64> = samples.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let peak = samples.iter().map(|sample| sample.peak_rss_kb).max()?;
    Some(Estimate {
        runs,
        peak_rss_kb: peak.saturating_add(peak.div_ceil(10)),
        wall_ms: median(|sample| sample.wall_ms),
        cpu_ms: median(|sample| sample.cpu_ms),
    })
}

impl Journal {
    /// What earlier successes of the same work needed.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn estimate(&self, fingerprint: u64) -> Result<Option<Estimate>, JournalError> {
        Ok(self.estimates(&[fingerprint])?.into_iter().next().flatten())
    }

    /// The same for many at once, in their order. For jobs without any, ask again with
    /// [`group_fingerprint`](crate::group_fingerprint).
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn estimates(&self, fingerprints: &[u64]) -> Result<Vec<Option<Estimate>>, JournalError> {
        self.with(|db| recall(db, fingerprints))
    }
}

/// Adds a success.
pub(crate) fn learn(db: &Connection, print: i64, at_ms: i64, sample: Sample) -> rusqlite::Result<()> {
    let old: Option<Vec<u8>> = db
        .prepare_cached("SELECT samples FROM history WHERE print = ?1")?
        .query_row([print], |row| row.get(0))
        .optional()?;
    let mut samples = decode(&old.unwrap_or_default());
    samples.push(sample);
    let kept = &samples[samples.len().saturating_sub(KEPT)..];
    db.prepare_cached(
        "INSERT INTO history (print, at_ms, runs, samples) VALUES (?1, ?2, 1, ?3)
         ON CONFLICT (print) DO UPDATE SET at_ms = excluded.at_ms, runs = runs + 1, samples = excluded.samples",
    )?
    .execute(params![print, at_ms, encode(kept)])?;
    Ok(())
}

/// What is known of each of `prints`, in one reading of the database.
pub(crate) fn recall(db: &mut Connection, prints: &[u64]) -> rusqlite::Result<Vec<Option<Estimate>>> {
    let transaction = db.transaction()?;
    let mut statement = transaction.prepare_cached("SELECT runs, samples FROM history WHERE print = ?1")?;
    let mut recall_one = |print: &u64| {
        let row =
            statement.query_row([*print as i64], |row| Ok((row.get::<_, i64>(0)?, decode(row.get_ref(1)?.as_blob()?))));
        let row = row.optional()?;
        Ok(row.and_then(|(runs, samples)| estimate_of(u64::try_from(runs).unwrap_or(0), &samples)))
    };
    prints.iter().map(&mut recall_one).collect()
}

/// Forgets the longest unused beyond `FINGERPRINTS_MAX`; a tenth more than needed, so that it is rarely done.
pub(crate) fn forget(db: &Connection) -> rusqlite::Result<()> {
    forget_beyond(db, "history", "print", FINGERPRINTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::{Sample, decode, encode, estimate_of, group_fingerprint, learn, recall};
    use std::path::Path;

    fn sample(n: u64) -> Sample {
        Sample { peak_rss_kb: 1_000 * n, wall_ms: 10 * n, cpu_ms: n }
    }

    fn database() -> rusqlite::Connection {
        let dir = std::env::temp_dir().join(format!("bursar-history-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let thread = std::thread::current().name().unwrap_or("test").replace("::", "-");
        let file = dir.join(thread);
        let _ = std::fs::remove_file(&file);
        crate::schema::open(&file).unwrap()
    }

    #[test]
    fn samples_survive_their_encoding() {
        let samples = [sample(1), sample(u32::MAX.into()), Sample { peak_rss_kb: u64::MAX, wall_ms: 0, cpu_ms: 1 }];
        assert_eq!(decode(&encode(&samples)), samples);
    }

    #[test]
    fn an_estimate_is_the_largest_peak_and_a_tenth_and_the_median_of_times() {
        let samples = [sample(3), sample(9), sample(1)];
        let estimate = estimate_of(12, &samples).unwrap();
        assert_eq!((estimate.peak_rss_kb, estimate.wall_ms, estimate.cpu_ms), (9_900, 30, 3));
        assert_eq!(estimate.runs, 12);
        assert_eq!(estimate_of(0, &[]), None);
    }

    #[test]
    fn a_peak_that_is_five_successes_old_is_forgotten() {
        let mut db = database();
        learn(&db, 1, 0, sample(100)).unwrap();
        for n in 1..=5 {
            assert_eq!(recall(&mut db, &[1]).unwrap()[0].unwrap().peak_rss_kb, 110_000, "before success {n}");
            learn(&db, 1, n, sample(1)).unwrap();
        }
        let now = recall(&mut db, &[2, 1]).unwrap();
        assert_eq!(now[0], None);
        assert_eq!((now[1].unwrap().peak_rss_kb, now[1].unwrap().runs), (1_100, 6));
    }

    #[test]
    fn the_longest_unused_commands_are_forgotten_first() {
        let mut db = database();
        for print in 0..30 {
            learn(&db, print, 1_000 - print, sample(1)).unwrap();
        }
        crate::bound::forget_beyond(&db, "history", "print", 30).unwrap();
        assert!(recall(&mut db, &[29]).unwrap()[0].is_some(), "nothing is forgotten while there is room");
        crate::bound::forget_beyond(&db, "history", "print", 20).unwrap();
        let left = recall(&mut db, &(0..30).collect::<Vec<_>>()).unwrap();
        assert!(left[..18].iter().all(Option::is_some) && left[18..].iter().all(Option::is_none), "{left:?}");
    }

    #[test]
    fn a_group_is_the_file_name_and_the_group() {
        let of = |file: &str, group| group_fingerprint(Some(Path::new(file)), group);
        assert_eq!(of("/a/x.toml", "g"), of("/b/x.toml", "g"));
        assert_ne!(of("/a/x.toml", "g"), of("/a/y.toml", "g"));
        assert_ne!(of("/a/x.toml", "g"), of("/a/x.toml", "h"));
    }

    #[test]
    fn a_group_has_the_same_fingerprint_in_every_version() {
        let file = Path::new("/films/render.toml");
        assert_eq!(group_fingerprint(Some(file), "image"), 0x54f2_d11f_d0ae_6a4b);
        assert_eq!(group_fingerprint(None, "image"), 0x9c59_c78b_854f_47d7);
    }
}
