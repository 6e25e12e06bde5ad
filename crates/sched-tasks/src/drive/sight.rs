//! What a worker sees when it chooses. Every look is a load, and is made only if it is asked for.

use super::worker::Worker;
use crate::decide::{self, FirstReady};

impl decide::Sight for Worker {
    #[inline(always)]
    fn urgent(&self) -> bool {
        !self.shared.urgent.is_empty()
    }

    #[inline(always)]
    fn ready(&self) -> Option<FirstReady> {
        let first = self.ready.front()?;
        Some(FirstReady { is_next: self.deque.has_passed(first.mark) })
    }

    #[inline(always)]
    fn unstarted(&self) -> bool {
        !self.deque.is_empty()
    }

    #[inline(always)]
    fn injected(&self) -> bool {
        !self.shared.injected.is_empty()
    }

    #[inline(always)]
    fn patient(&self) -> bool {
        !self.shared.patient.is_empty()
    }

    fn elsewhere(&self) -> bool {
        self.shared.has_stealable(self.index)
    }
}
