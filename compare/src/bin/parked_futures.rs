//! Parks futures: bare, all pending on one gate; and waiting for something of the library, as users write them. `parked_futures SIDE COUNT` prints
//! `<resident bytes> <mappings>`.
//!
//! Not for people: the workload `park-futures` starts it. A program of its own, so that nothing else ever ran in it.

#[path = "../parked.rs"]
mod parked;
#[path = "../resident.rs"]
mod resident;

use std::env;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use parked::Parked;
use resident::resident_bytes;

type Failure = Box<dyn Error>;

/// What all futures wait for.
struct Gate {
    /// `None` once the gate is open.
    waiting: Mutex<Option<Vec<Waker>>>,
    begun: AtomicUsize,
    finished: AtomicUsize,
}

impl Gate {
    fn for_wakers(count: usize) -> Arc<Self> {
        let mut wakers = vec![Waker::noop().clone(); count];
        wakers.clear();
        Arc::new(Self { waiting: Mutex::new(Some(wakers)), begun: AtomicUsize::new(0), finished: AtomicUsize::new(0) })
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

    /// One more waits for something else than this gate.
    fn count(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    fn count_end(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
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

    pub fn park_waiting(gate: &Arc<Gate>, count: usize) -> Result<Parked, Failure> {
        let runtime = Runtime::builder().workers(2).build()?;
        runtime.run(|| nursery(|n| n.spawn_async(async {}).join()))??;

        let before = resident_bytes()?;
        let mut parked = None;
        runtime.run(|| {
            let (tx, rx) = channel::<u32>(4);
            nursery(|n| {
                for _ in 0..count {
                    let (rx, gate) = (rx.clone(), &**gate);
                    n.spawn_async(async move {
                        gate.count();
                        let _closed = rx.recv_async().await;
                        gate.count_end();
                    });
                }
                while gate.begun() < count {
                    yield_now();
                }
                parked = Parked::since(before).ok();
                drop(tx);
                Ok(())
            })
        })??;
        parked.ok_or_else(|| "cannot read /proc/self".into())
    }
}

mod with_tokio {
    use super::*;

    fn tokio_with_two() -> Result<tokio::runtime::Runtime, Failure> {
        Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?)
    }

    fn on_a_worker<T: Send + 'static>(
        runtime: &tokio::runtime::Runtime,
        root: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        Ok(runtime.block_on(runtime.spawn(root))?)
    }

    pub fn park(gate: &Arc<Gate>, count: usize) -> Result<Parked, Failure> {
        let runtime = tokio_with_two()?;
        on_a_worker(&runtime, async { tokio::spawn(async {}).await.is_ok() })?;

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
        on_a_worker(&runtime, root)?.ok_or_else(|| "cannot read /proc/self".into())
    }

    pub fn park_waiting(gate: &Arc<Gate>, count: usize) -> Result<Parked, Failure> {
        let runtime = tokio_with_two()?;
        on_a_worker(&runtime, async { tokio::spawn(async {}).await.is_ok() })?;

        let before = resident_bytes()?;
        let gate = gate.clone();
        let root = async move {
            let notify = Arc::new(tokio::sync::Notify::new());
            for _ in 0..count {
                let (notify, gate) = (notify.clone(), gate.clone());
                tokio::spawn(async move {
                    gate.count();
                    notify.notified().await;
                    gate.count_end();
                });
            }
            while gate.begun() < count {
                tokio::task::yield_now().await;
            }
            let parked = Parked::since(before).ok();
            while gate.finished() < count {
                notify.notify_waiters();
                tokio::task::yield_now().await;
            }
            parked
        };
        on_a_worker(&runtime, root)?.ok_or_else(|| "cannot read /proc/self".into())
    }
}

/// One side.
fn child(side: &str, count: usize) -> Result<Parked, Failure> {
    let gate = Gate::for_wakers(count);
    let parked = match side {
        "ours" => ours::park(&gate, count)?,
        "tokio" => with_tokio::park(&gate, count)?,
        "ours-waiting" => ours::park_waiting(&gate, count)?,
        "tokio-waiting" => with_tokio::park_waiting(&gate, count)?,
        _ => return Err(format!("no side is called `{side}`").into()),
    };
    if gate.finished() != count {
        let finished = gate.finished();
        return Err(format!("{count} futures were parked, {finished} finished").into());
    }
    Ok(parked)
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [side, count] = &*args else { return Err("which side, and how many?".into()) };
    println!("{}", child(side, count.parse()?)?);
    Ok(())
}
