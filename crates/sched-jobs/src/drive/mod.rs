//! The driver: tasks, time and a lock around the decisions.
//!
//! Room: driver. Knows threads, clocks and executors; knows nothing of which job is best.
//!
//! One lock guards the scheduler. A thread that changes something takes the lock, lets the core decide, releases the lock, and then carries out the decisions.
//! Workers and clock are tasks of a nursery that the handle owns. All waits here are waits of tasks, and time is the time of tasks: so a seed can decide
//! a run of jobs, and a fiber may wait for one.
//!
//! # Invariants
//! - No user code and no executor runs under the lock, except the observer of events and the neighbours.
//! - No panic of such code ends a worker, the clock or the run: see `drive/panics.rs`.
//! - Whenever a job could start, a worker is awake that will pick it, or it is picked already.
//!
//! # Why they hold
//! Everything that can let a job start goes through [`Shared::section`]. At its end it picks the jobs for executors, and
//! notifies a sleeping worker if a job is left. A worker that takes a job and leaves another one notifies the next worker.

mod chain;
mod clock;
mod ctx;
mod feed;
mod handle;
mod light;
mod panics;
mod part;
mod pool;
#[cfg(feature = "process")]
pub mod process;
mod remote;
mod status;
mod submit;
#[cfg(test)]
mod tests;

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};
use std::thread::ThreadId;
use std::time::{Instant, SystemTime};

use core::any::Any;
use hashbrown::HashMap;
use sched_tasks::{Canceller, Condvar, Mutex, MutexGuard, Spawner, TaskError, TaskId, shield};

use policy_jobs::{Cause, Core, Effect, Event, JobFacts, JobId, Others, Rules, Time, Usage};

pub use self::feed::Events;
pub use self::handle::{Builder, Jobs, Target};
pub use self::panics::Panics;
pub use self::part::Part;
pub use self::status::{JobStatus, RunFailed, Summary};

use self::chain::Chain;
use self::feed::Feed;
use self::light::Light;
use self::panics::{Caught, PanicSource, Thrown};
use self::pool::RunSlot;
use crate::executor::{AttemptId, Executor, Measured, Order, Outcome, ReportSink, Reporter};
use crate::job::Work;

/// Other runs on this machine that share one budget.
pub trait Neighbours: Send {
    /// Calls `choose` exactly once with what other runs use, and publishes to them what it returns: what this run uses now. What they start meanwhile must
    /// wait, or be counted.
    ///
    /// If it panics it is not called again: it is dropped, and the run continues as if it were alone.
    fn share(&mut self, choose: &mut dyn FnMut(&Others) -> Usage);
}

/// A callback that gets every event, in order, under the scheduler's lock. It must be quick and must not call the scheduler. If it panics, it is dropped.
pub type Observer = Box<dyn FnMut(&Event, Facts<'_>) + Send>;

/// What an [observer](Builder::observe) may query about jobs while it gets an event: all of [`JobFacts`], and what was measured.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    known: JobFacts<'a>,
    measured: Option<&'a (JobId, Measured)>,
}

impl<'a> Facts<'a> {
    /// What the executor of a job [reported](crate::Reporter::ended_with) with the end that this event is about.
    pub fn measured<T: Any>(&self, job: JobId) -> Option<&'a T> {
        let (of, measured) = self.measured?;
        if *of == job { measured.downcast_ref() } else { None }
    }
}

impl<'a> core::ops::Deref for Facts<'a> {
    type Target = JobFacts<'a>;

    fn deref(&self) -> &JobFacts<'a> {
        &self.known
    }
}

/// The scheduler, shared by its threads.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Workers without work wait here.
    work: Condvar,
    /// Threads that wait for jobs wait here.
    changed: Condvar,
    /// The clock's thread waits here.
    alarm: Condvar,
    /// How often jobs have joined a lane, readable without the lock.
    joined: AtomicU64,
    epoch: Instant,
    /// The time of day at the epoch.
    built: SystemTime,
    pub(crate) caught: Caught,
    me: Weak<Shared>,
    /// Starts workers and clock; or why no tasks can be started.
    tasks: Result<Spawner, TaskError>,
    /// A seed decides what happens: spinning is useless.
    is_seeded: bool,
}

