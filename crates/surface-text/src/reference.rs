//! The reference of a kind of file: as text, as a Markdown page, and as a JSON schema for editors.
//!
//! Room: surface.
//!
//! Pure. The tables belong to the readers of a kind of file; here they are only formatted.
//!
//! # Invariant
//! Every entry is in each of the three, with its values, its limits, its default, and an example.

use std::fmt::Write;

use serde_json::{Map, Value, json};

/// What a required key has as its default.
pub const REQUIRED: &str = "required";

/// How values with units are written.
const VALUES: &str = "A size is \"512 MB\", \"1.5 GiB\", or a number of MB; a duration is \"250ms\", \"10s\", \"1h30m\", or a number of seconds.";

/// What may be written for a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A text that is not empty.
    Text,
    /// A list of texts.
    Texts,
    /// A list of texts, or this word alone.
    TextsOr(&'static str),
    /// A whole number within limits, both included.
    Whole(i64, i64),
    /// A list of these.
    Wholes(i64, i64),
    /// Any finite number.
    Number,
    /// `true` or `false`.
    Flag,
    /// `"512 MB"`, or a number of MB.
    Size,
    /// `"10s"`, or a number of seconds.
    Duration,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Anything.
    Any,
    /// A list of anything.
    List,
    /// A table; the key says of what.
    Table,
    /// Names of variables and their values.
    Variables,
    /// Keys and their values: ranges, lists, globs.
    Matrix,
    /// Tables of keys and one value each.
    Combinations,
    /// A section, described by itself.
    Section(&'static str),
}

impl Shape {
    /// ` from 1 to 64`, if there are limits.
    pub fn limits(self) -> String {
        match self {
            Self::Whole(least, most) | Self::Wholes(least, most) if (least, most) != (i64::MIN, i64::MAX) => {
                format!(" from {least} to {most}")
            }
            _ => String::new(),
        }
    }

    /// As JSON Schema has it.
    pub fn schema(self) -> Value {
        let scalar = json!({ "type": ["string", "number", "boolean"] });
        match self {
            Self::Text => json!({ "type": "string", "minLength": 1 }),
            Self::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Self::TextsOr(word) => json!({ "anyOf": [Self::Texts.schema(), { "const": word }] }),
            Self::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
            Self::Wholes(least, most) => json!({ "type": "array", "items": Self::Whole(least, most).schema() }),
            Self::Number => json!({ "type": "number" }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::Size => json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string" }] }),
            Self::Duration => json!({ "anyOf": [{ "type": "number", "minimum": 0 }, { "type": "string" }] }),
            Self::Word(words) => json!({ "enum": words }),
            Self::Any => json!({}),
            Self::List => json!({ "type": "array" }),
            Self::Table | Self::Section(_) => json!({ "type": "object" }),
            Self::Variables => json!({ "type": "object", "additionalProperties": scalar }),
            Self::Matrix => {
                let values = json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": scalar }] });
                json!({ "type": "object", "minProperties": 1, "additionalProperties": values })
            }
            Self::Combinations => {
                json!({ "type": "array", "items": { "type": "object", "additionalProperties": scalar } })
            }
        }
    }
}

/// A key, as it is described.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As it is written.
    pub name: &'static str,
    /// To follow "takes": "a duration".
    pub takes: String,
    /// The same for a machine, with its limits.
    pub shape: Shape,
    /// What is meant if it is not there.
    pub without: &'static str,
    /// What it means.
    pub about: &'static str,
    /// A value, as it is written.
    pub example: &'static str,
}

impl Entry {
    fn takes(&self) -> String {
        format!("{}{}", self.takes, self.shape.limits())
    }
}

/// A section of a file, or a kind of thing in it.
#[derive(Clone, Debug)]
pub struct Part {
    /// `[resources]`.
    pub heading: String,
    /// What it is for.
    pub about: String,
    /// Its keys.
    pub entries: Vec<Entry>,
    /// A small example, if the keys do not show it.
    pub example: String,
}

/// Everything about a kind of file.
#[derive(Clone, Debug)]
pub struct Reference {
    /// `Job file`.
    pub title: &'static str,
    /// What it is, and a whole small one.
    pub intro: &'static str,
    /// Such a file.
    pub example: &'static str,
    /// The command that prints this.
    pub command: &'static str,
    /// Its sections.
    pub parts: Vec<Part>,
}

impl Reference {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}: {}.\n{VALUES}\n\n{}\n", self.title, self.intro, indented(self.example));
        for part in &self.parts {
            let _ = writeln!(out, "\n{}: {}", part.heading, part.about);
            let width = part.entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
            for entry in &part.entries {
                let _ = writeln!(out, "  {:width$}  {}", entry.name, entry.about);
                let without = if entry.without == REQUIRED { "" } else { "default: " };
                let _ = writeln!(out, "  {:width$}    {}; {without}{}", "", entry.takes(), entry.without);
                let _ = writeln!(out, "  {:width$}    {} = {}", "", entry.name, entry.example);
            }
            if !part.example.is_empty() {
                let _ = writeln!(out, "\n{}", indented(&part.example));
            }
        }
        out
    }

    /// For a page.
    pub fn markdown(&self) -> String {
        let cell = |text: &str| text.replace('|', "\\|");
        let mut out = format!(
            "<!-- Written by `{} --markdown`. Do not edit. -->\n\n# {}\n\n{} {VALUES}\n\n```toml\n{}\n```\n",
            self.command,
            self.title,
            capital(self.intro),
            self.example
        );
        for part in &self.parts {
            let _ = write!(out, "\n## `{}`\n\n{}\n", part.heading, capital(&part.about));
            if !part.entries.is_empty() {
                out.push_str("\n| Key | Meaning | Takes | Default | Example |\n|---|---|---|---|---|\n");
            }
            for entry in &part.entries {
                let (about, takes, without) = (cell(entry.about), cell(&entry.takes()), cell(entry.without));
                let example = cell(entry.example);
                let _ = writeln!(out, "| `{}` | {about} | {takes} | {without} | `{example}` |", entry.name);
            }
            if !part.example.is_empty() {
                let _ = write!(out, "\n```toml\n{}\n```\n", part.example);
            }
        }
        out
    }
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| if line.is_empty() { String::new() } else { format!("  {line}") })
        .collect::<Vec<_>>()
        .join("\n")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect()) + "."
}

