//! Tasks, time and a lock around the decisions.
//!
//! Room: drive. One lock guards the scheduler; whoever changes something holds it, lets the decisions be made, and does what they ask
//! for after it has let go. Workers and clock are tasks of a nursery that the handle owns; all that waits here waits as tasks do, and time is that of tasks: so a seed can decide
//! a run of jobs, and a fiber may wait for one.
//!
//! # Invariants
//! - No code of a user, and no executor, runs under the lock, but for the observer of events and the neighbours.
//! - No panic of such code ends a worker, the clock or the run: see `drive/panics.rs`.
//! - Whenever a job could start, a worker is awake that will ask for it, or it was asked for already.
//!
//! # Why they hold
//! Everything that can let a job start goes through [`Shared::section`], which at its end picks what others carry out, and
//! rings a worker if something is left and one sleeps. A worker that takes a job and leaves another in line rings the next.

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
use self::panics::{Caught, Thrown, Whose};
use self::pool::Post;
use crate::executor::{Executor, Hears, Measured, Order, Outcome, Reporter, Ticket};
use crate::job::Work;

/// Others on this machine who share what there is.
pub trait Neighbours: Send {
    /// Calls `choose` exactly once with what others use, and makes known to them what it returns: what we use now. Whatever they start meanwhile must
    /// wait, or be counted.
    ///
    /// If it panics it is not called again: it is dropped, and the run goes on as if it were alone.
    fn share(&mut self, choose: &mut dyn FnMut(&Others) -> Usage);
}

/// Is told every event, in order, under the scheduler's lock: quick, and without calling back. One that panics is dropped, and told nothing more.
pub type Observer = Box<dyn FnMut(&Event, Facts<'_>) + Send>;

/// What an [observer](Builder::observe) may ask about jobs while it is told of an event: all of [`JobFacts`], and what was measured.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    known: JobFacts<'a>,
    measured: Option<&'a (JobId, Measured)>,
}

impl<'a> Facts<'a> {
    /// What the executor of a job [said](crate::Reporter::ended_with) of the end that is being told.
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

/// The scheduler, as its threads share it.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Workers without work wait here.
    work: Condvar,
    /// Whoever waits for jobs waits here.
    news: Condvar,
    /// The clock's thread waits here.
    alarm: Condvar,
    /// How often jobs have joined the line, for those who look without the lock.
    joined: AtomicU64,
    epoch: Instant,
    /// The time of day at the epoch.
    built: SystemTime,
    pub(crate) caught: Caught,
    me: Weak<Shared>,
    /// Where workers and clock are started; or why there are no tasks to be had.
    tasks: Result<Spawner, TaskError>,
    /// A seed decides what happens: to spin is in vain.
    is_seeded: bool,
}

pub(crate) struct Inner {
    pub(crate) core: Core,
    works: Vec<Work>,
    outputs: HashMap<u32, Arc<dyn Any + Send + Sync>>,
    /// How far jobs of executors say they are.
    progress: HashMap<u32, f32>,
    feed: Feed,
    observer: Option<Observer>,
    neighbours: Option<Box<dyn Neighbours>>,
    /// Whether every job is a closure and nobody else shares the machine: then only workers pick.
    only_closures: bool,
    /// Closures that were picked by others than workers.
    assigned: VecDeque<u32>,
    posts: Vec<Arc<Post>>,
    /// What the worker at each post has claimed.
    chains: Vec<Chain>,
    free_posts: Vec<u32>,
    workers: usize,
    threads: usize,
    /// How many jobs had joined the line when a worker could not be started: it is tried again for the next.
    start_failed_at: Option<u64>,
    idle: usize,
    /// Workers that look for work without the lock, for a moment.
    searching: usize,
    /// Threads whose closure is paused.
    aside: usize,
    /// How many wait for news.
    waiting: usize,
    /// Whether one of them waits for more than the end of all.
    is_curious: bool,
    has_clock: bool,
    clock_set_to: Option<Time>,
    /// When the clock is to look for chains that became old.
    chain_alarm: Option<Time>,
    /// Closures that were asked to stand still, and when the clock is to look whether they do.
    pausing: Vec<u32>,
    pause_alarm: Option<Time>,
    /// How long it waited for the last look.
    pause_look: Time,
    is_closing: bool,
    /// Who is submitting a batch: others must wait until it is through.
    pen: Option<Writer>,
    effects: Vec<Effect>,
    /// What executors are to be asked, in this order.
    outbox: VecDeque<Message>,
    /// Whether a thread is asking them.
    is_carrying: bool,
    /// What panicked under the lock, and what it threw: to be dropped when it is free.
    retired: Vec<Thrown>,
    /// What was measured of the job whose end is about to be told.
    measured: Option<(JobId, Measured)>,
    /// Nurseries of closures whose jobs were cancelled.
    interrupts: Vec<Canceller>,
    /// Jobs that are to begin as fibers.
    light: Vec<Light>,
}

