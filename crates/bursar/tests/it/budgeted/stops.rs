//! What has no checkpoint of its own can be cancelled.

use std::{
    future::ready,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use bursar::{Runtime, TaskError, block_on, budgeted, channel, nursery};

/// Far longer than a cancellation takes, so that a loop that does not check for it fails the test and does not hang it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a loop is told from outside, and tells.
#[derive(Default)]
struct Signs {
    turns: AtomicU64,
    give_up: AtomicBool,
    heedless: AtomicBool,
}

impl Signs {
    /// One turn of a loop. True if it went on although it was to end long ago.
    fn turn(&self) -> bool {
        self.turns.fetch_add(1, Relaxed);
        self.give_up.load(Relaxed) && !self.heedless.swap(true, Relaxed)
    }
}

#[budgeted]
fn endless_loop(signs: &Signs) {
    loop {
        if signs.turn() {
            return;
        }
    }
}

#[budgeted]
fn called_for_ever(signs: &Signs) -> bool {
    signs.turn()
}

fn endless_calls(signs: &Signs) {
    while !called_for_ever(signs) {}
}

#[budgeted]
fn endless_closure(signs: &Signs) {
    let turn_for_ever = || while !signs.turn() {};
    black_box(turn_for_ever)();
}

#[budgeted(interval = 4_294_967_295)] // so that only awaits check
async fn endless_awaits(signs: &Signs) {
    while !ready(signs.turn()).await {}
}

/// A task runs `endless`; another, on another worker, cancels both.
fn is_stopped(endless: fn(&Signs)) {
    let signs = Arc::new(Signs::default());
    let watched = Arc::clone(&signs);
    let (done, all_done) = channel::<()>(1);
    let watch = thread::spawn(move || {
        let _ = all_done.recv_timeout(TIMEOUT);
        watched.give_up.store(true, Relaxed);
    });
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let outcome: Result<Result<(), TaskError>, _> = runtime.run(|| {
        nursery(|n| {
            n.spawn(|| endless(&signs));
            let canceller = n.canceller();
            let signs = &signs;
            n.spawn(move || {
                let began = Instant::now();
                while signs.turns.load(Relaxed) < 10_000 && began.elapsed() < TIMEOUT {
                    thread::yield_now(); // keeps the worker: a task that has started could not leave one that `endless` took
                }
                canceller.cancel();
            });
            Ok(())
        })
    });
    drop(done);
    watch.join().unwrap();
    assert!(!signs.heedless.load(Relaxed), "it went on after it was cancelled");
    assert!(outcome.unwrap().unwrap_err().is_cancelled());
    assert!(signs.turns.load(Relaxed) >= 10_000);
}

#[test]
fn a_loop_without_a_checkpoint_is_cancelled() {
    is_stopped(endless_loop);
}

#[test]
fn endless_calls_are_cancelled() {
    is_stopped(endless_calls);
}

#[test]
fn a_closure_that_loops_is_cancelled() {
    is_stopped(endless_closure);
}

#[test]
fn endless_awaits_are_cancelled_though_none_is_pending() {
    is_stopped(|signs| block_on(endless_awaits(signs)));
}
