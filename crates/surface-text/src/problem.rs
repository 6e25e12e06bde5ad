//! What is wrong with a file, where, and what to write instead.
//!
//! Room: values.
//!
//! # Invariant
//! Every problem found is reported, in the order of the file, up to a number a person reads; the rest is counted.
//!
//! # Why not the whole file as miette's source
//! A problem outlives the text. It keeps its own line, so a report of a 64 MiB file is as small as any other.

use std::fmt;
use std::ops::Range;

use crate::{clean, clean_lines, without_logins};

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents};
use miette::{SourceCode, SourceSpan, SpanContents};

/// Bytes of the file.
pub type Span = Range<usize>;

/// Problems kept; further ones are counted.
const KEPT: usize = 50;
/// Bytes of a line kept on each side of a problem.
const EXCERPT_BYTES: usize = 80;

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as the caller named it.
    pub file: String,
    /// Where; `None` if the problem has no location in the text, such as a missing file.
    pub location: Option<Location>,
    /// What is wrong: names the value and the limit.
    pub message: String,
    /// The way out.
    pub help: String,
    excerpt: Option<Excerpt>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(Location { line, column }) = self.location {
            write!(f, "{line}:{column}:")?;
        }
        write!(f, " {}; {}", self.message, self.help)
    }
}

impl std::error::Error for Problem {}

impl Problem {
    /// What it names may come from the file: nothing of that makes a terminal do anything, and no password in an address is shown.
    fn new(file: &str, message: &str, help: &str) -> Self {
        let shown = |text: &str| clean_lines(&String::from_utf8_lossy(&without_logins(text.as_bytes()))).into_owned();
        let (message, help) = (shown(message), shown(help));
        Self { file: clean(file).into_owned(), location: None, message, help, excerpt: None }
    }
}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt.as_ref().map(|excerpt| excerpt as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let excerpt = self.excerpt.as_ref()?;
        Some(Box::new(std::iter::once(LabeledSpan::underline(excerpt.marked.clone()))))
    }
}

/// Part of the line a problem is in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    file: String,
    text: String,
    /// Of `text`.
    marked: Range<usize>,
    /// Where `text` starts, from 0.
    line: usize,
    column: usize,
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        // Without lines around it miette asks for the location of a label, otherwise for what to show.
        let from = if lines_before + lines_after == 0 { span.offset() } else { 0 };
        let before = self.text.get(..from).ok_or(MietteError::OutOfBounds)?;
        let column = self.column + before.chars().count();
        let text = &self.text.as_bytes()[from..];
        let span = SourceSpan::from((from, text.len()));
        Ok(Box::new(MietteSpanContents::new_named(self.file.clone(), text, span, self.line, column, 1)))
    }
}

/// A problem without its location and its help, which miette shows separately.
#[derive(Debug)]
struct Message<'a>(&'a Problem);

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Message<'_> {}

impl Diagnostic for Message<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0.help()
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.0.labels()
    }
}

/// Everything that is wrong with a file; never empty.
///
/// `Display` gives a line for each problem, `FILE:LINE:COLUMN: what is wrong; what to write`. [`pretty`](Self::pretty)
/// shows the lines of the file, too.
///
/// ```
/// let mut report = surface_text::Report::default();
/// report.add(&(4..11), "`retires` is not a field", "did you mean `retries`?");
/// let problems = report.finish("a.toml", b"[a]\nretires = 2");
/// assert_eq!(problems.to_string(), "a.toml:2:1: `retires` is not a field; did you mean `retries`?");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    uncounted: usize,
}

impl Problems {
    /// One problem with a file that has no location in its text.
    pub fn of_file(file: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { list: vec![Problem::new(file, &message.into(), &help.into())], uncounted: 0 }
    }