/// A thread, and the task on it.
type Writer = (ThreadId, Option<TaskId>);

/// What is to be done when the lock is free.
enum Later {
    Carry,
    Worker(Arc<Post>),
    Clock,
    Discard(Vec<Thrown>),
    Light(Vec<Light>),
    /// Whatever closures of cancelled jobs wait for, they need not any more.
    Interrupt(Vec<Canceller>),
}

/// What an executor is to be asked.
struct Message {
    executor: Arc<dyn Executor>,
    ticket: Ticket,
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
        core.watch(observer.is_some());
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
            posts: Vec::new(),
            chains: Vec::new(),
            free_posts: Vec::new(),
            workers,
            threads: 0,
            start_failed_at: None,
            idle: 0,
            searching: 0,
            aside: 0,
            waiting: 0,
            is_curious: false,
            has_clock: false,
            clock_set_to: None,
            chain_alarm: None,
            pausing: Vec::new(),
            pause_alarm: None,
            pause_look: 0,
            is_closing: false,
            pen: None,
            effects: Vec::new(),
            outbox: VecDeque::new(),
            is_carrying: false,
            retired: Vec::new(),
            measured: None,
            interrupts: Vec::new(),
            light: Vec::new(),
        };
        Arc::new_cyclic(|me| Self {
            inner: Mutex::new(inner),
            work: Condvar::new(),
            news: Condvar::new(),
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
        // Sections are short: looking for some microseconds is cheaper than a sleep and a wake.
        let looks = if self.is_seeded { 0 } else { 1024 };
        for _ in 0..looks {
            if !self.inner.is_locked() {
                break;
            }
            core::hint::spin_loop();
        }
        self.inner.lock_uninterrupted()
    }

    /// Changes something, then lets everything start that can. No job is claimed meanwhile, so what is seen is what is.
    fn section<R>(&self, change: impl FnOnce(&mut Inner, Time) -> R) -> R {
        self.section_with(0, change)
    }

    /// As `section`, but leaves alone what was claimed less than `patience` ago.
    fn section_with<R>(&self, patience: Time, change: impl FnOnce(&mut Inner, Time) -> R) -> R {
        let mut later = Vec::new();
        let result = {
            let mut inner = self.lock();
            let now = self.now();
            inner.take_back(now, patience);
            let result = change(&mut inner, now);
            self.settle(&mut inner, now, &mut later);
            result
        };
        self.perform(later);
        result
    }

    /// Picks what executors carry out, rings workers for the rest, hands out requests, and tells the news.
    fn settle(&self, inner: &mut Inner, now: Time, later: &mut Vec<Later>) {
        if inner.only_closures {
            inner.core.let_back(now); // nobody may come to pick
        } else {
            self.pump(inner, now);
        }
        self.hand_out(inner);
        self.ring(inner, later);
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
                    Err(thrown) if is_choosing => resume_unwind(thrown), // it is ours
                    Err(thrown) => {
                        self.caught.count(Whose::Neighbours);
                        inner.retired.extend([Box::new(neighbours) as Thrown, thrown]);
                        inner.core.set_others(&Others::default());
                        pick_all(inner);
                    }
                }
            }
        }
    }

    fn order(&self, inner: &mut Inner, id: u32) -> Message {
        let ticket = Ticket { job: JobId::from_index(id), attempt: inner.core.attempt(id) };
        let report = Reporter { hears: self.me.clone(), ticket };
        let name = inner.core.name(id).into_owned();
        let (gpus, trace_id) = (inner.core.cards(id), inner.core.trace_id(id));
        let Work::Remote(remote) = &mut inner.works[id as usize] else { unreachable!("what is not local is remote") };
        let order = Order { ticket, name, trace_id, gpus, work: remote.work.clone(), report };
        Message { executor: remote.executor.clone(), ticket, request: Request::Start(order, remote.token.take()) }
    }

    /// Passes on what the decisions ask of running jobs.
    fn hand_out(&self, inner: &mut Inner) {
        let mut effects = core::mem::take(&mut inner.effects);
        inner.core.take_effects(&mut effects);
        for effect in effects.drain(..) {
            let (Effect::Pause(id) | Effect::Resume(id) | Effect::Cancel(id)) = effect;
            if inner.core.is_local(id) {
                let place = inner.core.place(id);
                if let Some(post) = inner.posts.get(place as usize).cloned() {
                    inner.ask(&post, effect);
                }
                continue;
            }
            let ticket = Ticket { job: JobId::from_index(id), attempt: inner.core.attempt(id) };
            let Work::Remote(remote) = &inner.works[id as usize] else { unreachable!("what is not local is remote") };
            let executor = remote.executor.clone();
            let request = match effect {
                Effect::Pause(_) => Request::Pause,
                Effect::Resume(_) => Request::Resume,
                Effect::Cancel(_) => Request::Cancel,
            };
            inner.outbox.push_back(Message { executor, ticket, request });
        }
        inner.effects = effects;
    }

    /// Wakes or makes a worker if there is something for one.
    fn ring(&self, inner: &mut Inner, later: &mut Vec<Later>) {
        let wanted = if inner.only_closures { inner.core.in_line() > 0 } else { !inner.assigned.is_empty() };
        if !wanted || inner.searching > 0 {
            return; // who searches sees `joined` change
        }
        if inner.idle > 0 {
            self.work.notify_one();
        } else if inner.threads - inner.aside < inner.workers && inner.start_failed_at != Some(inner.core.joined()) {
            later.push(Later::Worker(inner.new_worker()));
        }
    }

    fn publish(&self, inner: &mut Inner, later: &mut Vec<Later>) {
        inner.tell_news(&self.caught);
        if !inner.retired.is_empty() {
            later.push(Later::Discard(core::mem::take(&mut inner.retired)));
        }
        if !inner.interrupts.is_empty() {
            later.push(Later::Interrupt(core::mem::take(&mut inner.interrupts)));
        }
        if !inner.light.is_empty() {
            later.push(Later::Light(core::mem::take(&mut inner.light)));
        }
        if !inner.outbox.is_empty() && !inner.is_carrying {
            inner.is_carrying = true;
            later.push(Later::Carry);
        }
        let has_part_ended = inner.core.take_part_ended();
        if inner.waiting > 0 && (has_part_ended || inner.is_curious || inner.core.open() == 0) {
            self.news.notify_all();
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

    /// Asks executors what is to be asked, one thing after the other. One thread at a time does so: a job is started before it is
    /// paused, and an executor that answers from within a call does not pile up calls.
    fn carry(&self) {
        loop {
            let mut inner = self.lock();
            let Some(Message { executor, ticket, request }) = inner.outbox.pop_front() else {
                inner.is_carrying = false;
                break;
            };
            drop(inner);
            let (is_pause, is_cancel) = (matches!(request, Request::Pause), matches!(request, Request::Cancel));
            let asked = self.caught.catch(Whose::Executor, || match request {
                Request::Start(order, None) => executor.start(order),
                Request::Start(order, Some(token)) => executor.find_again(order, &token),
                Request::Pause => executor.pause(ticket),
                Request::Resume => executor.resume(ticket),
                Request::Cancel => executor.cancel(ticket),
            });
            match asked {
                // One that does not pause is cancelled when its time is up; of all others nothing more would be heard.
                Err(text) if !is_pause => {
                    self.ended(ticket, Outcome::Failed(Cause::Panic { message: text, at: None }), None);
                    if !is_cancel {
                        // It may have begun nevertheless.
                        let _ = self.caught.catch(Whose::Executor, || executor.cancel(ticket));
                    }
                }
                _ => {}
            }
            self.caught.discard(executor);
        }
    }

    /// Does it; a cancellation of the caller waits until it is done, for what was decided must happen.
    fn perform(&self, later: Vec<Later>) {
        if later.is_empty() {
            return;
        }
        shield(|| {
            for what in later {
                match what {
                    Later::Carry => self.carry(),
                    Later::Worker(post) => self.start_worker(post),
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
    /// Tells everybody what happened.
    fn tell_news(&mut self, caught: &Caught) {
        let Inner { core, feed, observer, retired, measured, .. } = self;
        let measured = measured.take();
        if !core.has_news() {
            return retired.extend(measured.map(|(_, measured)| measured as Thrown));
        }
        if let Some(tell) = observer
            && let Err(thrown) = catch_unwind(AssertUnwindSafe(|| {
                let measured = measured.as_ref();
                core.tell_all(&mut |event: &Event, known: JobFacts<'_>| tell(event, Facts { known, measured }));
            }))
        {
            caught.count(Whose::Observer);
            retired.extend([Box::new(observer.take()) as Thrown, thrown]);
        }
        retired.extend(measured.map(|(_, measured)| measured as Thrown));
        let is_heard = feed.has_listeners();
        if is_heard {
            feed.take(&core.news().collect::<Vec<_>>());
        }
        core.clear_news();
        if observer.is_none() && !is_heard {
            core.watch(false);
        }
    }
}
