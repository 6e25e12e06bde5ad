//! What a job wants of a cluster, and how that cluster is used: as options of `sbatch`.
//!
//! Room: values.
//!
//! Pure: no clock, no file, no thread.

use core::time::Duration;
use std::path::{Path, PathBuf};

use crate::key::Key;

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
    /// Further options of `sbatch`, as they are written on its command line.
    pub options: Vec<String>,
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

/// One call of `sbatch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Which attempt.
    pub key: Key,
    /// Options of `sbatch`.
    pub options: Vec<String>,
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

/// All options of `sbatch` for an attempt. `folder` is the marks folder, `log` the log of the attempt, `grace` the time between TERM and KILL.
pub fn options(
    site: &Site,
    request: &Request,
    key: Key,
    run: &str,
    folder: &Path,
    log: &Path,
    grace: Duration,
) -> Vec<String> {
    let mut options = vec![
        "--parsable".to_owned(),
        // A job that Slurm starts again would find no permit; so it is not to try.
        "--no-requeue".to_owned(),
        format!("--job-name={}", key.job_name(run)),
        format!("--comment={}", key.comment(folder)),
        // In a file name `%` opens a pattern.
        format!("--output={}", log.display().to_string().replace('%', "%%")),
        "--open-mode=append".to_owned(),
    ];
    options.extend(of_site(site, request, grace));
    options
}

/// The options that decide where and when a job may run.
pub fn of_site(site: &Site, request: &Request, grace: Duration) -> Vec<String> {
    let mut options = vec![format!("--cpus-per-task={}", request.cpus.max(1))];
    let mut add = |name: &str, value: Option<String>| options.extend(value.map(|value| format!("--{name}={value}")));
    add("partition", site.partition.clone());
    add("account", site.account.clone());
    add("qos", site.qos.clone());
    add("constraint", site.constraint.clone());
    add("ntasks", request.tasks.map(|tasks| tasks.to_string()));
    add("nodes", request.nodes.map(|nodes| nodes.to_string()));
    add("mem", request.ram_mb.map(|mb| format!("{}M", mebibytes(mb))));
    add("nice", (request.nice > 0).then(|| request.nice.min(NICE_MAX).to_string()));
    add("time", request.timeout.map(|time| ((time + grace + TIME_RESERVE).as_secs().div_ceil(60)).to_string()));
    let (gres, licences) = resources(site, request);
    add("gres", (!gres.is_empty()).then(|| gres.join(",")));
    add("licenses", (!licences.is_empty()).then(|| licences.join(",")));
    options.extend(site.options.iter().cloned());
    options
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
