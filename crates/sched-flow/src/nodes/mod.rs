//! Stock nodes: functions that return a [`NodeSpec`](crate::NodeSpec), or something that becomes one.
//!
//! Room: interface. Knows calls, wakers and tasks of a node; knows nothing of the scheduler.
//!
//! | file | nodes |
//! |---|---|
//! | `basic` | closures as nodes: source, map, filter, sink |
//! | `route` | where a message goes: router, splitter, deal, merger, validator |
//! | `watch` | values over what passed: inspect, counter, fold, scan |
//! | `sample` | some of the messages |
//! | `pace` | when a message goes on: throttle, debounce, delay |
//! | `group`, `keyed` | many become one: batches, windows, windows by key |
//! | `memo` | memory by key: cache, dedup |
//! | `pair` | pairs by key: correlator |
//! | `guard` | closures that may fail: retry, circuit breaker |
//! | `future` | futures as nodes |
//! | `channel`, `task` | channels and tasks as ends of a graph |
//! | `lines_in`, `file`, `tcp`, `json` | lines and values from outside, and to it; `lines` cuts them |

mod basic;
mod channel;
mod file;
mod future;
mod group;
mod guard;
mod json;
mod keyed;
mod lines;
mod lines_in;
mod memo;
mod pace;
mod pair;
mod route;
mod sample;
mod task;
#[cfg(feature = "net")]
mod tcp;
mod watch;

pub use basic::{filter, flat_map, from_iter, map, sink, source, try_map, try_sink};
pub use channel::{from_channel, to_channel};
pub use file::{LinesOut, lines_out};
pub use future::{MapAsync, map_async, sink_async, timeout_async};
pub use group::{Batcher, Span, Windows, batcher, sliding_window, tumbling_window};
pub use guard::{CircuitBreaker, circuit_breaker, retry};
pub use json::{json_in, json_out};
pub use keyed::{KeyedWindows, keyed_window};
pub use lines::{Line, Lines, NotUtf8};
pub use lines_in::{LinesIn, lines_in};
pub use memo::{cache, dedup, dedup_up_to};
pub use pace::{debounce, delay, delay_up_to, throttle};
pub use pair::{Correlator, correlator};
pub use route::{Route, deal, merger, router, splitter, validator};
pub use sample::{head, sample_every, sample_nth, sample_random};
pub use task::{from_task, to_task};
#[cfg(feature = "net")]
pub use tcp::{TcpIn, TcpOut, tcp_in, tcp_in_on, tcp_out};
pub use watch::{counter, counter_per_tick, fold, fold_per_tick, inspect, scan};
