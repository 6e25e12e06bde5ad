//! The lines of a file as a source, also of a file that grows and is rotated.
//!
//! Room: interface.
//!
//! # Invariant
//! Every line of a file that is followed is emitted once, and whole. This includes the lines of a renamed file, while it is still read, beside those of the new file; and the lines that are written after a file was
//! truncated.
//!
//! # Why it holds
//! A file keeps its position and its unfinished line when another file has its name. Writers keep a file open across a rename, so a renamed file is still read for [`READ_ON`], before the new one at each poll; but
//! only the last [`RENAMED`] of them. A file that is shorter than the read position was truncated, and is read from its beginning. So is a file whose bytes before that position are not those that were read:
//! it was truncated, and has grown since.
//!
//! # What is not detected
//! A file that was truncated and has grown so that the same 64 bytes stand before the read position. Bytes that are written to a renamed file after it is no longer read. A file that had the name
//! only between two polls.

use std::{
    collections::VecDeque,
    fmt,
    fs::Metadata,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use sched_tasks::{
    Sender,
    fs::{self, File},
};

use super::{
    lines::{LONGEST, Line, Lines, NotUtf8},
    task::from_reporting_task,
};
use crate::{
    error::{NodeError, NodeResult},
    message::Payload,
    node::NodeSpec,
};

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;
/// The last bytes that were read, which are kept to detect that a file was rewritten.
const REMEMBERED: usize = 64;
/// How long a renamed file is still read.
const READ_ON: Duration = Duration::from_secs(60);
/// How many renamed files are read.
const RENAMED: usize = 8;
/// The capacity in lines between the file and the graph.
const AHEAD: usize = 1024;

/// Makes a message, nothing, or an error of a line.
pub(super) type ReadLine<T> = Arc<dyn Fn(Line) -> Result<Option<T>, NodeError> + Send + Sync>;

/// The lines of a file, as `String`s without their ends.
///
/// A line that is too long, or is no UTF-8 text, is an error of the node, and the next one follows. A file that cannot be read is an error, and the end.
///
/// ```
/// use bursar::flow::{Harness, lines_in};
///
/// let path = std::env::temp_dir().join(format!("bursar-lines-in-{}", std::process::id()));
/// std::fs::write(&path, "one\ntwo\n")?;
/// let mut node = Harness::new(lines_in(&path));
/// assert_eq!(node.collect::<String>("out", 2), ["one", "two"]);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn lines_in(path: impl Into<PathBuf>) -> LinesIn {
    let read: ReadLine<String> = Arc::new(|line| line.text(NotUtf8::Error).map(Some));
    LinesIn { path: path.into(), longest: LONGEST, follow: None, from_end: false, read }
}

/// Reads lines from a file; made by [`lines_in`].
pub struct LinesIn<T = String> {
    path: PathBuf,
    longest: usize,
    follow: Option<Duration>,
    from_end: bool,
    read: ReadLine<T>,
}

impl LinesIn<String> {
    /// What a line that is not UTF-8 becomes; an error by default.
    pub fn not_utf8(self, otherwise: NotUtf8) -> Self {
        self.read_with(move |line| line.text(otherwise).map(Some))
    }

    /// Messages are the bytes of the lines, UTF-8 or not.
    pub fn bytes(self) -> LinesIn<Vec<u8>> {
        self.read_with(|line| Ok(Some(line.bytes)))
    }
}

impl<T: Payload> LinesIn<T> {
    /// Sets a function that makes a message of each line; `None` skips it. An error should be one [with the record](NodeError::with_record).
    ///
    /// ```
    /// use bursar::flow::{NodeError, NotUtf8, lines_in};
    ///
    /// let readings = lines_in("readings.txt").read_with(|line| {
    ///     let text = line.text(NotUtf8::Error)?;
    ///     if text.starts_with('#') {
    ///         return Ok(None);
    ///     }
    ///     text.parse::<f64>().map(Some).map_err(|error| NodeError::from(error).with_record(text))
    /// });
    /// ```
    pub fn read_with<U: Payload>(
        self,
        read: impl Fn(Line) -> Result<Option<U>, NodeError> + Send + Sync + 'static,
    ) -> LinesIn<U> {
        let Self { path, longest, follow, from_end, .. } = self;
        LinesIn { path, longest, follow, from_end, read: Arc::new(read) }
    }

