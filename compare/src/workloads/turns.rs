//! 100 tasks that one task spawns at once, each with turns of 20 µs until a second is over. 2 workers.
//!
//! The figure is how many turns the task with most had, over the one with least: 1 is exactly fair.
//!
//! Bar: 1.5, of fibers and of futures. Started fibers stay on their worker, so tasks must be spread before they start.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::measure::Plan;
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::peers;

pub const NAME: &str = "turns";
const TASKS: usize = 100;
const TURN: Duration = Duration::from_micros(20);
const UNFAIR_MAX: f64 = 1.5;

/// What the tasks count, and when they stop.
struct Round {
    turns: Vec<AtomicU64>,
    over: AtomicBool,
    until: Instant,
}

impl Round {
    fn new(time: Duration) -> Self {
        let turns = (0..TASKS).map(|_| AtomicU64::new(0)).collect();
        Self { turns, over: AtomicBool::new(false), until: Instant::now() + time }
    }

    /// Computes for one turn of `task`. False if the time is over.
    fn turn(&self, task: usize) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < TURN {
            std::hint::spin_loop();
        }
        self.turns[task].fetch_add(1, Relaxed);
        if begun > self.until {
            self.over.store(true, Relaxed);
        }
        !self.over.load(Relaxed)
    }

    fn most_over_least(&self) -> f64 {
        let turns = || self.turns.iter().map(|turns| turns.load(Relaxed) as f64);
        turns().fold(0.0, f64::max) / turns().fold(f64::INFINITY, f64::min).max(1.0)
    }
}

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn fibers(runtime: &Runtime, round: &Round) -> Result<(), Failure> {
        runtime.run(|| {
            nursery(|n| {
                for task in 0..TASKS {
                    n.spawn(move || {
                        while round.turn(task) {
                            yield_now();
                        }
                    });
                }
                Ok(())
            })
        })??;
        Ok(())
    }

    pub fn futures(runtime: &Runtime, round: &Round) -> Result<(), Failure> {
        runtime.run(|| {
            nursery(|n| {
                for task in 0..TASKS {
                    n.spawn_async(async move {
                        while round.turn(task) {
                            futures_lite::future::yield_now().await;
                        }
                    });
                }
                Ok(())
            })
        })??;
        Ok(())
    }
}

mod with_tokio {
    use super::*;
    use std::sync::Arc;

    pub async fn tasks(round: Arc<Round>) {
        let root = tokio::spawn(async move {
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let round = round.clone();
                    tokio::spawn(async move {
                        while round.turn(task) {
                            tokio::task::yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no task panics");
            }
        });
        root.await.expect("no task panics");
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let time = Duration::from_millis(plan.pick(1_000, 250) as u64);
    let runtime = bursar::Runtime::builder().workers(2).build()?;
    plan.step("fibers");
    let round = Round::new(time);
    ours::fibers(&runtime, &round)?;
    let fibers = round.most_over_least();
    plan.step("futures");
    let round = Round::new(time);
    ours::futures(&runtime, &round)?;
    let futures = round.most_over_least();
    plan.step("tokio");
    let tokio = peers::tokio(2)?;
    let round = std::sync::Arc::new(Round::new(time));
    peers::run_tokio(&tokio, with_tokio::tasks(round.clone()))?;
    let theirs = round.most_over_least();
    let unit = "most/least";
    Ok(vec![
        Row::new(NAME, LIMIT, [fibers, UNFAIR_MAX], unit, Bar::AtMost),
        Row::new(NAME, "bar, futures", [futures, UNFAIR_MAX], unit, Bar::AtMost),
        Row::new(NAME, "tokio", [fibers, theirs], unit, Bar::Open),
    ])
}
