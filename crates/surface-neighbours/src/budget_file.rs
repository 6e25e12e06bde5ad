//! The file of records, and its lock.
//!
//! Room: driver.
//!
//! # Invariant
//! A process reads or writes records only while it holds the lock of the file that new runs open.
//!
//! # Why it holds
//! The lock is `flock`: the kernel releases it when its holder dies. After taking it we check that the file still has a name. If the file was removed, new
//! runs would open another one, so we open that one, too.
//!
//! A file without records is as good as none: each run writes its record again if it is missing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::RUNS_MAX;
use crate::dir;
use crate::error::JoinError;
use crate::record::{BYTES, Record};

const NAME: &str = "runs-1";

/// How long to try for the lock. Others hold it for microseconds, unless they are stopped.
const TIMEOUT: Duration = Duration::from_millis(100);

/// The file of records.
#[derive(Debug)]
pub(crate) struct BudgetFile {
    path: PathBuf,
    folder: File,
    file: File,
    bytes: Vec<u8>,
}

impl BudgetFile {
    pub(crate) fn open(path: &Path) -> Result<Self, JoinError> {
        let folder = dir::open(path)?;
        let file = open_in(&folder).map_err(|error| JoinError::File { path: path.join(NAME), error })?;
        Ok(Self { path: path.to_owned(), folder, file, bytes: Vec::new() })
    }

    pub(crate) fn folder(&self) -> &File {
        &self.folder
    }

    /// Takes the lock. `Err` if that takes too long, or cannot be.
    pub(crate) fn lock(&mut self) -> io::Result<Table<'_>> {
        let began = Instant::now();
        loop {
            self.try_lock(began)?;
            if self.file.metadata()?.nlink() > 0 {
                break;
            }
            let again = Self::open(&self.path).map_err(io::Error::other)?;
            (self.folder, self.file) = (again.folder, again.file);
        }
        Ok(Table { file: &self.file, bytes: &mut self.bytes })
    }

    fn try_lock(&self, began: Instant) -> io::Result<()> {
        let mut pause = Duration::from_micros(10);
        loop {
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(error) if error == rustix::io::Errno::INTR => {}
                Err(error) if error != rustix::io::Errno::WOULDBLOCK || began.elapsed() > TIMEOUT => {
                    return Err(error.into());
                }
                Err(_) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(1));
                }
            }
        }
    }
}

fn open_in(folder: &File) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    // By the descriptor of the folder that was checked.
    let path = format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd());
    let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

/// The records, while the lock is held.
pub(crate) struct Table<'a> {
    file: &'a File,
    bytes: &'a mut Vec<u8>,
}

impl Table<'_> {
    /// Every record, with its slot. Slots without a valid record are skipped.
    pub(crate) fn read(&mut self) -> io::Result<Vec<(usize, Record)>> {
        let mut filled = 0;
        loop {
            // One slot more than last time: if it stays empty, all of the file was read.
            if self.bytes.len() < filled + BYTES {
                self.bytes.resize(filled + BYTES, 0);
            }
            match self.file.read_at(&mut self.bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if filled < self.bytes.len() {
                break;
            }
            if filled >= RUNS_MAX * BYTES {
                self.file.set_len((RUNS_MAX * BYTES) as u64)?; // whatever follows is not ours
                filled = RUNS_MAX * BYTES;
                break;
            }
        }
        let slots = self.bytes[..filled].chunks(BYTES).enumerate();
        Ok(slots.filter_map(|(slot, bytes)| Some((slot, Record::decode(bytes)?))).collect())
    }

    pub(crate) fn write(&self, slot: usize, record: &Record) -> io::Result<()> {
        self.file.write_all_at(&record.encode(), (slot * BYTES) as u64)
    }

    pub(crate) fn clear(&self, slot: usize) -> io::Result<()> {
        self.file.write_all_at(&[0; BYTES], (slot * BYTES) as u64)
    }

    /// Truncates the file after the last record.
    pub(crate) fn trim(&mut self, used: usize) -> io::Result<()> {
        self.bytes.truncate((used + 1) * BYTES);
        self.file.set_len((used * BYTES) as u64)
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        // Unlocked explicitly, not by closing: a child that is being started may hold a copy of the descriptor for a moment.
        let _ = flock(self.file, FlockOperation::Unlock);
    }
}
