//! Which node is to be looked at when.
//!
//! Room: decisions. A time may be entered twice or outlived; whoever looks at the node finds out.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::time::Time;

/// Nobody in particular: the flow itself.
const NOBODY: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Time, u32)>>);

impl Timers {
    pub(super) fn push(&mut self, at: Time, node: u32) {
        self.0.push(Reverse((at, node)));
    }

    /// A time at which somebody should look, whatever for.
    pub(super) fn push_bare(&mut self, at: Time) {
        self.push(at, NOBODY);
    }

    /// A node whose time has come.
    pub(super) fn due(&mut self, now: Time) -> Option<u32> {
        while let Some(Reverse((at, node))) = self.0.peek().copied() {
            if at > now {
                return None;
            }
            self.0.pop();
            if node != NOBODY {
                return Some(node);
            }
        }
        None
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}
