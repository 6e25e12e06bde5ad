//! The thread pool: workers that run closures one after the other. Each worker is a task with a thread of its own.
//!
//! Room: driver.
//!
//! A paused closure keeps its worker, which is parked; another worker takes its place. So the number of threads is the number of workers plus the number of paused closures.
//!
//! # Invariants
//! 1. A closure whose job is cancelled stops waiting in every operation of tasks; and no other closure is stopped with it.
//! 2. The tasks that a paused job has started pass no checkpoint until it is resumed.
//!
//! # Why they hold
//! A worker runs closures inside a nursery. To cancel a job, the scheduler marks the nursery as used up, under the lock, and then cancels it. To pause a job, it marks the nursery and pauses it. A
//! worker checks the mark under the lock when it reports the end of the closure, and opens a new nursery before it runs another closure.
//!
//! A closure pauses at `Ctx::checkpoint`, which reports it, or in an operation of tasks, where the clock finds it: while a pause is pending, the clock checks repeatedly, and when nothing
//! runs any more of all that the closure started, the job is paused.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use mech_sync::BatchClaim;
use sched_tasks::{Canceller, Condvar, MutexGuard, NurseryOptions, Pauser, Stop, contain, nursery_with};

use policy_jobs::{Cause, Effect, Ended, Scope, State, Time};

use super::chain::{CHAIN_CHECK_NS, CHAIN_LENGTH_MAX, CHAIN_NS, Chain};
use super::{Inner, Later, Shared};
use crate::ctx::{CANCEL, Ctx, PAUSE, Signals};
use crate::error::Failure;
use crate::job::{Done, Work};

/// How long a worker spins for work before it sleeps.
const SEARCH_TIME: Duration = Duration::from_micros(50);

/// How long it lets jobs accumulate once the first is there.
const GATHER_TIME: Duration = Duration::from_micros(3);

/// The shortest and the longest interval at which the clock checks whether pausing closures have stopped, with all their tasks.
const PAUSE_CHECK_MIN_NS: Time = 1_000_000;
const PAUSE_CHECK_MAX_NS: Time = 32_000_000;

/// The slot of one running closure: by it the scheduler reaches the closure.
pub(crate) struct RunSlot {
    pub(super) index: u32,
    pub(super) signals: Signals,
    /// A paused closure waits here.
    pub(super) wake: Condvar,
    /// The closure is paused, and its worker does not count as one, until it is resumed or has ended. Changed under the lock.
    pub(super) is_parked: AtomicBool,
    /// How many of the claimed jobs its worker has begun.
    pub(super) batch_claim: BatchClaim,
    /// The work of each claimed job.
    pub(super) works: Mutex<Vec<Work>>,
    /// Handles of the nursery in which its worker runs closures.
    nursery: Mutex<Option<(Canceller, Pauser)>>,
    /// The nursery is used up: the worker must open a new one. Changed under the lock.
    needs_new_nursery: AtomicBool,
}

impl RunSlot {
    /// Sets the nursery in which its worker runs closures from now on.
    pub(super) fn enter(&self, canceller: Canceller, pauser: Pauser) {
        *self.nursery.lock().unwrap_or_else(PoisonError::into_inner) = Some((canceller, pauser));
        self.needs_new_nursery.store(false, Ordering::Relaxed);
    }

