//! Nodes that fail or panic, and payloads that do: each policy, on both drivers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use sched_flow::{
    Builder, DeadLetter, Ended, Flow, FlowError, Graph, Message, NodeError, NodeResult, NodeSpec, NodeState, OnError,
    Out, Policy, Retry, Stage, Time, from_iter, map, sink, source,
};

use crate::basics::{keep, on_both};

/// Emits what comes twice, but fails on every tenth, after it has emitted: by an error, or by a panic on every twentieth.
struct Throws {
    calls: Arc<Mutex<Vec<(u64, Time)>>>,
}

impl Stage for Throws {
    type In = u64;
    type Out = u64;

    fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
        let number = message.payload;
        self.calls.lock().unwrap().push((number, out.now()));
        out.emit(number);
        out.emit(number);
        assert!(number % 20 != 10, "{number} is odd, in a way");
        if number.is_multiple_of(20) {
            return Err(NodeError::msg(format!("{number} is too even")));
        }
        Ok(())
    }
}

struct Ran {
    result: Result<Ended, FlowError>,
    kept: Vec<u64>,
    dead: Vec<DeadLetter<u64>>,
    calls: Vec<(u64, Time)>,
    stats: sched_flow::Stats,
}

/// The numbers from 1 to 40 through a node that throws.
fn throw(builder: Builder, policy: OnError) -> Ran {
    let has_dead_letters = matches!(&policy, OnError::DeadLetter)
        || matches!(&policy, OnError::Retry(_) if format!("{policy:?}").contains("DeadLetter"));
    let calls = Arc::default();
    let mut graph = Graph::new("throws");
    let numbers = graph.add("numbers", from_iter(1..=40u64));
    let throws = NodeSpec::stage(Throws { calls: Arc::clone(&calls) }).on_error(policy);
    let throws = graph.add("throws", throws);
    let (node, kept) = keep::<u64>();
    let out = graph.add("out", node);
    let (node, dead) = keep::<DeadLetter<u64>>();
    graph.connect(&numbers, &throws);
    graph.connect(&throws, &out).capacity(3);
    if has_dead_letters {
        let dead_letters = graph.add("dead_letters", node);
        graph.connect(throws.out("dead"), &dead_letters).capacity(1);
    }
    let flow = builder.register(graph).build().unwrap();
    let handle = flow.handle();
    let result = flow.run();
    let (kept, dead, calls) = (kept.lock().unwrap(), dead.lock().unwrap(), calls.lock().unwrap());
    Ran { result, kept: kept.clone(), dead: dead.clone(), calls: calls.clone(), stats: handle.stats() }
}

/// What gets through when every tenth fails.
fn others() -> Vec<u64> {
    (1..=40).filter(|n| n % 10 != 0).flat_map(|n| [n, n]).collect()
}

#[test]
fn skip_goes_on_without_the_message_and_what_it_emitted() {
    on_both(|builder| {
        let ran = throw(builder, OnError::Skip);
        assert!(ran.result.unwrap().drained);
        assert_eq!(ran.kept, others());
        let node = ran.stats.node("throws").unwrap();
        assert_eq!((node.errors, node.messages, node.emitted), (4, 36, 72));
        assert_eq!(node.last_error.as_deref(), Some("40 is too even"));
        assert_eq!(ran.stats.edges[0].delivered, 40);
    });
}

#[test]
fn a_panic_is_told_in_its_words() {
    on_both(|builder| {
        let ran = throw(builder, OnError::DeadLetter);
        assert_eq!(ran.dead[0].error.as_ref(), "panicked: 10 is odd, in a way");
    });
}

#[test]
fn dead_letters_leave_by_their_own_output() {
    on_both(|builder| {
        let ran = throw(builder, OnError::DeadLetter);
        assert!(ran.result.unwrap().drained);
        assert_eq!(ran.kept, others());
        let dead: Vec<_> = ran.dead.iter().map(|letter| (letter.payload, letter.tries)).collect();
        assert_eq!(dead, [(10, 1), (20, 1), (30, 1), (40, 1)]);
        assert_eq!(ran.dead[1].error.as_ref(), "20 is too even");
    });
}

#[test]
fn stop_node_drops_the_rest_and_ends_those_behind() {
    on_both(|builder| {
        let ran = throw(builder, OnError::StopNode);
        assert!(ran.result.unwrap().drained);
        assert_eq!(ran.kept, (1..10).flat_map(|n| [n, n]).collect::<Vec<u64>>());
        let edge = &ran.stats.edges[0];
        assert_eq!((edge.put, edge.delivered, edge.dropped), (40, 10, 30));
        assert_eq!(ran.stats.node("throws").unwrap().errors, 1);
    });
}

