//! Runs that share, in one process and in several.
mod crowd;
mod damage;
mod memory;
mod processes;
mod together;

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sched_jobs::{Config, Jobs, Neighbours, Others, Usage};
use surface_neighbours::{Listener, Settings, SharedBudget, join};

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("bursar-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).expect("a new folder");
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self) -> PathBuf {
        self.0.join("runs-1")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config(cpu_slots: u32) -> Config {
    let mut config = Config::for_cpus(2);
    config.limits.cpu_slots = cpu_slots;
    config.limits.named.push(("licence".to_owned(), 2));
    config.workers = cpu_slots as usize;
    config.aging.interval = Duration::from_millis(50);
    config
}

/// Settings that leave the memory of the machine out of it.
fn settings(folder: &Path, cpu_slots: u32) -> Settings {
    Settings::new(&config(cpu_slots)).folder(folder).available_mb(|| None)
}

/// A run in this process.
fn run(folder: &Path, cpu_slots: u32) -> (Jobs, Listener) {
    let (budget, notifier) = join(settings(folder, cpu_slots)).expect("it joins");
    let jobs = Jobs::builder().config(config(cpu_slots)).neighbours(budget).build();
    let poked = jobs.clone();
    (jobs, notifier.listen(move || poked.poke()).expect("a thread"))
}

/// A shared budget without a scheduler.
fn bare(folder: &Path) -> SharedBudget {
    join(settings(folder, 8)).expect("it joins").0
}

/// What others hold, while we use this.
fn use_slots(budget: &mut SharedBudget, cpu_slots: u64) -> Others {
    let mut seen = None;
    let running = usize::from(cpu_slots > 0);
    budget.share(&mut |others| {
        assert!(seen.replace(others.clone()).is_none(), "asked twice");
        Usage { running, cpu_slots, ..Usage::default() }
    });
    seen.expect("it was asked")
}
