//! Closures that block a thread, called from tasks: on threads of the pool.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use crate::{confine::Confinement, drive::runtime, raw::unblock::run_elsewhere, strand, strand::panics};

/// Every closure that is to run on another thread begins here, files among them: the one place to charge the task for it.
#[inline]
fn charge() {
    strand::with(|strand| {
        strand.charge_syscall();
        strand.turn.count();
    });
}

/// Runs a closure that blocks its thread, such as file I/O or a call into C, on a thread of its own, while only the caller's task waits.
///
/// The closure may borrow. Therefore the caller does not go on before it has run, even if it is cancelled meanwhile: once begun it is shielded. A
/// caller that is cancelled while all threads are busy takes its closure back and unwinds. A panic of the closure goes on in the caller.
///
/// What the closure does it does as the task: it spends the task's budget, and may open nurseries and channels by its capabilities.
///
/// On a plain thread this is a call. See [`Builder::blocking_threads`](crate::Builder::blocking_threads) for how many may run at one time.
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
            return closure(); // its own thread would be a second source of chance
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
/// Dropping the future does not stop the closure, which may outlive the task. So it has the task's capabilities, but nothing of its budget: in a task that has one, whatever
/// has a price there, a nursery or a channel operation, fails. What is to be paid by the task belongs into [`unblock`].
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
    let meeting = Arc::new(Mutex::new(Meeting { outcome: None, waker: None, given: false }));
    let there = meeting.clone();
    let shared = runtime::here();
    let confinement = Confinement::here();
    let job = move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| match confinement {
            None => closure(),
            Some(confinement) => confinement.enter(closure),
        }));
        let waker = {
            let mut meeting = there.lock().unwrap_or_else(PoisonError::into_inner);
            meeting.outcome = Some(outcome);
            meeting.waker.take()
        };
        // If nobody awaits it, this drops the outcome; a destructor that panics then has nobody to tell but the panic hook.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(there)));
        if let Some(waker) = waker {
            catch_unwind(AssertUnwindSafe(|| waker.wake())).unwrap_or_else(panics::discard);
        }
    };
    match shared.seeded {
        None => drop(shared.pool.submit(Box::new(job))),
        Some(_) => job(),
    }
    Unblock(meeting)
}

struct Meeting<T> {
    outcome: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
    /// The outcome was there, and somebody has it.
    given: bool,
}

/// A closure that runs on a thread of its own; made by [`unblock_async`].
#[must_use = "the closure runs anyway, but its result and its panic are lost"]
pub struct Unblock<T>(Arc<Mutex<Meeting<T>>>);

impl<T> Future for Unblock<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        let fresh = cx.waker().clone();
        let mut meeting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = meeting.outcome.take();
        if outcome.is_none() && meeting.given {
            drop(meeting);
            panic!("`unblock_async` was polled after it had given its result");
        }
        meeting.given = outcome.is_some();
        match outcome {
            Some(Ok(value)) => {
                strand.turn.count();
                Poll::Ready(value)
            }
            Some(Err(payload)) => {
                drop(meeting);
                strand::current().rethrow(payload)
            }
            None => {
                let kept = meeting.waker.replace(fresh);
                drop(meeting);
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
