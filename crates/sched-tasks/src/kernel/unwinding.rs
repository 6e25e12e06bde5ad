//! What is cancelled of a group that waits for time: it unwinds all the same, and its group pays for it later.
//!
//! Room: state. Knows the lines of one worker; how a task unwinds is `strand/unwinding.rs`.
//!
//! # Invariants
//! - Of a group that waits for time only that runs which unwinds when it goes on: a task whose nursery was cancelled, and that no shield keeps from it. What its destructors compute is charged.
//! - Where a group waits for time, what is cancelled of it is found: what was cancelled before, when it begins to wait; what is cancelled later, by a [`Notice`]; and what becomes ready later, when it does.
//!
//! # Why they hold
//! A cancellation does *mark the nursery, count it in its group, look whether the group is held back*, and notifies all workers if it is. A worker does *put the group on the list of what waits,
//! look whether something was cancelled*. By the lock of the list one of the two sees the other: see `mech_sync::throttle`.
//!
//! # Rejected
//! To let the whole group run until what is cancelled has ended: its other tasks would have time that they do not have.

use std::sync::Arc;

use mech_sync::Waiter;

use super::{
    local_shares::{LocalGroup, LocalShares, Phase},
    shares::{Notice, ShareGroup},
    worker::{Next, ReadyWhat, Worker},
};

impl LocalShares {
    /// `next`, of a group that waits for time here, is to unwind.
    pub(super) fn unwind(&mut self, number: u32, next: Next) {
        let local = self.get(number).expect("it waits here");
        local.unwinding.push_back(next);
        if local.phase == Phase::Unwinding {
            self.ready += 1;
            self.wake(number);
        }
    }
}

impl Worker {
    /// Looks at what there is to know about groups that wait for time here.
    #[cold]
    pub(crate) fn take_notices(&self) {
        while let Some(notice) = self.shared.shares.notices[self.index].pop_batch(0, |_| {}) {
            let mut shares = self.local_shares();
            match notice {
                Notice::Released(group) => shares.release(&group),
                Notice::Cancelled(group) => self.find_cancelled(&mut shares, &group),
            }
        }
    }

    /// A group has no time left: it waits here, and what of it was cancelled unwinds. Unless there is time by now.
    #[cold]
    pub(crate) fn begin_waiting(&self, shares: &mut LocalShares, number: u32) {
        if !shares.throttle(number, self.index) {
            return;
        }
        let Some(local) = shares.get(number) else { return };
        if local.group.has_cancelled() {
            let group = local.group.clone();
            self.find_cancelled(shares, &group);
        }
    }

    /// Takes what is cancelled out of the lines of a group that waits for time here.
    #[cold]
    fn find_cancelled(&self, shares: &mut LocalShares, group: &Arc<ShareGroup>) {
        let Some(local) = shares.get(group.number) else { return };
        if !local.phase.is_throttled() || !Arc::ptr_eq(&local.group, group) {
            return;
        }
        self.fibers_to_unwind(local).into_iter().for_each(|next| shares.unwind(group.number, next));
        let unstarted = group.take_cancelled(self.index);
        unstarted.into_iter().for_each(|task| shares.unwind(group.number, Next::Start(task)));
    }

    fn fibers_to_unwind(&self, local: &mut LocalGroup) -> Vec<Next> {
        let mut found = Vec::new();
        let mut futures: usize = 0;
        let yielded = &local.group.lines[self.index].yielded;
        found.extend(yielded.extract(|future| future.scope().is_cancelled()).into_iter().map(Next::Start));
        let taken = found.len();
        local.ready.retain(|ready| match ready.what {
            ReadyWhat::Fiber(waiter) if self.fibers.is_to_unwind(waiter.tag()) => {
                found.push(Next::Resume(waiter));
                false
            }
            ReadyWhat::Fiber(_) => true,
            ReadyWhat::Future => {
                futures += 1;
                futures > taken // one for each that was taken: which one makes no difference
            }
        });
        local.futures_lined = futures.saturating_sub(taken);
        found
    }

    /// Whether a fiber of `group` that has become ready is among those that unwind now.
    pub(super) fn is_to_unwind_now(&self, group: &Arc<ShareGroup>, waiter: &'static Waiter) -> bool {
        if !group.has_cancelled() || !self.fibers.is_to_unwind(waiter.tag()) {
            return false;
        }
        let mut shares = self.local_shares();
        let is_throttled = shares.known(group).phase.is_throttled();
        if is_throttled {
            shares.unwind(group.number, Next::Resume(waiter));
        }
        is_throttled
    }
}
