//! What a channel costs: a round trip between two fibers of one worker, and a stream through 1024 places between two workers.
//! Budgets: 100 ns for the round trip; for the stream no more than `crossbeam-channel` takes between two threads.
//! What it is not for: figures from a busy machine.

use std::{hint::black_box, time::Instant};

use sched_tasks::{Runtime, channel, nursery};

const ROUND_TRIPS: u32 = 1_000_000;
const MESSAGES: u32 = 5_000_000;

fn main() {
    if std::env::args().any(|arg| arg == "round-trip") {
        let one = Runtime::builder().workers(1).build().expect("one worker");
        (0..10).for_each(|_| println!("{} ns", round_trips(&one, 1)));
        return;
    }
    let one = Runtime::builder().workers(1).build().expect("one worker");
    let two = Runtime::builder().workers(2).build().expect("two workers");
    for _ in 0..5 {
        println!("round trip, 1 worker, capacity 1: {:>4} ns", round_trips(&one, 1));
        println!("round trip, 1 worker, capacity 0: {:>4} ns", round_trips(&one, 0));
        println!("round trip, 2 workers, capacity 1: {:>4} ns", round_trips(&two, 1));
        println!("stream, 2 workers, capacity 1024: {:>4} ns", stream(&two));
        println!("stream, 2 threads, capacity 1024: {:>4} ns", stream_between_threads());
    }
}

fn round_trips(runtime: &Runtime, capacity: usize) -> u128 {
    let begun = Instant::now();
    runtime
        .nursery(|n| {
            let (to, from) = channel::<u32>(capacity);
            let (back, answers) = channel::<u32>(capacity);
            n.try_spawn(move || {
                for i in from {
                    back.send(i)?;
                }
                Ok(())
            });
            n.try_spawn(move || {
                for i in 0..ROUND_TRIPS {
                    to.send(i)?;
                    black_box(answers.recv()?);
                }
                Ok(())
            });
            Ok(())
        })
        .expect("nobody fails");
    begun.elapsed().as_nanos() / u128::from(ROUND_TRIPS)
}

fn stream(runtime: &Runtime) -> u128 {
    let begun = Instant::now();
    runtime
        .run(|| {
            nursery(|n| {
                let (tx, rx) = channel::<u32>(1024);
                n.try_spawn(move || {
                    for i in 0..MESSAGES {
                        tx.send(i)?;
                    }
                    Ok(())
                });
                n.spawn(move || rx.into_iter().for_each(|i| _ = black_box(i)));
                Ok(())
            })
        })
        .expect("nobody fails")
        .expect("nobody fails");
    begun.elapsed().as_nanos() / u128::from(MESSAGES)
}

fn stream_between_threads() -> u128 {
    let begun = Instant::now();
    let (tx, rx) = channel::<u32>(1024);
    std::thread::scope(|s| {
        s.spawn(move || (0..MESSAGES).for_each(|i| tx.send(i).expect("somebody receives")));
        s.spawn(move || rx.into_iter().for_each(|i| _ = black_box(i)));
    });
    begun.elapsed().as_nanos() / u128::from(MESSAGES)
}
