//! Workers: tasks, each with a thread of its own, that run closures one after the other.
//!
//! A closure that is paused keeps its worker, which stands aside; another takes its place. So there are as many as there should be, and one more for every paused closure.
//!
//! # Invariants
//! 1. Whatever the closure of a cancelled job waits for, in operations of tasks, it does not wait any longer; and no other closure is stopped with it.
//! 2. What a paused job started as tasks passes no checkpoint until it is resumed.
//!
//! # Why they hold
//! A worker runs closures inside a nursery. To cancel a job dooms the nursery, under the lock, and cancels it after; to pause one pauses the nursery, and dooms it, too. A worker
//! whose nursery is doomed, which it sees under the lock when it reports the end of the closure, opens another before it runs anything else.
//!
//! A closure stands still at `Ctx::checkpoint`, which says so, or in an operation of tasks, where the clock finds it: it looks again and again while a pause is asked
//! for, and only when nothing runs any more of all that the closure started, the job is paused.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use mech_sync::BatchClaim;
use sched_tasks::{Canceller, Condvar, MutexGuard, NurseryOptions, Pauser, Stop, contain, nursery_with};

use policy_jobs::{Cause, Effect, Ended, Scope, State, Time};

use super::chain::{CHAIN_NS, Chain, LONGEST, WATCH_NS};
use super::{Inner, Later, Shared};
use crate::ctx::{CANCEL, Ctx, PAUSE, Signals};
use crate::error::Failure;
use crate::job::{Done, Work};

/// How long a worker looks for work before it sleeps.
const SEARCH: Duration = Duration::from_micros(50);

/// How long it lets jobs gather once the first is there.
const GATHER: Duration = Duration::from_micros(3);

/// How soon, and how seldom at most, the clock looks whether closures that are to pause stand still, with all their tasks.
const LOOK_NS: Time = 1_000_000;
const LOOK_SELDOM_NS: Time = 32_000_000;

/// Where a running closure can be reached.
pub(crate) struct Post {
    pub(super) index: u32,
    pub(super) signals: Signals,
    /// A paused closure waits here.
    pub(super) wake: Condvar,
    /// It stands still, and its worker is not counted on: until it is resumed, or has ended. Changed under the lock.
    pub(super) is_aside: AtomicBool,
    /// How far its worker is with what it claimed.
    pub(super) batch_claim: BatchClaim,
    /// What is to be done for each of those.
    pub(super) works: Mutex<Vec<Work>>,
    /// Reaches the nursery that its worker runs closures in.
    nursery: Mutex<Option<(Canceller, Pauser)>>,
    /// That nursery is not to be used again. Changed under the lock.
    is_doomed: AtomicBool,
}

impl Post {
    /// Its worker runs closures in this nursery from now on.
    pub(super) fn enter(&self, canceller: Canceller, pauser: Pauser) {
        *self.nursery.lock().unwrap_or_else(PoisonError::into_inner) = Some((canceller, pauser));
        self.is_doomed.store(false, Ordering::Relaxed);
    }

