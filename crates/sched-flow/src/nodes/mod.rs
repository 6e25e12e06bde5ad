//! Stock nodes: functions that return a [`NodeSpec`](crate::NodeSpec), or something that becomes one.
//!
//! Room: what users build from. Nothing here knows the scheduler: a node has its calls, its waker and its nursery.
//!
//! | file | nodes |
//! |---|---|
//! | `basic` | closures as nodes: source, map, filter, sink |
//! | `route` | where a message goes: router, splitter, deal, merger, validator |
//! | `watch` | what passed: inspect, counter, fold, scan |
//! | `sample` | some of the messages |
//! | `pace` | when a message goes on: throttle, debounce, delay |
//! | `group` | many become one: batches, windows |

mod basic;
mod group;
mod pace;
mod route;
mod sample;
mod watch;

pub use basic::{filter, flat_map, from_iter, map, sink, source, try_map, try_sink};
pub use group::{Batcher, Span, Windows, batcher, sliding_window, tumbling_window};
pub use pace::{debounce, delay, delay_up_to, throttle};
pub use route::{Route, deal, merger, router, splitter, validator};
pub use sample::{sample_every, sample_nth, sample_random};
pub use watch::{counter, fold, inspect, scan};
