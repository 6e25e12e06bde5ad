//! Stealing: from other workers, in the order that the strategy says, then from the queue of low priority.
//!
//! Room: driver. Knows the queues of other workers; knows nothing of sleep.
//!
//! # Invariant
//! A task that yields goes behind tasks that have not started, also behind those of other workers: it looks there at every yield while there are some, else after 2, 4, … yields,
//! at least after [`LOOK_MAX`]. So tasks that one worker spawned and that take turns are spread over all workers before they are pinned.

use mech_sync::{Steal, ticks};

use super::view::OLDEST_NANOS;
use crate::{
    decide::{self, Choice},
    kernel::{task::RunnableRef, worker::Worker},
    stats,
};

/// So many yields go by at most before a worker looks at the unstarted tasks of others.
const LOOK_MAX: u32 = 8;

/// So many unstarted tasks of others a round of looks is for, and so many turns of its own tasks come between two rounds, at most.
const LOOKS_MOST: usize = 1 << 16;
const READY_MOST: u32 = 1 << 16;

impl Worker {
    /// Whether a task that yields has to look further than at the fibers that are ready: at unstarted tasks of others, or at what is put off.
    #[inline(always)]
    pub(crate) fn leaves_short_way(&self, tick: u32) -> bool {
        self.look_at.get().wrapping_sub(tick) as i32 <= 0
    }

    /// The short way was left: when it is left next.
    #[cold]
    #[inline(never)]
    pub(crate) fn plan_look(&self, tick: u32) {
        let until_postponed = decide::GLOBAL_QUEUE_INTERVAL - tick % decide::GLOBAL_QUEUE_INTERVAL;
        let until_look = match self.next_look.get().wrapping_sub(tick) as i32 {
            _ if self.shared.workers.len() == 1 => self.look_interval_alone(tick),
            ..1 => LOOK_MAX, // it is due, and takes place now if something yields
            until_look => until_look as u32,
        };
        self.look_at.set(tick.wrapping_add(until_look.min(until_postponed)));
    }

    /// After so many choices a worker that is alone looks again: more than last time, if those took less than [`decide::OLDEST_INTERVAL`], else fewer.
    fn look_interval_alone(&self, tick: u32) -> u32 {
        if self.stepwise.is_some() {
            return decide::GLOBAL_QUEUE_INTERVAL; // virtual time stands
        }
        let now = ticks::nanos();
        let (last_tick, last) = self.planned_at.replace((tick, now));
        let choices = tick.wrapping_sub(last_tick).min(decide::GLOBAL_QUEUE_INTERVAL);
        if now.saturating_sub(last) < OLDEST_NANOS {
            (2 * choices).clamp(1, decide::GLOBAL_QUEUE_INTERVAL)
        } else {
            (choices / 2).max(1)
        }
    }

    /// Whether it is time to look at unstarted tasks of others.
    #[inline(always)]
    fn is_look_due(&self, tick: u32) -> bool {
        self.next_look.get().wrapping_sub(tick) as i32 <= 0
    }

    /// For a task that yields and is alone: whether it has to queue up, since it may go behind unstarted tasks of others.
    pub(crate) fn may_go_behind_others(&self, tick: u32) -> bool {
        self.is_look_due(tick) && (self.shared.has_stealable(self.index) || self.looks_on(tick))
    }

    /// Whether a task that yielded goes behind unstarted tasks of other workers: those that are there when a round of looks begins, one at each look. After a round all that are
    /// ready here have their turns: what others get in again and again, as futures do that are woken, keeps none of them waiting. Those of its own go first anyway.
    #[inline]
    pub(crate) fn goes_behind_others(&self, tick: u32) -> bool {
        self.is_look_due(tick) && self.deque.is_empty() && self.looks_on(tick)
    }

    /// A look: whether the round goes on, or another begins. Says when the next look is.
    #[inline(never)]
    fn looks_on(&self, tick: u32) -> bool {
        if self.shared.workers.len() == 1 {
            self.next_look.set(tick.wrapping_add(decide::GLOBAL_QUEUE_INTERVAL));
            return false;
        }
        if self.looks_left.get() == 0 {
            self.looked_at(self.other_count());
            let may_steal = self.slot().takes.steals();
            let others = self.shared.workers.iter().enumerate().filter(|(index, _)| may_steal && *index != self.index);
            let there: usize = others.map(|(_, worker)| worker.stealer.len()).sum();
            self.looks_left.set(there.min(LOOKS_MOST) as u32);
        }
        let (every, is_behind) = match self.looks_left.get() {
            0 => ((2 * self.look_every.get()).min(LOOK_MAX), false),
            1 => ((self.ready.len() as u32).clamp(1, READY_MOST), true),
            _ => (1, true),
        };
        self.looks_left.set(self.looks_left.get().saturating_sub(1));
        self.look_every.set(if is_behind { 1 } else { every });
        self.next_look.set(tick.wrapping_add(every));
        self.plan_look(tick);
        is_behind
    }

    /// Steals from the others, then looks at what has low priority.
    pub(crate) fn steal(&self) -> Option<RunnableRef> {
        let stolen = self.steal_unstarted();
        if stolen.is_some() {
            self.look_every.set(1); // there may be more: see `goes_behind_others`
            if self.looks_left.get() == 0 && self.ready.is_empty() {
                self.next_look.set(self.tick.get());
                self.look_at.set(self.tick.get());
            }
            return stolen;
        }
        if !self.slot().takes.shared() {
            return None; // its CPU is lent
        }
        let low = self.shared.low.pop_batch(0, |_| {})?;
        stats::add(&self.counters.shared_pops, 1);
        if self.watched {
            self.log(Choice::Low, None, Some(low.id()));
        }
        Some(low)
    }

    /// Steals from the others.
    fn steal_unstarted(&self) -> Option<RunnableRef> {
        let workers = &self.shared.workers;
        let may_steal = workers.len() > 1 && self.slot().takes.steals();
        if may_steal && self.stepwise.is_some() {
            return self.steal_step();
        }
        if may_steal {
            let random = self.random();
            for attempt in 0..decide::MAX_STEAL_ATTEMPTS.min(workers.len() - 1) {
                let victim =
                    decide::victim(self.shared.strategy, self.index, workers.len(), attempt, random, |index| {
                        self.looked_at(1);
                        workers[index].stealer.len()
                    });
                self.looked_at(1);
                let victims = &workers[victim];
                let queue = if victims.yielded.is_empty() { &victims.stealer } else { &victims.yielded };
                match queue.steal() {
                    Steal::Taken(item) => {
                        stats::add(&self.counters.stolen, 1);
                        let stolen = RunnableRef::from_item(item);
                        if self.watched {
                            self.log(Choice::Elsewhere, Some(victim), Some(stolen.id()));
                        }
                        return Some(stolen);
                    }
                    Steal::Empty | Steal::Lost => stats::add(&self.counters.failed_steals, 1),
                }
            }
        }
        None
    }
}