    pub(super) fn nursery(&self) -> Option<(Canceller, Pauser)> {
        self.nursery.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Inner {
    /// Passes on to a closure what is asked of it.
    pub(super) fn ask(&mut self, post: &Post, effect: Effect) {
        match effect {
            Effect::Pause(id) => {
                post.signals.asked.fetch_or(PAUSE, Ordering::Relaxed);
                post.is_doomed.store(true, Ordering::Relaxed);
                if let Some((_, pauser)) = post.nursery() {
                    pauser.pause();
                }
                self.pausing.push(id);
                (self.pause_alarm, self.pause_look) = (Some(0), 0); // at once
            }
            Effect::Cancel(_) => {
                post.signals.asked.fetch_or(CANCEL, Ordering::Relaxed);
                post.wake.notify_all();
                post.is_doomed.store(true, Ordering::Relaxed);
                self.interrupts.extend(post.nursery().map(|(canceller, _)| canceller));
            }
            Effect::Resume(_) => {
                post.signals.asked.fetch_and(!PAUSE, Ordering::Relaxed);
                if let Some((_, pauser)) = post.nursery() {
                    pauser.resume();
                }
                self.come_back(post);
                post.wake.notify_all();
            }
        }
    }

    /// The closure stands still: nobody counts on its worker.
    pub(super) fn stand_aside(&mut self, post: &Post) {
        if !post.is_aside.swap(true, Ordering::Relaxed) {
            self.aside += 1;
        }
    }

    /// It goes on, or has ended.
    pub(super) fn come_back(&mut self, post: &Post) {
        if post.is_aside.swap(false, Ordering::Relaxed) {
            self.aside -= 1;
        }
    }

    /// Looks which closures that were asked to pause stand still in an operation of tasks.
    pub(super) fn look_who_stands_still(&mut self, now: Time) {
        let asked = core::mem::take(&mut self.pausing);
        for id in asked {
            if self.core.state(id) != State::Running || !self.core.is_pausing(id) || self.core.is_cancelling(id) {
                continue;
            }
            let post = self.posts.get(self.core.place(id) as usize).cloned();
            let still = post.filter(|post| post.nursery().is_some_and(|(_, pauser)| pauser.is_still()));
            match still {
                Some(post) => {
                    if self.core.paused(now, id) {
                        self.stand_aside(&post);
                    }
                }
                None => self.pausing.push(id),
            }
        }
        let after = (2 * self.pause_look).clamp(LOOK_NS, LOOK_SELDOM_NS);
        self.pause_look = after;
        self.pause_alarm = (!self.pausing.is_empty()).then(|| now.saturating_add(after));
    }
}

impl Inner {
    /// A place for one more worker.
    pub(super) fn new_worker(&mut self) -> Arc<Post> {
        self.threads += 1;
        self.new_post()
    }

    /// A place where a closure runs.
    pub(super) fn new_post(&mut self) -> Arc<Post> {
        let index = self.free_posts.pop().unwrap_or(self.posts.len() as u32);
        let post = Arc::new(Post {
            index,
            signals: Signals::new(),
            wake: Condvar::new(),
            is_aside: AtomicBool::new(false),
            batch_claim: BatchClaim::new(),
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
        let name = format!("bursar-job-{}", post.index);
        let worker = Unbegun { shared, post: Some(post) };
        let _told_by_its_drop = self.tasks.as_ref().map(|tasks| tasks.spawn_thread(name, move || worker.begin()));
    }

    fn work(&self, post: &Post) {
        let mut turn = Turn::default();
        loop {
            let mut goes_on = None;
            let _cancelled = nursery_with(NurseryOptions::new().name("job"), |n| {
                post.enter(n.canceller(), n.pauser());
                goes_on = Some(self.work_in(post, &mut turn));
                Ok(())
            });
            match goes_on {
                Some(true) => {}
                Some(false) => return,
                None => return self.stop_with_runtime(post),
            }
        }
    }

    /// The nursery of all workers was cancelled: its runtime ends, or the seeded run. What has not ended does not any more.
    #[cold]
    fn stop_with_runtime(&self, post: &Post) {
        self.section(|inner, now| {
            inner.retire(post);
            inner.stop_with_runtime(now);
        });
        self.news.notify_all();
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
                } else if !searched && inner.searching == 0 && !self.is_seeded {
                    searched = true;
                    inner = self.search(inner);
                } else {
                    inner = self.rest(inner);
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

    /// Sleeps until it is rung. Unwinds if the nursery of all workers is cancelled.
    fn rest<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
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

    /// Waits a moment for a job to join the line, without the lock: often one does, and a sleep and a wake cost more.
    fn search<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let seen = inner.core.joined();
        inner.searching += 1;
        drop(inner);
        let start = std::time::Instant::now();
        let pause = || (0..32).for_each(|_| core::hint::spin_loop());
        while self.joined.load(Ordering::Acquire) == seen && start.elapsed() < SEARCH {
            pause();
        }
        // Who submits one job often submits another; to take them one by one would slow both sides down.
        let found = std::time::Instant::now();
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
        inner.come_back(post);
        post.batch_claim.stop();
        inner.put_back(index, now, turn.begun);
        let chain = &mut inner.chains[index];
        let id = chain.ids[chain.current];
        chain.ids.clear();
        if matches!(last.1, Err(Failure::Stopped)) && !inner.core.is_cancelling(id) && sched_tasks::is_cancelled() {
            inner.stop_with_runtime(now); // that stopped it
        }
        inner.closure_ended(now, id, last.0, last.1)
    }

    /// Finds this worker something to run. `false` if there is nothing.
    fn next(&self, inner: &mut Inner, post: &Post, turn: &mut Turn, later: &mut Vec<Later>) -> bool {
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
        post.signals.clear();
        inner.core.set_place(id, post.index);
        // Asked between the choice and now.
        if inner.core.is_cancelling(id) {
            inner.ask(post, Effect::Cancel(id));
        }
        if inner.core.is_pausing(id) {
            inner.ask(post, Effect::Pause(id));
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
        post.batch_claim.begin(chain.ids.len());
    }

    /// Runs what was claimed, as long as nothing but success happens.
    fn run_chain(&self, post: &Post, turn: &mut Turn) {
        turn.begun = 0;
        loop {
            let (id, attempt) = turn.jobs[turn.begun];
            let mut work = post.take_work(turn.begun);
            turn.begun += 1;
            let ctx = Ctx { scheduler: self, signals: &post.signals, id, attempt };
            let done = run(&mut work, &ctx);
            let is_plain = matches!(done, Ok(None)) && turn.begun < turn.jobs.len();
            if !is_plain || self.is_overtaken(turn) || !post.batch_claim.go_on() {
                turn.last = Some((work, done));
                break;
            }
            self.caught.discard(work);
            post.signals.clear_progress();
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

/// A worker that has not begun. If it never does, because no thread could be had or the runtime ends, those there are must do, and it is tried again when the next job becomes ready. If
/// there are none, nothing would ever run: then all jobs end.
struct Unbegun {
    shared: Arc<Shared>,
    post: Option<Arc<Post>>,
}

impl Unbegun {
    fn begin(mut self) {
        if let Some(post) = self.post.take() {
            self.shared.work(&post);
        }
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        let Some(post) = self.post.take() else { return };
        self.shared.section(|inner, now| {
            inner.retire(&post);
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
        self.shared.news.notify_all();
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

    pub(super) fn stop_with_runtime(&mut self, now: Time) {
        self.is_closing = true;
        self.give_up(now, "the runtime of its scheduler ended".to_owned());
    }

    /// Nothing will run any more: whatever has not begun ends.
    fn give_up(&mut self, now: Time, why: String) {
        self.core.cancel_for(now, Scope::Run, &Cause::Stopped(why));
        // These were picked, and no worker has taken them.
        while let Some(id) = self.assigned.pop_front() {
            self.core.ended(now, id, Ended::Stopped);
        }
    }

    fn retire(&mut self, post: &Post) {
        self.threads -= 1;
        self.free_posts.push(post.index);
    }

    /// A closure ended. Returns it if it will not be needed again.
    pub(super) fn closure_ended(&mut self, now: Time, id: u32, work: Work, done: Done) -> Option<Work> {
        let mut made = None;
        let how = match done {
            Ok(output) => {
                made = output;
                Ended::Well
            }
            Err(Failure::Stopped) => Ended::Stopped,
            Err(Failure::Error(message)) => Ended::Badly(Cause::Error(message)),
            Err(Failure::Permanent(message)) => Ended::Badly(Cause::Permanent(message)),
            Err(Failure::Panic { message, at }) => Ended::Badly(Cause::Panic { message, at }),
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
            let Work::Once(closure) = core::mem::replace(work, Work::Gone) else { unreachable!("it was one") };
            contain(|| closure(ctx))
        }
        Work::Gone => Ok(Err(Failure::Error("its closure runs only once, and has; use `run` to retry".to_owned()))),
        Work::Light(light) => match &mut **light {
            Work::Limited(limited) => return run_limited(limited, ctx, true),
            work => return run(work, ctx),
        },
        Work::Limited(limited) => return run_limited(limited, ctx, false),
        Work::Remote(_) => unreachable!("executors carry these out"),
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

/// Runs a closure as a task of a nursery that says what it may do and spend.
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
