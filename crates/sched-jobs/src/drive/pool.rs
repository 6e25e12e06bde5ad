//! Workers: threads that run closures, one after the other.
//!
//! A closure that is paused keeps its thread, which stands aside; another thread takes its place. So there are as many threads as
//! workers, and one more for every paused closure.
//!
//! # Invariant
//! Whatever the closure of a cancelled job waits for, in operations of tasks, it does not wait any longer; and no other closure is stopped with it.
//!
//! # Why it holds
//! A worker runs closures inside a nursery. To cancel a job dooms the nursery, under the lock, and cancels it after. A worker whose nursery is doomed, which it sees under
//! the lock when it reports the end of the closure, opens another before it runs anything else.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mech_sync::Agenda;
use sched_tasks::{Canceller, NurseryOptions, Stop, contain, nursery_with};

use policy_jobs::{Cause, Effect, Ended, State, Time};

use super::chain::{CHAIN_NS, Chain, LONGEST, WATCH_NS};
use super::ctx::Ctx;
use super::{Inner, Shared};
use crate::job::{Done, Failure, Work};

/// How long a worker looks for work before it sleeps.
const SEARCH: Duration = Duration::from_micros(50);

/// How long it lets jobs gather once the first is there.
const GATHER: Duration = Duration::from_micros(3);

pub(super) const PAUSE: u8 = 1;
pub(super) const CANCEL: u8 = 2;

std::thread_local! {
    /// The address of the scheduler whose worker this thread is.
    static WORKS_FOR: Cell<usize> = const { Cell::new(0) };
}

/// Where a running closure can be reached.
pub(crate) struct Post {
    pub(super) index: u32,
    /// What is asked of the closure. Changed under the lock, read without.
    pub(super) asked: AtomicU8,
    /// How far it says it is; negative if it has said nothing. The bits of an `f32`.
    pub(super) progress: AtomicU32,
    /// A paused closure waits here.
    pub(super) wake: Condvar,
    /// Whether it may go on.
    pub(super) go_on: AtomicBool,
    /// It was cancelled while it stood aside, and its closure has not ended yet.
    pub(super) lingers: AtomicBool,
    /// How far its worker is with what it claimed.
    pub(super) agenda: Agenda,
    /// What is to be done for each of those.
    pub(super) works: Mutex<Vec<Work>>,
    /// Cancels the nursery that its worker runs closures in.
    nursery: Mutex<Option<Canceller>>,
    /// That nursery is cancelled, or will be at any moment. Changed under the lock.
    is_doomed: AtomicBool,
}

impl Post {
    /// Passes it on to the closure. What is to be cancelled when the lock is free is returned.
    #[must_use = "a closure that waits would wait on"]
    pub(super) fn ask(&self, effect: Effect) -> Option<Canceller> {
        match effect {
            Effect::Pause(_) => {
                self.asked.fetch_or(PAUSE, Ordering::Relaxed);
                None
            }
            Effect::Cancel(_) => {
                self.asked.fetch_or(CANCEL, Ordering::Relaxed);
                self.wake.notify_all();
                self.is_doomed.store(true, Ordering::Relaxed);
                self.nursery.lock().unwrap_or_else(PoisonError::into_inner).clone()
            }
            Effect::Resume(_) => {
                self.asked.fetch_and(!PAUSE, Ordering::Relaxed);
                self.go_on.store(true, Ordering::Relaxed);
                self.wake.notify_all();
                None
            }
        }
    }

    /// Its worker runs closures in this nursery from now on.
    fn enter(&self, nursery: Canceller) {
        *self.nursery.lock().unwrap_or_else(PoisonError::into_inner) = Some(nursery);
        self.is_doomed.store(false, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.asked.store(0, Ordering::Relaxed);
        self.go_on.store(false, Ordering::Relaxed);
        self.progress.store((-1.0_f32).to_bits(), Ordering::Relaxed);
    }

    pub(super) fn progress(&self) -> Option<f32> {
        Some(f32::from_bits(self.progress.load(Ordering::Relaxed))).filter(|done| *done >= 0.0)
    }
}

impl Inner {
    /// A place for one more thread.
    pub(super) fn new_post(&mut self) -> Arc<Post> {
        self.threads += 1;
        let index = self.free_posts.pop().unwrap_or(self.posts.len() as u32);
        let post = Arc::new(Post {
            index,
            asked: AtomicU8::new(0),
            progress: AtomicU32::new((-1.0_f32).to_bits()),
            wake: Condvar::new(),
            go_on: AtomicBool::new(false),
            lingers: AtomicBool::new(false),
            agenda: Agenda::new(),
            works: Mutex::new(Vec::new()),
            nursery: Mutex::new(None),
            is_doomed: AtomicBool::new(false),
        });
        match self.posts.get_mut(index as usize) {
            Some(place) => *place = post.clone(),
            None => {
                self.posts.push(post.clone());
                self.chains.push(Chain::default());
            }
        }
        post
    }
}

impl Shared {
    pub(super) fn start_worker(&self, post: Arc<Post>) {
        let Some(shared) = self.me.upgrade() else { return };
        let index = post.index;
        let name = format!("bursar-job-{index}");
        let started = std::thread::Builder::new().name(name).spawn(move || shared.work(&post));
        if started.is_err() {
            // No thread to be had: those there are must do, and it is tried again when the next job becomes ready.
            let mut inner = self.lock();
            inner.threads -= 1;
            inner.free_posts.push(index);
        }
    }

