//! An edge: a queue behind a lock, between one output and one input.
//!
//! Room: driver. Knows its queue and its number; knows nothing of bands, turns and threads.

use std::{
    any::Any,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use policy_flow::{Counts, Merging, Policy, PutResult, Queue};

use crate::{
    error::NodeError,
    in_flight::InFlight,
    message::{Message, Payload},
};

/// Merges a new payload into one that waits.
pub(crate) type Merge<T> = Arc<dyn Fn(&mut T, &T) -> Result<(), NodeError> + Send + Sync>;

/// The settings of an edge. The port that makes the edge knows the type.
#[derive(Clone)]
pub(crate) struct EdgeSetup {
    /// Its number in the plan.
    pub(crate) index: u32,
    pub(crate) id: Arc<str>,
    pub(crate) capacity: usize,
    pub(crate) policy: Policy,
    /// A [`Merge`] of the payload's type, behind `Any`.
    pub(crate) merge: Option<Arc<dyn Any + Send + Sync>>,
    /// What its consumer took and has not finished with.
    pub(crate) taken: InFlight,
}

/// One output to one input.
pub(crate) struct Edge<T> {
    pub(crate) index: u32,
    pub(crate) id: Arc<str>,
    queue: Mutex<Queue<Message<T>>>,
    /// How it coalesces, if it does.
    merge: Option<Merge<T>>,
    taken: InFlight,
}

impl<T: Payload> Edge<T> {
    /// # Panics
    /// If it coalesces and the function is one for other payloads. The check of the graph has compared the types.
    pub(crate) fn new(setup: EdgeSetup) -> Self {
        let merge = (setup.policy == Policy::Coalesce).then(|| {
            let merge = setup.merge.as_ref().and_then(|merge| merge.downcast_ref::<Merge<T>>());
            Arc::clone(merge.expect("types are compared before edges are made"))
        });
        let queue = Mutex::new(Queue::new(setup.capacity, setup.policy));
        Self { index: setup.index, id: setup.id, queue, merge, taken: setup.taken }
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<Message<T>>> {
        // A panic of a merge function is caught, so a poisoned lock is no problem.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Merges a payload into the newest message. False if the function failed or panicked; a function that fails must leave the waiting message as it
    /// was.
    fn add(&self, merging: &mut Merging<Message<T>>, new: &T) -> bool {
        let merge = self.merge.as_ref().expect("an edge that coalesces knows how");
        let done = matches!(catch_unwind(AssertUnwindSafe(|| merge(&mut merging.newest().payload, new))), Ok(Ok(())));
        if done {
            merging.merged();
        }
        done
    }
}

impl<T: Payload> Edge<T> {
    /// Puts as many of the first messages as fit. The rest stays in `from`. Returns with the lock held: the hot path takes it once.
    pub(crate) fn put_all(&self, from: &mut VecDeque<Message<T>>) -> MutexGuard<'_, Queue<Message<T>>> {
        loop {
            let mut queue = self.queue();
            queue.put_all(from);
            if from.is_empty() {
                return queue;
            }
            let Some(mut merging) = queue.begin_merge() else { return queue };
            drop(queue);
            while let Some(first) = from.front()
                && self.add(&mut merging, &first.payload)
            {
                from.pop_front();
            }
            let mut queue = self.queue();
            if queue.end_merge(merging, !from.is_empty()) || from.is_empty() {
                return queue;
            }
        }
    }

    /// Puts copies of as many messages as fit, from `at` on, and advances `at`. Returns with the lock held.
    pub(crate) fn put_copies(&self, from: &VecDeque<Message<T>>, at: &mut usize) -> MutexGuard<'_, Queue<Message<T>>> {
        loop {
            let mut queue = self.queue();
            *at += queue.put_copies(from.range(*at..));
            if *at == from.len() {
                return queue;
            }
            let Some(mut merging) = queue.begin_merge() else { return queue };
            drop(queue);
            while let Some(message) = from.get(*at)
                && self.add(&mut merging, &message.payload)
            {
                *at += 1;
            }
            let mut queue = self.queue();
            if queue.end_merge(merging, *at < from.len()) || *at == from.len() {
                return queue;
            }
        }
    }

    /// Puts a copy of one message. Returns with the lock held.
    pub(crate) fn put(&self, message: &Message<T>) -> (PutResult, MutexGuard<'_, Queue<Message<T>>>) {
        loop {
            let mut queue = self.queue();
            let (result, refused) = queue.put(message.clone());
            let Some(mut merging) = refused.and_then(|_| queue.begin_merge()) else { return (result, queue) };
            drop(queue);
            let done = self.add(&mut merging, &message.payload);
            let mut queue = self.queue();
            let waits = queue.end_merge(merging, !done);
            if done || waits {
                return (if done { PutResult::Coalesced } else { PutResult::Blocked }, queue);
            }
        }
    }
}

/// The state of an edge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EdgeState {
    pub(crate) counts: Counts,
    pub(crate) depth: usize,
    pub(crate) capacity: usize,
    pub(crate) policy: Policy,
    pub(crate) wanted: bool,
}

/// An edge without its type.
pub(crate) trait AnyEdge: Send + Sync {
    fn state(&self) -> EdgeState;
    /// True if the producer waited and has room now.
    fn set_capacity(&self, capacity: usize) -> bool;
    /// True if the producer waited.
    fn close(&self) -> bool;
    /// What its consumer took and has not finished with.
    fn taken(&self) -> &InFlight;
    /// Drops discarded messages, without any lock held.
    fn drop_discarded(&self);
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

    fn taken(&self) -> &InFlight {
        &self.taken
    }

    fn drop_discarded(&self) {
        let mut discarded = Vec::new();
        self.queue().swap_discarded(&mut discarded);
        // A payload that panics must not hurt the caller, who only ended a node.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(discarded)));
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
