//! Threads for closures that block a thread, so that workers need not.
//!
//! # Invariant
//! A job that was submitted is run once, unless it is taken back first. There are never more threads than allowed, and none stands idle for
//! longer than [`PATIENCE`].
//!
//! # Why it holds
//! One lock covers the queue and the counts. Whoever submits finds an idle thread for every queued job, or starts another, or all are busy: then
//! each looks at the queue before it rests. An idle thread that gave up waiting left under the lock, having seen the queue empty.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use crate::{
    confine::Confinement,
    drive::{runtime, shared::Shared},
    panics,
    raw::unblock::run_elsewhere,
    strand::{self, Strand},
};

/// How long a thread waits for another job.
const PATIENCE: Duration = Duration::from_secs(5);

/// As much stack as the system gives to the first thread of a process. Only what is touched is taken from memory.
const STACK_BYTES: usize = 8 << 20;

/// What a thread of the pool runs.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The threads of one runtime that may be blocked.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
    submitted: Condvar,
    threads_max: usize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Entry>,
    next_number: u64,
    threads: usize,
    /// Of these, how many wait for a job.
    idle: usize,
    stopped: bool,
}

/// A job that no thread has begun.
struct Entry {
    number: u64,
    job: Job,
    /// It may run on the stack of a task that waits for it, where there is no thread.
    runs_anywhere: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("queued", &self.queue.len())
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without threads, yet.
    pub(crate) fn new(threads_max: usize) -> Self {
        Self { state: Mutex::default(), submitted: Condvar::new(), threads_max: threads_max.max(1) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a thread run `job`, or runs it here if the system will not give us a single one. The number is for [`Pool::take_back`].
    pub(crate) fn submit(&'static self, job: Job) -> u64 {
        let (number, queued) = self.enqueue(job, true);
        if queued.is_err() {
            self.do_without_thread();
        }
        number
    }

    /// Has a thread run `job`, which must not run here.
    ///
    /// # Errors
    /// If the system does not give us a single thread; then `job` is dropped.
    pub(crate) fn try_submit(&'static self, job: Job) -> io::Result<()> {
        let (number, queued) = self.enqueue(job, false);
        queued.inspect_err(|_| drop(self.take_back(number)))
    }

    /// Has a new thread run `job`, which ends with it and is counted nowhere.
    pub(crate) fn start_apart(&'static self, name: &str, job: Job) -> io::Result<()> {
        std::thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(job).map(drop)
    }

    /// Puts `job` in line. An error if no thread will come to it.
    fn enqueue(&'static self, job: Job, runs_anywhere: bool) -> (u64, io::Result<()>) {
        let mut state = self.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.queue.push_back(Entry { number, job, runs_anywhere });
        if state.idle >= state.queue.len() {
            drop(state);
            self.submitted.notify_one();
        } else if state.threads < self.threads_max {
            state.threads += 1;
            drop(state);
            if let Err(error) = self.start_thread() {
                let mut state = self.lock();
                state.threads -= 1;
                if state.threads == 0 {
                    return (number, Err(error));
                }
            }
        }
        (number, Ok(()))
    }

    fn start_thread(&'static self) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("bursar-thread".into()).stack_size(STACK_BYTES);
        thread.spawn(|| self.work()).map(drop)
    }

    /// Not one thread could be had: what is in line is run here.
    #[cold]
    fn do_without_thread(&self) {
        let mut state = self.lock();
        while state.threads == 0
            && let Some(at) = state.queue.iter().position(|entry| entry.runs_anywhere)
            && let Some(entry) = state.queue.remove(at)
        {
            drop(state);
            (entry.job)();
            state = self.lock();
        }
    }

    /// Takes back a job that nobody has begun.
    pub(crate) fn take_back(&self, number: u64) -> Option<Job> {
        let mut state = self.lock();
        let at = state.queue.binary_search_by_key(&number, |entry| entry.number).ok()?;
        state.queue.remove(at).map(|entry| entry.job)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(entry) = state.queue.pop_front() {
                drop(state);
                (entry.job)(); // catches its own panics
                state = self.lock();
                continue;
            }
            if state.stopped {
                break;
            }
            state.idle += 1;
            let (woken, waited) = self.submitted.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }

    /// Lets the threads go when the queue is empty. Does not wait for them: what they run may take for ever.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.submitted.notify_all();
    }
}

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
    let shared = here();
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

/// The runtime of the caller, or the common one.
pub(crate) fn here() -> &'static Shared {
    strand::with(Strand::runtime)
        .unwrap_or_else(|| runtime::global().unwrap_or_else(|error| panic!("{error}")).shared())
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
