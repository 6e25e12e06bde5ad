//! Blocking closures, called from tasks: they run on threads of the pool.
//!
//! Room: interface.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use crate::{confine::Confinement, drive::runtime, raw::unblock::run_elsewhere, strand, strand::panics};

/// Every closure that is to run on another thread begins here, files among them: the one function that charges the task
/// for it.
#[inline]
fn charge() {
    strand::with(|strand| {
        strand.charge_syscall();
        strand.turn.count();
    });
}

/// Runs a closure that blocks its thread, such as file I/O or a call into C, on a thread of its own, while only the
/// caller's task waits.
///
/// The closure may borrow. Therefore the caller does not continue before it has run, even if it is cancelled meanwhile:
/// once begun it is shielded. A caller that is cancelled while all threads are busy takes its closure back and unwinds.
/// A panic of the closure continues in the caller.
///
/// The closure acts as the task: it spends the task's budget, and may open nurseries and channels by its capabilities.
///
/// On a plain thread this is a call. See [`Builder::blocking_threads`](crate::Builder::blocking_threads) for the limit
/// at one time.
///
/// ```
/// use bursar::{run, unblock};
///
/// let manifest = String::from("Cargo.toml");
/// let bytes = run(|| unblock(|| std::fs::read(&manifest)))?.expect("tests run where the manifest is");
/// assert!(bytes.starts_with(b"[package]"));
/// # Ok::<(), bursar::RunError>(())
/// ```
pub fn unblock<F, T>(closure: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    charge();
    strand::with(|strand| {
        strand.checkpoint();
        let Some(worker) = &strand.worker else {
            return closure();
        };
        if worker.shared.seeded.is_some() {
            return closure(); // its own thread would be a second source of randomness
        }
        match run_elsewhere(strand, &worker.shared.pool, closure) {
            Some(Ok(value)) => value,
            Some(Err(payload)) => strand::current().rethrow(payload),
            None => strand.unwind(),
        }
    })
}

/// The same for futures: the closure starts at once, and the future gives its result, or its panic.
///
/// Dropping the future does not stop the closure, which may outlive the task. So it has the task's capabilities, but
/// nothing of its budget: in a task that has one, everything that costs something there, a nursery or a channel
/// operation, fails. For work that the task pays for, use [`unblock`].
///
/// ```
/// use bursar::{block_on, unblock_async};
///
/// let name = block_on(async { unblock_async(|| std::fs::canonicalize(".")).await });
/// assert!(name.unwrap().is_absolute());
/// ```
pub fn unblock_async<F, T>(closure: F) -> Unblock<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    charge();
    let slot = Arc::new(Mutex::new(ResultSlot { outcome: None, waker: None, given: false }));
    let there = slot.clone();
    let shared = runtime::here();
    let confinement = Confinement::here();
    let job = move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| match confinement {
            None => closure(),
            Some(confinement) => confinement.enter(closure),
        }));
        let waker = {
            let mut slot = there.lock().unwrap_or_else(PoisonError::into_inner);
            slot.outcome = Some(outcome);
            slot.waker.take()
        };
        // If the future was dropped, this drops the outcome; a panicking destructor is then reported by the panic hook
        // only.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(there)));
        if let Some(waker) = waker {
            catch_unwind(AssertUnwindSafe(|| waker.wake())).unwrap_or_else(panics::discard);
        }
    };
    match shared.seeded {
        None => drop(shared.pool.submit(Box::new(job))),
        Some(_) => job(),
    }
    Unblock(slot)
}

struct ResultSlot<T> {
    outcome: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
    /// The outcome was there, and was taken.
    given: bool,
}

/// A closure that runs on a thread of its own; made by [`unblock_async`].
#[must_use = "the closure runs anyway, but its result and its panic are lost"]
pub struct Unblock<T>(Arc<Mutex<ResultSlot<T>>>);

impl<T> Future for Unblock<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        let fresh = cx.waker().clone();
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = slot.outcome.take();
        if outcome.is_none() && slot.given {
            drop(slot);
            panic!("`unblock_async` was polled after it had given its result");
        }
        slot.given = outcome.is_some();
        match outcome {
            Some(Ok(value)) => {
                strand.turn.count();
                Poll::Ready(value)
            }
            Some(Err(payload)) => {
                drop(slot);
                strand::current().rethrow(payload)
            }
            None => {
                let kept = slot.waker.replace(fresh);
                drop(slot);
                drop(kept); // outside the lock: dropping a waker may run foreign code
                Poll::Pending
            }
        }
    }
}

impl<T> std::fmt::Debug for Unblock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unblock").finish_non_exhaustive()
    }
}
