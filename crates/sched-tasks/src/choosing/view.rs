//! What a worker sees when it chooses. Every look is a load, and is made only if it is asked for.
//!
//! Room: driver. Knows queues; knows nothing of the order in which they are served.

use crate::{
    decide::{self, FirstReady},
    kernel::worker::Worker,
};

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
    fn goes_behind_others(&self, tick: u32) -> bool {
        Worker::goes_behind_others(self, tick)
    }

    fn elsewhere(&self) -> bool {
        self.shared.has_stealable(self.index)
    }
}
