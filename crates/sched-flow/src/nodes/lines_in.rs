//! The lines of a file as a source, also of one that grows and is rotated.
//!
//! # Invariant
//! Of a file that is followed every line is told once, and whole: those of a file that was renamed away, for as long as it is read on, beside those of the one in its place; and of a file that was
//! cut off, what is written after that.
//!
//! # Why it holds
//! A file keeps its place and its unfinished line when another is seen where it was. Writers keep a file open across a rename, so it is read on for [`READ_ON`], before the new one at each look; and
//! only the last [`RENAMED`] are. A file that is shorter than what was read of it was cut off, and is read from its beginning. So is one whose bytes before that place are not those that were read:
//! it was cut off, and has grown since.
//!
//! # What is not seen
//! A file that was cut off and has grown so that the same 64 bytes stand before the place of the last look. What is written to a renamed file after it was given up. A file that had the name
//! between two looks only.

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

/// So much is read at a time.
const CHUNK: usize = 64 << 10;
/// So many of the bytes that were read last are kept, to see whether the file is still the same.
const REMEMBERED: usize = 64;
/// A file that was renamed is read on for so long.
const READ_ON: Duration = Duration::from_secs(60);
/// So many of them.
const RENAMED: usize = 8;
/// So many lines wait between the file and the graph.
const AHEAD: usize = 1024;

/// What a line becomes: a message, nothing, or an error.
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
    /// What becomes of a line that is not UTF-8; an error, unless told otherwise.
    pub fn not_utf8(self, otherwise: NotUtf8) -> Self {
        self.read_with(move |line| line.text(otherwise).map(Some))
    }

    /// Messages are the bytes of the lines, UTF-8 or not.
    pub fn bytes(self) -> LinesIn<Vec<u8>> {
        self.read_with(|line| Ok(Some(line.bytes)))
    }
}

impl<T: Payload> LinesIn<T> {
    /// Messages are what this makes of each line; `None` makes none of it. An error should be one [with the record](NodeError::with_record).
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

    /// Lines are at most so many bytes long; 1 MiB unless told otherwise.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn longest_line(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "lines of at most 0 bytes say nothing; allow at least 1");
        self.longest = bytes;
        self
    }

    /// Does not end with the file, but looks every so often whether it has grown. If another file is in its place, as after a rotation of logs, both are
    /// read: the old one for another minute, for writers that still have it open, and at most 8 of them. If it has shrunk, or the last 64 bytes that were read are others now, it was written anew and is read from its beginning. The file must be there at first; after a rename the next one may take its time.
    ///
    /// # Panics
    /// If the time is zero.
    #[track_caller]
    pub fn follow(mut self, every: Duration) -> Self {
        assert!(!every.is_zero(), "to look every 0 s is to do nothing else; give it some time");
        self.follow = Some(every);
        self
    }

    /// Begins at the end of the file: only what is written after the node was started. Worth something with [`follow`](Self::follow) only.
    pub fn from_end(mut self) -> Self {
        self.from_end = true;
        self
    }

    /// The node, to give it the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        from_reporting_task(AHEAD, move |messages| self.run(&messages))
    }

    fn run(self, to: &Sender<Result<T, NodeError>>) -> NodeResult {
        // The node is gone: no error, there is nobody to tell.
        let mut gone = false;
        let read = Arc::clone(&self.read);
        let mut take = |line: Result<Line, NodeError>| {
            let Some(message) = line.and_then(|line| read(line)).transpose() else { return Ok(()) };
            to.send(message).map_err(|_| {
                gone = true;
                NodeError::msg("nobody reads any more")
            })
        };
        let result = self.read_into(&mut take);
        if gone { Ok(()) } else { result }
    }

    fn read_into(self, take: &mut impl FnMut(Result<Line, NodeError>) -> NodeResult) -> NodeResult {
        let wrong = |why: &dyn fmt::Display| NodeError::msg(format!("{} cannot be read: {why}", self.path.display()));
        // Asked before it is opened: to open a pipe waits for its writer, and nothing could end that.
        if !fs::metadata(&self.path).map_err(|error| wrong(&cause(&error)))?.is_file() {
            return Err(wrong(&"it is no plain file; read it with a task, or through a program such as `cat`"));
        }
        let mut file = File::open(&self.path).map_err(|error| wrong(&cause(&error)))?;
        let place = if self.from_end { Place::end_of(&mut file)? } else { Place::default() };
        let mut newest = Followed { file, place, lines: Lines::at_most(self.longest) };
        let mut chunk = vec![0; CHUNK];
        let Some(every) = self.follow else {
            if !newest.read_to_end(&mut chunk, take)? {
                return Err(wrong(&"it was written anew meanwhile; what was read of it is of the old one"));
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
            // Between two files there may be none.
            let Ok(there) = fs::metadata(&self.path) else { continue };
            if id(&there) == id(&newest.file.metadata()?) {
                continue;
            }
            let again = old.iter().position(|(file, _)| file.file.metadata().is_ok_and(|file| id(&file) == id(&there)));
            let next = match again.and_then(|at| old.remove(at)) {
                Some((file, _)) => file, // it has its name back
                None => match File::open(&self.path) {
                    Ok(file) => Followed { file, place: Place::default(), lines: Lines::at_most(self.longest) },
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
    place: Place,
    lines: Lines,
}

impl Followed {
    /// Reads what there is. False if the file was written anew since the last time.
    fn read_to_end(
        &mut self,
        chunk: &mut [u8],
        take: &mut impl FnMut(Result<Line, NodeError>) -> NodeResult,
    ) -> Result<bool, NodeError> {
        loop {
            match self.place.read(&mut self.file, chunk)? {
                Some([]) => return Ok(true),
                Some(new) => self.lines.feed(new, take)?,
                None => return Ok(false),
            }
        }
    }

    /// The same; one that was written anew is read from its beginning.
    fn follow(
        &mut self,
        longest: usize,
        chunk: &mut [u8],
        take: &mut impl FnMut(Result<Line, NodeError>) -> NodeResult,
    ) -> NodeResult {
        while !self.read_to_end(chunk, take)? {
            self.lines.finish(take)?;
            (self.place, self.lines) = (Place::default(), Lines::at_most(longest));
        }
        Ok(())
    }
}

/// How far a file was read, and the bytes before that place, by which it is known again.
#[derive(Default)]
struct Place {
    position: u64,
    last: Vec<u8>,
}

impl Place {
    fn end_of(file: &mut File) -> io::Result<Place> {
        let end = file.seek(SeekFrom::End(0))?;
        let from = file.seek(SeekFrom::Start(end.saturating_sub(REMEMBERED as u64)))?;
        let mut last = Vec::new();
        Read::take(&*file, end - from).read_to_end(&mut last)?;
        Ok(Place { position: from + last.len() as u64, last })
    }

    /// What the file has behind this place, which moves on; nothing if it was written anew. What was read last is read again with it, in one call: whatever is written
    /// between two calls, the new bytes follow the old ones in one state of the file.
    fn read<'a>(&mut self, file: &mut File, chunk: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        file.seek(SeekFrom::Start(self.position - self.last.len() as u64))?;
        let read = file.read(chunk)?;
        let Some(new) = chunk[..read].strip_prefix(&self.last[..]) else { return Ok(None) };
        self.position += new.len() as u64;
        self.last.extend_from_slice(&new[new.len().saturating_sub(REMEMBERED)..]);
        self.last.drain(..self.last.len().saturating_sub(REMEMBERED));
        Ok(Some(new))
    }
}

/// What the system said, without the name of the file.
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
