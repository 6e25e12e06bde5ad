//! A future that was woken while it was polled: where it waits for its next poll.
//!
//! Room: driver. Knows queues; knows nothing of futures.

use crate::kernel::{
    task::RunnableRef,
    worker::{ReadyWhat, Worker},
};

impl Worker {
    // ---- what tasks ask of their worker ----

    /// A future was woken while it ran: it goes to the back of the line, or to a worker that has none.
    pub(crate) fn requeue(&self, runnable: RunnableRef) {
        let runnable = match self.requeued_in_group(runnable, true) {
            Some(runnable) => runnable,
            None => return,
        };
        if self.shared.idle.any_sleeper() {
            self.shared.inject(&self.shared.injected, runnable);
        } else {
            self.yielded.push(runnable.into_item());
            self.enqueue_behind_all(ReadyWhat::Future);
        }
    }

    /// Gives back a future that is in no group.
    fn requeued_in_group(&self, future: RunnableRef, yielded: bool) -> Option<RunnableRef> {
        if self.shared.has_groups() { self.requeue_in_group(future, yielded).err() } else { Some(future) }
    }

    /// The same for one whose turn was over: as a fiber, it waits for those that are ready only. Another worker gets it if that one has nothing and this one has more.
    pub(crate) fn requeue_turn(&self, runnable: RunnableRef) {
        let runnable = match self.requeued_in_group(runnable, false) {
            Some(runnable) => runnable,
            None => return,
        };
        if self.has_other_work() && self.shared.idle.any_sleeper() {
            self.shared.inject(&self.shared.injected, runnable);
        } else {
            self.yielded.push(runnable.into_item());
            self.enqueue_ready(ReadyWhat::Future);
        }
    }

    // ---- choosing ----

    // ---- running ----
}