    pub(super) fn nursery(&self) -> Option<(Canceller, Pauser)> {
        self.nursery.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Inner {
    /// Passes a request to a closure.
    pub(super) fn ask(&mut self, slot: &RunSlot, effect: Effect) {
        match effect {
            Effect::Pause(id) => {
                slot.signals.asked.fetch_or(PAUSE, Ordering::Relaxed);
                slot.needs_new_nursery.store(true, Ordering::Relaxed);
                if let Some((_, pauser)) = slot.nursery() {
                    pauser.pause();
                }
                self.pausing.push(id);
                (self.pause_alarm, self.pause_check_interval) = (Some(0), 0); // check at once
            }
            Effect::Cancel(_) => {
                slot.signals.asked.fetch_or(CANCEL, Ordering::Relaxed);
                slot.wake.notify_all();
                slot.needs_new_nursery.store(true, Ordering::Relaxed);
                self.interrupts.extend(slot.nursery().map(|(canceller, _)| canceller));
            }
            Effect::Resume(_) => {
                slot.signals.asked.fetch_and(!PAUSE, Ordering::Relaxed);
                if let Some((_, pauser)) = slot.nursery() {
                    pauser.resume();
                }
                self.unpark(slot);
                slot.wake.notify_all();
            }
        }
    }

    /// The closure is paused: its worker does not count until [`unpark`](Self::unpark).
    pub(super) fn park(&mut self, slot: &RunSlot) {
        if !slot.is_parked.swap(true, Ordering::Relaxed) {
            self.parked += 1;
        }
    }

    /// The closure runs again, or has ended.
    pub(super) fn unpark(&mut self, slot: &RunSlot) {
        if slot.is_parked.swap(false, Ordering::Relaxed) {
            self.parked -= 1;
        }
    }

    /// Checks which of the closures that were asked to pause have stopped in an operation of tasks.
    pub(super) fn check_paused(&mut self, now: Time) {
        let asked = core::mem::take(&mut self.pausing);
        for id in asked {
            if self.core.state(id) != State::Running || !self.core.is_pausing(id) || self.core.is_cancelling(id) {
                continue;
            }
            let slot = self.slots.get(self.core.slot(id) as usize).cloned();
            let still = slot.filter(|slot| slot.nursery().is_some_and(|(_, pauser)| pauser.is_still()));
            match still {
                Some(slot) => {
                    if self.core.paused(now, id) {
                        self.park(&slot);
                    }
                }
                None => self.pausing.push(id),
            }
        }
        let after = (2 * self.pause_check_interval).clamp(PAUSE_CHECK_MIN_NS, PAUSE_CHECK_MAX_NS);
        self.pause_check_interval = after;
        self.pause_alarm = (!self.pausing.is_empty()).then(|| now.saturating_add(after));
    }
}

impl Inner {
    /// A slot for one more worker.
    pub(super) fn new_worker(&mut self) -> Arc<RunSlot> {
        self.threads += 1;
        self.new_slot()
    }

    /// A slot for a closure to run in.
    pub(super) fn new_slot(&mut self) -> Arc<RunSlot> {
        let index = self.free_slots.pop().unwrap_or(self.slots.len() as u32);
        let slot = Arc::new(RunSlot {
            index,
            signals: Signals::new(),
            wake: Condvar::new(),
            is_parked: AtomicBool::new(false),
            batch_claim: BatchClaim::new(),
            works: Mutex::new(Vec::new()),
            nursery: Mutex::new(None),
            needs_new_nursery: AtomicBool::new(false),
        });
        match self.slots.get_mut(index as usize) {
            Some(entry) => *entry = slot.clone(),
            None => {
                self.slots.push(slot.clone());
                self.chains.push(Chain::default());
            }
        }
        slot
    }
}

impl Shared {
    pub(super) fn start_worker(&self, slot: Arc<RunSlot>) {
        let Some(shared) = self.me.upgrade() else { return };
        let name = format!("bursar-job-{}", slot.index);
        let worker = PendingWorker { shared, slot: Some(slot) };
        let _reported_by_drop = self.tasks.as_ref().map(|tasks| tasks.spawn_thread(name, move || worker.begin()));
    }

    fn work(&self, slot: &RunSlot) {
        let mut turn = Turn::default();
        loop {
            let mut goes_on = None;
            let _cancelled = nursery_with(NurseryOptions::new().name("job"), |n| {
                slot.enter(n.canceller(), n.pauser());
                goes_on = Some(self.work_in(slot, &mut turn));
                Ok(())
            });
            match goes_on {
                Some(true) => {}
                Some(false) => return,
                None => return self.stop_with_runtime(slot),
            }
        }
    }

    /// The nursery of all workers was cancelled: the runtime ends, or the seeded run. All open jobs are cancelled.
    #[cold]
    fn stop_with_runtime(&self, slot: &RunSlot) {
        self.section(|inner, now| {
            inner.retire(slot);
            inner.stop_with_runtime(now);
        });
        self.changed.notify_all();
    }

    /// The loop of a worker inside one nursery. `true`: the nursery is used up, and a new one is needed.
    fn work_in(&self, slot: &RunSlot, turn: &mut Turn) -> bool {
        let mut later = Vec::new();
        loop {
            let mut inner = self.lock();
            let mut dropped = turn.last.take().and_then(|last| self.report(&mut inner, slot, turn, last));
            if slot.needs_new_nursery.load(Ordering::Relaxed) {
                drop(inner);
                self.caught.discard(dropped);
                return true;
            }
            let mut searched = false;
            let found = loop {
                if inner.is_surplus() {
                    inner.retire(slot);
                    let now = self.now();
                    self.settle(&mut inner, now, &mut later);
                    self.changed.notify_all();
                    break false;
                }
                if self.next(&mut inner, slot, turn, &mut later) {
                    break true;
                }
                if !later.is_empty() || dropped.is_some() {
                    drop(inner);
                    self.perform(core::mem::take(&mut later));
                    self.caught.discard(dropped.take()); // at once: a caller may wait until its captures are dropped
                    inner = self.lock();
                } else if !searched && inner.searching == 0 && !self.is_seeded {
                    searched = true;
                    inner = self.search(inner);
                } else {
                    inner = self.sleep(inner);
                    searched = false;
                }
            };
            drop(inner);
            if !later.is_empty() {
                self.perform(core::mem::take(&mut later));
            }
            self.caught.discard(dropped); // user captures are not dropped under the lock
            if !found {
                return false;
            }
            self.run_chain(slot, turn);
        }
    }

    /// Sleeps until it is notified. Unwinds if the nursery of all workers is cancelled.
    fn sleep<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        struct Idle<'a>(Option<MutexGuard<'a, Inner>>);
        impl Drop for Idle<'_> {
            fn drop(&mut self) {
                if let Some(inner) = &mut self.0 {
                    inner.idle -= 1;
                }
            }
        }
        inner.idle += 1;
        let mut idle = Idle(Some(inner));
        self.work.wait(idle.0.as_mut().expect("it is taken out below"));
        let mut inner = idle.0.take().expect("it is put in above");
        inner.idle -= 1;
        inner
    }

    /// Spins briefly for a job to become ready, without the lock: often one does, and a sleep and a wakeup cost more.
    fn search<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let seen = inner.core.joined();
        inner.searching += 1;
        drop(inner);
        let start = std::time::Instant::now();
        let pause = || (0..32).for_each(|_| core::hint::spin_loop());
        while self.joined.load(Ordering::Acquire) == seen && start.elapsed() < SEARCH_TIME {
            pause();
        }
        // A thread that submits one job often submits more; taking them one by one would slow down both sides.
        let found = std::time::Instant::now();
        while found.elapsed() < GATHER_TIME {
            pause();
        }
        let mut inner = self.lock();
        inner.searching -= 1;
        let now = self.now();
        inner.take_back(now, 0);
        inner
    }

    /// Reports the end of a chain: all begun jobs but the last succeeded. Returns what is to be dropped.
    fn report(&self, inner: &mut Inner, slot: &RunSlot, turn: &Turn, last: (Work, Done)) -> Option<Work> {
        let (now, index) = (self.now(), slot.index as usize);
        inner.unpark(slot);
        slot.batch_claim.stop();
        inner.put_back(index, now, turn.begun);
        let chain = &mut inner.chains[index];
        let id = chain.ids[chain.current];
        chain.ids.clear();
        if matches!(last.1, Err(Failure::Stopped)) && !inner.core.is_cancelling(id) && sched_tasks::is_cancelled() {
            inner.stop_with_runtime(now); // the end of the runtime stopped it
        }
        inner.closure_ended(now, id, last.0, last.1)
    }

    /// Finds a job for this worker. `false` if there is none.
    fn next(&self, inner: &mut Inner, slot: &RunSlot, turn: &mut Turn, later: &mut Vec<Later>) -> bool {
        let now = self.now();
        let picked = if inner.only_closures {
            inner.take_back(now, CHAIN_NS);
            inner.core.pick(now)
        } else {
            self.pump(inner, now);
            inner.assigned.pop_front()
        };
        self.dispatch_effects(inner);
        if let Some(id) = picked {
            turn.began = now;
            self.begin_chain(inner, slot, turn, id);
            self.notify_worker(inner, later);
        }
        self.publish(inner, later);
        picked.is_some()
    }

    fn begin_chain(&self, inner: &mut Inner, slot: &RunSlot, turn: &mut Turn, id: u32) {
        slot.signals.clear();
        inner.core.set_slot(id, slot.index);
        // Requests that came since the pick.
        if inner.core.is_cancelling(id) {
            inner.ask(slot, Effect::Cancel(id));
        }
        if inner.core.is_pausing(id) {
            inner.ask(slot, Effect::Pause(id));
        }
        let chain = &mut inner.chains[slot.index as usize];
        *chain = Chain { ids: core::mem::take(&mut chain.ids), current: 0, since: turn.began };
        chain.ids.push(id);
        let fair_share = inner.core.in_line() / (2 * inner.workers);
        let most = turn.length.min(fair_share);
        if inner.only_closures && most > 0 {
            inner.core.claim(turn.began, id, most, &mut chain.ids);
            if chain.ids.len() > 1 && inner.chain_alarm.is_none() {
                inner.chain_alarm = Some(turn.began.saturating_add(CHAIN_CHECK_NS));
            }
        }
        turn.jobs.clear();
        let mut works = slot.works.lock().unwrap_or_else(PoisonError::into_inner);
        works.clear();
        for (at, &id) in chain.ids.iter().enumerate() {
            let attempt = inner.core.attempt(id) + u32::from(at > 0);
            turn.jobs.push((id, attempt));
            works.push(core::mem::replace(&mut inner.works[id as usize], Work::Nothing));
        }
        turn.joined = inner.core.joined();
        slot.batch_claim.begin(chain.ids.len());
    }

    /// Runs the claimed jobs, as long as each succeeds.
    fn run_chain(&self, slot: &RunSlot, turn: &mut Turn) {
        turn.begun = 0;
        loop {
            let (id, attempt) = turn.jobs[turn.begun];
            let mut work = slot.take_work(turn.begun);
            turn.begun += 1;
            let ctx = Ctx { scheduler: self, signals: &slot.signals, id, attempt };
            let done = run(&mut work, &ctx);
            let is_plain = matches!(done, Ok(None)) && turn.begun < turn.jobs.len();
            if !is_plain || self.is_overtaken(turn) || !slot.batch_claim.claim_next() {
                turn.last = Some((work, done));
                break;
            }
            self.caught.discard(work);
            slot.signals.clear_progress();
        }
        // As many as fit into the time of a chain, but at most twice as many as before.
        let took = (self.now() - turn.began) / turn.begun as u64;
        let fit = usize::try_from(CHAIN_NS / took.max(1)).unwrap_or(CHAIN_LENGTH_MAX);
        turn.length = fit.min(turn.begun * 2).min(CHAIN_LENGTH_MAX);
    }

    /// Whether other jobs became ready while this chain took longer than chains should: then the rest must go back to its lanes.
    fn is_overtaken(&self, turn: &Turn) -> bool {
        self.joined.load(Ordering::Relaxed) != turn.joined && self.now() - turn.began > CHAIN_NS
    }
}

