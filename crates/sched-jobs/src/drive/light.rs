//! Light jobs: closures that run as fibers, one each, in the nursery of the scheduler.
//!
//! Room: driver.
//!
//! # Invariant
//! A picked light job runs or fails, once; and a request that arrives between its pick and its first line reaches it.
//!
//! # Why it holds
//! It gets its slot when it is picked, under the lock, so a request finds the slot. A request is first stored in the slot and then looks for the nursery; the fiber first stores its nursery in the slot and then reads
//! the requests: one of the two sees the other.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use policy_jobs::Effect;
use sched_tasks::{NurseryOptions, Spawner, nursery_with};

use super::pool::{RunSlot, run};
use super::{Inner, Shared};
use crate::ctx::{CANCEL, Ctx, PAUSE};
use crate::error::Failure;
use crate::job::{Done, Work};

/// A light job that is about to begin.
pub(super) struct Light {
    id: u32,
    attempt: u32,
    slot: Arc<RunSlot>,
    work: Work,
}

impl Inner {
    /// A light job was picked: it gets its slot.
    pub(super) fn begin_light(&mut self, id: u32) {
        let slot = self.new_slot();
        self.core.set_slot(id, slot.index);
        if self.core.is_cancelling(id) {
            self.ask(&slot, Effect::Cancel(id));
        }
        if self.core.is_pausing(id) {
            self.ask(&slot, Effect::Pause(id));
        }
        let work = core::mem::replace(&mut self.works[id as usize], Work::Nothing);
        self.light.push(Light { id, attempt: self.core.attempt(id), slot, work });
    }
}

impl Shared {
    pub(super) fn start_light(&self, light: Light) {
        let Some(shared) = self.me.upgrade() else { return };
        let light = PendingLight { shared, light: Some(light) };
        let _reported_by_drop = self.tasks.as_ref().map(|tasks| tasks.spawn(move || light.begin()));
    }

    fn run_light(&self, light: Light) {
        let Light { id, attempt, slot, mut work } = light;
        let ctx = Ctx { scheduler: self, signals: &slot.signals, id, attempt };
        let mut done = None;
        let _cancelled = nursery_with(NurseryOptions::new().name("job"), |n| {
            slot.enter(n.canceller(), n.pauser());
            let asked = slot.signals.asked.load(Ordering::Relaxed);
            if asked & CANCEL != 0 {
                n.cancel();
            }
            if asked & PAUSE != 0 {
                n.pauser().pause();
            }
            done = Some(run(&mut work, &ctx));
            Ok(())
        });
        self.light_ended(id, &slot, work, done.unwrap_or(Err(Failure::Stopped)));
    }

    fn light_ended(&self, id: u32, slot: &RunSlot, work: Work, done: Done) {
        let is_over = !self.tasks.as_ref().is_ok_and(Spawner::is_open);
        let dropped = self.section(|inner, now| {
            inner.unpark(slot);
            if is_over {
                inner.stop_with_runtime(now);
            }
            inner.free_slots.push(slot.index);
            inner.closure_ended(now, id, work, done)
        });
        self.caught.discard(dropped);
    }
}

/// A light job that was picked and has not begun. If it never begins, because no task can be started or the runtime ends, it fails.
struct PendingLight {
    shared: Arc<Shared>,
    light: Option<Light>,
}

impl PendingLight {
    fn begin(mut self) {
        if let Some(light) = self.light.take() {
            self.shared.run_light(light);
        }
    }
}

impl Drop for PendingLight {
    fn drop(&mut self) {
        if let Some(Light { id, slot, work, .. }) = self.light.take() {
            let why = match &self.shared.tasks {
                Ok(tasks) if !tasks.is_open() => Failure::Stopped,
                Err(error) => Failure::Error(format!("it could not be started: {error}")),
                Ok(_) => Failure::Error("it could not be started".to_owned()),
            };
            self.shared.light_ended(id, &slot, work, Err(why));
        }
    }
}
