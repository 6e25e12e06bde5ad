//! What a worker sees when it chooses. Every look is a load, and is made only if it is asked for.
//!
//! Room: driver. Knows queues; knows nothing of the order in which they are served.

use mech_sync::ticks;

use crate::{
    decide::{self, FirstReady, Oldest},
    kernel::worker::Worker,
};

pub(super) const OLDEST_NANOS: u64 = decide::OLDEST_INTERVAL.as_nanos() as u64;

impl decide::View for Worker {
    #[inline(always)]
    fn high(&self) -> bool {
        !self.shared.high.is_empty() && self.slot().takes.shared()
    }

    #[inline(always)]
    fn ready(&self) -> Option<FirstReady> {
        let first = self.ready.front()?;
        Some(FirstReady { is_next: self.deque.has_passed(first.mark()), yielded: first.yielded() })
    }

    #[inline(always)]
    fn unstarted(&self) -> bool {
        !self.deque.is_empty()
    }

    #[inline(always)]
    fn injected(&self) -> bool {
        !self.shared.injected.is_empty() && self.slot().takes.shared()
    }

    #[inline(always)]
    fn low(&self) -> bool {
        !self.shared.low.is_empty() && self.slot().takes.shared()
    }

    #[inline(always)]
    fn goes_behind_shared(&self, tick: u32) -> bool {
        self.stepwise.is_none() && self.injected() && tick.wrapping_sub(self.took_shared_at.get()) > 1
    }

    #[inline(always)]
    fn goes_behind_others(&self, tick: u32) -> bool {
        Worker::goes_behind_others(self, tick)
    }

    fn elsewhere(&self) -> bool {
        self.shared.has_stealable(self.index)
    }

    fn is_due(&self, oldest: Oldest) -> bool {
        if self.stepwise.is_some() {
            return true; // virtual time stands while there is something to run
        }
        let last = match oldest {
            Oldest::Own => &self.own_oldest_at,
            Oldest::Elsewhere => &self.other_oldest_at,
        };
        let now = ticks::nanos();
        let is_due = now.saturating_sub(last.get()) >= OLDEST_NANOS;
        if is_due {
            last.set(now);
        }
        is_due
    }
}
