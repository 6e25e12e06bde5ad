//! 100,000 tasks that wait for ever are cancelled: from the cancellation until all of them have ended. 2 workers.
//!
//! Bars: a fiber, whose frames are unwound, 3 µs; a future not longer than in tokio's `JoinSet`.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::measure::Plan;
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::peers;

pub const NAME: &str = "cancel";
const FIBER_MAX_NS: f64 = 3000.0;

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn fibers(runtime: &Runtime, count: usize) -> Result<Duration, Failure> {
        let waiting = AtomicUsize::new(0);
        let (_tx, rx) = channel::<()>(1);
        let mut begun = None;
        let ended = runtime.run(|| {
            nursery(|n| {
                for _ in 0..count {
                    n.spawn(|| {
                        waiting.fetch_add(1, Relaxed);
                        rx.recv()
                    });
                }
                cancel_when(&mut begun, n, || waiting.load(Relaxed) == count)
            })
        })?;
        took(begun, ended)
    }

    pub fn futures(runtime: &Runtime, count: usize) -> Result<Duration, Failure> {
        let waiting = AtomicUsize::new(0);
        let mut begun = None;
        let ended = runtime.run(|| {
            nursery(|n| {
                for _ in 0..count {
                    n.spawn_async(async {
                        waiting.fetch_add(1, Relaxed);
                        pending::<()>().await;
                    });
                }
                cancel_when(&mut begun, n, || waiting.load(Relaxed) == count)
            })
        })?;
        took(begun, ended)
    }

    fn cancel_when(
        begun: &mut Option<Instant>,
        n: &Nursery<'_, '_>,
        all_wait: impl Fn() -> bool,
    ) -> Result<(), TaskError> {
        while !all_wait() {
            yield_now();
        }
        *begun = Some(Instant::now());
        n.cancel();
        Ok(())
    }

    fn took(begun: Option<Instant>, ended: Result<(), TaskError>) -> Result<Duration, Failure> {
        let took = begun.ok_or("no task was cancelled")?.elapsed();
        match ended {
            Err(error) if error.is_cancelled() => Ok(took),
            other => Err(format!("the tasks were to be cancelled: {other:?}").into()),
        }
    }
}

async fn with_tokio(count: usize) -> Duration {
    static WAITING: AtomicUsize = AtomicUsize::new(0);
    WAITING.store(0, Relaxed);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..count {
        tasks.spawn(async {
            WAITING.fetch_add(1, Relaxed);
            pending::<()>().await;
        });
    }
    while WAITING.load(Relaxed) < count {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    tasks.shutdown().await;
    begun.elapsed()
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(100_000, 20_000);
    let runtime = bursar::Runtime::builder().workers(2).build()?;
    let tokio = peers::tokio(2)?;
    let mut best = [f64::INFINITY; 3];
    for round in 0..plan.pick(5, 2) {
        plan.step(&format!("round {}", round + 1));
        let took = [
            ours::fibers(&runtime, count)?,
            ours::futures(&runtime, count)?,
            peers::run_tokio(&tokio, with_tokio(count))?,
        ];
        for (best, took) in best.iter_mut().zip(took) {
            *best = best.min(took.as_secs_f64() * 1e9 / count as f64);
        }
    }
    let [fibers, futures, theirs] = best;
    Ok(vec![
        Row::new(NAME, LIMIT, [fibers, FIBER_MAX_NS], "ns/fiber", Bar::AtMost),
        Row::new(NAME, "tokio JoinSet, ours: futures", [futures, theirs], "ns/task", Bar::Times(1.0)),
    ])
}