/// A worker that has not begun. It may never begin, because no thread can be started or the runtime ends. Then the other workers run its jobs, and a start is tried again when the
/// next job becomes ready. If there are no other workers, nothing would ever run: then all jobs are cancelled.
struct PendingWorker {
    shared: Arc<Shared>,
    slot: Option<Arc<RunSlot>>,
}

impl PendingWorker {
    fn begin(mut self) {
        if let Some(slot) = self.slot.take() {
            self.shared.work(&slot);
        }
    }
}

impl Drop for PendingWorker {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        self.shared.section(|inner, now| {
            inner.retire(&slot);
            inner.start_failed_at = Some(inner.core.joined());
            match &self.shared.tasks {
                Ok(tasks) if !tasks.is_open() => inner.stop_with_runtime(now),
                Err(error) => inner.give_up(now, format!("its scheduler has no workers: {error}")),
                Ok(_) if inner.threads == 0 => {
                    inner.give_up(now, "no worker of its scheduler could be started".to_owned());
                }
                Ok(_) => {}
            }
        });
        self.shared.changed.notify_all();
    }
}

/// The work of a worker between two critical sections.
#[derive(Default)]
struct Turn {
    /// The jobs of the chain, each with the number of its attempt.
    jobs: Vec<(u32, u32)>,
    began: Time,
    joined: u64,
    begun: usize,
    /// The work of the last begun job, and how it ended.
    last: Option<(Work, Done)>,
    /// How many may be claimed next.
    length: usize,
}

