//! Act 3: one task of a tree runs out of stack, in code that checks it. It unwinds; the others are told, clean up and end; the process goes on.

use std::{
    sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use bursar::{
    NurseryOptions, Reason, TaskError, budgeted, channel, checkpoint, is_cancelled, nursery, nursery_with, shield,
    sleep, yield_now,
};
use console::style;
use serde::Serialize;

use super::stage::{Bar, Stage, short};

#[derive(Debug, Serialize)]
pub(crate) struct Cancelled {
    /// What the nursery returned, and what it attached.
    pub(crate) error: String,
    pub(crate) others: Vec<String>,
    /// Tasks that were cancelled; each of them ran its destructors.
    pub(crate) cancelled: u64,
    /// From the overflow to the end of the last task.
    pub(crate) ended_after_ms: f64,
    pub(crate) deadline_ms: f64,
    /// When the tree with the deadline ended, counted from its start.
    pub(crate) deadline_ended_after_ms: f64,
}

/// The tree, as it is drawn.
const ROWS: [(&str, &str); 9] = [
    ("release", "a nursery"),
    ("├─ build", "a nursery inside"),
    ("│  ├─ compile", "computes, with checkpoints"),
    ("│  └─ link", "recurses without end, and checks its stack"),
    ("├─ upload", "flushes under a shield, then fails too"),
    ("├─ watch", "a future, waiting for a message"),
    ("└─ test", "a nursery inside"),
    ("   ├─ unit", "sleeps"),
    ("   └─ browser", "blocked on a channel, for ever"),
];

/// Names for the places in [`ROWS`].
#[derive(Debug, Clone, Copy)]
enum Row {
    Release,
    Build,
    Compile,
    Link,
    Upload,
    Watch,
    Test,
    Unit,
    Browser,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Fate {
    Runs,
    Overflowed,
    Failed,
    /// It had the failing task inside, and handed the error up.
    HandedUp,
    Cancelled,
}

/// What became of each task.
struct Fates {
    fates: [AtomicU8; 9],
    begun: Instant,
    /// When the failing task failed, in nanoseconds since `begun`.
    failed_at: AtomicU64,
    cancelled: AtomicU64,
}

impl Fates {
    fn set(&self, row: Row, fate: Fate) {
        self.fates[row as usize].store(fate as u8, Relaxed);
    }

    fn get(&self, row: usize) -> Fate {
        match self.fates[row].load(Relaxed) {
            0 => Fate::Runs,
            1 => Fate::Overflowed,
            2 => Fate::Failed,
            3 => Fate::HandedUp,
            _ => Fate::Cancelled,
        }
    }
}

/// What a task holds and gives back. Dropped by unwinding, it knows that the task was cancelled.
struct Held<'a> {
    fates: &'a Fates,
    row: Row,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.fates.get(self.row as usize) == Fate::Runs {
            self.fates.set(self.row, Fate::Cancelled);
            self.fates.cancelled.fetch_add(1, Relaxed);
        }
    }
}

pub(crate) fn act(stage: &Stage<'_>) -> Result<Option<Cancelled>, TaskError> {
    let about = "Siblings are cancelled where they stand, destructors run, and both errors come up.";
    if !stage.announce(3, "One task of a tree runs out of stack", about) {
        return Ok(None);
    }
    let fates = Fates {
        fates: [const { AtomicU8::new(0) }; 9],
        begun: Instant::now(),
        failed_at: AtomicU64::new(0),
        cancelled: AtomicU64::new(0),
    };
    let patience = stage.length.mul_f64(0.12);
    let bars = ROWS.map(|(name, _)| stage.show.bar(&format!("    {name:<16} {{msg}}"), 1));
    let mut ended = Duration::ZERO;
    let outcome = stage.play(
        || {
            let outcome = release(&fates, patience);
            ended = fates.begun.elapsed();
            // Time to look at it; no longer than a person needs.
            sleep(patience.min(Duration::from_millis(1500)));
            outcome
        },
        || bars.iter().enumerate().for_each(|(row, bar)| draw(bar, &fates, row)),
    );
    drop(bars);
    let error = match outcome {
        Err(error) if matches!(error.reason(), Reason::StackOverflow { .. }) => error,
        outcome => {
            // Only Ctrl-C may have been quicker.
            stage.unless_stopped(outcome)?;
            return Ok(None);
        }
    };
    let ended_after = ended.saturating_sub(Duration::from_nanos(fates.failed_at.load(Relaxed)));
    for (row, (name, _)) in ROWS.iter().enumerate() {
        stage.show.say(format!("    {name:<16} {}", fate_of(&fates, row)));
    }
    stage.conclude(format!("{} {}", style("error:").red().bold(), first_of(&error)));
    for other in error.others() {
        stage.show.say(format!("      {} {other}", style("and:").red()));
    }
    stage.conclude(format!("the whole tree had ended {} after that; the process goes on", short(ended_after)));

    let Some(deadline) = deadline(stage)? else {
        return Ok(None);
    };
    Ok(Some(Cancelled {
        error: first_of(&error),
        others: error.others().iter().map(ToString::to_string).collect(),
        cancelled: fates.cancelled.load(Relaxed),
        ended_after_ms: ended_after.as_secs_f64() * 1e3,
        deadline_ms: DEADLINE.as_secs_f64() * 1e3,
        deadline_ended_after_ms: deadline.as_secs_f64() * 1e3,
    }))
}

