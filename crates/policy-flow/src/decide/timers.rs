//! Timers: at which time to check which node.
//!
//! Room: decisions.
//!
//! A time may be entered twice, or its reason may be gone: the node is checked when its time comes.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::time::Time;

/// No node: the flow itself.
const NO_NODE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Time, u32)>>);

impl Timers {
    pub(super) fn push(&mut self, at: Time, node: u32) {
        self.0.push(Reverse((at, node)));
    }

    /// A time at which a worker wakes up, for no particular node.
    pub(super) fn push_wakeup(&mut self, at: Time) {
        self.push(at, NO_NODE);
    }

    /// The next node whose time has come.
    pub(super) fn due(&mut self, now: Time) -> Option<u32> {
        while let Some(Reverse((at, node))) = self.0.peek().copied() {
            if at > now {
                return None;
            }
            self.0.pop();
            if node != NO_NODE {
                return Some(node);
            }
        }
        None
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}
