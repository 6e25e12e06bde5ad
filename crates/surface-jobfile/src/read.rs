//! A tree of values becomes drafts of jobs: checked field by field, not yet expanded.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! Reading continues after a problem, so that one pass over the file finds them all; a draft is only used if there was none.

use crate::draft::{Draft, Drafts, Line, Settings};
use crate::keys::{Key, MOST, RESOURCES, RUN, SLURM, Set, Spanned, TOP, Values, key, keys, resource};
use crate::limits::Limits;
use crate::plan::Resources;
use crate::reservation;
use surface_text::Span;
use surface_text::amounts::exact_megabytes;
use surface_text::nearest;
use surface_text::tree::{Entry, Table, Value};
use surface_text::units;

/// Keys that say what a job runs; a job has one of them.
const WHAT: [&str; 4] = ["run", "command", "flow", "exec"];

const SMALLEST: &str = "the smallest file is\n[job.hello]\nrun = \"echo hello\"";

/// Reads the whole tree.
pub(crate) fn read<'n, 't>(tree: &'n Table<'t>, values: &mut Values<'t>, limits: &Limits) -> Drafts<'n, 't> {
    let mut drafts = Drafts::default();
    let find = |key: &str| tree.entries.iter().find(|entry| entry.key == key);
    for entry in &tree.entries {
        if !TOP.iter().any(|part| part.field.name == entry.key) {
            unknown_top(entry, values);
        }
    }
    let part = |name: &str| TOP.iter().find(|part| part.field.name == name).map(|part| &part.field);
    if let Some((entry, field)) = find("name").zip(part("name")) {
        drafts.name = values.some_text(field, &entry.node).map(str::to_owned);
    }
    if let Some(table) = find("resources").and_then(|entry| section(entry, values)) {
        drafts.resources = resources(table, values);
    }
    if let Some(table) = find("run").and_then(|entry| section(entry, values)) {
        each(table, "[run]", RUN, values, |key, entry, values| {
            if let Set::Run(set) = key.set {
                set(&mut drafts.on, key, &entry.node, values);
            }
        });
    }
    if let Some(table) = find("slurm").and_then(|entry| section(entry, values)) {
        each(table, "[slurm]", SLURM, values, |key, entry, values| {
            if let Set::Slurm(set) = key.set {
                set(&mut drafts.slurm, key, &entry.node, values);
            }
        });
    }
    let mut shared = Settings::default();
    if let Some((entry, field)) = find("env").zip(part("env")) {
        shared.env = values.env(field, &entry.node);
    }
    if let Some(table) = find("defaults").and_then(|entry| section(entry, values)) {
        let mut defaults = Settings::default();
        for entry in &table.entries {
            match key(&entry.key) {
                Some(key @ Key { set: Set::Shared(set), .. }) => set(&mut defaults, key, &entry.node, values),
                Some(key) => {
                    let message = format!("`{}` cannot be in [defaults]", key.field.name);
                    values.report.add(&entry.at, message, "write it in each job");
                }
                None => named(&mut defaults, entry, &drafts.resources, values),
            }
        }
        shared = defaults.over(&shared);
    } else {
        shared = Settings::default().over(&shared);
    }
    if let Some(table) = find("job").and_then(|entry| section(entry, values)) {
        drafts.jobs.reserve(table.entries.len());
        drafts.shared = shared.clone();
        for entry in &table.entries {
            if let Some(draft) = draft(entry, &shared, &drafts.resources, values, limits) {
                drafts.jobs.push(draft);
            }
        }
    }
    if drafts.jobs.is_empty() && values.report.is_empty() {
        let end = values.source.len();
        values.report.add(&(end..end), "there is no job in this file", SMALLEST);
    }
    drafts
}

/// Each entry of a section whose keys are all in `keys`.
fn each<'t>(
    table: &Table<'t>,
    section: &str,
    keys: &[Key],
    values: &mut Values<'t>,
    mut set: impl FnMut(&Key, &Entry<'t>, &mut Values<'t>),
) {
    for entry in &table.entries {
        match keys.iter().find(|key| key.field.name == entry.key) {
            Some(key) => set(key, entry, values),
            None => {
                let names = || keys.iter().map(|key| key.field.name);
                let help = match nearest(&entry.key, names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it has {}", names().collect::<Vec<_>>().join(", ")),
                };
                let message = format!("`{}` is not a field of {section}", units::clip(&entry.key));
                values.report.add(&entry.at, message, help);
            }
        }
    }
}

fn unknown_top(entry: &Entry<'_>, values: &mut Values<'_>) {
    let name = units::clip(&entry.key);
    let message = format!("`{name}` is not a part of a job file");
    let help = if let Some(near) = nearest(&entry.key, TOP.iter().map(|part| part.field.name)) {
        format!("did you mean `{near}`?")
    } else if matches!(entry.node.value, Value::Table(_)) {
        format!(
            "a job is written `[job.{name}]`; the parts are name, [resources], [run], [slurm], [defaults], [env] and [job.NAME]"
        )
    } else if key(&entry.key).is_some() {
        "write it in a job, `[job.NAME]`, or for all jobs in `[defaults]`".to_owned()
    } else {
        "the parts are name, [resources], [run], [slurm], [defaults], [env] and [job.NAME]".to_owned()
    };
    values.report.add(&entry.at, message, help);
}

