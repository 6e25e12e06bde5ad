//! An edge of a dataflow graph between two processes, over NATS JetStream.
//!
//! Room: interface.
//!
//! [`publish`] is the last node of an edge in one process, [`subscribe`] the first in another. Between them is a broker, which keeps each message on its disk until the next node has handled it.
//!
//! ```text
//!  producer ─► edge ─► publish ══► broker ══► subscribe ─► edge ─► consumer
//!              policy    credit     stream      credit     Block       │
//!                  ◄── acknowledged ┘   └ acknowledged ◄── receipts ◄──┘
//! ```
//!
//! # What is guaranteed
//! With Block, nothing is lost while the broker keeps its files: each message is delivered in order, once into the next node within the life of a process, and perhaps again after one was killed. The counts
//! say which: [`LinkStats`](sched_flow::LinkStats).
//!
//! `decide/` has the decisions, pure; `drive/` the connections, on a thread of their own.
#![forbid(unsafe_code)]

mod address;
mod check;
mod decide;
mod drive;
mod edge;
mod error;
mod login;
mod pack;
mod publish;
mod subscribe;

pub use address::Address;
pub use edge::Edge;
pub use error::{AddressError, NatsError};
pub use login::Login;
pub use publish::publish;
pub use subscribe::subscribe;
