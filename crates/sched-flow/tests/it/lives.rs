//! How flows begin and end: early, twice, from inside, by a command, by a deadline.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    task::Waker,
    time::{Duration, Instant},
};

use sched_flow::{
    Control, Flow, Graph, Message, NodeError, NodeResult, NodeSpec, NodeState, OnError, Out, Policy, Produced, Source,
    Stage, from_iter, map, sink, source,
};

use crate::basics::{keep, on_both};

const TICK: Duration = Duration::from_millis(1);

/// An endless source.
fn endless() -> NodeSpec {
    let mut next = 0u64;
    source(move || {
        next += 1;
        Some(next)
    })
}

#[test]
fn a_flow_that_was_shut_down_before_it_ran_starts_and_stops_its_nodes() {
    on_both(|builder| {
        let mut graph = Graph::new("early");
        let numbers = graph.add("numbers", endless());
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&numbers, &out);
        let flow = builder.register(graph).build().unwrap();
        let handle = flow.handle();
        handle.shutdown();
        handle.shutdown();
        let began = Instant::now();
        let ended = flow.run().unwrap();
        assert!(ended.drained);
        assert!(began.elapsed() < Duration::from_secs(2), "it ran until the time to drain was over");
        assert!(kept.lock().unwrap().is_empty(), "a source was asked");
        assert!(ended.stats.nodes.iter().all(|node| node.state == NodeState::Stopped));
        assert!(handle.is_over());
    });
}

/// Asks for a shutdown when it is started.
struct Tired;

impl Stage for Tired {
    type In = u64;
    type Out = u64;

    fn on_start(&mut self, out: &mut Out<'_, u64>) -> NodeResult {
        out.shutdown();
        Ok(())
    }

    fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
        out.emit(message.payload);
        Ok(())
    }
}

#[test]
fn a_shutdown_that_is_asked_for_in_on_start_ends_sources_that_start_later() {
    on_both(|builder| {
        let mut graph = Graph::new("tired");
        let first = graph.add("first", from_iter(0..3u64));
        let tired = graph.add("tired", NodeSpec::stage(Tired));
        let later = graph.add("later", endless());
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&first, &tired);
        graph.connect(&tired, &out);
        graph.connect(&later, &out);
        let began = Instant::now();
        let ended = builder.register(graph).build().unwrap().run().unwrap();
        assert!(ended.drained && began.elapsed() < Duration::from_secs(2));
        assert!(kept.lock().unwrap().is_empty());
    });
}

#[test]
fn a_shutdown_from_inside_a_node_delivers_what_is_on_its_way() {
    struct UpTo(u64);
    impl Stage for UpTo {
        type In = u64;
        type Out = u64;
        fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
            if message.payload == self.0 {
                out.shutdown();
                out.shutdown();
            }
            out.emit(message.payload);
            Ok(())
        }
    }
    on_both(|builder| {
        let mut graph = Graph::new("enough");
        let numbers = graph.add("numbers", endless());
        let up_to = graph.add("up-to", NodeSpec::stage(UpTo(1_000)));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&numbers, &up_to).capacity(10);
        graph.connect(&up_to, &out).capacity(10);
        let ended = builder.register(graph).build().unwrap().run().unwrap();
        assert!(ended.drained);
        let kept = kept.lock().unwrap();
        assert!(kept.len() >= 1_000 && kept.iter().copied().eq(1..=kept.len() as u64));
        assert!(ended.stats.edges.iter().all(|edge| edge.depth == 0 && edge.put == edge.delivered));
    });
}

#[test]
fn stop_now_leaves_things_where_they_are_and_says_so() {
    on_both(|builder| {
        let mut graph = Graph::new("halt");
        let numbers = graph.add("numbers", endless());
        let out = graph.add("out", sink(|_: u64| ()));
        graph.connect(&numbers, &out).capacity(8);
        let flow = builder.register(graph).build().unwrap();
        let handle = flow.handle();
        handle.pause("out").unwrap();
        let stopper = std::thread::spawn({
            let handle = handle.clone();
            move || {
                while handle.stats().edges[0].depth < 8 {
                    std::thread::yield_now();
                }
                handle.stop_now();
                handle.stop_now();
            }
        });
        let ended = flow.run().unwrap();
        stopper.join().unwrap();
        assert_eq!(ended.stats.edges[0].depth, 8, "a node that was paused before the run has taken something");
        assert!(!ended.drained, "eight messages were left");
    });
}

