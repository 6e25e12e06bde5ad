//! Two tasks on one worker, each of which yields over and over.
//!
//! Bars: 1/3 of may, 1/8 of tokio. A yield through a plain queue costs 5 to 10 ns; the
//! peers pay for a shared queue and its wake-ups on the way.

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "yield";
const TASKS: usize = 2;

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn yields(runtime: &Runtime, each: usize) -> Result<(), Failure> {
        runtime.run(|| {
            nursery(|n| {
                for _ in 0..TASKS {
                    n.spawn(move || {
                        for _ in 0..each {
                            yield_now();
                        }
                    });
                }
                Ok(())
            })
        })??;
        Ok(())
    }
}

mod with_may {
    use super::*;

    pub fn yields(each: usize) {
        may::coroutine::scope(|scope| {
            for _ in 0..TASKS {
                may::go!(scope, move || {
                    for _ in 0..each {
                        may::coroutine::yield_now();
                    }
                });
            }
        });
    }
}

mod with_tokio {
    use super::*;

    pub async fn yields(each: usize) {
        let tasks: [_; TASKS] = std::array::from_fn(|_| {
            tokio::spawn(async move {
                for _ in 0..each {
                    tokio::task::yield_now().await;
                }
            })
        });
        for task in tasks {
            task.await.expect("no task panics");
        }
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let each = plan.pick(500_000, 100_000);
    let runtime = bursar::Runtime::builder().workers(1).build()?;
    // May has one configuration for the process, read at its first use, which is here.
    may::config().set_workers(1);
    let tokio = peers::tokio(1)?;
    let [ours, may, tokio] = plan.best_of(
        TASKS * each,
        [
            Side::new("ours", || ours::yields(&runtime, each)),
            Side::new("may", || {
                with_may::yields(each);
                Ok(())
            }),
            Side::new("tokio", || peers::run_tokio(&tokio, with_tokio::yields(each))),
        ],
    )?;
    Ok(vec![
        Row::new(NAME, "may", [ours, may], "ns/yield", Bar::Part(3)),
        Row::new(NAME, "tokio", [ours, tokio], "ns/yield", Bar::Part(8)),
    ])
}
