//! Stealing: from other workers, in the order that the strategy says, then from the queue of low priority.
//!
//! Room: driver. Knows the queues of other workers; knows nothing of sleep.

use std::sync::atomic::Ordering::Relaxed;

use mech_sync::Steal;

use crate::{
    decide::{self, Choice},
    kernel::{task::RunnableRef, worker::Worker},
    stats,
};

impl Worker {
    /// Steals from the others, then looks at what has low priority.
    pub(crate) fn steal(&self) -> Option<RunnableRef> {
        let workers = &self.shared.workers;
        let may_steal = workers.len() > 1 && self.slot().may_steal.load(Relaxed);
        if may_steal && self.stepwise.is_some() {
            let stolen = self.steal_step();
            if stolen.is_some() {
                return stolen;
            }
        } else if may_steal {
            let random = self.random();
            for attempt in 0..decide::MAX_STEAL_ATTEMPTS.min(workers.len() - 1) {
                let victim =
                    decide::victim(self.shared.strategy, self.index, workers.len(), attempt, random, |index| {
                        workers[index].stealer.len()
                    });
                match workers[victim].stealer.steal() {
                    Steal::Taken(item) => {
                        stats::add(&self.slot().counters.stolen, 1);
                        let stolen = RunnableRef::from_item(item);
                        if self.watched {
                            self.log(Choice::Elsewhere, Some(victim), Some(stolen.id()));
                        }
                        return Some(stolen);
                    }
                    Steal::Empty | Steal::Lost => stats::add(&self.slot().counters.failed_steals, 1),
                }
            }
        }
        let low = self.shared.low.pop_batch(0, |_| {})?;
        stats::add(&self.slot().counters.shared_pops, 1);
        if self.watched {
            self.log(Choice::Low, None, Some(low.id()));
        }
        Some(low)
    }
}
