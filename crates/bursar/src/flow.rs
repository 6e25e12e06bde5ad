//! Flow: graphs of nodes that pass messages, with backpressure that holds and control that gets through.
#[doc(inline)]
pub use sched_flow::*;