/// The error without the others that are attached to it.
fn first_of(error: &TaskError) -> String {
    match error.task() {
        Some(task) => format!("{task} {}", error.reason()),
        None => error.reason().to_string(),
    }
}

fn fate_of(fates: &Fates, row: usize) -> String {
    match fates.get(row) {
        Fate::Runs => format!("{}", style(ROWS[row].1).dim()),
        Fate::Overflowed => format!("{}", style("ran out of stack, and unwound").red().bold()),
        Fate::Failed => format!("{}", style("failed after its flush was done").red()),
        Fate::HandedUp => format!("{}", style("waited for all inside, and hands the error up").red()),
        Fate::Cancelled => format!("{}", style("cancelled; its destructors ran").yellow()),
    }
}

fn draw(bar: &Bar, fates: &Fates, row: usize) {
    bar.set(0, || fate_of(fates, row));
}

fn release(fates: &Fates, patience: Duration) -> Result<(), TaskError> {
    let (_never, news) = channel::<()>(1);
    let (news, hold) = (&news, |row| Held { fates, row });
    let outcome = nursery_with(NurseryOptions::new().name("release"), |n| {
        n.task().name("build").try_spawn(|| build(fates, patience));
        n.task().name("upload").try_spawn(|| {
            let held = hold(Row::Upload);
            // What must not be cut short stands under a shield.
            shield(|| {
                while !is_cancelled() {
                    sleep(Duration::from_millis(1));
                }
            });
            held.fates.set(Row::Upload, Fate::Failed);
            Err::<(), _>(TaskError::msg("the far side hung up during the last flush"))
        });
        n.task().name("watch").spawn_async(async move {
            let _held = Held { fates, row: Row::Watch };
            news.recv_async().await
        });
        n.task().name("test").try_spawn(|| {
            let _test = hold(Row::Test);
            nursery(|n| {
                n.task().name("unit").spawn(|| {
                    let _held = hold(Row::Unit);
                    sleep(Duration::from_secs(3600));
                });
                n.task().name("browser").spawn(|| {
                    let _held = hold(Row::Browser);
                    news.recv()
                });
                Ok(())
            })
        });
        Ok(())
    });
    fates.set(Row::Release, Fate::HandedUp);
    outcome
}

fn build(fates: &Fates, patience: Duration) -> Result<(), TaskError> {
    let outcome = nursery(|n| {
        n.task().name("compile").spawn(|| {
            let _held = Held { fates, row: Row::Compile };
            loop {
                std::hint::black_box((0..10_000_u64).fold(1, |a, b| a ^ b.wrapping_mul(a)));
                checkpoint();
                yield_now();
            }
        });
        n.task().name("link").spawn(|| {
            sleep(patience);
            fates.set(Row::Link, Fate::Overflowed);
            fates.failed_at.store(fates.begun.elapsed().as_nanos() as u64, Relaxed);
            descend(1)
        });
        Ok(())
    });
    fates.set(Row::Build, Fate::HandedUp);
    outcome
}

/// No stack is deep enough for this. Each call checks how much is left.
#[budgeted]
fn descend(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 32]);
    if std::hint::black_box(depth) == 0 { 0 } else { frame[7] + descend(depth + 1) + frame[9] }
}

const DEADLINE: Duration = Duration::from_millis(100);
const DEPTH: u32 = 10;

/// A tree as deep as this, blocked at the bottom, that has so much time and no more.
fn deadline(stage: &Stage<'_>) -> Result<Option<Duration>, TaskError> {
    fn nested(depth: u32, news: &bursar::Receiver<()>) -> Result<(), TaskError> {
        match depth {
            0 => Ok(news.recv()?),
            _ => nursery(|n| n.try_spawn(|| nested(depth - 1, news)).join()),
        }
    }
    let (_never, news) = channel::<()>(1);
    let begun = Instant::now();
    let work =
        || nursery_with(NurseryOptions::new().deadline(DEADLINE), |n| n.try_spawn(|| nested(DEPTH, &news)).join());
    let outcome = stage.play(work, || {});
    let took = begun.elapsed();
    match outcome {
        Err(error) if matches!(error.reason(), Reason::DeadlineExceeded { .. }) => {
            stage.conclude(format!(
                "{DEPTH} nurseries deep, blocked at the bottom, a deadline of {}: over after {}",
                short(DEADLINE),
                short(took)
            ));
            Ok(Some(took))
        }
        outcome => stage.unless_stopped(outcome.map(|()| took)),
    }
}
