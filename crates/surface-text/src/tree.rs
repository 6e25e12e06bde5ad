//! What TOML and JSON have in common: a tree of values with their locations.
//!
//! Room: surface. Knows syntax; knows nothing of what a file means.
//!
//! # Invariant
//! Entries of a table are in the order they were written, and no two have the same key.
//!
//! # Why it holds
//! Both parsers refuse a second one; TOML's tables are sorted by the location of their keys, since the parser sorts by name.

use std::borrow::Cow;

use toml::de::{DeTable, DeValue};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use crate::problem::{Report, Span};
use crate::units::clip;

/// A value and its location.
#[derive(Clone, Debug)]
pub struct Node<'t> {
    /// Where it is written.
    pub at: Span,
    /// What it is.
    pub value: Value<'t>,
}

/// A value; `'t` is the text it was read from.
#[derive(Clone, Debug)]
pub enum Value<'t> {
    /// In quotes.
    Text(Cow<'t, str>),
    /// A whole number, saturated; no field takes as much.
    Whole(i128),
    /// A number with a point or an exponent; TOML has also `inf` and `nan`.
    Decimal(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A date or a time, which only TOML has.
    Date,
    /// Which only JSON has.
    Null,
    /// In order.
    List(Vec<Node<'t>>),
    /// Keys and values.
    Table(Table<'t>),
}

impl Value<'_> {
    /// For messages: "not the list".
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "the text",
            Self::Whole(_) | Self::Decimal(_) => "the number",
            Self::Flag(_) => "the flag",
            Self::Date => "the date",
            Self::Null => "the empty value",
            Self::List(_) => "the list",
            Self::Table(_) => "the table",
        }
    }
}

/// Entries in the order they were written.
#[derive(Clone, Debug, Default)]
pub struct Table<'t> {
    /// No two have the same key.
    pub entries: Vec<Entry<'t>>,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry<'t> {
    /// Without quotes.
    pub key: Cow<'t, str>,
    /// Of the key.
    pub at: Span,
    /// Its value.
    pub node: Node<'t>,
}

impl<'t> Table<'t> {
    /// The entry with this key.
    pub fn get(&self, key: &str) -> Option<&Entry<'t>> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

/// What a kind of file calls itself in messages about syntax, and how deep it may nest.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// Brackets in brackets, in TOML.
    pub brackets: usize,
    /// Names in a dotted key, in TOML.
    pub dots: usize,
    /// Brackets in brackets with the names of their keys, in TOML: dotted keys in nested tables multiply.
    pub levels: usize,
    /// Brackets in brackets, in JSON, which has no dotted keys.
    pub json_depth: usize,
    /// The way out of nesting too deep: "a job file needs four levels; write it flat".
    pub deep: &'static str,
    /// The way out of any other error in TOML: "a line is `key = value`, …".
    pub line: &'static str,
    /// The way out of JSON that is not a table, or ends early: the smallest file.
    pub shape: &'static str,
}

pub(crate) const DEEP: &str = "this is nested too deep";

/// Reads TOML; every error of its syntax goes into the report.
pub fn toml<'t>(text: &'t str, dialect: &Dialect, report: &mut Report) -> Table<'t> {
    if let Some(at) = too_deep(text, dialect) {
        report.add(&at, DEEP, dialect.deep);
        return Table::default();
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    // A table that is written twice repeats its keys as well: one problem, not many.
    let mut repeated = 0..0;
    for error in errors {
        if report.is_full() {
            report.add(&(0..0), "", ""); // counted; checking each of a million would take long
            continue;
        }
        let at = error.span().unwrap_or(0..0);
        let written = text.get(at.clone()).unwrap_or_default();
        let message = error.message();
        if message.contains("duplicate key") {
            if repeated.contains(&at.start) {
                continue;
            }
            let line = text[..at.start].rfind('\n').map_or(0, |end| end + 1);
            if text[line..].trim_start().starts_with('[') {
                repeated = at.start..text[at.start..].find("\n[").map_or(text.len(), |end| at.start + end);
            }
            let message = format!("`{}` is written twice", clip(written));
            report.add(&at, message, "remove one of the two, or give it another name");
        } else if message.contains("string values must be quoted") {
            report.add(&at, "this text has no quotes", format!("write \"{}\"", clip(written)));
        } else {
            report.add(&at, message, dialect.line);
        }
    }
    if !report.is_empty() {
        return Table::default();
    }
    from_toml(table.into_inner())
}

/// Where brackets or dotted keys go too deep, if they do.
///
/// The parser limits both, but to 80 each: dotted keys in nested tables would make a tree of 6400 levels, and it drops
/// trees by recursion. A dialect allows a few hundred.
fn too_deep(text: &str, dialect: &Dialect) -> Option<Span> {
    // Levels of each open bracket: its own, and the names of its key.
    let (mut open, mut levels) = (Vec::new(), 0_usize);
    let (mut dots, mut key_dots) = (0, 0);
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => {
                open.push(1 + key_dots);
                levels += 1 + key_dots;
                (dots, key_dots) = (0, 0);
            }
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => levels -= open.pop().unwrap_or(0),
            TokenKind::Dot => dots += 1,
            TokenKind::Equals => (key_dots, dots) = (dots, 0),
            TokenKind::Comma | TokenKind::Newline => (dots, key_dots) = (0, 0),
            _ => {}
        }
        if open.len() > dialect.brackets || dots > dialect.dots || levels + dots > dialect.levels {
            return Some(token.span().start()..token.span().end());
        }
    }
    None
}

fn from_toml(table: DeTable<'_>) -> Table<'_> {
    let mut entries: Vec<_> = table
        .into_iter()
        .map(|(key, value)| {
            let at = key.span();
            let node = node(value.span(), value.into_inner());
            Entry { key: key.into_inner(), at, node }
        })
        .collect();
    entries.sort_by_key(|entry| entry.at.start);
    Table { entries }
}

fn node(at: Span, value: DeValue<'_>) -> Node<'_> {
    let value = match value {
        DeValue::String(text) => Value::Text(text),
        DeValue::Integer(number) => {
            let digits = number.as_str();
            let saturated = if digits.starts_with('-') { i128::MIN } else { i128::MAX };
            Value::Whole(i128::from_str_radix(digits, number.radix()).unwrap_or(saturated))
        }
        // The parser has checked it; Rust reads the same, and `inf` and `nan` with it.
        DeValue::Float(number) => Value::Decimal(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => {
            Value::List(items.into_iter().map(|item| node(item.span(), item.into_inner())).collect())
        }
        DeValue::Table(table) => Value::Table(from_toml(table)),
    };
    Node { at, value }
}
