//! Making a runtime, and running something on it.
//!
//! Room: interface. Knows threads and options; how a worker runs is `drive/worker.rs`.

use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use mech_fiber::{SlabOptions, StackError};
use mech_sync::{Deque, Idle, Injector};
use policy_admission::{Cap, CapExecutor, ExecutorPermit, Lease, Ledger, Profile};

use crate::{
    MAX_WORKERS,
    build_error::BuildError,
    chance::Plan,
    decide::VictimStrategy,
    kernel::{
        clock::Clock,
        groups::Groups,
        log::{self, Log, Logged},
        seeded::{Options, Seeded},
        share_report::Share,
        shared::{Ended, Modes, Shared, WorkerSlot},
        shares::Shares,
        strand::DEFAULT_YIELD_INTERVAL,
        takes::Takes,
        task::Runnable,
        watchdog::{Hook, Stuck, Watchdog, Watched},
        worker::Worker,
        worker_set::WorkerSet,
    },
    places,
    raw::overflow,
    stacks::Stacks,
    stats::{Counters, Stats},
    strand::{self, Strand, panics},
    threads::{Pool, thread_name},
    trace::Trace,
};

/// Workers with their stacks, queues and timers.
///
/// Most programs need none by name: [`run`](crate::run) and [`nursery`](crate::nursery) use a common one, made on first use.
///
/// One that is dropped ends everything that runs on it, and its threads. Its queues stay, some 3 kB and 9 kB for each worker, because late wakes may look at them: use one again rather than make very many.
///
/// ```
/// use bursar::Runtime;
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let sum: u64 = runtime.run(|| (1..=10).sum())?;
/// assert_eq!(sum, 55);
/// # Ok::<(), bursar::RunError>(())
/// ```
pub struct Runtime {
    pub(super) shared: &'static Shared,
    pub(super) threads: Vec<JoinHandle<()>>,
    /// The threads are counted until they have ended.
    pub(super) permit: Option<ExecutorPermit>,
}

/// How many virtual workers a seeded runtime has: not as many as there are CPUs, for a seed is to give the same run on any machine.
const SEEDED_WORKERS: usize = 4;

/// A smaller stack would have little beside what the runtime keeps for itself.
const MIN_STACK_BYTES: usize = 64 << 10;

/// Chooses what a [`Runtime`] is like.
#[derive(Debug, Clone)]
pub struct Builder {
    workers: Option<usize>,
    stack_bytes: usize,
    max_fibers: Option<usize>,
    pub(crate) skips_frames: bool,
    strategy: VictimStrategy,
    seed: u64,
    name: String,
    no_stealing: Vec<usize>,
    pub(super) blocking_threads: usize,
    pub(super) profile: Option<Profile>,
    pub(super) ledger: Option<Ledger>,
    pub(super) executor: Option<Lease<CapExecutor>>,
    watchdog: Option<Duration>,
    on_stuck: Hook,
    pub(super) is_seeded: bool,
    options: Options,
    log_entries: usize,
    is_diagnosed: bool,
}

impl Default for Builder {
    fn default() -> Self {
        let stacks = SlabOptions::default();
        Self {
            workers: None,
            // Unoptimised frames are several times as large.
            stack_bytes: if cfg!(debug_assertions) { 2 * stacks.stack_bytes } else { stacks.stack_bytes },
            max_fibers: None,
            skips_frames: false,
            strategy: VictimStrategy::default(),
            seed: 0x6275_7273_6172, // any number, but the same in every run
            name: "bursar".into(),
            no_stealing: Vec::new(),
            blocking_threads: 512,
            profile: None,
            ledger: None,
            executor: None,
            watchdog: Some(Duration::from_secs(1)),
            on_stuck: Hook::default(),
            is_seeded: false,
            options: Options::default(),
            log_entries: 0,
            is_diagnosed: false,
        }
    }
}

impl Builder {
    /// How many worker threads: 1 to 256. Default: one per CPU; 4 if it is [seeded](Self::seeded).
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How much stack each fiber may use: a multiple of the page size, 64 KiB to 1 GiB. Default: 256 KiB, and 512 KiB in builds with debug
    /// assertions, whose frames are larger. Only what a task touches is taken from memory. A task can ask for more:
    /// [`TaskBuilder::stack_bytes`](crate::TaskBuilder::stack_bytes).
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// How many fibers may be started and not ended at one time. Default: 1,048,576, or fewer where the system does not give so many addresses. Fibers
    /// with larger stacks than usual are counted apart, by size.
    pub fn max_fibers(mut self, fibers: usize) -> Self {
        self.max_fibers = Some(fibers);
        self
    }

