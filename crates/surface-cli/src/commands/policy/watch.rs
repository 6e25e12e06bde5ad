//! When a file has changed: written in place, replaced, or gone.
//!
//! Room: driver.
//!
//! # Invariant
//! A file is not read while it is being written, as far as that can be seen.
//!
//! # Why it holds
//! The kernel says when a writer has closed the file, or another one was renamed to its name; then it is whole. Changes that the kernel does not announce, as
//! behind a symbolic link, are seen by looking; then the file has to look the same at two looks.

use std::ffi::{CString, OsStr};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// What tells one content of a file from another: the file, its size and its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signature {
    file: (u64, u64),
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Signature {
    /// None if there is no such file.
    pub(super) fn of(path: &Path) -> Option<Signature> {
        let about = fs::metadata(path).ok()?;
        Some(Signature {
            file: (about.dev(), about.ino()),
            size: about.size(),
            written: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }
}

/// Watches one file.
pub(super) struct Watch {
    path: PathBuf,
    /// Of its folder: a file that is replaced is another file. None where the system gives none.
    notices: Option<OwnedFd>,
    name: Option<CString>,
    /// What was read last.
    taken: Option<Signature>,
    /// What was there at the last look.
    seen: Option<Signature>,
}

impl Watch {
    /// Watches a file that was read with this signature.
    pub(super) fn new(path: &Path, taken: Option<Signature>) -> Watch {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let open = || {
            let notices = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            inotify::add_watch(&notices, folder, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO)?;
            Ok::<OwnedFd, rustix::io::Errno>(notices)
        };
        let name = path.file_name().map(OsStr::as_bytes).and_then(|name| CString::new(name).ok());
        Watch { path: path.to_owned(), notices: open().ok(), name, taken, seen: taken }
    }

    /// What to wait for.
    pub(super) fn notices(&self) -> Option<BorrowedFd<'_>> {
        self.notices.as_ref().map(AsFd::as_fd)
    }

    /// Takes what the kernel announced. Whether the file was written or replaced.
    pub(super) fn take_notices(&self) -> bool {
        let Some(notices) = &self.notices else { return false };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(notices, &mut buffer);
        let mut is_ours = false;
        while let Ok(event) = reader.next() {
            let is_lost = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            is_ours |= is_lost || event.file_name() == self.name.as_deref();
        }
        is_ours
    }

    /// Looks at the file. What it looks like, if it is to be read now. `is_whole` says that a writer is known to be done.
    pub(super) fn look(&mut self, is_whole: bool) -> Option<Option<Signature>> {
        let now = Signature::of(&self.path);
        let is_stable = std::mem::replace(&mut self.seen, now) == now;
        (now != self.taken && (is_stable || is_whole)).then_some(now)
    }

    /// Notes what was read. If the file changed meanwhile, it is read again.
    pub(super) fn taken(&mut self, before: Option<Signature>) -> bool {
        let is_same = Signature::of(&self.path) == before;
        if is_same {
            self.taken = before;
        }
        is_same
    }

    /// Lets a later look find the file changed.
    pub(super) fn forget(&mut self) {
        self.taken = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        fs::write(&path, "one").unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_that_is_closed_or_replaced_is_read_at_once_and_others_are_not_noticed() {
        let (folder, path) = site();
        let mut watch = Watch::new(&path, Signature::of(&path));
        assert!(!watch.take_notices() && watch.look(true).is_none());
        fs::write(folder.path().join("other"), "x").unwrap();
        assert!(!watch.take_notices());
        fs::write(&path, "longer").unwrap();
        assert!(watch.take_notices());
        let now = watch.look(true).unwrap();
        assert!(watch.taken(now) && watch.look(true).is_none());
        fs::write(folder.path().join("new"), "another").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert!(watch.take_notices() && watch.look(true).is_some());
    }

    #[test]
    fn what_is_not_announced_is_read_when_it_looks_the_same_twice() {
        let (_folder, path) = site();
        let mut watch = Watch::new(&path, Signature::of(&path));
        fs::write(&path, "longer").unwrap();
        assert!(watch.look(false).is_none(), "it may be half written");
        assert!(watch.look(false).is_some());
        fs::remove_file(&path).unwrap();
        assert!(watch.look(false).is_none());
        assert_eq!(watch.look(false), Some(None), "it is gone");
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_read_again() {
        let (_folder, path) = site();
        let mut watch = Watch::new(&path, None);
        let before = watch.look(true).unwrap();
        fs::write(&path, "longer").unwrap();
        assert!(!watch.taken(before));
        assert!(watch.look(true).is_some());
    }
}
