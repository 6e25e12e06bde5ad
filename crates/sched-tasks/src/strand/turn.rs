//! Turns: how many operations a task may do before others run, whether it had to wait or not. What tokio calls its cooperative budget.
//!
//! Room: driver. Knows what a strand may do before others run; knows nothing of clocks.
//!
//! # Invariants
//! 1. Between two turns of its worker a fiber does at most [`TURN`] operations, and a future at most [`TURN`] in a poll, plus [`REST`] for each part of it that goes
//!    on after it was refused.
//! 2. At the end of a turn a task that was cancelled unwinds, whether others wait or not.
//! 3. An operation gives its turn away on entry, while it has taken nothing: what unwinds there has not happened.
//!
//! # Why they hold
//! 1. Every operation that may succeed at once spends one of `turn.left`. It is full again after every stop of the fiber, at the beginning of a task and of a poll. When it
//!    is spent a fiber goes behind the fibers that are ready, those among them that other threads woke; a future is refused, having woken itself, and goes behind them as well.
//! 2. The look at the cancellation follows the turn, also if no other took it.
//! 3. By the order of calls in each operation.
//!
//! A fiber that gives its turn away does not go behind tasks that have not started, as one that yields does: each of them would need a stack. They come in by the worker's
//! regular look at what it puts off; see `decide.rs`.
//!
//! In two places nothing can be stopped: inside the poll of a future, and inside a waker, which any operation may call in the middle. There operations are counted, and the next
//! one elsewhere pays. What never waits by its nature and is often done under a lock, as to spawn, to notify, to give back a permit, to answer once, is only counted everywhere.
//!
//! # Rejected
//! To look at the clock: dearer than the operations. To refuse a future until it is polled anew: an executor inside the future that polls it again at once would do so for ever.

use std::task::{Context, Poll};

use super::give_way;
use crate::kernel::{
    strand::Strand,
    turn::{Fixed, TURN},
};

/// So many a future may do when it has been refused, until it is polled anew.
const REST: u32 = 8;

impl Strand {
    /// Spends one operation. At the end of the turn others run first, and a cancelled task unwinds; so does one with too little stack for an operation.
    #[inline(always)]
    pub(crate) fn take_turn(&self) {
        self.spend_turn(true);
    }

    /// The same for what a cancelled task may still do, without end: it does not unwind.
    #[inline(always)]
    pub(crate) fn take_turn_regardless(&self) {
        self.spend_turn(false);
    }

    #[inline(always)]
    fn spend_turn(&self, checks_cancellation: bool) {
        self.ensure_room();
        let (left, is_over) = self.turn.left.get().overflowing_sub(1);
        self.turn.left.set(left);
        if is_over {
            self.end_turn(checks_cancellation);
        }
    }

    /// The same for an operation that is not expected to stop, as a spawn, and is often done under a lock of the standard library: another fiber of the worker that wants that lock would
    /// wait for ever. It is counted, and the next operation pays. At the end of the turn a cancelled task unwinds.
    #[inline(always)]
    pub(crate) fn count_turn(&self) {
        self.ensure_room();
        if self.turn.is_over() {
            self.check_cancelled();
        }
        self.turn.count();
    }

    #[cold]
    #[inline(never)]
    fn check_cancelled(&self) {
        if self.turn.fixed.get().is_none() && self.is_cancelled() {
            self.unwind();
        }
    }

    #[cold]
    #[inline(never)]
    fn end_turn(&self, checks_cancellation: bool) {
        if self.turn.fixed.get().is_some() {
            return self.turn.left.set(0); // the next operation that can stop does
        }
        self.turn.begin();
        self.come_by();
        give_way::give_turn(self);
        if checks_cancellation {
            self.stand_still_if_paused();
        }
        if checks_cancellation && self.is_cancelled() {
            self.unwind();
        }
    }

    /// At the entry of a future's operation: not ready if the turn is over. Its task has been woken then, and tries again after the others. An operation that succeeds is
    /// [counted](crate::kernel::turn::Turn::count), one that waits is not: else a future that waits for many things at once would never get to the last.
    #[inline]
    pub(crate) fn poll_turn(&self, cx: &Context<'_>) -> Poll<()> {
        self.ensure_room();
        if self.turn.is_over() { self.refuse(cx) } else { Poll::Ready(()) }
    }

    #[cold]
    fn refuse(&self, cx: &Context<'_>) -> Poll<()> {
        self.turn.refused.set(true);
        self.turn.while_fixed(Fixed::InPoll, || cx.waker().wake_by_ref());
        self.turn.left.set(if self.running.get().is_some() { REST } else { TURN }); // on a plain thread nothing else begins it
        Poll::Pending
    }
}
