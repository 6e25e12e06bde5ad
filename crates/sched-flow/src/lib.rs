//! A dataflow graph: nodes with typed ports, edges with a choice of backpressure, and priority bands.
//!
//! Room: interface.
//!
//! `policy-flow` decides which node has the next turn and what a full edge does; it has no clock and no thread. `drive/` has the threads
//! and clocks, and uses these decisions. `graph/` is what users build, and the checks before anything runs; `node/` and `edge.rs` carry the messages.
#![forbid(unsafe_code)]
// Models include the source files that they check by path: see `tests/loom/main.rs`.
#![cfg(not(loom))]

mod drive;
mod edge;
mod error;
mod graph;
mod harness;
mod in_flight;
mod message;
mod metrics;
mod node;
mod nodes;
mod observe;
mod spans;
mod stats;

pub use drive::{Builder, ControlError, Ended, Flow, FlowError, Handle};
pub use error::{DeadLetter, NodeError, NodeResult, OnError, Retry};
pub use graph::{Connect, DEFAULT_CAPACITY, Graph, InPort, MAX_CAPACITY, NodeRef, OutPort, Problem, Problems};
pub use harness::Harness;
pub use in_flight::InFlight;
pub use message::{Control, Header, Kind, Message, Payload, Revealed, TraceId};
pub use node::{AnyMessage, Context, Node, NodeSpec, Out, Ports, Receipts, Schema, Source, Stage, WrongType};
pub use nodes::*;
pub use observe::{Call, Observer};
pub use policy_flow::{Band, Full, Histogram, NodeState, Policy, Produced, PutResult, Time, Waits, Why};
pub use spans::TracingObserver;
pub use stats::{EdgeStats, FarEnd, LinkStats, NodeStats, Stats};
