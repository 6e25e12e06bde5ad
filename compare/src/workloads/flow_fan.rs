//! One source deals out a million numbers to eight nodes, which stir each a little and feed one sink. 2 workers.
//!
//! Ours: a node for each of the ten, and one that deals, on 2 workers. Tokio's: a task for each, on 2 workers, and a bounded channel for each of the eight and for the sink.
//! Crossbeam's: a thread for each, and the same channels; or one channel that the eight share, if that is faster. Everything holds 1024.
//! The stirring, 20 rounds of a mix function, is the same code for all. The sink adds up what it gets, so that a lost or doubled message is a failure.
//!
//! Bars: 1/2 of tokio, 1.0 × crossbeam.

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "flow-fan";
const CAPACITY: usize = 1024;
const WIDTH: usize = 8;
const ROUNDS: usize = 20;

/// A little work. The result depends on every round, so none is optimised away.
fn stir(value: u64) -> u64 {
    (0..ROUNDS).fold(value, |x, _| (x ^ (x >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

mod ours {
    use super::*;
    use bursar::flow::{Flow, Graph, Message, NodeResult, NodeSpec, Out, Stage, map, sink, source};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Deals numbers out, one to each output in turn. A source has one output, so this is a node more than the others have.
    struct Dealer(usize);

    impl Stage for Dealer {
        type In = u64;
        type Out = u64;

        fn outputs(&self) -> Vec<String> {
            (0..WIDTH).map(|lane| format!("lane-{lane}")).collect()
        }

        fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
            out.emit_to(self.0, message.payload);
            self.0 = (self.0 + 1) % WIDTH;
            Ok(())
        }
    }

    pub fn sum(count: u64) -> Result<u64, Failure> {
        let total = Arc::new(AtomicU64::new(0));
        let mut graph = Graph::new("fan");
        let mut numbers = 0..count;
        let first = graph.add("source", source(move || numbers.next()));
        let dealer = graph.add("dealer", NodeSpec::stage(Dealer(0)));
        graph.connect(first.out("out"), dealer.input("in")).capacity(CAPACITY);
        let (mut sum, seen) = (0_u64, total.clone());
        let end = graph.add(
            "sink",
            sink(move |value: u64| {
                sum = sum.wrapping_add(value);
                seen.store(sum, Ordering::Relaxed);
            }),
        );
        for lane in 0..WIDTH {
            let stage = graph.add(format!("stir-{lane}"), map(stir));
            graph.connect(dealer.out(format!("lane-{lane}")), stage.input("in")).capacity(CAPACITY);
            graph.connect(stage.out("out"), end.input("in")).capacity(CAPACITY);
        }
        Flow::builder().register(graph).workers(2).build()?.run()?;
        Ok(total.load(Ordering::Relaxed))
    }
}

mod with_tokio {
    use super::*;
    use tokio::sync::mpsc::channel;

    pub async fn sum(count: u64) -> u64 {
        let (results, mut end) = channel::<u64>(CAPACITY);
        let lanes = [(); WIDTH].map(|()| {
            let (lane, mut input) = channel::<u64>(CAPACITY);
            let results = results.clone();
            tokio::spawn(async move {
                while let Some(value) = input.recv().await {
                    results.send(stir(value)).await.expect("the sink still receives");
                }
            });
            lane
        });
        drop(results);
        tokio::spawn(async move {
            for value in 0..count {
                lanes[value as usize % WIDTH].send(value).await.expect("the node still receives");
            }
        });
        let sink = tokio::spawn(async move {
            let mut sum = 0_u64;
            while let Some(value) = end.recv().await {
                sum = sum.wrapping_add(value);
            }
            sum
        });
        sink.await.expect("no task panics")
    }
}

mod with_crossbeam {
    use super::*;
    use crossbeam_channel::{Receiver, Sender, bounded};
    use std::thread;

    /// A channel for each of the eight.
    pub fn dealt(count: u64) -> u64 {
        let (lanes, inputs): (Vec<_>, Vec<_>) = (0..WIDTH).map(|_| bounded(CAPACITY)).unzip();
        sum(count, lanes, inputs)
    }

    /// One channel: a free node takes the next message.
    pub fn shared(count: u64) -> u64 {
        let (lane, input) = bounded(CAPACITY);
        sum(count, vec![lane], vec![input; WIDTH])
    }

    fn sum(count: u64, lanes: Vec<Sender<u64>>, inputs: Vec<Receiver<u64>>) -> u64 {
        let (results, end) = bounded::<u64>(CAPACITY);
        thread::scope(|threads| {
            for input in inputs {
                let results = results.clone();
                threads.spawn(move || {
                    for value in input {
                        results.send(stir(value)).expect("the sink still receives");
                    }
                });
            }
            drop(results);
            threads.spawn(move || {
                for value in 0..count {
                    lanes[value as usize % lanes.len()].send(value).expect("a thread still receives");
                }
            });
            let sink = threads.spawn(move || end.iter().fold(0_u64, u64::wrapping_add));
            sink.join().expect("no thread panics")
        })
    }
}

fn expected(count: u64) -> u64 {
    (0..count).map(stir).fold(0, u64::wrapping_add)
}

fn check(expected: u64, sum: u64) -> Result<(), Failure> {
    if sum == expected {
        return Ok(());
    }
    Err(format!("the messages add up to {expected}, not to {sum}").into())
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let messages = plan.pick(1_000_000, 100_000);
    let count = messages as u64;
    let expected = expected(count);
    let tokio = peers::tokio(2)?;
    let [ours, tokio, dealt, shared] = plan.best_of(
        messages,
        [
            Side::new("ours", || check(expected, ours::sum(count)?)),
            Side::new("tokio", || check(expected, peers::run_tokio(&tokio, with_tokio::sum(count))?)),
            Side::new("crossbeam, dealt out", || check(expected, with_crossbeam::dealt(count))),
            Side::new("crossbeam, shared", || check(expected, with_crossbeam::shared(count))),
        ],
    )?;
    Ok(vec![
        Row::new(NAME, "tokio", [ours, tokio], "ns/message", Bar::Part(2)),
        Row::new(NAME, "crossbeam", [ours, dealt.min(shared)], "ns/message", Bar::Times(1.0)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_adds_up_to_the_same() {
        let count = 20_000; // more than all edges hold
        let expected = expected(count);
        check(expected, ours::sum(count).expect("ours")).expect("ours");
        check(expected, peers::run_tokio(&peers::tokio(2).expect("tokio"), with_tokio::sum(count)).expect("tokio"))
            .expect("tokio");
        check(expected, with_crossbeam::dealt(count)).expect("crossbeam, dealt out");
        check(expected, with_crossbeam::shared(count)).expect("crossbeam, shared");
    }
}
