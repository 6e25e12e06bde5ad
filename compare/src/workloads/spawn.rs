//! Spawn a million empty tasks from one task, and wait for all of them. 2 workers.
//!
//! Two forms, because the peers differ: wait for the scope (ours, rayon), or keep every
//! handle and join one after the other (ours, tokio, async-executor). tokio is compared with
//! both: the first is how the work is done here, the second the same calls on both sides.
//!
//! Bars: 1/5 of tokio, 1.0 × rayon.

use async_executor::Executor;

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "spawn";

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn scoped(runtime: &Runtime, count: usize) -> Result<(), Failure> {
        runtime.run(|| {
            nursery(|n| {
                for _ in 0..count {
                    n.spawn(|| ());
                }
                Ok(())
            })
        })??;
        Ok(())
    }

    pub fn joined(runtime: &Runtime, count: usize) -> Result<(), Failure> {
        runtime.run(|| {
            nursery(|n| {
                let tasks: Vec<_> = (0..count).map(|_| n.spawn(|| ())).collect();
                tasks.into_iter().try_for_each(|task| task.join())
            })
        })??;
        Ok(())
    }
}

mod with_rayon {
    pub fn scoped(pool: &rayon::ThreadPool, count: usize) {
        pool.scope(|scope| {
            for _ in 0..count {
                scope.spawn(|_| ());
            }
        });
    }
}

mod with_tokio {
    pub async fn joined(count: usize) {
        let tasks: Vec<_> = (0..count).map(|_| tokio::spawn(async {})).collect();
        for task in tasks {
            task.await.expect("no task panics");
        }
    }
}

mod with_async_executor {
    use super::*;

    pub static EXECUTOR: Executor<'static> = Executor::new();

    pub async fn joined(count: usize) {
        let tasks: Vec<_> = (0..count).map(|_| EXECUTOR.spawn(async {})).collect();
        for task in tasks {
            task.await;
        }
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(1_000_000, 200_000);
    let runtime = bursar::Runtime::builder().workers(2).build()?;
    let tokio = peers::tokio(2)?;
    let rayon = peers::rayon(2)?;
    let [scoped, joined, tokio, rayon, executor] = plan.best_of(
        count,
        [
            Side::new("ours", || ours::scoped(&runtime, count)),
            Side::new("ours, joined", || ours::joined(&runtime, count)),
            Side::new("tokio", || peers::run_tokio(&tokio, with_tokio::joined(count))),
            Side::new("rayon", || {
                with_rayon::scoped(&rayon, count);
                Ok(())
            }),
            Side::new("async-executor", || {
                let root = with_async_executor::joined(count);
                peers::run_async_executor(&with_async_executor::EXECUTOR, 2, root);
                Ok(())
            }),
        ],
    )?;
    let unit = "ns/task";
    Ok(vec![
        Row::new(NAME, "tokio", [scoped, tokio], unit, Bar::Part(5)),
        Row::new(NAME, "tokio, all handles joined", [joined, tokio], unit, Bar::Part(5)),
        Row::new(NAME, "rayon", [scoped, rayon], unit, Bar::Times(1.0)),
        Row::new(NAME, "async-executor", [joined, executor], unit, Bar::Open),
    ])
}
