//! Making a runtime, and running something on it.

use std::{
    panic::Location,
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, Release},
        },
    },
    thread::JoinHandle,
    time::Duration,
};

use mech_fiber::{Slab, SlabOptions};
use mech_sync::{Deque, Idle, Injector};
use policy_admission::{Cap, CapError, CapExecutor, Capabilities, ExecutorPermit, Lease, Ledger, Profile, Scheduler};
use vocab::Budget;

use super::{
    clock::Clock,
    shared::{Shared, WorkerSlot},
    stats::{Counters, Stats},
    unblock::Pool,
    watchdog::{Hook, Stuck, Watchdog, Watched},
    worker::Worker,
};
use crate::{
    MAX_WORKERS,
    decide::VictimStrategy,
    error::{BuildError, RunError, TaskError},
    options::NurseryOptions,
    panics, places,
    scope::{self, Nursery},
    strand::{self, Strand},
};

/// Workers with their stacks, queues and timers.
///
/// Most programs need none by name: [`run`](crate::run) and [`nursery`](crate::nursery) use a common one, made on first use.
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
    shared: &'static Shared,
    threads: Vec<JoinHandle<()>>,
    /// The threads are counted until they have ended.
    _permit: Option<ExecutorPermit>,
}

/// Chooses what a [`Runtime`] is like.
#[derive(Debug, Clone)]
pub struct Builder {
    workers: Option<usize>,
    stack_bytes: usize,
    max_fibers: usize,
    strategy: VictimStrategy,
    seed: u64,
    name: String,
    no_stealing: Vec<usize>,
    blocking_threads: usize,
    profile: Option<Profile>,
    ledger: Option<Ledger>,
    executor: Option<Lease<CapExecutor>>,
    watchdog: Option<Duration>,
    on_stuck: Hook,
}

impl Default for Builder {
    fn default() -> Self {
        let stacks = SlabOptions::default();
        Self {
            workers: None,
            // Unoptimised frames are several times as large.
            stack_bytes: if cfg!(debug_assertions) { 4 * stacks.stack_bytes } else { stacks.stack_bytes },
            max_fibers: stacks.max_stacks,
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
        }
    }
}

impl Builder {
    /// How many worker threads: 1 to 256. Default: one per CPU.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How much stack each fiber may use: a multiple of the page size, 16 KiB to 1 GiB. Default: 64 KiB, and 256 KiB in
    /// builds with debug assertions, whose frames are larger. Only what a task touches is taken
    /// from memory.
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// How many fibers may be started and not ended at one time. Default: 1,048,576.
    pub fn max_fibers(mut self, fibers: usize) -> Self {
        self.max_fibers = fibers;
        self
    }

