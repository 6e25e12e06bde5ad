//! The record of a keeper: one small file with ends that outlive the client.
//!
//! Room: mechanism. Knows a file and its lock; knows nothing of sockets.
//!
//! # Invariant
//! An end is in the file before it is reported, and stays there until the client has said that it knows it.
//! If the file can be locked, its keeper is gone.
//!
//! # Why it holds
//! The keeper writes, then reports. Only the keeper writes to the file. The lock belongs to the open file, which the client creates and the keeper
//! inherits. So the lock is held from before the keeper starts, and so before it can get a command, until its process is gone. An incomplete line (power loss) is not
//! JSON and is skipped. What a failed write left of a line is cut off before the next write. A keeper that cannot write an end stays alive and
//! holds the lock until it can (`keeper/serve.rs`).
//!
//! # Cost
//! One write for each command; no `fsync` while there is a client, because a killed client leaves the page cache alone.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::launch::End;

/// The extension of a record file.
const SUFFIX: &str = "ends";

fn path(home: &Path, id: &str) -> PathBuf {
    home.join(format!("{id}.{SUFFIX}"))
}

/// The name of the socket on which keeper `id` accepts clients.
pub(crate) fn socket_name(id: &str) -> String {
    format!("{id}.sock")
}

/// Creates the file of keeper `id` and locks it. The keeper, which is about to be started, inherits both.
pub(crate) fn create(home: &Path, id: &str) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path(home, id))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Removes the file of a keeper that could not be started.
pub(crate) fn remove(home: &Path, id: &str) {
    let _ = fs::remove_file(path(home, id));
}

/// A keeper's own file.
#[derive(Debug)]
pub(crate) struct Record {
    /// None: nothing is recorded.
    file: Option<File>,
    path: PathBuf,
    socket: PathBuf,
    bytes: u64,
    ends: usize,
    /// After `bytes` there may be an incomplete line.
    torn: bool,
}

/// A line that says which command starts. The other lines are ends.
#[derive(Serialize, Deserialize)]
struct Starts<'a> {
    starts: std::borrow::Cow<'a, str>,
}

impl Record {
    /// The keeper's side of [`create`].
    pub(crate) fn new(file: File, home: &Path, id: &str) -> Record {
        let (path, socket) = (path(home, id), home.join(socket_name(id)));
        Record { file: Some(file), path, socket, bytes: 0, ends: 0, torn: false }
    }

    /// Of a keeper that records nothing.
    pub(crate) fn none() -> Record {
        Record { file: None, path: PathBuf::new(), socket: PathBuf::new(), bytes: 0, ends: 0, torn: false }
    }

