//! The kinds of nodes: one table that checks files, writes help, and names ports.
//!
//! Room: values.
//!
//! # Invariant
//! A field or port that is not in the table does not exist: files are checked against it, and help is written from it.

mod help;
mod table;

pub use help::{describe, help, json};
pub use table::KINDS;
pub(crate) use table::{CONDITIONS, EVERY_NODE, ROUTE, field};

use std::fmt;

use surface_text::reference::Shape;

/// A kind of node.
///
/// ```
/// let kind = surface_flowfile::kinds::kind("filter").unwrap();
/// assert!(kind.fields.iter().any(|field| field.name == "above"));
/// println!("{}", surface_flowfile::kinds::describe(kind));
/// ```
#[derive(Debug)]
pub struct Kind {
    /// As it is written: `kind = "filter"`.
    pub name: &'static str,
    /// Where it stands in a graph.
    pub role: Role,
    /// What it does, in one line.
    pub about: &'static str,
    /// Its inputs, besides `control`, which every node has.
    pub inputs: &'static [Port],
    /// Its outputs, besides `dead`, which a node with dead letters has.
    pub outputs: &'static [Port],
    /// Its fields, besides those of every node.
    pub fields: &'static [Field],
}

/// Where a node stands in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It emits messages.
    Source,
    /// It takes and emits messages.
    Stage,
    /// It takes messages.
    Sink,
    /// Its edges decide.
    Any,
}

/// A port of a kind.
#[derive(Debug)]
pub struct Port {
    /// As it is written; for ports that a field names, a placeholder.
    pub name: &'static str,
    /// What goes through it.
    pub about: &'static str,
}

/// A field of a kind, or of another part of a file.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// As it is written.
    pub name: &'static str,
    /// What may be written.
    pub takes: Takes,
    /// Whether it is required; else its default.
    pub without: Without,
    /// What it means, in one line.
    pub about: &'static str,
    /// A value, as it is written.
    pub example: &'static str,
}

/// What a missing field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// It is a problem.
    Required,
    /// This default, in words.
    Means(&'static str),
}

/// What may be written for a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    /// A text that is not empty.
    Text,
    /// A file or folder, relative to the folder of the flow file.
    Path,
    /// The name of a field of a message, dotted: `position.x`.
    Name,
    /// Host and port: `127.0.0.1:7000`.
    Address,
    /// `250ms`, `10s`, `1h30m`, or a number of seconds.
    Duration,
    /// A whole number within limits, both included.
    Whole(i64, i64),
    /// Any finite number.
    Number,
    /// `true` or `false`.
    Flag,
    /// One of these.
    Word(&'static [&'static str]),
    /// Any value that a message can have.
    Any,
    /// A list of anything.
    List,
    /// A list of texts.
    Texts,
    /// A table; the field says of what.
    Table,
    /// Something else: in words, and its shape in the JSON Schema.
    Other(&'static str, Shape),
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("a text"),
            Self::Path => f.write_str("a path"),
            Self::Name => f.write_str("the name of a field"),
            Self::Address => f.write_str("an address"),
            Self::Duration => f.write_str("a duration"),
            Self::Whole(..) => f.write_str("a whole number"),
            Self::Number => f.write_str("a number"),
            Self::Flag => f.write_str("true or false"),
            Self::Word(words) => {
                for (nth, word) in words.iter().enumerate() {
                    let before = if nth == 0 {
                        ""
                    } else if nth + 1 == words.len() {
                        " or "
                    } else {
                        ", "
                    };
                    write!(f, "{before}\"{word}\"")?;
                }
                Ok(())
            }
            Self::Any => f.write_str("any value"),
            Self::List => f.write_str("a list"),
            Self::Texts => f.write_str("a list of texts"),
            Self::Table => f.write_str("a table"),
            Self::Other(what, _) => f.write_str(what),
        }
    }
}

/// The kind with this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}
