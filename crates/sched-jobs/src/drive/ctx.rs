//! The scheduler's side of [`Ctx`](crate::Ctx): it answers the closures that it runs.
//!
//! Room: driver.

use core::any::Any;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use policy_jobs::{Gpu, TraceId};
use sched_tasks::shield;

use super::Shared;
use crate::ctx::{CANCEL, InputError, Inside, PAUSE, Scheduler};

impl Scheduler for Shared {
    fn name(&self, id: u32) -> String {
        self.lock().core.name(id).into_owned()
    }

    fn part(&self, id: u32) -> Option<String> {
        let inner = self.lock();
        inner.core.part_of(id).map(|part| inner.core.part_name(part).to_owned())
    }

    fn trace_id(&self, id: u32) -> Option<TraceId> {
        self.lock().core.trace_id(id)
    }

    fn gpus(&self, id: u32) -> Vec<Gpu> {
        self.lock().core.cards(id)
    }

    fn needs(&self, id: u32) -> Vec<String> {
        let inner = self.lock();
        inner.core.needs_of(id).map(|need| inner.core.name(need).into_owned()).collect()
    }

    fn output(&self, id: u32, of: &str) -> Result<Arc<dyn Any + Send + Sync>, InputError> {
        let inner = self.lock();
        let need = inner.core.needs_of(id).find(|need| inner.core.name(*need) == of);
        let Some(need) = need else {
            let needs = inner.core.needs_of(id).map(|need| inner.core.name(need).into_owned()).collect();
            return Err(InputError::NotNeeded { job: of.to_owned(), needs });
        };
        inner.outputs.get(&need).cloned().ok_or_else(|| InputError::Nothing { job: of.to_owned() })
    }

    fn progress(&self, id: u32, done: f32) {
        self.section(|inner, now| inner.core.progress(now, id, done));
    }

    fn wait_while_paused(&self, id: u32) {
        let slot = {
            let inner = self.lock();
            inner.slots[inner.core.slot(id) as usize].clone()
        };
        let is_parked = || slot.is_parked.load(Ordering::Relaxed);
        // A loop, because it may have been resumed and paused again before it woke: this may be its only checkpoint.
        while slot.signals.is_asked(PAUSE) && !slot.signals.is_asked(CANCEL) {
            self.section(|inner, now| {
                if is_parked() || inner.core.paused(now, id) {
                    inner.park(&slot);
                } else {
                    slot.signals.asked.fetch_and(!PAUSE, Ordering::Relaxed); // the pause was withdrawn
                }
            });
            let mut inner = self.lock();
            while is_parked() && !slot.signals.is_asked(CANCEL) {
                shield(|| slot.wake.wait(&mut inner)); // a resume and a cancel notify it
            }
        }
    }

    fn discard(&self, said: Inside) {
        self.caught.discard(said);
    }

    fn message(&self, thrown: Box<dyn Any + Send>) -> String {
        self.caught.message(thrown)
    }
}
