//! What can be asked of a flow while it runs, and what is answered.

use std::{sync::mpsc, task::Waker, time::Duration};

use sched_flow::{
    Band, Flow, Graph, Handle, Message, NodeError, NodeResult, NodeSpec, OnError, Out, Policy, Produced, Retry, Source,
    Stage, from_iter, map, sink, try_sink,
};

use crate::basics::{keep, on_both};

/// Waits until a flow that runs elsewhere has come so far.
fn until(what: impl Fn() -> bool) {
    while !what() {
        std::thread::yield_now();
    }
}

#[test]
fn names_that_are_not_there_are_told_with_those_that_are() {
    let mut graph = Graph::new("g");
    let (from, to) = (graph.add("from", from_iter(0..3u64)), graph.add("to", sink(|_: u64| ())));
    graph.connect(&from, &to);
    let flow = Flow::new(graph).unwrap();
    let handle = flow.handle();
    let error_of = |result: Result<(), sched_flow::ControlError>| result.unwrap_err().to_string();
    assert_eq!(
        error_of(handle.set_capacity("from:out->too:in", 3)),
        "there is no edge `from:out->too:in`; did you mean `from:out->to:in`?"
    );
    assert_eq!(
        error_of(handle.set_priority("absent", 3)),
        "there is no edge `absent`; an edge is called `source:port->target:port`"
    );
    for capacity in [0, sched_flow::MAX_CAPACITY + 1] {
        assert_eq!(
            error_of(handle.set_capacity("from:out->to:in", capacity)),
            format!("from:out->to:in: a capacity of {capacity} is not possible; use 1 to {}", sched_flow::MAX_CAPACITY)
        );
    }
    for result in [handle.pause("absent"), handle.resume("absent"), handle.end("absent")] {
        assert_eq!(error_of(result), "there is no node `absent`; `Handle::nodes` lists them");
    }
    assert!(handle.why("absent").is_err());
    assert_eq!(handle.nodes().collect::<Vec<_>>(), ["from", "to"]);
    assert_eq!(handle.edges().collect::<Vec<_>>(), ["from:out->to:in"]);
    assert_eq!(handle.why("from").unwrap().to_string(), "from waits for nothing: it is created");
    assert_eq!(format!("{handle:?}"), "Handle { flow: \"g\", .. }");
    flow.run().unwrap();
    assert_eq!(handle.why("from:out->to:in").unwrap().to_string(), "to waits for nothing: it is stopped");
    // Late, but harmless.
    handle.pause("to").unwrap();
    handle.set_capacity("from:out->to:in", 7).unwrap();
    handle.shutdown();
}

/// A source that says nothing.
struct Silent(Option<mpsc::Sender<Waker>>);

impl Source for Silent {
    type Out = u64;

    fn on_start(&mut self, out: &mut Out<'_, u64>) -> NodeResult {
        self.0.take().unwrap().send(out.waker())?;
        Ok(())
    }

    fn produce(&mut self, _: &mut Out<'_, u64>) -> Result<Produced, NodeError> {
        Ok(Produced::Idle)
    }
}

/// Runs a flow on a thread and asks it something.
fn ask(flow: Flow, ask: impl FnOnce(&Handle)) -> sched_flow::Ended {
    let handle = flow.handle();
    let runs = std::thread::spawn(move || flow.run().unwrap());
    ask(&handle);
    handle.shutdown();
    runs.join().unwrap()
}

