//! The keys of a policy file: one table that reads files, and writes the reference and the schema.
//!
//! Room: values.
//!
//! # Invariant
//! A key that is not in a table is not read: what the reader does with the value of a profile's key is in its row.
//!
//! Checked by `every_key_of_the_tables_is_read_and_its_example_is_taken`.

use policy_admission::service::{CpuDemand, CpuProfile, Hint};
use policy_cpu::{CPUS_MAX, CpuSet, Latency, Nanos, Overrun, Weight};
use surface_text::fields::{Field, Values};
use surface_text::reference::{Entry, Shape};
use surface_text::tree::{Node, Value};

/// What a section `[profile.NAME]` says so far.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) profile: CpuProfile,
    pub(crate) slice: Option<Nanos>,
    pub(crate) budget: Option<Nanos>,
    pub(crate) period: Option<Nanos>,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) criticality: Option<u8>,
    pub(crate) overrun: Option<Overrun>,
}

/// What the reader does with a value.
pub(crate) type Set = for<'t> fn(&mut Draft, &Key, &Node<'t>, &mut Values<'t>);

/// A row of a table.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) field: Field<'static>,
    pub(crate) shape: Shape,
    pub(crate) without: &'static str,
    pub(crate) about: &'static str,
    /// Of the keys of a profile.
    pub(crate) set: Option<Set>,
}

impl Key {
    pub(crate) fn entry(&self) -> Entry {
        let Field { name, takes, example } = self.field;
        Entry { name, takes: takes.to_owned(), shape: self.shape, without: self.without, about: self.about, example }
    }
}

const fn part(field: Field<'static>, shape: Shape, without: &'static str, about: &'static str) -> Key {
    Key { field, shape, without, about, set: None }
}

const fn key(field: Field<'static>, shape: Shape, without: &'static str, about: &'static str, set: Set) -> Key {
    Key { field, shape, without, about, set: Some(set) }
}

/// The profile that is always there.
pub(crate) const NORMAL: &str = "normal";

/// The parts of a file.
pub(crate) const TOP: &[Key] = &[
    part(
        Field::new("default", "the name of a profile", "\"normal\""),
        Shape::Text,
        "`normal`",
        "the profile of everything that no rule and no hint leads elsewhere",
    ),
    part(
        Field::new("profile", "a section for each profile", "{ batch = { weight = 256 } }"),
        Shape::Section("profile"),
        "`normal` alone",
        "the profiles, each in a section `[profile.NAME]`",
    ),
    part(
        Field::new("hints", "a section", "{ batch = \"normal\" }"),
        Shape::Section("hints"),
        "all lead to the default",
        "which profile each hint of a program leads to",
    ),
    part(
        Field::new("rule", "a list of rules", "[{ service = \"db-*\", profile = \"normal\" }]"),
        Shape::List,
        "none",
        "who gets which profile, each in a section `[[rule]]`; the first that matches decides",
    ),
];

/// Fields of a profile.
pub(crate) const PROFILE: &[Key] = &[
    key(
        Field::new("weight", "a whole number", "2048"),
        Shape::Whole(Weight::MIN as i64, Weight::MAX as i64),
        "1024",
        "its share of CPU time beside others: 1024 is that of a normal task, 2048 is twice as much",
        weight,
    ),
    key(
        Field::new("latency", "\"sensitive\", \"normal\" or \"batch\"", "\"sensitive\""),
        Shape::Word(&["sensitive", "normal", "batch"]),
        "normal",
        "how soon it is served, with the same share: slices of 750 µs, 3 ms or 12 ms",
        latency,
    ),
    key(
        Field::new("slice", "a duration", "\"500us\""),
        Shape::Duration,
        "as `latency` says",
        "how long it runs at a time, from 100 µs to 100 ms",
        slice,
    ),
    key(
        Field::new("budget", "a duration", "\"300us\""),
        Shape::Duration,
        "no time is reserved",
        "CPU time that is reserved in every `period`, at least 10 µs. Admission refuses what the machine cannot promise",
        budget,
    ),
    key(
        Field::new("period", "a duration", "\"5ms\""),
        Shape::Duration,
        "required with `budget`",
        "how often the budget comes back, from 100 µs to 10 s",
        period,
    ),
    key(
        Field::new("deadline", "a duration", "\"2ms\""),
        Shape::Duration,
        "the period",
        "by when the budget is served, after a period began; at least `budget`, at most `period`",
        deadline,
    ),
    key(
        Field::new("criticality", "a whole number", "3"),
        Shape::Whole(0, 255),
        "0",
        "of reserves with equal deadlines, the larger one goes first",
        criticality,
    ),
    key(
        Field::new("overrun", "\"throttle\", \"demote\" or \"stop\"", "\"demote\""),
        Shape::Word(&["throttle", "demote", "stop"]),
        "throttle",
        "what happens when the budget is spent: it waits for the next period, continues with its weight, or is stopped",
        overrun,
    ),
    key(
        Field::new("cpus", "a number of CPUs, or a set of them as \"0-3,8\"", "\"0\""),
        Shape::Any,
        "any",
        "how many CPUs it may use, or which",
        cpus,
    ),
];

