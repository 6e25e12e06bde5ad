//! Stages that read fields of JSON, on top of the stock nodes of the scheduler.
//!
//! Room: decisions.
//!
//! # Invariant
//! A message that a stage cannot process fails, and the policy of the node applies; it is never changed silently.

use std::cmp::Ordering;
use std::time::Duration;

use bursar::flow::{
    Message, NodeError, NodeResult, NodeSpec, Out, Span, Stage, Time, fold, fold_per_tick, keyed_window,
    sliding_window, tumbling_window,
};
use serde_json::{Map as Fields, Number, Value, json};

use super::json::read as read_json;
use crate::action::{Aggregate, Extent, FieldType, Map, Parse, Rule};
use crate::value::{Name, compare, sum};

/// Applies the changes of a `map` to a message.
pub(crate) fn map(map: &Map, mut message: Value) -> Result<Value, NodeError> {
    if let Some(parse) = map.parse {
        let value = target(&map.field, &mut message)?;
        *value = parsed(value, parse)?;
    }
    for (old, new) in &map.rename {
        if let Some(value) = old.take(&mut message) {
            new.set(&mut message, value);
        }
    }
    if let Some(pick) = &map.pick {
        let mut picked = Value::Object(Fields::new());
        for name in pick {
            if let Some(value) = name.take(&mut message) {
                name.set(&mut picked, value);
            }
        }
        message = picked;
    }
    for name in &map.drop {
        name.take(&mut message);
    }
    if let Some((scale, offset)) = map.linear {
        let value = target(&map.field, &mut message)?;
        *value = Value::Number(linear(value, scale, offset)?);
    }
    for (name, value) in &map.set {
        name.set(&mut message, value.clone());
    }
    Ok(match &map.format {
        Some(template) => Value::String(template.fill(&message)),
        None => message,
    })
}

fn target<'v>(field: &Name, message: &'v mut Value) -> Result<&'v mut Value, NodeError> {
    let missing =
        || NodeError::msg(format!("there is no field `{field}`; put a filter with `exists` before this node"));
    field.of_mut(message).ok_or_else(missing)
}

fn parsed(value: &Value, parse: Parse) -> Result<Value, NodeError> {
    match (value, parse) {
        (Value::String(text), Parse::Json) => Ok(read_json(text)?),
        (Value::String(text), Parse::Number) => {
            let text = text.trim();
            if let Ok(whole) = text.parse::<i64>() {
                return Ok(Value::from(whole));
            }
            let wrong = |_| NodeError::msg(format!("`{}` is not a number", surface_text::units::clip(text)));
            Ok(Value::Number(finite(text.parse().map_err(wrong)?)?))
        }
        (Value::Number(_), Parse::Number) => Ok(value.clone()),
        (other, _) => Err(NodeError::msg(format!("{} is not a text, so it cannot be parsed", kind(other)))),
    }
}

fn number(value: &Value) -> Result<f64, NodeError> {
    value.as_f64().ok_or_else(|| NodeError::msg(format!("{} is not a number", kind(value))))
}

/// `value * scale + offset`. Of whole numbers a whole number, exactly, as far as a message can hold it.
fn linear(value: &Value, scale: f64, offset: f64) -> Result<Number, NodeError> {
    if let (Some(value), Some(scale), Some(offset)) = (integer(value), whole(scale), whole(offset))
        && let Some(exact) = value.checked_mul(scale).and_then(|product| product.checked_add(offset))
        && let Some(number) = Number::from_i128(exact)
    {
        return Ok(number);
    }
    finite(number(value)? * scale + offset)
}

fn integer(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

/// A whole number that `f64` holds exactly.
fn whole(number: f64) -> Option<i128> {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53: beyond it not all whole numbers are
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i128)
}

fn finite(number: f64) -> Result<Number, NodeError> {
    Number::from_f64(number).ok_or_else(|| NodeError::msg(format!("{number} is not a number that JSON can hold")))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a flag",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Checks a message; the error says what is wrong.
pub(crate) fn valid(rules: &[Rule], message: &Value) -> Result<(), String> {
    for Rule { field, wanted, optional } in rules {
        let Some(value) = field.of(message) else {
            if *optional {
                continue;
            }
            return Err(format!("field `{field}` is missing"));
        };
        let (fits, what) = match wanted {
            FieldType::Number => (value.is_number(), "a number"),
            FieldType::Text => (value.is_string(), "a text"),
            FieldType::Flag => (value.is_boolean(), "a flag"),
            FieldType::List => (value.is_array(), "a list"),
            FieldType::Object => (value.is_object(), "an object"),
            FieldType::Any => (true, "anything"),
        };
        let may_be_null = *optional && value.is_null();
        if !fits && !may_be_null {
            return Err(format!("field `{field}` is {}, not {what}", kind(value)));
        }
    }
    Ok(())
}

/// The key of a message. A message without the field has a unique key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Known(String),
    /// Its input, and its number there.
    Unknown(Side, u64),
}

