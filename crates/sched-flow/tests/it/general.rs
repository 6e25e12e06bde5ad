//! Nodes with ports of several types, in whole flows; and how things look when they are printed.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use sched_flow::{
    AnyMessage, Band, Context, Control, DeadLetter, Flow, Graph, Kind, Message, Node, NodeError, NodeResult, NodeSpec,
    NodeState, OnError, Out, Policy, Ports, Schema, Stage, Time, TraceId, from_iter, map, sink,
};

use crate::basics::{keep, on_both};

/// Adds numbers and repeats words; says what it heard at its end. Words that are too long fail.
#[derive(Default)]
struct Mixed {
    sum: u64,
    ticks: u32,
    woken: bool,
}

impl Node for Mixed {
    fn ports(&self, ports: &mut Ports) {
        ports.input::<u64>("number").input::<String>("word").optional_input::<bool>("never");
        ports.output::<String>("out").output::<u64>("sum");
    }

    fn on_start(&mut self, cx: &mut Context<'_>) -> NodeResult {
        assert_eq!(cx.node(), "mixed");
        let waker = cx.waker();
        cx.spawn(move || waker.wake());
        cx.tick_at(cx.now() + Duration::from_millis(1));
        Ok(())
    }

    fn on_message(&mut self, port: &str, message: AnyMessage<'_>, cx: &mut Context<'_>) -> NodeResult {
        match port {
            "number" => {
                self.sum += message.take::<u64>()?.payload;
                cx.emit("sum", self.sum)?;
            }
            _ => {
                let header = message.header();
                assert!(format!("{message:?}").ends_with("alloc::string::String hidden)"));
                let word: Message<String> = message.take()?;
                assert_eq!(word.header, header);
                match word.payload.as_str() {
                    "wrong-type" => cx.emit("out", 1u64)?,
                    "no-output" => cx.emit("nowhere", 1u64)?,
                    "too-long" => return Err(NodeError::msg("too long")),
                    _ => cx.send("out", word)?,
                }
            }
        }
        Ok(())
    }

    fn on_tick(&mut self, _: &mut Context<'_>) -> NodeResult {
        self.ticks += 1;
        Ok(())
    }

    fn on_wake(&mut self, _: &mut Context<'_>) -> NodeResult {
        self.woken = true;
        Ok(())
    }

    fn on_end(&mut self, cx: &mut Context<'_>) -> NodeResult {
        cx.emit("out", format!("{} {} {}", self.sum, self.ticks, self.woken))?;
        cx.out::<String>("out")?.emit(String::from("end"));
        Ok(())
    }

    fn on_stop(&mut self, cx: &mut Context<'_>) -> NodeResult {
        cx.emit("out", String::from("this reaches no consumer"))
    }

    fn is_done(&self) -> bool {
        self.woken && self.ticks > 0
    }
}

#[test]
fn a_node_with_ports_of_several_types_keeps_them_apart() {
    on_both(|builder| {
        let mut graph = Graph::new("mixed");
        let numbers = graph.add("numbers", from_iter(1..=100u64));
        let words = ["a", "wrong-type", "b", "no-output", "too-long", "c"].map(String::from);
        let words = graph.add("words", from_iter(words));
        let mixed = graph.add("mixed", NodeSpec::node(Mixed::default()).on_error(OnError::DeadLetter));
        let (node, heard) = keep::<String>();
        let out = graph.add("out", node);
        let (node, sums) = keep::<u64>();
        let sum = graph.add("sum", node);
        let (node, dead) = keep::<DeadLetter<String>>();
        let dead_letters = graph.add("dead_letters", node);
        graph.connect(&numbers, mixed.input("number")).capacity(3);
        graph.connect(&words, mixed.input("word")).capacity(1);
        graph.connect(mixed.out("out"), &out).capacity(1);
        graph.connect(mixed.out("sum"), &sum).capacity(2);
        graph.connect(mixed.out("dead-word"), &dead_letters).capacity(1);
        let ended = builder.register(graph).build().unwrap().run().unwrap();
        assert!(ended.drained);
        assert_eq!(*heard.lock().unwrap(), ["a", "b", "c", "5050 1 true", "end"]);
        assert!(sums.lock().unwrap().iter().copied().eq((1..=100).map(|n| n * (n + 1) / 2)));
        let dead = dead.lock().unwrap();
        let errors: Vec<_> = dead.iter().map(|letter| (letter.payload.as_str(), letter.error.as_ref())).collect();
        assert_eq!(
            errors,
            [
                ("wrong-type", "the port carries alloc::string::String, not u64; use the type it was declared with"),
                ("no-output", "node `mixed` has no output `nowhere`; declare it in `ports`"),
                ("too-long", "too long"),
            ]
        );
    });
}