#[test]
fn a_command_that_comes_before_the_run_is_kept() {
    on_both(|builder| {
        let mut graph = Graph::new("early");
        let numbers = graph.add("numbers", endless());
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&numbers, &out);
        let flow = builder.register(graph).build().unwrap();
        flow.handle().pause("numbers").unwrap();
        flow.handle().resume("numbers").unwrap();
        flow.handle().end("numbers").unwrap();
        assert!(flow.run().unwrap().drained);
        assert!(kept.lock().unwrap().is_empty());
    });
}

/// Gives its waker away when it starts, and waits until it is woken.
struct Wakes {
    give: Option<mpsc::Sender<Waker>>,
    woken: Option<mpsc::Receiver<()>>,
    is_woken: bool,
}

impl Stage for Wakes {
    type In = u64;
    type Out = u64;

    fn on_start(&mut self, out: &mut Out<'_, u64>) -> NodeResult {
        self.give.take().unwrap().send(out.waker())?;
        self.woken.take().unwrap().recv()?; // so it is woken before its start is over
        Ok(())
    }

    fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
        out.emit(message.payload);
        Ok(())
    }

    fn on_wake(&mut self, _: &mut Out<'_, u64>) -> NodeResult {
        self.is_woken = true;
        Ok(())
    }

    fn accepts(&self) -> bool {
        self.is_woken
    }
}

#[test]
fn a_node_that_is_woken_while_it_starts_is_woken() {
    on_both(|builder| {
        let (give, given) = mpsc::channel::<Waker>();
        let (done, woken) = mpsc::channel();
        std::thread::spawn(move || {
            given.recv().unwrap().wake();
            done.send(()).unwrap();
        });
        let mut graph = Graph::new("wakes");
        let numbers = graph.add("numbers", from_iter(0..3u64));
        let wakes = Wakes { give: Some(give), woken: Some(woken), is_woken: false };
        let wakes = graph.add("wakes", NodeSpec::stage(wakes));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&numbers, &wakes);
        graph.connect(&wakes, &out);
        builder.register(graph).build().unwrap().run().unwrap();
        assert_eq!(*kept.lock().unwrap(), [0, 1, 2]);
    });
}

/// Holds one message for a while, as a throttle does.
struct Holds(Option<u64>);

impl Stage for Holds {
    type In = u64;
    type Out = u64;

    fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
        self.0 = Some(message.payload);
        out.tick_at(out.now() + TICK * 20);
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, u64>) -> NodeResult {
        self.0.take().into_iter().for_each(|held| out.emit(held));
        Ok(())
    }

    fn accepts(&self) -> bool {
        self.0.is_none()
    }

    fn is_done(&self) -> bool {
        self.0.is_none()
    }
}

#[test]
fn a_node_that_is_told_to_stop_still_gets_the_tick_it_waits_for() {
    on_both(|builder| {
        let mut graph = Graph::new("throttle");
        let numbers = graph.add("numbers", from_iter(0..100u64));
        let holds = graph.add("holds", NodeSpec::stage(Holds(None)));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&numbers, &holds).capacity(100);
        graph.connect(&holds, &out);
        let flow = builder.register(graph).build().unwrap();
        let handle = flow.handle();
        let ender = std::thread::spawn(move || {
            while handle.stats().node("holds").unwrap().messages == 0 {
                std::thread::yield_now();
            }
            handle.end("holds").unwrap();
        });
        let ended = flow.run().unwrap();
        ender.join().unwrap();
        let kept = kept.lock().unwrap();
        assert!(!kept.is_empty() && kept.len() < 100, "{kept:?}");
        let edge = &ended.stats.edges[0];
        assert_eq!((edge.delivered, edge.dropped), (kept.len() as u64, 100 - kept.len() as u64));
    });
}

