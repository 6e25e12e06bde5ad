//! Drafts become jobs: placeholders filled, names given, needs resolved.
//!
//! Room: surface.
//!
//! # Invariant
//! Everything is counted before it is built: jobs, text and edges stay within the limits, also for the job that would exceed them.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use crate::draft::{Draft, Drafts, Line, Settings};
use crate::foreach::{self, ExpandContext, Instances};
use crate::keys::{Spanned, Values};
use crate::limits::Limits;
use crate::plan::{Action, Job};
use crate::template::Template;
use surface_text::Span;
use surface_text::units::clip;

/// Jobs of a file, and the range of jobs of each draft.
#[derive(Default)]
pub(crate) struct Expanded {
    pub(crate) jobs: Vec<Job>,
    pub(crate) ranges: Vec<Range<usize>>,
    pub(crate) keys: Vec<Vec<String>>,
}

/// Expands all drafts; needs are left empty.
pub(crate) fn expand<'t>(
    drafts: &Drafts<'_, 't>,
    base: &std::path::Path,
    limits: &Limits,
    values: &mut Values<'t>,
) -> Expanded {
    let mut all = Expanded::default();
    let mut text_left = limits.text_bytes;
    for draft in &drafts.jobs {
        let start = all.jobs.len();
        let context = ExpandContext { base, limits, jobs_left: limits.jobs - start };
        let instances = foreach::expand(draft, &context, values);
        let mut keys = Vec::new();
        if let Some(instances) = instances {
            let weight = drafts.shared.text_bytes();
            let Some(left) = text_left.checked_sub(weight) else {
                too_much_text(draft, limits, values);
                break;
            };
            text_left = left;
            let settings = draft.own.clone().over(&drafts.shared);
            if let Some((jobs, left)) = jobs(draft, &settings, &instances, limits, text_left, values) {
                all.jobs.extend(jobs);
                text_left = left;
            }
            keys = instances.axes.into_iter().map(|axis| axis.key).collect();
        }
        all.ranges.push(start..all.jobs.len());
        all.keys.push(keys);
        if all.jobs.len() >= limits.jobs && all.ranges.len() < drafts.jobs.len() {
            let at = &drafts.jobs[all.ranges.len()].at;
            let message = format!("there are more than {} jobs", limits.jobs);
            values.report.add(at, message, "expand less, or split the file");
            break;
        }
    }
    all
}

fn too_much_text(draft: &Draft<'_, '_>, limits: &Limits, values: &mut Values<'_>) {
    let message = format!("with `{}` the text of all jobs has more than {} bytes", draft.name, limits.text_bytes);
    values.report.add(&draft.at, message, "expand less, or move long commands into a script");
}

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Shell,
    Argv,
    Flow,
    Exec,
}

/// The texts of a draft with their placeholders found.
struct Templates {
    line: Vec<Template>,
    what: LineKind,
    /// Of a program.
    args: Vec<Template>,
    env: Vec<Template>,
    cwd: Option<Template>,
    inputs: Vec<Template>,
    outputs: Vec<Template>,
}

impl Templates {
    fn read(draft: &Draft<'_, '_>, settings: &Settings, keys: &[&str], values: &mut Values<'_>) -> Option<Self> {
        let mut read = |at: &Span, text: &str| match Template::read(text, keys) {
            Ok(template) => Some(template),
            Err(miss) => {
                let (written, meant) = (&miss.written, &miss.meant);
                let message = format!("`{{{written}}}` is not a value of job `{}`", draft.name);
                let help = format!("did you mean `{{{meant}}}`? For the text itself write `{{{{{written}}}}}`");
                values.report.add(at, message, help);
                None
            }
        };
        let mut list = |texts: &[Spanned<&str>]| -> Vec<Option<Template>> {
            texts.iter().map(|text| read(&text.at, text.value)).collect()
        };
        let (line, what) = match draft.line.as_ref()? {
            Line::Shell(line) => (list(std::slice::from_ref(line)), LineKind::Shell),
            Line::Argv(argv) => (list(argv), LineKind::Argv),
            Line::Flow(path) => (list(std::slice::from_ref(path)), LineKind::Flow),
            Line::Exec(path) => (list(std::slice::from_ref(path)), LineKind::Exec),
        };
        let (inputs, outputs) = (list(&draft.inputs), list(&draft.outputs));
        let args = draft.args.iter().flat_map(|args| &args.value);
        let args: Vec<_> = args.map(|arg| read(&arg.at, &arg.value)).collect();
        let env: Vec<_> = settings.env.iter().map(|(_, value)| read(&value.at, &value.value)).collect();
        let cwd = settings.cwd.as_ref().map(|cwd| read(&cwd.at, &cwd.value));
        // Only now: all of them were checked, so every problem is reported.
        let all = |list: Vec<Option<Template>>| list.into_iter().collect::<Option<Vec<_>>>();
        let cwd = match cwd {
            Some(cwd) => Some(cwd?),
            None => None,
        };
        let (line, args, env) = (all(line)?, all(args)?, all(env)?);
        Some(Self { line, what, args, env, cwd, inputs: all(inputs)?, outputs: all(outputs)? })
    }

