//! An open nursery as its block sees it, and the one place that promises that a task does not outlive what it borrows.
//!
//! Room: mechanism. Knows lifetimes; knows nothing of when and where a task runs.
//!
//! # Invariant
//! A task that is spawned here is counted in its nursery, and `'scope` ends after the nursery has waited for it.
//!
//! # Why it holds
//! A [`Nursery`] is made by `scope::open` alone, which runs the body of the block and then waits for every child before it lets go of it.

use std::{marker::PhantomData, sync::Arc};

use super::{future, handle::Handle, task};
use crate::{
    error::TaskError,
    kernel::{
        nursery::NurseryCore,
        task::{Identity, RunnableRef},
    },
};

/// An open nursery, as its body and its tasks see it.
pub struct Nursery<'scope, 'env: 'scope> {
    core: Arc<NurseryCore>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, 'env> Nursery<'scope, 'env> {
    /// For `scope::open`, which waits for the tasks of `core` before it drops this.
    pub(crate) fn new(core: Arc<NurseryCore>) -> Self {
        Self { core, scope: PhantomData, env: PhantomData }
    }

    pub(crate) fn core(&self) -> &NurseryCore {
        &self.core
    }

    pub(crate) fn shared_core(&self) -> &Arc<NurseryCore> {
        &self.core
    }
}

/// Spawns a closure into a nursery; it is counted already.
#[inline(always)]
pub(crate) fn spawn<'scope, F, T>(
    nursery: &'scope Nursery<'scope, '_>,
    body: F,
    identity: Identity,
) -> (RunnableRef, Handle<T>)
where
    F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
    T: Send + 'scope,
{
    // SAFETY: a `Nursery` exists only while `scope::open` runs its body and waits for the children, and `'scope` ends after that; the child is
    // counted, so that wait covers it.
    unsafe { task::create(nursery.core(), body, identity) }
}

/// A task that ended before it began, because its nursery would not have it.
#[cold]
pub(crate) fn refused<'scope, T>(
    nursery: &'scope Nursery<'scope, '_>,
    identity: Identity,
    error: TaskError,
) -> Handle<T>
where
    T: Send + 'scope,
{
    // SAFETY: as in `spawn`, except that it is not counted: nothing reads its scope, since it has ended.
    unsafe { task::create_ended(nursery.core(), identity, error) }
}

/// The same for a future; `charged`, or one of the runtime's own that is not charged.
pub(crate) fn spawn_async<'scope, F, T>(
    nursery: &'scope Nursery<'scope, '_>,
    body: F,
    identity: Identity,
    charged: bool,
) -> (RunnableRef, Handle<T>)
where
    F: Future<Output = Result<T, TaskError>> + Send + 'scope,
    T: Send + 'scope,
{
    // SAFETY: as in `spawn`.
    unsafe { future::create(nursery.core(), body, identity, charged) }
}
