//! What the reader does with the value of each key.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//! One function for each row of the table that does more than to keep a number, a size or a text.

use super::{Field, Key, Spanned, Values};
use crate::draft::{Draft, Line, Settings};
use crate::plan::{Class, Incomplete, On, OnCrash, OverRam, Resources, Slurm};
use surface_text::tree::{Node, Value};

/// CPUs that `cpus` may list.
const CPUS: usize = 4096;

fn whole<'t>(key: &Key, node: &Node<'t>, values: &mut Values<'t>) -> Option<i64> {
    let (least, most) = key.limits();
    values.whole(&key.field, node, least, most)
}

fn small<'t>(key: &Key, node: &Node<'t>, values: &mut Values<'t>) -> Option<u32> {
    whole(key, node, values).and_then(|number| u32::try_from(number).ok())
}

fn at<T>(node: &Node<'_>, value: T) -> Spanned<T> {
    Spanned { at: node.at.clone(), value }
}

pub(super) fn run<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.line = values.some_text(&key.field, node).map(|value| Line::Shell(at(node, value)));
}

pub(super) fn command<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.line = argv(&key.field, node, values);
}

pub(super) fn flow<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.line = values.some_text(&key.field, node).map(|value| Line::Flow(at(node, value)));
}

pub(super) fn exec<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.line = values.some_text(&key.field, node).map(|value| Line::Exec(at(node, value)));
}

pub(super) fn args<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    let Value::List(items) = &node.value else { return values.wrong_type(&key.field, node) };
    let items = items.iter().filter_map(|item| values.scalar(&key.field, item).map(|value| at(item, value)));
    draft.args = Some(at(node, items.collect()));
}

/// A limit of the budget of a program: an option of `bursar exec` by the same name.
pub(super) fn exec_limit<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    if let Some(number) = whole(key, node, values) {
        draft.exec_limits.push((key.field.name, at(node, number)));
    }
}

fn argv<'n, 't>(field: &Field<'_>, node: &'n Node<'t>, values: &mut Values<'t>) -> Option<Line<'n>> {
    if let Value::Text(_) = node.value {
        let message = "`command` takes a list of a program and its arguments, not a text";
        values.report.add(
            &node.at,
            message,
            "write `run = …` for a shell line, or `command = [\"program\", \"argument\"]`",
        );
        return None;
    }
    let argv = values.texts(field, node)?;
    if argv.first().is_none_or(|program| program.value.trim().is_empty()) {
        values.report.add(&node.at, "`command` names no program", "write `command = [\"program\", \"argument\"]`");
        return None;
    }
    Some(Line::Argv(argv))
}

pub(super) fn needs<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    if matches!(&node.value, Value::Text(text) if text == "inputs") {
        draft.needs_inputs = true;
    } else {
        draft.needs = values.texts(&key.field, node).unwrap_or_default();
    }
}

pub(super) fn inputs<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.inputs = values.texts(&key.field, node).unwrap_or_default();
}

pub(super) fn outputs<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.outputs = values.texts(&key.field, node).unwrap_or_default();
}

// These three are read when the job is expanded: what they mean depends on each other.

pub(super) fn foreach<'n, 't>(draft: &mut Draft<'n, 't>, _: &Key, node: &'n Node<'t>, _: &mut Values<'t>) {
    draft.foreach = Some(node);
}

pub(super) fn exclude<'n, 't>(draft: &mut Draft<'n, 't>, _: &Key, node: &'n Node<'t>, _: &mut Values<'t>) {
    draft.exclude = Some(node);
}

pub(super) fn include<'n, 't>(draft: &mut Draft<'n, 't>, _: &Key, node: &'n Node<'t>, _: &mut Values<'t>) {
    draft.include = Some(node);
}

pub(super) fn budget<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.budget_us = values.micros(&key.field, node).map(|value| at(node, value));
}

pub(super) fn deadline<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.deadline_us = values.micros(&key.field, node).map(|value| at(node, value));
}

pub(super) fn period<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.period_us = values.micros(&key.field, node).map(|value| at(node, value));
}

pub(super) fn shell<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.shell = values.some_text(&key.field, node).map(str::to_owned);
}

pub(super) fn cpu<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.cpu = small(key, node, values).map(|value| at(node, value));
}

pub(super) fn ram<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.ram_mb = values.size(&key.field, node);
}

pub(super) fn vram<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.vram_mb = values.size(&key.field, node).map(|value| at(node, value));
}

pub(super) fn gpus<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.gpus = small(key, node, values).map(|value| at(node, value));
}

pub(super) fn priority<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.priority = whole(key, node, values).and_then(|number| i32::try_from(number).ok());
}

pub(super) fn retries<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.retries = small(key, node, values);
}

pub(super) fn backoff<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.backoff_ms = values.millis(&key.field, node);
}

pub(super) fn timeout<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.timeout_ms = values.millis(&key.field, node);
    if settings.timeout_ms == Some(0) {
        let message = "`timeout` is 0, so the job could never run";
        values.report.add(&node.at, message, "leave it out for no timeout");
    }
}

pub(super) fn grace<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.grace_ms = values.millis(&key.field, node);
}

pub(super) fn log_limit<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.log_limit_mb = values.size(&key.field, node);
}

pub(super) fn ram_limit<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.ram_limit_mb = values.size(&key.field, node);
}

pub(super) fn over_ram<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.over_ram = values.choice(&key.field, node, &[("kill", OverRam::Kill), ("warn", OverRam::Warn)]);
}