/// Fields of a rule.
pub(crate) const RULE: &[Key] = &[
    part(
        Field::new("service", "a pattern", "\"mixer-*\""),
        Shape::Text,
        "one of the four is required",
        "services: names that begin with `service:`. The pattern is for the rest; one `*` stands for any text",
    ),
    part(
        Field::new("account", "a pattern", "\"nightly\""),
        Shape::Text,
        "one of the four is required",
        "accounts: names that begin with `account:`",
    ),
    part(
        Field::new("session", "a pattern", "\"tty*\""),
        Shape::Text,
        "one of the four is required",
        "sessions: names that begin with `session:`",
    ),
    part(
        Field::new("name", "a pattern", "\"*-backup\""),
        Shape::Text,
        "one of the four is required",
        "any names, whole",
    ),
    part(Field::new("profile", "the name of a profile", "\"normal\""), Shape::Text, "required", "what the names get"),
];

/// The hints.
pub(crate) const HINTS: &[Key] = &[
    hint(Hint::LatencySensitive, "a person or a device waits for it"),
    hint(Hint::Batch, "only its end matters"),
    hint(Hint::Driver, "it serves a device"),
    hint(Hint::Poller, "it asks again and again whether there is something to do"),
    hint(Hint::Agent, "it works on its own, for a person who does not watch"),
];

const fn hint(hint: Hint, about: &'static str) -> Key {
    part(Field::new(hint.name(), "the name of a profile", "\"normal\""), Shape::Text, "the default", about)
}

fn whole<'t>(key: &Key, node: &Node<'t>, values: &mut Values<'t>) -> Option<i64> {
    let (least, most) = match key.shape {
        Shape::Whole(least, most) => (least, most),
        _ => (i64::MIN, i64::MAX),
    };
    values.whole(&key.field, node, least, most)
}

fn weight<'t>(draft: &mut Draft, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    if let Some(weight) = whole(key, node, values).and_then(|weight| u32::try_from(weight).ok()) {
        draft.profile.weight = weight;
    }
}

fn latency<'t>(draft: &mut Draft, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    let words = [("sensitive", Latency::Sensitive), ("normal", Latency::Normal), ("batch", Latency::Batch)];
    if let Some(latency) = values.choice(&key.field, node, &words) {
        draft.profile.latency = latency;
    }
}

fn slice<'t>(draft: &mut Draft, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    draft.slice = values.nanos(&key.field, node);
}

fn budget<'t>(draft: &mut Draft, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    draft.budget = values.nanos(&key.field, node);
}

fn period<'t>(draft: &mut Draft, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    draft.period = values.nanos(&key.field, node);
}

fn deadline<'t>(draft: &mut Draft, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    draft.deadline = values.nanos(&key.field, node);
}

fn criticality<'t>(draft: &mut Draft, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    draft.criticality = whole(key, node, values).and_then(|number| u8::try_from(number).ok());
}

fn overrun<'t>(draft: &mut Draft, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    let words = [("throttle", Overrun::Throttle), ("demote", Overrun::Demote), ("stop", Overrun::Stop)];
    draft.overrun = values.choice(&key.field, node, &words);
}

fn cpus<'t>(draft: &mut Draft, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    let demand = match &node.value {
        Value::Whole(_) => {
            let count = values.whole(&key.field, node, 1, CPUS_MAX.into());
            count.and_then(|count| u32::try_from(count).ok()).map(CpuDemand::Count)
        }
        Value::Text(text) => match cpu_set(text) {
            Ok(cpus) => Some(CpuDemand::Set(cpus)),
            Err(why) => {
                let message = format!("`cpus` is {}, which is not a set of CPUs: {why}", values.written(&node.at));
                values.report.add(&node.at, message, "write \"0-3,8\" for these, or 2 for any two");
                None
            }
        },
        _ => {
            values.wrong_type(&key.field, node);
            None
        }
    };
    draft.profile.cpus = demand.unwrap_or_default();
}

/// A set as Linux writes it.
fn cpu_set(text: &str) -> Result<CpuSet, String> {
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(cpu) if cpu < CPUS_MAX => Ok(cpu),
        Ok(cpu) => Err(format!("CPU {cpu} is beyond {}, the limit", CPUS_MAX - 1)),
        Err(_) => Err("it has something that is neither a number nor a range".to_owned()),
    };
    let mut set = CpuSet::NONE;
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(format!("{from}-{to} goes backwards"));
        }
        set = set.or((from..=to).collect());
    }
    Ok(set)
}
