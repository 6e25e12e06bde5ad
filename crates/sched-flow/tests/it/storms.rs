//! Flows under load: a kill switch, bursts, a slow consumer, ticks.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    task::Waker,
    time::{Duration, Instant},
};

use sched_flow::{
    Call, Control, Flow, Graph, Message, NodeError, NodeResult, NodeSpec, Observer, Out, Policy, Produced, Source,
    Stage, Waits, from_iter, map, sink, source,
};

use crate::basics::{keep, on_both};

/// A source that says `Stop` when it is woken.
struct Switch {
    give: Option<mpsc::Sender<Waker>>,
    pressed: Arc<AtomicBool>,
}

impl Source for Switch {
    type Out = Control;

    fn on_start(&mut self, out: &mut Out<'_, Control>) -> NodeResult {
        self.give.take().unwrap().send(out.waker())?;
        Ok(())
    }

    fn produce(&mut self, out: &mut Out<'_, Control>) -> Result<Produced, NodeError> {
        if self.pressed.load(SeqCst) {
            out.emit(Control::Stop);
            return Ok(Produced::End);
        }
        Ok(Produced::Idle)
    }
}

#[test]
fn a_kill_switch_gets_through_under_any_load() {
    on_both(|builder| {
        let (give, given) = mpsc::channel();
        let pressed = Arc::new(AtomicBool::new(false));
        let turns = Arc::new(AtomicU64::new(0));
        let mut graph = Graph::new("kill");
        let switch = Switch { give: Some(give), pressed: Arc::clone(&pressed) };
        let switch = graph.add("switch", NodeSpec::source(switch).band(sched_flow::Band::Control));
        for number in 0..8 {
            let counts = Arc::clone(&turns);
            let busy = graph.add(format!("busy-{number}"), source(move || Some(counts.fetch_add(1, SeqCst))));
            let pass = graph.add(format!("pass-{number}"), map(|n: u64| n));
            let out = graph.add(format!("out-{number}"), sink(|_: u64| ()));
            graph.connect(&busy, &pass).capacity(16).priority(number % 2 * 10);
            graph.connect(&pass, &out).capacity(16).priority(number % 2 * 10);
            graph.connect(&switch, busy.control()).control();
        }
        let flow = builder.register(graph).batch(16).build().unwrap();
        let waker = given;
        let presser = std::thread::spawn({
            let turns = Arc::clone(&turns);
            move || {
                let waker: Waker = waker.recv().unwrap();
                while turns.load(SeqCst) < 10_000 {
                    std::thread::yield_now();
                }
                pressed.store(true, SeqCst);
                waker.wake();
                turns.load(SeqCst)
            }
        });
        let ended = flow.run().unwrap();
        let pressed_at = presser.join().unwrap();
        assert!(ended.drained);
        // The switch has its turn after one of another band at most, and each of eight edges after one more, on each worker: 16 messages each. The
        // thread that presses reads the number a moment after it pressed, so there may be fewer.
        let after = turns.load(SeqCst).saturating_sub(pressed_at);
        assert!(after <= 2 * 2 * 9 * 16, "{after} messages were made after the switch was pressed");
    });
}

