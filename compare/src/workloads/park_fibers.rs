//! A million guarded fibers, all blocked on one channel. 2 workers, a process for each side.
//!
//! Bars: 5.5 KiB resident each, 64 memory mappings in all, and they all wake and finish.
//! A fiber that blocks has touched one page of its stack: 4 KiB. The rest is for us.
//!
//! May maps every stack and its guard separately and dies near 32,000 fibers, at the
//! kernel's limit of 65,530 mappings; it is measured below that, for orientation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::Failure;
use crate::measure::Plan;
use crate::memory::{Parked, in_child, resident_bytes};
use crate::table::{Bar, LIMIT, Row};

pub const NAME: &str = "park-fibers";
const MAY_FIBERS: usize = 20_000;
const RESIDENT_KIB_MAX: f64 = 5.5;
const MAPPINGS_MAX: f64 = 64.0;

/// Between counting itself and blocking, the last fiber runs a few more instructions.
fn let_the_last_one_block() {
    thread::sleep(Duration::from_millis(50));
}

fn all_finished(finished: &AtomicUsize, count: usize) -> Result<(), Failure> {
    match finished.load(Ordering::Relaxed) {
        ended if ended == count => Ok(()),
        ended => Err(format!("{count} fibers were parked, {ended} finished").into()),
    }
}

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn park(count: usize) -> Result<Parked, Failure> {
        let runtime = Runtime::builder().workers(2).build()?;
        runtime.run(|| nursery(|n| n.spawn(|| ()).join()))??;

        let (blocked, finished) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
        let (sender, receiver) = channel::<()>(1);
        let receiver = &receiver;
        let before = resident_bytes()?;
        let mut parked = None;
        runtime.run(|| {
            nursery(|n| {
                for _ in 0..count {
                    n.spawn(move || {
                        blocked.fetch_add(1, Ordering::Relaxed);
                        // The sender is dropped and nothing was sent: that is the wake-up.
                        assert!(receiver.recv().is_err());
                        finished.fetch_add(1, Ordering::Relaxed);
                    });
                }
                while blocked.load(Ordering::Relaxed) < count {
                    yield_now();
                }
                let_the_last_one_block();
                parked = Parked::since(before).ok();
                drop(sender);
                Ok(())
            })
        })??;
        all_finished(finished, count)?;
        parked.ok_or_else(|| "cannot read /proc/self".into())
    }
}

mod with_may {
    use super::*;
    use may::sync::Semphore;

    pub fn park(count: usize) -> Result<Parked, Failure> {
        may::config().set_workers(2);
        may::coroutine::scope(|scope| {
            may::go!(scope, || ());
        });

        let (blocked, finished) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
        let gate = &Semphore::new(0);
        let before = resident_bytes()?;
        let parked = may::coroutine::scope(|scope| {
            for _ in 0..count {
                may::go!(scope, move || {
                    blocked.fetch_add(1, Ordering::Relaxed);
                    gate.wait();
                    finished.fetch_add(1, Ordering::Relaxed);
                });
            }
            while blocked.load(Ordering::Relaxed) < count {
                thread::yield_now();
            }
            let_the_last_one_block();
            let parked = Parked::since(before);
            for _ in 0..count {
                gate.post();
            }
            parked
        })?;
        all_finished(finished, count)?;
        Ok(parked)
    }
}

/// One side, in a process of its own.
pub fn child(side: &str, count: usize) -> Result<Parked, Failure> {
    match side {
        "ours" => ours::park(count),
        "may" => with_may::park(count),
        _ => Err(format!("no side is called `{side}`").into()),
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(1_000_000, 100_000);
    plan.step("ours");
    let ours = in_child(NAME, "ours", count)?;
    plan.step("may");
    let may = in_child(NAME, "may", MAY_FIBERS)?;
    let kib = |parked: Parked, count| parked.resident_bytes as f64 / 1024.0 / count as f64;
    let (ours_kib, may_kib) = (kib(ours, count), kib(may, MAY_FIBERS));
    let mappings = [ours.mappings as f64, MAPPINGS_MAX];
    Ok(vec![
        Row::new(NAME, LIMIT, [ours_kib, RESIDENT_KIB_MAX], "KiB/fiber", Bar::AtMost),
        Row::new(NAME, LIMIT, mappings, "mappings", Bar::AtMost),
        Row::new(NAME, "may, 20000 fibers", [ours_kib, may_kib], "KiB/fiber", Bar::Open),
    ])
}
