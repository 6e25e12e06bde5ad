//! Looking for work where there is none: searching, and sleeping.
//!
//! Room: driver. Knows clocks and sleep; what is found is said by `choosing/mod.rs`.
//!
//! # Invariant
//! A worker sleeps only after it announced so and then looked at everything it could be woken for. See `mech_sync::idle` for why that suffices.
//!
//! # Rejected
//! Searching for a millisecond and more before sleeping: a service that waits for requests then burns a CPU. Waking a sleeper takes the system some 35 µs,
//! so a search of seven times that loses little.

use std::{
    hint,
    time::{Duration, Instant},
};

use crate::{
    kernel::worker::{Next, Worker},
    stats,
};

/// A searcher looks again after 1, 2, 4 … µs, in all about 250 µs, before it sleeps: waking a sleeper takes the system 30 µs and more.
const SEARCH_STEPS: u32 = 8;
/// From this step on, after 15 µs, it lets other threads have the CPU meanwhile.
const POLITE_STEP: u32 = 4;

/// Events of sockets that were seen instead of sleeping.
#[derive(Default)]
struct Arrived(#[cfg(feature = "net")] Option<crate::reactor::Arrived>);

impl Arrived {
    fn dispatch(self) {
        #[cfg(feature = "net")]
        self.0.into_iter().for_each(crate::reactor::Arrived::dispatch);
    }
}

/// Whether a worker that searches keeps events of sockets waiting: then it sleeps at once, where it sees them.
fn wants_a_poller() -> bool {
    #[cfg(feature = "net")]
    return crate::reactor::wants_a_poller();
    #[cfg(not(feature = "net"))]
    false
}

impl Worker {
    /// Looks everywhere, for a while, then sleeps until there is something. None: the runtime is stopping.
    #[cold]
    pub(super) fn search(&self) -> Option<Next> {
        let counters = self.counters;
        stats::add(&counters.searches, 1);
        let idle = &self.shared.idle;
        let may_steal = || self.slot().takes.steals();
        let mut searching = may_steal() && idle.begin_search((self.shared.workers.len() as u32).div_ceil(2));
        loop {
            if let Some(next) = self.look(searching) {
                if searching {
                    idle.end_search(|| self.shared.has_any_work());
                }
                return Some(next);
            }
            let takes_all = may_steal();
            let mut arrived = Arrived::default();
            idle.fall_asleep(self.inbox, searching, takes_all);
            let unchanged = may_steal() == takes_all;
            if unchanged
                && !self.inbox.has_arrivals()
                && !self.shared.has_work(self.index)
                && (!self.shared.has_groups() || !self.has_group_work())
                && !self.shared.is_stopping()
            {
                stats::add(&counters.parks, 1);
                self.watch.rest();
                counters.timing.fall_asleep();
                arrived = self.rest();
                counters.timing.wake_up();
                stats::add(&counters.wakes, 1);
            }
            searching = idle.stay_awake(self.inbox);
            arrived.dispatch();
            if searching && !may_steal() {
                idle.pass_on();
                searching = false;
            }
            if self.shared.is_stopping() && !self.inbox.has_arrivals() && !self.shared.has_work(self.index) {
                if searching {
                    idle.end_search(|| true);
                }
                return None;
            }
        }
    }

    /// Sleeps until it is notified, until the first of its timers, or until there are events of sockets, if no other thread waits for them.
    fn rest(&self) -> Arrived {
        let deadline = self.first_timer();
        #[cfg(feature = "net")]
        if let Some(arrived) = crate::reactor::sleep(self.inbox, deadline) {
            return Arrived(Some(arrived));
        }
        self.inbox.sleep(deadline);
        Arrived::default()
    }

    /// One look at everything; a searcher looks again and again, less and less often.
    fn look(&self, searching: bool) -> Option<Next> {
        self.end_due_waits();
        let found = self.next();
        if found.is_some() || !searching || wants_a_poller() {
            return found;
        }
        for step in 0..SEARCH_STEPS {
            let pause_end = Instant::now() + Duration::from_micros(1 << step);
            while Instant::now() < pause_end {
                if self.inbox.has_arrivals() || self.shared.has_work(self.index) || self.has_due_waits_now() {
                    break;
                }
                if step < POLITE_STEP {
                    (0..8).for_each(|_| hint::spin_loop());
                } else {
                    std::thread::yield_now(); // the thread that has the work may be waiting for this CPU
                }
            }
            if self.shared.is_stopping() {
                return None;
            }
            self.end_due_waits();
            let found = self.next();
            if found.is_some() {
                return found;
            }
        }
        None
    }
}
