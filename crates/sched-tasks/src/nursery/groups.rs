//! The end of nurseries that no block waits for: by their owner, or with their runtime.
//!
//! Room: driver. Knows tokens and phases; what users hold of one is `scope/owned.rs` and `scope/open.rs`.
//!
//! # Invariant
//! Of the threads and tasks that may end a nursery the first does; the others wait until it has. A runtime ends the newest first, so what is inside another ends before it.

use std::sync::Arc;

use crate::{
    kernel::{
        groups::{Group, Groups, Kind, Phase},
        shared::Shared,
    },
    strand, wait,
};

impl Group {
    /// Returns when none of its tasks runs any more.
    pub(crate) fn end(self: &Arc<Self>, cancels: bool) {
        strand::with(|strand| {
            let token = strand.waiter.token();
            {
                let mut phase = self.lock();
                match &mut *phase {
                    Phase::Open => *phase = Phase::Ending(Vec::new()),
                    Phase::Ending(others) => {
                        others.push(token);
                        drop(phase);
                        wait::wait_regardless(strand, token);
                        return;
                    }
                    Phase::Ended => return,
                }
            }
            if cancels {
                self.core.cancel();
            }
            if self.kind == Kind::Owned {
                self.core.close(); // into an open nursery, as into that of a block, its tasks may spawn siblings to the last
            }
            self.core.wait_with(strand, || {
                if strand.is_cancelled() {
                    self.core.cancel();
                }
            });
            if self.is_listed() {
                self.core.shared().groups.remove(self);
            }
            let before = std::mem::replace(&mut *self.lock(), Phase::Ended);
            if let Phase::Ending(others) = before {
                others.into_iter().for_each(|token| _ = strand::wake(token, 0));
            }
        });
    }
}

impl Groups {
    /// Ends all of them, also those that are opened meanwhile.
    pub(crate) fn end(&self) {
        loop {
            let Some(newest) = self.lock().last().cloned() else { return };
            self.cores().iter().for_each(|core| core.cancel());
            newest.end(true);
        }
    }
}

impl Shared {
    /// Nothing that handles own runs here any more.
    pub(crate) fn end_groups(&self) {
        self.groups.end();
    }
}