#[test]
fn stop_graph_returns_the_error() {
    on_both(|builder| {
        let ran = throw(builder, OnError::StopGraph);
        let error = ran.result.unwrap_err();
        assert_eq!(error.to_string(), "node `throws` stopped the graph: panicked: 10 is odd, in a way");
        assert!(ran.stats.nodes.iter().all(|node| node.state == NodeState::Stopped));
        assert_eq!(ran.calls.len(), 10, "it was called after it had stopped the graph");
    });
}

#[test]
fn retry_pauses_longer_each_time_and_keeps_the_order() {
    let policy = || {
        let retry = Retry::times(4).backoff(Duration::from_millis(1)).at_most(Duration::from_millis(3));
        OnError::Retry(retry.then(OnError::DeadLetter))
    };
    let ran = throw(Flow::builder().virtual_time(), policy());
    assert_eq!(ran.kept, others());
    let dead: Vec<_> = ran.dead.iter().map(|letter| (letter.payload, letter.tries)).collect();
    assert_eq!(dead, [(10, 5), (20, 5), (30, 5), (40, 5)]);
    let of_ten: Vec<_> = ran.calls.iter().filter(|(n, _)| *n == 10).map(|(_, at)| *at).collect();
    let pauses: Vec<_> = of_ten.windows(2).map(|pair| pair[1].since(pair[0]).as_millis()).collect();
    assert_eq!(pauses, [1, 2, 3, 3]);
    let node = ran.stats.node("throws").unwrap();
    assert_eq!((node.errors, node.retries, node.messages), (20, 16, 36));
    on_both(|builder| {
        let ran = throw(builder, policy());
        assert_eq!(ran.kept, others());
        assert!(ran.dead.iter().all(|letter| letter.tries == 5) && ran.dead.len() == 4);
        for number in [10, 20, 30, 40] {
            let times: Vec<_> = ran.calls.iter().filter(|(n, _)| *n == number).map(|(_, at)| *at).collect();
            assert_eq!(times.len(), 5);
            for (pair, pause) in times.windows(2).zip([1, 2, 3, 3]) {
                assert!(pair[1].since(pair[0]) >= Duration::from_millis(pause), "{number}: {times:?}");
            }
        }
    });
}

#[test]
fn a_message_that_is_replaced_while_it_rests_leaves_its_failures_behind() {
    // The first fails once and backs off; the second takes its place, and has all its tries.
    let calls = Arc::new(Mutex::new(Vec::new()));
    let mut numbers = 0..2u64;
    let mut graph = Graph::new("replaced");
    let numbers = graph.add("numbers", source(move || numbers.next()).tick(Duration::from_millis(1)));
    let log = Arc::clone(&calls);
    let fails = sched_flow::try_map(move |n: u64| -> Result<u64, NodeError> {
        log.lock().unwrap().push(n);
        Err(NodeError::msg("never"))
    });
    let retry = Retry::times(2).backoff(Duration::from_millis(10)).then(OnError::DeadLetter);
    let fails = graph.add("fails", fails.on_error(OnError::Retry(retry)));
    let (node, dead) = keep::<DeadLetter<u64>>();
    let dead_letters = graph.add("dead_letters", node);
    graph.connect(&numbers, &fails).capacity(1).policy(Policy::Latest);
    graph.connect(fails.out("dead"), &dead_letters);
    Flow::builder().register(graph).virtual_time().build().unwrap().run().unwrap();
    assert_eq!(*calls.lock().unwrap(), [0, 1, 1, 1]);
    let dead = dead.lock().unwrap();
    assert_eq!((dead.len(), dead[0].payload, dead[0].tries), (1, 1, 3));
}

/// 1,000 bad records, then a good one.
struct Junk(u64);

impl sched_flow::Source for Junk {
    type Out = u64;
    fn produce(&mut self, out: &mut Out<'_, u64>) -> Result<sched_flow::Produced, NodeError> {
        self.0 += 1;
        match self.0 {
            1..=1_000 => Err(NodeError::msg("junk").of_record()),
            1_001 => {
                out.emit(1);
                Ok(sched_flow::Produced::More)
            }
            _ => Ok(sched_flow::Produced::End),
        }
    }
}

