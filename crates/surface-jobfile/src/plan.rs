//! A checked job file as plain values.
//!
//! Room: values.
//!
//! Knows nothing of schedulers, so all that run, store or draw a plan take the same one.
//!
//! # Invariant
//! In a plan that [`parse`](crate::parse) made, names are unique, `needs` are indices of other jobs in rising order,
//! and no job needs itself, not even through others. A plan that was put together by hand may break this, so nothing
//! here panics if it does.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vocab::Fnv1a;

/// Jobs, their dependencies, and their common limits.
///
/// ```
/// let plan = surface_jobfile::parse("film.toml", r#"
///     [job.image]
///     foreach = { scene = "1..8" }
///     run = "render {scene}"
///     [job.film]
///     needs = ["image"]
///     run = "join *.png"
/// "#)?;
/// assert_eq!(plan.name, "film");
/// assert_eq!(plan.jobs[2].name, "image[3]");
/// assert_eq!(plan.jobs[8].needs, [0, 1, 2, 3, 4, 5, 6, 7]);
/// # Ok::<(), surface_jobfile::Problems>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// `name` of the file, or the file's own name without its ending.
    pub name: String,
    /// The folder of the file: commands start there, and relative paths mean it.
    pub base: PathBuf,
    /// The limits for all jobs together.
    pub resources: Resources,
    /// In the order of the file; instances of a `foreach` one after the other.
    pub jobs: Vec<Job>,
    /// Where jobs run that do not say so themselves; `None`: on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<On>,
    /// How jobs go to Slurm.
    #[serde(skip_serializing_if = "Slurm::is_default")]
    pub slurm: Slurm,
}

/// Where a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// On this machine.
    Local,
    /// On a node of a Slurm cluster.
    Slurm,
}

/// How jobs go to Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slurm {
    /// Where slurmrestd is, `unix:/path` or `http://host:port`; `None`: the commands of Slurm are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<String>,
    /// The partition.
    pub partition: Option<String>,
    /// The account.
    pub account: Option<String>,
    /// The quality of service.
    pub qos: Option<String>,
    /// Features that a node must have.
    pub constraint: Option<String>,
    /// Further options of `sbatch`.
    pub options: Vec<String>,
    /// How video memory is asked for: `gpu`, or `gres:` and the name of a generic resource in MiB.
    pub vram: Option<String>,
    /// Environment modules to load.
    pub modules: Vec<String>,
    /// Shell lines before each command.
    pub prologue: Option<String>,
    /// Jobs that are submitted at a time.
    pub window: Option<u32>,
    /// Named resources, and what they are called in Slurm.
    pub resources: Vec<(String, String)>,
}

impl Slurm {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The limits for all jobs together; `None` is left to the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// CPU slots.
    pub cpu: Option<u32>,
    /// Main memory in MB (10^6 bytes); 0 is unlimited.
    pub ram_mb: Option<u64>,
    /// Memory of each graphics card in MB; 0 is unlimited.
    pub vram_mb: Option<u64>,
    /// Graphics cards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Any other, in the order of the file.
    pub named: Vec<(String, u64)>,
}

