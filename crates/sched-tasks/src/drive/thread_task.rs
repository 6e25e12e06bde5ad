//! Tasks that have a thread to themselves: a system stack, and they may block it.
//!
//! Room: driver. Knows threads and nurseries; knows nothing of fibers.
//!
//! # Invariant
//! A thread task is run once: by a thread of the pool, or, if its nursery is cancelled before one is free, by a worker, which only drops it.
//!
//! # Why it holds
//! Until it begins, the task lies in [`Queued`], from where it is taken once, under a lock: by the thread, or by the cancellation. The nursery knows of it as of a waiting future:
//! it enlists first and looks at the state after, and a cancellation does it the other way round, so one of the two sees the other.
//!
//! # What it cannot do
//! Threads are limited ([`Builder::blocking_threads`](crate::Builder::blocking_threads)): of more tasks that wait for each other than there are threads, none goes on. A cancellation or
//! a deadline ends that like any other wait. And no checkpoint is inside a system call: a task that blocks there is cancelled when it comes back.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Wake, Waker},
};

use crate::{
    error::{Reason, TaskError},
    kernel::{
        nursery::{Member, NurseryCore},
        shared::Shared,
        task::RunnableRef,
    },
    strand,
    threads::Job,
};

/// A task that no thread has taken yet.
struct Queued {
    task: Mutex<Option<RunnableRef>>,
    shared: &'static Shared,
    nursery: Weak<NurseryCore>,
    /// Its place among the members of the nursery.
    place: AtomicU32,
}

impl Queued {
    fn take(&self) -> Option<RunnableRef> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The same for the thread that runs it: it is no member of the nursery any more.
    fn take_to_run(&self) -> Option<RunnableRef> {
        let task = self.take()?;
        if let Some(nursery) = self.nursery.upgrade() {
            nursery.delist(self.place.load(Relaxed));
        }
        Some(task)
    }
}

/// The nursery was cancelled: a worker drops what the task captured, and its end is counted.
impl Wake for Queued {
    fn wake(self: Arc<Self>) {
        if let Some(task) = self.take() {
            self.shared.inject(&self.shared.injected, task);
        }
    }
}

/// Has a thread run `task`, which was counted in `nursery`. Where a seed decides, it is a fiber like the others: another thread would be a second source of chance.
pub(crate) fn start(nursery: &Arc<NurseryCore>, task: RunnableRef) {
    let pool = &nursery.shared().pool;
    if let Err((error, task)) = start_by(nursery, task, |job| pool.try_submit(job)) {
        strand::with(|strand| task.refuse(Reason::Failed(Arc::new(error)), strand));
    }
}

/// Has a thread of its own run `task`, beside those of the pool.
///
/// # Errors
/// If the system gives none. The task has ended then.
pub(crate) fn start_apart(nursery: &Arc<NurseryCore>, task: RunnableRef, name: &str) -> Result<(), TaskError> {
    let pool = &nursery.shared().pool;
    start_by(nursery, task, |job| pool.start_apart(name, job)).map_err(|(error, task)| {
        let error = Arc::new(error);
        strand::with(|strand| task.refuse(Reason::Failed(error.clone()), strand));
        TaskError::new(Reason::Failed(error), None)
    })
}

/// Has `submit` run `task`; gives it back if that fails.
fn start_by(
    nursery: &Arc<NurseryCore>,
    task: RunnableRef,
    submit: impl FnOnce(Job) -> io::Result<()>,
) -> Result<(), (io::Error, RunnableRef)> {
    let shared = nursery.shared();
    if shared.seeded.is_some() {
        shared.publish(task);
        return Ok(());
    }
    let (task, place) = (Mutex::new(Some(task)), AtomicU32::new(0));
    let queued = Arc::new(Queued { task, shared, nursery: Arc::downgrade(nursery), place });
    let place = nursery.enlist(Member::Queued(Box::new(Waker::from(queued.clone()))));
    queued.place.store(place, Relaxed); // read by the thread, which gets it through the lock of the pool
    if nursery.is_cancelled() {
        // Perhaps before it could know of us.
        queued.wake();
        return Ok(());
    }
    let job = {
        let queued = queued.clone();
        move || {
            if let Some(task) = queued.take_to_run() {
                strand::with(|thread| task.run(thread));
            }
        }
    };
    match submit(Box::new(job)) {
        Err(error) => queued.take_to_run().map_or(Ok(()), |task| Err((error, task))), // else a cancellation has it
        Ok(()) => Ok(()),
    }
}