    /// From which worker an idle worker steals.
    pub fn victims(mut self, strategy: VictimStrategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Where the workers' random choices begin.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What the threads are called: `name-0`, `name-1`, …
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Worker `index` will not steal; see also [`Runtime::set_stealing`].
    pub fn without_stealing(mut self, index: usize) -> Self {
        self.no_stealing.push(index);
        self
    }

    /// How many threads [`unblock`](crate::unblock) may use at one time, at least one. Default: 512. They are started when they are needed, and end
    /// when they have had nothing to do for some seconds.
    ///
    /// ```
    /// use sched_tasks::{Runtime, unblock};
    ///
    /// let runtime = Runtime::builder().workers(1).blocking_threads(8).build()?;
    /// assert_eq!(runtime.run(|| unblock(|| 6 * 7))?, 42);
    /// # Ok::<(), sched_tasks::RunError>(())
    /// ```
    pub fn blocking_threads(mut self, threads: usize) -> Self {
        self.blocking_threads = threads;
        self
    }

    /// How long a task may hold its worker without a checkpoint before it counts as stuck, at least 4 ms. Default: one second.
    ///
    /// A stuck task is counted ([`WorkerStats::stuck`](crate::WorkerStats::stuck)), remembered ([`Runtime::stuck`]) and reported
    /// ([`Builder::on_stuck`]), and other workers take what its worker has not started. It is not stopped: there is no preemption. Watching costs
    /// a task two stores when it begins or goes on, and an idle runtime nothing.
    ///
    /// ```
    /// use std::{sync::mpsc, time::Duration};
    /// use bursar::Runtime;
    ///
    /// let (report, reported) = mpsc::channel();
    /// let runtime = Runtime::builder()
    ///     .watchdog(Duration::from_millis(20))
    ///     .on_stuck(move |stuck| _ = report.send(stuck.clone()))
    ///     .build()?;
    /// let stuck = runtime.run(move || reported.recv().unwrap())?; // blocks the thread, not only the task
    /// assert!(stuck.for_at_least >= Duration::from_millis(20));
    /// assert_eq!(stuck.spawned_at.file(), file!());
    /// assert_eq!(runtime.stats().total().stuck, 1);
    /// # Ok::<(), bursar::RunError>(())
    /// ```
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.watchdog = Some(limit);
        self
    }

    /// No watchdog: stuck tasks are not noticed.
    pub fn no_watchdog(mut self) -> Self {
        self.watchdog = None;
        self
    }

    /// What to call with a stuck task, instead of a line on standard error: once, and again whenever the time it holds its worker has doubled. Called on the thread that
    /// also keeps the time for `sleep` and deadlines, so it should be quick.
    pub fn on_stuck(mut self, hook: impl Fn(&Stuck) + Send + Sync + 'static) -> Self {
        self.on_stuck = Hook(Arc::new(hook));
        self
    }

    /// How much the runtime insists on. Without a profile nothing is limited until a nursery says so.
    ///
    /// With one, the outermost nursery has the profile's pool, and its tasks get their share of it; [`Runtime::run`] gives its task the whole.
    ///
    /// ```
    /// use bursar::{Runtime, budget::budget_left, capability::Profile};
    ///
    /// let runtime = Runtime::builder().workers(1).profile(Profile::Service).build()?;
    /// assert_eq!(runtime.run(|| budget_left().ops)?, 100_000);
    /// # Ok::<(), bursar::RunError>(())
    /// ```
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Only capabilities that this ledger granted, or that were derived from those, are honoured.
    pub fn ledger(mut self, ledger: &Ledger) -> Self {
        self.ledger = Some(ledger.clone());
        self
    }

    /// The threads are started by this capability, and counted as its while the runtime lives.
    pub fn executor(mut self, capability: &Cap<CapExecutor>) -> Self {
        self.executor = Some(capability.lease());
        self
    }

