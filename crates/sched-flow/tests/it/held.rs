//! A flow that is stopped says of every message that a node took and had not finished with that it is lost.

use std::{future::pending, thread, time::Duration};

use sched_flow::{
    Flow, Graph, NodeError, NodeSpec, Payload, Span, batcher, correlator, debounce, delay, from_channel, keyed_window,
    lines_out, map_async, sliding_window, tcp_out, to_channel, to_task, tumbling_window,
};
use sched_tasks::channel;

const LONG: Duration = Duration::from_secs(600);

/// Gives `node` these messages, and stops the flow when it took them: how many are lost.
fn stopped_with<T: Payload>(node: impl Into<NodeSpec>, input: &str, messages: Vec<T>) -> u64 {
    let (count, (give, take)) = (messages.len() as u64, channel(64));
    let mut graph = Graph::new("stopped");
    let source = graph.add("source", from_channel::<T>(take));
    let node = graph.add("node", node);
    graph.connect(&source, node.input(input));
    // A correlator has two inputs.
    let (_silent, nothing) = channel::<T>(1);
    if let Some(other) = ["left", "right"].into_iter().find(|other| *other != input && input != "in") {
        let silent = graph.add("silent", from_channel(nothing));
        graph.connect(&silent, node.input(other));
    }
    let flow = Flow::new(graph).unwrap();
    let handle = flow.handle();
    thread::scope(|scope| {
        let running = scope.spawn(|| flow.run());
        messages.into_iter().for_each(|message| give.send(message).unwrap());
        while handle.stats().node("node").unwrap().messages < count {
            thread::sleep(Duration::from_millis(1)); // its counters can only be polled: they wake no task
        }
        handle.stop_now();
        let ended = match running.join().unwrap() {
            Ok(ended) => ended.stats,
            Err(_) => handle.stats(),
        };
        let node = ended.node("node").unwrap();
        assert_eq!(node.held, 0, "it is over");
        node.lost
    })
}

fn numbers(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[test]
fn what_was_gathered_for_later_is_lost() {
    assert_eq!(stopped_with(batcher::<u64>(4), "in", numbers(7)), 3, "one batch of four is full");
    assert_eq!(stopped_with(tumbling_window::<u64>(Span::Time(LONG)), "in", numbers(5)), 5);
    assert_eq!(stopped_with(tumbling_window::<u64>(Span::Count(4)), "in", numbers(5)), 1);
    assert_eq!(stopped_with(sliding_window::<u64>(Span::Count(4), Span::Count(2)), "in", numbers(7)), 1);
    let counts = keyed_window(Span::Time(LONG), |n: &u64| n % 2).fold(0_u64, |count, _| *count += 1);
    assert_eq!(stopped_with(counts, "in", numbers(5)), 5);
    let pairs = || correlator(|n: &u64| *n, |n: &u64| *n, LONG);
    assert_eq!(stopped_with(pairs(), "left", numbers(5)), 5);
    assert_eq!(stopped_with(pairs().capacity(2), "right", numbers(5)), 2, "the others left unmatched");
    assert_eq!(stopped_with(debounce::<u64>(LONG), "in", numbers(5)), 1, "the last");
    assert_eq!(stopped_with(delay::<u64>(LONG), "in", numbers(5)), 5);
}

#[test]
fn what_futures_channels_and_tasks_did_not_finish_is_lost() {
    let never = map_async(|_: u64| pending::<Result<u64, NodeError>>()).concurrency(8);
    assert_eq!(stopped_with(never, "in", numbers(5)), 5);
    let (full, _unread) = channel(2);
    assert_eq!(stopped_with(to_channel::<u64>(full), "in", numbers(3)), 1, "the others are in the channel");
    let takes_two = to_task(3, |numbers: sched_tasks::Receiver<u64>| {
        numbers.recv().and_then(|_| numbers.recv()).map_err(|_| NodeError::msg("too few"))?;
        sched_tasks::sleep(LONG);
        Ok::<_, NodeError>(())
    });
    assert_eq!(stopped_with(takes_two, "in", numbers(6)), 4, "three in the channel, and one before it");
}

#[test]
fn lines_that_reached_neither_disk_nor_peer_are_lost() {
    let lines = || vec!["a line".to_owned(); 5];
    assert_eq!(stopped_with(lines_out("/dev/full"), "in", lines()), 5);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    assert_eq!(stopped_with(tcp_out(address), "in", lines()), 5);
}
