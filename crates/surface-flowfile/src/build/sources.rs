//! Sources: numbers, values, random walks, clocks, files.
//!
//! Room: driver.
//!
//! # Invariant
//! A source emits one message per call and never waits; for a later message it asks for a tick.

use std::path::PathBuf;
use std::time::Duration;

use bursar::flow::{NodeError, NodeSpec, Out, Produced, Source, Time, from_iter, lines_in, source};
use serde_json::{Number, Value, json};
use vocab::SplitMix64;

use super::line::message;
use crate::action::{Emit, Reading, Walk};

pub(crate) fn numbers(from: i64, to: i64) -> NodeSpec {
    from_iter((from..=to).map(Value::from))
}

pub(crate) fn values(list: Vec<Value>, repeat: u64) -> NodeSpec {
    let (mut nth, mut left) = (0, repeat);
    source(move || {
        if nth == list.len() {
            (nth, left) = (0, left - 1);
        }
        let value = if left > 0 { list.get(nth).cloned() } else { None };
        nth += 1;
        value
    })
}

/// A message in every interval, without drift: the nth comes at the nth multiple of the interval.
struct Paced<F> {
    interval: Duration,
    next: Option<Time>,
    count: u64,
    limit: Option<u64>,
    make: F,
}

impl<F: FnMut(u64, Time) -> Value + Send + 'static> Source for Paced<F> {
    type Out = Value;

    fn produce(&mut self, out: &mut Out<'_, Value>) -> Result<Produced, NodeError> {
        if self.limit.is_some_and(|limit| self.count >= limit) {
            return Ok(Produced::End);
        }
        let due = *self.next.get_or_insert(out.now() + self.interval);
        if out.now() < due {
            out.tick_at(due);
            return Ok(Produced::Idle);
        }
        out.emit((self.make)(self.count, out.now()));
        self.count += 1;
        // Missed intervals are skipped.
        let mut next = due + self.interval;
        if next <= out.now() {
            let missed = out.now().since(due).as_nanos() / self.interval.as_nanos().max(1);
            let skip = u32::try_from(missed).unwrap_or(u32::MAX);
            next = due + self.interval.saturating_mul(skip) + self.interval;
        }
        self.next = Some(next);
        Ok(Produced::More)
    }
}

pub(crate) fn every(interval: Duration, emit: Emit, limit: Option<u64>) -> NodeSpec {
    let make = move |count: u64, now: Time| match &emit {
        Emit::Count => Value::from(count),
        Emit::Time => json!(now.since(Time::START).as_secs_f64()),
        Emit::Value(value) => value.clone(),
    };
    NodeSpec::source(Paced { interval, next: None, count: 0, limit, make })
}

pub(crate) fn random_walk(walk: Walk) -> NodeSpec {
    let Walk { interval_ms, start, step, seed, field, count: limit } = walk;
    let (mut at, mut random) = (start, SplitMix64::new(seed));
    let mut next = move |nth: u64| {
        if nth > 0 {
            at += step * between_minus_one_and_one(&mut random);
        }
        let number = Number::from_f64(at).map_or(Value::Null, Value::Number);
        if field.is_whole() {
            return number;
        }
        let mut object = Value::Null;
        field.set(&mut object, number);
        object
    };
    match interval_ms {
        Some(ms) => {
            let interval = Duration::from_millis(ms);
            let make = move |count, _: Time| next(count);
            NodeSpec::source(Paced { interval, next: None, count: 0, limit, make })
        }
        None => {
            let mut count = 0;
            source(move || {
                count += 1;
                limit.is_none_or(|limit| count <= limit).then(|| next(count - 1))
            })
        }
    }
}

/// The same walk on every machine and in every version.
#[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
fn between_minus_one_and_one(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// How often a followed file is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn lines(path: PathBuf, follow: bool, from_end: bool, reading: Reading) -> NodeSpec {
    let mut lines =
        lines_in(path).longest_line(reading.longest_line).read_with(move |line| message(line, reading).transpose());
    if follow {
        lines = lines.follow(POLL_INTERVAL);
    }
    if from_end {
        lines = lines.from_end();
    }
    lines.spec()
}