    /// Removes all lines: the client knows them.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.as_ref().filter(|_| self.bytes > 0) {
            file.set_len(0)?;
            (self.bytes, self.ends) = (0, 0);
        }
        Ok(())
    }

    /// Records that a command is about to start. If this keeper is killed, this line is all that is known of the command.
    pub(crate) fn add_start(&mut self, token: &str) {
        let _ = self.write(&Starts { starts: token.into() });
    }

    fn write(&mut self, what: &impl Serialize) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        // The next line must not be appended to an incomplete one.
        if self.torn {
            file.set_len(self.bytes)?;
            self.torn = false;
        }
        if let Err(error) = file.write_all(&line) {
            self.torn = file.set_len(self.bytes).is_err();
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Records an end.
    pub(crate) fn add_end(&mut self, end: &End) -> io::Result<()> {
        self.write(end)?;
        self.ends += 1;
        Ok(())
    }

    /// Syncs the file to the disk. An error is ignored: the lines still outlive the keeper, and after a failed `fsync` a second one proves nothing.
    pub(crate) fn sync(&self) {
        if let Some(file) = self.file.as_ref().filter(|_| self.ends > 0) {
            let _ = file.sync_all();
        }
    }

    /// Before the keeper exits: removes its socket, and its file if that has no ends.
    pub(crate) fn close(&mut self) {
        if self.file.is_none() {
            return;
        }
        let _ = fs::remove_file(&self.socket);
        if self.ends == 0 {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The file of a keeper, as a client reads it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    file: File,
}

/// The end that keeper `id` recorded for `token`, if any.
pub(crate) fn end_of(home: &Path, id: &str, token: &str) -> Option<End> {
    let path = path(home, id);
    let found = Found { id: id.to_owned(), file: File::open(&path).ok()?, path };
    found.ends().ok()?.into_iter().rev().find(|end| end.token == token)
}

/// The files of all keepers in `home`.
pub(crate) fn find(home: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(home) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let (Some(id), true) = (path.file_stem(), path.extension().is_some_and(|end| end == SUFFIX)) else { continue };
        let id = id.to_string_lossy().into_owned();
        // The file may disappear meanwhile: its keeper exited without ends.
        match File::open(&path) {
            Ok(file) => found.push(Found { id, file, path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(found)
}

impl Found {
    /// Is its keeper gone? If so, this takes the lock and keeps it.
    pub(crate) fn is_orphaned(&self) -> bool {
        flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Is its keeper gone? The lock is shared and released at once, so several clients can ask at the same time.
    pub(crate) fn looks_orphaned(&self) -> bool {
        let is_free = flock(&self.file, FlockOperation::NonBlockingLockShared).is_ok();
        is_free && flock(&self.file, FlockOperation::Unlock).is_ok()
    }

    /// The recorded ends.
    pub(crate) fn ends(&self) -> io::Result<Vec<End>> {
        match fs::read(&self.path) {
            Ok(text) => {
                Ok(text.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The running command, according to the file: the last that started, unless it has ended.
    pub(crate) fn running(&self) -> Option<String> {
        let text = fs::read(&self.path).ok()?;
        let lines = || text.split(|&byte| byte == b'\n');
        let last = lines().rev().find_map(|line| serde_json::from_slice::<Starts<'_>>(line).ok())?.starts.into_owned();
        let has_ended =
            lines().filter_map(|line| serde_json::from_slice::<End>(line).ok()).any(|end| end.token == last);
        (!has_ended).then_some(last)
    }

    /// Drops `known` ends of an orphaned file. Removes the file when none is left.
    pub(crate) fn forget(&self, known: &HashSet<&str>) -> io::Result<()> {
        let mut rest: Vec<u8> = Vec::new();
        for end in self.ends()?.iter().filter(|end| !known.contains(end.token.as_str())) {
            serde_json::to_writer(&mut rest, end)?;
            rest.push(b'\n');
        }
        if let Some(token) = self.running().filter(|token| !known.contains(token.as_str())) {
            serde_json::to_writer(&mut rest, &Starts { starts: token.into() })?;
            rest.push(b'\n');
        }
        if rest.is_empty() {
            let _ = fs::remove_file(self.path.with_extension("sock"));
            return fs::remove_file(&self.path);
        }
        let next = self.path.with_extension("next");
        let mut file = File::create(&next)?;
        file.write_all(&rest)?;
        file.sync_all()?;
        fs::rename(&next, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::How;
    use std::time::Duration;

    fn end(token: &str) -> End {
        let how = How::TimedOut { after: Duration::from_millis(1500) };
        End {
            token: token.into(),
            how,
            peak_rss_kb: 1,
            cpu: Duration::ZERO,
            wall: Duration::from_micros(7),
            in_force: None,
        }
    }

    #[test]
    fn an_end_is_there_until_it_is_known() {
        let home = tempfile::tempdir().unwrap();
        let mut record = Record::new(create(home.path(), "a").unwrap(), home.path(), "a");
        record.add_end(&end("one")).unwrap();
        record.add_end(&end("two")).unwrap();
        let found = find(home.path()).unwrap();
        assert!(!found[0].is_orphaned());
        assert_eq!(found[0].ends().unwrap(), [end("one"), end("two")]);
        drop(record);
        assert!(found[0].is_orphaned());
        found[0].forget(&HashSet::from(["one"])).unwrap();
        drop(found);
        let found = find(home.path()).unwrap();
        assert_eq!(found[0].ends().unwrap(), [end("two")]);
        found[0].forget(&HashSet::from(["two"])).unwrap();
        assert!(find(home.path()).unwrap().is_empty());
    }

    #[test]
    fn a_line_that_was_cut_by_a_power_loss_is_skipped() {
        let home = tempfile::tempdir().unwrap();
        let mut record = Record::new(create(home.path(), "a").unwrap(), home.path(), "a");
        record.add_end(&end("one")).unwrap();
        record.file.as_mut().unwrap().write_all(b"{\"token\":\"tw").unwrap();
        assert_eq!(find(home.path()).unwrap()[0].ends().unwrap(), [end("one")]);
    }

    #[test]
    fn an_incomplete_line_of_a_failed_write_does_not_damage_the_next_end() {
        let home = tempfile::tempdir().unwrap();
        let mut record = Record::new(create(home.path(), "a").unwrap(), home.path(), "a");
        record.add_end(&end("one")).unwrap();
        let length = std::fs::metadata(&record.path).unwrap().len();
        assert!(with_room_for(length + 10, || record.add_end(&end("two"))).is_err());
        record.add_end(&end("three")).unwrap();
        assert_eq!(find(home.path()).unwrap()[0].ends().unwrap(), [end("one"), end("three")]);
        assert_eq!(end_of(home.path(), "a", "three"), Some(end("three")));
        assert_eq!(end_of(home.path(), "a", "two"), None);
    }

    /// Limits the size of files: like a full disk, in the middle of a line.
    fn with_room_for<T>(bytes: u64, act: impl FnOnce() -> T) -> T {
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(()); // the limit holds for the whole process
        let _guard = ONE_AT_A_TIME.lock().unwrap();
        let limit = rustix::process::Resource::Fsize;
        let before = rustix::process::getrlimit(limit);
        crate::raw::ignore_file_size_signal();
        rustix::process::setrlimit(limit, rustix::process::Rlimit { current: Some(bytes), ..before }).unwrap();
        let done = act();
        rustix::process::setrlimit(limit, before).unwrap();
        done
    }

    #[test]
    fn an_end_is_not_appended_to_an_incomplete_line_that_cannot_be_cut_off() {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        let file = File::from(memfd_create("ends", MemfdFlags::ALLOW_SEALING).unwrap());
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        let mut record = Record::new(file.try_clone().unwrap(), Path::new("nowhere"), "a");
        record.add_end(&end("one")).unwrap();
        let length = file.metadata().unwrap().len();
        assert!(with_room_for(length + 10, || record.add_end(&end("two"))).is_err());
        assert!(record.add_end(&end("three")).is_err(), "the file still ends with an incomplete line");
        assert_eq!(file.metadata().unwrap().len(), length + 10);
    }

    #[test]
    fn a_keeper_without_ends_leaves_no_file() {
        let home = tempfile::tempdir().unwrap();
        let mut record = Record::new(create(home.path(), "a").unwrap(), home.path(), "a");
        record.add_end(&end("one")).unwrap();
        record.clear().unwrap();
        record.close();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