    fn len(&self, job: &str, values: &[&str]) -> usize {
        let all = self
            .line
            .iter()
            .chain(&self.args)
            .chain(&self.env)
            .chain(&self.cwd)
            .chain(&self.inputs)
            .chain(&self.outputs);
        all.map(|template| template.len(job, values)).fold(0, usize::saturating_add)
    }
}

/// The instances of one draft, and the text that is left; `None` after a problem.
fn jobs<'t>(
    draft: &Draft<'_, 't>,
    settings: &Settings,
    instances: &Instances,
    limits: &Limits,
    mut text_left: usize,
    values: &mut Values<'t>,
) -> Option<(Vec<Job>, usize)> {
    let keys: Vec<&str> = instances.axes.iter().map(|axis| axis.key.as_str()).collect();
    let templates = Templates::read(draft, settings, &keys, values)?;
    let fixed = settings.text_bytes() + draft.name.len() + keys.iter().map(|key| key.len()).sum::<usize>();
    let mut jobs = Vec::with_capacity(instances.combinations.len());
    for combination in &instances.combinations {
        let filling = instances.values(combination);
        let name = instance_name(draft.name, &filling);
        if name.len() > limits.name_bytes {
            let (clipped, length, most) = (clip(&name), name.len(), limits.name_bytes);
            let message = format!("the name `{clipped}` has {length} bytes, but the limit is {most}");
            values.report.add(&draft.at, message, "use shorter values");
            return None;
        }
        let length = templates.len(&name, &filling).saturating_add(fixed + 2 * name.len());
        let Some(left) = text_left.checked_sub(length) else {
            too_much_text(draft, limits, values);
            return None;
        };
        text_left = left;
        if templates.what == LineKind::Shell {
            harmless(draft, instances, &templates.line[0], &filling, values)?;
        }
        jobs.push(job(draft, settings, &templates, name, &keys, &filling));
    }
    Some((jobs, text_left))
}

/// The name of a file is data. In a shell line some characters would make it code, so those are refused.
fn harmless(
    draft: &Draft<'_, '_>,
    instances: &Instances,
    line: &Template,
    filling: &[&str],
    values: &mut Values<'_>,
) -> Option<()> {
    for (index, (axis, value)) in instances.axes.iter().zip(filling).enumerate() {
        let used = line.uses(index) || line.uses_job();
        let safe = |c: char| c.is_alphanumeric() || " _-.,:+@%=/".contains(c);
        if axis.from_disk && used && (value.starts_with('-') || !value.chars().all(safe)) {
            let key = &axis.key;
            let message =
                format!("file `{}` has characters in its name that a shell acts on", clip(value).escape_debug());
            let help =
                format!("write `command = [\"program\", \"{{{key}}}\"]`, which uses no shell, or rename the file");
            values.report.add(&draft.at, message, help);
            return None;
        }
    }
    Some(())
}

