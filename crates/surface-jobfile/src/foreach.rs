//! `foreach`, `exclude` and `include` become a list of combinations.
//!
//! Room: surface.
//!
//! Reads the disk for `glob:`, if its limits allow.
//!
//! # Invariant
//! The number of combinations is known, and within the limit, before the first is built; no two are the same.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::draft::Draft;
use crate::fresh::{matches, unreadable_name};
use crate::keys::{VALUE, Values, field};
use crate::limits::Limits;
use crate::template::{JOB, is_ident};
use surface_text::Span;
use surface_text::nearest;
use surface_text::tree::{Node, Value};
use surface_text::units::{self, Range};

/// Keys of a matrix.
const KEYS: usize = 8;
const WAYS: &str = "write a range \"1..8\", a list [\"a\", \"b\"], or files \"glob:*.png\"";

/// One key and its values.
#[derive(Debug)]
pub(crate) struct Axis {
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
    /// File names: they were not chosen for a shell.
    pub(crate) from_disk: bool,
}

/// The instances of a job.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    pub(crate) axes: Vec<Axis>,
    /// For each axis the index of its value: texts would be copied for each of a million. A job without `foreach` has one, empty.
    pub(crate) combinations: Vec<Vec<usize>>,
}

impl Instances {
    /// The values of a combination.
    pub(crate) fn values(&self, combination: &[usize]) -> Vec<&str> {
        self.axes.iter().zip(combination).map(|(axis, &value)| axis.values[value].as_str()).collect()
    }
}

/// The folder and the limits for instances.
pub(crate) struct ExpandContext<'a> {
    pub(crate) base: &'a Path,
    pub(crate) limits: &'a Limits,
    /// Jobs that may still be made.
    pub(crate) jobs_left: usize,
}

/// Expands one draft; `None` after a problem.
pub(crate) fn expand<'t>(
    draft: &Draft<'_, 't>,
    context: &ExpandContext<'_>,
    values: &mut Values<'t>,
) -> Option<Instances> {
    let Some(node) = draft.foreach else {
        for (node, name) in [(draft.exclude, "exclude"), (draft.include, "include")] {
            if let Some(node) = node {
                let message = format!("`{name}` needs a `foreach` to change");
                values.report.add(&node.at, message, "write `foreach = { scene = \"1..8\" }`, or remove it");
            }
        }
        if context.jobs_left == 0 {
            return too_many(draft, 1, context, &draft.at, values);
        }
        return Some(Instances { axes: Vec::new(), combinations: vec![Vec::new()] });
    };
    let table = values.table(field("foreach")?, node)?;
    if table.entries.is_empty() {
        let message = format!("`foreach` of job `{}` has no keys, so there would be no job", draft.name);
        values.report.add(&node.at, message, "write `foreach = { scene = \"1..8\" }`, or remove it");
        return None;
    }
    if table.entries.len() > KEYS {
        let message = format!("`foreach` has {} keys, but the limit is {KEYS}", table.entries.len());
        values.report.add(&node.at, message, "split the job");
        return None;
    }
    let mut axes = Vec::with_capacity(table.entries.len());
    let mut product = 1_u128;
    for entry in &table.entries {
        let key = entry.key.as_ref();
        if !is_ident(key) || key == JOB {
            let message = format!("`{}` cannot be a key of `foreach`", units::clip(key).escape_debug());
            values.report.add(
                &entry.at,
                message,
                "use letters, digits, `_` and `-`; `job` is the name of the instance",
            );
            return None;
        }
        let count = count(&entry.node, values)?;
        product = product.saturating_mul(count);
        if product > context.jobs_left as u128 {
            return too_many(draft, product, context, &entry.node.at, values);
        }
        axes.push(axis(key, &entry.node, context, values)?);
        // A glob is counted after it was looked up.
        product = axes.iter().map(|axis: &Axis| axis.values.len() as u128).product();
        if product > context.jobs_left as u128 {
            return too_many(draft, product, context, &entry.node.at, values);
        }
    }
    let excluded = excluded(draft, &axes, values)?;
    let mut combinations = Vec::with_capacity(usize::try_from(product).ok()?);
    let mut digits = vec![0; axes.len()];
    loop {
        if !excluded.has(&digits) {
            combinations.push(digits.clone());
        }
        // The last key turns fastest, as in nested loops.
        let Some(turn) = (0..axes.len()).rev().find(|&at| digits[at] + 1 < axes[at].values.len()) else { break };
        digits[turn] += 1;
        digits[turn + 1..].fill(0);
    }
    include(draft, &mut axes, &mut combinations, context, values)?;
    if combinations.is_empty() {
        let message = format!("`exclude` leaves nothing of job `{}`", draft.name);
        values.report.add(&draft.exclude.unwrap_or(node).at, message, "exclude less, or remove the job");
        return None;
    }
    Some(Instances { axes, combinations })
}