    /// The limit of bytes of a line; 1 MiB by default.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn longest_line(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "lines of at most 0 bytes say nothing; allow at least 1");
        self.longest = bytes;
        self
    }

    /// Follows the file, as `tail -F` does: the source does not end with the file, but checks at this interval whether it has grown. If another file has its name, as after a log rotation, both are
    /// read: the old one for another minute, for writers that still have it open, and at most 8 of them. If it has shrunk, or the last 64 bytes that were read have changed, it was rewritten and is read from its beginning. The file must exist at the start; after a rename the next one may come later.
    ///
    /// # Panics
    /// If the time is zero.
    #[track_caller]
    pub fn follow(mut self, every: Duration) -> Self {
        assert!(!every.is_zero(), "to check every 0 s is to do nothing else; give it some time");
        self.follow = Some(every);
        self
    }

    /// Begins at the end of the file: emits only lines that are written after the node was started. Only useful with [`follow`](Self::follow).
    pub fn from_end(mut self) -> Self {
        self.from_end = true;
        self
    }

    /// The node, to change the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        from_reporting_task(AHEAD, move |messages| self.run(&messages))
    }

    fn run(self, to: &Sender<Result<T, NodeError>>) -> NodeResult {
        // The node is gone: this is no error.
        let mut gone = false;
        let read = Arc::clone(&self.read);
        let mut take = |line: Result<Line, NodeError>| {
            let Some(message) = line.and_then(|line| read(line)).transpose() else { return Ok(()) };
            to.send(message).map_err(|_| {
                gone = true;
                NodeError::msg("the node is gone")
            })
        };
        let result = self.read_into(&mut take);
        if gone { Ok(()) } else { result }
    }

    fn read_into(self, take: &mut impl FnMut(Result<Line, NodeError>) -> NodeResult) -> NodeResult {
        let wrong = |why: &dyn fmt::Display| NodeError::msg(format!("{} cannot be read: {why}", self.path.display()));
        // Checked before it is opened: to open a pipe blocks until it has a writer, and nothing could end that.
        if !fs::metadata(&self.path).map_err(|error| wrong(&cause(&error)))?.is_file() {
            return Err(wrong(&"it is no plain file; read it with a task, or through a program such as `cat`"));
        }
        let mut file = File::open(&self.path).map_err(|error| wrong(&cause(&error)))?;
        let position = if self.from_end { ReadPosition::end_of(&mut file)? } else { ReadPosition::default() };
        let mut newest = Followed { file, position, lines: Lines::at_most(self.longest) };
        let mut chunk = vec![0; CHUNK];
        let Some(every) = self.follow else {
            if !newest.read_to_end(&mut chunk, take)? {
                return Err(wrong(&"it was rewritten meanwhile; what was read of it is old"));
            }
            return newest.lines.finish(take);
        };
        // Files that were renamed, oldest first, and until when each is read.
        let mut old: VecDeque<(Followed, Instant)> = VecDeque::new();
        loop {
            let now = Instant::now();
            for (file, _) in &mut old {
                file.follow(self.longest, &mut chunk, take)?;
            }
            newest.follow(self.longest, &mut chunk, take)?;
            while old.len() > RENAMED || old.front().is_some_and(|(_, until)| *until <= now) {
                let Some((mut file, _)) = old.pop_front() else { break };
                file.lines.finish(take)?;
            }
            sched_tasks::sleep(every);
            // Between two files there may be none of that name.
            let Ok(there) = fs::metadata(&self.path) else { continue };
            if id(&there) == id(&newest.file.metadata()?) {
                continue;
            }
            let again = old.iter().position(|(file, _)| file.file.metadata().is_ok_and(|file| id(&file) == id(&there)));
            let next = match again.and_then(|at| old.remove(at)) {
                Some((file, _)) => file, // it has its name back
                None => match File::open(&self.path) {
                    Ok(file) => {
                        Followed { file, position: ReadPosition::default(), lines: Lines::at_most(self.longest) }
                    }
                    Err(_) => continue,
                },
            };
            old.push_back((std::mem::replace(&mut newest, next), Instant::now() + READ_ON));
        }
    }
}