    /// Whether this thread is one of our workers.
    pub(super) fn is_my_worker(&self) -> bool {
        WORKS_FOR.get() == core::ptr::from_ref(self).addr()
    }

    fn work(&self, post: &Post) {
        WORKS_FOR.set(core::ptr::from_ref(self).addr());
        let mut turn = Turn::default();
        loop {
            let mut goes_on = None;
            let _cancelled = nursery_with(NurseryOptions::new().name("job"), |n| {
                post.enter(n.canceller());
                goes_on = Some(self.work_in(post, &mut turn));
                Ok(())
            });
            // Where there are no tasks to be had, closures run all the same.
            if !goes_on.unwrap_or_else(|| self.work_in(post, &mut turn)) {
                return;
            }
        }
    }

    /// The same inside a nursery. `true`: it was cancelled with a job, and another one is needed.
    fn work_in(&self, post: &Post, turn: &mut Turn) -> bool {
        let mut later = Vec::new();
        loop {
            let mut inner = self.lock();
            let mut dropped = turn.last.take().and_then(|last| self.report(&mut inner, post, turn, last));
            if post.is_doomed.load(Ordering::Relaxed) {
                drop(inner);
                self.caught.discard(dropped);
                return true;
            }
            let mut searched = false;
            let found = loop {
                if inner.is_surplus() {
                    inner.retire(post);
                    let now = self.now();
                    self.settle(&mut inner, now, &mut later);
                    self.news.notify_all();
                    break false;
                }
                if self.next(&mut inner, post, turn, &mut later) {
                    break true;
                }
                if !later.is_empty() || dropped.is_some() {
                    drop(inner);
                    self.perform(core::mem::take(&mut later));
                    self.caught.discard(dropped.take()); // at once: somebody may wait for what it captured to go
                    inner = self.lock();
                } else if !searched && inner.searching == 0 {
                    searched = true;
                    inner = self.search(inner);
                } else {
                    inner.idle += 1;
                    inner = self.work.wait(inner).unwrap_or_else(PoisonError::into_inner);
                    inner.idle -= 1;
                    searched = false;
                }
            };
            drop(inner);
            if !later.is_empty() {
                self.perform(core::mem::take(&mut later));
            }
            self.caught.discard(dropped); // captures of a user, not under the lock
            if !found {
                return false;
            }
            self.run_chain(post, turn);
        }
    }

    /// Waits a moment for a job to join the line, without the lock: often one does, and a sleep and a wake cost more.
    fn search<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let seen = inner.core.joined();
        inner.searching += 1;
        drop(inner);
        let start = Instant::now();
        let pause = || (0..32).for_each(|_| core::hint::spin_loop());
        while self.joined.load(Ordering::Acquire) == seen && start.elapsed() < SEARCH {
            pause();
        }
        // Who submits one job often submits another; to take them one by one would slow both sides down.
        let found = Instant::now();
        while found.elapsed() < GATHER {
            pause();
        }
        let mut inner = self.lock();
        inner.searching -= 1;
        let now = self.now();
        inner.take_back(now, 0);
        inner
    }

    /// Tells what became of a chain: all but the last that was begun succeeded. Returns what is to be dropped.
    fn report(&self, inner: &mut Inner, post: &Post, turn: &Turn, last: (Work, Done)) -> Option<Work> {
        let (now, index) = (self.now(), post.index as usize);
        if post.lingers.swap(false, Ordering::Relaxed) {
            inner.aside -= 1;
        }
        post.agenda.stop();
        inner.put_back(index, now, turn.begun);
        let chain = &mut inner.chains[index];
        let id = chain.ids[chain.current];
        chain.ids.clear();
        inner.closure_ended(now, id, last.0, last.1)
    }

    /// Finds this worker something to run. `false` if there is nothing.
    fn next(&self, inner: &mut Inner, post: &Post, turn: &mut Turn, later: &mut Vec<super::Later>) -> bool {
        let now = self.now();
        let picked = if inner.only_closures {
            inner.take_back(now, CHAIN_NS);
            inner.core.pick(now)
        } else {
            self.pump(inner, now);
            inner.assigned.pop_front()
        };
        self.hand_out(inner);
        if let Some(id) = picked {
            turn.began = now;
            self.begin_chain(inner, post, turn, id);
            self.ring(inner, later);
        }
        self.publish(inner, later);
        picked.is_some()
    }

