//! The log of a policy service: a record a line, beside its socket.
//!
//! Room: driver.
//!
//! # Invariant
//! The file and the one before it have at most [`LOG_BYTES_MAX`] each, whatever programs report. A line that was torn by a crash is skipped.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::control::PolicyRecord;

/// When the file has so many bytes, it is renamed, and a new one is begun.
const LOG_BYTES_MAX: u64 = 1 << 20;

pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

fn older(path: &Path) -> PathBuf {
    super::beside(path, ".1")
}

impl LogFile {
    /// Continues a log, or begins it; for the owner alone.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn open(path: PathBuf) -> io::Result<LogFile> {
        let file = File::options().create(true).append(true).mode(0o600).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(LogFile { path, file, bytes })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If it cannot be written; the service continues without.
    pub(super) fn add(&mut self, record: &PolicyRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if self.bytes + line.len() as u64 > LOG_BYTES_MAX {
            fs::rename(&self.path, older(&self.path))?;
            *self = LogFile::open(std::mem::take(&mut self.path))?;
        }
        self.bytes += line.len() as u64;
        self.file.write_all(&line)
    }
}

/// The newest records, oldest first. None if there is no log.
///
/// # Errors
/// If it cannot be read.
pub(super) fn read(path: &Path, most: usize) -> io::Result<Option<Vec<PolicyRecord>>> {
    let text = |path: &Path| match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    };
    let (before, now) = (text(&older(path))?, text(path)?);
    if now.is_none() && before.is_none() {
        return Ok(None);
    }
    let mut records = Vec::new();
    for bytes in [before, now].into_iter().flatten() {
        records.extend(bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()));
    }
    let from = records.len().saturating_sub(most);
    Ok(Some(records.split_off(from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_keeps_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert!(read(&path, 5).unwrap().is_none());
        let mut log = LogFile::open(path.clone()).unwrap();
        for at_ms in 0..4_000 {
            log.add(&PolicyRecord { at_ms, reason: "x".repeat(1_000), ..PolicyRecord::default() }).unwrap();
        }
        let bytes = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(bytes(&path) <= LOG_BYTES_MAX && bytes(&older(&path)) <= LOG_BYTES_MAX);
        let newest: Vec<u64> = read(&path, 3).unwrap().unwrap().iter().map(|record| record.at_ms).collect();
        assert_eq!(newest, [3_997, 3_998, 3_999]);
    }

    #[test]
    fn a_torn_line_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "{\"at_ms\":1}\n{\"at_ms\":").unwrap();
        assert_eq!(read(&path, 9).unwrap().unwrap().len(), 1);
    }
}
