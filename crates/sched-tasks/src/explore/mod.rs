//! Runs a program under many seeds, until one makes it fail.
//!
//! Room: interface.
//!
//! # Invariant
//! The seed that is named fails again when it is run alone.
//!
//! # Why it holds
//! Every seed begins a run of its own on the same runtime, and runs leave nothing behind that another could see; see
//! `drive::seeded`. State that the program itself keeps, in a static or a file, is not reset.

mod shrink;

use std::{
    collections::HashSet,
    fmt,
    panic::Location,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use self::shrink::{Enough, shrink, unusual};
use crate::{
    chance::Plan,
    drive::runtime::Runtime,
    error::{Reason, RunError},
    kernel::seeded::{Options, Seeded},
    options::NurseryOptions,
    scope::run,
    trace::Trace,
};

/// Runs only the seed it names, and prints its panics.
const SEED_VARIABLE: &str = "BURSAR_SEED";

/// How many of the last events are shown.
const EVENTS_SHOWN: usize = 40;

/// How long a failure is shrunk.
const SHRINK_TIME: Duration = Duration::from_secs(5);

/// Stacks are cheap until they are used, but addresses are limited.
const MAX_FIBERS: usize = 1 << 16;

/// Runs `program` once for every seed, on 4 virtual workers of a [seeded](crate::Builder::seeded) runtime. Each seed is another way in which its tasks could have been
/// interleaved. [`Explore`] has options.
///
/// It fails if `program`, or a task of it, panics, returns an `Err`, comes to a deadlock or does not end. With `BURSAR_SEED` in the environment, only that seed is run.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use bursar::{checkpoint, explore, nursery};
///
/// let explored = explore(0..100, || {
///     let hits = AtomicU32::new(0);
///     nursery(|n| {
///         for _ in 0..2 {
///             n.spawn(|| {
///                 checkpoint();
///                 hits.fetch_add(1, Relaxed) // a load, a checkpoint and a store would be found
///             });
///         }
///         Ok(())
///     })?;
///     assert_eq!(hits.into_inner(), 2);
///     Ok::<(), bursar::TaskError>(())
/// });
/// assert_eq!(explored.seeds, 100);
/// ```
///
/// # Panics
/// At the first seed that fails, with a message that says how to reproduce it.
#[track_caller]
pub fn explore<R: Outcome>(seeds: impl IntoIterator<Item = u64>, program: impl Fn() -> R + Sync) -> Explored {
    Explore::new().run(seeds, program)
}

/// The result of a program for [`explore`]: nothing, or a `Result`.
pub trait Outcome {
    /// What went wrong, if anything did.
    fn failure(self) -> Option<String>;
}

impl Outcome for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<T, E: fmt::Debug> Outcome for Result<T, E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| format!("returned {error:?}"))
    }
}

/// How to [`explore`].
///
/// ```
/// use bursar::{determinism::Explore, yield_now};
///
/// let explored = Explore::new().workers(2).max_steps(10_000).run(0..20, || bursar::join(yield_now, yield_now).0);
/// assert!(explored.distinct > 1); // not all seeds gave the same run
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing runs before `run` or `find`"]
pub struct Explore {
    workers: usize,
    one_in: u32,
    steps_max: u64,
    shrinks: bool,
}

impl Default for Explore {
    fn default() -> Self {
        Self::new()
    }
}

/// What [`explore`] has done, if nothing failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many different runs they gave.
    pub distinct: usize,
    /// How many steps were taken in all.
    pub steps: u64,
}

/// A seed that fails; see [`Explore::find`]. Printed, it says what happened and how to reproduce it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Finding {
    /// The seed.
    pub seed: u64,
    /// What went wrong.
    pub message: String,
    /// What happened, with that seed.
    pub trace: Trace,
    /// The simplest run that was found to fail like it. [`Builder::replay`](crate::Builder::replay) repeats it.
    pub shrunk: Trace,
    /// How many seeds were run before.
    pub seeds_before: u64,
}

