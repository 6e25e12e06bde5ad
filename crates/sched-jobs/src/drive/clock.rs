//! The clock: wakes the scheduler when an alarm is due.
//!
//! Room: driver.
//!
//! Alarms are: the end of a back-off, a check whether pausing closures have stopped, a pause timeout, and a check for chains that take too long. The clock is a task that
//! starts with the first alarm, on a thread of its own: fibers that block the runtime's workers do not delay it.

use core::time::Duration;
use std::sync::Arc;

use sched_tasks::Spawner;

use super::Shared;
use super::chain::CHAIN_CHECK_NS;

impl Shared {
    pub(super) fn start_clock(&self) {
        let Some(shared) = self.me.upgrade() else { return };
        let Ok(tasks) = &self.tasks else { return };
        let clock = ClockGuard(shared.clone());
        if tasks.spawn_thread("bursar-job-clock", move || clock.0.run_clock()).is_err() && tasks.is_open() {
            // If no thread can be started, a fiber is used. The runtime's workers may delay it.
            let clock = ClockGuard(shared);
            let _reported_by_drop = tasks.spawn(move || clock.0.run_clock());
        }
    }

    fn run_clock(&self) {
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
            self.section_with(CHAIN_CHECK_NS, |inner, now| {
                inner.core.tick(now);
                inner.watch_chains(now);
                inner.check_paused(now);
            });
        }
    }
}

/// A clock that runs or is about to. If it is dropped while the scheduler exists, the runtime has ended: jobs that wait for an alarm would wait for ever, so all jobs are cancelled.
struct ClockGuard(Arc<Shared>);

impl Drop for ClockGuard {
    fn drop(&mut self) {
        if !self.0.tasks.as_ref().is_ok_and(Spawner::is_open) {
            self.0.section(|inner, now| inner.stop_with_runtime(now));
            self.0.changed.notify_all();
        }
    }
}