/// The input of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Key {
    /// A function that finds the keys of the messages of one input.
    pub(crate) fn of(field: Name, side: Side) -> impl FnMut(&Value) -> Key + Send + 'static {
        let mut unknown = 0;
        move |message| match field.of(message) {
            Some(value) => Key::Known(value.to_string()),
            None => {
                unknown += 1;
                Key::Unknown(side, unknown)
            }
        }
    }
}

/// Sends valid objects to `out`, the others to `invalid`.
struct Validator(Vec<Rule>);

pub(crate) fn validator(rules: Vec<Rule>) -> NodeSpec {
    NodeSpec::stage(Validator(rules))
}

impl Stage for Validator {
    type In = Value;
    type Out = Value;

    fn outputs(&self) -> Vec<String> {
        vec!["out".to_owned(), "invalid".to_owned()]
    }

    fn on_message(&mut self, message: Message<Value>, out: &mut Out<'_, Value>) -> NodeResult {
        match valid(&self.0, &message.payload) {
            Ok(()) => out.send(message),
            Err(why) => out.emit_to(1, json!({ "value": message.payload, "why": why })),
        }
        Ok(())
    }
}

/// Collects messages into lists. The stock node of the scheduler makes vectors, which are not messages here.
struct Batches {
    size: usize,
    within: Option<Duration>,
    list: Vec<Value>,
    /// When the list must be emitted.
    due: Option<Time>,
}

pub(crate) fn batcher(size: usize, within: Option<Duration>) -> NodeSpec {
    NodeSpec::stage(Batches { size, within, list: Vec::new(), due: None })
}

impl Batches {
    fn send(&mut self, out: &mut Out<'_, Value>) {
        self.due = None;
        out.in_flight().set(0);
        if !self.list.is_empty() {
            out.emit(Value::Array(std::mem::take(&mut self.list)));
        }
    }
}

impl Stage for Batches {
    type In = Value;
    type Out = Value;

    fn on_message(&mut self, message: Message<Value>, out: &mut Out<'_, Value>) -> NodeResult {
        self.list.push(message.payload);
        out.in_flight().set(self.list.len());
        if self.list.len() >= self.size {
            self.send(out);
        } else if self.due.is_none()
            && let Some(within) = self.within
        {
            let due = out.now() + within;
            self.due = Some(due);
            out.tick_at(due);
        }
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        match self.due {
            Some(due) if due <= out.now() => self.send(out),
            Some(due) => out.tick_at(due), // the tick of an earlier list that was full
            None => {}
        }
        Ok(())
    }

    fn on_end(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        self.send(out);
        Ok(())
    }
}

/// Limit of messages in a window: of `size`, and of a long `span`, of which the last ones are kept.
const WINDOW_MESSAGES_MAX: usize = 1_000_000;

/// Fails a message that does not fit into a window: it has no key, no value, or a value that is not a number where one is needed.
fn fits(aggregate: Aggregate, field: Name, key: Option<Name>) -> impl Fn(&Value) -> NodeResult + Send + Sync + 'static {
    let needs_number = matches!(aggregate, Aggregate::Sum | Aggregate::Min | Aggregate::Max | Aggregate::Mean);
    move |message| {
        if let Some(key) = key.as_ref().filter(|key| key.of(message).is_none()) {
            return Err(NodeError::msg(format!(
                "there is no field `{key}`, the key; put a filter with `exists` before this node"
            )));
        }
        let Some(value) = field.of(message).filter(|value| !value.is_null()) else {
            return Err(NodeError::msg(format!(
                "there is no field `{field}`; put a filter with `exists` before this node"
            )));
        };
        if needs_number { number(value).map(drop) } else { Ok(()) }
    }
}

/// One value for each window.
pub(crate) fn window(extent: Extent, aggregate: Aggregate, field: Name) -> NodeSpec {
    let windows = match extent {
        Extent::Count { size, slide } if size == slide => tumbling_window::<Value>(Span::Count(size)),
        Extent::Count { size, slide } => sliding_window::<Value>(Span::Count(size), Span::Count(slide)),
        Extent::Time { span_ms, slide_ms } => {
            let (span, slide) = (Duration::from_millis(span_ms), Duration::from_millis(slide_ms));
            if span == slide {
                tumbling_window::<Value>(Span::Time(span))
            } else {
                sliding_window::<Value>(Span::Time(span), Span::Time(slide))
            }
        }
    };
    let mut seen = 0_u64;
    let windows = windows.at_most(WINDOW_MESSAGES_MAX).only(fits(aggregate, field.clone(), None));
    windows.fold(Value::Null, move |so_far, message| match field.of(message).filter(|value| !value.is_null()) {
        Some(value) => added(aggregate, so_far, &mut seen, value),
        None => so_far,
    })
}