impl Explore {
    /// 4 workers; one operation in 8 is interrupted; a limit of a million steps; a failure is shrunk before it is
    /// reported.
    pub fn new() -> Self {
        Self { workers: 4, one_in: 8, steps_max: 1_000_000, shrinks: true }
    }

    /// How many virtual workers: 1 to 256.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// As [`Builder::preempt_one_in`](crate::Builder::preempt_one_in).
    pub fn preempt_one_in(mut self, operations: u32) -> Self {
        self.one_in = operations;
        self
    }

    /// A run that takes more steps fails.
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.steps_max = steps;
        self
    }

    /// Whether to look for a simpler run that fails like the one found, for some seconds at most.
    pub fn shrink(mut self, shrinks: bool) -> Self {
        self.shrinks = shrinks;
        self
    }

    /// As [`explore`].
    ///
    /// # Panics
    /// At the first seed that fails.
    #[track_caller]
    pub fn run<R: Outcome>(&self, seeds: impl IntoIterator<Item = u64>, program: impl Fn() -> R + Sync) -> Explored {
        match self.find(seeds, program) {
            Ok(explored) => explored,
            Err(finding) => panic!("{finding}"),
        }
    }

    /// The same, and returns the failure.
    ///
    /// ```
    /// use bursar::{Runtime, channel, determinism::Explore};
    ///
    /// let program = || {
    ///     let (_tx, rx) = channel::<()>(1);
    ///     rx.recv() // no task sends, and none will
    /// };
    /// let finding = Explore::new().find(0..10, program).unwrap_err();
    /// assert!(finding.message.contains("deadlock"));
    ///
    /// let again = Runtime::builder().replay(finding.shrunk.clone()).build()?;
    /// assert!(again.run(program).is_err());
    /// # Ok::<(), bursar::RunError>(())
    /// ```
    ///
    /// # Panics
    /// If the runtime cannot be made, or `BURSAR_SEED` is not a number.
    #[track_caller]
    pub fn find<R: Outcome>(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        program: impl Fn() -> R + Sync,
    ) -> Result<Explored, Box<Finding>> {
        let runtime = Runtime::builder().workers(self.workers).max_fibers(MAX_FIBERS).seeded(0).build();
        let runtime = runtime.unwrap_or_else(|error| panic!("nothing can be explored: {error}"));
        let session = Session { explore: self, runtime: &runtime, program: &program, site: Location::caller() };
        match std::env::var(SEED_VARIABLE) {
            Ok(seed) => {
                let seed = seed.parse().unwrap_or_else(|_| {
                    panic!("{SEED_VARIABLE} is {seed:?}, which is no seed; use a number from 0 to {}", u64::MAX)
                });
                session.alone(seed)
            }
            Err(_) => session.all(seeds),
        }
    }
}

/// How a run failed.
#[derive(Debug, Clone)]
struct Failure {
    kind: Kind,
    message: String,
}

/// A simpler run must fail like this.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Panicked(Option<Arc<str>>),
    Returned,
    Deadlocked,
    TooLong,
    Other,
}

impl Failure {
    fn of(error: &RunError) -> Self {
        let kind = match error {
            RunError::Task(error) => match error.reason() {
                Reason::Panicked { location, .. } => Kind::Panicked(location.clone()),
                Reason::Deadlock { .. } => Kind::Deadlocked,
                Reason::StepLimit { .. } => Kind::TooLong,
                _ => Kind::Other,
            },
            _ => Kind::Other,
        };
        Self { kind, message: error.to_string() }
    }
}

struct Session<'a, P> {
    explore: &'a Explore,
    runtime: &'a Runtime,
    program: &'a P,
    /// The spawn location shown for the program.
    site: &'static Location<'static>,
}