fn too_many<T>(
    draft: &Draft<'_, '_>,
    count: u128,
    context: &ExpandContext<'_>,
    at: &Span,
    values: &mut Values<'_>,
) -> Option<T> {
    let (name, most) = (draft.name, context.limits.jobs);
    let before = (most - context.jobs_left) as u128;
    let total = before.saturating_add(count);
    let message = format!("with `{name}` there are {total} jobs or more, but the limit is {most}");
    values.report.add(at, message, "expand less, or split the file");
    None
}

/// How many values a key has, before they are built; a glob counts as 1.
fn count(node: &Node<'_>, values: &mut Values<'_>) -> Option<u128> {
    match &node.value {
        Value::List(items) if items.is_empty() => {
            values.report.add(&node.at, "this list is empty, so there would be no job", WAYS);
            None
        }
        Value::List(items) => Some(items.len() as u128),
        Value::Text(text) if text.starts_with("glob:") => Some(1),
        Value::Text(text) => match Range::read(text) {
            None => {
                let message = format!("{} is not a range", values.written(&node.at));
                values.report.add(&node.at, message, WAYS);
                None
            }
            Some(Err(why)) => {
                let message = format!("{} is not a range: {why}", values.written(&node.at));
                values.report.add(&node.at, message, WAYS);
                None
            }
            Some(Ok(range)) if range.len() == 0 => {
                let (first, last) = (range.first, range.last);
                let message = format!("the range {first}..{last} runs backwards, so it is empty");
                values.report.add(&node.at, message, format!("write \"{last}..{first}\""));
                None
            }
            Some(Ok(range)) => Some(range.len()),
        },
        other => {
            let message =
                format!("a key of `foreach` takes values, not {} `{}`", other.kind(), values.written(&node.at));
            values.report.add(&node.at, message, WAYS);
            None
        }
    }
}

fn axis<'t>(key: &str, node: &Node<'t>, context: &ExpandContext<'_>, values: &mut Values<'t>) -> Option<Axis> {
    let (list, from_disk) = match &node.value {
        Value::List(items) => {
            let list = items.iter().map(|item| values.scalar(&VALUE, item)).collect::<Option<Vec<_>>>()?;
            let mut seen = HashSet::new();
            if let Some(twice) = (0..list.len()).find(|&index| !seen.insert(&list[index])) {
                let message = format!("`{key}` has the value `{}` twice", units::clip(&list[twice]));
                values.report.add(&items[twice].at, message, "remove one");
                return None;
            }
            (list, false)
        }
        Value::Text(text) => match text.strip_prefix("glob:") {
            Some(pattern) => (files(pattern, node, context, values)?, true),
            None => (Range::read(text)?.ok()?.values().collect(), false),
        },
        _ => return None,
    };
    Some(Axis { key: key.to_owned(), values: list, from_disk })
}

fn files(pattern: &str, node: &Node<'_>, context: &ExpandContext<'_>, values: &mut Values<'_>) -> Option<Vec<String>> {
    if !context.limits.globs {
        let message = format!("`glob:{}` would read the disk, which is not allowed here", units::clip(pattern));
        values.report.add(&node.at, message, "write a list");
        return None;
    }
    let found = match matches(context.base, pattern) {
        Ok(found) => found,
        Err(why) => {
            values.report.add(&node.at, format!("`glob:{}`: {why}", units::clip(pattern)), "write \"glob:img/*.png\"");
            return None;
        }
    };
    // A glob skips such names, and a job that is silently left out is noticed too late.
    if let Some(path) = unreadable_name(context.base, pattern) {
        let path = path.strip_prefix(context.base).unwrap_or(&path);
        let message = format!("file {} has a name that is not UTF-8", path.display());
        values.report.add(&node.at, message, "rename it");
        return None;
    }
    let mut files = Vec::with_capacity(found.len());
    for path in found.iter().filter(|path| path.exists()) {
        let path = path.strip_prefix(context.base).unwrap_or(path);
        let Some(file) = path.to_str() else {
            let message = format!("file {} has a name that is not UTF-8", path.display());
            values.report.add(&node.at, message, "rename it");
            return None;
        };
        files.push(file.to_owned());
    }
    if files.is_empty() {
        let folder = match context.base.display().to_string() {
            folder if folder.is_empty() => ".".to_owned(),
            folder => folder,
        };
        let message = format!("no file matches `glob:{}` in {folder}", units::clip(pattern));
        values.report.add(
            &node.at,
            message,
            "files are looked up when the job file is read; write a list if a job makes them",
        );
        return None;
    }
    Some(files)
}

