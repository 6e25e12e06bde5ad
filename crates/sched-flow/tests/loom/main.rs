//! Every interleaving of workers that sleep and are woken, as far as two preemptions go: no worker sleeps while there is a turn.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p sched-flow --test loom
//! ```
//!
//! The real source counts which workers sleep and which were notified, under a mutex of loom; the lock and the channel around it, `drive/signals.rs`, are repeated here. The models
//! of an edge and of turns are in `crates/policy-flow/tests/loom/main.rs`. `tests/planted.rs` shows that a model can fail.
#![cfg(loom)]
#![allow(dead_code, reason = "the source is taken whole, and used in part")]

#[path = "../../src/drive/sleepers.rs"]
mod sleepers;

use std::sync::Arc;

use loom::{
    sync::{Condvar, Mutex},
    thread,
};
use policy_flow::Time;
use sleepers::{Sleepers, Wakeups};

/// The state of the model: how many turns are ready, at what time one will be, and whether there will be more.
#[derive(Default)]
struct Scheduler {
    sleepers: Sleepers,
    ready: u32,
    timer: Option<Time>,
    over: bool,
    /// The number of turns that were given.
    done: u32,
}

/// The lock and the channel, as in `signals.rs`: a notification is a token in a channel with room for each worker.
#[derive(Default)]
struct Signals {
    scheduler: Mutex<Scheduler>,
    tokens: Mutex<usize>,
    changed: Condvar,
}

impl Signals {
    fn notify(&self, wakeups: Wakeups, workers: usize) {
        for _ in 0..wakeups.count() {
            let mut tokens = self.tokens.lock().unwrap();
            if *tokens < workers {
                *tokens += 1;
                self.changed.notify_one();
            }
        }
    }

    fn wait(&self) {
        let mut tokens = self.tokens.lock().unwrap();
        while *tokens == 0 {
            tokens = self.changed.wait(tokens).unwrap();
        }
        *tokens -= 1;
    }

    /// As `Shared::work`. A worker that waits for a timer does not sleep: in this model its time has come at once.
    fn work(&self, workers: usize) {
        let mut scheduler = self.scheduler.lock().unwrap();
        loop {
            if scheduler.ready > 0 {
                scheduler.ready -= 1;
                scheduler.done += 1;
                let Scheduler { sleepers, ready, timer, .. } = &mut *scheduler;
                let wakeups = sleepers.wake_one(*ready > 0, *timer);
                drop(scheduler);
                self.notify(wakeups, workers);
                scheduler = self.scheduler.lock().unwrap();
            } else if scheduler.over && scheduler.timer.is_none() {
                let wakeups = scheduler.sleepers.wake_all();
                drop(scheduler);
                return self.notify(wakeups, workers);
            } else {
                let until = scheduler.timer;
                let kept = scheduler.sleepers.sleeps(until);
                drop(scheduler);
                if kept.is_none() {
                    self.wait();
                }
                scheduler = self.scheduler.lock().unwrap();
                scheduler.sleepers.woke(kept);
                if kept.is_some() && scheduler.timer.take().is_some() {
                    scheduler.ready += 1;
                }
            }
        }
    }

    /// As a waker or a handle does.
    fn change(&self, workers: usize, change: impl FnOnce(&mut Scheduler)) {
        let mut scheduler = self.scheduler.lock().unwrap();
        change(&mut scheduler);
        let Scheduler { sleepers, ready, timer, over, .. } = &mut *scheduler;
        let wakeups = if *over { sleepers.wake_all() } else { sleepers.wake_one(*ready > 0, *timer) };
        drop(scheduler);
        self.notify(wakeups, workers);
    }
}

#[test]
fn a_sleeping_worker_is_woken_when_there_is_work() {
    loom::model(|| {
        let signals = Arc::new(Signals::default());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let signals = Arc::clone(&signals);
                thread::spawn(move || signals.work(2))
            })
            .collect();
        signals.change(2, |scheduler| scheduler.ready += 1);
        signals.change(2, |scheduler| scheduler.timer = Some(Time::from_nanos(1)));
        signals.change(2, |scheduler| scheduler.over = true);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(signals.scheduler.lock().unwrap().done, 2);
    });
}

#[test]
fn a_time_is_waited_for_again_after_its_waiter_was_woken() {
    loom::model(|| {
        let signals = Arc::new(Signals::default());
        let worker = {
            let signals = Arc::clone(&signals);
            thread::spawn(move || signals.work(1))
        };
        for _ in 0..2 {
            signals.change(1, |scheduler| scheduler.timer = Some(Time::from_nanos(1)));
        }
        signals.change(1, |scheduler| scheduler.over = true);
        worker.join().unwrap();
        let scheduler = signals.scheduler.lock().unwrap();
        assert!(scheduler.timer.is_none() && scheduler.done >= 1);
    });
}
