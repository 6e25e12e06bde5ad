//! Edges as they are written: chains in `edges`, and tables in `[[edge]]`.
//!
//! Room: surface.
//!
//! # Invariant
//! A link has two ends with names that are not empty; whether they exist is checked in `src/flatten.rs`.

use surface_text::Span;
use surface_text::fields::{Field as Shown, Spanned, Values};
use surface_text::tree::{Entry, Node, Table, Value};
use surface_text::units::clip;

use super::Remaining;
use super::given::{Given, word};
use crate::limits::Limits;
use crate::over::Over;
use crate::parts;
use crate::plan::{CAPACITY, Coalesce, PRIORITY_CONTROL, PRIORITY_HIGH, Policy};

/// One end of an edge: `node`, or `node:port`.
#[derive(Clone, Debug)]
pub(crate) struct End<'n> {
    pub(crate) at: Span,
    pub(crate) node: &'n str,
    pub(crate) port: Option<&'n str>,
    /// It is in the middle of a chain: its port belongs to the edge before it or to the one after it.
    pub(crate) within: bool,
}

pub(crate) struct Link<'n> {
    pub(crate) at: Span,
    pub(crate) from: End<'n>,
    pub(crate) to: End<'n>,
    pub(crate) capacity: usize,
    pub(crate) policy: Policy,
    /// `None`: normal, or control if it enters a `control` input.
    pub(crate) priority: Option<i32>,
    /// The broker that it goes over.
    pub(crate) over: Option<Spanned<Over>>,
}

/// `edges = ["a -> b -> c"]`; whether all of it could be read.
pub(crate) fn chains<'n, 't>(
    entry: &'n Entry<'t>,
    links: &mut Vec<Link<'n>>,
    values: &mut Values<'t>,
    left: &mut Remaining<'_>,
) -> bool {
    let field = Shown::new("edges", "a list of chains", "[\"imu -> hot -> out\"]");
    let Some(texts) = values.texts(&field, &entry.node) else { return false };
    let mut all = true;
    for Spanned { at, value } in texts {
        let mut ends: Vec<End<'n>> = Vec::new();
        let parts = value.split("->").count();
        if parts < 2 {
            let message = format!("`{}` is not an edge: it has no `->`", clip(value));
            values.report.add(&at, message, "write \"from -> to\"");
            all = false;
            continue;
        }
        for (nth, part) in value.split("->").enumerate() {
            match end(part, &exact(part, value, &at, values), values) {
                Some(end) => ends.push(End { within: nth > 0 && nth + 1 < parts, ..end }),
                None => break,
            }
        }
        if ends.len() < parts {
            all = false;
            continue;
        }
        for pair in ends.windows(2) {
            if !room(left, &at, values) {
                return false;
            }
            let (from, to) = (pair[0].clone(), pair[1].clone());
            let (capacity, policy) = (CAPACITY, Policy::Block);
            links.push(Link { at: at.clone(), from, to, capacity, policy, priority: None, over: None });
        }
    }
    all
}

/// The span of a part of a text, if the text is written without escapes.
fn exact(part: &str, whole: &str, at: &Span, values: &Values<'_>) -> Span {
    let inner = at.start + 1;
    let as_written = values.source.get(inner..).is_some_and(|text| text.starts_with(whole));
    if !as_written {
        return at.clone();
    }
    let trimmed = part.trim();
    let start = inner + (trimmed.as_ptr() as usize - whole.as_ptr() as usize);
    start..start + trimmed.len()
}

fn room(left: &mut Remaining<'_>, at: &Span, values: &mut Values<'_>) -> bool {
    if left.edges == 0 {
        values.report.add(at, format!("there are more than {} edges", left.limits.edges), "split the file");
        return false;
    }
    left.edges -= 1;
    true
}

/// `[[edge]]`, each with `from`, `to` and more; whether all of it could be read.
pub(crate) fn tables<'n, 't>(
    entry: &'n Entry<'t>,
    links: &mut Vec<Link<'n>>,
    values: &mut Values<'t>,
    left: &mut Remaining<'_>,
) -> bool {
    let Value::List(items) = &entry.node.value else {
        let (kind, written) = (entry.node.value.kind(), values.written(&entry.node.at));
        let message = format!("`edge` is a list of tables, not {kind} `{written}`");
        values.report.add(&entry.at, message, "write `[[edge]]`, with two brackets, before each edge");
        return false;
    };
    let mut all = true;
    for item in items {
        let Value::Table(table) = &item.value else {
            all = false;
            let message = format!("an edge is a table, not {} `{}`", item.value.kind(), values.written(&item.at));
            values.report.add(
                &item.at,
                message,
                "write `edges = [\"from -> to\"]`, or `[[edge]]` with `from` and `to`",
            );
            continue;
        };
        if !room(left, &item.at, values) {
            return false;
        }
        match one(table, item, values, left.limits) {
            Some(link) => links.push(link),
            None => all = false,
        }
    }
    all
}