    /// Makes a runtime without threads, for tests. Whatever runs on it runs on the caller's thread, which plays all workers in turn; the seed decides every choice, and
    /// [`sleep`](crate::sleep) and timeouts take no time. So the same seed gives the same run again, with the same [`Runtime::trace`]. A deadlock is an error.
    ///
    /// What it cannot control it leaves out. Sockets fail, and [`unblock`](crate::unblock) calls its closure. A task must not wait for another thread or another runtime: that
    /// counts as a deadlock. Nor must it hold a lock of the standard library over a spawn, a send, or whatever else may let others run: they share its thread, and would
    /// wait for ever. One thread at a time runs something on it; others wait for their turn.
    ///
    /// ```
    /// use bursar::{Runtime, channel, nursery};
    ///
    /// let runtime = Runtime::builder().workers(4).seeded(42).build()?;
    /// let race = || nursery(|n| {
    ///     let (tx, rx) = channel(1);
    ///     for name in ["a", "b", "c"] {
    ///         let tx = tx.clone();
    ///         n.spawn(move || tx.send(name));
    ///     }
    ///     Ok(rx.recv()?)
    /// });
    /// let (first, trace) = (runtime.run(race)?.unwrap(), runtime.trace());
    /// assert_eq!(runtime.run(race)?.unwrap(), first);
    /// assert_eq!(runtime.trace().hash(), trace.hash());
    /// # Ok::<(), bursar::RunError>(())
    /// ```
    pub fn seeded(mut self, seed: u64) -> Self {
        self.is_seeded = true;
        self.options.plan = Plan::Seed(seed);
        self
    }

    /// Makes a [seeded](Self::seeded) runtime that repeats a run: the choices, and so the workers, are those of the trace. If the program does something
    /// else, the run ends with [`RunError::Diverged`](crate::RunError::Diverged). See [`Trace`] for an example.
    pub fn replay(mut self, trace: Trace) -> Self {
        self.is_seeded = true;
        self.workers = Some(trace.workers);
        self.options.one_in = trace.one_in;
        self.options.plan = Plan::Replay { seed: trace.seed, drawn: trace.decisions };
        self
    }

    /// In a [seeded](Self::seeded) runtime, a worker is interrupted before one operation in so many (a spawn, a send, a lock…), on average, and the others go on. 0: never.
    /// Default: 8.
    pub fn preempt_one_in(mut self, operations: u32) -> Self {
        self.options.one_in = operations;
        self
    }

