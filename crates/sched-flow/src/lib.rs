//! A dataflow graph: nodes with typed ports, edges with chosen backpressure, and bands of priority.
//!
//! Room: scheduler. `state.rs` moves a node from state to state, `decide/` says who has the next turn (no clock, no thread),
//! `drive/` has the threads and clocks. `graph/` is what users build and what is checked before anything runs; `node/` and `edge/`
//! carry the messages.
#![forbid(unsafe_code)]

mod drive;
mod edge;
mod error;
mod harness;
mod message;
mod node;
mod nodes;
mod observe;
mod policy;

pub use error::{DeadLetter, NodeError, NodeResult, OnError, Retry};
pub use harness::Harness;
pub use message::{Control, Header, Kind, Message, Payload, Revealed, Time, TraceId};
pub use node::{AnyMessage, Context, Node, NodeSpec, Out, Ports, Produced, Schema, Source, Stage, WrongType};
pub use nodes::*;
pub use observe::{Call, Observer};
pub use policy::{Band, Policy, PutResult};
