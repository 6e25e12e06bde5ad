//! `select!` over four channels that always have values: four tasks send, one receives whatever is there. 1 worker.
//!
//! Bar: not longer than tokio's `select!`.

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "select";
const CHANNELS: usize = 4;
const CAPACITY: usize = 64;

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn receive(runtime: &Runtime, each: usize) -> Result<usize, Failure> {
        let sum = runtime.run(|| {
            nursery(|n| {
                let channels: [_; CHANNELS] = std::array::from_fn(|_| {
                    let (tx, rx) = channel(CAPACITY);
                    let sender = tx.clone();
                    n.spawn(move || (0..each).for_each(|value| sender.send(value).expect("there is a receiver")));
                    (tx, rx) // it stays open: one that has ended would be ready for ever
                });
                let [(_, one), (_, two), (_, three), (_, four)] = &channels;
                let mut sum = 0;
                for _ in 0..CHANNELS * each {
                    sum += select! {
                        value = recv(one) => value.unwrap_or(0),
                        value = recv(two) => value.unwrap_or(0),
                        value = recv(three) => value.unwrap_or(0),
                        value = recv(four) => value.unwrap_or(0),
                    };
                }
                Ok(sum)
            })
        })??;
        Ok(sum)
    }
}

async fn with_tokio(each: usize) -> usize {
    let [mut one, mut two, mut three, mut four] = std::array::from_fn(|_| {
        let (tx, rx) = tokio::sync::mpsc::channel(CAPACITY);
        tokio::spawn(async move {
            for value in 0..each {
                tx.send(value).await.expect("there is a receiver");
            }
        });
        rx
    });
    let mut sum = 0;
    // A channel that has ended is left out: its receiver would be ready for ever.
    while let Some(value) = tokio::select! {
        Some(value) = one.recv() => Some(value),
        Some(value) = two.recv() => Some(value),
        Some(value) = three.recv() => Some(value),
        Some(value) = four.recv() => Some(value),
        else => None,
    } {
        sum += value;
    }
    sum
}

fn check(sum: usize, each: usize) -> Result<(), Failure> {
    let expected = CHANNELS * each * (each - 1) / 2;
    if sum == expected {
        return Ok(());
    }
    Err(format!("the values add up to {expected}, not to {sum}").into())
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let each = plan.pick(200_000, 40_000);
    let runtime = bursar::Runtime::builder().workers(1).build()?;
    let tokio = peers::tokio(1)?;
    let [ours, theirs] = plan.best_of(
        CHANNELS * each,
        [
            Side::new("ours", || check(ours::receive(&runtime, each)?, each)),
            Side::new("tokio", || check(peers::run_tokio(&tokio, with_tokio(each))?, each)),
        ],
    )?;
    Ok(vec![Row::new(NAME, "tokio", [ours, theirs], "ns/value", Bar::Times(1.0))])
}