    /// The problems, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.list.iter()
    }

    /// How many were found, also those that are only counted.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        self.list.len() + self.uncounted
    }

    /// For a terminal: each problem with its line of the file, the location underlined.
    pub fn pretty(&self, colour: bool) -> String {
        let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_links(false);
        let mut text = String::new();
        for problem in &self.list {
            if problem.excerpt.is_none() {
                text.push_str(&format!("{}:\n", problem.file));
            }
            // Writing into a string does not fail. If miette fails, the plain line says the same.
            if handler.render_report(&mut text, &Message(problem)).is_err() {
                text.push_str(&format!("{problem}\n"));
            }
        }
        text.push_str(&self.rest());
        text
    }

    fn rest(&self) -> String {
        match self.uncounted {
            0 => String::new(),
            more => format!("and {more} more problems; fix these first"),
        }
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        if self.uncounted > 0 {
            write!(f, "\n{}", self.rest())?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Collects problems while a file is read.
#[derive(Debug, Default)]
pub struct Report {
    raw: Vec<(Span, String, String)>,
    /// Of files that this one names.
    included: Vec<Problem>,
    uncounted: usize,
}

impl Report {
    /// Notes what is wrong at a location, and the way out.
    pub fn add(&mut self, at: &Span, message: impl Into<String>, help: impl Into<String>) {
        if self.is_full() {
            self.uncounted += 1;
        } else {
            self.raw.push((at.clone(), message.into(), help.into()));
        }
    }

    /// Notes what is wrong with a file that this one names.
    pub fn include(&mut self, problems: Problems) {
        let room = KEPT.saturating_sub(self.raw.len() + self.included.len());
        self.uncounted += problems.uncounted + problems.list.len().saturating_sub(room);
        self.included.extend(problems.list.into_iter().take(room));
    }

    /// Further problems are only counted: a costly suggestion for one would be lost.
    pub fn is_full(&self) -> bool {
        self.raw.len() + self.included.len() >= KEPT
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty() && self.included.is_empty() && self.uncounted == 0
    }

    /// Finds lines and columns; problems of other files come last. `text` need not be UTF-8, since that may be the problem.
    pub fn finish(mut self, file: &str, text: &[u8]) -> Problems {
        self.raw.sort_by_key(|(at, ..)| at.start);
        let text = &*without_logins(text);
        let (mut line, mut line_start, mut seen) = (0, 0, 0);
        let mut list = Vec::with_capacity(self.raw.len());
        for (at, message, help) in self.raw {
            let start = at.start.min(text.len());
            for (offset, _) in text[seen..start].iter().enumerate().filter(|&(_, &byte)| byte == b'\n') {
                line += 1;
                line_start = seen + offset + 1;
            }
            seen = start;
            let column = String::from_utf8_lossy(&text[line_start..start]).chars().count();
            let excerpt = excerpt(file, text, line_start, start..at.end.clamp(start, text.len()), line);
            let location = Some(Location { line: line + 1, column: column + 1 });
            list.push(Problem { location, excerpt: Some(excerpt), ..Problem::new(file, &message, &help) });
        }
        list.append(&mut self.included);
        Problems { list, uncounted: self.uncounted }
    }
}

fn excerpt(file: &str, text: &[u8], line_start: usize, at: Span, line: usize) -> Excerpt {
    let rest = &text[at.start..];
    let to_end = rest.iter().position(|&byte| byte == b'\n' || byte == b'\r').unwrap_or(rest.len());
    let from = window_start(text, line_start, at.start);
    let mut to = at.start + to_end.min(EXCERPT_BYTES);
    while to < text.len() && to > at.start && text[to] & 0xC0 == 0x80 {
        to -= 1; // not within a character
    }
    let shown = |bytes: &[u8]| clean_lines(&String::from_utf8_lossy(bytes)).into_owned();
    let before = shown(&text[from..at.start]);
    let marked_to = at.end.clamp(at.start, to);
    let marked = shown(&text[at.start..marked_to]);
    let after = shown(&text[marked_to..to]);
    let column = String::from_utf8_lossy(&text[line_start..from]).chars().count();
    let marks = before.len()..before.len() + marked.len();
    Excerpt { file: clean(file).into_owned(), text: format!("{before}{marked}{after}"), marked: marks, line, column }
}

fn window_start(text: &[u8], line_start: usize, at: usize) -> usize {
    let mut from = at.saturating_sub(EXCERPT_BYTES).max(line_start);
    while from > line_start && from < at && text[from] & 0xC0 == 0x80 {
        from += 1;
    }
    from
}
