//! An edge: a queue behind a lock, between one output and one input.
//!
//! Room: mechanism of the crate. Knows its queue and its number; knows nothing of bands, turns or threads.

pub(crate) mod queue;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{message::Payload, policy::Policy};
use queue::{Counts, Merge, Queue, Rule};

/// What is needed to make an edge; the port that makes it knows the type.
#[derive(Clone)]
pub(crate) struct EdgeSetup {
    /// Its number in the plan.
    pub(crate) index: u32,
    pub(crate) capacity: usize,
    pub(crate) policy: Policy,
    /// A [`Merge`] of the payload's type, behind `Any`.
    pub(crate) merge: Option<Arc<dyn Any + Send + Sync>>,
}

/// One output to one input.
pub(crate) struct Edge<T> {
    pub(crate) index: u32,
    queue: Mutex<Queue<T>>,
}

impl<T: Payload> Edge<T> {
    /// # Panics
    /// If it coalesces and the function is one for other payloads. The check of the graph has compared the types.
    pub(crate) fn new(setup: EdgeSetup) -> Self {
        let rule = match setup.policy {
            Policy::Block => Rule::Block,
            Policy::Drop => Rule::Drop,
            Policy::Latest => Rule::Latest,
            Policy::Coalesce => {
                let merge = setup.merge.as_ref().and_then(|merge| merge.downcast_ref::<Merge<T>>());
                Rule::Coalesce(Arc::clone(merge.expect("types are compared before edges are made")))
            }
        };
        Self { index: setup.index, queue: Mutex::new(Queue::new(setup.capacity, rule)) }
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        // A merge function that panics is caught inside; a poisoned lock tells nothing.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an edge stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EdgeState {
    pub(crate) counts: Counts,
    pub(crate) depth: usize,
    pub(crate) capacity: usize,
    pub(crate) policy: Policy,
    pub(crate) wanted: bool,
}

/// An edge whose payload does not matter.
pub(crate) trait AnyEdge: Send + Sync {
    fn state(&self) -> EdgeState;
    /// True if the producer waited and has room now.
    fn set_capacity(&self, capacity: usize) -> bool;
    /// True if the producer waited.
    fn close(&self) -> bool;
    /// Drops what nobody gets; without any lock held.
    fn sweep(&self);
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Payload> AnyEdge for Edge<T> {
    fn state(&self) -> EdgeState {
        let queue = self.queue();
        EdgeState {
            counts: queue.counts(),
            depth: queue.depth(),
            capacity: queue.capacity(),
            policy: queue.policy(),
            wanted: queue.is_wanted(),
        }
    }

    fn set_capacity(&self, capacity: usize) -> bool {
        self.queue().set_capacity(capacity)
    }

    fn close(&self) -> bool {
        self.queue().close()
    }

    fn sweep(&self) {
        let mut gone = Vec::new();
        self.queue().swap_gone(&mut gone);
        // Whoever ended the node is not to blame for a payload that panics.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(gone)));
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
