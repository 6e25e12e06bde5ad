//! Receipts: how many of the messages that a node emitted its consumers have finished with.
//!
//! Room: driver. Knows edges and what their consumers hold; knows nothing of payloads.
//!
//! # Invariant
//! The number never exceeds that of the messages that were finished, and it never falls. A message is finished when its consumer has handled it, or failed at it for good, and no longer holds it.
//!
//! # Why it holds
//! A Block edge delivers in order, so what it counts as delivered is a beginning of what was put. From that everything is subtracted that the consumer holds or has abandoned, from whatever edge it
//! came: perhaps too much, never too little, if the consumer finishes its messages in order. The largest result so far is kept.

use std::fmt;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use policy_flow::Policy;

use crate::{
    edge::{AnyEdge, Edge},
    error::NodeError,
    in_flight::Listener,
    message::Payload,
};

/// How many of the messages of an output its consumers have finished with. See [`Out::receipts`](crate::Out::receipts).
pub struct Receipts {
    edges: Vec<Arc<dyn AnyEdge>>,
    most: AtomicU64,
}

impl Receipts {
    pub(crate) fn new<T: Payload>(edges: &[Arc<Edge<T>>], notify: Listener) -> Result<Self, NodeError> {
        if let Some(edge) = edges.iter().find(|edge| edge.state().policy != Policy::Block) {
            let (id, policy) = (&edge.id, edge.state().policy);
            return Err(NodeError::msg(format!(
                "the edge {id} has the policy {policy}, and this node must know what becomes of each message; use Block"
            )));
        }
        edges.iter().for_each(|edge| edge.taken().listen(Arc::clone(&notify)));
        let edges = edges.iter().map(|edge| Arc::clone(edge) as Arc<dyn AnyEdge>).collect();
        Ok(Self { edges, most: AtomicU64::new(0) })
    }

    /// So many of the messages that were emitted are finished, on every edge; `u64::MAX` without an edge.
    pub fn finished(&self) -> u64 {
        let of_edge = |edge: &Arc<dyn AnyEdge>| {
            // In this order: a message that counts as delivered was held before, so it is still held, or finished.
            let delivered = edge.state().counts.delivered;
            delivered.saturating_sub(edge.taken().unfinished())
        };
        let least = self.edges.iter().map(of_edge).min().unwrap_or(u64::MAX);
        self.most.fetch_max(least, Relaxed).max(least)
    }

    /// So many were handled, on every edge: their consumers are done with them, or hold them.
    pub fn handled(&self) -> u64 {
        self.edges.iter().map(|edge| edge.state().counts.delivered).min().unwrap_or(u64::MAX)
    }
}

impl fmt::Debug for Receipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipts").field("edges", &self.edges.len()).finish_non_exhaustive()
    }
}
