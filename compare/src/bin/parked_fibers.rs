//! Parks fibers, all blocked on one channel: `parked_fibers SIDE COUNT` prints `<resident bytes> <mappings>`.
//!
//! Not for people: the workload `park-fibers` starts it. A program of its own, because each library that a program links takes mappings, too: what other
//! workloads need would be counted.

#[path = "../parked.rs"]
mod parked;
#[path = "../resident.rs"]
mod resident;

use std::env;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parked::Parked;
use resident::resident_bytes;

type Failure = Box<dyn Error>;

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

/// One side.
fn child(side: &str, count: usize) -> Result<Parked, Failure> {
    match side {
        "ours" => ours::park(count),
        "may" => with_may::park(count),
        _ => Err(format!("no side is called `{side}`").into()),
    }
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [side, count] = &*args else { return Err("which side, and how many?".into()) };
    println!("{}", child(side, count.parse()?)?);
    Ok(())
}