/// One command, and what it takes to run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// `compose`, or with the values of its `foreach`: `image[3]`, `test[linux,stable]`.
    pub name: String,
    /// The name without values: `image`.
    pub group: String,
    /// The values, by key in the order of the file.
    #[serde(default)]
    pub values: Vec<(String, String)>,
    /// Jobs that must succeed before, by their index in [`Plan::jobs`].
    #[serde(default)]
    pub needs: Vec<usize>,
    /// What is run.
    pub action: Action,
    /// CPU slots; `None`: an estimate, or the default.
    #[serde(default)]
    pub cpu: Option<u32>,
    /// Main memory in MB; `None`: an estimate, or the default.
    #[serde(default)]
    pub ram_mb: Option<u64>,
    /// Memory on each of its graphics cards in MB.
    #[serde(default)]
    pub vram_mb: Option<u64>,
    /// Graphics cards; `None`: one with `vram_mb`, else none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Of the named resources.
    #[serde(default)]
    pub named: Vec<(String, u64)>,
    /// Higher goes first.
    #[serde(default)]
    pub priority: i32,
    /// Attempts after the first that fails.
    #[serde(default)]
    pub retries: u32,
    /// Pause before the first retry.
    #[serde(default)]
    pub backoff_ms: Option<u64>,
    /// Wall time an attempt may take.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Time between SIGTERM and SIGKILL.
    #[serde(default)]
    pub grace_ms: Option<u64>,
    /// Main memory it may really use, in MB.
    #[serde(default)]
    pub ram_limit_mb: Option<u64>,
    /// What happens above `ram_limit_mb`.
    #[serde(default)]
    pub over_ram: OverRam,
    /// Disk space that a log of it may take, in MB; 0: no limit.
    #[serde(default)]
    pub log_limit_mb: Option<u64>,
    /// CPUs it may run on, by number; empty: any.
    #[serde(default, alias = "pin")]
    pub cpus: Vec<u32>,
    /// Its nice value, −20 to 19.
    #[serde(default)]
    pub nice: Option<i32>,
    /// How the system treats it; `None`: as the run says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Its share of CPU time, 1 to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// CPU time that is reserved for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// Variables added to those of the caller, sorted by name.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// Where it starts, from [`Plan::base`].
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Files and globs it reads, from where it starts.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Files it writes, from where it starts.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// What happens to outputs of an attempt that did not succeed.
    #[serde(default)]
    pub incomplete: Incomplete,
    /// What a resumed run does if this one was running.
    #[serde(default)]
    pub on_crash: OnCrash,
    /// Where it runs; `None`: as the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<On>,
    /// Tasks of a parallel job on Slurm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// Nodes of a parallel job on Slurm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// `run = "…"`: a line for a shell.
    Shell {
        /// `sh`, unless the file names another.
        shell: String,
        /// Handed to it with `-c`.
        line: String,
    },
    /// `command = […]`: a program and its arguments, without a shell.
    Argv(Vec<String>),
    /// `flow = "…"`: a flow file, from the folder of the job.
    Flow(String),
    /// `exec = "…"`: a Janus program.
    Exec {
        /// From the folder of the job.
        file: String,
        /// Arguments and limits, as options of `bursar exec`.
        #[serde(default)]
        options: Vec<String>,
    },
}

impl Action {
    /// The program and its arguments, also of a shell line. A flow and a Janus program are run by `bursar` itself; the file is the last argument.
    ///
    /// ```
    /// use surface_jobfile::Action;
    /// let action = Action::Shell { shell: "sh".into(), line: "echo hello".into() };
    /// assert_eq!(action.argv(), ["sh", "-c", "echo hello"]);
    /// ```
    pub fn argv(&self) -> Vec<&str> {
        match self {
            Self::Shell { shell, line } => vec![shell, "-c", line],
            Self::Argv(argv) => argv.iter().map(String::as_str).collect(),
            Self::Flow(path) => vec!["bursar", "flow", "run", "--plain", "--", path],
            Self::Exec { file, options } => {
                let options = options.iter().map(String::as_str);
                ["bursar", "exec"].into_iter().chain(options).chain(["--", file]).collect()
            }
        }
    }
}

/// How the system treats a job and everything it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// As `bursar` itself.
    Normal,
    /// It waits for little.
    Latency,
    /// It gives way to what a person waits for.
    Batch,
    /// It gets what no other process wants.
    Idle,
}

/// CPU time that is reserved for a job: `budget_us` in every `period_us`, each time within `deadline_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// CPU time in each period.
    pub budget_us: u64,
    /// How soon in each period.
    pub deadline_us: u64,
    /// How often.
    pub period_us: u64,
}

/// What happens to a job that uses more than its `ram_limit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverRam {
    /// It is killed, and fails.
    #[default]
    Kill,
    /// A warning is printed.
    Warn,
}

/// What happens to outputs of an attempt that did not succeed. They never count as complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Incomplete {
    /// They are removed, unless they were there before the attempt.
    #[default]
    Remove,
    /// They stay.
    Keep,
}

/// What a resumed run does with a job that was running when the last one ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnCrash {
    /// Continues with its processes if they still run, else starts it again.
    #[default]
    Adopt,
    /// Kills what is left of it and starts it again.
    Restart,
    /// Kills what is left of it; the job has failed.
    Fail,
}