impl Inner {
    /// Whether there is a surplus thread: a parked worker runs again, or the scheduler is over.
    pub(super) fn is_surplus(&self) -> bool {
        self.threads - self.parked > self.workers || (self.is_closing && self.core.open() == 0)
    }

    pub(super) fn stop_with_runtime(&mut self, now: Time) {
        self.is_closing = true;
        self.give_up(now, "the runtime of its scheduler ended".to_owned());
    }

    /// Nothing will run any more: cancels all jobs.
    fn give_up(&mut self, now: Time, why: String) {
        self.core.cancel_for(now, Scope::Run, &Cause::Stopped(why));
        // Picked jobs that no worker has taken.
        while let Some(id) = self.assigned.pop_front() {
            self.core.ended(now, id, Ended::Stopped);
        }
    }

    fn retire(&mut self, slot: &RunSlot) {
        self.threads -= 1;
        self.free_slots.push(slot.index);
    }

    /// A closure ended. Returns it if it is not needed again.
    pub(super) fn closure_ended(&mut self, now: Time, id: u32, work: Work, done: Done) -> Option<Work> {
        let mut made = None;
        let how = match done {
            Ok(output) => {
                made = output;
                Ended::Succeeded
            }
            Err(Failure::Stopped) => Ended::Stopped,
            Err(Failure::Error(message)) => Ended::Failed(Cause::Error(message)),
            Err(Failure::Permanent(message)) => Ended::Failed(Cause::Permanent(message)),
            Err(Failure::Panic { message, at }) => Ended::Failed(Cause::Panic { message, at }),
        };
        self.core.ended(now, id, how);
        if self.core.state(id) == State::Succeeded {
            if let Some(made) = made {
                self.outputs.insert(id, made);
            }
            return Some(work);
        }
        self.works[id as usize] = work; // it may be retried
        None
    }
}

