//! What TOML and JSON have in common: values that know where they stand.
//!
//! Room: surface. Knows syntax; knows no job.
//!
//! # Invariant
//! Entries of a table are in the order they were written, and no two have the same key.
//!
//! # Why it holds
//! Both parsers refuse a second one; TOML's tables are sorted by the place of their keys, since the parser sorts by name.

use std::borrow::Cow;

use toml::de::{DeTable, DeValue};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use crate::problem::{Report, Span};
use crate::units::clip;

/// A value and its place.
#[derive(Debug)]
pub(crate) struct Node<'t> {
    pub(crate) at: Span,
    pub(crate) value: Value<'t>,
}

#[derive(Debug)]
pub(crate) enum Value<'t> {
    Text(Cow<'t, str>),
    /// Saturated; no field takes as much.
    Whole(i128),
    Decimal,
    Flag,
    Date,
    Null,
    List(Vec<Node<'t>>),
    Table(Table<'t>),
}

impl Value<'_> {
    /// For messages: "not a list".
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "the text",
            Self::Whole(_) | Self::Decimal => "the number",
            Self::Flag => "the flag",
            Self::Date => "the date",
            Self::Null => "the empty value",
            Self::List(_) => "the list",
            Self::Table(_) => "the table",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table<'t> {
    pub(crate) entries: Vec<Entry<'t>>,
}

#[derive(Debug)]
pub(crate) struct Entry<'t> {
    pub(crate) key: Cow<'t, str>,
    /// Of the key.
    pub(crate) at: Span,
    pub(crate) node: Node<'t>,
}

/// Brackets in brackets, and names in a dotted key; a job file needs four.
const DEPTH: usize = 16;
const DEEP: (&str, &str) = ("this is nested too deep", "a job file needs four levels; write it flat");

/// Reads TOML; every error of its syntax goes into the report.
pub(crate) fn toml<'t>(text: &'t str, report: &mut Report) -> Table<'t> {
    if let Some(at) = too_deep(text) {
        report.add(&at, DEEP.0, DEEP.1);
        return Table::default();
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    // A table that is written twice repeats its keys as well: one problem, not many.
    let mut repeated = 0..0;
    for error in errors {
        if report.is_full() {
            report.add(&(0..0), "", ""); // counted; a look at each of a million would take its time
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
            report.add(&at, message, "a line is `key = value`, a job starts with `[job.NAME]`, and text is in quotes");
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
/// trees by recursion. Here it is 16 by 16.
fn too_deep(text: &str) -> Option<Span> {
    let (mut brackets, mut dots) = (0_usize, 0);
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => (brackets, dots) = (brackets + 1, 0),
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => brackets = brackets.saturating_sub(1),
            TokenKind::Dot => dots += 1,
            TokenKind::Equals | TokenKind::Comma | TokenKind::Newline => dots = 0,
            _ => {}
        }
        if brackets > DEPTH || dots > DEPTH {
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
        DeValue::Float(_) => Value::Decimal,
        DeValue::Boolean(_) => Value::Flag,
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => {
            Value::List(items.into_iter().map(|item| node(item.span(), item.into_inner())).collect())
        }
        DeValue::Table(table) => Value::Table(from_toml(table)),
    };
    Node { at, value }
}
