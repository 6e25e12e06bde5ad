//! The fields of one table, each checked against its entry in the table of kinds.
//!
//! Room: surface.
//!
//! # Invariant
//! What is given is of the type its field takes; what is wrong, unknown or missing is reported, and then `valid` is false.

use serde_json::{Map, Number, Value as Json};
use surface_text::fields::{Field as Shown, Spanned, Values};
use surface_text::tree::{Node, Table, Value};
use surface_text::units::clip;
use surface_text::{Span, did_you_mean, nearest};

use crate::kinds::{Field, Takes, Without};

pub(crate) enum Setting<'n, 't> {
    Text(&'n str),
    Millis(u64),
    Whole(i64),
    Number(f64),
    Flag(bool),
    Word(&'static str),
    Json(Json),
    Texts(Vec<Spanned<&'n str>>),
    /// A table, or a list of tables.
    Node(&'n Node<'t>),
    /// A value that the caller checks.
    Other(Shown<'static>, &'n Node<'t>),
}

pub(crate) struct Given<'n, 't> {
    /// "a `filter`", "a route".
    pub(crate) what: String,
    pub(crate) at: Span,
    pub(crate) valid: bool,
    settings: Vec<(&'static str, Span, Setting<'n, 't>)>,
}

impl<'n, 't> Given<'n, 't> {
    /// Reads a table that has these fields.
    pub(crate) fn read(
        table: &'n Table<'t>,
        at: &Span,
        what: String,
        fields: &[&'static [Field]],
        values: &mut Values<'t>,
    ) -> Self {
        let mut given = Self { what, at: at.clone(), valid: true, settings: Vec::new() };
        let all = || fields.iter().flat_map(|list| list.iter());
        for entry in &table.entries {
            let Some(field) = all().find(|field| field.name == entry.key) else {
                given.valid = false;
                let (key, what) = (clip(&entry.key), &given.what);
                let message = format!("`{key}` is not a field of {what}");
                let names = || all().map(|field| field.name);
                let near = if values.report.is_full() { None } else { did_you_mean(&entry.key, names()) };
                let help = match near {
                    Some(near) => near,
                    None if matches!(entry.key.as_ref(), "edges" | "edge" | "name") => {
                        format!("`{key}` belongs above the first `[section]` of the file")
                    }
                    None => {
                        let names: Vec<&str> = names().collect();
                        let (last, others) = names.split_last().expect("every table has fields");
                        format!("it has {} and {last}", others.join(", "))
                    }
                };
                values.report.add(&entry.at, message, help);
                continue;
            };
            match setting(field, &entry.node, values) {
                Some(setting) => given.settings.push((field.name, entry.node.at.clone(), setting)),
                None => given.valid = false,
            }
        }
        for field in all().filter(|field| field.without == Without::Required) {
            if !table.entries.iter().any(|entry| entry.key == field.name) {
                given.valid = false;
                let Field { name, about, example, .. } = field;
                let message = format!("{} needs `{name}`, {about}", given.what);
                values.report.add(at, message, format!("write `{name} = {example}`"));
            }
        }
        given
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Setting<'n, 't>> {
        self.settings.iter().find(|(known, ..)| *known == name).map(|(_, _, setting)| setting)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The span of the value of a field; if the field is missing, of the table.
    pub(crate) fn span(&self, name: &str) -> Span {
        self.settings.iter().find(|(known, ..)| *known == name).map_or_else(|| self.at.clone(), |(_, at, _)| at.clone())
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'n str> {
        match self.get(name)? {
            Setting::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn millis(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Setting::Millis(ms) => Some(*ms),
            _ => None,
        }
    }

    pub(crate) fn whole(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Setting::Whole(number) => Some(*number),
            _ => None,
        }
    }

    /// A whole number whose field allows no negative values.
    pub(crate) fn count<T: TryFrom<i64>>(&self, name: &str) -> Option<T> {
        self.whole(name).and_then(|number| T::try_from(number).ok())
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            Setting::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Setting::Flag(true)))
    }

    pub(crate) fn word(&self, name: &str) -> Option<&'static str> {
        match self.get(name)? {
            Setting::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn json(&self, name: &str) -> Option<&Json> {
        match self.get(name)? {
            Setting::Json(json) => Some(json),
            _ => None,
        }
    }

    pub(crate) fn texts(&self, name: &str) -> Option<&[Spanned<&'n str>]> {
        match self.get(name)? {
            Setting::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    pub(crate) fn node(&self, name: &str) -> Option<&'n Node<'t>> {
        match self.get(name)? {
            Setting::Node(node) => Some(node),
            _ => None,
        }
    }

    /// A value that is not checked yet, and its field.
    pub(crate) fn other(&self, name: &str) -> Option<(&Shown<'static>, &'n Node<'t>)> {
        match self.get(name)? {
            Setting::Other(shown, node) => Some((shown, node)),
            _ => None,
        }
    }
}

fn setting<'n, 't>(field: &'static Field, node: &'n Node<'t>, values: &mut Values<'t>) -> Option<Setting<'n, 't>> {
    let takes = field.takes.to_string();
    let shown = Shown::new(field.name, &takes, field.example);
    Some(match field.takes {
        Takes::Text | Takes::Path | Takes::Address => Setting::Text(values.some_text(&shown, node)?),
        Takes::Name => {
            let text = values.some_text(&shown, node)?;
            if text.split('.').any(str::is_empty) {
                let message =
                    format!("`{}` is {}, and a part of this name is empty", field.name, values.written(&node.at));
                values.report.add(&node.at, message, format!("write `{} = {}`", field.name, field.example));
                return None;
            }
            Setting::Text(text)
        }
        Takes::Duration => Setting::Millis(values.millis(&shown, node)?),
        Takes::Whole(least, most) => Setting::Whole(values.whole(&shown, node, least, most)?),
        Takes::Number => match node.value {
            #[allow(clippy::cast_precision_loss, reason = "a limit beyond 2^53 is one all the same")]
            Value::Whole(number) => Setting::Number(number as f64),
            Value::Decimal(number) if number.is_finite() => Setting::Number(number),
            _ => {
                values.wrong_type(&shown, node);
                return None;
            }
        },
        Takes::Flag => match node.value {
            Value::Flag(flag) => Setting::Flag(flag),
            _ => {
                values.wrong_type(&shown, node);
                return None;
            }
        },
        Takes::Word(words) => Setting::Word(word(&shown, words, node, values)?),
        Takes::Any => Setting::Json(json(node, values)?),
        Takes::List => match &node.value {
            Value::List(_) => Setting::Node(node),
            _ => {
                values.wrong_type(&shown, node);
                return None;
            }
        },
        Takes::Texts => Setting::Texts(values.texts(&shown, node)?),
        Takes::Table => {
            values.table(&shown, node)?;
            Setting::Node(node)
        }
        Takes::Other(what, _) => Setting::Other(Shown::new(field.name, what, field.example), node),
    })
}

/// One of some words, or the nearest of them.
pub(crate) fn word<'t>(
    shown: &Shown<'_>,
    words: &'static [&'static str],
    node: &Node<'t>,
    values: &mut Values<'t>,
) -> Option<&'static str> {
    let text = values.text(shown, node)?;
    let found = words.iter().find(|word| **word == text);
    if found.is_none() {
        let message = format!("`{}` takes {}, not {}", shown.name, shown.takes, values.written(&node.at));
        let help = match nearest(text, words.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("write `{} = {}`", shown.name, shown.example),
        };
        values.report.add(&node.at, message, help);
    }
    found.copied()
}

/// A value as JSON. The depth of trees was limited when they were read.
pub(crate) fn json(node: &Node<'_>, values: &mut Values<'_>) -> Option<Json> {
    let beyond = |values: &mut Values<'_>| {
        let message = format!("the number {} does not fit into a message", values.written(&node.at));
        values.report.add(&node.at, message, "write a finite number of at most 64 bits, or a text");
        None
    };
    match &node.value {
        Value::Text(text) => Some(Json::String(text.to_string())),
        Value::Whole(number) => match (i64::try_from(*number), u64::try_from(*number)) {
            (Ok(number), _) => Some(Json::from(number)),
            (_, Ok(number)) => Some(Json::from(number)),
            _ => beyond(values),
        },
        Value::Decimal(number) => match Number::from_f64(*number) {
            Some(number) => Some(Json::Number(number)),
            None => beyond(values),
        },
        Value::Flag(flag) => Some(Json::Bool(*flag)),
        Value::Date => values.source.get(node.at.clone()).map(|text| Json::String(text.to_owned())),
        Value::Null => Some(Json::Null),
        Value::List(items) => items.iter().map(|item| json(item, values)).collect::<Option<Vec<_>>>().map(Json::Array),
        Value::Table(table) => {
            let mut fields = Map::new();
            for entry in &table.entries {
                fields.insert(entry.key.to_string(), json(&entry.node, values)?);
            }
            Some(Json::Object(fields))
        }
    }
}
