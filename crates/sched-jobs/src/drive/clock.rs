//! Wakes the scheduler when a back-off is over, a closure that was paused may stand still or has taken too long to, or a worker has held what it claimed for too long. A task that
//! starts with the first alarm. On a thread of its own: fibers that hold the runtime's workers do not hold it up.

use core::time::Duration;
use std::sync::Arc;

use super::Shared;
use super::chain::WATCH_NS;

impl Shared {
    pub(super) fn start_clock(&self) {
        let Some(shared) = self.me.upgrade() else { return };
        let started = match &self.tasks {
            Ok(tasks) => tasks.spawn_thread("bursar-job-clock", move || shared.keep_time()),
            Err(error) => Err(error.clone()),
        };
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
                        self.alarm.wait_timeout(&mut inner, Duration::from_nanos(at - now));
                    }
                    None => self.alarm.wait(&mut inner),
                }
            }
            drop(inner);
            self.section_with(WATCH_NS, |inner, now| {
                inner.core.tick(now);
                inner.watch_chains(now);
                inner.look_who_stands_still(now);
            });
        }
    }
}
