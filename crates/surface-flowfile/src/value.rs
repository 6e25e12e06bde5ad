//! Fields of JSON messages: names with dots, conditions, templates.
//!
//! Room: decisions.
//!
//! # Invariant
//! No function here fails on a message: a missing field meets no condition but `exists = false`, and is an empty text in a template.

use std::cmp::Ordering;
use std::fmt;

use regex::Regex;
use serde_json::{Map, Number, Value};

/// The name of a field, dotted; empty for the message itself. A number is an index into a list: `points.0.x`.
///
/// ```
/// use surface_flowfile::value::Name;
/// let value = serde_json::json!({ "points": [{ "x": 7 }] });
/// assert_eq!(Name::new("points.0.x").of(&value), Some(&serde_json::json!(7)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name(Vec<String>);

impl Name {
    /// Splits at dots.
    pub fn new(dotted: &str) -> Self {
        Self(dotted.split('.').map(str::to_owned).collect())
    }

    /// Whether it means the message itself.
    pub fn is_whole(&self) -> bool {
        self.0.is_empty()
    }

    /// The field of a message, if it exists.
    pub fn of<'v>(&self, mut value: &'v Value) -> Option<&'v Value> {
        for part in &self.0 {
            value = match value {
                Value::Object(fields) => fields.get(part)?,
                Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// The field of a message, to change it.
    pub fn of_mut<'v>(&self, mut value: &'v mut Value) -> Option<&'v mut Value> {
        for part in &self.0 {
            value = match value {
                Value::Object(fields) => fields.get_mut(part)?,
                Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// Writes the field; a parent that is not an object becomes one.
    pub fn set(&self, mut value: &mut Value, to: Value) {
        for part in &self.0 {
            if !value.is_object() {
                *value = Value::Object(Map::new());
            }
            let Value::Object(fields) = value else { return };
            value = fields.entry(part.as_str()).or_insert(Value::Null);
        }
        *value = to;
    }

    /// Removes the field and returns it.
    pub fn take(&self, value: &mut Value) -> Option<Value> {
        let (last, way) = self.0.split_last()?;
        match Name(way.to_vec()).of_mut(value)? {
            // The other fields stay in their order.
            Value::Object(fields) => fields.shift_remove(last),
            _ => None,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// A condition: all tests of one field.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Which field.
    pub field: Name,
    /// All must hold.
    pub tests: Vec<Test>,
}

/// One test of a field.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "described in the table of kinds")]
pub enum Test {
    Above(f64),
    Below(f64),
    AtLeast(f64),
    AtMost(f64),
    Equals(Value),
    Not(Value),
    Matches(Regex),
    Exists(bool),
}

impl Condition {
    /// Whether a message meets it.
    pub fn holds(&self, message: &Value) -> bool {
        let value = self.field.of(message);
        let number = value.and_then(Value::as_f64);
        self.tests.iter().all(|test| match test {
            Test::Above(limit) => number.is_some_and(|number| number > *limit),
            Test::Below(limit) => number.is_some_and(|number| number < *limit),
            Test::AtLeast(limit) => number.is_some_and(|number| number >= *limit),
            Test::AtMost(limit) => number.is_some_and(|number| number <= *limit),
            Test::Equals(wanted) => value.is_some_and(|value| same(value, wanted)),
            Test::Not(wanted) => value.is_some_and(|value| !same(value, wanted)),
            Test::Matches(regex) => value.and_then(Value::as_str).is_some_and(|text| regex.is_match(text)),
            Test::Exists(wanted) => value.is_some_and(|value| !value.is_null()) == *wanted,
        })
    }
}

/// Numbers are compared by value: 1 equals 1.0.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

/// The sum of two numbers. Whole numbers stay whole within 128 bits.
///
/// # Errors
/// If one is not a number, or the sum does not fit.
pub(crate) fn sum(a: &Value, b: &Value) -> Result<Number, &'static str> {
    if let (Some(a), Some(b)) = (whole(a), whole(b))
        && let Some(sum) = a.checked_add(b).and_then(Number::from_i128)
    {
        return Ok(sum);
    }
    let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else { return Err("only numbers can be added") };
    Number::from_f64(a + b).ok_or("the sum does not fit into a message")
}

/// Compares two numbers; `None` if one of them is not a number.
pub(crate) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => number.as_i128(),
        _ => None,
    }
}

/// A text with placeholders for fields.
///
/// ```
/// use surface_flowfile::value::Template;
/// let template = Template::new("{name}: {celsius} °C {{}}").unwrap();
/// let value = serde_json::json!({ "name": "boiler", "celsius": 81.5 });
/// assert_eq!(template.fill(&value), "boiler: 81.5 °C {}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Name),
}

impl Template {
    /// Reads `{field}`, `{}` for the whole message, and `{{` and `}}` for braces.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..];
            if let Some(tail) = brace.strip_prefix("{{") {
                plain.push('{');
                rest = tail;
            } else if let Some(tail) = brace.strip_prefix("}}") {
                plain.push('}');
                rest = tail;
            } else if let Some((name, tail)) = brace.strip_prefix('{').and_then(|brace| brace.split_once('}')) {
                if name.contains('{') {
                    return Err("a `{` is inside braces");
                }
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                let name = name.trim();
                parts.push(Part::Field(if name.is_empty() { Name::default() } else { Name::new(name) }));
                rest = tail;
            } else {
                return Err(if brace.starts_with('{') { "a `{` is not closed" } else { "a `}` has no `{` before it" });
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// The text for a message.
    pub fn fill(&self, message: &Value) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Field(name) => match name.of(message) {
                    Some(Value::String(inner)) => text.push_str(inner),
                    Some(value) => text.push_str(&value.to_string()),
                    None => {}
                },
            }
        }
        text
    }

    /// Whether it reads fields of an object.
    pub(crate) fn has_fields(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Field(name) if !name.is_whole()))
    }
}