    fn begin_chain(&self, inner: &mut Inner, post: &Post, turn: &mut Turn, id: u32) {
        post.clear();
        inner.core.set_place(id, post.index);
        if inner.core.is_canceling(id) {
            let interrupts = post.ask(Effect::Cancel(id)); // asked between the choice and now
            inner.interrupts.extend(interrupts);
        }
        if inner.core.is_pausing(id) {
            let _none = post.ask(Effect::Pause(id));
        }
        let chain = &mut inner.chains[post.index as usize];
        *chain = Chain { ids: core::mem::take(&mut chain.ids), current: 0, since: turn.began };
        chain.ids.push(id);
        let fair_share = inner.core.in_line() / (2 * inner.workers);
        let most = turn.length.min(fair_share);
        if inner.only_closures && most > 0 {
            inner.core.claim(turn.began, id, most, &mut chain.ids);
            if chain.ids.len() > 1 && inner.chain_alarm.is_none() {
                inner.chain_alarm = Some(turn.began.saturating_add(WATCH_NS));
            }
        }
        turn.jobs.clear();
        let mut works = post.works.lock().unwrap_or_else(PoisonError::into_inner);
        works.clear();
        for (at, &id) in chain.ids.iter().enumerate() {
            let attempt = inner.core.attempt(id) + u32::from(at > 0);
            turn.jobs.push((id, attempt));
            works.push(core::mem::replace(&mut inner.works[id as usize], Work::Nothing));
        }
        turn.joined = inner.core.joined();
        post.agenda.begin(chain.ids.len());
    }

    /// Runs what was claimed, as long as nothing but success happens.
    fn run_chain(&self, post: &Post, turn: &mut Turn) {
        turn.begun = 0;
        loop {
            let (id, attempt) = turn.jobs[turn.begun];
            let mut work = post.take_work(turn.begun);
            turn.begun += 1;
            let ctx = Ctx { shared: self, post, id, attempt };
            let done = run(&mut work, &ctx);
            let is_plain = matches!(done, Ok(None)) && turn.begun < turn.jobs.len();
            if !is_plain || self.is_overtaken(turn) || !post.agenda.go_on() {
                turn.last = Some((work, done));
                break;
            }
            self.caught.discard(work);
            post.progress.store((-1.0_f32).to_bits(), Ordering::Relaxed);
        }
        // So many of these as fit into the time of a chain, but not at once many more than before.
        let took = (self.now() - turn.began) / turn.begun as u64;
        let fit = usize::try_from(CHAIN_NS / took.max(1)).unwrap_or(LONGEST);
        turn.length = fit.min(turn.begun * 2).min(LONGEST);
    }

    /// Whether others became ready while this chain has taken longer than chains should: then the rest is not ours to run.
    fn is_overtaken(&self, turn: &Turn) -> bool {
        self.joined.load(Ordering::Relaxed) != turn.joined && self.now() - turn.began > CHAIN_NS
    }
}

/// What a worker does between two visits to the lock.
#[derive(Default)]
struct Turn {
    /// The jobs of the chain, and which attempt each is.
    jobs: Vec<(u32, u32)>,
    began: Time,
    joined: u64,
    begun: usize,
    /// The last that was begun, and how it ended.
    last: Option<(Work, Done)>,
    /// How many may be claimed next.
    length: usize,
}

impl Inner {
    /// Whether there is a thread too many: one that stood aside is back, or everything is over.
    pub(super) fn is_surplus(&self) -> bool {
        self.threads - self.aside > self.workers || (self.is_closing && self.core.open() == 0)
    }

    fn retire(&mut self, post: &Post) {
        self.threads -= 1;
        self.free_posts.push(post.index);
    }

    /// A closure ended. Returns it if it will not be needed again.
    fn closure_ended(&mut self, now: Time, id: u32, work: Work, done: Done) -> Option<Work> {
        let mut made = None;
        let how = match done {
            Ok(output) => {
                made = output;
                Ended::Well
            }
            Err(Failure::Stopped) => Ended::Stopped,
            Err(Failure::Error(message)) => Ended::Badly(Cause::Error(message)),
            Err(Failure::Permanent(message)) => Ended::Badly(Cause::Permanent(message)),
            Err(Failure::Panic(message)) => Ended::Badly(Cause::Panic(message)),
        };
        self.core.ended(now, id, how);
        if self.core.state(id) == State::Succeeded {
            if let Some(made) = made {
                self.outputs.insert(id, made);
            }
            return Some(work);
        }
        self.works[id as usize] = work; // it may be tried again
        None
    }
}

/// Runs a closure. A panic is a failure of its job, and of nothing else.
fn run(work: &mut Work, ctx: &Ctx<'_>) -> Done {
    let result = match work {
        Work::Nothing => Ok(Ok(None)),
        Work::Closure(closure) => contain(|| closure(ctx)),
        Work::Once(_) => {
            let Work::Once(closure) = core::mem::replace(work, Work::Gone) else { unreachable!("it was one") };
            contain(|| closure(ctx))
        }
        Work::Gone => Ok(Err(Failure::Error("its closure runs only once, and has; use `run` to retry".to_owned()))),
        Work::Remote(_) => unreachable!("executors carry these out"),
    };
    result.unwrap_or_else(|stop| {
        Err(match stop {
            Stop::Cancelled => Failure::Stopped,
            Stop::Failed(error) => Failure::Error(error.to_string()),
            Stop::Panicked(thrown) => Failure::Panic(ctx.shared.caught.message(thrown)),
        })
    })
}