#[test]
fn a_cycle_that_never_becomes_quiet_ends_when_the_time_to_drain_is_over() {
    for builder in [
        Flow::builder().virtual_time().drain_timeout(Duration::from_millis(10)),
        Flow::builder().drain_timeout(Duration::from_millis(10)),
        Flow::builder().workers(2).drain_timeout(Duration::from_millis(10)),
    ] {
        let mut graph = Graph::new("cycle");
        let first = graph.add("first", from_iter([1u64]));
        let round = graph.add("round", map(|n: u64| n));
        let and_round = graph.add("and-round", map(|n: u64| n));
        graph.connect(&first, &round);
        graph.connect(&round, &and_round);
        graph.connect(&and_round, &round).policy(Policy::Latest);
        let flow = builder.register(graph).build().unwrap();
        flow.handle().shutdown(); // the one message is on its way, or never begins
        let stopper = flow.handle();
        let late = std::thread::spawn(move || {
            while stopper.stats().node("round").unwrap().messages < 10 && !stopper.is_over() {
                std::thread::yield_now();
            }
        });
        flow.run().unwrap();
        late.join().unwrap();
    }
    // The same with the message on its way for certain.
    struct Spins(u64);
    impl Stage for Spins {
        type In = u64;
        type Out = u64;
        fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
            self.0 += 1;
            if self.0 == 10 {
                out.shutdown();
            }
            out.emit(message.payload);
            Ok(())
        }
    }
    on_both(|builder| {
        for builder in [builder, Flow::builder().virtual_time()] {
            let mut graph = Graph::new("cycle");
            let first = graph.add("first", from_iter([1u64]));
            let spins = graph.add("spins", NodeSpec::stage(Spins(0)));
            graph.connect(&first, &spins);
            graph.connect(&spins, &spins).policy(Policy::Latest);
            let flow = builder.drain_timeout(Duration::from_millis(10)).register(graph).build().unwrap();
            let ended = flow.run().unwrap();
            assert!(!ended.drained, "a message still goes round");
        }
    });
}

#[test]
fn a_cycle_that_becomes_quiet_ends_by_itself() {
    on_both(|builder| {
        let mut graph = Graph::new("halves");
        let numbers = graph.add("numbers", from_iter([64u64, 100, 1]));
        let halve = graph.add("halve", sched_flow::flat_map(|n: u64| (n > 1).then_some(n / 2)));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&numbers, &halve);
        graph.connect(&halve, &halve).policy(Policy::Latest).capacity(100);
        graph.connect(&halve, &out);
        let ended = builder.register(graph).build().unwrap().run().unwrap();
        assert!(ended.drained);
        let mut kept = kept.lock().unwrap().clone();
        kept.sort_unstable();
        assert_eq!(kept, [1, 1, 2, 3, 4, 6, 8, 12, 16, 25, 32, 50]);
    });
}

#[test]
fn a_stuck_consumer_is_given_up_when_the_time_to_drain_is_over() {
    struct Stuck(Arc<AtomicU64>);
    impl Stage for Stuck {
        type In = u64;
        type Out = ();
        fn outputs(&self) -> Vec<String> {
            Vec::new()
        }
        fn on_message(&mut self, _: Message<u64>, _: &mut Out<'_, ()>) -> NodeResult {
            unreachable!("it accepts nothing")
        }
        fn on_stop(&mut self, _: &mut Out<'_, ()>) -> NodeResult {
            self.0.fetch_add(1, SeqCst);
            Ok(())
        }
        fn accepts(&self) -> bool {
            false
        }
    }
    on_both(|builder| {
        let stops = Arc::new(AtomicU64::new(0));
        let mut graph = Graph::new("stuck");
        let numbers = graph.add("numbers", from_iter(0..5u64));
        let stuck = graph.add("stuck", NodeSpec::stage(Stuck(Arc::clone(&stops))));
        graph.connect(&numbers, &stuck).capacity(3);
        let flow = builder.register(graph).drain_timeout(Duration::from_millis(30)).build().unwrap();
        let handle = flow.handle();
        let began = Instant::now();
        let stopper = std::thread::spawn(move || {
            while !handle.stats().edges[0].blocked {
                std::thread::yield_now();
            }
            handle.shutdown();
        });
        let ended = flow.run().unwrap();
        stopper.join().unwrap();
        assert!(began.elapsed() >= Duration::from_millis(30) && began.elapsed() < Duration::from_secs(4));
        assert!(!ended.drained);
        assert_eq!((ended.stats.edges[0].depth, ended.stats.edges[0].delivered), (3, 0));
        assert_eq!(stops.load(SeqCst), 1);
    });
}

