//! One producer, one consumer, numbers through a channel of 1024. 2 workers.
//!
//! Bars: 1/3 of tokio, 1.0 × crossbeam on two threads. The consumer adds up what it gets,
//! so a lost or doubled message is a failure and not a good time.
//!
//! Where our two tasks run is the scheduler's choice, as it is for tokio: often both share a worker, and take turns a buffer at a time. A further row has them on
//! two workers for certain, as crossbeam's threads are on two CPUs.

use std::sync::Barrier;

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "stream";
const CAPACITY: usize = 1024;

mod ours {
    use super::*;
    use bursar::prelude::*;

    /// `meet` is called by both tasks before they begin.
    pub fn sum(runtime: &Runtime, count: u64, meet: impl Fn() + Sync) -> Result<u64, Failure> {
        let meet = &meet;
        Ok(runtime.run(|| {
            nursery(|n| {
                let (sender, receiver) = channel::<u64>(CAPACITY);
                n.spawn(move || {
                    meet();
                    for value in 0..count {
                        sender.send(value).expect("the consumer still receives");
                    }
                });
                let consumer = n.spawn(move || {
                    meet();
                    let mut sum = 0;
                    while let Ok(value) = receiver.recv() {
                        sum += value;
                    }
                    sum
                });
                consumer.join()
            })
        })??)
    }
}

mod with_tokio {
    use super::*;
    use tokio::sync::mpsc::channel;

    pub async fn sum(count: u64) -> u64 {
        let (sender, mut receiver) = channel::<u64>(CAPACITY);
        tokio::spawn(async move {
            for value in 0..count {
                sender.send(value).await.expect("the consumer still receives");
            }
        });
        let consumer = tokio::spawn(async move {
            let mut sum = 0;
            while let Some(value) = receiver.recv().await {
                sum += value;
            }
            sum
        });
        consumer.await.expect("no task panics")
    }
}

mod with_crossbeam {
    use super::*;
    use crossbeam_channel::bounded;
    use std::thread;

    pub fn sum(count: u64) -> u64 {
        let (sender, receiver) = bounded::<u64>(CAPACITY);
        thread::scope(|threads| {
            threads.spawn(move || {
                for value in 0..count {
                    sender.send(value).expect("the consumer still receives");
                }
            });
            let consumer = threads.spawn(move || {
                let mut sum = 0;
                while let Ok(value) = receiver.recv() {
                    sum += value;
                }
                sum
            });
            consumer.join().expect("no thread panics")
        })
    }
}

fn check(count: u64, sum: u64) -> Result<(), Failure> {
    let expected = count * (count - 1) / 2;
    if sum == expected {
        return Ok(());
    }
    Err(format!("the messages add up to {expected}, not to {sum}").into())
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let messages = plan.pick(2_000_000, 500_000);
    let count = messages as u64;
    let runtime = bursar::Runtime::builder().workers(2).build()?;
    let tokio = peers::tokio(2)?;
    let both = Barrier::new(2); // blocks the thread, so two tasks pass it only on two workers
    let [ours, apart, tokio, crossbeam] = plan.best_of(
        messages,
        [
            Side::new("ours", || check(count, ours::sum(&runtime, count, || {})?)),
            Side::new("ours, apart", || {
                check(
                    count,
                    ours::sum(&runtime, count, || {
                        both.wait();
                    })?,
                )
            }),
            Side::new("tokio", || check(count, peers::run_tokio(&tokio, with_tokio::sum(count))?)),
            Side::new("crossbeam", || check(count, with_crossbeam::sum(count))),
        ],
    )?;
    Ok(vec![
        Row::new(NAME, "tokio", [ours, tokio], "ns/message", Bar::Part(3)),
        Row::new(NAME, "crossbeam", [ours, crossbeam], "ns/message", Bar::Times(1.0)),
        Row::new(NAME, "crossbeam, ours apart", [apart, crossbeam], "ns/message", Bar::Open),
    ])
}