    /// Whom an idle worker robs.
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
    /// A stuck task is counted ([`WorkerStats::stuck`](crate::WorkerStats::stuck)), remembered ([`Runtime::stuck`]) and told of
    /// ([`Builder::on_stuck`]), and other workers take what its worker has not started. It is not stopped: there is no preemption. Watching costs
    /// a task two stores when it begins or goes on, and an idle runtime nothing.
    ///
    /// ```
    /// use std::{sync::mpsc, time::Duration};
    /// use bursar::Runtime;
    ///
    /// let (tell, told) = mpsc::channel();
    /// let runtime = Runtime::builder()
    ///     .watchdog(Duration::from_millis(20))
    ///     .on_stuck(move |stuck| _ = tell.send(stuck.clone()))
    ///     .build()?;
    /// let stuck = runtime.run(move || told.recv().unwrap())?; // blocks the thread, not only the task
    /// assert!(stuck.for_at_least >= Duration::from_millis(20));
    /// assert_eq!(stuck.spawned_at.file(), file!());
    /// assert_eq!(runtime.stats().total().stuck, 1);
    /// # Ok::<(), bursar::RunError>(())
    /// ```
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.watchdog = Some(limit);
        self
    }

    /// Nobody watches for stuck tasks.
    pub fn no_watchdog(mut self) -> Self {
        self.watchdog = None;
        self
    }

    /// Whom to tell of a stuck task, instead of standard error: once, and again whenever the time it holds its worker has doubled. Called on the thread that
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
    /// use bursar::{Profile, Runtime, budget_left};
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

    /// The permit for the threads, where one is needed.
    fn permit(&self, workers: usize) -> Result<Option<ExecutorPermit>, BuildError> {
        if let Some(profile) = self.profile {
            if profile.scheduler() == Scheduler::None {
                return Err(BuildError::NoScheduler { profile });
            }
            if profile.capabilities() == Capabilities::Explicit && self.ledger.is_none() {
                return Err(BuildError::NoLedger { profile });
            }
            if profile.capabilities() == Capabilities::Explicit && self.executor.is_none() {
                let missing = CapError::NoExecutorCapability;
                let refused = self.ledger.as_ref().map_or(missing, |ledger| ledger.refuse(missing, None));
                return Err(BuildError::NotAllowed(refused));
            }
        }
        let Some(lease) = &self.executor else { return Ok(None) };
        let vouched = self.ledger.as_ref().map_or(Ok(()), |ledger| ledger.vouch(lease));
        let permit = vouched.and_then(|()| lease.open_executor(workers, self.blocking_threads));
        permit.map(Some).map_err(BuildError::NotAllowed)
    }

    /// Starts the workers.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let workers = self
            .workers
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS));
        if !(1..=MAX_WORKERS).contains(&workers) {
            return Err(BuildError::Workers { wanted: workers });
        }
        let permit = self.permit(workers)?;
        let stacks = Slab::reserve(SlabOptions {
            stack_bytes: self.stack_bytes,
            max_stacks: self.max_fibers,
            ..SlabOptions::default()
        })
        .map_err(|error| BuildError::Stacks(error.into()))?;
        panics::install_hook();
        mech_fiber::set_unwinding_test(|| strand::with(Strand::is_unwinding));
        let deques: Vec<Deque<_>> = (0..workers).map(|_| Deque::new()).collect();
        let yielded: Vec<Deque<_>> = (0..workers).map(|_| Deque::new()).collect();
        let slots = deques.iter().zip(&yielded).enumerate().map(|(index, (deque, yielded))| WorkerSlot {
            home: places::take_home(),
            stealer: deque.stealer(),
            yielded: yielded.stealer(),
            may_steal: AtomicBool::new(!self.no_stealing.contains(&index)),
            fails_next: AtomicBool::new(false),
            counters: Counters::default(),
            watch: Watched::default(),
        });
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            urgent: Injector::default(),
            injected: Injector::default(),
            patient: Injector::default(),
            idle: Idle::new(),
            clock: Clock::default(),
            pool: Pool::new(self.blocking_threads),
            watchdog: Watchdog::new(self.watchdog, self.on_stuck, workers),
            workers: slots.collect(),
            strategy: self.strategy,
            seed: self.seed,
            stack_bytes: self.stack_bytes,
            stacks,
            profile: self.profile,
            ledger: self.ledger,
            yield_interval: self
                .profile
                .and_then(|profile| profile.yield_interval())
                .map_or(strand::DEFAULT_YIELD_INTERVAL, u32::from),
            stopping: AtomicBool::new(false),
            process: std::process::id(),
        }));
        let mut runtime = Runtime { shared, threads: Vec::with_capacity(workers), _permit: permit };
        for (index, (deque, yielded)) in deques.into_iter().zip(yielded).enumerate() {
            let started = std::thread::Builder::new().name(format!("{}-{index}", self.name)).spawn(move || {
                if let Err(error) = mech_fiber::prepare_thread() {
                    eprintln!("bursar: worker {index} cannot recover from stack overflows: {error}");
                }
                Rc::new(Worker::new(index, shared, deque, yielded)).main();
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

    /// Runs `root` as a task and blocks the caller until it has ended. It may borrow from the caller, and block without blocking a worker.
    #[track_caller]
    pub fn run<F, T>(&self, root: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let options = match self.shared.profile {
            // The root is the program: it gets all there is, and its children their shares of that.
            Some(profile) => {
                NurseryOptions::new().task_budget(profile.pool()).budget(one_spawn_more(profile.pool())).spawn_limit(1)
            }
            None => NurseryOptions::new(),
        };
        self.run_at(Location::caller(), options, root)
    }

    /// The same in a nursery that is like `options` say.
    #[track_caller]
    pub fn run_with<F, T>(&self, options: NurseryOptions, root: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        self.run_at(Location::caller(), options, root)
    }

    fn run_at<F, T>(&self, site: &'static Location<'static>, options: NurseryOptions, root: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        self.shared.check_process()?;
        let outcome = scope::open(self.shared, options, |nursery| nursery.spawn_at(site, root).join());
        outcome.map_err(RunError::Task)
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
        scope::open(self.shared, options, body)
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.shared.workers.len()
    }

    /// What the workers have done so far.
    pub fn stats(&self) -> Stats {
        Stats { workers: self.shared.workers.iter().map(|worker| worker.counters.read()).collect() }
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
            worker.may_steal.store(allowed, Relaxed);
            worker.home.ring(); // it may sleep by the old rule
            true
        })
    }

    /// Makes worker `index` panic at its next turn, to see that it is restarted and nothing is lost.
    #[doc(hidden)]
    pub fn fail_worker(&self, index: usize) {
        let worker = &self.shared.workers[index];
        worker.fails_next.store(true, Relaxed);
        worker.home.ring();
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.shared
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.shared.check_process().is_err() {
            return std::mem::forget(std::mem::take(&mut self.threads)); // a fork: nobody is there to be joined
        }
        self.shared.stopping.store(true, Release);
        self.shared.idle.ring_all();
        self.shared.workers.iter().for_each(|worker| worker.home.ring());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                eprintln!("bursar: a worker ended by a panic that could not be contained");
            }
        }
        self.shared.clock.stop();
        self.shared.pool.stop();
        self.shared.workers.iter().for_each(|worker| places::give_home(worker.home));
        self.shared.stacks.retire();
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

/// For the root itself.
fn one_spawn_more(budget: Budget) -> Budget {
    budget.spawns(budget.spawns.saturating_add(1))
}

/// The runtime everybody shares, made on first use and never dropped.
pub(crate) fn global() -> Result<&'static Runtime, BuildError> {
    static GLOBAL: OnceLock<Result<Runtime, BuildError>> = OnceLock::new();
    GLOBAL.get_or_init(Runtime::new).as_ref().map_err(Clone::clone)
}