impl<R: Outcome, P: Fn() -> R + Sync> Session<'_, P> {
    fn seeded(&self) -> &'static Seeded {
        self.runtime.shared().seeded.as_deref().expect("it was built with a seed")
    }

    /// One run.
    fn attempt(&self, plan: Plan, steps_max: u64) -> Option<Failure> {
        let one_in = self.explore.one_in;
        self.seeded().change(|options| *options = Options { plan, one_in, steps_max, ..options.clone() });
        match run::run_on(self.runtime.shared(), self.site, NurseryOptions::new(), || (self.program)().failure()) {
            Ok(failure) => failure.map(|message| Failure { kind: Kind::Returned, message }),
            Err(error) => Some(Failure::of(&error)),
        }
    }

    fn all(&self, seeds: impl IntoIterator<Item = u64>) -> Result<Explored, Box<Finding>> {
        self.seeded().quiet.store(true, Relaxed);
        let mut explored = Explored { seeds: 0, distinct: 0, steps: 0 };
        let mut hashes = HashSet::new();
        for seed in seeds {
            let failure = self.attempt(Plan::Seed(seed), self.explore.steps_max);
            if let Some(failure) = failure {
                return Err(self.finding(seed, failure, explored.seeds));
            }
            let (hash, steps) = self.seeded().summary();
            hashes.insert(hash);
            explored.seeds += 1;
            explored.steps += steps;
        }
        explored.distinct = hashes.len();
        Ok(explored)
    }

    /// Runs one seed, with all details in the finding.
    fn alone(&self, seed: u64) -> Result<Explored, Box<Finding>> {
        let failure = self.attempt(Plan::Seed(seed), self.explore.steps_max);
        let trace = self.runtime.trace();
        eprintln!("{SEED_VARIABLE}={seed}: {}", trace.story());
        match failure {
            None => Ok(Explored { seeds: 1, distinct: 1, steps: trace.steps() }),
            Some(failure) => {
                self.seeded().quiet.store(true, Relaxed);
                Err(self.finding(seed, failure, 0))
            }
        }
    }

    fn finding(&self, seed: u64, failure: Failure, seeds_before: u64) -> Box<Finding> {
        let trace = self.runtime.trace();
        let shrunk = if self.explore.shrinks { self.simpler(&trace, &failure.kind) } else { trace.clone() };
        Box::new(Finding { seed, message: failure.message, trace, shrunk, seeds_before })
    }

    fn simpler(&self, trace: &Trace, kind: &Kind) -> Trace {
        let until = Instant::now() + SHRINK_TIME;
        // A guess that runs in circles is useless; but a guess for a livelock has to.
        let steps_max = match kind {
            Kind::TooLong => self.explore.steps_max,
            _ => self.explore.steps_max.min(trace.steps() * 4 + 1000),
        };
        let seed = trace.seed();
        shrink(trace.clone(), |drawn| {
            if Instant::now() >= until {
                return Err(Enough);
            }
            let failure = self.attempt(Plan::Guess { seed, drawn }, steps_max);
            Ok(failure.filter(|failure| failure.kind == *kind).map(|_| self.runtime.trace()))
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, message, trace, shrunk, seeds_before } = self;
        let thread = std::thread::current();
        let how = match thread.name() {
            None | Some("main") => "and the same command".into(),
            Some(test) => format!("cargo test {test}"),
        };
        writeln!(f, "seed {seed} fails; replay: {SEED_VARIABLE}={seed} {how}")?;
        writeln!(f, "  {message}")?;
        writeln!(
            f,
            "  {seeds_before} seeds passed before; {} workers, {} steps, {} decisions",
            trace.workers(),
            trace.steps(),
            trace.decisions().len()
        )?;
        writeln!(
            f,
            "the simplest run that fails like it has {} steps and {} unusual decisions; its end:",
            shrunk.steps(),
            unusual(shrunk.decisions())
        )?;
        f.write_str(&shrunk.last_events(EVENTS_SHOWN))
    }
}