/// The nodes that were called, in order.
struct Order(Arc<Mutex<Vec<(String, &'static str)>>>);

impl Observer for Order {
    fn call_began(&self, call: &Call<'_>) {
        self.0.lock().unwrap().push((call.node.to_owned(), call.name));
    }
}

#[test]
fn a_control_message_waits_for_one_turn_of_another_band_at_most() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut graph = Graph::new("one-turn");
    for number in 0..3 {
        let busy = graph.add(format!("busy-{number}"), from_iter(0..500u64));
        let out = graph.add(format!("out-{number}"), sink(|_: u64| ()));
        graph.connect(&busy, &out).capacity(4).priority(number % 2 * 10);
    }
    // A control message now and then, from the middle of the load.
    let mut asked = 0;
    let sometimes = graph.add(
        "sometimes",
        sched_flow::flat_map(move |n: u64| {
            asked += 1;
            (asked % 7 == 0).then_some(n)
        }),
    );
    let trigger = graph.add("trigger", from_iter(0..500u64));
    let alarm = graph.add("alarm", sink(|_: u64| ()));
    graph.connect(&trigger, &sometimes).capacity(4);
    graph.connect(&sometimes, &alarm).control();
    let flow = Flow::builder().register(graph).batch(1).observer(Order(Arc::clone(&order))).build().unwrap();
    flow.run().unwrap();
    let order: Vec<String> =
        order.lock().unwrap().iter().filter(|(_, name)| *name == "on_message").map(|(n, _)| n.clone()).collect();
    let mut emitted = 0;
    let mut waits = 0;
    let mut handled = 0;
    for node in &order {
        match node.as_str() {
            "sometimes" => {
                emitted += 1;
                waits = 0;
            }
            "alarm" => {
                handled += 1;
                assert!(waits <= 1, "a control message waited for {waits} turns of others");
            }
            _ => waits += 1,
        }
    }
    assert_eq!((emitted, handled), (500, 71));
}

/// Says how many turns others had had when it was woken.
struct Caller {
    give: Option<mpsc::Sender<Waker>>,
    turns: Arc<AtomicU64>,
    at: Arc<AtomicU64>,
}

impl Source for Caller {
    type Out = u64;

    fn on_start(&mut self, out: &mut Out<'_, u64>) -> NodeResult {
        self.give.take().unwrap().send(out.waker())?;
        Ok(())
    }

    fn produce(&mut self, out: &mut Out<'_, u64>) -> Result<Produced, NodeError> {
        let at = self.at.load(SeqCst);
        if at == 0 {
            return Ok(Produced::Idle);
        }
        out.emit(self.turns.load(SeqCst) - at);
        Ok(Produced::End)
    }
}

#[test]
fn a_message_of_control_is_one_from_its_source_on() {
    let (give, given) = mpsc::channel::<Waker>();
    let mut given = Some(given);
    let (turns, at) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut graph = Graph::new("end-to-end");
    // Nothing is said of the source and the stage between: they feed only control.
    let caller = Caller { give: Some(give), turns: Arc::clone(&turns), at: Arc::clone(&at) };
    let caller = graph.add("caller", NodeSpec::source(caller));
    let between = graph.add("between", map(|turns: u64| turns));
    let waited = Arc::new(AtomicU64::new(u64::MAX));
    let (counts, result) = (Arc::clone(&turns), Arc::clone(&waited));
    let called = Arc::clone(&at);
    let alarm = sink(move |_: u64| result.store(counts.load(SeqCst) - called.load(SeqCst), SeqCst));
    let alarm = graph.add("alarm", alarm);
    graph.connect(&caller, &between);
    graph.connect(&between, &alarm).control();
    for number in 0..200 {
        let (turns, at) = (Arc::clone(&turns), Arc::clone(&at));
        let given = (number == 0).then(|| given.take()).flatten();
        let mut left = 50;
        let busy = graph.add(
            format!("busy-{number}"),
            source(move || {
                let turn = turns.fetch_add(1, SeqCst) + 1;
                left -= 1;
                // The caller was started before.
                if left == 25
                    && let Some(waker) = given.as_ref().and_then(|given| given.try_recv().ok())
                {
                    at.store(turn, SeqCst);
                    waker.wake();
                }
                (left > 0).then_some(turn)
            }),
        );
        let out = graph.add(format!("out-{number}"), sink(|_: u64| ()));
        graph.connect(&busy, &out).capacity(4);
    }
    Flow::builder().register(graph).batch(1).build().unwrap().run().unwrap();
    // Three turns of control, and before each at most one of others.
    assert!(waited.load(SeqCst) <= 3, "{} turns of others came before it", waited.load(SeqCst));
}

#[test]
fn bursts_meet_mixed_policies() {
    on_both(|builder| {
        let mut graph = Graph::new("burst");
        // A hundred at a time.
        let mut burst = 0u64;
        let bursts = source(move || {
            burst += 1;
            (burst <= 50).then_some(burst)
        });
        let bursts = graph.add("bursts", bursts);
        let spread = graph.add("spread", sched_flow::flat_map(|n: u64| (n - 1) * 100..n * 100));
        graph.connect(&bursts, &spread);
        let (block, all) = keep::<u64>();
        let (drop, first) = keep::<u64>();
        let (latest, newest) = keep::<u64>();
        let sums = Arc::new(Mutex::new(Vec::new()));
        let sum = {
            let sums = Arc::clone(&sums);
            sink(move |pair: (u64, u64)| sums.lock().unwrap().push(pair))
        };
        let pair = graph.add("pair", map(|n: u64| (n, 1u64)));
        let (block, drop, latest, sum) =
            (graph.add("block", block), graph.add("drop", drop), graph.add("latest", latest), graph.add("sum", sum));
        graph.connect(&spread, &block).capacity(7);
        graph.connect(&spread, &drop).capacity(7).policy(Policy::Drop);
        graph.connect(&spread, &latest).capacity(7).policy(Policy::Latest);
        graph.connect(&spread, &pair);
        graph.connect(&pair, &sum).capacity(7).coalesce(|waiting: &mut (u64, u64), new: &(u64, u64)| {
            waiting.0 += new.0;
            waiting.1 += new.1;
            Ok(())
        });
        let ended = builder.register(graph).build().unwrap().run().unwrap();
        assert!(ended.drained);
        assert!(all.lock().unwrap().iter().copied().eq(0..5_000), "Block delivers everything in order");
        let (first, newest) = (first.lock().unwrap(), newest.lock().unwrap());
        assert!(first.is_sorted() && first[0] == 0 && newest.is_sorted() && *newest.last().unwrap() == 4_999);
        let total = sums.lock().unwrap().iter().fold((0, 0), |all, pair| (all.0 + pair.0, all.1 + pair.1));
        assert_eq!(total, ((0..5_000).sum(), 5_000), "merging loses nothing");
        for edge in &ended.stats.edges {
            let fates = edge.delivered + edge.dropped + edge.replaced + edge.coalesced;
            assert_eq!((edge.put, edge.depth), (fates, 0), "{edge:?}");
        }
        let edge = |to: &str| ended.stats.edges.iter().find(|edge| edge.id.ends_with(&format!("{to}:in"))).unwrap();
        assert_eq!(edge("drop").delivered, first.len() as u64);
        assert_eq!(edge("latest").delivered, newest.len() as u64);
        assert_eq!(edge("sum").delivered, sums.lock().unwrap().len() as u64);
    });
}

/// A watcher that fails takes the flow with it.
struct GivesUp(sched_flow::Handle);

impl Drop for GivesUp {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop_now();
        }
    }
}

