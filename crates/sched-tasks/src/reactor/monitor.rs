//! The thread that polls for events of sockets if no worker does.
//!
//! Room: driver.
//!
//! It rests while a worker polls. It is told when a worker stops polling, looks after [`MONITOR_INTERVAL`](super::MONITOR_INTERVAL), and polls itself if none has since: then all workers are busy, or
//! sleep since a time at which there were no sockets. It gives its role up to a worker that wants it.

use std::sync::{Condvar, Mutex, PoisonError, atomic::Ordering::SeqCst};

use mech_sync::{tally::lock, ticks};

use super::{Arrived, Buffers, MONITOR_INTERVAL, Reactor};

#[derive(Default)]
pub(super) struct Monitor {
    state: Mutex<State>,
    told: Condvar,
}

#[derive(Default)]
struct State {
    is_told: bool,
    is_started: bool,
}

impl Monitor {
    /// It has to look.
    #[cold]
    pub(super) fn schedule(&self, reactor: &'static Reactor) {
        let mut state = lock(&self.state);
        state.is_told = true;
        if !state.is_started {
            let thread = std::thread::Builder::new().name("bursar-io".into());
            // Without it events still come while a worker is idle; the next one that is told tries again.
            state.is_started = thread.spawn(move || run(reactor)).is_ok();
        }
        drop(state);
        self.told.notify_one();
    }

    fn rest(&self) {
        let mut state = lock(&self.state);
        while !std::mem::take(&mut state.is_told) {
            state = self.told.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn run(reactor: &'static Reactor) {
    loop {
        reactor.monitor.rest();
        loop {
            let polled_at = reactor.polled_at.load(SeqCst);
            let since = ticks::nanos().saturating_sub(polled_at);
            let interval = MONITOR_INTERVAL.as_nanos() as u64;
            if polled_at > 0 && since < interval {
                std::thread::sleep(MONITOR_INTERVAL);
            } else if !reactor.role.look() {
                break; // a worker polls
            } else {
                poll(reactor);
            }
        }
    }
}

/// Polls until a worker wants to.
fn poll(reactor: &'static Reactor) {
    loop {
        let mut buffers = Buffers::take();
        reactor.wait(&mut buffers, None);
        let is_wanted = reactor.is_wanted.swap(false, SeqCst);
        if is_wanted {
            reactor.polled_at.store(ticks::nanos(), SeqCst);
            let _ = reactor.role.give_up(); // we look again by ourselves
        }
        Arrived { reactor, buffers }.dispatch();
        if is_wanted {
            return;
        }
    }
}
