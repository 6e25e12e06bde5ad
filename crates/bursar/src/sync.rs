//! Locks and signals that stop the task, not its worker.
//!
//! Room: interface.
//!
//! They work on plain threads too, where they stop the thread, and between threads, fibers and, where they have an `_async` method, futures. A lock of
//! [`std::sync`] held across something that blocks stops a whole worker; one of these does not.
//!
//! ```
//! use bursar::{prelude::*, sync::{Condvar, Mutex}};
//!
//! let (jobs, changed) = (Mutex::new(Vec::new()), Condvar::new());
//! nursery(|n| {
//!     let taker = n.spawn(|| {
//!         let mut jobs = jobs.lock();
//!         changed.wait_while(&mut jobs, |jobs| jobs.is_empty());
//!         jobs.pop()
//!     });
//!     jobs.lock().push("sweep");
//!     changed.notify_one();
//!     assert_eq!(taker.join()?, Some("sweep"));
//!     Ok(())
//! })?;
//! # Ok::<(), TaskError>(())
//! ```

#[doc(inline)]
pub use sched_tasks::{
    AcquireFuture, Condvar, Mutex, MutexGuard, Permit, ReadFuture, RwLock, RwLockReadGuard, RwLockWriteGuard,
    Semaphore, WriteFuture, atomic, broadcast, oneshot, watch,
};
