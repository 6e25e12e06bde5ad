//! Bytes become lines, of bounded length.
//!
//! # Invariant
//! At most `longest` bytes are kept. Every line comes out once, as a text or as a problem; what is too long or no text is skipped to
//! the end of its line, and the next line is whole.

use crate::error::NodeError;

/// A line is at most so long, unless told otherwise.
pub(super) const LONGEST: usize = 1 << 20;

/// Cuts bytes into lines.
pub(super) struct Lines {
    longest: usize,
    kept: Vec<u8>,
    /// The rest of this line is not wanted.
    skips: bool,
    number: u64,
}

impl Lines {
    pub(super) fn new(longest: usize) -> Self {
        Self { longest, kept: Vec::new(), skips: false, number: 1 }
    }

    /// Takes bytes, and hands out the lines that they complete, until somebody does not want any more.
    pub(super) fn feed<E>(
        &mut self,
        mut bytes: &[u8],
        take: &mut impl FnMut(Result<String, NodeError>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end], take)?;
            bytes = &bytes[end + 1..];
            self.cut(take)?;
        }
        self.keep(bytes, take)
    }

    /// No more bytes come: what is left is a line, unless it is nothing.
    pub(super) fn finish<E>(
        &mut self,
        take: &mut impl FnMut(Result<String, NodeError>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.kept.is_empty() && !self.skips { Ok(()) } else { self.cut(take) }
    }

    fn keep<E>(
        &mut self,
        bytes: &[u8],
        take: &mut impl FnMut(Result<String, NodeError>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.skips {
            return Ok(());
        }
        // One more, for a carriage return that does not count.
        if self.kept.len() + bytes.len() > self.longest + 1 {
            self.too_long();
            return take(Err(self.length_problem()));
        }
        self.kept.extend_from_slice(bytes);
        Ok(())
    }

    fn too_long(&mut self) {
        self.skips = true;
        self.kept = Vec::new();
    }

    fn length_problem(&self) -> NodeError {
        let Self { number, longest, .. } = self;
        NodeError::msg(format!(
            "line {number} is longer than {longest} bytes and was skipped; allow more with `longest_line`"
        ))
        .of_record()
    }

    /// A line is over.
    fn cut<E>(&mut self, take: &mut impl FnMut(Result<String, NodeError>) -> Result<(), E>) -> Result<(), E> {
        let number = self.number;
        let mut line = std::mem::take(&mut self.kept);
        let skipped = std::mem::take(&mut self.skips);
        if skipped {
            self.number += 1;
            return Ok(());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        let problem = (line.len() > self.longest).then(|| self.length_problem());
        self.number += 1;
        if let Some(problem) = problem {
            return take(Err(problem));
        }
        take(String::from_utf8(line).map_err(|error| {
            NodeError::msg(format!("line {number} is no UTF-8 text and was skipped: {}", error.utf8_error()))
                .of_record()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(longest: usize, pieces: &[&[u8]]) -> Vec<Result<String, String>> {
        let mut lines = Lines::new(longest);
        let mut got = Vec::new();
        let mut take = |line: Result<String, NodeError>| {
            got.push(line.map_err(|error| error.to_string()));
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
    fn what_is_no_text_is_skipped() {
        let got = run(10, &[b"a\n\xff\xfe\nb\n"]);
        assert_eq!((&got[0], &got[2]), (&ok("a"), &ok("b")));
        assert!(got[1].as_ref().unwrap_err().starts_with("line 2 is no UTF-8 text and was skipped"), "{got:?}");
    }
}