fn section<'n, 't>(entry: &'n Entry<'t>, values: &mut Values<'t>) -> Option<&'n Table<'t>> {
    if let Value::Table(table) = &entry.node.value {
        return Some(table);
    }
    let (kind, written) = (entry.node.value.kind(), values.written(&entry.node.at));
    let header = if entry.key == "job" { "job.NAME" } else { entry.key.as_ref() };
    let message = format!("`{}` is a section, not {kind} `{written}`", entry.key);
    values.report.add(&entry.at, message, format!("write `[{header}]` on a line of its own, and its fields below"));
    None
}

/// Named resources; each demand is looked up among them.
const NAMED: usize = 64;

fn resources<'t>(table: &Table<'t>, values: &mut Values<'t>) -> Resources {
    let mut resources = Resources::default();
    for entry in &table.entries {
        let node = &entry.node;
        if let Some(known) = RESOURCES.iter().find(|known| known.field.name == entry.key) {
            if let Set::Resource(set) = known.set {
                set(&mut resources, known, node, values);
            }
            continue;
        }
        match (entry.key.as_ref(), key(&entry.key)) {
            (key, Some(_)) => {
                let message = format!("`{key}` is a field of a job, so it cannot name a resource");
                values.report.add(&entry.at, message, "give the resource another name");
            }
            (key, None) if !fit_name(key) => bad_name(entry, "resource", values),
            (key, None) if resources.named.len() == NAMED => {
                let message = format!("`{key}` is one more than the {NAMED} named resources there may be");
                values.report.add(&entry.at, message, "remove those no job uses");
                break;
            }
            (key, None) => {
                if let Some(count) = values.whole(&resource(key), node, 0, MOST) {
                    resources.named.push((key.to_owned(), u64::try_from(count).unwrap_or(0)));
                }
            }
        }
    }
    resources
}

/// A key that is not a field: a named resource, or a mistake.
fn named<'t>(settings: &mut Settings, entry: &Entry<'t>, resources: &Resources, values: &mut Values<'t>) {
    if resources.named.iter().any(|(name, _)| *name == entry.key) {
        if let Some(count) = values.whole(&resource(&entry.key), &entry.node, 0, MOST) {
            let value = u64::try_from(count).unwrap_or(0);
            settings.named.push((entry.key.to_string(), Spanned { at: entry.node.at.clone(), value }));
        }
        return;
    }
    let name = units::clip(&entry.key);
    let candidates = keys().map(|key| key.field.name).chain(resources.named.iter().map(|(name, _)| name.as_str()));
    let help = match (nearest(&entry.key, candidates), &entry.node.value) {
        _ if entry.key == "pin" => "it is called `cpus`".to_owned(),
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, Value::Whole(_)) => {
            format!("if it is a resource, say how much there is: `{name} = 1` under [resources]")
        }
        (None, _) => format!("a job has {}", list_of_fields()),
    };
    values.report.add(&entry.at, format!("`{name}` is not a field of a job"), help);
}

fn list_of_fields() -> String {
    keys().map(|key| key.field.name).collect::<Vec<_>>().join(", ")
}