/// A file that is read as it grows.
struct Followed {
    file: File,
    position: ReadPosition,
    lines: Lines,
}

impl Followed {
    /// Reads to the end. False if the file was rewritten since the last time.
    fn read_to_end(
        &mut self,
        chunk: &mut [u8],
        take: &mut impl FnMut(Result<Line, NodeError>) -> NodeResult,
    ) -> Result<bool, NodeError> {
        loop {
            match self.position.read(&mut self.file, chunk)? {
                Some([]) => return Ok(true),
                Some(new) => self.lines.feed(new, take)?,
                None => return Ok(false),
            }
        }
    }

    /// The same; a file that was rewritten is read from its beginning.
    fn follow(
        &mut self,
        longest: usize,
        chunk: &mut [u8],
        take: &mut impl FnMut(Result<Line, NodeError>) -> NodeResult,
    ) -> NodeResult {
        while !self.read_to_end(chunk, take)? {
            self.lines.finish(take)?;
            (self.position, self.lines) = (ReadPosition::default(), Lines::at_most(longest));
        }
        Ok(())
    }
}

/// The read position of a file, and the bytes before it, to detect that the file was rewritten.
#[derive(Default)]
struct ReadPosition {
    offset: u64,
    last: Vec<u8>,
}

impl ReadPosition {
    fn end_of(file: &mut File) -> io::Result<ReadPosition> {
        let end = file.seek(SeekFrom::End(0))?;
        let from = file.seek(SeekFrom::Start(end.saturating_sub(REMEMBERED as u64)))?;
        let mut last = Vec::new();
        Read::take(&*file, end - from).read_to_end(&mut last)?;
        Ok(ReadPosition { offset: from + last.len() as u64, last })
    }

    /// Reads the bytes behind the position, and advances it; None if the file was rewritten. The last bytes are read again, in the same call. So, whatever is written
    /// between two calls, the new bytes follow the old ones in one state of the file.
    fn read<'a>(&mut self, file: &mut File, chunk: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        file.seek(SeekFrom::Start(self.offset - self.last.len() as u64))?;
        let read = file.read(chunk)?;
        let Some(new) = chunk[..read].strip_prefix(&self.last[..]) else { return Ok(None) };
        self.offset += new.len() as u64;
        self.last.extend_from_slice(&new[new.len().saturating_sub(REMEMBERED)..]);
        self.last.drain(..self.last.len().saturating_sub(REMEMBERED));
        Ok(Some(new))
    }
}

/// The error of the system, without the name of the file.
fn cause(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|error| error.source());
    inner.map_or_else(|| error.to_string(), ToString::to_string)
}

fn id(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl<T: Payload> From<LinesIn<T>> for NodeSpec {
    fn from(lines: LinesIn<T>) -> NodeSpec {
        lines.spec()
    }
}

impl<T> Clone for LinesIn<T> {
    fn clone(&self) -> Self {
        let Self { path, longest, follow, from_end, read } = self;
        Self { path: path.clone(), longest: *longest, follow: *follow, from_end: *from_end, read: Arc::clone(read) }
    }
}

impl<T> fmt::Debug for LinesIn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinesIn").field("path", &self.path).field("follow", &self.follow).finish_non_exhaustive()
    }
}
