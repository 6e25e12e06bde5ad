//! A dataflow graph: nodes with typed ports, edges with chosen backpressure, and bands of priority.
//!
//! Room: scheduler. `state.rs` moves a node from state to state, `decide/` says who has the next turn (no clock, no thread),
//! `drive/` has the threads and clocks. `graph/` is what users build and what is checked before anything runs; `node/` and `edge/`
//! carry the messages.
#![forbid(unsafe_code)]
// Models take the sources they are about by their paths: see `tests/loom/main.rs`.
#![cfg(not(loom))]

/// What is right; or, in a model that has to fail, what is wrong.
macro_rules! or_planted {
    ($right:expr, $name:literal => $wrong:expr) => {
        $right
    };
}

mod decide;
mod drive;
mod edge;
mod error;
mod graph;
mod harness;
mod message;
mod metrics;
mod node;
mod nodes;
mod observe;
mod policy;
mod spans;
mod state;
mod stats;
mod why;

pub use drive::{Builder, ControlError, Ended, Flow, FlowError, Handle};
pub use error::{DeadLetter, NodeError, NodeResult, OnError, Retry};
pub use graph::{Connect, DEFAULT_CAPACITY, Graph, InPort, MAX_CAPACITY, NodeRef, OutPort, Problem, Problems};
pub use harness::Harness;
pub use message::{Control, Header, Kind, Message, Payload, Revealed, Time, TraceId};
pub use node::{AnyMessage, Context, Custody, Node, NodeSpec, Out, Ports, Produced, Schema, Source, Stage, WrongType};
pub use nodes::*;
pub use observe::{Call, Observer};
pub use policy::{Band, Policy, PutResult};
pub use spans::TracingObserver;
pub use state::NodeState;
pub use stats::{EdgeStats, Histogram, NodeStats, Stats};
pub use why::{Full, Waits, Why};
