//! JSON as the same tree as TOML.
//!
//! Room: surface. Knows syntax; knows nothing of what a file means.
//!
//! # Invariant
//! It recurses at most [`Dialect::json_depth`] deep, reads each byte a bounded number of times, and refuses a key written twice.
//!
//! # Why not serde_json
//! It does not report the location of a value, and of two equal keys it keeps the last.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::problem::{Report, Span};
use crate::tree::{DEEP, Dialect, Entry, Node, Table, Value};

struct Reader<'t> {
    text: &'t str,
    at: usize,
    dialect: Dialect,
}

struct SyntaxError(Span, String, &'static str);

/// Reads JSON; the first error of its syntax goes into the report.
pub(crate) fn json<'t>(text: &'t str, dialect: &Dialect, report: &mut Report) -> Table<'t> {
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut reader = Reader { text, at: start, dialect: *dialect };
    let table = reader.value(0).and_then(|node| {
        reader.space();
        match node.value {
            _ if reader.at < text.len() => Err(reader.error("there is text after the end", "remove it")),
            Value::Table(table) => Ok(table),
            _ => Err(SyntaxError(node.at, "this is not a table".to_owned(), dialect.shape)),
        }
    });
    table.unwrap_or_else(|SyntaxError(at, message, help)| {
        report.add(&at, message, help);
        Table::default()
    })
}

impl<'t> Reader<'t> {
    fn error(&self, message: &str, help: &'static str) -> SyntaxError {
        let length = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        SyntaxError(self.at..self.at + length, message.to_owned(), help)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes a byte if it is the next one.
    fn eat(&mut self, byte: u8) -> bool {
        self.space();
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self, depth: usize) -> Result<Node<'t>, SyntaxError> {
        self.space();
        let start = self.at;
        let value = match self.peek() {
            Some(b'{' | b'[') if depth >= self.dialect.json_depth => {
                return Err(self.error(DEEP, self.dialect.deep));
            }
            Some(b'{') => Value::Table(self.table(depth)?),
            Some(b'[') => Value::List(self.list(depth)?),
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            None => return Err(self.error("the file ends in the middle", self.dialect.shape)),
            Some(_) => match ["true", "false", "null"].iter().find(|word| self.text[start..].starts_with(**word)) {
                Some(&word) => {
                    self.at += word.len();
                    if word == "null" { Value::Null } else { Value::Flag(word == "true") }
                }
                None => return Err(self.error("this is not a value", "text is in double quotes")),
            },
        };
        Ok(Node { at: start..self.at, value })
    }

    fn table(&mut self, depth: usize) -> Result<Table<'t>, SyntaxError> {
        self.at += 1;
        let mut entries: Vec<Entry<'t>> = Vec::new();
        let mut seen = HashSet::new();
        if self.eat(b'}') {
            return Ok(Table { entries });
        }
        loop {
            self.space();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a key", "keys are in double quotes"));
            }
            let key = self.string()?;
            let at = start..self.at;
            if !seen.insert(key.clone()) {
                let message = "this key is written twice".to_owned();
                return Err(SyntaxError(at, message, "remove one of the two, or give it another name"));
            }
            if !self.eat(b':') {
                return Err(self.error("expected `:`", "a key and its value are \"key\": value"));
            }
            let node = self.value(depth + 1)?;
            entries.push(Entry { key, at, node });
            if self.eat(b'}') {
                return Ok(Table { entries });
            }
            if !self.eat(b',') {
                return Err(self.error("expected `,` or `}`", "separate entries by commas"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node<'t>>, SyntaxError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.eat(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.eat(b']') {
                return Ok(items);
            }
            if !self.eat(b',') {
                return Err(self.error("expected `,` or `]`", "separate values by commas"));
            }
        }
    }

    fn number(&mut self) -> Result<Value<'t>, SyntaxError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        let digits = text.strip_prefix('-').unwrap_or(text);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let saturated = if text.starts_with('-') { i128::MIN } else { i128::MAX };
            return Ok(Value::Whole(text.parse().unwrap_or(saturated)));
        }
        match text.parse::<f64>() {
            Ok(number) => Ok(Value::Decimal(number)),
            Err(_) => Err(SyntaxError(
                start..self.at,
                format!("`{}` is not a number", crate::units::clip(text)),
                "write 1 or 1.5",
            )),
        }
    }

    fn string(&mut self) -> Result<Cow<'t, str>, SyntaxError> {
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') else {
                return Err(self.error("this text has no end", "close it with a double quote"));
            };
            let piece = &rest[..end];
            self.at += end;
            match rest.as_bytes()[end] {
                b'"' => {
                    self.at += 1;
                    return Ok(match owned {
                        Some(text) => Cow::Owned(text + piece),
                        None => Cow::Borrowed(&self.text[start..self.at - 1]),
                    });
                }
                b'\\' => {
                    let text = owned.get_or_insert_default();
                    text.push_str(piece);
                    let c = self.escape()?;
                    text.push(c);
                }
                _ => return Err(self.error("this text continues over the end of its line", "write \\n for a new line")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        const KNOWN: &str = "write \\\\ for a backslash; others are \\\" \\/ \\b \\f \\n \\r \\t \\uXXXX";
        let c = match self.text.as_bytes().get(self.at + 1) {
            Some(&c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(KNOWN),
            _ => return Err(self.error("this escape is unknown", KNOWN)),
        };
        self.at += 2;
        Ok(c)
    }

    /// `\uXXXX`, or two of them for a character beyond 16 bits.
    fn unicode(&mut self, help: &'static str) -> Result<char, SyntaxError> {
        let hex = |at: usize| {
            let digits = self.text.get(at..at + 6)?.strip_prefix("\\u")?;
            digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
        };
        let first = hex(self.at).ok_or_else(|| self.error("this escape is broken", help))?;
        let (code, length) = match (first, hex(self.at + 6)) {
            (0xD800..=0xDBFF, Some(second @ 0xDC00..=0xDFFF)) => {
                (0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00), 12)
            }
            _ => (first, 6),
        };
        let c = char::from_u32(code).ok_or_else(|| self.error("this escape is half a character", help))?;
        self.at += length;
        Ok(c)
    }
}
