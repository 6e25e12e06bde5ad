//! The end of open nurseries: the innermost first, and none after its owner.
//!
//! Room: driver. Knows the nurseries that a strand has open; what users hold of one is `scope/open.rs`.
//!
//! # Invariants
//! 1. A task counts as ended only after every nursery that it opened has; so does the body of a nursery, a half of a `join` that ran elsewhere, and a plain thread that is not the main thread.
//! 2. Of the open nurseries of a strand an inner one ends before an outer one.
//!
//! # Why they hold
//! 1. A strand keeps a list of them. `Strand::drop_locals`, through which every task ends that has anything to leave, empties it; so do the end of a nursery's block, of a half, and of a thread (`kernel/thread.rs`). A task that
//!    lost its stack does not come that way: the cleanup that ends it empties the list first.
//! 2. `leave_open` gives out the last of the list alone, and that only while the strand is in no other nursery inside it.

use std::sync::Arc;

use super::Body;
use crate::kernel::{
    groups::{Group, Kind},
    nursery::NurseryCore,
    scope::{OpenScope, is_in, leave_open},
    shared::Shared,
    strand::Strand,
};

impl Strand {
    /// Ends the innermost open nursery. False if there is none, or the strand is in another inside it.
    fn end_innermost(&self, cancels: bool) -> bool {
        let Some(group) = leave_open(self) else { return false };
        self.interleave();
        group.end(cancels);
        group.judge(self);
        if self.open_scopes.borrow().is_empty() && self.locals.borrow().is_empty() {
            self.traces.has_locals().set(false); // nothing is left to do
        }
        true
    }

    /// Ends all of them.
    #[cold]
    pub(crate) fn end_open_nurseries(&self) {
        self.end_open_nurseries_above(0);
    }

    /// Ends those that were opened after the first `kept`.
    #[cold]
    pub(crate) fn end_open_nurseries_above(&self, kept: usize) {
        while self.open_scopes.borrow().len() > kept && self.end_innermost(true) {}
    }

    /// Ends those that were opened inside `core`, which the strand is in.
    #[cold]
    pub(crate) fn end_open_nurseries_inside(&self, core: &NurseryCore) {
        while !is_in(self, core) && self.end_innermost(true) {}
    }

    /// Ends those that a plain thread has open on the runtime `shared`, from the innermost on.
    pub(crate) fn end_open_nurseries_of(&self, shared: &'static Shared) {
        let is_of = |scope: &OpenScope| {
            scope.group().kind == Kind::OfThread && std::ptr::eq(scope.group().core.shared(), shared)
        };
        while self.open_scopes.borrow().last().is_some_and(is_of) && self.end_innermost(true) {}
    }

    /// Leaves all of them to their runtime, and waits for none.
    #[cold]
    pub(crate) fn leave_open_nurseries(&self) {
        while let Some(group) = leave_open(self) {
            if group.core.shared().check_process().is_ok() {
                group.leave();
            } else {
                std::mem::forget(group); // its tasks are in the parent process
            }
        }
    }

    /// Leaves those that were opened before a fork, whose tasks are in the parent process: they never end here, and are not freed.
    #[cold]
    pub(crate) fn leave_parents_nurseries(&self) {
        let is_parents = |scope: &OpenScope| scope.group().core.shared().check_process().is_err();
        while self.open_scopes.borrow().last().is_some_and(is_parents)
            && let Some(group) = leave_open(self)
        {
            std::mem::forget(group);
        }
    }

    /// Whether it opened the nursery, and has not left it.
    pub(crate) fn has_open(&self, group: &Arc<Group>) -> bool {
        self.open_scopes.borrow().iter().any(|scope| Arc::ptr_eq(scope.group(), group))
    }

    /// Ends the nursery, which it has open, and before it those that it opened inside. False if it is in one of another kind there, which ends first.
    pub(crate) fn end_open(&self, group: &Arc<Group>, cancels: bool) -> bool {
        while self.has_open(group) {
            if !self.end_innermost(cancels) {
                return false;
            }
        }
        true
    }
}

impl Group {
    /// What it was worth, now that it has ended.
    fn judge(&self, strand: &Strand) {
        let _ = self.verdict.set(self.core.verdict(strand, Body::Returned(Ok(()))));
    }
}