#[test]
fn a_bad_record_is_not_a_failed_source() {
    for policy in [OnError::Skip, OnError::Retry(Retry::times(5).backoff(Duration::from_secs(3600)))] {
        let mut graph = Graph::new("junk");
        let junk = graph.add("junk", NodeSpec::source(Junk(0)).on_error(policy));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&junk, &out);
        let ended = Flow::builder().register(graph).virtual_time().build().unwrap().run().unwrap();
        assert_eq!(*kept.lock().unwrap(), [1]);
        assert_eq!(ended.stats.node("junk").unwrap().errors, 1_000);
        assert_eq!(ended.stats.elapsed, Duration::ZERO, "no node waited");
    }
    let mut graph = Graph::new("junk");
    let junk = graph.add("junk", NodeSpec::source(Junk(0)).on_error(OnError::StopGraph));
    let (node, _) = keep::<u64>();
    let out = graph.add("out", node);
    graph.connect(&junk, &out);
    assert!(Flow::builder().register(graph).virtual_time().build().unwrap().run().is_err());
}

#[test]
fn a_source_that_fails_is_asked_again_and_does_not_eat_the_cpu() {
    struct Flaky(u64);
    impl sched_flow::Source for Flaky {
        type Out = u64;
        fn produce(&mut self, out: &mut Out<'_, u64>) -> Result<sched_flow::Produced, NodeError> {
            self.0 += 1;
            out.emit(self.0);
            assert!(self.0 != 4, "four");
            match self.0 {
                n if n > 10 => Ok(sched_flow::Produced::End),
                n if n % 3 == 0 => Err(NodeError::msg(format!("{n} is bad"))),
                _ => Ok(sched_flow::Produced::More),
            }
        }
    }
    for policy in [OnError::Skip, OnError::DeadLetter, OnError::Retry(Retry::times(2))] {
        on_both(|builder| {
            let mut graph = Graph::new("flaky");
            let flaky = graph.add("flaky", NodeSpec::source(Flaky(0)).on_error(policy.clone()));
            let (node, kept) = keep::<u64>();
            let out = graph.add("out", node);
            graph.connect(&flaky, &out);
            let ended = builder.register(graph).build().unwrap().run().unwrap();
            assert_eq!(*kept.lock().unwrap(), [1, 2, 5, 7, 8, 10, 11], "{policy:?}");
            assert_eq!(ended.stats.node("flaky").unwrap().errors, 4);
        });
    }
    for (policy, passes) in [(OnError::StopNode, true), (OnError::StopGraph, false)] {
        on_both(|builder| {
            let mut graph = Graph::new("flaky");
            let flaky = graph.add("flaky", NodeSpec::source(Flaky(0)).on_error(policy.clone()));
            let (node, kept) = keep::<u64>();
            let out = graph.add("out", node);
            graph.connect(&flaky, &out);
            let result = builder.register(graph).build().unwrap().run();
            assert_eq!(result.is_ok(), passes);
            if passes {
                assert_eq!(*kept.lock().unwrap(), [1, 2]);
            }
        });
    }
}

/// A payload that panics when it is cloned the so-many-th time, or dropped.
struct Touchy {
    number: u64,
    clones: Arc<AtomicU64>,
    drops: bool,
}

impl Clone for Touchy {
    fn clone(&self) -> Self {
        assert!(self.clones.fetch_sub(1, SeqCst) != 1, "do not copy me");
        Self { number: self.number, clones: Arc::clone(&self.clones), drops: self.drops }
    }
}

impl Drop for Touchy {
    fn drop(&mut self) {
        assert!(!self.drops || std::thread::panicking(), "do not drop me");
    }
}

fn touchy(numbers: u64, clones: u64, drops: Option<u64>) -> NodeSpec {
    let clones = Arc::new(AtomicU64::new(clones));
    let mut next = 0;
    source(move || {
        next += 1;
        (next <= numbers).then(|| Touchy { number: next, clones: Arc::clone(&clones), drops: drops == Some(next) })
    })
}

#[test]
fn a_payload_that_cannot_be_kept_for_a_retry_fails_alone() {
    for policy in [OnError::Retry(Retry::times(3)), OnError::DeadLetter] {
        on_both(|builder| {
            let mut graph = Graph::new("touchy");
            let from = graph.add("from", touchy(6, 4, None));
            let pass = graph.add("pass", map(|touchy: Touchy| touchy.number).on_error(policy.clone()));
            let (node, kept) = keep::<u64>();
            let out = graph.add("out", node);
            graph.connect(&from, &pass);
            graph.connect(&pass, &out);
            let ended = builder.register(graph).build().unwrap().run().unwrap();
            // The fourth copy fails: the third is neither lost nor handled again.
            assert_eq!(*kept.lock().unwrap(), [1, 2, 3, 5, 6], "{policy:?}");
            assert_eq!(ended.stats.node("pass").unwrap().errors, 1);
        });
    }
}

