//! Act 4: how fast tasks are forked, spawned and sent messages.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use bursar::{TaskError, channel, checkpoint, join, nursery};
use serde::Serialize;

use super::stage::{Stage, grouped};

#[derive(Debug, Serialize)]
pub(crate) struct Throughput {
    pub(crate) join: Rate,
    pub(crate) spawn: Rate,
    pub(crate) message: Rate,
}

/// How often something was done, and what one of it took: in wall-clock time, with all workers at it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Rate {
    pub(crate) count: u64,
    pub(crate) ns_each: f64,
}

const FIB: u32 = 25;
const SPAWNS_AT_ONCE: u64 = 100_000;
const STAGES: u64 = 4;
const CAPACITY: usize = 1024;
const BATCH: u64 = 200_000;

pub(crate) fn act(stage: &Stage<'_>) -> Result<Option<Throughput>, TaskError> {
    let about =
        format!("Fork-join, spawning, and a pipeline of {STAGES} tasks with channels of {CAPACITY} between them.");
    if !stage.announce(4, "How fast", &about) {
        return Ok(None);
    }
    let length = stage.length.mul_f64(0.11);
    let Some(join) = measure(stage, "fork-join", "joins", length, |count| {
        count.fetch_add(fib(FIB).1, Relaxed);
        Ok(())
    })?
    else {
        return Ok(None);
    };
    let Some(spawn) = measure(stage, "spawn", "tasks", length, spawn_many)? else {
        return Ok(None);
    };
    let Some(message) = measure(stage, "channels", "messages", length, pipeline)? else {
        return Ok(None);
    };
    Ok(Some(Throughput { join, spawn, message }))
}

/// Repeats `round`, which counts what it does, until time is up.
fn measure(
    stage: &Stage<'_>,
    name: &str,
    unit: &str,
    length: Duration,
    round: impl Fn(&AtomicU64) -> Result<(), TaskError> + Sync,
) -> Result<Option<Rate>, TaskError> {
    let count = AtomicU64::new(0);
    let begun = Instant::now();
    let bar = stage.show.bar(&format!("    {name:<10} {{bar:24.cyan}} {{msg}}"), length.as_millis() as u64);
    let work = || {
        while begun.elapsed() < length {
            round(&count)?;
            checkpoint();
        }
        Ok(begun.elapsed())
    };
    let outcome = stage.play(work, || {
        let done = count.load(Relaxed);
        let passed = begun.elapsed();
        let rate = done as f64 / passed.as_secs_f64() / 1e6;
        bar.set(passed.as_millis() as u64, || format!("{:>11} {unit}, {rate:.1} million a second", grouped(done)));
    });
    drop(bar);
    let Some(took) = stage.unless_stopped(outcome)? else {
        return Ok(None);
    };
    let count = count.into_inner();
    let ns_each = took.as_nanos() as f64 / count.max(1) as f64;
    stage.conclude(format!("{name:<10} {:>11} {unit:<8} {ns_each:>6.1} ns each", grouped(count)));
    Ok(Some(Rate { count, ns_each }))
}

/// The number, and how many joins it took.
fn fib(n: u32) -> (u64, u64) {
    if n < 2 {
        return (n.into(), 0);
    }
    let ((a, joins), (b, more)) = join(|| fib(n - 1), || fib(n - 2));
    (a + b, joins + more + 1)
}

fn spawn_many(count: &AtomicU64) -> Result<(), TaskError> {
    nursery(|n| {
        for _ in 0..SPAWNS_AT_ONCE {
            n.spawn(|| {});
        }
        Ok(())
    })?;
    count.fetch_add(SPAWNS_AT_ONCE, Relaxed);
    Ok(())
}

/// Numbers run through tasks that each add one. Counts every passage through a channel.
fn pipeline(count: &AtomicU64) -> Result<(), TaskError> {
    let sum = nursery(|n| {
        let (source, mut end) = channel(CAPACITY);
        for _ in 1..STAGES {
            let (tx, next) = channel(CAPACITY);
            let rx = std::mem::replace(&mut end, next);
            n.try_spawn(move || {
                for value in rx {
                    tx.send(value + 1)?;
                }
                Ok(())
            });
        }
        n.try_spawn(move || {
            for value in 0..BATCH {
                source.send(value)?;
            }
            Ok(())
        });
        Ok(end.iter().sum::<u64>())
    })?;
    count.fetch_add(BATCH * STAGES, Relaxed);
    let expected = BATCH * (BATCH - 1) / 2 + BATCH * (STAGES - 1);
    if sum != expected {
        return Err(TaskError::msg(format!("the pipeline summed to {sum} instead of {expected}; please report this")));
    }
    Ok(())
}
