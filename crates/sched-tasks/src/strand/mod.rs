//! How a strand waits: it stops, and another fiber or thread runs. Everything that blocks goes through here.
//!
//! Room: driver. Knows its worker or its thread; knows nothing of what is waited for.
//!
//! # Invariant
//! A strand stops only between `Park::Parked` and its delivery, and every way of stopping ends when its token is woken or its
//! waiter is interrupted. No other thread ever runs it.

mod checkpoint;
pub(crate) mod future_wait;
pub(crate) mod give_way;
pub(crate) mod local;
pub(crate) mod panics;
mod pause;
pub(crate) mod rights;
pub(crate) mod room;
pub(crate) mod shield;
mod turn;
pub(crate) mod until;
mod unwinding;

use std::time::Instant;

use mech_sync::{Park, WaitToken, Wake};

pub(crate) use self::unwinding::{Cancellation, OutOfRoom};
pub(crate) use crate::kernel::{
    current::get as current,
    strand::{Strand, with},
    wake::{deliver, wake},
};
use crate::kernel::{
    nursery::{Member, MemberId},
    worker::Worker,
};

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The token was woken, with this code.
    By(u16),
    /// The waiter was interrupted; the token is still good.
    Interrupted,
}

impl Strand {
    /// A token for the next wait.
    #[inline(always)]
    pub(crate) fn token(&self) -> WaitToken {
        self.ensure_room();
        self.waiter.token()
    }

    /// Stops until `token` is woken or the waiter is interrupted.
    ///
    /// Inlined, with all it calls on the way out: after a switch the processor's guess at every `return` is wrong, since the calls it remembers are
    /// another fiber's. Each level between here and the caller would cost some 6 ns.
    #[inline(always)]
    pub(crate) fn wait(&self, token: WaitToken) -> Woken {
        self.wait_until(token, None).expect("without a deadline a wait ends only by a wake")
    }

    /// The same for a plain thread with a deadline; a fiber's deadline is a timer that wakes the token. None: time was up first, and the
    /// token is withdrawn.
    #[inline(always)]
    pub(crate) fn wait_until(&self, token: WaitToken, deadline: Option<Instant>) -> Option<Woken> {
        loop {
            match token.park() {
                Park::Woken(code) => return Some(Woken::By(code)),
                Park::Interrupted => return Some(Woken::Interrupted),
                Park::Parked => {
                    if !self.stop(deadline) {
                        let ended = token.wake(0);
                        if matches!(ended, Wake::Parked(_)) {
                            return None;
                        }
                        // It was woken first, and the waiter is on its way here: wait for that, so that it is never on its way twice.
                        self.stop(None);
                        if matches!(ended, Wake::Awake) {
                            return None; // it was only an interrupt
                        }
                    }
                }
            }
        }
    }

    /// Gives the thread away until the waiter is delivered. False if the deadline came first.
    #[inline(always)]
    fn stop(&self, deadline: Option<Instant>) -> bool {
        let Some(worker) = &self.worker else {
            return self.stop_thread(deadline);
        };
        if self.enlisted.get().is_none() {
            self.enlist();
        }
        let successor = worker.choose_successor();
        if !worker.is_key_of(successor, self.waiter) {
            self.suspend(worker, successor);
        } else {
            worker.stays(); // it was delivered already
        }
        true
    }

    /// Leaves the fiber for `successor`. Another fiber that runs meanwhile on this thread must not take this fiber's unwinding for its own.
    #[inline(always)]
    pub(crate) fn suspend(&self, worker: &Worker, successor: usize) {
        if std::thread::panicking() || self.traces.unwinding().get() {
            return self.suspend_unwinding(worker, successor);
        }
        mech_fiber::suspend(successor);
        worker.watch.show(self.name.get());
        self.turn.begin();
    }

    /// The same for a yield, which looks only at what this strand itself knows of: a panic that foreign code resumed, and in which a destructor
    /// yields, goes unnoticed, and meanwhile others here seem to panic and put their cancellation off. The full look would cost every yield a fifth of its time;
    /// it is taken once an unwinding has stopped on this thread: see `Worker::looks_closely`.
    #[inline(always)]
    pub(crate) fn suspend_to_yield(&self, worker: &Worker, successor: usize) {
        if self.traces.unwinding().get() {
            return self.suspend_closely(worker, successor);
        }
        mech_fiber::suspend(successor);
        worker.watch.show(self.name.get());
    }

    /// [`Strand::suspend`], out of line for callers that seldom need it.
    #[inline(never)]
    pub(crate) fn suspend_closely(&self, worker: &Worker, successor: usize) {
        self.suspend(worker, successor);
    }

    #[cold]
    fn stop_thread(&self, deadline: Option<Instant>) -> bool {
        if let Some(driver) = &self.driver {
            driver.until_woken(self); // a deadline is an alarm of its clock
            return true;
        }
        let inbox = self.inbox();
        loop {
            inbox.fall_asleep();
            if inbox.has_arrivals() {
                inbox.stay_awake();
                let _ = inbox.arrivals(); // a thread has one waiter, so this was it
                return true;
            }
            if !inbox.sleep(deadline) {
                return false;
            }
        }
    }

    /// Before a fiber stops for the first time in its task, its nursery notes whom to interrupt.
    #[cold]
    pub(crate) fn enlist(&self) {
        if let Some(scope) = self.base.get() {
            let task = self.running.get().map(|running| running.task().id());
            self.traces.enlisted().set(true);
            self.enlisted.set(Some(scope.enlist(Member::Waiter(self.waiter, MemberId::of(task)))));
            if scope.is_cancelled() {
                // Cancelled before it could know of us: no cancellation will interrupt.
                if let Some(delivery) = self.waiter.interrupt() {
                    deliver(delivery);
                }
            }
        }
    }
}
