//! A tree of values becomes a policy.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! Reading continues after a problem, so that one pass over the file finds them all; a policy is only used if there was none.

use policy_admission::service::{CpuProfile, Hint, PolicySet, Reserve, Rule, Subject};
use surface_text::fields::{Field, Values};
use surface_text::tree::{Entry, Node, Table, Value};
use surface_text::{nearest, units};

use crate::keys::{Draft, HINTS, Key, NORMAL, PROFILE, RULE, TOP};
use crate::spans::{Part, Spans};

/// Sections that are read at all. The policy itself refuses more than a few.
const SECTIONS_MAX: usize = 1_000;

/// Reads the whole tree.
pub(crate) fn read<'t>(tree: &Table<'t>, values: &mut Values<'t>) -> (PolicySet, Spans) {
    let mut set = PolicySet::default();
    set.profiles.clear();
    let mut spans = Spans::default();
    for entry in &tree.entries {
        if find(TOP, &entry.key).is_none() {
            unknown(entry, TOP, "a part of a policy file", values);
        }
    }
    if let Some((entry, key)) = tree.get("default").zip(find(TOP, "default")) {
        spans.default = entry.node.at.clone();
        set.default = values.some_text(&key.field, &entry.node).unwrap_or(NORMAL).into();
    }
    if let Some(table) = section(tree, "profile", "profile.NAME", values) {
        for entry in table.entries.iter().take(SECTIONS_MAX) {
            profile(entry, &mut set, &mut spans, values);
        }
    }
    if !set.profiles.iter().any(|profile| &*profile.name == NORMAL) {
        set.profiles.push(CpuProfile::new(NORMAL));
        spans.profiles.push(Part::default());
    }
    if let Some(table) = section(tree, "hints", "hints", values) {
        for entry in &table.entries {
            hint(entry, &mut set, &mut spans, values);
        }
    }
    if let Some((entry, key)) = tree.get("rule").zip(find(TOP, "rule")) {
        rules(&entry.node, key, &mut set, &mut spans, values);
    }
    (set, spans)
}

fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.field.name == name)
}

fn unknown(entry: &Entry<'_>, keys: &'static [Key], what: &str, values: &mut Values<'_>) {
    let names = || keys.iter().map(|key| key.field.name);
    let help = match nearest(&entry.key, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    values.report.add(&entry.at, format!("`{}` is not {what}", units::clip(&entry.key)), help);
}

fn section<'n, 't>(tree: &'n Table<'t>, name: &str, header: &str, values: &mut Values<'t>) -> Option<&'n Table<'t>> {
    let entry = tree.get(name)?;
    if let Value::Table(table) = &entry.node.value {
        return Some(table);
    }
    let (kind, written) = (entry.node.value.kind(), values.written(&entry.node.at));
    let message = format!("`{name}` is a section, not {kind} `{written}`");
    values.report.add(&entry.at, message, format!("write `[{header}]` on a line of its own, and its fields below"));
    None
}

fn profile<'t>(entry: &Entry<'t>, set: &mut PolicySet, spans: &mut Spans, values: &mut Values<'t>) {
    let name = units::clip(&entry.key);
    let Value::Table(table) = &entry.node.value else {
        let (kind, written) = (entry.node.value.kind(), values.written(&entry.node.at));
        let message = format!("profile `{name}` is a section, not {kind} `{written}`");
        values.report.add(&entry.at, message, format!("write `[profile.{name}]` and below it `weight = 2048`"));
        return;
    };
    let mut draft = Draft {
        profile: CpuProfile::new(&*entry.key),
        slice: None,
        budget: None,
        period: None,
        deadline: None,
        criticality: None,
        overrun: None,
    };
    let mut part = Part { at: Some(entry.at.clone()), fields: Vec::new() };
    for field in &table.entries {
        match find(PROFILE, &field.key) {
            Some(key) => {
                part.fields.push((key.field.name, field.node.at.clone()));
                if let Some(set) = key.set {
                    set(&mut draft, key, &field.node, values);
                }
            }
            None => unknown(field, PROFILE, "a field of a profile", values),
        }
    }
    let has = |name: &str| table.get(name);
    match (has("budget"), has("period")) {
        (Some(_), Some(_)) => {}
        (Some(budget), None) => {
            let message = format!("profile `{name}` has a `budget` and no `period`");
            values.report.add(&budget.at, message, "write how often the budget comes back: `period = \"5ms\"`");
        }
        (None, _) => {
            for field in ["period", "deadline", "criticality", "overrun"] {
                let Some(lonely) = has(field) else { continue };
                let message = format!("profile `{name}` has `{field}`, but reserves no time");
                values.report.add(&lonely.at, message, "write `budget = \"300us\"` as well, or remove it");
            }
        }
    }
    let Draft { mut profile, slice, budget, period, deadline, criticality, overrun } = draft;
    profile.slice = slice.unwrap_or(profile.latency.slice());
    profile.reserve = budget.zip(period).map(|(budget, period)| {
        let mut reserve = Reserve::new(budget, period);
        reserve.deadline = deadline.unwrap_or(period);
        reserve.criticality = criticality.unwrap_or_default();
        reserve.overrun = overrun.unwrap_or_default();
        reserve
    });
    set.profiles.push(profile);
    spans.profiles.push(part);
}