#[test]
fn a_message_that_its_schema_refuses_fails_the_call_that_emits_it() {
    on_both(|builder| {
        let small = |limit: u64| {
            Schema::new(
                "small",
                move |n: &u64| if *n < limit { Ok(()) } else { Err(format!("{n} is not below {limit}")) },
            )
        };
        let mut graph = Graph::new("schema");
        let numbers = graph.add("numbers", from_iter(0..10u64));
        let pass = graph.add("pass", map(|n: u64| n).schema("out", small(8)).on_error(OnError::DeadLetter));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node.schema("in", small(6)));
        let (node, dead) = keep::<DeadLetter<u64>>();
        let dead_letters = graph.add("dead_letters", node);
        graph.connect(&numbers, &pass);
        graph.connect(&pass, &out);
        graph.connect(pass.out("dead"), &dead_letters);
        builder.register(graph).build().unwrap().run().unwrap();
        assert!(kept.lock().unwrap().iter().copied().eq(0..6));
        let errors: Vec<_> = dead.lock().unwrap().iter().map(|letter| letter.error.to_string()).collect();
        assert_eq!(
            errors,
            ["6 is not below 6", "7 is not below 6", "8 is not below 8", "9 is not below 8"],
            "the consumer's schema is checked where the message is made"
        );
    });
}

#[test]
fn a_node_that_floods_its_output_fails_and_the_flood_is_gone() {
    let mut graph = Graph::new("flood");
    let once = graph.add("once", from_iter([1u64, 2]));
    let floods = graph.add("floods", sched_flow::flat_map(|n: u64| 0..if n == 1 { 2_000_000 } else { 2u64 }));
    let count = Arc::new(Mutex::new(0));
    let counts = Arc::clone(&count);
    let out = graph.add("out", sink(move |_: u64| *counts.lock().unwrap() += 1));
    graph.connect(&once, &floods);
    graph.connect(&floods, &out);
    let ended = Flow::new(graph).unwrap().run().unwrap();
    assert_eq!(*count.lock().unwrap(), 2);
    assert_eq!(
        ended.stats.node("floods").unwrap().last_error.as_deref(),
        Some("node `floods` emitted more than 1048576 messages in one call; emit fewer at a time, or make it a source")
    );
}

