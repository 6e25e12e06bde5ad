//! Wakes the scheduler when a back-off is over, a pause has taken too long, or a worker has held what it claimed for too long. A thread that
//! starts with the first alarm.

use core::time::Duration;
use std::sync::{Arc, PoisonError};

use super::Shared;
use super::chain::WATCH_NS;

impl Shared {
    pub(super) fn start_clock(&self) {
        let Some(shared) = self.me.upgrade() else { return };
        let started = std::thread::Builder::new().name("bursar-job-clock".to_owned()).spawn(move || shared.keep_time());
        if started.is_err() {
            let mut inner = self.lock();
            inner.has_clock = false; // the next alarm tries again
            inner.clock_set_to = None;
        }
    }

    fn keep_time(self: Arc<Self>) {
        loop {
            let mut inner = self.lock();
            loop {
                if inner.is_closing {
                    return;
                }
                let now = self.now();
                inner.clock_set_to = inner.next_alarm();
                match inner.clock_set_to {
                    Some(at) if at <= now => break,
                    Some(at) => {
                        let wait = Duration::from_nanos(at - now);
                        let waited = self.alarm.wait_timeout(inner, wait).unwrap_or_else(PoisonError::into_inner);
                        inner = waited.0;
                    }
                    None => inner = self.alarm.wait(inner).unwrap_or_else(PoisonError::into_inner),
                }
            }
            drop(inner);
            self.section_with(WATCH_NS, |inner, now| {
                inner.core.tick(now);
                inner.watch_chains(now);
            });
        }
    }
}
