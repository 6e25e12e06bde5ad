//! Wakes the scheduler when a back-off is over, a closure that was paused may stand still or has taken too long to, or a worker has held what it claimed for too long. A task that
//! starts with the first alarm. On a thread of its own: fibers that hold the runtime's workers do not hold it up.

use core::time::Duration;
use std::sync::Arc;

use sched_tasks::Spawner;

use super::Shared;
use super::chain::WATCH_NS;

impl Shared {
    pub(super) fn start_clock(&self) {
        let Some(shared) = self.me.upgrade() else { return };
        let Ok(tasks) = &self.tasks else { return };
        let clock = Ticking(shared.clone());
        if tasks.spawn_thread("bursar-job-clock", move || clock.0.keep_time()).is_err() && tasks.is_open() {
            // No thread to be had: a fiber will do, if the runtime's workers let it.
            let clock = Ticking(shared);
            let _told_by_its_drop = tasks.spawn(move || clock.0.keep_time());
        }
    }

    fn keep_time(&self) {
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

/// A clock that is to run, or runs. When it is no more, and the scheduler is there, the runtime has ended: jobs that wait for a time would wait for ever.
struct Ticking(Arc<Shared>);

impl Drop for Ticking {
    fn drop(&mut self) {
        if !self.0.tasks.as_ref().is_ok_and(Spawner::is_open) {
            self.0.section(|inner, now| inner.stop_with_runtime(now));
            self.0.news.notify_all();
        }
    }
}