    /// A [seeded](Self::seeded) run that takes more steps fails. Default: no limit.
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.options.steps_max = steps;
        self
    }

    /// How many events the [`Trace`] of a [seeded](Self::seeded) run keeps: the last ones. Default: 65,536. Its hash stands for all.
    pub fn trace_events(mut self, events: usize) -> Self {
        self.options.events_max = events;
        self
    }

    /// Has every worker keep its last choices, so many at most; see [`Runtime::decisions`]. Default: none. A [seeded](Self::seeded) runtime has a [`Trace`] instead.
    ///
    /// ```
    /// use bursar::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(2).decision_log(1000).build()?;
    /// runtime.run(|| bursar::sleep(std::time::Duration::from_millis(1)))?;
    /// assert!(runtime.decisions().len() >= 2); // it was started, and went on
    /// # Ok::<(), bursar::RunError>(())
    /// ```
    pub fn decision_log(mut self, entries: usize) -> Self {
        self.log_entries = entries;
        self
    }

    /// Has every worker tell what its scheduler costs from what its tasks do: [`WorkerStats::diagnostics`](crate::WorkerStats::diagnostics). Default: no.
    ///
    /// It costs each task that begins or goes on two looks at the clock, and every choice takes the long way, as with a [`decision_log`](Self::decision_log): some 100 ns. A runtime without it pays nothing.
    ///
    /// ```
    /// use bursar::{Runtime, nursery, yield_now};
    ///
    /// let runtime = Runtime::builder().workers(2).diagnostics(true).build()?;
    /// runtime.run(|| nursery(|n| {
    ///     (0..100).for_each(|_| drop(n.spawn(|| yield_now())));
    ///     Ok(())
    /// }))??;
    /// let stats = runtime.stats();
    /// println!("{stats}"); // a line for each worker
    /// let all = stats.total().diagnostics.expect("they were asked for");
    /// assert!(all.candidates > 0 && !all.in_tasks.is_zero());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn diagnostics(mut self, wanted: bool) -> Self {
        self.is_diagnosed = wanted;
        self
    }

    /// Starts the workers. In a task of a profile that wants everything by name, that takes an [`executor`](Self::executor) of the task's ledger; a
    /// [seeded](Self::seeded) runtime has no threads, and needs none.
    pub fn build(self) -> Result<Runtime, BuildError> {
        strand::with(Strand::ensure_much_room);
        self.check_caller()?;
        self.start()
    }

    /// Apart, for its frame is large.
    #[inline(never)]
    fn start(self) -> Result<Runtime, BuildError> {
        let workers = self.workers.unwrap_or_else(|| match self.is_seeded {
            true => SEEDED_WORKERS,
            false => std::thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS),
        });
        if !(1..=MAX_WORKERS).contains(&workers) {
            return Err(BuildError::Workers { wanted: workers });
        }
        let permit = self.permit(workers)?;
        if self.stack_bytes < MIN_STACK_BYTES {
            let error = StackError::TooSmall { stack_bytes: self.stack_bytes, min_bytes: MIN_STACK_BYTES };
            return Err(BuildError::Stacks(error.into()));
        }
        let max_fibers = self.max_fibers.unwrap_or(SlabOptions::default().max_stacks);
        let stacks = Stacks::reserve(self.stack_bytes, max_fibers, self.max_fibers.is_none())
            .map_err(|error| BuildError::Stacks(error.into()))?;
        panics::install_hook();
        overflow::install_hook();
        let deques: Vec<Deque<_>> = (0..workers).map(|_| Deque::new()).collect();
        let yielded: Vec<Deque<_>> = (0..workers).map(|_| Deque::new()).collect();
        let slots = deques.iter().zip(&yielded).enumerate().map(|(index, (deque, yielded))| WorkerSlot {
            inbox: places::take_inbox(),
            stealer: deque.stealer(),
            yielded: yielded.stealer(),
            ended: Ended::default(),
            takes: Takes::new(!self.no_stealing.contains(&index)),
            fails_next: AtomicBool::new(false),
            counters: Counters::new(self.is_diagnosed),
            watch: Watched::default(),
            log: Log::new(if self.is_seeded { 0 } else { self.log_entries }),
        });
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            high: Injector::default(),
            injected: Injector::default(),
            low: Injector::default(),
            modes: Modes {
                long_way: AtomicBool::new(self.is_seeded || self.log_entries > 0 || self.is_diagnosed),
                ..Modes::default()
            },
            shares: Shares::new(workers),
            idle: Idle::new(),
            clock: if self.is_seeded { Clock::stepped() } else { Clock::new(workers) },
            pool: Pool::new(self.blocking_threads),
            watchdog: Watchdog::new(self.watchdog.filter(|_| !self.is_seeded), self.on_stuck, workers),
            workers: slots.collect(),
            strategy: self.strategy,
            seed: self.seed,
            stacks,
            skips_frames: self.skips_frames,
            profile: self.profile,
            ledger: self.ledger,
            yield_interval: self
                .profile
                .and_then(|profile| profile.yield_interval())
                .map_or(DEFAULT_YIELD_INTERVAL, u32::from),
            stopping: AtomicBool::new(false),
            process: std::process::id(),
            spins: workers > 1 && !self.is_seeded,
            groups: Groups::default(),
            seeded: self.is_seeded.then(|| Box::new(Seeded::new(self.options))),
        }));
        if let Some(seeded) = &shared.seeded {
            seeded.set_worker_set(Some(worker_set(shared, deques.into_iter().zip(yielded).collect())));
            return Ok(Runtime { shared, threads: Vec::new(), permit });
        }
        let mut runtime = Runtime { shared, threads: Vec::with_capacity(workers), permit };
        for (index, (deque, yielded)) in deques.into_iter().zip(yielded).enumerate() {
            let started =
                std::thread::Builder::new().name(thread_name(&format!("{}-{index}", self.name))).spawn(move || {
                    if let Err(error) = mech_fiber::prepare_thread() {
                        eprintln!("bursar: worker {index} cannot tell who overflows its stack: {error}");
                    }
                    let Counters { tally, timing, .. } = &shared.workers[index].counters;
                    tally.begin();
                    timing.begin();
                    let may_end = Rc::new(Worker::new(index, shared, deque, yielded)).main();
                    shared.workers[index].ended.set(may_end);
                });
            match started {
                Ok(thread) => runtime.threads.push(thread),
                Err(error) => return Err(BuildError::Thread { worker: index, error: error.into() }), // drop stops the others
            }
        }
        Ok(runtime)
    }
}