#[test]
fn sources_that_have_nothing_end_everything_at_once() {
    struct Over;
    impl Source for Over {
        type Out = u64;
        fn produce(&mut self, out: &mut Out<'_, u64>) -> Result<Produced, NodeError> {
            out.emit(7);
            Ok(Produced::End)
        }
    }
    on_both(|builder| {
        let mut graph = Graph::new("nothing");
        let none = graph.add("none", from_iter(Vec::<u64>::new()));
        let over = graph.add("over", NodeSpec::source(Over));
        let pass = graph.add("pass", map(|n: u64| n));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&none, &pass);
        graph.connect(&pass, &out);
        graph.connect(&over, &out);
        assert!(builder.register(graph).build().unwrap().run().unwrap().drained);
        assert_eq!(*kept.lock().unwrap(), [7], "what is emitted with the end gets through");
    });
}

#[test]
fn a_switch_that_steers_keeps_no_flow_alive() {
    struct Silent;
    impl Source for Silent {
        type Out = Control;
        fn produce(&mut self, _: &mut Out<'_, Control>) -> Result<Produced, NodeError> {
            Ok(Produced::Idle)
        }
    }
    on_both(|builder| {
        let mut graph = Graph::new("switch");
        let switch = graph.add("switch", NodeSpec::source(Silent));
        let relay = graph.add("relay", map(|control: Control| control));
        let numbers = graph.add("numbers", from_iter(0..100u64));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&switch, &relay).control();
        graph.connect(&relay, numbers.control()).control();
        graph.connect(&numbers, &out);
        assert!(builder.register(graph).build().unwrap().run().unwrap().drained);
        assert_eq!(kept.lock().unwrap().len(), 100);
    });
}

/// Says things to the input `control` of another, one for each message.
fn steering(node: &str, words: Vec<Control>) -> (Graph, Arc<Mutex<Vec<u64>>>) {
    let mut graph = Graph::new("steered");
    let numbers = graph.add("numbers", from_iter(0..1_000u64));
    let pass = graph.add("pass", map(|n: u64| n));
    let (sink, kept) = keep::<u64>();
    let out = graph.add("out", sink);
    let switch = graph.add("switch", from_iter(words));
    graph.connect(&numbers, &pass).capacity(4);
    graph.connect(&pass, &out).capacity(4);
    graph.connect(switch.out("out"), format!("{node}:control").as_str()).control();
    (graph, kept)
}

#[test]
fn stop_by_an_edge_ends_a_source_and_a_stage() {
    on_both(|builder| {
        let (graph, kept) = steering("numbers", vec![Control::Stop]);
        let ended = builder.register(graph).batch(1).build().unwrap().run().unwrap();
        let kept = kept.lock().unwrap();
        assert!(ended.drained && kept.len() < 1_000 && kept.iter().copied().eq(0..kept.len() as u64), "{}", kept.len());
        assert!(ended.stats.edges.iter().all(|edge| edge.dropped == 0), "what a source has sent is delivered");
    });
    on_both(|builder| {
        let (graph, kept) = steering("pass", vec![Control::Stop, Control::Resume]);
        let ended = builder.register(graph).batch(1).build().unwrap().run().unwrap();
        let kept = kept.lock().unwrap();
        assert!(ended.drained && kept.len() < 1_000 && kept.iter().copied().eq(0..kept.len() as u64), "{}", kept.len());
        let edge = ended.stats.edge("numbers:out->pass:in").unwrap();
        assert_eq!((edge.put, edge.delivered + edge.dropped), (1_000, 1_000), "the source is not kept waiting");
    });
}

