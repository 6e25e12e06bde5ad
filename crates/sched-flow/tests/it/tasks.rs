//! A flow among tasks: what nodes start dies with them, and a flow dies with the nursery it runs in.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use sched_flow::{Flow, Graph, Message, NodeError, NodeResult, NodeSpec, OnError, Out, Stage, from_iter, sink, source};
use sched_tasks::{NurseryOptions, nursery, nursery_with};

use crate::basics::on_both;

/// Counts those that are alive.
#[derive(Clone, Default)]
struct Census(Arc<AtomicU64>);

struct Alive(Arc<AtomicU64>);

impl Census {
    fn enter(&self) -> Alive {
        self.0.fetch_add(1, SeqCst);
        Alive(Arc::clone(&self.0))
    }

    fn count(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Where a node fails.
#[derive(Clone, Copy, PartialEq)]
enum Fails {
    Never,
    AtStart,
    AtMessage,
}

/// Starts a task that would sleep for ten minutes, when it starts and for each message.
struct Parent {
    census: Census,
    fails: Fails,
}

impl Parent {
    /// Returns when the task runs.
    fn start(&self, out: &mut Out<'_, u64>) {
        let census = self.census.clone();
        let (begun, has_begun) = sched_tasks::channel(1);
        out.spawn(move || {
            let _alive = census.enter();
            begun.send(()).expect("waited for");
            sched_tasks::sleep(Duration::from_secs(600));
        });
        has_begun.recv().expect("it is started");
    }
}

impl Stage for Parent {
    type In = u64;
    type Out = u64;

    fn on_start(&mut self, out: &mut Out<'_, u64>) -> NodeResult {
        self.start(out);
        if self.fails == Fails::AtStart { Err(NodeError::msg("a bad start")) } else { Ok(()) }
    }

    fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
        self.start(out);
        if self.fails == Fails::AtMessage {
            return Err(NodeError::msg("a bad message"));
        }
        out.emit(message.payload);
        Ok(())
    }
}

/// Numbers go to a parent; a watcher, whom others feed, then says how many tasks are alive. The second number is of when the parent is over.
fn family(fails: Fails, census: &Census) -> (Graph, mpsc::Receiver<u64>) {
    let (say, said) = mpsc::channel();
    let mut graph = Graph::new("family");
    let numbers = graph.add("numbers", from_iter(0..3u64));
    let parent = Parent { census: census.clone(), fails };
    let parent = graph.add("parent", NodeSpec::stage(parent).on_error(OnError::StopNode));
    let out = graph.add("out", sink(|_: u64| ()));
    graph.connect(&numbers, &parent);
    graph.connect(&parent, &out);
    let census = census.clone();
    let mut asked = 0;
    let watch = graph.add(
        "watch",
        source(move || {
            asked += 1;
            say.send(census.count()).unwrap();
            (asked < 30u64).then_some(asked)
        })
        .tick(Duration::from_millis(1)),
    );
    let ignore = graph.add("ignore", sink(|_: u64| ()));
    graph.connect(&watch, &ignore);
    (graph, said)
}

#[test]
fn what_a_node_started_dies_with_it_however_it_ends() {
    for fails in [Fails::Never, Fails::AtStart, Fails::AtMessage] {
        on_both(|builder| {
            let census = Census::default();
            let (graph, said) = family(fails, &census);
            builder.register(graph).build().unwrap().run().unwrap();
            assert_eq!(census.count(), 0, "the flow has ended before its tasks");
            // Long before the flow ended, the node had; and with it what it started.
            assert_eq!(said.iter().last(), Some(0), "a task outlived its node");
        });
    }
}

/// Endless numbers, whose sink reports its first message and its end.
fn busy(stops: &Census) -> (Graph, sched_tasks::Receiver<()>) {
    struct Last(Alive, Option<sched_tasks::Sender<()>>);
    impl Stage for Last {
        type In = u64;
        type Out = ();
        fn outputs(&self) -> Vec<String> {
            Vec::new()
        }
        fn on_message(&mut self, _: Message<u64>, _: &mut Out<'_, ()>) -> NodeResult {
            if let Some(begun) = self.1.take() {
                begun.send(())?;
            }
            Ok(())
        }
        fn on_stop(&mut self, _: &mut Out<'_, ()>) -> NodeResult {
            self.0.0.fetch_add(100, SeqCst); // `on_stop` was called
            panic!("also a node that fails at the end is only counted");
        }
    }
    let (begun, has_begun) = sched_tasks::channel(1);
    let mut graph = Graph::new("busy");
    let numbers = graph.add("numbers", source(|| Some(1u64)));
    let out = graph.add("out", NodeSpec::stage(Last(stops.enter(), Some(begun))));
    graph.connect(&numbers, &out);
    (graph, has_begun)
}

#[test]
fn a_busy_flow_in_a_nursery_that_is_cancelled_stops_its_nodes() {
    on_both(|builder| {
        let stops = Census::default();
        let (graph, begun) = busy(&stops);
        let flow = builder.register(graph).build().unwrap();
        let outcome = nursery(|nursery| {
            nursery.spawn(move || flow.run().map(drop).map_err(|error| error.to_string()));
            begun.recv().unwrap();
            nursery.cancel();
            Ok(())
        });
        assert!(outcome.is_err_and(|error| error.is_cancelled()));
        assert_eq!(stops.count(), 100, "its nodes were stopped and dropped");
    });
}

#[test]
fn an_idle_flow_in_a_nursery_with_a_deadline_stops_its_nodes() {
    on_both(|builder| {
        let stops = Census::default();
        let (graph, begun) = busy(&stops);
        let flow = builder.register(graph).build().unwrap();
        flow.handle().pause("numbers").unwrap();
        let options = NurseryOptions::new().timeout(Duration::from_millis(30));
        let outcome = nursery_with(options, |nursery| {
            nursery.spawn(move || flow.run().map(drop).map_err(|error| error.to_string()));
            Ok(())
        });
        assert!(outcome.is_err(), "{outcome:?}");
        assert_eq!(stops.count(), 100);
        drop(begun);
    });
}

#[test]
fn a_busy_flow_on_the_thread_of_a_nursery_with_a_deadline_stops_its_nodes() {
    on_both(|builder| {
        let stops = Census::default();
        let (graph, _begun) = busy(&stops);
        let flow = builder.register(graph).build().unwrap();
        let options = NurseryOptions::new().timeout(Duration::from_millis(30));
        let outcome = nursery_with(options, |_| Ok(flow.run().map(drop).map_err(|error| error.to_string())));
        assert!(outcome.is_err(), "{outcome:?}");
        assert_eq!(stops.count(), 100);
    });
}

#[test]
fn a_flow_gives_way_to_other_tasks_of_its_thread() {
    let runtime = sched_tasks::Runtime::builder().workers(1).build().unwrap();
    for workers in [1, 2] {
        let stops = Census::default();
        let (graph, begun) = busy(&stops);
        let flow = Flow::builder().workers(workers).register(graph).build().unwrap();
        let handle = flow.handle();
        runtime
            .nursery(|nursery| {
                nursery.spawn(move || flow.run().map(drop).map_err(|error| error.to_string()).unwrap());
                nursery.spawn(move || {
                    begun.recv().unwrap();
                    handle.shutdown(); // never, if the flow keeps the one thread to itself
                });
                Ok(())
            })
            .unwrap();
        assert_eq!(stops.count(), 100);
    }
}

#[test]
fn a_node_that_blocks_does_not_keep_independent_nodes_waiting() {
    // Each of two sinks waits for the other: they run at the same time, from their first messages on.
    let (to_left, from_right) = sched_tasks::channel::<()>(1);
    let (to_right, from_left) = sched_tasks::channel::<()>(1);
    let mut graph = Graph::new("meet");
    let mut add = |name: &str, said: sched_tasks::Sender<()>, heard: sched_tasks::Receiver<()>| {
        let numbers = graph.add(format!("{name}-numbers"), from_iter(0..3u64));
        let out = sink(move |_: u64| {
            said.send(()).unwrap();
            heard.recv().unwrap();
        });
        let out = graph.add(name, out);
        graph.connect(&numbers, &out);
    };
    add("left", to_right, from_right);
    add("right", to_left, from_left);
    let flow = Flow::builder().workers(2).register(graph).build().unwrap();
    assert!(flow.run().unwrap().drained);
}

#[test]
fn a_seed_decides_over_what_nodes_start_on_one_worker_and_on_two() {
    sched_tasks::explore(0..20, || {
        on_both(|builder| {
            let census = Census::default();
            let (graph, said) = family(Fails::Never, &census);
            builder.register(graph).build().unwrap().run().unwrap();
            assert_eq!(census.count(), 0);
            assert_eq!(said.iter().last(), Some(0), "a task outlived its node");
        });
    });
}
