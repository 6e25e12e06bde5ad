//! How one value of a field is read.
//!
//! Room: surface. Knows fields one by one; knows nothing of which fields a kind of file has.
//!
//! # Invariant
//! A value of the wrong type or beyond its limit gives `None` and one problem that names the value and shows a right one.

use crate::problem::{Report, Span};
use crate::tree::{Node, Table, Value};
use crate::units;

/// A value and its location in the file.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    /// Where.
    pub at: Span,
    /// What.
    pub value: T,
}

/// A field, what it takes, and an example.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// As it is written.
    pub name: &'a str,
    /// To follow "takes": "a duration".
    pub takes: &'a str,
    /// To follow "write `name = `".
    pub example: &'a str,
}

impl<'a> Field<'a> {
    /// A field by these three.
    pub const fn new(name: &'a str, takes: &'a str, example: &'a str) -> Self {
        Self { name, takes, example }
    }
}

/// Reads values, and collects what is wrong with them.
#[derive(Debug)]
pub struct Values<'t> {
    /// The whole file.
    pub source: &'t str,
    /// What is wrong so far.
    pub report: Report,
}

impl<'t> Values<'t> {
    /// The text at a location, for a message.
    pub fn written(&self, at: &Span) -> String {
        units::clip(self.source.get(at.clone()).unwrap_or_default())
    }

    /// Notes that a value is of a type the field does not take.
    pub fn wrong_type(&mut self, field: &Field<'_>, node: &Node<'_>) {
        let Field { name, takes, example } = field;
        let (kind, written) = (node.value.kind(), self.written(&node.at));
        let message = format!("`{name}` takes {takes}, not {kind} `{written}`");
        self.report.add(&node.at, message, format!("write `{name} = {example}`"));
    }

