//! Why a node waits, in one line.
//!
//! Room: decisions.
//!
//! The answer is computed from the state that the scheduler itself decides by.

use alloc::{borrow::ToOwned, string::String, vec::Vec};
use core::{fmt, time::Duration};

use crate::{decide::Core, state::NodeState, time::Time};

/// An edge that keeps its producer waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Full {
    /// The edge.
    pub edge: String,
    /// How many wait there.
    pub depth: usize,
    /// How many fit.
    pub capacity: usize,
    /// The node that should take them.
    pub consumer: String,
    /// The state of that node.
    pub consumer_state: NodeState,
}

/// What a node waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waits {
    /// It has a turn now.
    Runs,
    /// It has something to do and waits for its turn.
    Turn,
    /// It waits for room in these edges.
    Room(Vec<Full>),
    /// A message failed and is tried again after this long.
    Retry(Duration),
    /// It takes no input until a task that it started is done, or a time that it asked for has come.
    Itself,
    /// It waits for messages.
    Input,
    /// A source that waits for its waker or its next tick.
    Outside,
    /// It is paused.
    Resume,
    /// It waits for nothing: it has not started, or has ended.
    Nothing(NodeState),
}

/// Why a node waits. Its `Display` is the answer in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Why {
    /// The node.
    pub node: String,
    /// What it waits for.
    pub waits: Waits,
    /// Messages wait at its inputs.
    pub has_input: bool,
    /// What it waits for outside the graph, as the node reports.
    pub outside: Option<String>,
}

impl Full {
    /// An edge and its consumer.
    pub fn new(edge: String, depth: usize, capacity: usize, consumer: String, consumer_state: NodeState) -> Self {
        Self { edge, depth, capacity, consumer, consumer_state }
    }
}

impl Core {
    /// Why a node waits. `id`: its name; `full`: the edges in which it waits for room.
    pub fn why(&self, node: u32, id: &str, full: Vec<Full>, now: Time) -> Why {
        let node = self.node(node);
        let has_input = node.has_input();
        let waits = match node.state {
            NodeState::Created | NodeState::Ended | NodeState::Failed | NodeState::Stopped => {
                Waits::Nothing(node.state)
            }
            _ if node.running => Waits::Runs,
            NodeState::Paused => Waits::Resume,
            _ if node.blocked => Waits::Room(full),
            _ if node.has_turn_coming() => Waits::Turn,
            _ if node.backoff_until.is_some() => {
                Waits::Retry(node.backoff_until.map_or(Duration::ZERO, |until| until.since(now)))
            }
            _ if !node.accepts => Waits::Itself,
            _ if node.facts.source => Waits::Outside,
            _ => Waits::Input,
        };
        Why { node: id.to_owned(), waits, has_input, outside: None }
    }
}

impl Why {
    /// Adds what the node itself reports that it waits for, unless it is over or paused.
    #[must_use]
    pub fn with_outside(mut self, what: Option<String>) -> Self {
        let is_over = matches!(self.waits, Waits::Nothing(_) | Waits::Resume);
        self.outside = what.filter(|_| !is_over);
        self
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = &self.node;
        if let Some(outside) = &self.outside {
            return write!(f, "{node} waits: {outside}");
        }
        match &self.waits {
            Waits::Runs => write!(f, "{node} runs"),
            Waits::Turn => write!(f, "{node} has something to do and waits for its turn"),
            Waits::Room(full) if full.is_empty() => write!(f, "{node} waits for room, which just came"),
            Waits::Room(full) => {
                write!(f, "{node} waits for room: ")?;
                for (at, Full { edge, depth, capacity, consumer, consumer_state }) in full.iter().enumerate() {
                    let comma = if at > 0 { "; " } else { "" };
                    write!(f, "{comma}{edge} is full ({depth} of {capacity}), {consumer} is {consumer_state}")?;
                }
                Ok(())
            }
            Waits::Retry(left) => write!(f, "{node} failed, and tries the message again in {left:.1?}"),
            Waits::Itself => write!(f, "{node} takes no input until what it has begun is done"),
            Waits::Input => write!(f, "{node} waits for messages"),
            Waits::Outside => write!(f, "{node} waits for something to come from outside, or for its next tick"),
            Waits::Resume if self.has_input => write!(f, "{node} is paused, and messages wait for it; resume it"),
            Waits::Resume => write!(f, "{node} is paused; resume it"),
            Waits::Nothing(state) => write!(f, "{node} waits for nothing: it is {state}"),
        }
    }
}
