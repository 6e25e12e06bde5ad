//! The end of owned nurseries: by their owner, or with their runtime.
//!
//! Room: driver. Knows tokens and phases; what users hold of one is `scope/owned.rs`.
//!
//! # Invariant
//! Of the threads and tasks that may end a nursery the first does; the others wait until it has.

use std::sync::Arc;

use crate::{
    kernel::{
        groups::{Group, Groups, Phase},
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
            self.core.close();
            self.core.wait_with(strand, || {
                if strand.is_cancelled() {
                    self.core.cancel();
                }
            });
            self.core.shared().groups.remove(self);
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
            let Some(first) = self.lock().first().cloned() else { return };
            self.cores().iter().for_each(|core| core.cancel());
            first.end(true);
        }
    }
}

impl Shared {
    /// Nothing that handles own runs here any more.
    pub(crate) fn end_groups(&self) {
        self.groups.end();
    }
}