#[test]
fn things_are_printed_in_plain_words() {
    let words =
        |things: &[&dyn std::fmt::Display]| things.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!(words(&[&Kind::Data, &Kind::Control, &Kind::Error]), "data control error");
    assert_eq!(words(&[&Control::Stop, &Control::Pause, &Control::Resume]), "stop pause resume");
    assert_eq!(
        words(&[&Policy::Block, &Policy::Drop, &Policy::Latest, &Policy::Coalesce]),
        "block drop latest coalesce"
    );
    assert_eq!(words(&[&Band::Control, &Band::High, &Band::Normal]), "control high normal");
    let states = [NodeState::Created, NodeState::Running, NodeState::Paused, NodeState::Ending];
    assert_eq!(states.map(|state| state.to_string()).join(" "), "created running paused ending");
    let states = [NodeState::Ended, NodeState::Failed, NodeState::Stopped];
    assert_eq!(states.map(|state| state.to_string()).join(" "), "ended failed stopped");
    assert_eq!(words(&[&TraceId(255), &Time::from_nanos(1_500)]), "00000000000000ff 1.5µs");
    assert_eq!(Band::ALL.map(Band::priority), [100, 10, 0]);
    let message = Message::new("secret").map(|text| text.len());
    assert_eq!(format!("{message:?}"), "Message(data 0000000000000000 at 0ns, payload hidden)");
    assert_eq!(format!("{:?}", message.reveal()), "Message(data 0000000000000000 at 0ns, 6)");
    let error = NodeError::from(std::fmt::Error);
    assert!(error.downcast_ref::<std::fmt::Error>().is_some());
    assert_eq!((format!("{error}"), format!("{error:?}")), (std::fmt::Error.to_string(), String::from("Error")));
    assert_eq!(format!("{:?}", Schema::<u64>::named("metres")), "Schema(metres)");
    assert_eq!(format!("{:?}", map(|n: u64| n)), "NodeSpec { inputs: [\"in\"], outputs: [\"out\"], .. }");
    let mut graph = Graph::new("shown");
    let (from, to) = (graph.add("from", from_iter([1u64])), graph.add("to", sink(|_: u64| ())));
    let edge = graph.connect(&from, &to).capacity(3).policy(Policy::Latest);
    assert_eq!(format!("{edge:?}"), "Connect { edge: from:out->to:in latest 3 }");
    assert_eq!((graph.name(), from.name()), ("shown", "from"));
    assert!(format!("{graph:?}").contains("edges: [\"from:out->to:in\"]"));
    let builder = Flow::builder().register(graph);
    assert!(format!("{builder:?}").starts_with("Builder { graphs: [Graph"));
    let flow = builder.build().unwrap();
    let shown = "Flow { name: \"shown\", nodes: [\"from\", \"to\"], edges: [\"from:out->to:in\"] }";
    assert_eq!(format!("{flow:?}"), shown);
}

#[test]
fn a_handle_outlives_its_flow() {
    let (say, said) = mpsc::channel();
    let mut graph = Graph::new("gone");
    let from = graph.add("from", from_iter([1u64]));
    let to = graph.add("to", sink(move |n: u64| say.send(n).unwrap()));
    graph.connect(&from, &to);
    let flow = Flow::new(graph).unwrap();
    let handle = flow.handle();
    drop(flow); // never run
    handle.shutdown();
    handle.stop_now();
    assert_eq!(handle.stats().nodes.len(), 2);
    drop(handle);
    assert!(said.recv().is_err(), "its nodes are gone with the last handle");
}

/// Puts what comes, and keeps what was said of it.
struct Puts(Arc<Mutex<Vec<sched_flow::PutResult>>>);

impl Stage for Puts {
    type In = u64;
    type Out = u64;

    fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
        let result = out.put(message.payload);
        self.0.lock().unwrap().push(result);
        // What was put stays, whatever becomes of the call; what is emitted after it does not.
        if message.payload == 1 {
            out.emit(999);
            return Err(NodeError::msg("after it was put"));
        }
        Ok(())
    }
}

#[test]
fn a_put_tells_what_became_of_its_message() {
    use sched_flow::PutResult::{self, Blocked, Closed, Coalesced, Dropped, Ok as Accepted, Replaced};
    let results = |connect: fn(sched_flow::Connect<'_>)| -> (Vec<PutResult>, Vec<u64>) {
        let results = Arc::new(Mutex::new(Vec::new()));
        let mut graph = Graph::new("results");
        let numbers = graph.add("numbers", from_iter(0..4u64));
        let puts = graph.add("puts", NodeSpec::stage(Puts(Arc::clone(&results))));
        let (node, kept) = crate::basics::keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&numbers, &puts);
        connect(graph.connect(&puts, &out).capacity(2));
        Flow::builder().register(graph).virtual_time().build().unwrap().run().unwrap();
        let (results, kept) = (results.lock().unwrap().clone(), kept.lock().unwrap().clone());
        (results, kept)
    };
    assert_eq!(results(|edge| _ = edge.policy(Policy::Drop)), (vec![Accepted, Accepted, Dropped, Dropped], vec![0, 1]));
    assert_eq!(
        results(|edge| _ = edge.policy(Policy::Latest)),
        (vec![Accepted, Accepted, Replaced, Replaced], vec![2, 3])
    );
    let sum = |edge: sched_flow::Connect<'_>| {
        let _ = edge.coalesce(|waits: &mut u64, new: &u64| {
            *waits += new;
            Ok(())
        });
    };
    assert_eq!(results(sum), (vec![Accepted, Accepted, Coalesced, Coalesced], vec![0, 6]));
    // A node takes no message while its edge is full, so a second one in a call is what has to wait.
    let (results, kept) = twice();
    assert_eq!((results, kept), (vec![Accepted, Accepted, Blocked], vec![0, 1, 2]));
    // No edge: there is no consumer.
    let mut graph = Graph::new("unconnected");
    let results = Arc::new(Mutex::new(Vec::new()));
    let numbers = graph.add("numbers", from_iter(0..2u64));
    let puts = graph.add("puts", NodeSpec::stage(Puts(Arc::clone(&results))));
    graph.connect(&numbers, &puts);
    Flow::new(graph).unwrap().run().unwrap();
    assert_eq!(*results.lock().unwrap(), [Closed, Closed]);
}

