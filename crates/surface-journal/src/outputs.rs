//! Which files are complete: made by a job that succeeded, and their size and time then.
//!
//! Room: driver.
//!
//! # Invariant
//! A file counts as complete only between the success of the job that made it and the next start of a job that declares it. In doubt it does not.
//!
//! # Why it holds
//! A job that starts marks its files as incomplete, one that succeeds as complete, with size and time of the file; both are events of its run, in
//! their order. A start that did not reach the disk before a crash is detected by the stamp of the file: [`Output::is_as_made`].

use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::bound::forget_beyond;
use crate::stored::path_out;
use crate::{Journal, JournalError};

/// How many files are remembered; the longest unused go first.
const FILES_MAX: i64 = 2_000_000;

/// A file as a job left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Bytes in it.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub changed_ns: i64,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// Which command made it, or began to.
    pub fingerprint: u64,
    /// Whether that command succeeded.
    pub is_whole: bool,
    /// Its stamp then; `None` for a folder.
    pub stamp: Option<FileStamp>,
    /// A number for what the command read, taken when it started; None if that is not known.
    pub inputs: Option<u64>,
}

impl Output {
    /// Whether a file with this stamp is the one that the command left.
    pub fn is_as_made(&self, now: Option<FileStamp>) -> bool {
        self.is_whole && self.stamp == now
    }
}

/// A job started to make files, or has made them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outputs {
    /// The command.
    pub fingerprint: u64,
    /// Whether it has succeeded.
    pub is_whole: bool,
    /// A hash of what the command is going to read; set at its start.
    pub inputs: Option<u64>,
    /// Absolute paths, and their stamps after a success.
    pub files: Vec<(PathBuf, Option<FileStamp>)>,
}

impl Journal {
    /// What is known of each of these files, in their order.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn outputs(&self, paths: &[PathBuf]) -> Result<Vec<Option<Output>>, JournalError> {
        self.with(|db| recall(db, paths))
    }
}

/// Marks the files.
pub(crate) fn mark(db: &Connection, outputs: &Outputs, at_ms: i64) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(
        "INSERT INTO outputs (path, print, whole, size, changed_ns, at_ms, inputs) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (path) DO UPDATE SET print = excluded.print, whole = excluded.whole, size = excluded.size,
             changed_ns = excluded.changed_ns, at_ms = excluded.at_ms, inputs = coalesce(excluded.inputs, inputs)",
    )?;
    for (path, stamp) in &outputs.files {
        statement.execute(params![
            path_out(path),
            outputs.fingerprint as i64,
            outputs.is_whole,
            stamp.map(|stamp| stamp.size as i64),
            stamp.map(|stamp| stamp.changed_ns),
            at_ms,
            outputs.inputs.map(|inputs| inputs as i64),
        ])?;
    }
    Ok(())
}

/// What is known of each of `paths`, in one reading of the database.
pub(crate) fn recall(db: &mut Connection, paths: &[PathBuf]) -> rusqlite::Result<Vec<Option<Output>>> {
    let transaction = db.transaction()?;
    let mut statement =
        transaction.prepare_cached("SELECT print, whole, size, changed_ns, inputs FROM outputs WHERE path = ?1")?;
    let mut recall_one = |path: &PathBuf| {
        let row = statement.query_row([path_out(path)], |row| {
            let (size, changed_ns): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
            let stamp = size.zip(changed_ns).map(|(size, changed_ns)| FileStamp { size: size as u64, changed_ns });
            let inputs = row.get::<_, Option<i64>>(4)?.map(|inputs| inputs as u64);
            Ok(Output { fingerprint: row.get::<_, i64>(0)? as u64, is_whole: row.get(1)?, stamp, inputs })
        });
        row.optional()
    };
    paths.iter().map(&mut recall_one).collect()
}

/// Forgets the longest unused beyond `FILES_MAX`; a tenth more than needed, so that it is rarely done.
pub(crate) fn forget(db: &Connection) -> rusqlite::Result<()> {
    forget_beyond(db, "outputs", "path", FILES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(name: &str) -> Connection {
        let dir = std::env::temp_dir().join(format!("bursar-outputs-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        crate::schema::open(&dir.join("journal.db")).unwrap()
    }

    fn outputs(fingerprint: u64, is_whole: bool, name: &str, stamp: Option<FileStamp>) -> Outputs {
        Outputs { fingerprint, is_whole, inputs: None, files: vec![(PathBuf::from(name), stamp)] }
    }

    #[test]
    fn a_file_is_whole_from_a_success_to_the_next_start() {
        let mut db = database("whole");
        let stamp = FileStamp { size: u64::MAX, changed_ns: -3 };
        let now = |db: &mut Connection| recall(db, &["/a".into(), "/b".into()]).unwrap();
        assert_eq!(now(&mut db), [None, None]);
        mark(&db, &outputs(u64::MAX, true, "/a", Some(stamp)), 1).unwrap();
        let known = now(&mut db)[0].unwrap();
        assert_eq!((known.fingerprint, known.is_as_made(Some(stamp))), (u64::MAX, true));
        assert!(!known.is_as_made(Some(FileStamp { size: 1, ..stamp })) && !known.is_as_made(None));
        mark(&db, &outputs(7, false, "/a", None), 2).unwrap();
        let known = now(&mut db)[0].unwrap();
        assert!(!known.is_as_made(Some(stamp)) && !known.is_as_made(None), "{known:?}");
    }

    #[test]
    fn what_was_read_is_known_from_the_start_on() {
        let mut db = database("inputs");
        let mut start = outputs(7, false, "/a", None);
        start.inputs = Some(u64::MAX);
        mark(&db, &start, 1).unwrap();
        mark(&db, &outputs(7, true, "/a", None), 2).unwrap();
        assert_eq!(recall(&mut db, &["/a".into()]).unwrap()[0].unwrap().inputs, Some(u64::MAX));
        start.inputs = Some(3);
        mark(&db, &start, 3).unwrap();
        assert_eq!(recall(&mut db, &["/a".into()]).unwrap()[0].unwrap().inputs, Some(3));
    }

    #[test]
    fn the_longest_unused_files_are_forgotten_first() {
        let mut db = database("forget");
        for n in 0..30 {
            mark(&db, &outputs(1, true, &format!("/{n}"), None), n).unwrap();
        }
        crate::bound::forget_beyond(&db, "outputs", "path", 20).unwrap();
        let paths: Vec<PathBuf> = (0..30).map(|n| PathBuf::from(format!("/{n}"))).collect();
        let known = recall(&mut db, &paths).unwrap();
        assert!(known[..12].iter().all(Option::is_none) && known[12..].iter().all(Option::is_some), "{known:?}");
    }
}
