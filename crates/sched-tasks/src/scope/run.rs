//! Running something on a runtime: a root task, or a nursery.
//!
//! Room: interface. Knows runtimes and scopes; how a runtime is made is `drive/runtime.rs`.

use std::panic::Location;

use super::{Nursery, open};
use crate::{
    chance::Divergence,
    drive::{runtime::Runtime, seeded},
    error::{RunError, TaskError},
    kernel::shared::Shared,
    options::NurseryOptions,
    strand::{self, Strand, room::in_own_frame},
};

impl Runtime {
    /// Runs `root` as a task and blocks the caller until it has ended. It may borrow from the caller, and block without blocking a worker.
    #[track_caller]
    pub fn run<F, T>(&self, root: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        run_on(self.shared(), Location::caller(), NurseryOptions::of_root(self.shared().profile), root)
    }

    /// The same in a nursery that is like `options` say.
    #[track_caller]
    pub fn run_with<F, T>(&self, options: NurseryOptions, root: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        run_on(self.shared(), Location::caller(), options, root)
    }

    /// Opens a nursery whose tasks run here. Its body runs on the caller's thread.
    pub fn nursery<'env, F, T>(&self, body: F) -> Result<T, TaskError>
    where
        F: for<'scope> FnOnce(&'scope Nursery<'scope, 'env>) -> Result<T, TaskError>,
    {
        self.nursery_with(NurseryOptions::new(), body)
    }

    /// The same, as `options` say.
    pub fn nursery_with<'env, F, T>(&self, options: NurseryOptions, body: F) -> Result<T, TaskError>
    where
        F: for<'scope> FnOnce(&'scope Nursery<'scope, 'env>) -> Result<T, TaskError>,
    {
        seeded::run(self.shared(), || open(self.shared(), &options, body))
    }
}

/// Runs `root` as a task of `shared`.
pub(crate) fn run_on<F, T>(
    shared: &'static Shared,
    site: &'static Location<'static>,
    options: NurseryOptions,
    root: F,
) -> Result<T, RunError>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    strand::with(Strand::checkpoint);
    // In a frame of its own, made when there is room for it.
    in_own_frame(|| {
        shared.check_process()?;
        let body = || open(shared, &options, |nursery| nursery.spawn_at(site, root).join());
        let outcome = seeded::run(shared, body);
        if let Some(Divergence { at, expected, found }) = shared.seeded.as_ref().and_then(|seeded| seeded.diverged()) {
            return Err(RunError::Diverged { at, expected: expected.into(), found: found.into() });
        }
        outcome.map_err(RunError::Task)
    })
}
