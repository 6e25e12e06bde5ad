//! 100,000 tasks, each of which sleeps once, for 0 to 100 ms. 2 workers. From the first spawn until the last has ended, so 1 µs a sleep is the least there can be; and what CPU it took.
//!
//! Bars: fibers 1.5 × tokio, futures 1.0 × tokio.

use std::cell::Cell;
use std::time::Duration;

use crate::Failure;
use crate::load::cpu_time;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "sleeps";
const LONGEST: Duration = Duration::from_millis(100);

/// How long the task of this number sleeps: spread evenly, in no order.
fn time(number: usize) -> Duration {
    let part = (number as u32).wrapping_mul(0x9E37_79B9);
    Duration::from_nanos((LONGEST.as_nanos() as u64 * u64::from(part)) >> 32)
}

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn fibers(runtime: &Runtime, count: usize) -> Result<(), Failure> {
        runtime.run(|| {
            nursery(|n| {
                for number in 0..count {
                    n.spawn(move || sleep(time(number)));
                }
                Ok(())
            })
        })??;
        Ok(())
    }

    pub fn futures(runtime: &Runtime, count: usize) -> Result<(), Failure> {
        runtime.run(|| {
            nursery(|n| {
                for number in 0..count {
                    n.spawn_async(async move { sleep_async(time(number)).await });
                }
                Ok(())
            })
        })??;
        Ok(())
    }
}

async fn with_tokio(count: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..count {
        tasks.spawn(tokio::time::sleep(time(number)));
    }
    while let Some(slept) = tasks.join_next().await {
        slept.expect("no task panics");
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(100_000, 20_000);
    let runtime = bursar::Runtime::builder().workers(2).build()?;
    let tokio = peers::tokio_with_time(2)?;
    let cpu = [const { Cell::new(f64::INFINITY) }; 3];
    let counted = |work: &dyn Fn() -> Result<(), Failure>, least: &Cell<f64>| -> Result<(), Failure> {
        let before = cpu_time();
        work()?;
        least.set(least.get().min((cpu_time() - before).as_secs_f64() * 1e9 / count as f64));
        Ok(())
    };
    let [fibers, futures, theirs] = plan.best_of(
        count,
        [
            Side::new("fibers", || counted(&|| ours::fibers(&runtime, count), &cpu[0])),
            Side::new("futures", || counted(&|| ours::futures(&runtime, count), &cpu[1])),
            Side::new("tokio", || counted(&|| peers::run_tokio(&tokio, with_tokio(count)), &cpu[2])),
        ],
    )?;
    let [cpu_fibers, cpu_futures, cpu_theirs] = cpu.map(Cell::into_inner);
    Ok(vec![
        Row::new(NAME, "tokio, ours: fibers", [fibers, theirs], "ns/sleep", Bar::Times(1.5)),
        Row::new(NAME, "tokio, ours: futures", [futures, theirs], "ns/sleep", Bar::Times(1.0)),
        Row::new(NAME, "tokio, CPU, ours: fibers", [cpu_fibers, cpu_theirs], "ns/sleep", Bar::Open),
        Row::new(NAME, "tokio, CPU, ours: futures", [cpu_futures, cpu_theirs], "ns/sleep", Bar::Open),
    ])
}
