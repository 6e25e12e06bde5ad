//! Flows that run for long need no more memory than at the beginning.
//!
//! In a binary of its own: what is measured is the memory of the process. A few seconds here; half an hour, or `SOAK_MINUTES`, with
//! `cargo xtask test soak`.
#![cfg(not(loom))]

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread::sleep,
    time::{Duration, Instant},
};

use sched_flow::{
    Builder, DeadLetter, Flow, Graph, Handle, Message, NodeError, NodeResult, NodeSpec, OnError, Out, Policy, Retry,
    Stage, map, sink, source,
};
use test_support::resident_bytes;

/// So much more may be in use at the end than after the warm-up: caches and the allocator's own.
const SLACK_BYTES: usize = 8 << 20;

/// Passes texts on, fails now and then in all ways, has ticks, and starts tasks.
struct Moody {
    count: u64,
}

impl Stage for Moody {
    type In = String;
    type Out = String;

    fn on_message(&mut self, message: Message<String>, out: &mut Out<'_, String>) -> NodeResult {
        self.count += 1;
        out.emit(message.payload);
        match self.count % 1_000 {
            0 => resume_unwind(Box::new("a panic that prints nothing")),
            500 => Err(NodeError::msg("one of the bad ones")),
            _ => Ok(()),
        }
    }

    fn on_tick(&mut self, out: &mut Out<'_, String>) -> NodeResult {
        out.emit(format!("tick at {}", out.now()));
        out.spawn(|| ());
        Ok(())
    }
}

/// Everything at once: all policies, errors, ticks, tasks, a cycle.
fn everything() -> Graph {
    let mut graph = Graph::new("soak");
    let mut count = 0u64;
    let numbers = graph.add(
        "numbers",
        source(move || {
            count += 1;
            Some(format!("a text of which there are many: {count}"))
        }),
    );
    let retry = Retry::times(2).backoff(Duration::from_micros(50)).at_most(Duration::from_micros(50));
    let policies = [OnError::Skip, OnError::Retry(retry.then(OnError::DeadLetter)), OnError::DeadLetter];
    let dead_letters = graph.add("dead_letters", sink(|_: DeadLetter<String>| ()));
    for (number, policy) in [Policy::Block, Policy::Drop, Policy::Latest].into_iter().enumerate() {
        let on_error = policies[number].clone();
        let has_dead_letters = on_error != OnError::Skip;
        let moody = NodeSpec::stage(Moody { count: 0 }).tick(Duration::from_millis(5)).on_error(on_error);
        let moody = graph.add(format!("moody-{number}"), moody);
        let out = graph.add(format!("out-{number}"), sink(|_: String| ()));
        graph.connect(&numbers, &moody).capacity(64).policy(policy).priority(10 * number as i32);
        graph.connect(&moody, &out).capacity(16).coalesce(|waiting: &mut String, new: &String| {
            if waiting.len() > 500 {
                return Err(NodeError::msg("long enough"));
            }
            waiting.push_str(new);
            Ok(())
        });
        if has_dead_letters {
            graph.connect(moody.out("dead"), &dead_letters).capacity(4);
        }
    }
    let round = graph.add(
        "round",
        map(|mut text: String| {
            text.truncate(100);
            text
        }),
    );
    graph.connect(&numbers, &round).policy(Policy::Drop).capacity(8);
    graph.connect(&round, &round).policy(Policy::Latest).capacity(8);
    graph
}

/// Looks at a flow for so long, and says how many messages went through it.
fn watch(handle: &Handle, time: Duration) -> u64 {
    let warm_up = (time / 3).min(Duration::from_secs(60));
    let began = Instant::now();
    sleep(warm_up); // it is load over time that is looked at
    let before = resident_bytes();
    let mut highest = before;
    while began.elapsed() < time {
        sleep((time / 50).min(Duration::from_secs(10)));
        highest = highest.max(resident_bytes());
        for edge in handle.stats().edges {
            let fates = edge.delivered + edge.dropped + edge.replaced + edge.coalesced + edge.depth as u64;
            assert_eq!(edge.put, fates, "{edge:?}");
        }
    }
    let grown = highest.saturating_sub(before);
    assert!(grown < SLACK_BYTES, "memory has grown by {grown} bytes in {time:?}, from {before}");
    handle.stats().nodes.iter().map(|node| node.messages).sum()
}

fn soak(builder: Builder, time: Duration) {
    let flow = builder.register(everything()).drain_timeout(Duration::from_millis(200)).build().unwrap();
    let handle = flow.handle();
    let watcher = std::thread::spawn(move || {
        let watched = catch_unwind(AssertUnwindSafe(|| watch(&handle, time)));
        handle.shutdown();
        watched
    });
    let ended = flow.run().unwrap();
    let messages = watcher.join().unwrap().unwrap_or_else(|panic| resume_unwind(panic));
    println!("{messages} messages in {time:?}");
    assert!(messages > 10_000, "{messages} messages are no load");
    assert!(ended.stats.node("moody-1").unwrap().errors > 0 && ended.stats.node("moody-0").unwrap().ticks > 0);
}

#[test]
fn memory_does_not_grow_in_seconds() {
    soak(Flow::builder(), Duration::from_secs(2));
    soak(Flow::builder().workers(2), Duration::from_secs(2));
}

#[test]
#[ignore = "takes half an hour: `cargo xtask test soak`"]
fn memory_does_not_grow_in_half_an_hour() {
    let minutes = std::env::var("SOAK_MINUTES").map_or(30, |text| text.parse().expect("SOAK_MINUTES is a number"));
    let half = Duration::from_secs(minutes * 30);
    soak(Flow::builder(), half);
    soak(Flow::builder().workers(2), half);
}