impl Job {
    /// A job with a name and a command, and defaults for the rest.
    ///
    /// ```
    /// use surface_jobfile::{Action, Job};
    /// let job = Job::new("hello", Action::Argv(vec!["echo".into(), "hello".into()]));
    /// assert_eq!((job.group.as_str(), job.retries, job.cpu), ("hello", 0, None));
    /// ```
    pub fn new(name: impl Into<String>, action: Action) -> Self {
        let name = name.into();
        Self {
            group: name.clone(),
            name,
            values: Vec::new(),
            needs: Vec::new(),
            action,
            cpu: None,
            ram_mb: None,
            vram_mb: None,
            gpus: None,
            named: Vec::new(),
            priority: 0,
            retries: 0,
            backoff_ms: None,
            timeout_ms: None,
            grace_ms: None,
            ram_limit_mb: None,
            over_ram: OverRam::default(),
            log_limit_mb: None,
            cpus: Vec::new(),
            nice: None,
            class: None,
            weight: None,
            reservation: None,
            env: Vec::new(),
            cwd: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            incomplete: Incomplete::default(),
            on_crash: OnCrash::default(),
            on: None,
            tasks: None,
            nodes: None,
        }
    }

    /// Where it starts.
    pub fn folder(&self, base: &Path) -> PathBuf {
        self.cwd.as_ref().map_or_else(|| base.to_owned(), |cwd| base.join(cwd))
    }

    /// The files it makes, absolute.
    pub fn output_paths(&self, base: &Path) -> Vec<PathBuf> {
        let folder = self.folder(base);
        let path = |output: &String| {
            let path = folder.join(output);
            std::path::absolute(&path).unwrap_or(path) // only without a current directory
        };
        self.outputs.iter().map(path).collect()
    }

    /// The flow file it runs, absolute, if it runs one.
    pub fn flow_path(&self, base: &Path) -> Option<PathBuf> {
        let Action::Flow(path) = &self.action else { return None };
        Some(self.absolute(base, path))
    }

    /// The Janus program it runs, absolute, and the options of `bursar exec`, if it runs one.
    pub fn exec_path(&self, base: &Path) -> Option<(PathBuf, &[String])> {
        let Action::Exec { file, options } = &self.action else { return None };
        Some((self.absolute(base, file), options))
    }

    fn absolute(&self, base: &Path, path: &str) -> PathBuf {
        let path = self.folder(base).join(path);
        std::path::absolute(&path).unwrap_or(path) // only without a current directory
    }

    /// A number for what is run: command, environment and folder. The same on every machine and in every version, so
    /// a journal may keep it; another command has, almost surely, another.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fnv1a::new();
        match &self.action {
            Action::Shell { shell, line } => texts(&mut hash, "shell", [shell.as_str(), line]),
            Action::Argv(argv) => texts(&mut hash, "argv", argv.iter().map(String::as_str)),
            Action::Flow(path) => texts(&mut hash, "flow", [path.as_str()]),
            Action::Exec { file, options } => {
                texts(&mut hash, "exec", std::iter::once(file).chain(options).map(String::as_str));
            }
        }
        texts(&mut hash, "env", self.env.iter().flat_map(|(name, value)| [name.as_str(), value]));
        texts(&mut hash, "cwd", self.cwd.iter().filter_map(|cwd| cwd.to_str()));
        hash.finish()
    }
}

/// Lengths go in, too: `["ab", "c"]` is not `["a", "bc"]`.
pub(crate) fn texts<'a>(hash: &mut Fnv1a, kind: &str, texts: impl IntoIterator<Item = &'a str>) {
    hash.write(kind.as_bytes());
    let mut count = 0_u64;
    for text in texts {
        hash.write(&(text.len() as u64).to_le_bytes());
        hash.write(text.as_bytes());
        count += 1;
    }
    hash.write(&count.to_le_bytes());
}

impl Plan {
    /// Whether a job runs on a node of a Slurm cluster.
    pub fn is_on_slurm(&self, job: &Job) -> bool {
        job.on.or(self.on) == Some(On::Slurm)
    }

    /// An order in which every job comes after those it needs; otherwise that of the file.
    ///
    /// `None` if jobs need each other in a cycle or a need is not a job, which no parsed plan has.
    ///
    /// ```
    /// let text = "[job.b]\nneeds = ['a']\nrun = 'true'\n[job.a]\nrun = 'true'";
    /// assert_eq!(surface_jobfile::parse("x.toml", text)?.order(), Some(vec![1, 0]));
    /// # Ok::<(), surface_jobfile::Problems>(())
    /// ```
    pub fn order(&self) -> Option<Vec<usize>> {
        let needs: Vec<&[usize]> = self.jobs.iter().map(|job| job.needs.as_slice()).collect();
        let order = surface_text::cycle::order(&needs);
        (order.len() == self.jobs.len()).then_some(order)
    }
}
