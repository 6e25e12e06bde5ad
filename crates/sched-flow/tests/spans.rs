//! Spans of nodes that run at the same time, some of them waiting inside a call. In a binary of its own: the subscriber is everybody's.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread::ThreadId,
    time::Duration,
};

use sched_flow::{Flow, Graph, NodeError, TracingObserver, from_iter, map, try_sink};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// The node of each span; where each was entered that has not been left yet; and how many there were.
#[derive(Clone, Default)]
struct Census {
    nodes: Arc<Mutex<HashMap<u64, String>>>,
    inside: Arc<Mutex<HashMap<u64, ThreadId>>>,
    entered: Arc<AtomicU64>,
    failures: Arc<AtomicU64>,
    made: Arc<AtomicU64>,
}

impl Census {
    fn is_inside(&self, node: &str) -> bool {
        let nodes = self.nodes.lock().unwrap();
        self.inside.lock().unwrap().keys().any(|id| nodes.get(id).is_some_and(|of| of == node))
    }
}

/// The field `node` of a span.
#[derive(Default)]
struct OfNode(String);

impl Visit for OfNode {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "node" {
            self.0 = format!("{value:?}").trim_matches('"').to_owned();
        }
    }
}

impl Subscriber for Census {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target() == "flow"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let (id, mut node) = (self.made.fetch_add(1, SeqCst) + 1, OfNode::default());
        span.record(&mut node);
        self.nodes.lock().unwrap().insert(id, node.0);
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.failures.fetch_add(1, SeqCst);
    }

    fn enter(&self, id: &Id) {
        self.entered.fetch_add(1, SeqCst);
        let before = self.inside.lock().unwrap().insert(id.into_u64(), std::thread::current().id());
        assert!(before.is_none(), "span {id:?} was entered twice");
    }

    fn exit(&self, id: &Id) {
        let entered_on = self.inside.lock().unwrap().remove(&id.into_u64());
        assert_eq!(entered_on, Some(std::thread::current().id()), "span {id:?} is left where it was entered");
    }
}

#[test]
fn every_span_is_left_on_its_thread_even_if_calls_overlap_wait_and_fail() {
    const CHAINS: u64 = 4;
    const MESSAGES: u64 = 200;
    let census = Census::default();
    tracing::subscriber::set_global_default(census.clone()).expect("this binary has no other subscriber");
    let mut graph = Graph::new("overlap");
    for chain in 0..CHAINS {
        let numbers = graph.add(format!("numbers-{chain}"), from_iter(0..MESSAGES));
        let (name, seen) = (format!("waits-{chain}"), census.clone());
        let waits = graph.add(
            name.clone(),
            map(move |number: u64| {
                if number.is_multiple_of(10) {
                    sched_tasks::sleep(Duration::from_millis(1)); // others run on this thread meanwhile
                }
                assert!(seen.is_inside(&name), "the span of a call is open until the call ends");
                number
            }),
        );
        let fails = graph.add(
            format!("fails-{chain}"),
            try_sink(|number: u64| {
                assert!(number != 50, "a panic");
                if number == 100 { Err(NodeError::msg("an error")) } else { Ok(()) }
            }),
        );
        graph.connect(&numbers, &waits);
        graph.connect(&waits, &fails);
    }
    let ended = Flow::builder().register(graph).workers(4).observer(TracingObserver::new()).build().unwrap().run();
    assert!(ended.unwrap().drained);
    assert!(census.inside.lock().unwrap().is_empty(), "every span was left");
    assert!(census.entered.load(SeqCst) >= CHAINS * MESSAGES * 2, "each message is a span at each of two nodes");
    assert_eq!(census.failures.load(SeqCst), CHAINS * 2);
}
