//! One open file.
//!
//! Room: interface.

use std::{
    fs::{self, Metadata},
    io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    sync::Arc,
};

use super::with;

/// An open file. As [`std::fs::File`], but waiting blocks only the task.
///
/// Reading, writing and seeking also work through `&File`. Buffers may be borrowed. `read_to_end`, `read_exact` and `write_all` go to the system's thread once,
/// however many calls they take there.
///
/// ```
/// use std::io::{Read, Seek, SeekFrom, Write};
/// use bursar::fs::{self, File};
///
/// let path = std::env::temp_dir().join(format!("bursar-file-{}", std::process::id()));
/// bursar::run(|| {
///     let mut file = File::create(&path)?;
///     file.write_all(b"0123456789")?;
///     file.sync_all()?;
///     let mut file = File::open(&path)?;
///     file.seek(SeekFrom::Start(7))?;
///     let mut tail = [0; 3];
///     file.read_exact(&mut tail)?;
///     assert_eq!(&tail, b"789");
///     fs::remove_file(&path)
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct File {
    file: fs::File,
    /// For errors.
    path: Arc<Path>,
}

impl File {
    /// Opens a file to read it.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::options().read(true).open(path)
    }

    /// Opens a file to write it: a new one, or an existing one truncated.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        with("create", path.as_ref(), |path| fs::File::create(path)).map(|file| Self::new(file, path.as_ref()))
    }

    /// Chooses how to open a file.
    pub fn options() -> OpenOptions {
        OpenOptions(fs::OpenOptions::new())
    }

    fn new(file: fs::File, path: &Path) -> Self {
        Self { file, path: path.into() }
    }

    /// Waits until content and metadata are on the disk.
    pub fn sync_all(&self) -> io::Result<()> {
        self.with("sync", |file| file.sync_all())
    }

    /// Waits until the content is on the disk, and the metadata that is needed to read it.
    pub fn sync_data(&self) -> io::Result<()> {
        self.with("sync", |file| file.sync_data())
    }

    /// Truncates the file, or fills it up with zeros.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.with("set the length of", |file| file.set_len(bytes))
    }

    /// What the system knows of the file.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.with("look at", |file| file.metadata())
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of the standard library, which blocks the thread.
    pub fn into_std(self) -> fs::File {
        self.file
    }

    fn with<T: Send>(&self, verb: &str, f: impl FnOnce(&fs::File) -> io::Result<T> + Send) -> io::Result<T> {
        with(verb, &self.path, |_| f(&self.file))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Read for &File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.with("read", |mut file| file.read(into))
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.with("read", |mut file| file.read_vectored(into))
    }

    fn read_to_end(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        self.with("read", |mut file| file.read_to_end(into))
    }

    fn read_to_string(&mut self, into: &mut String) -> io::Result<usize> {
        self.with("read", |mut file| file.read_to_string(into))
    }

    fn read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.with("read", |mut file| file.read_exact(into))
    }
}

impl Write for &File {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.with("write", |mut file| file.write(from))
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        self.with("write", |mut file| file.write_vectored(from))
    }

    fn write_all(&mut self, from: &[u8]) -> io::Result<()> {
        self.with("write", |mut file| file.write_all(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is buffered
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.with("seek in", |mut file| file.seek(to))
    }
}

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(into)
    }

    fn read_to_end(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(into)
    }

    fn read_to_string(&mut self, into: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(into)
    }

    fn read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        (&*self).read_exact(into)
    }
}

impl Write for File {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(from)
    }

    fn write_all(&mut self, from: &[u8]) -> io::Result<()> {
        (&*self).write_all(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

/// How to open a file; made by [`File::options`]. As [`std::fs::OpenOptions`].
///
/// ```
/// use bursar::fs::File;
///
/// let error = File::options().append(true).open("no such folder/log").unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// assert!(error.to_string().contains("`no such folder/log`"), "{error}");
/// ```
#[derive(Debug, Clone)]
pub struct OpenOptions(fs::OpenOptions);

impl OpenOptions {
    /// It can be read.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.0.read(read);
        self
    }

    /// It can be written.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.0.write(write);
        self
    }

    /// Writes go to the end.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.0.append(append);
        self
    }

    /// The content is removed.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.0.truncate(truncate);
        self
    }

    /// The file is created if there is none.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.0.create(create);
        self
    }

    /// The file is created; an existing one is an error.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.0.create_new(create_new);
        self
    }

    /// Opens the file.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        with("open", path.as_ref(), |path| self.0.open(path)).map(|file| File::new(file, path.as_ref()))
    }
}

impl From<fs::OpenOptions> for OpenOptions {
    fn from(options: fs::OpenOptions) -> Self {
        Self(options)
    }
}