fn draft<'n, 't>(
    entry: &'n Entry<'t>,
    shared: &Settings,
    resources: &Resources,
    values: &mut Values<'t>,
    limits: &Limits,
) -> Option<Draft<'n, 't>> {
    let name = entry.key.as_ref();
    if !fit_name(name) {
        bad_name(entry, "job", values);
        return None;
    }
    if name.len() > limits.name_bytes {
        let (name, length, most) = (units::clip(name), name.len(), limits.name_bytes);
        let message = format!("the name `{name}` has {length} bytes, but the limit is {most}");
        values.report.add(&entry.at, message, "write a shorter one");
        return None;
    }
    let Value::Table(table) = &entry.node.value else {
        let (kind, written) = (entry.node.value.kind(), values.written(&entry.node.at));
        let message = format!("job `{}` is a section, not {kind} `{written}`", units::clip(name));
        values.report.add(&entry.at, message, format!("write `[job.{}]` and below it `run = …`", units::clip(name)));
        return None;
    };
    let mut own = Settings::default();
    let mut draft = Draft {
        name,
        at: entry.at.clone(),
        line: None,
        args: None,
        exec_limits: Vec::new(),
        foreach: None,
        exclude: None,
        include: None,
        needs: Vec::new(),
        needs_inputs: false,
        inputs: Vec::new(),
        outputs: Vec::new(),
        budget_us: None,
        deadline_us: None,
        period_us: None,
        on: None,
        nodes: None,
        own: Settings::default(),
    };
    let mut found: Vec<&Entry<'t>> = Vec::new();
    for entry in &table.entries {
        if WHAT.contains(&&*entry.key) {
            found.push(entry);
        }
        match key(&entry.key) {
            Some(key @ Key { set: Set::Job(set), .. }) => set(&mut draft, key, &entry.node, values),
            Some(key @ Key { set: Set::Shared(set), .. }) => set(&mut own, key, &entry.node, values),
            Some(_) | None => named(&mut own, entry, resources, values),
        }
    }
    found.sort_by_key(|entry| entry.at.start);
    match &found[..] {
        [first, second, ..] => {
            let message = format!("job `{name}` has both `{}` and `{}`", first.key, second.key);
            let help = "keep `run` for a shell line, `command` to do without a shell, `flow` for a flow file, or `exec` for a Janus program";
            values.report.add(&second.at, message, help);
        }
        [] => {
            let message = format!("job `{}` has nothing to do", units::clip(name));
            let help = "write `run = \"…\"` for a shell line, or `command = [\"…\"]`";
            values.report.add(&draft.at, message, help);
        }
        [only] if only.key != "run" && own.shell.is_some() => {
            let message = format!("job `{name}` has a `shell`, but `{}` runs without one", only.key);
            values.report.add(&draft.at, message, "write `run`, or remove `shell`");
        }
        _ => {}
    }
    // The file says what it does: the job is out of date when that file is newer.
    if let Some(Line::Flow(path) | Line::Exec(path)) = &draft.line {
        draft.inputs.push(Spanned { at: path.at.clone(), value: path.value });
    }
    if !matches!(draft.line, Some(Line::Exec(_))) && found.iter().all(|entry| entry.key != "exec") {
        let args = draft.args.iter().map(|args| ("args", &args.at));
        for (key, at) in args
            .chain(draft.exec_limits.iter().filter(|(key, _)| *key != "tasks").map(|(key, limit)| (*key, &limit.at)))
        {
            let message = format!("job `{name}` has `{key}`, which is for a Janus program");
            values.report.add(at, message, "write `exec = \"step.jan\"` instead of what it runs, or remove it");
        }
    }
    for path in draft.inputs.iter().chain(&draft.outputs).filter(|path| path.value.is_empty()) {
        values.report.add(&path.at, "this file has no name", "write one, or remove it from the list");
    }
    draft.own = own;
    reservation::check(&draft, values);
    demands(&draft, shared, resources, values);
    Some(draft)
}

/// A demand that can never be met is reported here, not after the job has waited for an hour.
fn demands(draft: &Draft<'_, '_>, shared: &Settings, resources: &Resources, values: &mut Values<'_>) {
    let mut check = |what: &str, at: &Span, wanted: u64, limit: u64| {
        if wanted > limit {
            let name = draft.name;
            let message = format!("job `{name}` wants {wanted} {what}, and [resources] has {limit}");
            values.report.add(at, message, format!("lower it, or write `{what} = {wanted}` under [resources]"));
        }
    };
    if let (Some(cpu), Some(limit)) = (draft.own.cpu.as_ref().or(shared.cpu.as_ref()), resources.cpu) {
        check("cpu", &cpu.at, u64::from(cpu.value), u64::from(limit));
    }
    if let (Some(gpus), Some(limit)) = (draft.own.gpus.as_ref().or(shared.gpus.as_ref()), resources.gpus) {
        check("gpus", &gpus.at, u64::from(gpus.value), u64::from(limit));
    }
    let inherited = shared.named.iter().filter(|(name, _)| !draft.own.named.iter().any(|(own, _)| own == name));
    for (name, demand) in draft.own.named.iter().chain(inherited) {
        if let Some((_, limit)) = resources.named.iter().find(|(resource, _)| resource == name) {
            check(name, &demand.at, demand.value, *limit);
        }
    }
    // Where cards are not declared, video memory is one soft limit, and more than all of it runs alone.
    let vram = draft.own.vram_mb.as_ref().or(shared.vram_mb.as_ref());
    if let (Some(vram), Some(limit), Some(1..)) = (vram, resources.vram_mb.filter(|mb| *mb > 0), resources.gpus)
        && vram.value > limit
    {
        let (wanted, has) = (exact_megabytes(vram.value), exact_megabytes(limit));
        let message =
            format!("job `{}` needs {wanted} of vram on one card, and [resources] has {has} for each", draft.name);
        values.report.add(&vram.at, message, format!("lower it, or write `vram = \"{wanted}\"` under [resources]"));
    }
}

/// Names are part of commands, messages and lists of needs: no spaces, brackets, braces, commas or quotes.
fn fit_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || "_-.:+@/".contains(c))
}

fn bad_name(entry: &Entry<'_>, what: &str, values: &mut Values<'_>) {
    let message = format!("`{}` cannot be the name of a {what}", units::clip(&entry.key).escape_debug());
    values.report.add(&entry.at, message, "start with a letter, and use letters, digits and any of `_-.:+@/`");
}
