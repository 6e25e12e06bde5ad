//! A tree of values becomes sections: checked field by field, names not yet looked up.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! Reading continues after a problem, so that one pass over the file finds them all; sections are only used if there was none.

use surface_text::nearest;
use surface_text::tree::{Entry, Table, Value};
use surface_text::units::clip;

use crate::draft::{Drafts, Named};
use crate::keys::{CONTEXT, FILE, Key, LEASE, PARTS, PROCESS, RING, SESSION, THREAD, Values};

/// Sections of one kind.
const SECTIONS_MAX: usize = 1_000;
/// Bytes of a name.
const NAME_MAX: usize = 60;

/// Reads the whole tree.
pub(crate) fn read<'t>(tree: &Table<'t>, values: &mut Values<'t>) -> Drafts {
    let mut drafts = Drafts::default();
    for entry in &tree.entries {
        if let Some(key) = FILE.iter().find(|key| key.field.name == entry.key) {
            (key.set)(&mut drafts.file, key, &entry.node, values);
            continue;
        }
        match entry.key.as_ref() {
            "session" => drafts.sessions = sections(entry, SESSION, values),
            "process" => drafts.processes = sections(entry, PROCESS, values),
            "context" => drafts.contexts = sections(entry, CONTEXT, values),
            "ring" => drafts.rings = sections(entry, RING, values),
            "thread" => drafts.threads = sections(entry, THREAD, values),
            "lease" => drafts.leases = sections(entry, LEASE, values),
            _ => unknown_top(entry, values),
        }
    }
    if drafts.threads.is_empty() && values.report.is_empty() {
        let end = values.source.len();
        let smallest = "the smallest file is\n[thread.hog]\ndoes = [\"run 10ms\"]";
        values.report.add(&(end..end), "there is no thread in this file", smallest);
    }
    drafts
}

fn unknown_top(entry: &Entry<'_>, values: &mut Values<'_>) {
    let names = FILE.iter().map(|key| key.field.name).chain(PARTS.iter().copied());
    let help = match nearest(&entry.key, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None if matches!(entry.node.value, Value::Table(_)) => {
            format!("a thread is written `[thread.{}]`; other sections are {}", clip(&entry.key), PARTS.join(", "))
        }
        None => "keys at the top are name, cpus, for, seed and interrupt; others belong to a section".to_owned(),
    };
    values.report.add(&entry.at, format!("`{}` is not a part of a workload file", clip(&entry.key)), help);
}

/// The sections `[KIND.NAME]` of a file.
fn sections<'t, T: Default>(entry: &Entry<'t>, keys: &[Key<T>], values: &mut Values<'t>) -> Vec<Named<T>> {
    let kind = entry.key.as_ref();
    let Value::Table(table) = &entry.node.value else {
        let message =
            format!("`{kind}` is a section, not {} `{}`", entry.node.value.kind(), values.written(&entry.node.at));
        values.report.add(
            &entry.at,
            message,
            format!("write `[{kind}.NAME]` on a line of its own, and its fields below"),
        );
        return Vec::new();
    };
    if table.entries.len() > SECTIONS_MAX {
        let message = format!("there are {} sections `{kind}`, and the limit is {SECTIONS_MAX}", table.entries.len());
        values.report.add(&entry.at, message, "use `count` for threads that are alike");
        return Vec::new();
    }
    table.entries.iter().filter_map(|entry| section(kind, entry, keys, values)).collect()
}

fn section<'t, T: Default>(
    kind: &str,
    entry: &Entry<'t>,
    keys: &[Key<T>],
    values: &mut Values<'t>,
) -> Option<Named<T>> {
    let name = entry.key.as_ref();
    let is_fit = |c: char| c.is_alphanumeric() || "_-+@/".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_fit) {
        let message = format!("`{}` cannot be the name of a {kind}", clip(name).escape_debug());
        values.report.add(&entry.at, message, format!("use up to {NAME_MAX} letters, digits and any of `_-+@/`"));
        return None;
    }
    let Value::Table(table) = &entry.node.value else {
        let message = format!("{kind} `{name}` is a section, not {}", entry.node.value.kind());
        values.report.add(&entry.at, message, format!("write `[{kind}.{name}]`, and its fields below"));
        return None;
    };
    let mut value = T::default();
    for entry in &table.entries {
        match keys.iter().find(|key| key.field.name == entry.key) {
            Some(key) => (key.set)(&mut value, key, &entry.node, values),
            None => {
                let names = || keys.iter().map(|key| key.field.name);
                let help = match nearest(&entry.key, names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("a {kind} has {}", names().collect::<Vec<_>>().join(", ")),
                };
                values.report.add(&entry.at, format!("`{}` is not a field of a {kind}", clip(&entry.key)), help);
            }
        }
    }
    Some(Named { name: name.to_owned(), at: entry.at.clone(), value })
}