/// One value for each key of a window, as `{ key, value }`.
pub(crate) fn window_by_key(extent: Extent, aggregate: Aggregate, field: Name, key: Name, keys: usize) -> NodeSpec {
    let length = match extent {
        Extent::Count { size, .. } => Span::Count(size),
        Extent::Time { span_ms, .. } => Span::Time(Duration::from_millis(span_ms)),
    };
    let windows = keyed_window(length, Key::of(key.clone(), Side::Left)).keys(keys);
    let windows = windows.only(fits(aggregate, field.clone(), Some(key.clone())));
    let step = move |(so_far, seen, of): &mut (Value, u64, Value), message: &Value| {
        let Some(found) = key.of(message) else { return };
        if of.is_null() {
            of.clone_from(found);
        }
        if let Some(value) = field.of(message).filter(|value| !value.is_null()) {
            *so_far = added(aggregate, so_far.take(), seen, value);
        }
    };
    windows.fold_then((Value::Null, 0, Value::Null), step, |key, (value, _, of)| match key {
        Key::Known(_) if !value.is_null() => Some(json!({ "key": of, "value": value })),
        _ => None,
    })
}

/// The aggregate of a window with one more value. Null means an empty window: messages that are null fail before.
fn added(aggregate: Aggregate, so_far: Value, seen: &mut u64, value: &Value) -> Value {
    let first = so_far.is_null();
    if first {
        *seen = 0;
    }
    let number = value.as_f64();
    match (aggregate, number) {
        (Aggregate::Count, _) => {
            *seen += 1;
            Value::from(*seen)
        }
        (Aggregate::Last, _) => value.clone(),
        (Aggregate::List, _) => match so_far {
            Value::Array(mut list) => {
                list.push(value.clone());
                Value::Array(list)
            }
            _ => Value::Array(vec![value.clone()]),
        },
        (_, None) => so_far,
        (_, Some(_)) if first => {
            *seen = 1;
            value.clone()
        }
        (Aggregate::Sum, Some(_)) => sum(&so_far, value).map_or(Value::Null, Value::Number),
        (Aggregate::Min, Some(_)) if compare(value, &so_far) == Some(Ordering::Less) => value.clone(),
        (Aggregate::Max, Some(_)) if compare(value, &so_far) == Some(Ordering::Greater) => value.clone(),
        (Aggregate::Min | Aggregate::Max, Some(_)) => so_far,
        (Aggregate::Mean, Some(number)) => {
            *seen += 1;
            let mean = so_far.as_f64().unwrap_or(0.0);
            #[allow(clippy::cast_precision_loss, reason = "a window has far fewer than 2^53 messages")]
            Number::from_f64(mean + (number - mean) / *seen as f64).map_or(Value::Null, Value::Number)
        }
    }
}

/// Limit of values that are counted separately; further ones are counted together.
const COUNTED_VALUES_MAX: usize = 1_000;
/// The name of the count of further values.
const OTHERS: &str = "others";
/// The name of the count of messages without the field.
const MISSING: &str = "missing";

/// `reset`: the count starts at 0 after each report.
pub(crate) fn counter(interval: Duration, field: Option<Name>, reset: bool) -> NodeSpec {
    let add = |count: &mut Value| *count = Value::from(count.as_u64().unwrap_or(0) + 1);
    let node = match field {
        None => folded(Value::from(0), reset, move |total: &mut Value, _: Value| add(total)),
        Some(field) => folded(json!({}), reset, move |by: &mut Value, message: Value| {
            let Value::Object(counts) = by else { return };
            let key = match field.of(&message) {
                // In quotes, so that it differs from the two names and from every other text.
                Some(Value::String(text)) if text == OTHERS || text == MISSING || text.starts_with('"') => {
                    Value::from(text.as_str()).to_string()
                }
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => MISSING.to_owned(),
            };
            let is_counted = counts.contains_key(&key) || counts.len() < COUNTED_VALUES_MAX;
            add(counts.entry(if is_counted { key } else { OTHERS.to_owned() }).or_insert(Value::Null));
        }),
    };
    node.tick(interval)
}

fn folded(first: Value, reset: bool, step: impl FnMut(&mut Value, Value) + Send + 'static) -> NodeSpec {
    if reset { fold_per_tick(first, step) } else { fold(first, step) }
}

/// Passes messages on, and reports each silence once.
pub(crate) struct Silence {
    after: Duration,
    last: Option<Time>,
    is_reported: bool,
}

pub(crate) fn timeout(after: Duration) -> NodeSpec {
    NodeSpec::stage(Silence { after, last: None, is_reported: false })
}

impl Stage for Silence {
    type In = Value;
    type Out = Value;

    fn outputs(&self) -> Vec<String> {
        vec!["out".to_owned(), "late".to_owned()]
    }

    fn on_start(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        self.last = Some(out.now());
        out.tick_at(out.now() + self.after);
        Ok(())
    }

    fn on_message(&mut self, message: Message<Value>, out: &mut Out<'_, Value>) -> NodeResult {
        let now = out.now();
        self.last = Some(now);
        // A pending tick checks the time itself.
        if std::mem::take(&mut self.is_reported) {
            out.tick_at(now + self.after);
        }
        out.send(message);
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        let silent = self.last.map_or(Duration::ZERO, |last| out.now().since(last));
        if self.is_reported {
            return Ok(());
        }
        if silent < self.after {
            out.tick_at(out.now() + (self.after - silent));
            return Ok(());
        }
        self.is_reported = true;
        let ms = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
        out.emit_to(1, json!({ "silent_ms": ms }));
        Ok(())
    }
}
