//! A log that stays within its limit.
//!
//! Room: mechanism. Knows the size of one file; knows nothing of what is in it.
//!
//! A keeper uses it for its command, a client for a log that it forwards.
//!
//! # Invariant
//! The first bytes of the file, half of the limit, and the last bytes, the other half, are on the disk as they were written. The file never gets shorter.
//!
//! # Why it holds
//! The command appends through descriptors of its own, so the file must neither be rewritten nor truncated meanwhile. Instead the blocks in
//! the middle are given back to the file system: a hole is punched. Only whole blocks are, so no byte outside the hole changes; and the hole
//! ends half a limit before the end of the file, which only grows.
//!
//! # Rejected
//! A pipe through the keeper: every byte would be copied once more, and a keeper that is killed would end the command by a broken pipe.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

/// A log with a limit on its disk space: of a longer log the beginning and the end stay.
#[derive(Debug)]
pub struct LimitedLog {
    file: File,
    bytes_max: u64,
    /// Where the hole ends.
    hole_end: u64,
}

impl LimitedLog {
    /// Opens the log at `path`, of which about `bytes_max` stay.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path, bytes_max: u64) -> io::Result<LimitedLog> {
        Ok(LimitedLog { file: File::options().write(true).open(path)?, bytes_max, hole_end: 0 })
    }

    /// Gives blocks over the limit back to the file system.
    ///
    /// # Errors
    /// If the file system cannot punch holes.
    pub fn trim(&mut self) -> io::Result<()> {
        self.trim_before(u64::MAX)
    }

    /// As [`trim`](LimitedLog::trim), but only for bytes before `at`: a reader has not read the rest yet.
    ///
    /// # Errors
    /// If the file system cannot punch holes.
    pub fn trim_before(&mut self, at: u64) -> io::Result<()> {
        let about = self.file.metadata()?;
        let block = about.blksize().max(1);
        let from = (self.bytes_max / 2).next_multiple_of(block).max(self.hole_end);
        let to = about.len().saturating_sub(self.bytes_max / 2).min(at) / block * block;
        if about.len() <= self.bytes_max || to <= from {
            return Ok(());
        }
        fallocate(self.file.as_fd(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, to - from)?;
        self.hole_end = to;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_beginning_and_the_end_of_a_long_log_stay_and_the_disk_gets_the_rest_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut written = File::options().append(true).create(true).open(&path).unwrap();
        let mut log = LimitedLog::open(&path, 64 << 10).unwrap();
        let mut all = Vec::new();
        for line in 0..40_000 {
            let text = format!("line {line}\n");
            written.write_all(text.as_bytes()).unwrap();
            all.extend_from_slice(text.as_bytes());
            if line % 1_000 == 0 {
                log.trim().unwrap();
            }
        }
        log.trim_before(0).unwrap(); // unread bytes stay
        log.trim().unwrap();
        let kept = std::fs::read(&path).unwrap();
        assert_eq!(kept.len(), all.len(), "nothing may get shorter below an appending command");
        assert_eq!(kept[..32 << 10], all[..32 << 10]);
        assert_eq!(kept[kept.len() - (32 << 10)..], all[all.len() - (32 << 10)..]);
        let hole = kept.iter().filter(|byte| **byte == 0).count();
        assert!(hole > all.len() - (80 << 10), "{hole} of {}", all.len());
        let about = std::fs::metadata(&path).unwrap();
        assert!(about.blocks() * 512 <= 96 << 10, "it takes {} bytes of the disk", about.blocks() * 512);
    }
}