/// CPU time of this process, or None where it is not known.
fn cpu_time() -> Option<Duration> {
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        total += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(total))
}

/// Takes one message, then none until it is opened.
struct Slow(Arc<AtomicBool>, u64, Option<mpsc::Sender<Waker>>);

impl Stage for Slow {
    type In = u64;
    type Out = u64;

    fn on_start(&mut self, out: &mut Out<'_, u64>) -> NodeResult {
        self.2.take().unwrap().send(out.waker())?;
        Ok(())
    }

    fn on_message(&mut self, message: Message<u64>, out: &mut Out<'_, u64>) -> NodeResult {
        self.1 += 1;
        out.emit(message.payload);
        Ok(())
    }

    fn accepts(&self) -> bool {
        self.1 == 0 || self.0.load(SeqCst)
    }
}

#[test]
fn a_producer_that_waits_for_a_slow_consumer_costs_nothing() {
    on_both(|builder| {
        let open = Arc::new(AtomicBool::new(false));
        let (give, given) = mpsc::channel::<Waker>();
        let mut graph = Graph::new("slow");
        let numbers = graph.add("numbers", from_iter(0..1_000u64));
        let pass = graph.add("pass", map(|n: u64| n));
        let slow = graph.add("slow", NodeSpec::stage(Slow(Arc::clone(&open), 0, Some(give))));
        let (node, kept) = keep::<u64>();
        let out = graph.add("out", node);
        graph.connect(&numbers, &pass).capacity(4);
        graph.connect(&pass, &slow).capacity(4);
        graph.connect(&slow, &out);
        let flow = builder.register(graph).build().unwrap();
        let handle = flow.handle();
        let watcher = std::thread::spawn(move || {
            let _gives_up = GivesUp(handle.clone());
            let waits = |node: &str| handle.why(node).unwrap().waits;
            let is_quiet = || {
                let busy = |node: &str| matches!(waits(node), Waits::Runs | Waits::Turn);
                handle.stats().edges[..2].iter().all(|edge| edge.blocked && edge.depth == 4)
                    && handle.stats().node("out").unwrap().messages == 1
                    && !handle.nodes().any(busy)
            };
            while !is_quiet() {
                std::thread::yield_now();
            }
            let turns = |handle: &sched_flow::Handle| handle.stats().nodes.iter().map(|node| node.turns).sum::<u64>();
            let (turns_before, cpu_before) = (turns(&handle), cpu_time());
            std::thread::sleep(Duration::from_millis(200)); // this is what is measured: nothing happens meanwhile
            let (turns_after, cpu_after) = (turns(&handle), cpu_time());
            assert_eq!(turns_before, turns_after, "a flow that waits gives turns");
            if let (Some(before), Some(after)) = (cpu_before, cpu_after) {
                // Other tests of this process may run meanwhile; alone, as `cargo nextest` runs it, this is next to nothing.
                let alone = std::env::var_os("NEXTEST").is_some();
                assert!(!alone || after - before < Duration::from_millis(20), "{:?} of CPU", after - before);
            }
            let why = handle.why("numbers").unwrap().to_string();
            assert_eq!(why, "numbers waits for room: numbers:out->pass:in is full (4 of 4), pass is running");
            assert_eq!(handle.why("slow").unwrap().to_string(), "slow takes no input until what it has begun is done");
            open.store(true, SeqCst);
            given.recv().unwrap().wake();
        });
        let ended = flow.run().unwrap();
        watcher.join().unwrap();
        assert!(ended.drained && kept.lock().unwrap().iter().copied().eq(0..1_000));
    });
}

