//! Every interleaving of workers that sleep and are rung, as far as two preemptions go: nobody sleeps while there is something to do.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p sched-flow --test loom
//! ```
//!
//! Who sleeps and who is rung is counted by the real source, under a mutex of loom; the lock and the bell around it, `drive/signals.rs`, are played here. The models
//! of an edge and of turns are in `crates/policy-flow/tests/loom/main.rs`. That a model can fail at all is shown by `tests/planted.rs`.
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
use sleepers::{Rings, Sleepers};

/// What workers look at: how many turns are ready, at what time one will be, and whether there will ever be more.
#[derive(Default)]
struct Mind {
    sleepers: Sleepers,
    ready: u32,
    timer: Option<Time>,
    over: bool,
    /// So many turns were given.
    done: u32,
}

/// The lock and the bell, as in `signals.rs`: rings are tokens in a channel with a place for each worker.
#[derive(Default)]
struct Signals {
    mind: Mutex<Mind>,
    tokens: Mutex<usize>,
    bell: Condvar,
}

impl Signals {
    fn ring(&self, rings: Rings, workers: usize) {
        for _ in 0..rings.count() {
            let mut tokens = self.tokens.lock().unwrap();
            if *tokens < workers {
                *tokens += 1;
                self.bell.notify_one();
            }
        }
    }

    fn wait(&self) {
        let mut tokens = self.tokens.lock().unwrap();
        while *tokens == 0 {
            tokens = self.bell.wait(tokens).unwrap();
        }
        *tokens -= 1;
    }

    /// As `Shared::work`. Whoever watches the clock does not sleep: in this model its time has come at once.
    fn work(&self, workers: usize) {
        let mut mind = self.mind.lock().unwrap();
        loop {
            if mind.ready > 0 {
                mind.ready -= 1;
                mind.done += 1;
                let Mind { sleepers, ready, timer, .. } = &mut *mind;
                let rings = sleepers.ring_one(*ready > 0, *timer);
                drop(mind);
                self.ring(rings, workers);
                mind = self.mind.lock().unwrap();
            } else if mind.over && mind.timer.is_none() {
                let rings = mind.sleepers.ring_all();
                drop(mind);
                return self.ring(rings, workers);
            } else {
                let until = mind.timer;
                let kept = mind.sleepers.sleeps(until);
                drop(mind);
                if kept.is_none() {
                    self.wait();
                }
                mind = self.mind.lock().unwrap();
                mind.sleepers.woke(kept);
                if kept.is_some() && mind.timer.take().is_some() {
                    mind.ready += 1;
                }
            }
        }
    }

    /// As a waker or a handle does.
    fn say(&self, workers: usize, change: impl FnOnce(&mut Mind)) {
        let mut mind = self.mind.lock().unwrap();
        change(&mut mind);
        let Mind { sleepers, ready, timer, over, .. } = &mut *mind;
        let rings = if *over { sleepers.ring_all() } else { sleepers.ring_one(*ready > 0, *timer) };
        drop(mind);
        self.ring(rings, workers);
    }
}

#[test]
fn whoever_sleeps_is_rung_when_there_is_something_to_do() {
    loom::model(|| {
        let signals = Arc::new(Signals::default());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let signals = Arc::clone(&signals);
                thread::spawn(move || signals.work(2))
            })
            .collect();
        signals.say(2, |mind| mind.ready += 1);
        signals.say(2, |mind| mind.timer = Some(Time::from_nanos(1)));
        signals.say(2, |mind| mind.over = true);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(signals.mind.lock().unwrap().done, 2);
    });
}

#[test]
fn a_time_is_watched_again_after_the_one_who_did_was_rung() {
    loom::model(|| {
        let signals = Arc::new(Signals::default());
        let worker = {
            let signals = Arc::clone(&signals);
            thread::spawn(move || signals.work(1))
        };
        for _ in 0..2 {
            signals.say(1, |mind| mind.timer = Some(Time::from_nanos(1)));
        }
        signals.say(1, |mind| mind.over = true);
        worker.join().unwrap();
        let mind = signals.mind.lock().unwrap();
        assert!(mind.timer.is_none() && mind.done >= 1);
    });
}
