//! An edge: a queue behind a lock, between one output and one input.
//!
//! Room: mechanism of the crate. Knows its queue and its number; knows nothing of bands, turns or threads.

pub(crate) mod queue;

use std::{
    any::Any,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    message::{Message, Payload},
    policy::{Policy, PutResult},
};
use queue::{Counts, Merge, Queue, Rule};

/// What is needed to make an edge; the port that makes it knows the type.
#[derive(Clone)]
pub(crate) struct EdgeSetup {
    /// Its number in the plan.
    pub(crate) index: u32,
    pub(crate) id: Arc<str>,
    pub(crate) capacity: usize,
    pub(crate) policy: Policy,
    /// A [`Merge`] of the payload's type, behind `Any`.
    pub(crate) merge: Option<Arc<dyn Any + Send + Sync>>,
}

/// One output to one input.
pub(crate) struct Edge<T> {
    pub(crate) index: u32,
    pub(crate) id: Arc<str>,
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
        Self { index: setup.index, id: setup.id, queue: Mutex::new(Queue::new(setup.capacity, rule)) }
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        // A merge function that panics is caught inside; a poisoned lock tells nothing.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Payload> Edge<T> {
    /// Puts as many of the first messages as it takes. What is left in `from` must wait. The lock is still held: the hot path takes it once.
    pub(crate) fn put_all(&self, from: &mut VecDeque<Message<T>>) -> MutexGuard<'_, Queue<T>> {
        loop {
            let mut queue = self.queue();
            queue.put_all(from);
            if from.is_empty() {
                return queue;
            }
            let Some(mut merging) = queue.begin_merge() else { return queue };
            drop(queue);
            while let Some(first) = from.front()
                && merging.add(&first.payload)
            {
                from.pop_front();
            }
            let mut queue = self.queue();
            if queue.end_merge(merging, !from.is_empty()) || from.is_empty() {
                return queue;
            }
        }
    }

    /// Puts copies of as many messages as it takes, from `at` on, which it moves. The lock is still held.
    pub(crate) fn put_copies(&self, from: &VecDeque<Message<T>>, at: &mut usize) -> MutexGuard<'_, Queue<T>> {
        loop {
            let mut queue = self.queue();
            *at += queue.put_copies(from.range(*at..));
            if *at == from.len() {
                return queue;
            }
            let Some(mut merging) = queue.begin_merge() else { return queue };
            drop(queue);
            while let Some(message) = from.get(*at)
                && merging.add(&message.payload)
            {
                *at += 1;
            }
            let mut queue = self.queue();
            if queue.end_merge(merging, *at < from.len()) || *at == from.len() {
                return queue;
            }
        }
    }

    /// Puts a copy of one message. The lock is still held.
    pub(crate) fn put(&self, message: &Message<T>) -> (PutResult, MutexGuard<'_, Queue<T>>) {
        loop {
            let mut queue = self.queue();
            let (result, refused) = queue.put(message.clone());
            let Some(mut merging) = refused.and_then(|_| queue.begin_merge()) else { return (result, queue) };
            drop(queue);
            let done = merging.add(&message.payload);
            let mut queue = self.queue();
            let waits = queue.end_merge(merging, !done);
            if done || waits {
                return (if done { PutResult::Coalesced } else { PutResult::Blocked }, queue);
            }
        }
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
