//! What a channel costs: a round trip between two fibers of one worker, and a stream through 1024 places between two workers.
//! Budgets: 100 ns for the round trip; for the stream no more than `crossbeam-channel` takes between two threads.
//! What it is not for: figures from a busy machine.

use std::{
    hint::{black_box, spin_loop},
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    thread::{self, ThreadId},
    time::Instant,
};

use sched_tasks::{Receiver, Runtime, Sender, channel, nursery};

const ROUND_TRIPS: u32 = 1_000_000;
const MESSAGES: u32 = 5_000_000;

fn main() {
    let one = Runtime::builder().workers(1).build().expect("one worker");
    let two = Runtime::builder().workers(2).build().expect("two workers");
    for _ in 0..5 {
        println!("round trip, 1 worker,  capacity 1:    {:>5} ns", round_trips(&one, 1, false));
        println!("round trip, 1 worker,  capacity 0:    {:>5} ns", round_trips(&one, 0, false));
        println!("round trip, 2 workers, capacity 1:    {:>5} ns", round_trips(&two, 1, true));
        println!("stream,     1 worker,  capacity 1024: {:>5} ns", stream(&one, false));
        println!("stream,     2 workers, capacity 1024: {:>5} ns", stream(&two, true));
        println!("stream,     2 threads, capacity 1024: {:>5} ns", stream_between_threads());
    }
}

/// Keeps both fibers from going on before each runs on its own worker: neither lets its worker go, so the other must be stolen.
fn meet(here: &AtomicU32, apart: bool) -> ThreadId {
    here.fetch_add(1, SeqCst);
    while apart && here.load(SeqCst) < 2 {
        spin_loop();
    }
    thread::current().id()
}

/// Runs both as fibers, and times them from when both are there.
fn time(
    runtime: &Runtime,
    apart: bool,
    first: impl FnOnce() + Send,
    second: impl FnOnce() + Send,
    operations: u32,
) -> u128 {
    let here = AtomicU32::new(0);
    let measure = |body: Box<dyn FnOnce() + Send + '_>| {
        let thread = meet(&here, apart);
        let begun = Instant::now();
        body();
        (thread, begun.elapsed())
    };
    let (one, other) = runtime
        .run(|| {
            nursery(|n| {
                let one = n.spawn(|| measure(Box::new(first)));
                let other = n.spawn(|| measure(Box::new(second)));
                Ok((one.join()?, other.join()?))
            })
        })
        .expect("nobody fails")
        .expect("nobody fails");
    assert_eq!(one.0 != other.0, apart, "a figure for {} worker(s) was taken on others", 1 + u32::from(apart));
    one.1.max(other.1).as_nanos() / u128::from(operations)
}

fn round_trips(runtime: &Runtime, capacity: usize, apart: bool) -> u128 {
    let (to, from) = channel::<u32>(capacity);
    let (back, answers) = channel::<u32>(capacity);
    let ask = move || {
        for i in 0..ROUND_TRIPS {
            to.send(i).expect("the other listens");
            black_box(answers.recv().expect("the other answers"));
        }
    };
    let answer = move || from.into_iter().for_each(|i| back.send(i).expect("the first listens"));
    time(runtime, apart, ask, answer, ROUND_TRIPS)
}

fn feed(tx: Sender<u32>) {
    (0..MESSAGES).for_each(|i| tx.send(i).expect("somebody receives"));
}

fn drain(rx: Receiver<u32>) {
    rx.into_iter().for_each(|i| _ = black_box(i));
}

fn stream(runtime: &Runtime, apart: bool) -> u128 {
    let (tx, rx) = channel(1024);
    time(runtime, apart, move || feed(tx), move || drain(rx), MESSAGES)
}

fn stream_between_threads() -> u128 {
    let begun = Instant::now();
    let (tx, rx) = channel(1024);
    thread::scope(|s| {
        s.spawn(move || feed(tx));
        s.spawn(move || drain(rx));
    });
    begun.elapsed().as_nanos() / u128::from(MESSAGES)
}
