//! Files that block only the task.
//!
//! Room: interface.
//!
//! Named and used like [`std::fs`]. The system has no non-blocking files, so every call runs on a blocking thread, as
//! by [`unblock`]; on a plain thread it is a plain call. A call takes some microseconds more: read and write much at a
//! time, or put a [`BufReader`](std::io::BufReader) or [`BufWriter`](std::io::BufWriter) around a [`File`].
//!
//! # Invariant
//! A cancellation leaves no operation half done: one that began is finished before the task unwinds, one that waits for
//! a thread is not begun. Every error names the path.
//!
//! # Why it holds
//! All calls go through `call`, hence through `unblock`, which takes back a closure that has not begun and waits for
//! one that has. Errors go through `about`.
//!
//! ```
//! use std::io::{Read, Seek, Write};
//! use bursar::fs::{self, File};
//!
//! let folder = std::env::temp_dir().join(format!("bursar-doc-{}", std::process::id()));
//! let text = bursar::run(|| {
//!     fs::create_dir_all(&folder)?;
//!     let mut file = File::options().read(true).write(true).create(true).open(folder.join("greeting"))?;
//!     file.write_all(b"hello")?;
//!     file.rewind()?;
//!     let mut text = String::new();
//!     file.read_to_string(&mut text)?; // other tasks run meanwhile
//!     fs::remove_dir_all(&folder)?;
//!     std::io::Result::Ok(text)
//! })??;
//! assert_eq!(text, "hello");
//!
//! let error = fs::read(folder.join("greeting")).unwrap_err();
//! assert!(error.to_string().starts_with("failed to read `"), "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod file;

use std::{
    fmt,
    fs::{self, DirEntry, Metadata},
    io,
    path::{Path, PathBuf},
};

pub use file::{File, OpenOptions};

use crate::unblock;

/// Every system call of this module goes through this function.
fn call<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    unblock(f)
}

/// The operation, the file and the error.
#[derive(Debug)]
struct About {
    doing: String,
    error: io::Error,
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {}: {}", self.doing, self.error)
    }
}

impl std::error::Error for About {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Adds to an error what was being done, and with which file. Its kind stays, and the original is its source.
#[cold]
fn about(error: io::Error, doing: String) -> io::Error {
    io::Error::new(error.kind(), About { doing, error })
}

/// Calls `f`; an error says that it failed to `verb` the file at `path`.
fn with<T: Send>(verb: &str, path: &Path, f: impl FnOnce(&Path) -> io::Result<T> + Send) -> io::Result<T> {
    call(|| f(path)).map_err(|error| about(error, format!("{verb} `{}`", path.display())))
}

/// The same with two paths.
fn with_two<T: Send>(
    verb: &str,
    from: &Path,
    to: &Path,
    f: impl FnOnce(&Path, &Path) -> io::Result<T> + Send,
) -> io::Result<T> {
    call(|| f(from, to)).map_err(|error| about(error, format!("{verb} `{}` to `{}`", from.display(), to.display())))
}

/// All of a file; see [`std::fs::read`].
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    with("read", path.as_ref(), |path| fs::read(path))
}

/// All of a file, as text; see [`std::fs::read_to_string`].
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    with("read", path.as_ref(), |path| fs::read_to_string(path))
}

/// Writes a whole file, in place of what was there; see [`std::fs::write`]. What is written may be borrowed.
///
/// ```
/// use bursar::{fs, nursery};
///
/// let path = std::env::temp_dir().join(format!("bursar-write-{}", std::process::id()));
/// let words = String::from("borrowed by the task");
/// nursery(|n| n.try_spawn(|| Ok(fs::write(&path, &words)?)).join())?;
/// assert_eq!(fs::read_to_string(&path)?, words);
/// fs::remove_file(&path)?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let contents = contents.as_ref();
    with("write", path.as_ref(), |path| fs::write(path, contents))
}

/// Copies a file with its permissions, and says how many bytes it has; see [`std::fs::copy`].
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    with_two("copy", from.as_ref(), to.as_ref(), |from, to| fs::copy(from, to))
}

/// Gives a file another name; see [`std::fs::rename`].
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    with_two("rename", from.as_ref(), to.as_ref(), |from, to| fs::rename(from, to))
}

/// Removes a file; see [`std::fs::remove_file`].
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    with("remove", path.as_ref(), |path| fs::remove_file(path))
}

/// Makes a folder and those above it that are missing; see [`std::fs::create_dir_all`].
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    with("create folder", path.as_ref(), |path| fs::create_dir_all(path))
}

/// Removes a folder with all that is in it; see [`std::fs::remove_dir_all`].
pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    with("remove folder", path.as_ref(), |path| fs::remove_dir_all(path))
}

/// What the system knows of a file; see [`std::fs::metadata`].
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    with("look at", path.as_ref(), |path| fs::metadata(path))
}

/// What is in a folder, all at once, in the order the system gives it; see [`std::fs::read_dir`].
///
/// Other questions to an entry than its path and name may block the worker.
///
/// ```
/// let names: Vec<_> = bursar::fs::read_dir(".")?.iter().map(|entry| entry.file_name()).collect();
/// assert!(names.iter().any(|name| name == "Cargo.toml"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<Vec<DirEntry>> {
    with("list", path.as_ref(), |path| fs::read_dir(path)?.collect())
}

/// The absolute path of a file, without links and dots; see [`std::fs::canonicalize`].
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    with("find", path.as_ref(), |path| fs::canonicalize(path))
}
