//! What tasks can do, in three scenes: `cargo run --release -p bursar --example tour`.
//!
//! A hundred thousand fibers block at once, and are woken. One task of a tree runs out of stack, in code that checks it: it unwinds, the others
//! are cancelled where they stand, and both errors come up. A deep tree has a deadline.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use bursar::{NurseryOptions, budgeted, is_cancelled, nursery_with, prelude::*};

/// How long it took until so many fibers had blocked, and until all of them had ended.
fn park(fibers: u64) -> Result<(Duration, Duration), TaskError> {
    let (gate, at_gate) = channel::<()>(1);
    let blocked = AtomicU64::new(0);
    let begun = Instant::now();
    let (mut parked, mut opened) = (Duration::ZERO, begun);
    nursery(|n| {
        for _ in 0..fibers {
            n.spawn(|| {
                blocked.fetch_add(1, Relaxed);
                let _closed = at_gate.recv(); // nothing is ever sent: the gate opens by being dropped
            });
        }
        while blocked.load(Relaxed) < fibers {
            yield_now();
        }
        (parked, opened) = (begun.elapsed(), Instant::now());
        drop(gate);
        Ok(())
    })?;
    Ok((parked, opened.elapsed()))
}

/// How many tasks took something, and how many gave it back.
#[derive(Default)]
struct Shelf {
    taken: AtomicU64,
    given_back: AtomicU64,
}

impl Shelf {
    fn take(&self) -> Held<'_> {
        self.taken.fetch_add(1, Relaxed);
        Held(self)
    }
}

/// Given back however its task ends.
struct Held<'a>(&'a Shelf);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.given_back.fetch_add(1, Relaxed);
    }
}

/// No stack is deep enough for this. Each call looks how much is left.
#[budgeted]
fn descend(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 32]);
    if std::hint::black_box(depth) == 0 { 0 } else { frame[7] + descend(depth + 1) + frame[9] }
}

/// A release: while `link` overflows, the others compute, wait, sleep and flush.
fn release(shelf: &Shelf) -> Result<(), TaskError> {
    let (_never, news) = channel::<()>(1);
    let news = &news;
    nursery(|n| {
        n.task().name("build").try_spawn(|| {
            nursery(|n| {
                n.task().name("compile").spawn(|| {
                    let _held = shelf.take();
                    loop {
                        checkpoint();
                        yield_now();
                    }
                });
                n.task().name("link").spawn(|| {
                    let _held = shelf.take();
                    while shelf.taken.load(Relaxed) < 5 {
                        yield_now(); // until all have begun
                    }
                    descend(1)
                });
                Ok(())
            })
        });
        n.task().name("watch").spawn_async(async move {
            let _held = shelf.take();
            news.recv_async().await
        });
        n.task().name("test").spawn(|| {
            let _held = shelf.take();
            sleep(Duration::from_secs(3600));
        });
        n.task().name("upload").try_spawn(|| {
            let _held = shelf.take();
            // What must not be cut short stands under a shield.
            shield(|| {
                while !is_cancelled() {
                    sleep(Duration::from_millis(1));
                }
            });
            Err::<(), _>(TaskError::msg("the far side hung up during the last flush"))
        });
        Ok(())
    })
}

/// Nurseries in nurseries, blocked at the bottom.
fn nested(depth: u32, news: &Receiver<()>) -> Result<(), TaskError> {
    match depth {
        0 => Ok(news.recv()?),
        _ => nursery(|n| n.try_spawn(|| nested(depth - 1, news)).join()),
    }
}

const DEADLINE: Duration = Duration::from_millis(100);

/// Why a tree ten nurseries deep ended, and after how long.
fn late() -> (TaskError, Duration) {
    let (_never, news) = channel::<()>(1);
    let begun = Instant::now();
    let options = NurseryOptions::new().timeout(DEADLINE);
    let outcome = nursery_with(options, |n| n.try_spawn(|| nested(10, &news)).join());
    (outcome.expect_err("nothing is ever sent"), begun.elapsed())
}

fn main() -> Result<(), TaskError> {
    const FIBERS: u64 = 100_000;
    let (parked, woken) = park(FIBERS)?;
    println!("{FIBERS} fibers blocked after {parked:.1?}; all of them woke and ended in {woken:.1?}");

    let shelf = Shelf::default();
    let error = release(&shelf).expect_err("one task has no end");
    println!("\n{error}");
    println!("{} tasks held something, {} gave it back", shelf.taken.into_inner(), shelf.given_back.into_inner());

    let (error, after) = late();
    println!("\nten nurseries deep: {error}; over after {after:.1?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use bursar::Reason;

    use super::*;

    #[test]
    fn every_fiber_that_blocked_is_woken() {
        park(1_000).expect("all of them end");
    }

    #[test]
    fn a_task_that_runs_out_of_stack_unwinds_and_so_do_the_others() {
        let shelf = Shelf::default();
        let error = release(&shelf).expect_err("one task has no end");
        assert!(matches!(error.reason(), Reason::StackOverflow { .. }), "{error}");
        assert!(error.others().iter().any(|other| other.to_string().contains("the far side hung up")), "{error}");
        assert_eq!(shelf.given_back.into_inner(), 5);
    }

    #[test]
    fn a_deadline_ends_a_deep_tree() {
        let (error, after) = late();
        assert!(matches!(error.reason(), Reason::DeadlineExceeded { .. }), "{error}");
        assert!(after >= DEADLINE, "{after:?}");
    }
}
