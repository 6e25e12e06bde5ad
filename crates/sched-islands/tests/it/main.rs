//! Islands on real CPUs and on virtual ones.
//!
//! Room: tests.

mod counting;
mod real_cpus;
mod refusals;
mod virtual_cpus;

use std::time::Duration;

use mech_cpu::Tid;
use sched_islands::Island;
use sched_tasks::{Context, Runtime, TaskError};

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits until something holds, for a minute at most.
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    test_support::until(Duration::from_secs(60), what, holds);
}

pub(crate) fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A runtime with a worker for each of two CPUs; none on a machine with one.
pub(crate) fn runtime() -> Option<Runtime> {
    if Tid::current().affinity().unwrap().count() < 2 {
        eprintln!("skipped: one CPU");
        return None;
    }
    Some(Runtime::builder().workers(2).build().unwrap())
}

/// Runs on virtual CPUs, in virtual time.
pub(crate) fn on_virtual_cpus<T: Send>(body: impl FnOnce() -> Result<T, TaskError> + Send) -> Result<T, TaskError> {
    let runtime = Runtime::builder().workers(3).seeded(7).build().unwrap();
    runtime.run(body).unwrap()
}

pub(crate) fn one_task(context: Context) -> Island {
    Island::new("island").task("one", context)
}
