//! Closures that run as fibers: one each, in the nursery of the scheduler.
//!
//! # Invariant
//! A light job that was picked is run or ends as failed, once; and what is asked of it between its pick and its first line reaches it.
//!
//! # Why it holds
//! It has its post when it is picked, under the lock, so a request finds that. A request is noted there before the nursery is looked for; the fiber makes its nursery known first, and then looks at
//! what was noted: one of the two sees the other.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use policy_jobs::Effect;
use sched_tasks::{NurseryOptions, Spawner, nursery_with};

use super::pool::{Post, run};
use super::{Inner, Shared};
use crate::ctx::{CANCEL, Ctx, PAUSE};
use crate::error::Failure;
use crate::job::{Done, Work};

/// A job that is to begin.
pub(super) struct Light {
    id: u32,
    attempt: u32,
    post: Arc<Post>,
    work: Work,
}

impl Inner {
    /// A light job was picked: it has a place from now on.
    pub(super) fn begin_light(&mut self, id: u32) {
        let post = self.new_post();
        self.core.set_place(id, post.index);
        if self.core.is_cancelling(id) {
            self.ask(&post, Effect::Cancel(id));
        }
        if self.core.is_pausing(id) {
            self.ask(&post, Effect::Pause(id));
        }
        let work = core::mem::replace(&mut self.works[id as usize], Work::Nothing);
        self.light.push(Light { id, attempt: self.core.attempt(id), post, work });
    }
}

impl Shared {
    pub(super) fn start_light(&self, light: Light) {
        let Some(shared) = self.me.upgrade() else { return };
        let light = Unbegun { shared, light: Some(light) };
        let _told_by_its_drop = self.tasks.as_ref().map(|tasks| tasks.spawn(move || light.begin()));
    }

    fn run_light(&self, light: Light) {
        let Light { id, attempt, post, mut work } = light;
        let ctx = Ctx { scheduler: self, signals: &post.signals, id, attempt };
        let mut done = None;
        let _cancelled = nursery_with(NurseryOptions::new().name("job"), |n| {
            post.enter(n.canceller(), n.pauser());
            let asked = post.signals.asked.load(Ordering::Relaxed);
            if asked & CANCEL != 0 {
                n.cancel();
            }
            if asked & PAUSE != 0 {
                n.pauser().pause();
            }
            done = Some(run(&mut work, &ctx));
            Ok(())
        });
        self.light_ended(id, &post, work, done.unwrap_or(Err(Failure::Stopped)));
    }

    fn light_ended(&self, id: u32, post: &Post, work: Work, done: Done) {
        let is_over = !self.tasks.as_ref().is_ok_and(Spawner::is_open);
        let dropped = self.section(|inner, now| {
            inner.come_back(post);
            if is_over {
                inner.stop_with_runtime(now);
            }
            inner.free_posts.push(post.index);
            inner.closure_ended(now, id, work, done)
        });
        self.caught.discard(dropped);
    }
}

/// A light job that was picked and has not begun. It ends also if it never does: no task could be had, or the runtime ends.
struct Unbegun {
    shared: Arc<Shared>,
    light: Option<Light>,
}

impl Unbegun {
    fn begin(mut self) {
        if let Some(light) = self.light.take() {
            self.shared.run_light(light);
        }
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        if let Some(Light { id, post, work, .. }) = self.light.take() {
            let why = match &self.shared.tasks {
                Ok(tasks) if !tasks.is_open() => Failure::Stopped,
                Err(error) => Failure::Error(format!("it could not be started: {error}")),
                Ok(_) => Failure::Error("it could not be started".to_owned()),
            };
            self.shared.light_ended(id, &post, work, Err(why));
        }
    }
}