pub(super) fn cpus<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    if let Value::Whole(number) = node.value {
        let message = format!("`cpus` lists CPUs by their numbers, and this is the number {number}");
        let help = format!("write `cpu = {number}` for CPU slots, or `cpus = [{number}]` for that CPU alone");
        return values.report.add(&node.at, message, help);
    }
    let Value::List(items) = &node.value else { return values.wrong_type(&key.field, node) };
    if items.len() > CPUS || items.is_empty() {
        let message = format!("`cpus` lists {} CPUs, but the limit is {CPUS}, and at least 1", items.len());
        return values.report.add(&node.at, message, "leave it out to run on any CPU");
    }
    settings.cpus = Some(items.iter().filter_map(|item| small(key, item, values)).collect());
}

pub(super) fn class<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    let words =
        [("normal", Class::Normal), ("latency", Class::Latency), ("batch", Class::Batch), ("idle", Class::Idle)];
    settings.class = values.choice(&key.field, node, &words);
}

pub(super) fn weight<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.weight = small(key, node, values);
}

pub(super) fn nice<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.nice = whole(key, node, values).and_then(|number| i32::try_from(number).ok());
}

pub(super) fn env<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.env = values.env(&key.field, node);
}

pub(super) fn cwd<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    settings.cwd = values.some_text(&key.field, node).map(|cwd| at(node, cwd.to_owned()));
}

pub(super) fn incomplete<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    let words = [("remove", Incomplete::Remove), ("keep", Incomplete::Keep)];
    settings.incomplete = values.choice(&key.field, node, &words);
}

pub(super) fn on_crash<'t>(settings: &mut Settings, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    let words = [("adopt", OnCrash::Adopt), ("restart", OnCrash::Restart), ("fail", OnCrash::Fail)];
    settings.on_crash = values.choice(&key.field, node, &words);
}

pub(super) fn all_cpu<'t>(resources: &mut Resources, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    resources.cpu = small(key, node, values);
}

pub(super) fn all_ram<'t>(resources: &mut Resources, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    resources.ram_mb = values.size(&key.field, node);
}

pub(super) fn all_vram<'t>(resources: &mut Resources, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    resources.vram_mb = values.size(&key.field, node);
}

pub(super) fn all_gpus<'t>(resources: &mut Resources, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    resources.gpus = small(key, node, values);
}

const PLACES: [(&str, On); 2] = [("local", On::Local), ("slurm", On::Slurm)];

pub(super) fn on<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.on = values.choice(&key.field, node, &PLACES);
}

pub(super) fn nodes<'n, 't>(draft: &mut Draft<'n, 't>, key: &Key, node: &'n Node<'t>, values: &mut Values<'t>) {
    draft.nodes = small(key, node, values);
}

pub(super) fn all_on<'t>(on: &mut Option<On>, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    *on = values.choice(&key.field, node, &PLACES);
}

/// A text of `[slurm]`.
pub(super) fn slurm_text<'t>(slurm: &mut Slurm, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    let Some(text) = values.some_text(&key.field, node).map(str::to_owned) else { return };
    let field = match key.field.name {
        "partition" => &mut slurm.partition,
        "account" => &mut slurm.account,
        "qos" => &mut slurm.qos,
        "constraint" => &mut slurm.constraint,
        _ => &mut slurm.prologue,
    };
    *field = Some(text);
}

/// The kind of the address; whether it is one is known where it is used.
pub(super) fn slurm_rest<'t>(slurm: &mut Slurm, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    let Some(text) = values.some_text(&key.field, node) else { return };
    if !["unix:/", "http://"].iter().any(|kind| text.strip_prefix(kind).is_some_and(|rest| !rest.is_empty())) {
        let message = format!("`rest` is `{text}`, which is no address of slurmrestd");
        let help = "write \"unix:/PATH\" with the path of its socket, or \"http://HOST:PORT\"";
        return values.report.add(&node.at, message, help);
    }
    slurm.rest = Some(text.to_owned());
}

/// A list of `[slurm]`.
pub(super) fn slurm_texts<'t>(slurm: &mut Slurm, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    let texts = values.texts(&key.field, node).unwrap_or_default();
    let texts = texts.into_iter().map(|text| text.value.to_owned()).collect();
    let field = if key.field.name == "modules" { &mut slurm.modules } else { &mut slurm.options };
    *field = texts;
}

pub(super) fn slurm_vram<'t>(slurm: &mut Slurm, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    let Some(text) = values.some_text(&key.field, node) else { return };
    if text != "gpu" && text.strip_prefix("gres:").is_none_or(str::is_empty) {
        let message = format!("`vram` is `{text}`, which names no resource of Slurm");
        let help = "write \"gres:vram\" for a generic resource that counts MiB, or \"gpu\" for whole graphics cards";
        return values.report.add(&node.at, message, help);
    }
    slurm.vram = Some(text.to_owned());
}

pub(super) fn slurm_window<'t>(slurm: &mut Slurm, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    slurm.window = small(key, node, values);
}

pub(super) fn slurm_resources<'t>(slurm: &mut Slurm, key: &Key, node: &Node<'t>, values: &mut Values<'t>) {
    for (name, theirs) in values.env(&key.field, node) {
        let is_known = ["gres:", "license:"]
            .iter()
            .any(|kind| theirs.value.strip_prefix(kind).is_some_and(|name| !name.is_empty()));
        if is_known {
            slurm.resources.push((name, theirs.value));
        } else {
            let message = format!("`{}` names no resource of Slurm", theirs.value);
            values.report.add(
                &theirs.at,
                message,
                format!("write `{name} = \"license:NAME\"` or `{name} = \"gres:NAME\"`"),
            );
        }
    }
}
