//! A million numbers through a chain of ten nodes: a source, eight stages that add one, a sink. 1 thread.
//!
//! Ours is a flow on the calling thread; tokio's a task for each node on a `current_thread` runtime, and a bounded channel for each
//! edge. Every edge holds 1024, and nothing may be lost: the sink adds up what it gets. Ours also carries a trace id and a time with each message.
//! Building and dropping the graph is part of a round. One hop is from one node into the next; a chain of ten has nine.
//!
//! Bars: 1/5 of tokio, and 60 ns a hop: the flow graph of oneTBB needed 94 ns where this was first measured.

use crate::Failure;
use crate::chain;
use crate::measure::{Plan, Side};
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::peers;

pub const NAME: &str = "flow-chain";
const HOP_NS_MAX: f64 = 60.0;
/// From one node into the next.
pub(super) const HOPS: usize = chain::STAGES + 1;

pub(super) mod with_tokio {
    use super::chain::{CAPACITY, STAGES};
    use std::mem;
    use tokio::sync::mpsc::channel;

    pub async fn sum(count: u64) -> u64 {
        let (first, mut last) = channel::<u64>(CAPACITY);
        tokio::spawn(async move {
            for value in 0..count {
                first.send(value).await.expect("the next node still receives");
            }
        });
        for _ in 0..STAGES {
            let (sender, receiver) = channel::<u64>(CAPACITY);
            let mut input = mem::replace(&mut last, receiver);
            tokio::spawn(async move {
                while let Some(value) = input.recv().await {
                    sender.send(value + 1).await.expect("the next node still receives");
                }
            });
        }
        let sink = tokio::spawn(async move {
            let mut sum = 0;
            while let Some(value) = last.recv().await {
                sum += value;
            }
            sum
        });
        sink.await.expect("no task panics")
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let messages = plan.pick(1_000_000, 100_000);
    let count = messages as u64;
    let tokio = peers::tokio_on_this_thread()?;
    let [ours, tokio] = plan.best_of(
        messages * HOPS,
        [
            Side::new("ours", || chain::check(count, chain::ours(count, None)?)),
            Side::new("tokio", || chain::check(count, tokio.block_on(with_tokio::sum(count)))),
        ],
    )?;
    Ok(vec![
        Row::new(NAME, "tokio", [ours, tokio], "ns/hop", Bar::Part(5)),
        Row::new(NAME, LIMIT, [ours, HOP_NS_MAX], "ns/hop", Bar::AtMost),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_adds_up_to_the_same() {
        let count = 5000; // several times what an edge holds
        chain::check(count, chain::ours(count, None).expect("ours")).expect("ours");
        chain::check(count, chain::ours(count, Some(2)).expect("ours")).expect("ours, 2 workers");
        let alone = peers::tokio_on_this_thread().expect("tokio");
        chain::check(count, alone.block_on(with_tokio::sum(count))).expect("tokio");
        let both = peers::tokio(2).expect("tokio");
        let sum = peers::run_tokio(&both, with_tokio::sum(count)).expect("tokio");
        chain::check(count, sum).expect("tokio, 2 workers");
    }

    #[test]
    fn a_lost_message_is_a_failure() {
        let whole: u64 = (0..10).map(|value| value + 8).sum();
        assert!(chain::check(10, whole).is_ok());
        assert!(chain::check(10, whole - 8).is_err(), "the first is missing");
    }
}