#[test]
fn a_payload_that_panics_on_its_way_stops_the_graph_with_an_error() {
    for policy in [Policy::Drop, Policy::Latest, Policy::Block] {
        on_both(|builder| {
            let mut graph = Graph::new("touchy");
            // A fan copies; an edge that is full drops.
            let from = graph.add("from", touchy(100, 7, (policy != Policy::Block).then_some(5)));
            let one = graph.add("one", sink(|_: Touchy| ()));
            graph.connect(&from, &one).capacity(2).policy(policy);
            if policy == Policy::Block {
                let two = graph.add("two", sink(|_: Touchy| ()));
                graph.connect(&from, &two).capacity(50);
            }
            let flow = builder.register(graph).build().unwrap();
            let handle = flow.handle();
            let result = flow.run();
            if let Err(error) = result {
                let error = error.to_string();
                assert!(error.starts_with("node `from` stopped the graph: panicked: do not"), "{error}");
            } else {
                // Some worker took it before it came to that, and its node failed.
                assert_eq!(handle.stats().node("one").unwrap().errors, 1);
            }
            assert!(handle.stats().nodes.iter().all(|node| node.state == NodeState::Stopped));
        });
    }
}

/// Every second record is bad.
struct Halves(u64);

impl sched_flow::Source for Halves {
    type Out = u64;
    fn produce(&mut self, out: &mut Out<'_, u64>) -> Result<sched_flow::Produced, NodeError> {
        self.0 += 1;
        match self.0 {
            101.. => Ok(sched_flow::Produced::End),
            odd if odd % 2 == 1 => {
                out.emit(odd); // taken back
                Err(NodeError::msg(format!("{odd} is odd")).with_record(odd.to_string()))
            }
            even => {
                out.emit(even);
                Ok(sched_flow::Produced::More)
            }
        }
    }
}

#[test]
fn a_source_whose_input_fails_rests_longer_each_time_and_no_longer_than_a_second() {
    struct Broken(u32);
    impl sched_flow::Source for Broken {
        type Out = u64;
        fn produce(&mut self, _: &mut Out<'_, u64>) -> Result<sched_flow::Produced, NodeError> {
            self.0 += 1;
            if self.0 > 12 { Ok(sched_flow::Produced::End) } else { Err(NodeError::msg("the disk fails")) }
        }
    }
    let mut graph = Graph::new("broken");
    let broken = graph.add("broken", NodeSpec::source(Broken(0)));
    let out = graph.add("out", sink(|_: u64| ()));
    graph.connect(&broken, &out);
    let ended = Flow::builder().register(graph).virtual_time().build().unwrap().run().unwrap();
    assert_eq!(ended.stats.node("broken").unwrap().errors, 12);
    // 2, 4, 8 … 512 ms, and then a second each.
    assert_eq!(ended.stats.elapsed, Duration::from_millis(1_022 + 3_000));
}

#[test]
fn a_bad_record_of_a_source_leaves_by_its_dead_output() {
    let slow = Retry::times(5).backoff(Duration::from_secs(3600)).then(OnError::DeadLetter);
    for policy in [OnError::DeadLetter, OnError::Retry(slow)] {
        on_both(|builder| {
            let mut graph = Graph::new("halves");
            let halves = graph.add("halves", NodeSpec::source(Halves(0)).on_error(policy.clone()));
            let (node, kept) = keep::<u64>();
            let out = graph.add("out", node);
            let (node, letters) = keep::<DeadLetter<Vec<u8>>>();
            let dead = graph.add("dead", node);
            graph.connect(&halves, &out);
            // A full edge of dead letters holds the source up, as any other does.
            graph.connect(halves.out("dead"), dead.input("in")).capacity(1);
            let ended = builder.register(graph).build().unwrap().run().unwrap();
            assert_eq!(*kept.lock().unwrap(), (1..=50).map(|half| 2 * half).collect::<Vec<_>>());
            let letters = letters.lock().unwrap();
            let records: Vec<String> =
                letters.iter().map(|letter| String::from_utf8(letter.payload.clone()).unwrap()).collect();
            assert_eq!(records, (0..50).map(|half| (2 * half + 1).to_string()).collect::<Vec<_>>());
            assert_eq!((&*letters[0].error, letters[0].tries), ("1 is odd", 1));
            assert_eq!(ended.stats.node("halves").unwrap().errors, 50);
            assert!(ended.drained);
        });
    }
}
