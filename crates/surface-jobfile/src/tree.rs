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

use crate::problem::{Report, Span};

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

/// Tables in tables, and lists; a job file needs four.
const DEPTH: usize = 32;

/// Reads TOML; every error of its syntax goes into the report.
pub(crate) fn toml<'t>(text: &'t str, report: &mut Report) -> Table<'t> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().unwrap_or(0..0);
        let message = error.message();
        let (message, help) = if message.contains("recurs") {
            ("this is nested too deep", "a job file needs four levels; write it flat".to_owned())
        } else if message.contains("duplicate key") {
            ("this key is written twice", "remove one of the two, or give it another name".to_owned())
        } else if message.contains("string values must be quoted") {
            ("this text has no quotes", format!("write \"{}\"", text.get(at.clone()).unwrap_or("text")))
        } else {
            (message, "a line is `key = value`, a job starts with `[job.NAME]`, and text is in quotes".to_owned())
        };
        report.add(&at, message, help);
    }
    if !report.is_empty() {
        return Table::default();
    }
    from_toml(table.into_inner(), 0, report)
}

fn from_toml<'t>(table: DeTable<'t>, depth: usize, report: &mut Report) -> Table<'t> {
    let mut entries: Vec<_> = table
        .into_iter()
        .map(|(key, value)| {
            let at = key.span();
            let node = node(value.span(), value.into_inner(), depth + 1, report);
            Entry { key: key.into_inner(), at, node }
        })
        .collect();
    entries.sort_by_key(|entry| entry.at.start);
    Table { entries }
}

fn node<'t>(at: Span, value: DeValue<'t>, depth: usize, report: &mut Report) -> Node<'t> {
    let value = match value {
        DeValue::Array(_) | DeValue::Table(_) if depth >= DEPTH => {
            report.add(&at, "this is nested too deep", "a job file needs four levels; write it flat");
            Value::Null
        }
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
            Value::List(items.into_iter().map(|item| node(item.span(), item.into_inner(), depth + 1, report)).collect())
        }
        DeValue::Table(table) => Value::Table(from_toml(table, depth + 1, report)),
    };
    Node { at, value }
}