#[test]
fn why_tells_what_a_node_waits_for() {
    on_both(|builder| {
        let (give, _given) = mpsc::channel();
        let (enter, entered) = mpsc::channel();
        let (leave, left) = mpsc::channel::<()>();
        let mut graph = Graph::new("why");
        let silent = graph.add("silent", NodeSpec::source(Silent(Some(give))));
        let waits = graph.add("waits", sink(|_: u64| ()));
        graph.connect(&silent, &waits);
        let numbers = graph.add("numbers", from_iter(0..10u64));
        let fails = try_sink(|_: u64| Err(NodeError::msg("not yet")));
        let retry = Retry::times(100).backoff(Duration::from_secs(3_600)).at_most(Duration::from_secs(3_600));
        let fails = graph.add("fails", fails.on_error(OnError::Retry(retry)));
        graph.connect(&numbers, &fails).capacity(2);
        let few = graph.add("few", from_iter(0..2u64));
        let paused = graph.add("paused", sink(|_: u64| ()));
        let also = graph.add("also", map(|n: u64| n));
        graph.connect(&few, &paused);
        graph.connect(&silent, &also);
        let flow = builder.register(graph).drain_timeout(Duration::ZERO).build().unwrap();
        flow.handle().pause("paused").unwrap();
        flow.handle().pause("also").unwrap();
        ask(flow, |handle| {
            let why = |node: &str| handle.why(node).unwrap().to_string();
            until(|| handle.stats().node("fails").unwrap().errors == 1 && handle.why("paused").unwrap().has_input);
            until(|| why("silent").contains("outside") && why("few").contains("ended"));
            assert_eq!(why("silent"), "silent waits for something to come from outside, or for its next tick");
            assert_eq!(why("waits"), "waits waits for messages");
            assert_eq!(
                why("numbers"),
                "numbers waits for room: numbers:out->fails:in is full (2 of 2), fails is running"
            );
            let fails = why("fails");
            assert!(fails.starts_with("fails failed, and tries the message again in 3"), "{fails}");
            assert_eq!(why("paused"), "paused is paused, and messages wait for it; resume it");
            assert_eq!(why("also"), "also is paused; resume it");
            assert_eq!(why("few"), "few waits for nothing: it is ended");
            assert_eq!(why("few:out->paused:in"), why("paused"));
        });
        // One that runs, and one that would.
        let mut graph = Graph::new("runs");
        let numbers = graph.add("numbers", from_iter(0..10u64));
        let runs = sink(move |n: u64| {
            if n == 0 {
                enter.send(()).unwrap();
                left.recv().unwrap();
            }
        });
        let runs = graph.add("runs", runs);
        graph.connect(&numbers, &runs);
        ask(Flow::builder().register(graph).batch(1).build().unwrap(), |handle| {
            entered.recv().unwrap();
            assert_eq!(handle.why("runs").unwrap().to_string(), "runs runs");
            let numbers = handle.why("numbers").unwrap().to_string();
            assert_eq!(numbers, "numbers has something to do and waits for its turn");
            leave.send(()).unwrap();
        });
    });
}

#[test]
fn an_edge_that_shrinks_below_its_depth_loses_nothing() {
    on_both(|builder| {
        let mut graph = Graph::new("shrinks");
        let numbers = graph.add("numbers", from_iter(0..1_000u64));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&numbers, &out).capacity(100);
        let flow = builder.register(graph).build().unwrap();
        flow.handle().pause("out").unwrap();
        let ended = ask(flow, |handle| {
            let edge = || handle.stats().edges[0].clone();
            until(|| edge().depth == 100 && edge().blocked);
            handle.set_capacity("numbers:out->out:in", 3).unwrap();
            assert_eq!((edge().depth, edge().capacity, edge().blocked), (100, 3, true));
            handle.set_capacity("numbers:out->out:in", 101).unwrap();
            until(|| edge().depth == 101);
            handle.set_capacity("numbers:out->out:in", 2).unwrap();
            handle.set_priority("numbers:out->out:in", 100).unwrap();
            assert_eq!((edge().priority, edge().band), (100, Band::Control));
            handle.resume("out").unwrap();
            until(|| handle.is_over() || edge().delivered == 1_000);
        });
        assert!(ended.drained && kept.lock().unwrap().iter().copied().eq(0..1_000));
        assert_eq!(ended.stats.edges[0].peak, 101);
    });
}