/// Runs a closure. A panic fails its job, and nothing else.
pub(super) fn run(work: &mut Work, ctx: &Ctx<'_>) -> Done {
    let done = run_bare(work, ctx);
    if let Some(said) = ctx.signals.take_inside() {
        ctx.scheduler.discard(said);
    }
    done
}

fn run_bare(work: &mut Work, ctx: &Ctx<'_>) -> Done {
    let result = match work {
        Work::Nothing => Ok(Ok(None)),
        Work::Closure(closure) => contain(|| closure(ctx)),
        Work::Once(_) => {
            let Work::Once(closure) = core::mem::replace(work, Work::Gone) else { unreachable!("matched above") };
            contain(|| closure(ctx))
        }
        Work::Gone => {
            Ok(Err(Failure::Error("its closure can run only once, and has already run; use `run` to retry".to_owned())))
        }
        Work::Light(light) => match &mut **light {
            Work::Limited(limited) => return run_limited(limited, ctx, true),
            work => return run(work, ctx),
        },
        Work::Limited(limited) => return run_limited(limited, ctx, false),
        Work::Remote(_) => unreachable!("executors run these"),
    };
    result.unwrap_or_else(|stop| {
        Err(match stop {
            Stop::Cancelled => Failure::Stopped,
            Stop::Failed(error) => Failure::Error(error.to_string()),
            Stop::Panicked { thrown, at } => {
                Failure::Panic { message: ctx.scheduler.message(thrown), at: at.map(|at| at.to_string()) }
            }
        })
    })
}

/// Runs a closure as a task of a nursery that limits what it may do and spend.
fn run_limited((options, work): &mut (NurseryOptions, Work), ctx: &Ctx<'_>, is_light: bool) -> Done {
    let done = contain(|| {
        nursery_with(options.clone(), |n| {
            let body = || run(work, ctx);
            if is_light { n.spawn(body).join() } else { n.task().on_thread().spawn(body).join() }
        })
    });
    match done {
        Ok(Ok(done)) => done,
        Ok(Err(error)) if !error.is_cancelled() => Err(Failure::Error(error.to_string())),
        Err(Stop::Failed(error)) => Err(Failure::Error(error.to_string())),
        _ => Err(Failure::Stopped),
    }
}
