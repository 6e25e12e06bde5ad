//! Skynet: a task has ten children, they have ten each, a million leaves return their
//! number, and every parent returns the sum. 1.1 M tasks, 2 workers.
//!
//! Bars: 1/10 of tokio, 1.5 × rayon.

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "skynet";
const CHILDREN: usize = 10;

/// The number of child `index` of the node `number`, which has `leaves` leaves below it.
fn child(number: u64, leaves: u64, index: usize) -> (u64, u64) {
    let below = leaves / CHILDREN as u64;
    (number + index as u64 * below, below)
}

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn sum(number: u64, leaves: u64) -> Result<u64, TaskError> {
        if leaves == 1 {
            return Ok(number);
        }
        nursery(|n| {
            let tasks: [_; CHILDREN] = std::array::from_fn(|index| {
                let (number, leaves) = child(number, leaves, index);
                n.spawn(move || sum(number, leaves).expect("no leaf fails"))
            });
            tasks.into_iter().map(|task| task.join()).sum()
        })
    }
}

mod with_tokio {
    use super::*;
    use std::pin::Pin;

    pub fn sum(number: u64, leaves: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
        Box::pin(async move {
            if leaves == 1 {
                return number;
            }
            let tasks: [_; CHILDREN] = std::array::from_fn(|index| {
                let (number, leaves) = child(number, leaves, index);
                tokio::spawn(sum(number, leaves))
            });
            let mut total = 0;
            for task in tasks {
                total += task.await.expect("no task panics");
            }
            total
        })
    }
}

mod with_rayon {
    use super::*;

    pub fn sum(number: u64, leaves: u64) -> u64 {
        if leaves == 1 {
            return number;
        }
        let mut sums = [0; CHILDREN];
        rayon::scope(|scope| {
            for (index, slot) in sums.iter_mut().enumerate() {
                let (number, leaves) = child(number, leaves, index);
                scope.spawn(move |_| *slot = sum(number, leaves));
            }
        });
        sums.iter().sum()
    }
}

fn check(sum: u64, leaves: u64) -> Result<(), Failure> {
    let expected = leaves * (leaves - 1) / 2;
    if sum == expected {
        return Ok(());
    }
    Err(format!("the leaves add up to {expected}, not to {sum}").into())
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let leaves = plan.pick(1_000_000, 100_000) as u64;
    let tasks = (leaves as usize * CHILDREN - 1) / (CHILDREN - 1);
    let runtime = bursar::Runtime::builder().workers(2).build()?;
    let tokio = peers::tokio(2)?;
    let rayon = peers::rayon(2)?;
    let [ours, tokio, rayon] = plan.best_of(
        tasks,
        [
            Side::new("ours", || check(runtime.run(|| ours::sum(0, leaves))??, leaves)),
            Side::new("tokio", || check(peers::run_tokio(&tokio, with_tokio::sum(0, leaves))?, leaves)),
            Side::new("rayon", || check(rayon.install(|| with_rayon::sum(0, leaves)), leaves)),
        ],
    )?;
    Ok(vec![
        Row::new(NAME, "tokio", [ours, tokio], "ns/task", Bar::Part(10)),
        Row::new(NAME, "rayon", [ours, rayon], "ns/task", Bar::Times(1.5)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_add_up_the_same_leaves() {
        check(with_rayon::sum(0, 1000), 1000).expect("rayon");
        let tokio = peers::tokio(2).expect("two threads");
        let sum = peers::run_tokio(&tokio, with_tokio::sum(0, 1000)).expect("no panic");
        check(sum, 1000).expect("tokio");
    }
}