#[test]
fn ticks_keep_their_pace_under_constant_load() {
    const EVERY: Duration = Duration::from_millis(20);
    struct Ticks(Arc<Mutex<Vec<Instant>>>);
    impl Stage for Ticks {
        type In = u64;
        type Out = ();
        fn outputs(&self) -> Vec<String> {
            Vec::new()
        }
        fn on_message(&mut self, _: Message<u64>, _: &mut Out<'_, ()>) -> NodeResult {
            Ok(())
        }
        fn on_tick(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
            let mut times = self.0.lock().unwrap();
            times.push(Instant::now());
            if times.len() == 20 {
                out.shutdown();
            }
            Ok(())
        }
    }
    on_both(|builder| {
        let times = Arc::new(Mutex::new(Vec::new()));
        let mut graph = Graph::new("ticks");
        // Two busy chains in bands above, and one that also loads the node that ticks.
        for (number, priority) in [100, 10, 0].into_iter().enumerate() {
            let busy = graph.add(format!("busy-{number}"), source(|| Some(1u64)));
            let out = graph.add(format!("out-{number}"), sink(|_: u64| ()));
            graph.connect(&busy, &out).priority(priority);
        }
        let load = graph.add("load", source(|| Some(1u64)));
        let ticks = graph.add("ticks", NodeSpec::stage(Ticks(Arc::clone(&times))).tick(EVERY));
        graph.connect(&load, &ticks);
        let ended = builder.register(graph).build().unwrap().run().unwrap();
        let times = times.lock().unwrap();
        // On a machine that others use, too, a worker may be kept from running for longer than an interval; most of the time it is not.
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let far = gaps.iter().filter(|gap| **gap > EVERY * 2).count();
        assert!(far <= 6, "{far} ticks are more than an interval late: {gaps:?}");
        let node = ended.stats.node("ticks").unwrap();
        let passed = ended.stats.elapsed.as_millis() / EVERY.as_millis();
        assert!(u128::from(node.ticks + node.ticks_missed) <= passed, "a tick came before its time");
    });
}

