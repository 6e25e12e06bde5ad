//! Threads for closures that block a thread, so that workers need not.
//!
//! Room: driver. Knows threads; knows nothing of tasks.
//!
//! # Invariant
//! A job that was submitted is run once, unless it is taken back first. There are never more threads than allowed, and none stands idle for
//! longer than [`IDLE_TIMEOUT`].
//!
//! # Why it holds
//! One lock covers the queue and the counts. A caller that submits finds an idle thread for every queued job, or starts another, or all are busy: then
//! each looks at the queue before it rests. An idle thread that gave up waiting left under the lock, having seen the queue empty.

use std::{
    collections::VecDeque,
    io,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long a thread waits for another job.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

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
        mech_sync::tally::lock(&self.state)
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
        std::thread::Builder::new().name(thread_name(name)).stack_size(STACK_BYTES).spawn(job).map(drop)
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

    /// Takes back a job that no thread has begun.
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
            let (woken, waited) =
                self.submitted.wait_timeout(state, IDLE_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
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

/// A name that the system takes for a thread: without a zero byte.
pub(crate) fn thread_name(name: &str) -> String {
    name.replace('\0', "?")
}
