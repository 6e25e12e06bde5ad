//! What a job wants of a cluster, and how that cluster is used: what Slurm is told of a submission.
//!
//! Room: values.
//!
//! Pure: no clock, no file, no thread. `sbatch.rs` writes a [`Description`] as options of a command, `rest/submission.rs` as JSON: what is said is decided here, once.

use core::time::Duration;
use std::path::{Path, PathBuf};

use crate::batch::Batch;

/// How jobs are submitted at a site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Site {
    /// `--partition`.
    pub partition: Option<String>,
    /// `--account`.
    pub account: Option<String>,
    /// `--qos`.
    pub qos: Option<String>,
    /// `--constraint`.
    pub constraint: Option<String>,
    /// How video memory is asked for.
    pub vram: VramAs,
    /// Named resources, and what they are called in Slurm: `gres:NAME` or `license:NAME`. This program counts all others.
    pub resources: Vec<(String, String)>,
    /// Environment modules that every job loads.
    pub modules: Vec<String>,
    /// Shell lines that run before every command.
    pub prologue: Option<String>,
}

/// How video memory is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum VramAs {
    /// As the generic resource `vram` if the cluster has it, else as graphics cards.
    #[default]
    Auto,
    /// As a generic resource of this name, in MiB.
    Gres(String),
    /// As graphics cards alone.
    Cards,
}

/// What one job wants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Request {
    /// CPUs of each task.
    pub cpus: u32,
    /// Memory on each node, in MB (10^6 bytes).
    pub ram_mb: Option<u64>,
    /// Graphics cards.
    pub gpus: u32,
    /// Video memory on each card, in MB.
    pub vram_mb: u64,
    /// Of named resources that the site maps.
    pub named: Vec<(String, u64)>,
    /// Its time limit.
    pub timeout: Option<Duration>,
    /// How much later than the first it may be, 0 for the first: `--nice`.
    pub nice: u32,
    /// Tasks of a parallel job.
    pub tasks: Option<u32>,
    /// Nodes of a parallel job.
    pub nodes: Option<u32>,
}

/// What decides where and when a job may run. What is `None` or empty is left to the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// CPUs of each task.
    pub cpus_per_task: u32,
    /// The partition, or several with commas.
    pub partition: Option<String>,
    /// The account that pays.
    pub account: Option<String>,
    /// The quality of service.
    pub qos: Option<String>,
    /// Features that a node must have.
    pub constraint: Option<String>,
    /// Tasks of a parallel job.
    pub tasks: Option<u32>,
    /// Nodes of a parallel job.
    pub nodes: Option<u32>,
    /// Memory on each node, in MiB.
    pub memory_mib: Option<u64>,
    /// How much later than others it may be.
    pub nice: Option<u32>,
    /// Its time limit in minutes.
    pub time_minutes: Option<u64>,
    /// Generic resources, as `gpu:2`.
    pub gres: Vec<String>,
    /// Licences, as `renderer:1`.
    pub licenses: Vec<String>,
}

/// Everything that Slurm is told of a submission, beside its script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// The name of the job.
    pub name: String,
    /// Its comment, by which it is found.
    pub comment: String,
    /// The file that gets what it prints, as a pattern of Slurm. It is opened to append.
    pub output: String,
    /// The numbers of its tasks, if it is an array.
    pub array: Option<String>,
    /// Where and when it may run.
    pub terms: Terms,
}

/// One call to submit attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Its attempts.
    pub batch: Batch,
    /// What Slurm is told of it.
    pub description: Description,
    /// The script.
    pub script: PathBuf,
}

/// The greatest value of `--nice`.
const NICE_MAX: u32 = 2_147_483_645;
/// Slurm ends a job after its time limit; the script does it before, to the second.
const TIME_RESERVE: Duration = Duration::from_secs(120);

/// MB (10^6 bytes) in MiB, which Slurm counts.
fn mebibytes(mb: u64) -> u64 {
    mb.saturating_mul(1_000_000).div_ceil(1 << 20).max(1)
}

/// What Slurm is told of attempts that want the same. `folder` is the marks folder, `log` the log of the attempt, if it is one, `grace` the time between TERM and KILL.
pub fn describe(
    site: &Site,
    request: &Request,
    batch: &Batch,
    run: &str,
    folder: &Path,
    log: &Path,
    grace: Duration,
) -> Description {
    Description {
        name: batch.job_name(run),
        comment: batch.comment(folder),
        output: match batch.is_array() {
            // In a file name `%` opens a pattern. Scripts of tasks open their logs themselves.
            false => log.display().to_string().replace('%', "%%"),
            true => "/dev/null".to_owned(),
        },
        array: batch.tasks(),
        terms: terms(site, request, grace),
    }
}

/// Where and when a job may run that wants this.
pub fn terms(site: &Site, request: &Request, grace: Duration) -> Terms {
    let (gres, licenses) = resources(site, request);
    Terms {
        cpus_per_task: request.cpus.max(1),
        partition: site.partition.clone(),
        account: site.account.clone(),
        qos: site.qos.clone(),
        constraint: site.constraint.clone(),
        tasks: request.tasks,
        nodes: request.nodes,
        memory_mib: request.ram_mb.map(mebibytes),
        nice: (request.nice > 0).then(|| request.nice.min(NICE_MAX)),
        time_minutes: request.timeout.map(|time| (time + grace + TIME_RESERVE).as_secs().div_ceil(60)),
        gres,
        licenses,
    }
}

/// Generic resources and licences.
fn resources(site: &Site, request: &Request) -> (Vec<String>, Vec<String>) {
    let (mut gres, mut licences) = (Vec::new(), Vec::new());
    let cards = request.gpus.max(u32::from(request.vram_mb > 0));
    match &site.vram {
        VramAs::Gres(name) if request.vram_mb > 0 => {
            if request.gpus > 0 {
                gres.push(format!("gpu:{}", request.gpus));
            }
            gres.push(format!("{name}:{}", mebibytes(request.vram_mb).saturating_mul(cards.into())));
        }
        _ if cards > 0 => gres.push(format!("gpu:{cards}")),
        _ => {}
    }
    for (name, amount) in request.named.iter().filter(|(_, amount)| *amount > 0) {
        match site.resources.iter().find(|(known, _)| known == name).and_then(|(_, as_)| as_.split_once(':')) {
            Some(("gres", theirs)) => gres.push(format!("{theirs}:{amount}")),
            Some(("license", theirs)) => licences.push(format!("{theirs}:{amount}")),
            _ => {} // counted by this program
        }
    }
    (gres, licences)
}
