//! The handle of a flow: control and statistics while it runs.
//!
//! Room: interface.
//!
//! # Invariant
//! A change is made completely or not at all: it is checked first, and made under the lock of the scheduler.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use super::{
    Shared,
    signals::{Scheduler, Wakeups},
};
use policy_flow::{Band, Event, Full, Phase, Why};

use crate::{
    graph::MAX_CAPACITY,
    stats::{EdgeStats, NodeStats, Stats},
};

/// Controls a flow and reads its statistics, from any thread. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Makes a change and wakes the workers that have something to do because of it.
    fn change<T>(&self, change: impl FnOnce(&mut Scheduler, &Shared) -> (T, Wakeups)) -> T {
        let mut scheduler = self.shared.signals.lock();
        let (result, wakeups) = change(&mut scheduler, &self.shared);
        self.shared.unlock(scheduler, wakeups);
        result
    }

    /// Drains the flow and stops it: sources end, and messages on their way are delivered, within [the drain timeout](super::Builder::drain_timeout). Then the nodes are
    /// stopped and [`run`](super::Flow::run) returns. A second call changes nothing.
    pub fn shutdown(&self) {
        self.change(|scheduler, shared| {
            scheduler.drain(shared.clock.now() + shared.drain_timeout);
            shared.close_edges(scheduler);
            ((), scheduler.wake_all())
        });
    }

    /// Stops after the running turns, without draining.
    pub fn stop_now(&self) {
        self.change(|scheduler, _| {
            scheduler.core.halt();
            ((), scheduler.wake_all())
        });
    }

    /// Whether the flow has no more turns.
    pub fn is_over(&self) -> bool {
        matches!(self.shared.signals.lock().core.phase(), Phase::Halted { .. })
    }

    /// Sets the priority of an edge, and so its band, from the next turn on.
    ///
    /// # Errors
    /// If there is no such edge.
    pub fn set_priority(&self, edge: &str, priority: i32) -> Result<(), ControlError> {
        let index = self.edge(edge)?;
        self.change(|scheduler, _| {
            scheduler.priorities[index as usize] = priority;
            scheduler.core.set_band(index, Band::of(priority));
            ((), scheduler.wake_if_ready())
        });
        Ok(())
    }

    /// Sets the capacity of an edge. If more messages wait than that, a Block edge keeps them all and takes none until there are fewer; an edge that keeps the
    /// newest drops the oldest.
    ///
    /// # Errors
    /// If there is no such edge, or the capacity is not possible.
    pub fn set_capacity(&self, edge: &str, capacity: usize) -> Result<(), ControlError> {
        let index = self.edge(edge)?;
        if capacity == 0 || capacity > MAX_CAPACITY {
            return Err(ControlError::BadCapacity { edge: edge.to_owned(), capacity });
        }
        self.change(|scheduler, shared| {
            if shared.edges[index as usize].set_capacity(capacity) {
                scheduler.core.roomy(index);
            }
            scheduler.to_clean.push(index);
            ((), scheduler.wake_if_ready())
        });
        Ok(())
    }

    /// Pauses a node. It still gets control messages; all others wait.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn pause(&self, node: &str) -> Result<(), ControlError> {
        self.command(node, Event::Paused)
    }

    /// Resumes a paused node.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn resume(&self, node: &str) -> Result<(), ControlError> {
        self.command(node, Event::Resumed)
    }

    /// Ends a node, as if no more input came. A source ends its stream; messages that wait for another node are dropped.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn end(&self, node: &str) -> Result<(), ControlError> {
        self.command(node, Event::InputsEnded)
    }

    fn command(&self, node: &str, event: Event) -> Result<(), ControlError> {
        let index = self.node(node)?;
        self.change(|scheduler, shared| {
            scheduler.core.command(index, event);
            shared.close_edges(scheduler);
            ((), scheduler.wake_if_ready())
        });
        Ok(())
    }

    /// The counters until now.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        let scheduler = shared.signals.lock();
        let nodes = shared.ids.iter().enumerate().map(|(index, id)| {
            let node = scheduler.core.node(index as u32);
            let counts = &node.counts;
            NodeStats {
                id: id.to_string(),
                state: node.state,
                messages: counts.messages,
                emitted: counts.emitted,
                errors: counts.errors,
                retries: counts.retries,
                lost: counts.lost,
                unwanted: shared.in_flight[index].unwanted(),
                unconnected: shared.in_flight[index].unconnected(),
                failed: shared.in_flight[index].failed(),
                held: shared.in_flight[index].held(),
                ticks: counts.ticks,
                ticks_missed: counts.ticks_missed,
                turns: counts.turns,
                busy: Duration::from_nanos(counts.busy_nanos),
                latency: counts.latency.clone(),
                last_error: counts.last_error.as_deref().map(str::to_owned),
                failure: counts.failure.as_deref().map(str::to_owned),
                link: shared.in_flight[index].link(),
            }
        });
        let nodes = nodes.collect();
        let priorities = scheduler.priorities.clone();
        let until = shared.ended.get().copied().unwrap_or_else(|| shared.clock.now());
        let elapsed = until.since(crate::message::Time::START);
        drop(scheduler);
        let edges = shared.edges.iter().zip(&shared.edge_ids).zip(priorities).map(|((edge, id), priority)| {
            let state = edge.state();
            let counts = state.counts;
            EdgeStats {
                id: id.clone(),
                capacity: state.capacity,
                depth: state.depth,
                peak: counts.peak,
                priority,
                band: Band::of(priority),
                policy: state.policy,
                put: counts.put,
                delivered: counts.delivered,
                dropped: counts.dropped,
                replaced: counts.replaced,
                coalesced: counts.coalesced,
                blocked_times: counts.blocked_times,
                blocked: state.wanted,
            }
        });
        Stats { name: shared.name.clone(), elapsed, nodes, edges: edges.collect() }
    }

    /// Why a node, or the target of an edge, waits.
    ///
    /// # Errors
    /// If there is no such node or edge.
    pub fn why(&self, node_or_edge: &str) -> Result<Why, ControlError> {
        let shared = &*self.shared;
        let index = match self.node(node_or_edge) {
            Ok(node) => node,
            Err(unknown) => shared.ends[self.edge(node_or_edge).map_err(|_| unknown)? as usize].1,
        };
        let scheduler = shared.signals.lock();
        let now = shared.clock.now();
        let outputs: Vec<u32> =
            (0..shared.ends.len() as u32).filter(|edge| shared.ends[*edge as usize].0 == index).collect();
        let full = outputs.iter().filter(|edge| shared.edges[**edge as usize].state().wanted);
        let full: Vec<Full> = full
            .map(|edge| {
                let state = shared.edges[*edge as usize].state();
                let target = shared.ends[*edge as usize].1;
                let (edge, consumer) =
                    (shared.edge_ids[*edge as usize].clone(), shared.ids[target as usize].to_string());
                Full::new(edge, state.depth, state.capacity, consumer, scheduler.core.node(target).state)
            })
            .collect();
        let why = scheduler.core.why(index, &shared.ids[index as usize], full, now);
        Ok(why.with_outside(shared.in_flight[index as usize].waited_for()))
    }

    /// The names of all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.shared.ids.iter().map(|id| &**id)
    }

    /// The ids of all edges.
    pub fn edges(&self) -> impl Iterator<Item = &str> {
        self.shared.edge_ids.iter().map(String::as_str)
    }

    fn node(&self, id: &str) -> Result<u32, ControlError> {
        let at = self.shared.ids.iter().position(|node| **node == *id);
        at.map(|at| at as u32).ok_or_else(|| ControlError::UnknownNode { node: id.to_owned() })
    }

    fn edge(&self, id: &str) -> Result<u32, ControlError> {
        let at = self.shared.edge_ids.iter().position(|edge| edge == id);
        at.map(|at| at as u32).ok_or_else(|| {
            let node = id.split(':').next().unwrap_or_default();
            let has = self.edges().filter(|edge| edge.contains(node)).take(3).map(str::to_owned).collect();
            ControlError::UnknownEdge { edge: id.to_owned(), similar: has }
        })
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("flow", &self.shared.name).finish_non_exhaustive()
    }
}

/// A change that could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlError {
    /// There is no such node.
    UnknownNode {
        /// The name.
        node: String,
    },
    /// There is no such edge.
    UnknownEdge {
        /// The id.
        edge: String,
        /// Edges that may have been meant.
        similar: Vec<String>,
    },
    /// The capacity is zero or too large.
    BadCapacity {
        /// The edge.
        edge: String,
        /// The capacity.
        capacity: usize,
    },
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::UnknownNode { node } => {
                write!(f, "there is no node `{node}`; `Handle::nodes` lists them")
            }
            ControlError::UnknownEdge { edge, similar } if similar.is_empty() => {
                write!(f, "there is no edge `{edge}`; an edge is called `source:port->target:port`")
            }
            ControlError::UnknownEdge { edge, similar } => {
                write!(f, "there is no edge `{edge}`; did you mean `{}`?", similar.join("` or `"))
            }
            ControlError::BadCapacity { edge, capacity } => {
                write!(f, "{edge}: a capacity of {capacity} is not possible; use 1 to {MAX_CAPACITY}")
            }
        }
    }
}

impl Error for ControlError {}
