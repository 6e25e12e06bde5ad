//! Flow: a graph of nodes that pass messages, with backpressure that holds and control that gets through.
//!
//! Room: interface.
//!
//! ```
//! use std::time::Duration;
//! use bursar::flow::{Control, Flow, Graph, Policy, from_channel, map, sink, source};
//!
//! #[derive(Clone)]
//! struct Sample(f64);
//!
//! let (kill, kill_switch) = bursar::channel(1);
//! let mut reading = 0.0;
//! let read_imu = move || { reading += 0.5; Some(Sample(reading)) };
//! let write_row = move |sample: Sample| if sample.0 > 10.0 { let _ = kill.try_send(Control::Stop); };
//!
//! let mut g = Graph::new("sensors");
//! let imu = g.add("imu", source(read_imu).tick(Duration::from_millis(1)));
//! let filter = g.add("filter", map(|s: Sample| Sample(s.0 * 0.9)));
//! let log = g.add("log", sink(write_row));
//! let stop = g.add("kill", from_channel(kill_switch));
//! g.connect(imu.out("out"), filter.input("in")).capacity(256).policy(Policy::Latest);
//! g.connect(filter.out("out"), log.input("in")).capacity(1024);          // Block: nothing is lost
//! g.connect(stop.out("out"), imu.input("control")).control();            // always gets through
//!
//! let flow = Flow::new(g)?;              // everything that is wrong with the graph, before anything runs
//! let handle = flow.handle();            // to look and to steer, from any thread
//! assert_eq!(handle.why("log")?.to_string(), "log waits for nothing: it is created");
//! let ended = flow.run()?;               // until the sources have ended and all is delivered
//! assert!(ended.drained);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Nodes
//!
//! Closures are nodes: [`source`], [`map`], [`filter`], [`flat_map`], [`sink`] and the other functions of this module. A node with a state of its own is a [`Stage`], one
//! without input a [`Source`], and one with ports of several types a [`Node`]. Each message of a node is handled alone, with all it emits: if a call fails or panics, nothing of
//! it is sent, and the [error policy](OnError) of the node decides: skip it, retry it, send it to the dead letters, stop the node, stop the graph.
//!
//! What is emitted has the trace id and time of the message that is being handled. Payloads are not printed: see [`Message::reveal`].
//!
//! # Edges
//!
//! An edge holds so many messages ([`Connect::capacity`]). What happens when it is full is its [policy](Policy):
//!
//! | policy | when full | for |
//! |---|---|---|
//! | [`Block`](Policy::Block) | the producer waits, and takes no input | what must not be lost |
//! | [`Drop`](Policy::Drop) | the new message is dropped | what is worthless when late |
//! | [`Latest`](Policy::Latest) | the oldest makes room | states: only the newest matters |
//! | [`coalesce`](Connect::coalesce) | the new one is merged into the newest that waits | sums, sets, dirty rectangles |
//!
//! Every message is accounted for, asserted at every turn: `put = delivered + dropped + replaced + coalesced + depth`. A producer that waits is looked at again when there is room, not
//! before: a graph that can do nothing uses no CPU.
//!
//! A circle is allowed if one of its edges never keeps its producer waiting: one that drops, or keeps the newest, or leads to an input called `control`.
//!
//! # Which node runs next
//!
//! Edges are in one of three [bands](Band), by their priority. Bands that all have something to do share turns 4:2:1, exactly. A message of control waits until one of the turns ends that are being
//! given when it comes, and after that at most one turn of another band begins before its own. That holds on any number of workers. A turn that is being given when control comes ends after some microseconds, or the message
//! it is at, unless control comes all the time. What feeds only edges of control is of that band, too, from the source on. The bound counts turns, not time: if the operating system takes the CPU from
//! a worker in the midst of a turn, that time comes on top, and on a machine with more threads than cores it is milliseconds. Inside a band, nodes take turns of up to [256 messages](FlowBuilder::batch) or [half a millisecond](FlowBuilder::turn_time).
//!
//! # One thread or several
//!
//! By default everything happens on the thread that calls [`Flow::run`]. With [virtual time](FlowBuilder::virtual_time) its order depends on nothing but the graph and its input, and an hour of
//! ticks takes as long as its turns; in real time the clock decides how long turns are and when ticks come, so two runs may differ. With [several workers](FlowBuilder::workers) independent nodes run at the same time, as tasks of the runtime. Both ask the same decisions. In a run
//! that a seed decides, as by [`explore`](crate::explore()), so does a flow of several workers: same seed, same order, and ticks take no time.
//!
//! A node is a [nursery](crate::nursery()): the tasks it [spawns](Out::spawn) end with it.
//!
//! # Looking at it
//!
//! [`Handle::stats`] counts, [`Handle::why`] explains, an [`Observer`] is told of every call, and a [`Harness`] drives a single node in a test. The command `bursar flow run` shows a
//! graph from a file while it runs.
#[cfg(feature = "jobs")]
#[doc(inline)]
pub use crate::bridge::jobs_for;
#[doc(inline)]
pub use sched_flow::{
    AnyMessage, Band, Batcher, Builder as FlowBuilder, Call, CircuitBreaker, Connect, Context, Control, ControlError,
    Correlator, DEFAULT_CAPACITY, DeadLetter, EdgeStats, Ended, FarEnd, Flow, FlowError, Full, Graph, Handle, Harness,
    Header, Histogram, InFlight, InPort, KeyedWindows, Kind, Line, Lines, LinesIn, LinesOut, LinkStats, MAX_CAPACITY,
    MapAsync, Message, Node, NodeError, NodeRef, NodeResult, NodeSpec, NodeState, NodeStats, NotUtf8, Observer,
    OnError, Out, OutPort, Payload, Policy, Ports, Problem, Problems, Produced, PutResult, Receipts, Retry, Revealed,
    Route, Schema, Source, Span, Stage, Stats, Time, TraceId, TracingObserver, Waits, Why, Windows, WrongType, batcher,
    cache, circuit_breaker, correlator, counter, counter_per_tick, deal, debounce, dedup, dedup_up_to, delay,
    delay_up_to, filter, flat_map, fold, fold_per_tick, from_channel, from_iter, from_task, head, inspect, json_in,
    json_out, keyed_window, lines_in, lines_out, map, map_async, merger, retry, router, sample_every, sample_nth,
    sample_random, scan, sink, sink_async, sliding_window, source, splitter, throttle, timeout_async, to_channel,
    to_task, try_map, try_sink, tumbling_window, validator,
};
/// Edges between processes, over NATS JetStream: [`publish`](nats::publish) here, [`subscribe`](nats::subscribe) there. With the feature `nats`.
#[cfg(feature = "nats")]
pub mod nats {
    #[doc(inline)]
    pub use sched_nats::{Address, AddressError, Edge, Login, NatsError, publish, subscribe};
}
#[cfg(feature = "net")]
#[doc(inline)]
pub use sched_flow::{TcpIn, TcpOut, tcp_in, tcp_in_on, tcp_out};