fn hint<'t>(entry: &Entry<'t>, set: &mut PolicySet, spans: &mut Spans, values: &mut Values<'t>) {
    match (entry.key.parse::<Hint>(), find(HINTS, &entry.key)) {
        (Ok(hint), Some(key)) => {
            if let Some(profile) = values.some_text(&key.field, &entry.node) {
                set.hints.push((hint, profile.into()));
                spans.hints.push(entry.node.at.clone());
            }
        }
        _ => unknown(entry, HINTS, "a hint", values),
    }
}

fn rules<'t>(node: &Node<'t>, key: &Key, set: &mut PolicySet, spans: &mut Spans, values: &mut Values<'t>) {
    let Value::List(items) = &node.value else {
        let written = values.written(&node.at);
        let message = format!("`rule` is a list of sections, not {} `{written}`", node.value.kind());
        return values.report.add(&node.at, message, "write `[[rule]]`, with two brackets, and its fields below");
    };
    for item in items.iter().take(SECTIONS_MAX) {
        let Value::Table(table) = &item.value else {
            values.wrong_type(&key.field, item);
            continue;
        };
        rule(item, table, set, spans, values);
    }
}

fn rule<'t>(item: &Node<'t>, table: &Table<'t>, set: &mut PolicySet, spans: &mut Spans, values: &mut Values<'t>) {
    let number = set.rules.len() + 1;
    let mut part = Part { at: Some(first_line(item, values)), fields: Vec::new() };
    let mut who: Option<(Subject, &str)> = None;
    let mut profile = None;
    for entry in &table.entries {
        let Some(key) = find(RULE, &entry.key) else {
            unknown(entry, RULE, "a field of a rule", values);
            continue;
        };
        part.fields.push((key.field.name, entry.node.at.clone()));
        let text = values.text(&key.field, &entry.node);
        match Subject::ALL.into_iter().find(|subject| subject.name() == entry.key) {
            Some(subject) => {
                if let Some((first, _)) = who {
                    let message = format!("rule {number} has both `{first}` and `{subject}`");
                    values.report.add(&entry.at, message, "write two rules");
                }
                who = text.map(|pattern| (subject, pattern)).or(who);
            }
            None => profile = text,
        }
    }
    let lacks = |name: &str| table.get(name).is_none();
    if Subject::ALL.iter().all(|subject| lacks(subject.name())) {
        let message = format!("rule {number} is about nothing");
        let help = "write one of `service`, `account`, `session` and `name`, such as `service = \"db-*\"`";
        values.report.add(&first_line(item, values), message, help);
    }
    if lacks("profile") {
        let Field { name, example, .. } = RULE[RULE.len() - 1].field;
        let message = format!("rule {number} gives no profile");
        values.report.add(&first_line(item, values), message, format!("write `{name} = {example}`"));
    }
    if let Some(((subject, pattern), profile)) = who.zip(profile) {
        set.rules.push(Rule::new(subject, pattern, profile));
        spans.rules.push(part);
    }
}

/// The first line of a section: what is marked of it.
fn first_line(item: &Node<'_>, values: &Values<'_>) -> surface_text::Span {
    let text = values.source.get(item.at.clone()).unwrap_or_default();
    let end = text.find(['\n', '\r']).unwrap_or(text.len());
    item.at.start..item.at.start + end
}

/// Whether every name that `later` matches is matched by `earlier` already.
pub(crate) fn covers(earlier: &Rule, later: &Rule) -> bool {
    let is_same = earlier.subject == later.subject;
    match earlier.pattern.split_once('*') {
        None => is_same && earlier.pattern == later.pattern,
        Some(("", "")) => is_same || earlier.subject == Subject::Name,
        Some((start, end)) => {
            let (first, last) = later.pattern.split_once('*').unwrap_or((&*later.pattern, &*later.pattern));
            let is_longer = later.pattern.len() >= earlier.pattern.len() - usize::from(!later.pattern.contains('*'));
            is_same && is_longer && first.starts_with(start) && last.ends_with(end)
        }
    }
}
