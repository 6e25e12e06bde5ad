//! What users hold of an island that was admitted, and how it runs.
//!
//! Room: interface.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use sched_tasks::internals::{LendError, lend};
use sched_tasks::{Runtime, TaskError};

use crate::buffer::{Buffer, Memory};
use crate::drive::cycle::{Body, Cycle};
use crate::drive::run;
use crate::error::IslandError;
use crate::handle::{IslandHandle, Shared};
use crate::lease::Lease;
use crate::spec::Island;
use crate::telemetry::IslandStats;

impl Island {
    /// Admits it on the runtime of the caller, or on the common one.
    pub fn admit(self) -> Result<AdmittedIsland, IslandError> {
        self.admit_by(None)
    }

    /// Admits it on a runtime: so many of its workers leave the common pool, and all other threads of this process leave their CPUs.
    pub fn admit_on(self, runtime: &Runtime) -> Result<AdmittedIsland, IslandError> {
        self.admit_by(Some(runtime))
    }

    fn admit_by(self, runtime: Option<&Runtime>) -> Result<AdmittedIsland, IslandError> {
        self.check()?;
        let loan = lend(runtime, &self.asked()).map_err(|error| match error {
            LendError::Admission(refused) => IslandError::NotAdmitted(refused),
            LendError::NotAllowed(error) => IslandError::NotAllowed(error),
            _ => IslandError::NotAllowed(TaskError::msg("the runtime lends no CPU")),
        })?;
        for worker in loan.admitted().leased().iter() {
            self.check_blocking(|task| loan.admitted().cpu_of(task) == Some(worker))?;
        }
        let memory = Memory::new(&self.name, self.memory)?;
        let lease = Lease::take(&self, loan)?;
        Ok(AdmittedIsland::new(self, memory, lease))
    }
}

/// An island that has its CPUs. It gives them back when it is dropped.
///
/// ```
/// use std::time::Duration;
/// use bursar::{Runtime, cpu::{Context, Island}};
///
/// // On a seeded runtime CPUs and time are virtual; without `seeded` they are real.
/// let runtime = Runtime::builder().workers(2).seeded(1).build()?;
/// let stats = runtime.run(|| {
///     let mut control = Island::new("control")
///         .task("step", Context::budget(Duration::from_micros(200)).period(Duration::from_millis(1)))
///         .memory(4096)
///         .admit()?;
///     let mut state = control.buffer::<f64>(16)?;
///     control.program()
///         .on("step", |cycle| {
///             state[0] += 1.0;
///             if cycle.number() == 99 {
///                 cycle.stop();
///             }
///         })
///         .run()
/// })??;
/// assert_eq!((stats.tasks[0].cycles, stats.missed()), (100, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AdmittedIsland {
    shared: Arc<Shared>,
    memory: Memory,
}

impl AdmittedIsland {
    fn new(spec: Island, memory: Memory, lease: Lease) -> Self {
        Self { memory, shared: Shared::new(spec, lease) }
    }

    /// The CPUs it was given for itself; on a [seeded](sched_tasks::Builder::seeded) runtime, the numbers of virtual workers.
    pub fn cpus(&self) -> Vec<u32> {
        self.shared.lease.cpus().collect()
    }

    /// So many values in memory that is there before it is used, and is locked where the system permits. It counts as part of the [memory](Island::memory) of the island, in whole
    /// pages, until it is dropped.
    pub fn buffer<T: Copy + Default>(&self, len: usize) -> Result<Buffer<T>, IslandError> {
        self.memory.buffer(&self.shared.spec.name, len)
    }

    /// To stop it, to revoke its lease, or to look on; from anywhere.
    pub fn handle(&self) -> IslandHandle {
        IslandHandle(self.shared.clone())
    }

    /// What it has done in the last run.
    pub fn stats(&self) -> IslandStats {
        self.shared.stats()
    }

    /// What its tasks do: a closure for each, then [`Program::run`].
    pub fn program(&mut self) -> Program<'_> {
        let bodies = self.shared.spec.tasks.iter().map(|_| None).collect();
        Program { shared: &self.shared, bodies, unknown: None }
    }
}

impl Drop for AdmittedIsland {
    fn drop(&mut self) {
        self.shared.lease.release();
    }
}

impl fmt::Debug for AdmittedIsland {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmittedIsland").field("island", &self.shared.spec.name).field("cpus", &self.cpus()).finish()
    }
}

/// The closures of an island's tasks; made by [`AdmittedIsland::program`].
#[must_use = "nothing runs before `run`"]
pub struct Program<'a> {
    shared: &'a Arc<Shared>,
    bodies: Vec<Option<Body<'a>>>,
    unknown: Option<String>,
}

impl<'a> Program<'a> {
    /// What `task` does in every cycle. It runs on the thread of the task's CPU, and may borrow. To keep its times it should not allocate, lock or wait; a wait counts as time that it ran.
    pub fn on(mut self, task: &str, body: impl FnMut(&Cycle<'_>) + Send + 'a) -> Self {
        let place = self.shared.spec.tasks.iter().position(|one| one.name == task);
        match place {
            Some(place) if self.bodies[place].is_none() => self.bodies[place] = Some(Box::new(body)),
            _ => _ = self.unknown.get_or_insert_with(|| task.to_owned()),
        }
        self
    }

    /// Runs the tasks until one of them or a handle [stops](Cycle::stop) the island, its lease is revoked, or the caller is cancelled. Says what they did.
    ///
    /// # Errors
    /// If a task has no closure, the system does not permit what the island requires, a closure panics, or a task uses up its time and has
    /// [`Overrun::Cancel`](sched_tasks::Overrun::Cancel).
    #[track_caller]
    pub fn run(self) -> Result<IslandStats, TaskError> {
        let Self { shared, bodies, unknown } = self;
        let island = || shared.spec.name.clone();
        if let Some(task) = unknown {
            return Err(IslandError::UnknownTask { island: island(), task }.into());
        }
        let mut named = Vec::with_capacity(bodies.len());
        for (body, task) in bodies.into_iter().zip(&shared.spec.tasks) {
            let unbound = || IslandError::Unbound { island: island(), task: task.name.clone() };
            named.push(body.ok_or_else(unbound)?);
        }
        run::run(shared, named, Location::caller())
    }
}

impl fmt::Debug for Program<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("island", &self.shared.spec.name).finish_non_exhaustive()
    }
}
