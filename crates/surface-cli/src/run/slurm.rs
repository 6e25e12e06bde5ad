//! Jobs of a plan that go to Slurm.
//!
//! Room: driver.
//!
//! What the file says becomes what `sched-slurm` takes; before a run begins, one call for each kind of demand says whether the cluster could ever give it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sched_jobs::Demand;
use sched_slurm::{Cluster, News, Request, Settings, Site, Slurm, VramAs};
use surface_jobfile::{Job, Plan};

use super::record::Recorder;
use crate::cluster::{cluster, failure};
use crate::exit::{Failure, say};
use crate::runs::marks_dir;
use crate::view::log_path;
use crate::view::text::clean;

/// The named resource by which jobs with Slurm are counted. No file can declare it: names there have no spaces.
pub(crate) const WITH_SLURM: &str = "jobs with Slurm";

/// How many jobs are with Slurm at a time, unless the file says so.
const WINDOW: u32 = 1_000;

/// How long the scheduler waits at least until a job has paused: Slurm may need seconds for many.
pub(crate) const PAUSE_TIMEOUT: Duration = Duration::from_secs(40);

/// How many kinds of demand are tried out before a run begins.
const TRIED_OUT: usize = 50;

/// Whether any job goes to Slurm.
pub(crate) fn is_used(plan: &Plan) -> bool {
    plan.jobs.iter().any(|job| plan.is_on_slurm(job))
}

/// How many jobs are with Slurm at a time.
pub(crate) fn window(plan: &Plan) -> u64 {
    plan.slurm.window.unwrap_or(WINDOW).into()
}

/// What a job takes of what this run counts. CPUs and memory of a job that goes to Slurm are not those of this machine.
pub(crate) fn counted(plan: &Plan, job: &Job, demand: &Demand) -> Demand {
    let mut demand = demand.clone();
    if plan.is_on_slurm(job) {
        (demand.cpu_slots, demand.ram_mb, demand.vram_mb, demand.gpus) = (0, 0, 0, 0);
        demand.named.push((WITH_SLURM.to_owned(), 1));
    }
    demand
}

/// The highest priority of the jobs that go to Slurm.
pub(crate) fn highest(plan: &Plan) -> i32 {
    plan.jobs.iter().filter(|job| plan.is_on_slurm(job)).map(|job| job.priority).max().unwrap_or(0)
}

/// What a job wants of the cluster. One of the highest priority has the nice value 0: only administrators may give a lower one.
pub(crate) fn request(job: &Job, highest: i32) -> Request {
    Request {
        cpus: job.cpu.unwrap_or(1),
        // What it promises to take is what Slurm would end it for, so its own limit counts if that is higher.
        ram_mb: job.ram_mb.max(job.ram_limit_mb),
        gpus: job.gpus.unwrap_or(0),
        vram_mb: if job.gpus == Some(0) { 0 } else { job.vram_mb.unwrap_or(0) },
        named: job.named.clone(),
        timeout: job.timeout_ms.map(Duration::from_millis),
        nice: highest.abs_diff(job.priority),
        tasks: job.tasks,
        nodes: job.nodes,
    }
}

fn site(plan: &Plan) -> Site {
    let slurm = &plan.slurm;
    let vram = match slurm.vram.as_deref().map(|text| text.split_once(':').unwrap_or((text, ""))) {
        Some(("gres", name)) => VramAs::Gres(name.to_owned()),
        Some(_) => VramAs::Cards,
        None => VramAs::Auto,
    };
    Site {
        partition: slurm.partition.clone(),
        account: slurm.account.clone(),
        qos: slurm.qos.clone(),
        constraint: slurm.constraint.clone(),
        vram,
        resources: slurm.resources.clone(),
        modules: slurm.modules.clone(),
        prologue: slurm.prologue.clone(),
    }
}

/// A cluster, and how jobs are submitted there.
pub(crate) struct Target {
    cluster: Arc<dyn Cluster>,
    site: Site,
}

/// Whether the jobs of a new run can go to Slurm, before anything starts. `None`: none does.
pub(crate) fn check(plan: &Plan) -> Result<Option<Target>, Failure> {
    let Some(target) = reach(plan)? else { return Ok(None) };
    let mut tried: HashSet<Request> = HashSet::new();
    for job in plan.jobs.iter().filter(|job| plan.is_on_slurm(job)) {
        let request = request(job, job.priority); // a nice value makes nothing impossible
        if tried.len() < TRIED_OUT && tried.insert(request.clone()) {
            let note = sched_slurm::check_request(&*target.cluster, &target.site, &job.name, &request);
            if let Some(note) = note.map_err(failure)? {
                say!("bursar: job `{}`: {note}", clean(&job.name));
            }
        }
    }
    Ok(Some(target))
}

/// How jobs go to Slurm, if it can be reached. For a resumed run that is all: what it wants was tried out when it began, and nodes may be away now. `None`: none goes there.
pub(crate) fn reach(plan: &Plan) -> Result<Option<Target>, Failure> {
    if !is_used(plan) {
        return Ok(None);
    }
    let (cluster, mut site) = (cluster(plan)?, site(plan));
    sched_slurm::check(&*cluster, &mut site).map_err(failure)?;
    Ok(Some(Target { cluster, site }))
}

/// The executor of a run whose folder is `folder`.
pub(crate) fn open(
    target: Target,
    run: &str,
    folder: &Path,
    pause_timeout: Duration,
    recorder: &Arc<Recorder>,
) -> Result<Arc<Slurm>, Failure> {
    let (logs, news) = (folder.join("logs"), Arc::clone(recorder));
    let settings = Settings {
        folder: marks_dir(folder),
        run: run.to_owned(),
        site: target.site,
        log: Box::new(move |attempt| log_path(&logs, attempt.job.index(), attempt.attempt)),
        listen: Box::new(move |attempt, what| match what {
            News::Placed { node, id } => news.on_placed(attempt, node, id),
            News::Warning(text) => news.on_news(attempt, sched_jobs::process::News::Warning(text)),
            _ => news.on_news(attempt, sched_jobs::process::News::Ended),
        }),
        pause_timeout,
    };
    let slurm = Arc::new(Slurm::open(target.cluster, settings).map_err(failure)?);
    recorder.watch_slurm(Arc::downgrade(&slurm));
    Ok(slurm)
}
