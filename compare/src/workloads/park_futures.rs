//! A million futures, all pending on one gate. 2 workers, a process for each side.
//!
//! Bar: not more bytes for a task than tokio. Both sides spawn the same future; the gate's
//! list of wakers is allocated and touched before the measurement, so it counts for neither.
//! Handles are dropped on both sides.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::Failure;
use crate::measure::Plan;
use crate::memory::{Parked, in_child, resident_bytes};
use crate::table::{Bar, Row};
use crate::workloads::peers;

pub const NAME: &str = "park-futures";

/// What all futures wait for.
struct Gate {
    /// `None` once the gate is open.
    waiting: Mutex<Option<Vec<Waker>>>,
    finished: AtomicUsize,
}

impl Gate {
    fn for_wakers(count: usize) -> Arc<Self> {
        let mut wakers = vec![Waker::noop().clone(); count];
        wakers.clear();
        Arc::new(Self { waiting: Mutex::new(Some(wakers)), finished: AtomicUsize::new(0) })
    }

    fn waiting(&self) -> usize {
        self.waiting.lock().expect("no holder panics").as_ref().map_or(0, Vec::len)
    }

    fn finished(&self) -> usize {
        self.finished.load(Ordering::Relaxed)
    }

    fn open(&self) {
        let wakers = self.waiting.lock().expect("no holder panics").take();
        for waker in wakers.into_iter().flatten() {
            waker.wake();
        }
    }
}

/// Passes the gate when it opens.
struct Pass(Arc<Gate>);

impl Future for Pass {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.0.waiting.lock().expect("no holder panics");
        if let Some(wakers) = &mut *waiting {
            wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        self.0.finished.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(())
    }
}

mod ours {
    use super::*;
    use bursar::prelude::*;

    pub fn park(gate: &Arc<Gate>, count: usize) -> Result<Parked, Failure> {
        let runtime = Runtime::builder().workers(2).build()?;
        runtime.run(|| nursery(|n| n.spawn_async(async {}).join()))??;

        let before = resident_bytes()?;
        let mut parked = None;
        runtime.run(|| {
            nursery(|n| {
                for _ in 0..count {
                    n.spawn_async(Pass(gate.clone()));
                }
                while gate.waiting() < count {
                    yield_now();
                }
                parked = Parked::since(before).ok();
                gate.open();
                Ok(())
            })
        })??;
        parked.ok_or_else(|| "cannot read /proc/self".into())
    }
}

mod with_tokio {
    use super::*;

    pub fn park(gate: &Arc<Gate>, count: usize) -> Result<Parked, Failure> {
        let runtime = peers::tokio(2)?;
        peers::run_tokio(&runtime, async { tokio::spawn(async {}).await.is_ok() })?;

        let before = resident_bytes()?;
        let gate = gate.clone();
        let root = async move {
            for _ in 0..count {
                tokio::spawn(Pass(gate.clone()));
            }
            while gate.waiting() < count {
                tokio::task::yield_now().await;
            }
            let parked = Parked::since(before).ok();
            gate.open();
            while gate.finished() < count {
                tokio::task::yield_now().await;
            }
            parked
        };
        peers::run_tokio(&runtime, root)?.ok_or_else(|| "cannot read /proc/self".into())
    }
}

/// One side, in a process of its own.
pub fn child(side: &str, count: usize) -> Result<Parked, Failure> {
    let gate = Gate::for_wakers(count);
    let parked = match side {
        "ours" => ours::park(&gate, count)?,
        "tokio" => with_tokio::park(&gate, count)?,
        _ => return Err(format!("no side is called `{side}`").into()),
    };
    if gate.finished() != count {
        let finished = gate.finished();
        return Err(format!("{count} futures were parked, {finished} finished").into());
    }
    Ok(parked)
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(1_000_000, 200_000);
    let bytes = |side| -> Result<f64, Failure> {
        plan.step(side);
        Ok(in_child(NAME, side, count)?.resident_bytes as f64 / count as f64)
    };
    let both = [bytes("ours")?, bytes("tokio")?];
    Ok(vec![Row::new(NAME, "tokio", both, "B/task", Bar::Times(1.0))])
}