/// Combinations left out, by which keys they name: one lookup for each such set of keys, however long the list is.
#[derive(Default)]
struct Excluded {
    by_keys: HashMap<Vec<usize>, HashSet<Vec<usize>>>,
}

impl Excluded {
    fn has(&self, combination: &[usize]) -> bool {
        self.by_keys.iter().any(|(keys, left_out)| {
            let part: Vec<usize> = keys.iter().map(|&key| combination[key]).collect();
            left_out.contains(&part)
        })
    }
}

/// For each axis, the index of a value.
fn value_indices(axes: &[Axis]) -> Vec<HashMap<String, usize>> {
    let of = |axis: &Axis| axis.values.iter().enumerate().map(|(at, value)| (value.clone(), at)).collect();
    axes.iter().map(of).collect()
}

fn excluded<'t>(draft: &Draft<'_, 't>, axes: &[Axis], values: &mut Values<'t>) -> Option<Excluded> {
    let mut excluded = Excluded::default();
    let Some(node) = draft.exclude else { return Some(excluded) };
    let value_indices = value_indices(axes);
    'list: for (at, mut parts) in combinations("exclude", node, axes, values)? {
        parts.sort_by_key(|&(axis, _)| axis);
        let (mut keys, mut part) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        for (axis, value) in parts {
            let Axis { key, values: list, from_disk } = &axes[axis];
            if let Some(&index) = value_indices[axis].get(&value) {
                keys.push(axis);
                part.push(index);
            } else if *from_disk {
                continue 'list; // there is no such file today
            } else {
                let help = match nearest(&value, list.iter().take(1_000).map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "remove it".to_owned(),
                };
                let message = format!("`{}` is not a value of `{key}`, so nothing is excluded", units::clip(&value));
                values.report.add(&at, message, help);
                return None;
            }
        }
        excluded.by_keys.entry(keys).or_default().insert(part);
    }
    Some(excluded)
}

fn include<'t>(
    draft: &Draft<'_, 't>,
    axes: &mut [Axis],
    instances: &mut Vec<Vec<usize>>,
    context: &ExpandContext<'_>,
    values: &mut Values<'t>,
) -> Option<()> {
    let Some(node) = draft.include else { return Some(()) };
    let added = combinations("include", node, axes, values)?;
    let total = instances.len() + added.len();
    if total > context.jobs_left {
        return too_many(draft, total as u128, context, &node.at, values);
    }
    let mut present: HashSet<Vec<usize>> = instances.iter().cloned().collect();
    let mut value_indices = value_indices(axes);
    for (at, parts) in added {
        if let Some(missing) = (0..axes.len()).find(|&axis| !parts.iter().any(|(of, _)| *of == axis)) {
            let key = &axes[missing].key;
            values.report.add(&at, format!("this combination has no `{key}`"), format!("add `{key} = \"…\"`"));
            return None;
        }
        let mut combination = vec![0; axes.len()];
        for (axis, value) in parts {
            let list = &mut axes[axis].values;
            combination[axis] = *value_indices[axis].entry(value).or_insert_with_key(|value| {
                list.push(value.clone());
                list.len() - 1
            });
        }
        if !present.insert(combination.clone()) {
            let written = values.written(&at);
            values.report.add(&at, format!("`{written}` is there already"), "remove it from `include`");
            return None;
        }
        instances.push(combination);
    }
    Some(())
}

type Parts = Vec<(usize, String)>;

/// The tables of an `exclude` or `include`, as values by axis.
fn combinations<'t>(name: &str, node: &Node<'t>, axes: &[Axis], values: &mut Values<'t>) -> Option<Vec<(Span, Parts)>> {
    let this = field(name)?;
    let Value::List(items) = &node.value else {
        values.wrong_type(this, node);
        return None;
    };
    let mut list = Vec::with_capacity(items.len());
    for item in items {
        let table = values.table(this, item)?;
        if table.entries.is_empty() {
            values.report.add(
                &item.at,
                "this combination is empty",
                format!("write `{}`", axes[0].key.clone() + " = \"…\""),
            );
            return None;
        }
        let mut parts = Vec::with_capacity(table.entries.len());
        for entry in &table.entries {
            let Some(axis) = axes.iter().position(|axis| axis.key == entry.key) else {
                let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).collect();
                let message = format!("`{}` is not a key of `foreach`", units::clip(&entry.key));
                values.report.add(&entry.at, message, format!("the keys are {}", keys.join(", ")));
                return None;
            };
            parts.push((axis, values.scalar(this, &entry.node)?));
        }
        list.push((item.at.clone(), parts));
    }
    Some(list)
}
