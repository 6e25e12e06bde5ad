//! What the reader does with the value of each key.
//!
//! Room: surface.

use policy_cpu::{Class, Latency, Nanos, Overrun};
use proof_sim::Late;
use surface_text::fields::Spanned;
use surface_text::tree::{Node, Value};
use surface_text::units;

use super::{Key, Values};
use crate::draft::{Context, Cpus, File, Lease, Name, Process, Ring, Session, Thread};

fn name<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Name {
    let text = match &node.value {
        Value::Text(text) if !text.trim().is_empty() => text.to_string(),
        _ => {
            values.wrong_type(&key.field, node);
            return None;
        }
    };
    Some(Spanned { at: node.at.clone(), value: text })
}

fn whole<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<i64> {
    let (least, most) = key.limits();
    values.whole(&key.field, node, least, most)
}

/// A time that is more than nothing.
fn some_time<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<Nanos> {
    let time = values.nanos(&key.field, node)?;
    if time == 0 {
        let message = format!("`{}` is 0, and has to be more", key.field.name);
        values.report.add(&node.at, message, format!("write `{} = {}`", key.field.name, key.field.example));
        return None;
    }
    Some(time)
}

/// A time, or two with `..` between them.
fn times<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<(Nanos, Nanos)> {
    let Value::Text(text) = &node.value else {
        values.wrong_type(&key.field, node);
        return None;
    };
    match range(text) {
        Ok(range) => Some(range),
        Err(why) => {
            let message = format!("`{}` is {}, which is not a time: {why}", key.field.name, values.written(&node.at));
            values.report.add(&node.at, message, "write \"250us\", or \"1ms..4ms\" for a random time between them");
            None
        }
    }
}

/// `1ms`, or `1ms..4ms`.
pub(crate) fn range(text: &str) -> Result<(Nanos, Nanos), String> {
    let Some((from, to)) = text.split_once("..") else {
        let time = units::nanos(text)?;
        return Ok((time, time));
    };
    let (from, to) = (units::nanos(from)?, units::nanos(to)?);
    if from > to { Err("its end is before its beginning".to_owned()) } else { Ok((from, to)) }
}

fn cpus<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Cpus {
    let Value::List(items) = &node.value else {
        values.wrong_type(&key.field, node);
        return None;
    };
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        found.push(whole(key, item, values)? as u32);
    }
    if found.is_empty() {
        values.report.add(&node.at, format!("`{}` is empty", key.field.name), "name at least one CPU, or leave it out");
        return None;
    }
    Some(Spanned { at: node.at.clone(), value: found })
}

/// Setters that only differ by the field they fill.
macro_rules! setters {
    ($($name:ident: $section:ident.$field:ident = $read:ident $(as $type:ty)?;)*) => { $(
        #[allow(clippy::useless_conversion)] // some fields are optional
        pub(super) fn $name<'t>(to: &mut $section, key: &Key<$section>, node: &Node<'t>, values: &mut Values<'t>) {
            if let Some(value) = $read(key, node, values) {
                to.$field = (value $(as $type)?).into();
            }
        }
    )* };
}

fn time<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<Nanos> {
    values.nanos(&key.field, node)
}

fn text<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<String> {
    name(key, node, values).map(|name| name.value)
}

fn flag<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<bool> {
    if let Value::Flag(flag) = node.value {
        return Some(flag);
    }
    values.wrong_type(&key.field, node);
    None
}

fn overrun<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<Overrun> {
    let words = [("throttle", Overrun::Throttle), ("demote", Overrun::Demote), ("stop", Overrun::Stop)];
    choice(key, node, values, &words)
}

fn class<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<Class> {
    choice(key, node, values, &[("fair", Class::Fair), ("idle", Class::Idle), ("reserved", Class::Reserved)])
}

fn latency<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<Latency> {
    let words = [("sensitive", Latency::Sensitive), ("normal", Latency::Normal), ("batch", Latency::Batch)];
    choice(key, node, values, &words)
}

fn late<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<Late> {
    choice(key, node, values, &[("serve", Late::Serve), ("drop", Late::Drop)])
}

fn choice<'t, T, W: Copy>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>, words: &[(&str, W)]) -> Option<W> {
    let Value::Text(text) = &node.value else {
        values.wrong_type(&key.field, node);
        return None;
    };
    let found = words.iter().find(|(word, _)| *word == text).map(|&(_, value)| value);
    if found.is_none() {
        let message = format!("`{}` takes {}, not {}", key.field.name, key.field.takes, values.written(&node.at));
        values.report.add(&node.at, message, format!("write `{} = {}`", key.field.name, key.field.example));
    }
    found
}

fn steps<'t, T>(key: &Key<T>, node: &Node<'t>, values: &mut Values<'t>) -> Option<Vec<Spanned<String>>> {
    let Value::List(items) = &node.value else {
        values.wrong_type(&key.field, node);
        return None;
    };
    let mut steps = Vec::with_capacity(items.len());
    for item in items {
        match &item.value {
            Value::Text(text) => steps.push(Spanned { at: item.at.clone(), value: text.to_string() }),
            _ => {
                values.wrong_type(&key.field, item);
                return None;
            }
        }
    }
    if steps.is_empty() {
        values.report.add(&node.at, "a thread that does nothing", format!("write `does = {}`", key.field.example));
        return None;
    }
    Some(steps)
}

setters! {
    file_name: File.name = text;
    file_cpus: File.cpus = whole as u32;
    file_time: File.time = some_time;
    file_seed: File.seed = whole as u64;
    file_interrupt: File.interrupt = some_time;
    session_ends: Session.ends = time;
    process_context: Process.context = name;
    process_session: Process.session = name;
    process_ends: Process.ends = time;
    context_budget: Context.budget = some_time;
    context_period: Context.period = some_time;
    context_deadline: Context.deadline = some_time;
    context_criticality: Context.criticality = whole as u8;
    context_cpus: Context.cpus = cpus;
    context_overrun: Context.overrun = overrun;
    context_session: Context.session = name;
    context_ends: Context.ends = time;
    thread_process: Thread.process = name;
    thread_does: Thread.does = steps;
    thread_once: Thread.once = flag;
    thread_count: Thread.count = whole as u32;
    thread_weight: Thread.weight = whole as u32;
    thread_class: Thread.class = class;
    thread_latency: Thread.latency = latency;
    thread_cpus: Thread.cpus = cpus;
    thread_context: Thread.context = name;
    thread_starts: Thread.starts = time;
    thread_deadline: Thread.deadline = some_time;
    thread_wait_limit: Thread.wait_limit = time;
    lease_process: Lease.process = name;
    lease_cpus: Lease.cpus = cpus;
    lease_context: Lease.context = name;
    lease_ring: Lease.ring = name;
    lease_revocation: Lease.revocation = some_time;
    lease_starts: Lease.starts = time;
    lease_ends: Lease.ends = time;
    ring_every: Ring.every = times;
    ring_cost: Ring.cost = times;
    ring_capacity: Ring.capacity = whole as u32;
    ring_deadline: Ring.deadline = some_time;
    ring_late: Ring.late = late;
    ring_interval: Ring.interval = some_time;
}
