//! Types of the values that nodes take and emit, as far as the file tells.
//!
//! Room: decisions.
//!
//! # Invariant
//! A port has a type only if every message has it; `Any` never causes a problem.

use std::fmt;

use bursar::janus::ir;

use crate::action::{Action, Aggregate, Emit, Format, Parse};
use crate::plan::{DEAD, Node};
use crate::value::{Condition, Test};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Any,
    Number,
    Text,
    Object,
    List,
}

impl Type {
    /// Whether a value of the other type can be of this one.
    pub(crate) fn fits(self, other: Type) -> bool {
        self == other || self == Type::Any || other == Type::Any
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "anything",
            Self::Number => "numbers",
            Self::Text => "texts",
            Self::Object => "objects",
            Self::List => "lists",
        })
    }
}

const PARSE: &str = "put a `map` with `parse = \"json\"` between the two, or read with `format = \"json\"`";

/// The type that a node needs, why, and how to fix another type; `None` if it takes anything.
pub(crate) fn takes(action: &Action) -> Option<(Type, &'static str, &'static str)> {
    const FIELD: &str = "it reads a field";
    const NUMBER: &str = "it compares or adds them";
    const TEXT: &str = "it parses them";
    let of_field = |whole: bool, number: bool| match (whole, number) {
        (false, _) => Some((Type::Object, FIELD, PARSE)),
        (true, true) => {
            Some((Type::Number, NUMBER, "name a number with `field`, or put a `map` with `parse` between the two"))
        }
        (true, false) => None,
    };
    match action {
        Action::Filter(condition) | Action::Breaker { failure: condition, .. } => of_condition(condition),
        Action::Window { key: Some(_), .. } => Some((Type::Object, FIELD, PARSE)),
        Action::Window { aggregate, field, .. } => {
            let number = !matches!(aggregate, Aggregate::Count | Aggregate::Last | Aggregate::List);
            of_field(field.is_whole(), number)
        }
        Action::Validator { .. } | Action::Correlator { .. } => Some((Type::Object, FIELD, PARSE)),
        Action::Cache { key, .. } => of_field(key.is_whole(), false),
        Action::Counter { field, .. } => of_field(field.is_none(), false),
        Action::Janus(janus) => {
            let parameters = janus.signature().map_or(&[][..], |(parameters, _)| parameters);
            match (&janus.args, parameters) {
                (Some(args), _) if !args.is_empty() => Some((Type::Object, FIELD, PARSE)),
                (None, [ir::Type::I64]) => Some((
                    Type::Number,
                    "its function takes a number",
                    "name a number with `args`, or put a `map` with `parse` between the two",
                )),
                _ if janus.result.is_some() => Some((Type::Object, "its result becomes a field", PARSE)),
                _ => None,
            }
        }
        Action::Json => Some((Type::Text, TEXT, "leave it out")),
        Action::Map(map) => match (map.parse, map.field.is_whole()) {
            (Some(_), true) => Some((Type::Text, TEXT, "leave `parse` out")),
            (None, true) if !map.rename.is_empty() || map.pick.is_some() || !map.drop.is_empty() => {
                Some((Type::Object, FIELD, PARSE))
            }
            (None, true) if map.linear.is_some() => of_field(true, true),
            (None, true) if map.set.is_empty() && map.format.as_ref().is_some_and(|format| format.has_fields()) => {
                Some((Type::Object, FIELD, PARSE))
            }
            (_, true) => None,
            (_, false) => Some((Type::Object, FIELD, PARSE)),
        },
        _ => None,
    }
}

fn of_condition(condition: &Condition) -> Option<(Type, &'static str, &'static str)> {
    // A message without fields meets `exists = false`.
    if condition.tests.iter().all(|test| matches!(test, Test::Exists(false))) {
        return None;
    }
    if !condition.field.is_whole() {
        return Some((Type::Object, "it reads a field", PARSE));
    }
    let number = |test: &Test| matches!(test, Test::Above(_) | Test::Below(_) | Test::AtLeast(_) | Test::AtMost(_));
    let text = |test: &Test| matches!(test, Test::Matches(_));
    if condition.tests.iter().any(number) {
        return Some((
            Type::Number,
            "it compares them with a number",
            "name a number with `field`, or put a `map` with `parse` between the two",
        ));
    }
    let way = "name a text with `field`";
    condition.tests.iter().any(text).then_some((Type::Text, "it searches them", way))
}

/// The type that an output emits if `comes` is the type of the input.
pub(crate) fn gives(node: &Node, output: &str, comes: Type) -> Type {
    let by_format = |format: Format| if format == Format::Lines { Type::Text } else { Type::Any };
    if output.starts_with(DEAD) {
        return Type::Object;
    }
    match &node.action {
        Action::Command(command) => by_format(command.reading.format),
        Action::Lines { reading, .. } | Action::Stdin { reading } | Action::TcpIn { reading, .. } => {
            by_format(reading.format)
        }
        Action::Every { emit, .. } => match emit {
            Emit::Count | Emit::Time => Type::Number,
            Emit::Value(value) => of(value),
        },
        Action::Numbers { .. } => Type::Number,
        Action::Values { list, .. } => {
            let first = list.first().map_or(Type::Any, of);
            if list.iter().all(|value| of(value) == first) { first } else { Type::Any }
        }
        Action::RandomWalk(walk) if walk.field.is_whole() => Type::Number,
        Action::RandomWalk(_) => Type::Object,
        Action::Correlator { .. } => Type::Object,
        Action::Counter { field: None, .. } => Type::Number,
        Action::Counter { .. } => Type::Object,
        Action::Batcher { .. } => Type::List,
        Action::Window { key: Some(_), .. } => Type::Object,
        Action::Window { aggregate, .. } => match aggregate {
            Aggregate::Count | Aggregate::Sum | Aggregate::Mean | Aggregate::Min | Aggregate::Max => Type::Number,
            Aggregate::Last => Type::Any,
            Aggregate::List => Type::List,
        },
        Action::Validator { .. } => Type::Object,
        Action::Timeout { .. } if output == "late" => Type::Object,
        Action::Janus(janus) => match janus.signature() {
            _ if janus.result.is_some() => Type::Object,
            Some((_, ir::Type::I64)) => Type::Number,
            _ => comes,
        },
        Action::Json => Type::Any,
        Action::Text => Type::Text,
        Action::Map(map) => {
            if map.format.is_some() {
                Type::Text
            } else if !map.set.is_empty() || map.pick.is_some() || !map.rename.is_empty() {
                Type::Object
            } else if map.field.is_whole() && (map.linear.is_some() || map.parse == Some(Parse::Number)) {
                Type::Number
            } else if map.parse.is_some() && map.field.is_whole() {
                Type::Any
            } else {
                comes
            }
        }
        _ => comes,
    }
}

fn of(value: &serde_json::Value) -> Type {
    match value {
        serde_json::Value::Number(_) => Type::Number,
        serde_json::Value::String(_) => Type::Text,
        serde_json::Value::Object(_) => Type::Object,
        serde_json::Value::Array(_) => Type::List,
        _ => Type::Any,
    }
}