fn one<'n, 't>(table: &'n Table<'t>, item: &Node<'t>, values: &mut Values<'t>, limits: &Limits) -> Option<Link<'n>> {
    let given = Given::read(table, &item.at, "an edge".to_owned(), &[parts::EDGE], values);
    let [from, to] = ["from", "to"].map(|name| {
        let (field, node) = given.other(name)?;
        Some(values.some_text(field, node).and_then(|text| end(text, &node.at, values)))
    });
    let most = i64::try_from(limits.capacity).unwrap_or(i64::MAX);
    let capacity = given.other("capacity").and_then(|(field, node)| values.whole(field, node, 1, most));
    let capacity = capacity.and_then(|number| usize::try_from(number).ok()).unwrap_or(CAPACITY);
    let priority = given.other("priority").and_then(|(field, node)| priority_of(field, node, values));
    let coalesce = given.word("coalesce").map(|word| match word {
        "sum" => Coalesce::Sum,
        "list" => Coalesce::List,
        "merge" => Coalesce::Merge,
        _ => Coalesce::Last,
    });
    for (name, missing) in [("from", from.is_none()), ("to", to.is_none())] {
        if missing {
            let message = format!("this edge has no `{name}`");
            values.report.add(&item.at, message, "write `from = \"imu:out\"` and `to = \"hot:in\"`");
        }
    }
    let policy = match (given.word("policy"), coalesce) {
        (None | Some("coalesce"), Some(how)) => Policy::Coalesce(how),
        (Some(word), Some(_)) => {
            let message = format!("`policy` is \"{word}\", and there is a `coalesce`");
            values.report.add(&given.span("policy"), message, "write `policy = \"coalesce\"`, or remove `coalesce`");
            Policy::Block
        }
        (Some("drop"), None) => Policy::Drop,
        (Some("latest"), None) => Policy::Latest,
        (Some("coalesce"), None) => Policy::Coalesce(Coalesce::Last),
        (_, None) => Policy::Block,
    };
    let over = given.other("over").and_then(|(field, node)| over(field, node, &item.at, values));
    Some(Link { at: item.at.clone(), from: from??, to: to??, capacity, policy, priority, over })
}

/// `edge`: where the edge begins.
fn over<'t>(field: &Shown<'_>, node: &Node<'t>, edge: &Span, values: &mut Values<'t>) -> Option<Spanned<Over>> {
    let text = values.some_text(field, node)?;
    match crate::over::address(text) {
        Ok(value) => Some(Spanned { at: node.at.clone(), value }),
        Err((message, help)) => {
            // Neither shows the text if it may have a password in it; and the line that is drawn must not, either.
            let at = if text.contains('@') { edge.start..edge.start } else { node.at.clone() };
            values.report.add(&at, message, help);
            None
        }
    }
}

fn priority_of<'t>(field: &Shown<'_>, node: &Node<'t>, values: &mut Values<'t>) -> Option<i32> {
    if let Value::Text(_) = node.value {
        const WORDS: &[&str] = &["control", "high", "normal"];
        return word(field, WORDS, node, values).map(|word| match word {
            "control" => PRIORITY_CONTROL,
            "high" => PRIORITY_HIGH,
            _ => 0,
        });
    }
    values.whole(field, node, i32::MIN.into(), i32::MAX.into()).and_then(|number| i32::try_from(number).ok())
}

fn end<'n>(text: &'n str, at: &Span, values: &mut Values<'_>) -> Option<End<'n>> {
    let text = text.trim();
    let (node, port) = match text.split_once(':') {
        Some((node, port)) => (node.trim(), Some(port.trim())),
        None => (text, None),
    };
    if node.is_empty() || port.is_some_and(str::is_empty) {
        let message = format!("an end of this edge is `{}`, which names no node or port", clip(text));
        values.report.add(at, message, "write `node` or `node:port`");
        return None;
    }
    Some(End { at: at.clone(), node, port, within: false })
}

/// An end in `expose`.
pub(crate) fn exposed<'n>(spot: &Spanned<&'n str>, values: &mut Values<'_>) -> Option<End<'n>> {
    end(spot.value, &spot.at, values)
}
