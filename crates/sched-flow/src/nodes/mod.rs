//! Stock nodes: functions that return a [`NodeSpec`](crate::NodeSpec).
//!
//! | file | nodes |
//! |---|---|
//! | `basic` | closures as nodes: source, map, filter, sink |

mod basic;

pub use basic::{filter, flat_map, from_iter, map, sink, source, try_map, try_sink};