pub(crate) struct Inner {
    pub(crate) core: Core,
    works: Vec<Work>,
    outputs: HashMap<u32, Arc<dyn Any + Send + Sync>>,
    /// The progress of jobs of executors.
    progress: HashMap<u32, f32>,
    feed: Feed,
    observer: Option<Observer>,
    neighbours: Option<Box<dyn Neighbours>>,
    /// Whether every job is a closure and there are no neighbours: then only workers pick.
    only_closures: bool,
    /// Closures that were picked, and that no worker has taken yet.
    assigned: VecDeque<u32>,
    slots: Vec<Arc<RunSlot>>,
    /// The claimed jobs of the worker of each slot.
    chains: Vec<Chain>,
    free_slots: Vec<u32>,
    workers: usize,
    threads: usize,
    /// The value of `joined` when a worker could not be started: the next job tries again.
    start_failed_at: Option<u64>,
    idle: usize,
    /// Workers that spin for work without the lock.
    searching: usize,
    /// Threads whose closure is paused.
    parked: usize,
    /// How many threads wait for a change.
    waiting: usize,
    /// Whether one of them waits for any change, not only for the end of all jobs or of a part.
    wants_any_change: bool,
    has_clock: bool,
    clock_set_to: Option<Time>,
    /// When the clock checks for chains that take too long.
    chain_alarm: Option<Time>,
    /// Closures that were asked to pause, and when the clock checks whether they have.
    pausing: Vec<u32>,
    pause_alarm: Option<Time>,
    /// The interval before the last check.
    pause_check_interval: Time,
    is_closing: bool,
    /// The task that is submitting a batch: others must wait until it is complete.
    writer: Option<Writer>,
    effects: Vec<Effect>,
    /// Requests for executors, in this order.
    outbox: VecDeque<Message>,
    /// Whether a thread is calling executors.
    is_calling: bool,
    /// Code that panicked under the lock, and its payloads: to be dropped without the lock.
    retired: Vec<Thrown>,
    /// What was measured of the job whose end is about to be published.
    measured: Option<(JobId, Measured)>,
    /// Nurseries of closures whose jobs were cancelled.
    interrupts: Vec<Canceller>,
    /// Jobs that are to begin as fibers.
    light: Vec<Light>,
}

/// A thread, and the task on it.
type Writer = (ThreadId, Option<TaskId>);

/// What is to be done without the lock.
enum Later {
    CallExecutors,
    Worker(Arc<RunSlot>),
    Clock,
    Discard(Vec<Thrown>),
    Light(Vec<Light>),
    /// Interrupts the waits of closures whose jobs were cancelled.
    Interrupt(Vec<Canceller>),
}

/// A request for an executor.
struct Message {
    executor: Arc<dyn Executor>,
    attempt_id: AttemptId,
    request: Request,
}

enum Request {
    Start(Order, Option<String>),
    Pause,
    Resume,
    Cancel,
}

impl Shared {
    fn new(
        rules: Rules,
        observer: Option<Observer>,
        neighbours: Option<Box<dyn Neighbours>>,
        tasks: Result<Spawner, TaskError>,
    ) -> Arc<Self> {
        let workers = rules.workers;
        let mut core = Core::new(rules);
        core.record_events(observer.is_some());
        let inner = Inner {
            core,
            works: Vec::new(),
            outputs: HashMap::new(),
            progress: HashMap::new(),
            feed: Feed::default(),
            observer,
            only_closures: neighbours.is_none(),
            neighbours,
            assigned: VecDeque::new(),
            slots: Vec::new(),
            chains: Vec::new(),
            free_slots: Vec::new(),
            workers,
            threads: 0,
            start_failed_at: None,
            idle: 0,
            searching: 0,
            parked: 0,
            waiting: 0,
            wants_any_change: false,
            has_clock: false,
            clock_set_to: None,
            chain_alarm: None,
            pausing: Vec::new(),
            pause_alarm: None,
            pause_check_interval: 0,
            is_closing: false,
            writer: None,
            effects: Vec::new(),
            outbox: VecDeque::new(),
            is_calling: false,
            retired: Vec::new(),
            measured: None,
            interrupts: Vec::new(),
            light: Vec::new(),
        };
        Arc::new_cyclic(|me| Self {
            inner: Mutex::new(inner),
            work: Condvar::new(),
            changed: Condvar::new(),
            alarm: Condvar::new(),
            joined: AtomicU64::new(0),
            epoch: sched_tasks::now(),
            built: SystemTime::now(),
            caught: Caught::default(),
            me: me.clone(),
            tasks,
            is_seeded: sched_tasks::is_seeded(),
        })
    }

    pub(crate) fn now(&self) -> Time {
        let since = sched_tasks::now().saturating_duration_since(self.epoch);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Critical sections are short: spinning for some microseconds is cheaper than a sleep and a wakeup.
        let spins = if self.is_seeded { 0 } else { 1024 };
        for _ in 0..spins {
            if !self.inner.is_locked() {
                break;
            }
            core::hint::spin_loop();
        }
        self.inner.lock_uninterrupted()
    }

    /// Makes a change under the lock, then starts every job that can start. All chains are taken back first, so every job is in its true state.
    fn section<R>(&self, change: impl FnOnce(&mut Inner, Time) -> R) -> R {
        self.section_with(0, change)
    }

