//! The lock of a run: one process at a time runs it.
//!
//! Room: driver.
//!
//! # Invariant
//! A process that writes a run holds its `RunLock`, and no two processes hold one of the same run.
//!
//! # Why it holds
//! A [`Writer`](crate::Writer) is made from a `RunLock` only and keeps it. The lock is `flock` on `lock` in the run's folder,
//! which the kernel releases when the last holder closes the file or dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::alive::Process;
use crate::{JournalError, RunId};

/// The right to write a run. Clones share it; it ends with the last of them.
///
/// Checked by `two_processes_cannot_hold_one_run`.
#[derive(Debug, Clone)]
#[must_use = "the run is free for others as soon as this is dropped"]
pub struct RunLock {
    id: RunId,
    folder: PathBuf,
    // Held for its lock.
    _file: Arc<File>,
}

impl RunLock {
    /// Takes the lock in the run's `folder`, or returns its holder.
    pub(crate) fn take(id: &RunId, folder: &Path, pid: u32) -> Result<RunLock, JournalError> {
        let path = folder.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(JournalError::io("open", &path))?;
        let given_up = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => match holder(&mut file) {
                    // The holder is not alive: it was killed while it started a child, which has the file until it runs its program. Or the holder
                    // has not written its process id yet. Both are short.
                    None if Instant::now() < given_up => std::thread::sleep(RETRY_INTERVAL),
                    pid => return Err(JournalError::Held { run: id.clone(), pid }),
                },
                Err(TryLockError::Error(error)) => return Err(JournalError::io("lock", &path)(error)),
            }
        }
        // For messages only. It cannot be written on a full disk, but the lock is needed to remove a run from there.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{pid}"));
        Ok(RunLock { id: id.clone(), folder: folder.to_owned(), _file: Arc::new(file) })
    }

    /// The run.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The run's own folder, where its logs and sockets may be.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log of job `job`. Its folder exists.
    pub fn log(&self, job: u32) -> PathBuf {
        self.folder.join("logs").join(format!("{job}.log"))
    }
}

/// How long to wait for a lock whose holder is not alive. The kernel does not announce its release.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// The process that holds the lock, for a message. `None` if the process id in the file is not alive: the present holder has not written its own yet.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let pid = text.trim().parse().ok()?;
    Process::of(pid).is_alive().then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_gone_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let id = RunId::random(0);
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let lock = RunLock::take(&id, folder.path(), gone.id()).unwrap(); // as if its number were not written yet
        let error = RunLock::take(&id, folder.path(), 1).unwrap_err();
        assert!(matches!(error, JournalError::Held { pid: None, .. }), "{error}");
        drop(lock);
        let me = std::process::id();
        let _lock = RunLock::take(&id, folder.path(), me).unwrap();
        let error = RunLock::take(&id, folder.path(), 1).unwrap_err();
        assert!(matches!(error, JournalError::Held { pid: Some(pid), .. } if pid == me), "{error}");
    }

    #[test]
    fn a_lock_that_a_killed_process_left_to_a_child_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let id = RunId::random(0);
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let lock = RunLock::take(&id, folder.path(), gone.id()).unwrap();
        // The child runs its program at some time after the resuming process has checked.
        let (looks, looked) = std::sync::mpsc::channel();
        let passes = std::thread::spawn(move || {
            looked.recv().unwrap();
            std::thread::sleep(10 * RETRY_INTERVAL);
            drop(lock);
        });
        looks.send(()).unwrap();
        let _lock = RunLock::take(&id, folder.path(), std::process::id()).unwrap();
        passes.join().unwrap();
    }
}
