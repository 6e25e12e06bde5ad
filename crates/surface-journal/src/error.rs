//! What can go wrong with the journal, and what to do then.
//!
//! Room: values.
//!
//! # Invariant
//! Every message names the file or the run, and the way out. No error is answered by deleting anything.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ErrorCode;

use crate::RunId;

/// An error of the journal.
///
/// Cheap to clone: a writer that failed reports it to every caller.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum JournalError {
    /// No directory for the journal: neither a variable nor a home directory is set.
    NoHome,
    /// The system refused to do something with a file.
    Io {
        /// What was tried, as in "create".
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// A newer version of this program wrote the journal.
    Newer {
        /// The database.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version we know.
        known: u32,
    },
    /// A folder or a file of another user: its runs would do what that user wrote.
    NotOurs {
        /// Which.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The current user.
        user: u32,
    },
    /// A database of another program.
    Foreign {
        /// The database.
        file: PathBuf,
    },
    /// An older version of this program wrote the journal, and it cannot be migrated because it cannot be written.
    Older {
        /// The database.
        file: PathBuf,
    },
    /// The file is damaged, or no database.
    Corrupt {
        /// The database.
        file: PathBuf,
        /// The error of SQLite.
        detail: String,
    },
    /// The disk, or the size allowed to the journal, is full.
    Full {
        /// The database.
        file: PathBuf,
    },
    /// Another process held the lock of the database for too long.
    Busy {
        /// The database.
        file: PathBuf,
    },
    /// Any other error of SQLite.
    Sqlite {
        /// The database.
        file: PathBuf,
        /// The error of SQLite.
        source: Arc<rusqlite::Error>,
    },
    /// No run of that name.
    NoRun {
        /// The id that was given.
        wanted: String,
    },
    /// Several runs match.
    Ambiguous {
        /// The id that was given.
        wanted: String,
        /// Those that match, newest first, ten at most.
        candidates: Vec<RunId>,
    },
    /// Another process holds the run.
    Held {
        /// The run.
        run: RunId,
        /// Its holder, if known.
        pid: Option<u32>,
    },
    /// The writer's thread ended without an error.
    WriterGone {
        /// The run it wrote.
        run: RunId,
    },
}

impl JournalError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
        move |source| JournalError::Io { doing, path: path.to_owned(), source: Arc::new(source) }
    }

    /// Whether the only problem is that nothing can be written there.
    pub(crate) fn is_about_writing(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
            }
            Self::Sqlite { source, .. } => {
                let codes = [ErrorCode::ReadOnly, ErrorCode::CannotOpen, ErrorCode::PermissionDenied];
                source.sqlite_error_code().is_some_and(|code| codes.contains(&code))
            }
            _ => false,
        }
    }

    /// Whether the only problem is that the disk is full.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }

    pub(crate) fn sqlite(file: &Path, source: rusqlite::Error) -> JournalError {
        let file = file.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                JournalError::Corrupt { file, detail: source.to_string() }
            }
            Some(ErrorCode::DiskFull) => JournalError::Full { file },
            // SQLite reports this for some of its files, and not why.
            Some(ErrorCode::SystemIoFailure) if is_disk_full(&file) => JournalError::Full { file },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalError::Busy { file },
            _ => JournalError::Sqlite { file, source: Arc::new(source) },
        }
    }
}

/// Whether the disk that `file` is on has no room for another page.
fn is_disk_full(file: &Path) -> bool {
    const PAGES_BYTES: u64 = 64 << 10; // what SQLite asks for at once to share its log
    let folder = file.parent().unwrap_or(file);
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < PAGES_BYTES)
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHome => write!(
                f,
                "no folder for the journal: BURSAR_STATE_DIR, XDG_STATE_HOME and HOME are unset; \
                 set BURSAR_STATE_DIR to a directory"
            ),
            Self::Io { doing, path, source } if self.is_full() => write!(
                f,
                "cannot {doing} {}: {source}; free some disk space, or remove old runs with `bursar prune --keep 10`",
                path.display()
            ),
            Self::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            Self::Newer { file, found, known } => write!(
                f,
                "the journal {} has version {found} but this program knows versions up to {known}; \
                 use the newer bursar, or set BURSAR_STATE_DIR to another directory",
                file.display()
            ),
            Self::Older { file } => write!(
                f,
                "the journal {} is of an older version and cannot be written; copy its folder and set BURSAR_STATE_DIR to the copy",
                file.display()
            ),
            Self::NotOurs { path, owner, user } => write!(
                f,
                "{} belongs to user {owner}, not to user {user}; set BURSAR_STATE_DIR to a directory of your own",
                path.display()
            ),
            Self::Foreign { file } => write!(
                f,
                "{} is a database of another program; set BURSAR_STATE_DIR to another directory",
                file.display()
            ),
            Self::Corrupt { file, detail } => write!(
                f,
                "the journal {0} is damaged ({detail}); nothing was changed. Move it away \
                 (`mv {0} {0}.damaged`, and `{0}-wal`, `{0}-shm` too) and a new one is created",
                file.display()
            ),
            Self::Full { file } => write!(
                f,
                "no room for the journal {}; free some disk space, or remove old runs with `bursar prune --keep 10`",
                file.display()
            ),
            Self::Busy { file } => write!(
                f,
                "another process locks the journal {}; try again, or find it with `fuser {0}`",
                file.display()
            ),
            Self::Sqlite { file, source } if self.is_about_writing() => {
                let folder = file.parent().unwrap_or(file).display();
                write!(
                    f,
                    "the journal {} cannot be written: {source}; make {folder} writable, or set BURSAR_STATE_DIR to a directory that is",
                    file.display()
                )
            }
            Self::Sqlite { file, source } => write!(f, "the journal {}: {source}", file.display()),
            Self::NoRun { wanted } => {
                write!(f, "there is no run `{wanted}`; give an id or its beginning, or `latest`")
            }
            Self::Ambiguous { wanted, candidates } => {
                write!(f, "`{wanted}` is the beginning of several runs:")?;
                for candidate in candidates {
                    write!(f, " {candidate}")?;
                }
                write!(f, "; give one more character")
            }
            Self::Held { run, pid: Some(pid) } => {
                write!(f, "process {pid} runs run {run}; wait for it, or cancel the run")
            }
            Self::Held { run, pid: None } => {
                write!(f, "another process runs run {run}; wait for it, or cancel the run")
            }
            Self::WriterGone { run } => {
                write!(f, "the thread that writes the journal of run {run} ended; resume the run")
            }
        }
    }
}

impl std::error::Error for JournalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source.as_ref()),
            Self::Sqlite { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