#[test]
fn ticks_are_exact_in_virtual_time() {
    let times = Arc::new(Mutex::new(Vec::new()));
    struct Ticks(Arc<Mutex<Vec<u64>>>);
    impl Source for Ticks {
        type Out = u64;
        fn produce(&mut self, out: &mut Out<'_, u64>) -> Result<Produced, NodeError> {
            self.0.lock().unwrap().push(out.now().nanos());
            Ok(if self.0.lock().unwrap().len() == 1_000 { Produced::End } else { Produced::More })
        }
    }
    let mut graph = Graph::new("exact");
    let ticks = graph.add("ticks", NodeSpec::source(Ticks(Arc::clone(&times))).tick(Duration::from_secs(3)));
    let load = graph.add("load", from_iter(0..10_000u64));
    let (node, kept) = keep::<u64>();
    let out = graph.add("out", node);
    graph.connect(&ticks, &out);
    graph.connect(&load, &out);
    let ended = Flow::builder().register(graph).virtual_time().build().unwrap().run().unwrap();
    assert!(times.lock().unwrap().iter().copied().eq((1..=1_000).map(|n| n * 3_000_000_000)));
    assert_eq!((ended.stats.elapsed, kept.lock().unwrap().len()), (Duration::from_secs(3_000), 10_000));
}

#[test]
fn forty_thousand_merges_into_one_list_copy_nothing_and_hold_no_lock() {
    /// Counts how often it is copied.
    #[derive(Default)]
    struct List(Vec<u64>, Arc<AtomicU64>);
    impl Clone for List {
        fn clone(&self) -> Self {
            self.1.fetch_add(1, SeqCst);
            List(self.0.clone(), Arc::clone(&self.1))
        }
    }
    const COUNT: u64 = 40_000;
    let copies = Arc::new(AtomicU64::new(0));
    let handle = Arc::new(Mutex::new(None::<sched_flow::Handle>));
    let mut graph = Graph::new("list");
    let counts = Arc::clone(&copies);
    let numbers = graph.add("numbers", from_iter((0..COUNT).map(move |n| List(vec![n], Arc::clone(&counts)))));
    // It takes nothing until all were put.
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&kept);
    let out = graph.add("out", sink(move |list: List| keeps.lock().unwrap().extend(list.0)));
    let looks = Arc::clone(&handle);
    graph.connect(&numbers, &out).capacity(1).coalesce(move |waits: &mut List, new: &List| {
        waits.0.extend(&new.0);
        if new.0[0].is_multiple_of(10_000) {
            // A handle wants the lock of this edge; if it were held here, this would not return.
            assert_eq!(looks.lock().unwrap().as_ref().unwrap().stats().edges[0].depth, 1);
        }
        Ok(())
    });
    let flow = Flow::builder().register(graph).batch(1_000_000).virtual_time().build().unwrap();
    *handle.lock().unwrap() = Some(flow.handle());
    let ended = flow.run().unwrap();
    assert!(kept.lock().unwrap().iter().copied().eq(0..COUNT), "nothing is lost, and all is in order");
    assert_eq!(copies.load(SeqCst), 0);
    assert!(ended.stats.edges[0].coalesced > COUNT / 2, "{:?}", ended.stats.edges[0]);
}

#[test]
fn a_merge_that_fails_makes_its_producer_wait_and_loses_nothing() {
    on_both(|builder| {
        let mut graph = Graph::new("fails");
        let numbers = graph.add("numbers", from_iter((0..5_000u64).map(|n| vec![n])));
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&kept);
        let out = graph.add("out", sink(move |list: Vec<u64>| keeps.lock().unwrap().extend(list)).batch(1));
        // Every third cannot be merged: by an error, or by a panic.
        graph.connect(&numbers, &out).capacity(2).coalesce(|waits: &mut Vec<u64>, new: &Vec<u64>| {
            match new[0] % 6 {
                0 => return Err(NodeError::msg("not this one")),
                3 => panic!("nor this one"),
                _ => waits.extend(new),
            }
            Ok(())
        });
        let ended = builder.register(graph).build().unwrap().run().unwrap();
        assert!(ended.drained);
        assert!(kept.lock().unwrap().iter().copied().eq(0..5_000));
        let edge = &ended.stats.edges[0];
        assert_eq!(edge.put, edge.delivered + edge.coalesced, "{edge:?}");
    });
}
