//! Our chain of ten nodes, for the workloads that measure it and for the program that counts its allocations.
//!
//! A file of its own, because a counting allocator must not slow down all the others: it lives in
//! `src/bin/flow_allocations.rs`, a second program that shares this one.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bursar::flow::{Flow, Graph, map, sink, source};

/// What every edge holds.
pub const CAPACITY: usize = 1024;
/// Nodes between the source and the sink.
pub const STAGES: usize = 8;

/// Sends `count` numbers down the chain and says what arrived, added up.
///
/// On the calling thread, or on so many workers.
pub fn ours(count: u64, workers: Option<usize>) -> Result<u64, Box<dyn Error>> {
    let total = Arc::new(AtomicU64::new(0));
    let mut graph = Graph::new("chain");
    let mut numbers = 0..count;
    let mut last = graph.add("source", source(move || numbers.next()));
    for stage in 0..STAGES {
        let next = graph.add(format!("stage-{stage}"), map(|value: u64| value + 1));
        graph.connect(last.out("out"), next.input("in")).capacity(CAPACITY);
        last = next;
    }
    let (mut sum, seen) = (0, total.clone());
    let end = graph.add(
        "sink",
        sink(move |value: u64| {
            sum += value;
            seen.store(sum, Ordering::Relaxed);
        }),
    );
    graph.connect(last.out("out"), end.input("in")).capacity(CAPACITY);

    let mut flow = Flow::builder().register(graph);
    if let Some(workers) = workers {
        flow = flow.workers(workers);
    }
    flow.build()?.run()?;
    Ok(total.load(Ordering::Relaxed))
}

/// Whether that is what `count` messages add up to.
pub fn check(count: u64, sum: u64) -> Result<(), Box<dyn Error>> {
    let expected = count * (count - 1) / 2 + STAGES as u64 * count;
    if sum == expected {
        return Ok(());
    }
    Err(format!("the messages add up to {expected}, not to {sum}").into())
}
