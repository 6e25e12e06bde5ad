//! Fields of messages, as a file names them: conditions, routes, rules, new names and values.
//!
//! Room: surface.
//!
//! # Invariant
//! A condition has at least one test, and its regular expression is compiled.

use regex::RegexBuilder;
use surface_text::fields::{Field as Shown, Values};
use surface_text::tree::{Table, Value};
use surface_text::units::clip;

use super::given::{Given, json, word};
use crate::action::{FieldType, Route, Rule};
use crate::kinds::{CONDITIONS, ROUTE};
use crate::plan::{CONTROL, DEAD, ELSE};
use crate::value::{Condition, Name, Test};

/// Limit of the memory of a compiled regular expression: some short ones would take gigabytes.
const REGEX_BYTES: usize = 1 << 20;

pub(crate) fn condition<'t>(given: &Given<'_, 't>, values: &mut Values<'t>) -> Option<Condition> {
    let mut tests = Vec::new();
    for field in &CONDITIONS[1..] {
        let number = given.number(field.name);
        tests.extend(match (field.name, number) {
            ("above", Some(limit)) => Some(Test::Above(limit)),
            ("below", Some(limit)) => Some(Test::Below(limit)),
            ("at_least", Some(limit)) => Some(Test::AtLeast(limit)),
            ("at_most", Some(limit)) => Some(Test::AtMost(limit)),
            ("equals", _) => given.json("equals").cloned().map(Test::Equals),
            ("not", _) => given.json("not").cloned().map(Test::Not),
            ("exists", _) => given.has("exists").then(|| Test::Exists(given.flag("exists"))),
            ("matches", _) => match given.text("matches") {
                Some(text) => match RegexBuilder::new(text).size_limit(REGEX_BYTES).build() {
                    Ok(regex) => Some(Test::Matches(regex)),
                    Err(error) => {
                        let why = error.to_string();
                        let why = why.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it is broken");
                        let why = why.trim_start_matches("error: ");
                        let message = format!("`matches` is not a regular expression: {why}");
                        values.report.add(
                            &given.span("matches"),
                            message,
                            "a plain `.`, `(` or `[` is written `\\\\.`",
                        );
                        return None;
                    }
                },
                None => None,
            },
            _ => None,
        });
    }
    if tests.is_empty() {
        let names: Vec<&str> = CONDITIONS[1..].iter().map(|field| field.name).collect();
        let message = format!("{} has no condition", given.what);
        values.report.add(&given.at, message, format!("write one of {}", names.join(", ")));
        return None;
    }
    Some(Condition { field: given.text("field").map(Name::new).unwrap_or_default(), tests })
}

pub(crate) fn routes<'t>(given: &Given<'_, 't>, values: &mut Values<'t>) -> Option<Vec<Route>> {
    let node = given.node("routes")?;
    let Value::List(items) = &node.value else { return None };
    if items.is_empty() {
        values.report.add(
            &node.at,
            "`routes` is empty, so every message goes to `else`",
            "write `[{ to = \"hot\", above = 80 }]`",
        );
        return None;
    }
    let mut routes = Vec::with_capacity(items.len());
    let mut valid = true;
    for item in items {
        let Value::Table(table) = &item.value else {
            let (kind, written) = (item.value.kind(), values.written(&item.at));
            let message = format!("a route is a table, not {kind} `{written}`");
            values.report.add(&item.at, message, "write `{ to = \"hot\", field = \"celsius\", above = 80 }`");
            valid = false;
            continue;
        };
        let given = Given::read(table, &item.at, "a route".to_owned(), &[ROUTE, CONDITIONS], values);
        let (Some(to), true) = (given.text("to"), given.valid) else {
            valid = false;
            continue;
        };
        if !super::is_valid_name(to) || [CONTROL, DEAD, ELSE].contains(&to) {
            let message = format!("`{}` cannot be the name of an output", clip(to).escape_debug());
            let help = "use letters, digits, `_` and `-`; `else`, `dead` and `control` are reserved";
            values.report.add(&given.span("to"), message, help);
            valid = false;
            continue;
        }
        match condition(&given, values) {
            Some(condition) => routes.push(Route { to: to.to_owned(), condition }),
            None => valid = false,
        }
    }
    valid.then_some(routes)
}

const TYPES: &[&str] = &["number", "text", "flag", "list", "object", "any"];
const TYPES_OPTIONAL: &[&str] = &["number?", "text?", "flag?", "list?", "object?", "any?"];

/// Fields and their types.
pub(crate) fn rules<'t>(given: &Given<'_, 't>, values: &mut Values<'t>) -> Option<Vec<Rule>> {
    let node = given.node("fields")?;
    let Value::Table(table) = &node.value else { return None };
    if table.entries.is_empty() {
        values.report.add(&node.at, "`fields` is empty, so every message is valid", "write `{ celsius = \"number\" }`");
        return None;
    }
    let mut rules = Vec::with_capacity(table.entries.len());
    for entry in &table.entries {
        let optional = matches!(&entry.node.value, Value::Text(text) if text.ends_with('?'));
        let shown = Shown::new(&entry.key, "number, text, flag, list, object or any", "\"number\"");
        let words = if optional { TYPES_OPTIONAL } else { TYPES };
        let wanted = match word(&shown, words, &entry.node, values)?.trim_end_matches('?') {
            "number" => FieldType::Number,
            "text" => FieldType::Text,
            "flag" => FieldType::Flag,
            "list" => FieldType::List,
            "object" => FieldType::Object,
            _ => FieldType::Any,
        };
        rules.push(Rule { field: name(&entry.key, table, values)?, wanted, optional });
    }
    Some(rules)
}

/// Fields and their new names.
pub(crate) fn pairs<'t>(field: &str, given: &Given<'_, 't>, values: &mut Values<'t>) -> Option<Vec<(Name, Name)>> {
    let Some(node) = given.node(field) else { return Some(Vec::new()) };
    let Value::Table(table) = &node.value else { return None };
    let mut pairs = Vec::with_capacity(table.entries.len());
    for entry in &table.entries {
        let shown = Shown::new(&entry.key, "a new name", "\"celsius\"");
        let new = values.some_text(&shown, &entry.node)?;
        pairs.push((name(&entry.key, table, values)?, Name::new(new)));
    }
    Some(pairs)
}

/// Fields and their values.
pub(crate) fn sets<'t>(given: &Given<'_, 't>, values: &mut Values<'t>) -> Option<Vec<(Name, serde_json::Value)>> {
    let Some(node) = given.node("set") else { return Some(Vec::new()) };
    let Value::Table(table) = &node.value else { return None };
    let mut sets = Vec::with_capacity(table.entries.len());
    for entry in &table.entries {
        sets.push((name(&entry.key, table, values)?, json(&entry.node, values)?));
    }
    Some(sets)
}

fn name(key: &str, table: &Table<'_>, values: &mut Values<'_>) -> Option<Name> {
    if key.split('.').any(str::is_empty) {
        let at = table.get(key).map_or(0..0, |entry| entry.at.clone());
        let message = format!("`{}` cannot be the name of a field: one of its parts is empty", clip(key));
        values.report.add(&at, message, "write `position.x`");
        return None;
    }
    Some(Name::new(key))
}