fn job(
    draft: &Draft<'_, '_>,
    settings: &Settings,
    templates: &Templates,
    name: String,
    keys: &[&str],
    filling: &[&str],
) -> Job {
    let fill = |template: &Template| template.fill(&name, filling);
    let list = |templates: &[Template]| templates.iter().map(fill).collect::<Vec<_>>();
    let reservation = draft.reservation();
    let action = match &templates.line[..] {
        [path] if templates.what == LineKind::Flow => Action::Flow(fill(path)),
        [file] if templates.what == LineKind::Exec => {
            let limits =
                draft.exec_limits.iter().map(|(key, limit)| format!("--{}={}", key.replace('_', "-"), limit.value));
            let args = templates.args.iter().map(|arg| format!("--arg={}", fill(arg)));
            Action::Exec { file: fill(file), options: limits.chain(args).collect() }
        }
        [line] if templates.what == LineKind::Shell => {
            Action::Shell { shell: settings.shell.clone().unwrap_or_else(|| "sh".to_owned()), line: fill(line) }
        }
        argv => Action::Argv(list(argv)),
    };
    Job {
        group: draft.name.to_owned(),
        values: keys.iter().zip(filling).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        needs: Vec::new(),
        action,
        cpu: settings.cpu.as_ref().map(|cpu| cpu.value),
        ram_mb: settings.ram_mb,
        vram_mb: settings.vram_mb.as_ref().map(|vram| vram.value),
        gpus: settings.gpus.as_ref().map(|gpus| gpus.value),
        named: settings.named.iter().map(|(name, demand)| (name.clone(), demand.value)).collect(),
        priority: settings.priority.unwrap_or(0),
        retries: settings.retries.unwrap_or(0),
        backoff_ms: settings.backoff_ms,
        timeout_ms: settings.timeout_ms,
        grace_ms: settings.grace_ms,
        ram_limit_mb: settings.ram_limit_mb,
        log_limit_mb: settings.log_limit_mb,
        over_ram: settings.over_ram.unwrap_or_default(),
        cpus: settings.cpus.clone().unwrap_or_default(),
        // A reservation takes the place of what `[defaults]` say.
        nice: settings.nice.filter(|_| reservation.is_none()),
        class: settings.class.filter(|_| reservation.is_none()),
        weight: settings.weight.filter(|_| reservation.is_none()),
        reservation,
        env: settings.env.iter().map(|(name, _)| name.clone()).zip(list(&templates.env)).collect(),
        cwd: templates.cwd.as_ref().map(|cwd| PathBuf::from(fill(cwd))),
        inputs: list(&templates.inputs),
        outputs: list(&templates.outputs),
        incomplete: settings.incomplete.unwrap_or_default(),
        on_crash: settings.on_crash.unwrap_or_default(),
        on: draft.on,
        // Of a program they are a limit of its budget.
        tasks: (templates.what != LineKind::Exec)
            .then(|| draft.exec_limits.iter().find(|(key, _)| *key == "tasks"))
            .flatten()
            .and_then(|(_, tasks)| u32::try_from(tasks.value).ok()),
        nodes: draft.nodes,
        name,
    }
}

/// `image[3]`, `test[linux,stable]`. Different values give different names: what could be mistaken is quoted.
pub(crate) fn instance_name(group: &str, values: &[&str]) -> String {
    let mut name = group.to_owned();
    for (index, value) in values.iter().enumerate() {
        name.push(if index == 0 { '[' } else { ',' });
        let plain = !value.is_empty()
            && value.trim() == *value
            && !value.contains(|c: char| c.is_control() || "[]{},\"\\".contains(c));
        if plain {
            name.push_str(value);
        } else {
            name.push('"');
            for c in value.chars() {
                match c {
                    '"' | '\\' => name.extend(['\\', c]),
                    c if c.is_control() => name.extend(c.escape_default()),
                    c => name.push(c),
                }
            }
            name.push('"');
        }
    }
    if !values.is_empty() {
        name.push(']');
    }
    name
}

/// Jobs by their full names, and groups by theirs.
pub(crate) struct Index<'a> {
    pub(crate) groups: HashMap<&'a str, usize>,
    instances: HashMap<&'a str, usize>,
}

impl<'a> Index<'a> {
    pub(crate) fn of(drafts: &'a Drafts<'_, '_>, all: &'a Expanded) -> Self {
        let groups =
            drafts.jobs.iter().take(all.ranges.len()).enumerate().map(|(at, draft)| (draft.name, at)).collect();
        let single = drafts.jobs.iter().flat_map(|draft| &draft.needs).any(|need| need.value.contains('['));
        let names = all.jobs.iter().enumerate().map(|(at, job)| (job.name.as_str(), at));
        Self { groups, instances: if single { names.collect() } else { HashMap::new() } }
    }

    pub(crate) fn instance(&self, name: &str) -> Option<usize> {
        self.instances.get(name).copied()
    }
}