/// Three puts in one call to an edge that holds two.
fn twice() -> (Vec<sched_flow::PutResult>, Vec<u64>) {
    struct Three(Arc<Mutex<Vec<sched_flow::PutResult>>>);
    impl Stage for Three {
        type In = u64;
        type Out = u64;
        fn on_message(&mut self, _: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
            (0..3).for_each(|number| self.0.lock().unwrap().push(out.put(number)));
            Ok(())
        }
    }
    let results = Arc::new(Mutex::new(Vec::new()));
    let mut graph = Graph::new("three");
    let one = graph.add("one", from_iter([0u64]));
    let three = graph.add("three", NodeSpec::stage(Three(Arc::clone(&results))));
    let (left, kept) = crate::basics::keep::<u64>();
    let (right, also) = crate::basics::keep::<u64>();
    let (left, right) = (graph.add("left", left), graph.add("right", right));
    graph.connect(&one, &three);
    // The other edge has room for all: it gets each once, although one of them waits for the first.
    graph.connect(&three, &left).capacity(2);
    graph.connect(&three, &right);
    let ended = Flow::builder().register(graph).virtual_time().build().unwrap().run().unwrap();
    assert!(ended.drained);
    assert_eq!(*also.lock().unwrap(), [0, 1, 2]);
    assert_eq!(ended.stats.node("three").unwrap().emitted, 3);
    let (results, kept) = (results.lock().unwrap().clone(), kept.lock().unwrap().clone());
    (results, kept)
}

#[test]
fn the_kind_of_a_message_survives_map_filter_merger_and_inspect() {
    let mut nodes = [
        sched_flow::map(|n: u64| n + 1),
        sched_flow::filter(|_: &u64| true),
        sched_flow::merger::<u64>(),
        sched_flow::inspect(|_: &u64| ()),
    ]
    .map(sched_flow::Harness::new);
    for (at, node) in nodes.iter_mut().enumerate() {
        for kind in [Kind::Data, Kind::Error, Kind::Control] {
            let mut message = Message::of(kind, 7u64);
            message.header.trace = TraceId(99);
            let header = message.header;
            node.send_message("in", message).unwrap();
            assert_eq!(node.take_messages::<u64>("out")[0].header, header, "node {at}, {kind}");
        }
    }
}

#[test]
fn the_time_of_a_flow_stops_at_its_end() {
    let mut graph = Graph::new("time");
    let numbers = graph.add("numbers", from_iter(0..3u64));
    let out = graph.add("out", sink(|_: u64| ()));
    graph.connect(&numbers, &out);
    let flow = Flow::new(graph).unwrap();
    let handle = flow.handle();
    let ended = flow.run().unwrap().stats.elapsed;
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(5) {
        std::hint::spin_loop(); // what is looked at is that time passes
    }
    assert_eq!(handle.stats().elapsed, ended);
}

#[test]
fn dead_letters_without_an_edge_are_counted_as_lost() {
    let mut graph = Graph::new("nowhere");
    let numbers = graph.add("numbers", from_iter(0..10u64));
    let odd = sched_flow::try_sink(|n: u64| if n.is_multiple_of(2) { Ok(()) } else { Err(NodeError::msg("odd")) });
    let odd = graph.add("odd", odd.on_error(OnError::DeadLetter));
    graph.connect(&numbers, &odd);
    let ended = Flow::new(graph).unwrap().run().unwrap();
    let odd = ended.stats.node("odd").unwrap();
    assert_eq!((odd.errors, odd.lost), (5, 5));
}
