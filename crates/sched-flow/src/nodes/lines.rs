//! Cuts bytes into lines of bounded length, for files, sockets, pipes and flow files.
//!
//! Room: decisions.
//!
//! # Invariant
//! At most `longest` bytes of a line are kept, and one for its carriage return. Every line comes out once, whole or as an error, however its bytes were split. A line that is
//! too long is skipped to its end, and the next line is whole.

use crate::error::NodeError;

/// The default limit of bytes of a line.
pub(super) const LONGEST: usize = 1 << 20;

/// A line, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// The first is 1.
    pub number: u64,
    /// Its bytes, UTF-8 or not; see [`text`](Self::text).
    pub bytes: Vec<u8>,
}

/// What a line that is not UTF-8 becomes, where a text is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum NotUtf8 {
    /// An error about this one record; the next line follows.
    #[default]
    Error,
    /// A text with `U+FFFD` in place of the bad bytes.
    Replace,
}

impl Line {
    /// The line as a text.
    ///
    /// # Errors
    /// If it is not UTF-8 and bad bytes are not replaced: an error [with the record](NodeError::with_record).
    pub fn text(self, otherwise: NotUtf8) -> Result<String, NodeError> {
        let Self { number, bytes } = self;
        match (String::from_utf8(bytes), otherwise) {
            (Ok(text), _) => Ok(text),
            (Err(error), NotUtf8::Replace) => Ok(String::from_utf8_lossy(error.as_bytes()).into_owned()),
            (Err(error), NotUtf8::Error) => {
                let why = format!("line {number} is no UTF-8 text and was skipped: {}", error.utf8_error());
                Err(NodeError::msg(why).with_record(error.into_bytes()))
            }
        }
    }
}

/// Cuts bytes into lines, for a source that reads them from somewhere.
///
/// ```
/// use bursar::flow::{Line, Lines, NodeError, NotUtf8};
///
/// let mut lines = Lines::at_most(8);
/// let mut got = Vec::new();
/// let mut take = |line: Result<Line, NodeError>| {
///     got.push(line.and_then(|line| line.text(NotUtf8::Error)).map_err(|error| error.to_string()));
///     Ok::<(), NodeError>(())
/// };
/// lines.feed(b"one\r\nmuch too long\nt", &mut take)?;
/// lines.feed(b"wo", &mut take)?;
/// lines.finish(&mut take)?;
/// assert_eq!((got[0].as_deref(), got[2].as_deref()), (Ok("one"), Ok("two")));
/// assert!(got[1].as_ref().is_err_and(|why| why.starts_with("line 2 is longer than 8 bytes")));
/// # Ok::<(), NodeError>(())
/// ```
#[derive(Debug)]
pub struct Lines {
    longest: usize,
    kept: Vec<u8>,
    /// The rest of this line is skipped.
    skips: bool,
    number: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self::at_most(LONGEST)
    }
}

impl Lines {
    /// Lines of at most so many bytes; [`Lines::default`] allows 1 MiB. A longer one is an error [with its beginning](NodeError::with_record).
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn at_most(bytes: usize) -> Self {
        assert!(bytes > 0, "lines of at most 0 bytes say nothing; allow at least 1");
        Self { longest: bytes, kept: Vec::new(), skips: false, number: 1 }
    }