    /// As `section`, but does not take back chains that were claimed less than `min_age` ago.
    fn section_with<R>(&self, min_age: Time, change: impl FnOnce(&mut Inner, Time) -> R) -> R {
        let mut later = Vec::new();
        let result = {
            let mut inner = self.lock();
            let now = self.now();
            inner.take_back(now, min_age);
            let result = change(&mut inner, now);
            self.settle(&mut inner, now, &mut later);
            result
        };
        self.perform(later);
        result
    }

    /// Picks jobs for executors, notifies workers for the rest, dispatches effects, and publishes events.
    fn settle(&self, inner: &mut Inner, now: Time, later: &mut Vec<Later>) {
        if inner.only_closures {
            inner.core.resume_waiting(now); // perhaps no worker picks now
        } else {
            self.pump(inner, now);
        }
        self.dispatch_effects(inner);
        self.notify_worker(inner, later);
        self.publish(inner, later);
    }

    /// Picks until nothing more fits. Closures are assigned to workers, the rest is started.
    fn pump(&self, inner: &mut Inner, now: Time) {
        let pick_all = |inner: &mut Inner| {
            while let Some(id) = inner.core.pick(now) {
                if matches!(inner.works[id as usize], Work::Light(_)) {
                    inner.begin_light(id);
                } else if inner.core.is_local(id) {
                    inner.assigned.push_back(id);
                } else {
                    let order = self.order(inner, id);
                    inner.outbox.push_back(order);
                }
            }
        };
        match inner.neighbours.take() {
            None => pick_all(inner),
            Some(mut neighbours) => {
                let (mut called, mut is_choosing) = (false, false);
                let mut choose = |others: &Others| {
                    assert!(!core::mem::replace(&mut called, true), "neighbours share once at a time");
                    is_choosing = true;
                    inner.core.set_others(others);
                    pick_all(inner);
                    is_choosing = false;
                    inner.core.usage()
                };
                match catch_unwind(AssertUnwindSafe(|| neighbours.share(&mut choose))) {
                    Ok(()) => inner.neighbours = Some(neighbours),
                    Err(thrown) if is_choosing => resume_unwind(thrown), // a panic of the scheduler itself
                    Err(thrown) => {
                        self.caught.count(PanicSource::Neighbours);
                        inner.retired.extend([Box::new(neighbours) as Thrown, thrown]);
                        inner.core.set_others(&Others::default());
                        pick_all(inner);
                    }
                }
            }
        }
    }

    fn order(&self, inner: &mut Inner, id: u32) -> Message {
        let attempt_id = AttemptId { job: JobId::from_index(id), attempt: inner.core.attempt(id) };
        let report = Reporter { sink: self.me.clone(), attempt_id };
        let name = inner.core.name(id).into_owned();
        let (gpus, trace_id) = (inner.core.cards(id), inner.core.trace_id(id));
        let Work::Remote(remote) = &mut inner.works[id as usize] else { unreachable!("what is not local is remote") };
        let order = Order { attempt_id, name, trace_id, gpus, work: remote.work.clone(), report };
        Message { executor: remote.executor.clone(), attempt_id, request: Request::Start(order, remote.token.take()) }
    }

    /// Passes the effects to running jobs.
    fn dispatch_effects(&self, inner: &mut Inner) {
        let mut effects = core::mem::take(&mut inner.effects);
        inner.core.take_effects(&mut effects);
        for effect in effects.drain(..) {
            let (Effect::Pause(id) | Effect::Resume(id) | Effect::Cancel(id)) = effect;
            if inner.core.is_local(id) {
                let index = inner.core.slot(id);
                if let Some(slot) = inner.slots.get(index as usize).cloned() {
                    inner.ask(&slot, effect);
                }
                continue;
            }
            let attempt_id = AttemptId { job: JobId::from_index(id), attempt: inner.core.attempt(id) };
            let Work::Remote(remote) = &inner.works[id as usize] else { unreachable!("what is not local is remote") };
            let executor = remote.executor.clone();
            let request = match effect {
                Effect::Pause(_) => Request::Pause,
                Effect::Resume(_) => Request::Resume,
                Effect::Cancel(_) => Request::Cancel,
            };
            inner.outbox.push_back(Message { executor, attempt_id, request });
        }
        inner.effects = effects;
    }

    /// Wakes or starts a worker if there is a job for one.
    fn notify_worker(&self, inner: &mut Inner, later: &mut Vec<Later>) {
        let wanted = if inner.only_closures { inner.core.in_line() > 0 } else { !inner.assigned.is_empty() };
        if !wanted || inner.searching > 0 {
            return; // a searching worker sees `joined` change
        }
        if inner.idle > 0 {
            self.work.notify_one();
        } else if inner.threads - inner.parked < inner.workers && inner.start_failed_at != Some(inner.core.joined()) {
            later.push(Later::Worker(inner.new_worker()));
        }
    }