    /// A text that a program could take.
    pub fn text<'n>(&mut self, field: &Field<'_>, node: &'n Node<'t>) -> Option<&'n str> {
        let Value::Text(text) = &node.value else {
            self.wrong_type(field, node);
            return None;
        };
        if text.contains('\0') {
            let message = format!("`{}` has a NUL character in it, which no program can take", field.name);
            self.report.add(&node.at, message, "remove `\\u0000`");
            return None;
        }
        Some(text)
    }

    /// As `text`, but something has to be written.
    pub fn some_text<'n>(&mut self, field: &Field<'_>, node: &'n Node<'t>) -> Option<&'n str> {
        let text = self.text(field, node)?;
        if text.trim().is_empty() {
            let message = format!("`{}` is empty", field.name);
            self.report.add(&node.at, message, format!("write `{} = {}`, or leave it out", field.name, field.example));
            return None;
        }
        Some(text)
    }

    /// A list of texts.
    pub fn texts<'n>(&mut self, field: &Field<'_>, node: &'n Node<'t>) -> Option<Vec<Spanned<&'n str>>> {
        let Value::List(items) = &node.value else {
            if let Value::Text(_) = node.value {
                let (name, written) = (field.name, self.written(&node.at));
                let message = format!("`{name}` takes {}, not the text {written}", field.takes);
                self.report.add(&node.at, message, format!("write `{name} = [{written}]`"));
            } else {
                self.wrong_type(field, node);
            }
            return None;
        };
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            texts.push(Spanned { at: item.at.clone(), value: self.text(field, item)? });
        }
        Some(texts)
    }

    /// A whole number within limits.
    pub fn whole(&mut self, field: &Field<'_>, node: &Node<'t>, least: i64, most: i64) -> Option<i64> {
        let number = match &node.value {
            Value::Whole(number) => *number,
            Value::Text(text) if text.trim().parse::<i64>().is_ok() => {
                let message = format!("`{}` takes {}, and this is a text", field.name, field.takes);
                self.report.add(&node.at, message, format!("write `{} = {}`, without quotes", field.name, text.trim()));
                return None;
            }
            _ => {
                self.wrong_type(field, node);
                return None;
            }
        };
        match i64::try_from(number) {
            Ok(number) if (least..=most).contains(&number) => Some(number),
            _ => {
                let limit =
                    if number < i128::from(least) { format!("minimum is {least}") } else { format!("limit is {most}") };
                let message = format!("`{}` is {}, but the {limit}", field.name, self.written(&node.at));
                self.report.add(&node.at, message, format!("write a number from {least} to {most}"));
                None
            }
        }
    }

    /// Megabytes.
    pub fn size(&mut self, field: &Field<'_>, node: &Node<'t>) -> Option<u64> {
        match &node.value {
            Value::Whole(_) => {
                let most = i64::try_from(units::MAX_MB).unwrap_or(i64::MAX);
                self.whole(field, node, 0, most).and_then(|mb| u64::try_from(mb).ok())
            }
            Value::Text(text) => match units::megabytes(text) {
                Ok(mb) => Some(mb),
                Err(why) => {
                    let message = format!("`{}` is {}, which is not a size: {why}", field.name, self.written(&node.at));
                    self.report.add(&node.at, message, "write \"512 MB\", \"1.5 GiB\", or a plain number of MB");
                    None
                }
            },
            _ => {
                self.wrong_type(field, node);
                None
            }
        }
    }

    /// Milliseconds.
    pub fn millis(&mut self, field: &Field<'_>, node: &Node<'t>) -> Option<u64> {
        let help = "write \"250ms\", \"10s\", \"1h30m\", or a plain number of seconds";
        self.time(field, node, units::millis, help)
    }

    /// Nanoseconds.
    pub fn nanos(&mut self, field: &Field<'_>, node: &Node<'t>) -> Option<u64> {
        let help = "write \"250us\", \"1.5ms\", \"2s\", or a plain number of seconds";
        self.time(field, node, units::nanos, help)
    }

    fn time(
        &mut self,
        field: &Field<'_>,
        node: &Node<'t>,
        read: fn(&str) -> Result<u64, &'static str>,
        help: &str,
    ) -> Option<u64> {
        let text = match &node.value {
            Value::Text(text) => text.to_string(),
            Value::Whole(number) => number.to_string(),
            Value::Decimal(_) => self.source.get(node.at.clone()).unwrap_or_default().to_owned(),
            _ => {
                self.wrong_type(field, node);
                return None;
            }
        };
        match read(&text) {
            Ok(time) => Some(time),
            Err(why) => {
                let message = format!("`{}` is {}, which is not a duration: {why}", field.name, self.written(&node.at));
                self.report.add(&node.at, message, help);
                None
            }
        }
    }

    /// One of some words.
    pub fn choice<T: Copy>(&mut self, field: &Field<'_>, node: &Node<'t>, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(field, node)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|&(_, value)| value);
        if found.is_none() {
            let message = format!("`{}` takes {}, not {}", field.name, field.takes, self.written(&node.at));
            self.report.add(&node.at, message, format!("write `{} = {}`", field.name, field.example));
        }
        found
    }

    /// A table.
    pub fn table<'n>(&mut self, field: &Field<'_>, node: &'n Node<'t>) -> Option<&'n Table<'t>> {
        if let Value::Table(table) = &node.value {
            return Some(table);
        }
        self.wrong_type(field, node);
        None
    }

    /// A text, or a number or flag as it is written.
    pub fn scalar(&mut self, field: &Field<'_>, node: &Node<'t>) -> Option<String> {
        match &node.value {
            Value::Text(_) => self.text(field, node).map(str::to_owned),
            Value::Whole(_) | Value::Decimal(_) | Value::Flag(_) => {
                self.source.get(node.at.clone()).map(|text| text.trim().to_owned())
            }
            _ => {
                self.wrong_type(field, node);
                None
            }
        }
    }

    /// Variables of an `env` table.
    pub fn env(&mut self, field: &Field<'_>, node: &Node<'t>) -> Vec<(String, Spanned<String>)> {
        let Some(table) = self.table(field, node) else { return Vec::new() };
        let mut env = Vec::with_capacity(table.entries.len());
        for entry in &table.entries {
            if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
                let message = format!("`{}` cannot be the name of a variable", units::clip(&entry.key).escape_debug());
                self.report.add(&entry.at, message, "use letters, digits and `_`");
            } else if let Some(value) = self.scalar(field, &entry.node) {
                env.push((entry.key.to_string(), Spanned { at: entry.node.at.clone(), value }));
            }
        }
        env
    }
}