impl Runtime {
    /// Chooses what the runtime is like.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// One worker per CPU, and all defaults.
    pub fn new() -> Result<Self, BuildError> {
        Builder::default().build()
    }

    /// What happened in the last run of a [seeded](Builder::seeded) runtime. Empty if there was none, or if it is not seeded.
    pub fn trace(&self) -> Trace {
        self.shared.seeded.as_ref().map_or_else(Trace::default, |seeded| seeded.trace())
    }

    /// The next run of a [seeded](Builder::seeded) runtime begins with this seed. Nothing happens if it is not seeded.
    pub fn reseed(&self, seed: u64) {
        if let Some(seeded) = &self.shared.seeded {
            seeded.change(|options| options.plan = Plan::Seed(seed));
        }
    }

    /// What the workers chose lately, oldest first, if the runtime was built with a [`decision_log`](Builder::decision_log).
    pub fn decisions(&self) -> Vec<Logged> {
        log::merged(self.shared)
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.shared.workers.len()
    }

    /// What the workers have done so far.
    pub fn stats(&self) -> Stats {
        Stats { workers: self.shared.workers.iter().map(|worker| worker.counters.read()).collect() }
    }

    /// What each group of tasks has had of the workers' time so far, that of the tasks in no group first; see [`NurseryOptions::weight`](crate::NurseryOptions::weight).
    /// Empty while there is no group: then nothing is measured.
    pub fn shares(&self) -> Vec<Share> {
        self.shared.shares_now()
    }

    /// The tasks that lately held a worker for too long without a checkpoint, oldest first: the last 64, those that still do among them. See
    /// [`Builder::watchdog`].
    pub fn stuck(&self) -> Vec<Stuck> {
        self.shared.watchdog.stuck()
    }

    /// How often the watchdog has looked round, to see that it rests when there is nothing to watch.
    #[doc(hidden)]
    pub fn watchdog_looks(&self) -> u64 {
        self.shared.watchdog.looks.load(Relaxed)
    }

    /// What the stacks are up to.
    pub fn stacks(&self) -> mech_fiber::SlabStats {
        self.shared.stacks.stats()
    }

    /// Allows or forbids worker `index` to steal. False if there is no such worker.
    pub fn set_stealing(&self, index: usize, allowed: bool) -> bool {
        self.shared.workers.get(index).is_some_and(|worker| {
            worker.takes.set_steals(allowed);
            worker.inbox.notify(); // it may sleep by the old rule
            true
        })
    }

    /// Makes worker `index` panic at its next turn, to see that it is restarted and nothing is lost.
    #[doc(hidden)]
    pub fn fail_worker(&self, index: usize) {
        let worker = &self.shared.workers[index];
        worker.fails_next.store(true, Relaxed);
        worker.inbox.notify();
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.shared
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

/// The virtual workers of a seeded runtime. They share one thread, and so the count of its unwindings.
fn worker_set(shared: &'static Shared, deques: Vec<(Deque<Runnable>, Deque<Runnable>)>) -> WorkerSet {
    let stopped_unwinding = Rc::<Cell<u32>>::default();
    let workers = deques.into_iter().enumerate().map(|(index, (deque, yielded))| {
        let mut worker = Worker::new(index, shared, deque, yielded);
        worker.stopped_unwinding = stopped_unwinding.clone();
        Rc::new(worker)
    });
    WorkerSet::rest(workers.collect())
}

/// The common runtime, made on first use and never dropped. It is the program's, not that of the first user.
pub(crate) fn global() -> Result<&'static Runtime, BuildError> {
    static GLOBAL: OnceLock<Result<Runtime, BuildError>> = OnceLock::new();
    GLOBAL.get_or_init(|| Builder::default().start()).as_ref().map_err(Clone::clone)
}

/// The runtime of the caller, or the common one.
pub(crate) fn here() -> &'static Shared {
    strand::with(Strand::runtime).unwrap_or_else(|| global().unwrap_or_else(|error| panic!("{error}")).shared())
}