    /// Takes bytes, and calls `take` with the lines that they complete, until it returns an error.
    ///
    /// # Errors
    /// What `take` returned.
    pub fn feed<E>(
        &mut self,
        mut bytes: &[u8],
        take: &mut impl FnMut(Result<Line, NodeError>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end], take)?;
            bytes = &bytes[end + 1..];
            self.cut(take)?;
        }
        self.keep(bytes, take)
    }

    /// No more bytes come: the rest is a line, unless it is empty. Bytes after that begin another line.
    ///
    /// # Errors
    /// What `take` returned.
    pub fn finish<E>(&mut self, take: &mut impl FnMut(Result<Line, NodeError>) -> Result<(), E>) -> Result<(), E> {
        if self.kept.is_empty() && !self.skips { Ok(()) } else { self.cut(take) }
    }

    /// The bytes of the unfinished line; none if it is too long, which was reported.
    pub fn rest(&self) -> &[u8] {
        &self.kept
    }

    fn keep<E>(
        &mut self,
        bytes: &[u8],
        take: &mut impl FnMut(Result<Line, NodeError>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.skips {
            return Ok(());
        }
        // One byte more, for a carriage return, which does not count.
        if self.kept.len() + bytes.len() > self.longest.saturating_add(1) {
            self.skips = true;
            let mut beginning = std::mem::take(&mut self.kept);
            let missing = self.longest.saturating_sub(beginning.len());
            beginning.extend_from_slice(&bytes[..missing.min(bytes.len())]);
            return take(Err(self.length_problem(beginning)));
        }
        self.kept.extend_from_slice(bytes);
        Ok(())
    }

    fn length_problem(&self, mut beginning: Vec<u8>) -> NodeError {
        let Self { number, longest, .. } = self;
        beginning.truncate(*longest);
        NodeError::msg(format!(
            "line {number} is longer than {longest} bytes and was skipped; allow more with `longest_line`"
        ))
        .with_record(beginning)
    }

    /// A line is over.
    fn cut<E>(&mut self, take: &mut impl FnMut(Result<Line, NodeError>) -> Result<(), E>) -> Result<(), E> {
        let mut bytes = std::mem::take(&mut self.kept);
        let skipped = std::mem::take(&mut self.skips);
        let number = self.number;
        if skipped {
            self.number += 1;
            return Ok(()); // reported when it became too long
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        let line =
            if bytes.len() > self.longest { Err(self.length_problem(bytes)) } else { Ok(Line { number, bytes }) };
        self.number += 1;
        take(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(longest: usize, pieces: &[&[u8]]) -> Vec<Result<String, String>> {
        run_with(longest, NotUtf8::Error, pieces).into_iter().map(|line| line.map_err(|(why, _)| why)).collect()
    }

    fn run_with(longest: usize, otherwise: NotUtf8, pieces: &[&[u8]]) -> Vec<Result<String, (String, Vec<u8>)>> {
        let mut lines = Lines::at_most(longest);
        let mut got = Vec::new();
        let mut take = |line: Result<Line, NodeError>| {
            let text = line.and_then(|line| line.text(otherwise));
            got.push(text.map_err(|error| (error.to_string(), error.record().to_vec())));
            Ok::<(), ()>(())
        };
        for piece in pieces {
            lines.feed(piece, &mut take).unwrap();
        }
        lines.finish(&mut take).unwrap();
        got
    }

    fn ok(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
        let text = "one\r\n\ntwo\nlast".as_bytes();
        let expected = [ok("one"), ok(""), ok("two"), ok("last")];
        assert_eq!(run(10, &[text]), expected);
        for cut in 0..text.len() {
            assert_eq!(run(10, &[&text[..cut], &text[cut..]]), expected, "cut at {cut}");
        }
        assert!(run(10, &[b""]).is_empty());
        assert_eq!(run(10, &[b"a\n"]), [ok("a")], "nothing follows the last end of line");
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_is_whole() {
        let problem = "line 2 is longer than 3 bytes and was skipped; allow more with `longest_line`";
        let expected = [ok("abc"), Err(problem.to_owned()), ok("def")];
        let text = b"abc\nabcd\ndef";
        assert_eq!(run(3, &[text]), expected);
        for cut in 0..text.len() {
            assert_eq!(run(3, &[&text[..cut], &text[cut..]]), expected, "cut at {cut}");
        }
        assert_eq!(run(3, &[b"abc\r\n"]), [ok("abc")], "the end of the line does not count");
        assert_eq!(run(3, &[b"abcdefgh\nx"])[1], ok("x"));
    }

    #[test]
    fn a_line_that_is_no_text_is_skipped_or_replaced() {
        let text = b"a\n\xff\xfe\nb\n";
        let got = run(10, &[text]);
        assert_eq!((&got[0], &got[2]), (&ok("a"), &ok("b")));
        assert!(got[1].as_ref().unwrap_err().starts_with("line 2 is no UTF-8 text and was skipped"), "{got:?}");
        let replaced = run_with(10, NotUtf8::Replace, &[text]);
        assert_eq!(replaced[1].as_deref(), Ok("\u{fffd}\u{fffd}"));
    }

    #[test]
    fn a_bad_line_is_reported_with_its_bytes_and_a_long_one_with_its_beginning() {
        let got = run_with(4, NotUtf8::Error, &[b"\xffx\n", b"abc", b"defg", b"h\n", b"abcde\n"]);
        let records: Vec<&[u8]> = got.iter().map(|line| &*line.as_ref().unwrap_err().1).collect();
        assert_eq!(records, [&b"\xffx"[..], b"abcd", b"abcd"]);
    }
}
