//! Workers: threads that run closures, one after the other.
//!
//! A closure that is paused keeps its thread, which stands aside; another thread takes its place. So there are as many threads as
//! workers, and one more for every paused closure.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::panic::catch_unwind;
use std::sync::{Arc, Condvar, PoisonError};

use super::ctx::Ctx;
use super::{Inner, Shared};
use crate::decide::{Effect, Ended};
use crate::error::Cause;
use crate::job::{Done, Failure, Work};
use crate::state::State;

pub(super) const PAUSE: u8 = 1;
pub(super) const CANCEL: u8 = 2;

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
}

impl Post {
    pub(super) fn ask(&self, effect: Effect) {
        match effect {
            Effect::Pause(_) => {
                self.asked.fetch_or(PAUSE, Ordering::Relaxed);
            }
            Effect::Cancel(_) => {
                self.asked.fetch_or(CANCEL, Ordering::Relaxed);
                self.wake.notify_all();
            }
            Effect::Resume(_) => {
                self.asked.fetch_and(!PAUSE, Ordering::Relaxed);
                self.go_on.store(true, Ordering::Relaxed);
                self.wake.notify_all();
            }
        }
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
        });
        match self.posts.get_mut(index as usize) {
            Some(place) => *place = post.clone(),
            None => self.posts.push(post.clone()),
        }
        post
    }
}

/// A closure that a worker runs.
struct Current {
    id: u32,
    attempt: u32,
    work: Work,
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

    fn work(&self, post: &Post) {
        let mut finished: Option<(u32, Work, Done)> = None;
        let mut later = Vec::new();
        loop {
            let mut inner = self.lock();
            let mut dropped = None; // captures of a user, which must not be dropped under the lock
            if let Some((id, work, done)) = finished.take() {
                dropped = inner.closure_ended(self.now(), id, work, done);
            }
            let current = loop {
                if inner.is_surplus() {
                    inner.retire(post);
                    let now = self.now();
                    self.settle(&mut inner, now, &mut later);
                    self.news.notify_all();
                    break None;
                }
                if let Some(current) = self.next(&mut inner, post, &mut later) {
                    break Some(current);
                }
                if !later.is_empty() || dropped.is_some() {
                    drop(inner);
                    self.perform(core::mem::take(&mut later));
                    dropped = None;
                    inner = self.lock();
                    continue;
                }
                inner.idle += 1;
                inner = self.work.wait(inner).unwrap_or_else(PoisonError::into_inner);
                inner.idle -= 1;
            };
            drop(inner);
            self.perform(core::mem::take(&mut later));
            drop(dropped);
            let Some(mut current) = current else { return };
            let ctx = Ctx { shared: self, post, id: current.id, attempt: current.attempt };
            let done = run(&mut current.work, &ctx);
            finished = Some((current.id, current.work, done));
        }
    }

    /// The next closure for this worker, if there is one.
    fn next(&self, inner: &mut Inner, post: &Post, later: &mut Vec<super::Later>) -> Option<Current> {
        let now = self.now();
        let picked = if inner.only_closures {
            inner.core.pick(now)
        } else {
            self.pump(inner, now, later);
            inner.assigned.pop_front()
        };
        self.hand_out(inner, later);
        let current = picked.map(|id| {
            self.ring(inner, later);
            post.clear();
            inner.core.set_place(id, post.index);
            if inner.core.is_canceling(id) {
                post.ask(Effect::Cancel(id)); // asked between the choice and now
            }
            if inner.core.is_pausing(id) {
                post.ask(Effect::Pause(id));
            }
            let work = core::mem::replace(&mut inner.works[id as usize], Work::Nothing);
            Current { id, attempt: inner.core.attempt(id), work }
        });
        self.publish(inner, later);
        current
    }
}

impl Inner {
    /// Whether there is a thread too many: one that stood aside is back, or everything is over.
    fn is_surplus(&self) -> bool {
        self.threads - self.aside > self.workers || (self.is_closing && self.core.open() == 0)
    }

    fn retire(&mut self, post: &Post) {
        self.threads -= 1;
        self.free_posts.push(post.index);
    }

    /// A closure ended. Returns it if it will not be needed again.
    fn closure_ended(&mut self, now: crate::aging::Time, id: u32, work: Work, done: Done) -> Option<Work> {
        let how = match done {
            Ok(output) => {
                if let Some(output) = output {
                    self.outputs.insert(id, output);
                }
                Ended::Well
            }
            Err(Failure::Stopped) => Ended::Stopped,
            Err(Failure::Error(message)) => Ended::Badly(Cause::Error(message)),
            Err(Failure::Panic(message)) => Ended::Badly(Cause::Panic(message)),
        };
        self.core.ended(now, id, how);
        if self.core.state(id) == State::Succeeded {
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
        Work::Closure(closure) => catch_unwind(AssertUnwindSafe(|| closure(ctx))),
        Work::Once(_) => {
            let Work::Once(closure) = core::mem::replace(work, Work::Gone) else { unreachable!("it was one") };
            catch_unwind(AssertUnwindSafe(|| closure(ctx)))
        }
        Work::Gone => Ok(Err(Failure::Error("its closure runs only once, and has; use `run` to retry".to_owned()))),
        Work::Remote(_) => unreachable!("executors carry these out"),
    };
    result.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Err(Failure::Panic(text.unwrap_or_else(|| "with something that is not a text".to_owned())))
    })
}
