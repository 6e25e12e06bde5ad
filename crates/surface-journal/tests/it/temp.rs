//! A directory that is gone after the test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use surface_journal::{Journal, NewJob, NewRun};

pub(crate) struct Temp(PathBuf);

impl Temp {
    pub(crate) fn new() -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("bursar-journal-{}-{n}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Temp(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn journal(&self) -> Journal {
        Journal::open(&self.0).expect("a journal in a fresh directory")
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A run of `jobs` jobs, `j0` and so on.
pub(crate) fn run_of(jobs: u32) -> NewRun {
    let jobs = (0..jobs).map(|n| NewJob { fingerprint: u64::from(n) + 1, ..NewJob::new(format!("j{n}"), "true") });
    NewRun { jobs: jobs.collect(), ..NewRun::new("test") }
}
