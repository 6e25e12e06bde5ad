//! Tasks that borrow nothing, in a nursery that a value owns.
//!
//! Room: mechanism.
//!
//! # Invariant
//! The nursery's memory is there until its last task was counted as ended.
//!
//! # Why it holds
//! The nursery is in an `Arc` that the list of its runtime holds until `Group::end` has waited for every task. A runtime's list is never freed.

use std::sync::Arc;

use super::task;
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
