//! Tasks that borrow nothing, in a nursery that no block waits for.
//!
//! Room: mechanism.
//!
//! # Invariant
//! The nursery's memory is there until its last task was counted as ended.
//!
//! # Why it holds
//! The nursery is in an `Arc` that a list holds until `Group::end` has waited for every task: that of its runtime, which is never freed, or that of the strand that opened it, which ends it before the
//! task on the strand has ended. A handle that is given out keeps the nursery as well: see [`joinable`].

use std::sync::Arc;

use super::{handle::Handle, task};
use crate::error::TaskError;
use crate::kernel::{
    nursery::NurseryCore,
    task::{Identity, RunnableRef},
};

/// Spawns a closure; it is counted already. Its result is not read.
pub(crate) fn spawn(core: &Arc<NurseryCore>, body: impl FnOnce() + Send + 'static, identity: Identity) -> RunnableRef {
    let closure = move || {
        body();
        Ok(())
    };
    // SAFETY: the closure borrows nothing, and by the invariant the nursery does not end before the task, which is counted.
    let (runnable, handle) = unsafe { task::create(core, closure, identity) };
    drop(handle);
    runnable
}

/// The same; its result is read by the handle.
///
/// The caller keeps `core` as long as the handle, and asks the handle neither for the state of the task nor whether it is exhausted: that looks at nurseries further out, which may be gone.
#[inline]
pub(crate) fn joinable<F, T>(core: &Arc<NurseryCore>, body: F, identity: Identity) -> (RunnableRef, Handle<T>)
where
    F: FnOnce() -> Result<T, TaskError> + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: as in `spawn`.
    unsafe { task::create(core, body, identity) }
}