#[test]
fn an_edge_of_the_newest_that_shrinks_keeps_the_newest() {
    on_both(|builder| {
        let mut graph = Graph::new("shrinks");
        let numbers = graph.add("numbers", from_iter(0..100u64));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&numbers, &out).capacity(50).policy(Policy::Latest);
        let flow = builder.register(graph).build().unwrap();
        flow.handle().pause("out").unwrap();
        let ended = ask(flow, |handle| {
            until(|| handle.stats().edges[0].put == 100);
            handle.set_capacity("numbers:out->out:in", 4).unwrap();
            let edge = &handle.stats().edges[0];
            assert_eq!((edge.depth, edge.replaced), (4, 96));
        });
        assert_eq!((ended.drained, &**kept.lock().unwrap()), (true, &[96, 97, 98, 99][..]));
    });
}

#[test]
fn the_laws_of_edges_hold_at_every_look_of_another_thread() {
    struct Twice;
    impl Stage for Twice {
        type In = u64;
        type Out = u64;
        fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
            out.emit(message.payload);
            out.emit(message.payload);
            Ok(())
        }
    }
    on_both(|builder| {
        let mut graph = Graph::new("looks");
        let mut last = graph.add("numbers", from_iter(0..20_000u64));
        for (number, policy) in [Policy::Block, Policy::Drop, Policy::Latest, Policy::Block].into_iter().enumerate() {
            let next = graph.add(format!("twice-{number}"), NodeSpec::stage(Twice));
            graph.connect(&last, &next).capacity(5 + number).policy(policy);
            last = next;
        }
        let flow = builder.register(graph).batch(3).build().unwrap();
        let handle = flow.handle();
        let runs = std::thread::spawn(move || flow.run().unwrap());
        while !handle.is_over() {
            for edge in handle.stats().edges {
                let fates = edge.delivered + edge.dropped + edge.replaced + edge.coalesced + edge.depth as u64;
                assert_eq!(edge.put, fates, "{edge:?}");
                assert!(edge.policy != Policy::Block || edge.depth <= edge.capacity, "{edge:?}");
            }
        }
        assert!(runs.join().unwrap().drained);
    });
}

#[test]
fn what_an_edge_lets_go_of_when_it_shrinks_is_dropped_at_once() {
    #[derive(Clone)]
    struct Counted(std::sync::Arc<()>);
    let all = std::sync::Arc::new(());
    let counted = Counted(std::sync::Arc::clone(&all));
    let mut graph = Graph::new("shrinks");
    let numbers = graph.add("numbers", from_iter(std::iter::repeat_n(counted, 50)));
    let out = graph.add("out", sink(|counted: Counted| drop(counted.0)));
    graph.connect(&numbers, &out).capacity(50).policy(Policy::Latest);
    let flow = Flow::new(graph).unwrap();
    flow.handle().pause("out").unwrap();
    ask(flow, |handle| {
        until(|| handle.stats().edges[0].depth == 50);
        handle.set_capacity("numbers:out->out:in", 4).unwrap();
        assert_eq!(std::sync::Arc::strong_count(&all) - 1, 4);
    });
}

#[test]
fn a_start_and_a_stop_are_no_turns() {
    let mut graph = Graph::new("halted");
    let (from, to) = (graph.add("from", from_iter(0..3u64)), graph.add("to", sink(|_: u64| ())));
    graph.connect(&from, &to);
    let flow = Flow::new(graph).unwrap();
    flow.handle().stop_now();
    let ended = flow.run().unwrap();
    assert!(ended.stats.nodes.iter().all(|node| node.turns == 0), "{:?}", ended.stats.nodes);
}

#[test]
fn the_time_of_a_flow_begins_with_its_run() {
    let mut graph = Graph::new("time");
    let (from, to) = (graph.add("from", from_iter(0..3u64)), graph.add("to", sink(|_: u64| ())));
    graph.connect(&from, &to);
    let flow = Flow::new(graph).unwrap();
    let handle = flow.handle();
    for _ in 0..3 {
        assert_eq!(handle.stats().elapsed, Duration::ZERO, "to read the statistics early does not start the clock");
    }
    assert!(flow.run().unwrap().stats.elapsed > Duration::ZERO);
}