#[test]
fn pause_and_resume_by_an_edge_lose_nothing() {
    for node in ["numbers", "pass", "out"] {
        on_both(|builder| {
            let words = [Control::Pause, Control::Pause, Control::Resume, Control::Resume].repeat(5);
            let (graph, kept) = steering(node, words);
            let ended = builder.register(graph).batch(1).build().unwrap().run().unwrap();
            assert!(ended.drained);
            assert!(kept.lock().unwrap().iter().copied().eq(0..1_000), "{node}");
        });
    }
}

#[test]
fn a_node_that_fails_to_start_gets_no_messages_and_its_cause_is_kept() {
    struct NoStart;
    impl Stage for NoStart {
        type In = u64;
        type Out = u64;
        fn on_start(&mut self, out: &mut Out<'_, u64>) -> NodeResult {
            out.emit(99);
            Err(NodeError::msg("no disk"))
        }
        fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
            out.emit(message.payload);
            Ok(())
        }
    }
    let retry = |then| OnError::Retry(sched_flow::Retry::times(3).then(then));
    for (policy, passes) in [
        (OnError::Skip, true),
        (OnError::DeadLetter, true),
        (retry(OnError::Skip), true),
        (retry(OnError::StopNode), true),
        (OnError::StopNode, true),
        (OnError::StopGraph, false),
    ] {
        on_both(|builder| {
            let mut graph = Graph::new("no-start");
            let numbers = graph.add("numbers", from_iter(0..3u64));
            let fails = graph.add("fails", NodeSpec::stage(NoStart).on_error(policy.clone()));
            let (node, kept) = keep::<u64>();
            let out = graph.add("out", node);
            graph.connect(&numbers, &fails);
            graph.connect(&fails, &out);
            let flow = builder.register(graph).build().unwrap();
            let handle = flow.handle();
            let result = flow.run();
            let stats = handle.stats();
            let fails = stats.node("fails").unwrap();
            assert_eq!((fails.errors, fails.last_error.as_deref()), (1, Some("no disk")), "{policy:?}");
            assert!(kept.lock().unwrap().is_empty(), "{policy:?}");
            assert_eq!(stats.failures().collect::<Vec<_>>(), [("fails", "no disk")]);
            match result {
                Ok(ended) => assert!(passes && ended.drained, "{policy:?}"),
                Err(error) => {
                    assert!(!passes, "{policy:?}");
                    assert_eq!(error.to_string(), "node `fails` stopped the graph: no disk");
                }
            }
        });
    }
}

#[test]
fn a_node_that_finishes_ends_what_feeds_only_it_up_to_the_sources() {
    on_both(|builder| {
        let mut graph = Graph::new("head");
        // Neither source ends by itself; the second also feeds another, which ends after more.
        let one = graph.add("one", source(|| Some(1u64)));
        let two = graph.add("two", source(|| Some(2u64)));
        let pass = graph.add("pass", map(|n: u64| n));
        let merge = graph.add("merge", sched_flow::merger::<u64>());
        let first = graph.add("first", sched_flow::head::<u64>(10));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        let longer = graph.add("longer", sched_flow::head::<u64>(100_000));
        let (node, others) = keep::<u64>();
        let rest = graph.add("rest", node);
        graph.connect(&one, &pass).capacity(4);
        graph.connect(&pass, &merge).capacity(4);
        graph.connect(&two, &merge).capacity(4);
        graph.connect(&merge, &first).capacity(4);
        graph.connect(&first, &out);
        graph.connect(&two, &longer).capacity(4);
        graph.connect(&longer, &rest);
        let ended = builder.register(graph).build().unwrap().run().unwrap();
        assert!(ended.drained);
        assert_eq!((kept.lock().unwrap().len(), others.lock().unwrap().len()), (10, 100_000));
        for edge in &ended.stats.edges {
            assert_eq!((edge.put, edge.depth), (edge.delivered + edge.dropped, 0), "{edge:?}");
        }
        assert_eq!(ended.stats.edge("first:out->out:in").unwrap().delivered, 10);
        assert!(ended.stats.node("one").unwrap().emitted < 100, "it stopped when the first ten were there");
    });
}
