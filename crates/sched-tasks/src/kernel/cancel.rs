//! How a cancellation reaches the members of a nursery and of all inside it; see `kernel/nursery.rs` for why it reaches each.
//!
//! Room: driver. Knows members and states; knows nothing of how a task unwinds.

use std::{
    sync::{
        Arc,
        atomic::Ordering::{AcqRel, Relaxed},
    },
    task::Waker,
};

use mech_sync::Waiter;

use super::{
    clock::Alarm,
    nursery::{Member, NurseryCore},
    wake,
};
use crate::{error::Reason, state::NurseryEvent};

impl NurseryCore {
    /// Tells everything in it to stop.
    pub(crate) fn cancel(&self) {
        match self.grace {
            None => self.cancel_tree(true),
            Some(grace) => {
                if self.state().is_cancelled() {
                    return;
                }
                self.cancel_tree(false);
                self.set_alarm(grace, Alarm::Interrupt);
            }
        }
    }

    /// The same, because of something other than a failed child.
    pub(crate) fn cancel_for(&self, reason: Reason) {
        {
            let mut inner = self.inner.lock();
            if !self.state().is_cancelled() {
                inner.rare().cancelled_for.get_or_insert(reason);
            }
        }
        self.cancel();
    }

    /// Stops what is left: the body has what it wanted.
    pub(crate) fn dismiss(&self) {
        self.inner.lock().rare().dismissed = true;
        self.cancel();
    }

    /// The time of grace is over.
    pub(crate) fn interrupt(&self) {
        self.cancel_tree(true);
    }

    /// Wakes all that wait in it and in what is inside it, shields or not: what they wait for will not come.
    #[cold]
    pub(crate) fn break_shields(&self) {
        self.cancel_one(true);
        let mut inside = self.interrupt_all();
        while let Some(nursery) = inside.pop() {
            nursery.cancel_one(true);
            inside.extend(nursery.interrupt_all());
        }
    }

    /// Wakes its owner and what waits in it; returns the nurseries directly inside.
    fn interrupt_all(&self) -> Vec<Arc<NurseryCore>> {
        let (mut waiters, mut wakers) = (Vec::from_iter(self.owner), Vec::new());
        let inside = {
            let inner = self.inner.lock();
            for (_, member) in &inner.members {
                match member {
                    Member::Waiter(waiter, _) => waiters.push(waiter),
                    Member::Future(future) => wakers.push(future.waker()),
                    Member::Queued(waker) => wakers.push(Waker::clone(waker)),
                }
            }
            inner.nested.iter().map(|(_, nursery)| nursery.clone()).collect()
        };
        waiters.into_iter().filter_map(Waiter::interrupt).for_each(wake::deliver);
        wakers.into_iter().for_each(Waker::wake);
        inside
    }

    /// Cancels this nursery and all inside it, and wakes those that wait if they are to be interrupted.
    pub(crate) fn cancel_tree(&self, interrupt: bool) {
        let mut inside = self.cancel_one(interrupt);
        while let Some(nursery) = inside.pop() {
            if !nursery.shielded {
                inside.extend(nursery.cancel_one(interrupt));
            }
        }
    }

    /// Cancels this nursery alone; returns those directly inside it.
    fn cancel_one(&self, interrupt: bool) -> Vec<Arc<NurseryCore>> {
        let cancelled = self.step(NurseryEvent::Cancel);
        let interrupted = interrupt && !self.interrupts.swap(true, AcqRel);
        if interrupted {
            self.attention.store(true, Relaxed); // as weak as the look at it; what waits is interrupted
            if let Some(group) = self.limited_group() {
                group.note_cancelled();
            }
        }
        if !cancelled && !interrupted {
            return Vec::new();
        }
        if interrupted {
            return self.interrupt_all();
        }
        self.nested()
    }
}
