//! A run on a cluster that a test plays.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sched_jobs::process::Command;
use sched_jobs::{AttemptId, Cause, Jobs};
use sched_slurm::{Cluster, Job, Request, Settings, Site, Slurm, SlurmId};

use crate::fake::Fake;

pub(crate) const ONE: SlurmId = SlurmId { job: 1, task: None };
pub(crate) const LONG: Duration = Duration::from_secs(30);
pub(crate) const EFFECT: &str = "echo effect >> effects";

/// The folder of a run. With it ends what scripts still do there, also if a test failed or forgot the process that submitted them.
pub(crate) struct Folder {
    dir: tempfile::TempDir,
    fake: Arc<Fake>,
}

impl Folder {
    pub(crate) fn path(&self) -> &std::path::Path {
        self.dir.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.fake.kill_scripts();
    }
}

pub(crate) struct Play {
    pub(crate) folder: Folder,
    pub(crate) fake: Arc<Fake>,
    pub(crate) slurm: Arc<Slurm>,
    pub(crate) jobs: Jobs,
}

impl Play {
    pub(crate) fn new(starts: bool) -> Self {
        let fake = Arc::new(Fake::default());
        fake.state().starts = starts;
        Self::of(fake, Site::default())
    }

    /// With lines before each command.
    pub(crate) fn with_prologue(prologue: &str) -> Self {
        let site = Site { prologue: Some(prologue.to_owned()), ..Site::default() };
        let fake = Arc::new(Fake::default());
        fake.state().starts = true;
        Self::of(fake, site)
    }

    fn of(fake: Arc<Fake>, site: Site) -> Self {
        let folder = Folder { dir: tempfile::tempdir().unwrap(), fake: Arc::clone(&fake) };
        let slurm = slurm_of(&fake, folder.path(), site);
        Self { folder, fake, slurm, jobs: Jobs::builder().build() }
    }

    pub(crate) fn marks(&self) -> std::path::PathBuf {
        self.folder.path().join("marks")
    }

    /// A job that leaves a line.
    pub(crate) fn job(&self, name: &str, line: &str) -> sched_jobs::Job {
        let mut command = Command::new(["sh", "-c", line]);
        command.cwd = Some(self.folder.path().to_owned());
        command.grace = Duration::from_secs(1);
        let work = Job { command, request: Request::default() };
        sched_jobs::Job::new(name).cpu_slots(0).ram_mb(0).execute(self.slurm.clone(), Arc::new(work))
    }

    pub(crate) fn effects(&self) -> usize {
        fs::read_to_string(self.folder.path().join("effects")).unwrap_or_default().lines().count()
    }

    pub(crate) fn ends(&self) {
        self.jobs.wait_timeout(LONG).expect("it ends").expect("it succeeds");
    }

    pub(crate) fn fails(&self) -> Cause {
        let failed = self.jobs.wait_timeout(LONG).expect("it ends").expect_err("it fails");
        failed.first[0].1.clone()
    }

    pub(crate) fn until(&self, what: impl Fn(&Fake) -> bool) {
        let began = Instant::now();
        while !what(&self.fake) {
            assert!(began.elapsed() < LONG);
            sleep(Duration::from_millis(10));
        }
    }
}

pub(crate) fn slurm<C: Cluster + 'static>(fake: &Arc<C>, folder: &Path) -> Arc<Slurm> {
    slurm_of(fake, folder, Site::default())
}

fn slurm_of<C: Cluster + 'static>(fake: &Arc<C>, folder: &Path, site: Site) -> Arc<Slurm> {
    let logs = folder.to_owned();
    let settings = Settings {
        folder: folder.join("marks"),
        run: "r-1".to_owned(),
        site,
        log: Box::new(move |attempt: AttemptId| logs.join(format!("{}.log", attempt.job.index()))),
        listen: Box::new(|_, _| ()),
        pause_timeout: Duration::from_millis(1500),
    };
    Arc::new(Slurm::open(fake.clone(), settings).unwrap())
}