/// A table with these keys; other keys are `more`, or are not allowed.
pub fn object<'a>(entries: impl IntoIterator<Item = &'a Entry>, more: Option<Value>) -> Value {
    let mut properties = Map::new();
    for entry in entries {
        properties.insert(entry.name.to_owned(), described(entry, entry.shape.schema()));
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": more.unwrap_or(Value::Bool(false)) })
}

/// A schema with the description of a key, for the tooltip of an editor.
pub fn described(entry: &Entry, mut schema: Value) -> Value {
    if let Value::Object(object) = &mut schema {
        let text = format!("{}. Default: {}. Example: {} = {}", entry.about, entry.without, entry.name, entry.example);
        object.insert("description".to_owned(), Value::String(text));
    }
    schema
}

/// The text of a schema.
pub fn schema_text(title: &str, mut schema: Value) -> String {
    if let Value::Object(object) = &mut schema {
        object.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        object.insert("title".to_owned(), json!(title));
    }
    format!("{schema:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_in_the_text_the_page_and_the_schema() {
        let entry = Entry {
            name: "size",
            takes: "a whole number".to_owned(),
            shape: Shape::Whole(1, 9),
            without: "5",
            about: "how large | wide",
            example: "3",
        };
        let part = Part {
            heading: "[it]".into(),
            about: "a thing".into(),
            entries: vec![entry.clone()],
            example: String::new(),
        };
        let all =
            Reference { title: "It", intro: "a file", example: "[it]", command: "bursar help it", parts: vec![part] };
        assert!(
            all.text().contains(
                "  size  how large | wide\n          a whole number from 1 to 9; default: 5\n          size = 3\n"
            ),
            "{}",
            all.text()
        );
        assert!(
            all.markdown().contains("| `size` | how large \\| wide | a whole number from 1 to 9 | 5 | `3` |"),
            "{}",
            all.markdown()
        );
        let schema = object([&entry], None);
        assert_eq!(schema["properties"]["size"]["maximum"], 9);
        assert_eq!(schema["additionalProperties"], false);
    }
}