    fn publish(&self, inner: &mut Inner, later: &mut Vec<Later>) {
        inner.publish_events(&self.caught);
        if !inner.retired.is_empty() {
            later.push(Later::Discard(core::mem::take(&mut inner.retired)));
        }
        if !inner.interrupts.is_empty() {
            later.push(Later::Interrupt(core::mem::take(&mut inner.interrupts)));
        }
        if !inner.light.is_empty() {
            later.push(Later::Light(core::mem::take(&mut inner.light)));
        }
        if !inner.outbox.is_empty() && !inner.is_calling {
            inner.is_calling = true;
            later.push(Later::CallExecutors);
        }
        let has_part_ended = inner.core.take_part_ended();
        if inner.waiting > 0 && (has_part_ended || inner.wants_any_change || inner.core.open() == 0) {
            self.changed.notify_all();
        }
        self.joined.store(inner.core.joined(), Ordering::Release);
        let next = inner.next_alarm();
        if !inner.is_closing && next.is_some_and(|next| inner.clock_set_to.is_none_or(|set| next < set)) {
            inner.clock_set_to = next;
            if inner.has_clock {
                self.alarm.notify_one();
            } else {
                inner.has_clock = true;
                later.push(Later::Clock);
            }
        }
    }

    /// Sends the requests to executors, one after the other. One thread at a time does so: a job is started before it is
    /// paused, and an executor that reports from within a call causes no recursion.
    fn call_executors(&self) {
        loop {
            let mut inner = self.lock();
            let Some(Message { executor, attempt_id, request }) = inner.outbox.pop_front() else {
                inner.is_calling = false;
                break;
            };
            drop(inner);
            let (is_pause, is_cancel) = (matches!(request, Request::Pause), matches!(request, Request::Cancel));
            let asked = self.caught.catch(PanicSource::Executor, || match request {
                Request::Start(order, None) => executor.start(order),
                Request::Start(order, Some(token)) => executor.find_again(order, &token),
                Request::Pause => executor.pause(attempt_id),
                Request::Resume => executor.resume(attempt_id),
                Request::Cancel => executor.cancel(attempt_id),
            });
            match asked {
                // An attempt that does not pause is cancelled by the pause timeout. In all other cases no report would come.
                Err(text) if !is_pause => {
                    self.ended(attempt_id, Outcome::Failed(Cause::Panic { message: text, at: None }), None);
                    if !is_cancel {
                        // The attempt may have begun nevertheless.
                        let _ = self.caught.catch(PanicSource::Executor, || executor.cancel(attempt_id));
                    }
                }
                _ => {}
            }
            self.caught.discard(executor);
        }
    }

    /// Carries out decisions. A cancellation of the caller is deferred until they are done, because they must happen.
    fn perform(&self, later: Vec<Later>) {
        if later.is_empty() {
            return;
        }
        shield(|| {
            for what in later {
                match what {
                    Later::CallExecutors => self.call_executors(),
                    Later::Worker(slot) => self.start_worker(slot),
                    Later::Clock => self.start_clock(),
                    Later::Light(jobs) => jobs.into_iter().for_each(|job| self.start_light(job)),
                    Later::Discard(retired) => self.caught.discard_all(retired),
                    Later::Interrupt(nurseries) => nurseries.iter().for_each(Canceller::cancel),
                }
            }
        });
    }
}

impl Inner {
    /// Passes the recorded events to the observer and to the listeners.
    fn publish_events(&mut self, caught: &Caught) {
        let Inner { core, feed, observer, retired, measured, .. } = self;
        let measured = measured.take();
        if !core.has_events() {
            return retired.extend(measured.map(|(_, measured)| measured as Thrown));
        }
        if let Some(observe) = observer
            && let Err(thrown) = catch_unwind(AssertUnwindSafe(|| {
                let measured = measured.as_ref();
                core.for_each_event(&mut |event: &Event, known: JobFacts<'_>| {
                    observe(event, Facts { known, measured })
                });
            }))
        {
            caught.count(PanicSource::Observer);
            retired.extend([Box::new(observer.take()) as Thrown, thrown]);
        }
        retired.extend(measured.map(|(_, measured)| measured as Thrown));
        let has_listeners = feed.has_listeners();
        if has_listeners {
            feed.push(&core.events().collect::<Vec<_>>());
        }
        core.clear_events();
        if observer.is_none() && !has_listeners {
            core.record_events(false);
        }
    }
}
