//! A file as it was read: its jobs checked field by field, not yet expanded.
//!
//! Room: values.

use crate::plan::{Class, Incomplete, On, OnCrash, OverRam, Reservation, Resources, Slurm};
use surface_text::Span;
use surface_text::fields::Spanned;
use surface_text::tree::Node;

/// What `[defaults]` and a job may both set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) shell: Option<String>,
    pub(crate) cpu: Option<Spanned<u32>>,
    pub(crate) ram_mb: Option<u64>,
    pub(crate) vram_mb: Option<Spanned<u64>>,
    pub(crate) gpus: Option<Spanned<u32>>,
    pub(crate) named: Vec<(String, Spanned<u64>)>,
    pub(crate) priority: Option<i32>,
    pub(crate) retries: Option<u32>,
    pub(crate) backoff_ms: Option<u64>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) grace_ms: Option<u64>,
    pub(crate) ram_limit_mb: Option<u64>,
    pub(crate) log_limit_mb: Option<u64>,
    pub(crate) over_ram: Option<OverRam>,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) nice: Option<i32>,
    pub(crate) class: Option<Class>,
    pub(crate) weight: Option<u32>,
    pub(crate) env: Vec<(String, Spanned<String>)>,
    pub(crate) cwd: Option<Spanned<String>>,
    pub(crate) incomplete: Option<Incomplete>,
    pub(crate) on_crash: Option<OnCrash>,
}

impl Settings {
    /// Bytes a copy takes, about: `[defaults]` and `[env]` are copied into every job.
    pub(crate) fn text_bytes(&self) -> usize {
        let env: usize = self.env.iter().map(|(name, value)| name.len() + value.value.len() + 64).sum();
        let named: usize = self.named.iter().map(|(name, _)| name.len() + 32).sum();
        let cpus = self.cpus.as_ref().map_or(0, |cpus| cpus.len() * 4);
        env + named
            + cpus
            + self.shell.as_ref().map_or(0, String::len)
            + self.cwd.as_ref().map_or(0, |cwd| cwd.value.len())
    }

    /// These settings where they are set, else the defaults.
    pub(crate) fn over(self, defaults: &Settings) -> Settings {
        let d = defaults;
        Settings {
            shell: self.shell.or_else(|| d.shell.clone()),
            cpu: self.cpu.or_else(|| d.cpu.clone()),
            ram_mb: self.ram_mb.or(d.ram_mb),
            vram_mb: self.vram_mb.or_else(|| d.vram_mb.clone()),
            gpus: self.gpus.or_else(|| d.gpus.clone()),
            named: merged(&d.named, self.named),
            priority: self.priority.or(d.priority),
            retries: self.retries.or(d.retries),
            backoff_ms: self.backoff_ms.or(d.backoff_ms),
            timeout_ms: self.timeout_ms.or(d.timeout_ms),
            grace_ms: self.grace_ms.or(d.grace_ms),
            ram_limit_mb: self.ram_limit_mb.or(d.ram_limit_mb),
            log_limit_mb: self.log_limit_mb.or(d.log_limit_mb),
            over_ram: self.over_ram.or(d.over_ram),
            cpus: self.cpus.or_else(|| d.cpus.clone()),
            nice: self.nice.or(d.nice),
            class: self.class.or(d.class),
            weight: self.weight.or(d.weight),
            env: merged(&d.env, self.env),
            cwd: self.cwd.or_else(|| d.cwd.clone()),
            incomplete: self.incomplete.or(d.incomplete),
            on_crash: self.on_crash.or(d.on_crash),
        }
    }
}

/// Both, sorted by name; of two with one name the second.
fn merged<T: Clone>(under: &[(String, T)], mut over: Vec<(String, T)>) -> Vec<(String, T)> {
    over.extend_from_slice(under);
    over.sort_by(|a, b| a.0.cmp(&b.0)); // stable: what came first stays first
    over.dedup_by(|later, first| later.0 == first.0);
    over
}

/// What a job runs, before its placeholders are filled.
#[derive(Debug)]
pub(crate) enum Line<'n> {
    Shell(Spanned<&'n str>),
    Argv(Vec<Spanned<&'n str>>),
    Flow(Spanned<&'n str>),
    /// A Janus program.
    Exec(Spanned<&'n str>),
}

/// One `[job.NAME]`.
#[derive(Debug)]
pub(crate) struct Draft<'n, 't> {
    pub(crate) name: &'n str,
    /// Of the name.
    pub(crate) at: Span,
    pub(crate) line: Option<Line<'n>>,
    /// Of a program.
    pub(crate) args: Option<Spanned<Vec<Spanned<String>>>>,
    /// Of a program: keys and their values.
    pub(crate) exec_limits: Vec<(&'static str, Spanned<i64>)>,
    pub(crate) foreach: Option<&'n Node<'t>>,
    pub(crate) exclude: Option<&'n Node<'t>>,
    pub(crate) include: Option<&'n Node<'t>>,
    pub(crate) needs: Vec<Spanned<&'n str>>,
    /// It needs the jobs that make its inputs.
    pub(crate) needs_inputs: bool,
    pub(crate) inputs: Vec<Spanned<&'n str>>,
    pub(crate) outputs: Vec<Spanned<&'n str>>,
    pub(crate) budget_us: Option<Spanned<u64>>,
    pub(crate) deadline_us: Option<Spanned<u64>>,
    pub(crate) period_us: Option<Spanned<u64>>,
    pub(crate) on: Option<On>,
    pub(crate) nodes: Option<u32>,
    /// Without what is shared.
    pub(crate) own: Settings,
}

impl Draft<'_, '_> {
    /// The CPU time that is reserved for it: a deadline is a period, if there is no other, and the other way round.
    pub(crate) fn reservation(&self) -> Option<Reservation> {
        let of = |time: &Option<Spanned<u64>>| time.as_ref().map(|time| time.value);
        let (deadline, period) = (of(&self.deadline_us), of(&self.period_us));
        Some(Reservation {
            budget_us: of(&self.budget_us)?,
            deadline_us: deadline.or(period)?,
            period_us: period.or(deadline)?,
        })
    }
}

/// A whole file.
#[derive(Debug, Default)]
pub(crate) struct Drafts<'n, 't> {
    pub(crate) name: Option<String>,
    pub(crate) resources: Resources,
    pub(crate) on: Option<On>,
    pub(crate) slurm: Slurm,
    /// `[defaults]` and `[env]`.
    pub(crate) shared: Settings,
    pub(crate) jobs: Vec<Draft<'n, 't>>,
}
