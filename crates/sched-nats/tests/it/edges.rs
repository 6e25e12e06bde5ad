//! Both halves of an edge, in one process and over a real broker.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sched_flow::{Ended, Flow, Graph, LinkStats, NodeSpec, from_iter, sink};
use sched_nats::{Edge, publish, subscribe};
use test_support::{Broker, until};

const LIMIT: Duration = Duration::from_secs(60);

fn edge(broker: &Broker, subject: &str) -> Edge {
    Edge::new(broker.address(subject).parse().unwrap())
}

fn sends(edge: Edge) -> NodeSpec {
    publish(edge, |number: &u64| number.to_le_bytes().to_vec())
}

fn receives(edge: Edge) -> NodeSpec {
    subscribe(edge, |bytes| Ok(u64::from_le_bytes(bytes.try_into()?)))
}

fn sender(edge: Edge, numbers: std::ops::Range<u64>) -> Flow {
    let mut graph = Graph::new("sender");
    let numbers = graph.add("numbers", from_iter(numbers));
    let send = graph.add("send", sends(edge));
    graph.connect(&numbers, &send);
    Flow::new(graph).unwrap()
}

type Got = Arc<Mutex<Vec<u64>>>;

fn receiver(edge: Edge, pause: Duration) -> (Flow, Got) {
    let got = Got::default();
    let into = Arc::clone(&got);
    let mut graph = Graph::new("receiver");
    let receive = graph.add("receive", receives(edge));
    let keep = graph.add(
        "keep",
        sink(move |number: u64| {
            if !pause.is_zero() {
                thread::sleep(pause);
            }
            into.lock().unwrap().push(number);
        }),
    );
    graph.connect(&receive, &keep);
    (Flow::new(graph).unwrap(), got)
}

fn link(ended: &Ended, node: &str) -> LinkStats {
    ended.stats.node(node).unwrap().link.clone().unwrap()
}

#[test]
fn every_message_comes_once_and_in_order_and_the_end_comes_too() {
    let Some(broker) = Broker::start() else { return };
    let (receiver, got) = receiver(edge(&broker, "numbers"), Duration::ZERO);
    let receiving = thread::spawn(move || receiver.run().unwrap());
    let sent = sender(edge(&broker, "numbers"), 0..10_000).run().unwrap();
    let received = receiving.join().unwrap();
    assert_eq!(*got.lock().unwrap(), (0..10_000).collect::<Vec<_>>());
    assert_eq!(link(&sent, "send").stored, 10_000);
    let counts = link(&received, "receive");
    assert_eq!((counts.received, counts.delivered), (10_000, 10_000), "{counts:?}");
    assert_eq!((counts.redelivered, counts.missing), (0, 0), "{counts:?}");
}

#[test]
fn a_broker_that_is_killed_and_restarted_loses_nothing() {
    let Some(mut broker) = Broker::start() else { return };
    let (receiver, got) = receiver(edge(&broker, "numbers"), Duration::from_micros(20));
    let receiving = thread::spawn(move || receiver.run().unwrap());
    let sender = sender(edge(&broker, "numbers"), 0..60_000);
    let sending = thread::spawn(move || sender.run().unwrap());
    for part in 1..=2 {
        until(LIMIT, "messages come", || got.lock().unwrap().len() > part * 10_000);
        broker.kill();
        thread::sleep(Duration::from_millis(200));
        broker.restart();
    }
    let (sent, received) = (sending.join().unwrap(), receiving.join().unwrap());
    assert_eq!(*got.lock().unwrap(), (0..60_000).collect::<Vec<_>>());
    let (sent, received) = (link(&sent, "send"), link(&received, "receive"));
    assert_eq!((sent.stored, received.received, received.delivered), (60_000, 60_000, 60_000));
    assert_eq!(received.missing, 0);
    println!("resent {}, duplicates {}", sent.resent, received.duplicates);
}

#[test]
fn what_was_not_handled_is_given_to_the_next_process() {
    let Some(broker) = Broker::start() else { return };
    sender(edge(&broker, "numbers"), 0..1_000).run().unwrap();
    let (first, got) = receiver(edge(&broker, "numbers"), Duration::from_millis(2));
    let handle = first.handle();
    let receiving = thread::spawn(move || first.run());
    until(LIMIT, "messages come", || got.lock().unwrap().len() > 50);
    handle.stop_now();
    let _ = receiving.join().unwrap();
    let before = got.lock().unwrap().len() as u64;
    assert!(before < 1_000, "{before}");
    let (second, rest) = receiver(edge(&broker, "numbers"), Duration::ZERO);
    let ended = second.run().unwrap();
    let rest = rest.lock().unwrap();
    assert_eq!(*rest.last().unwrap(), 999);
    assert!(rest[0] <= before, "none is missing between {before} and {}", rest[0]);
    assert_eq!(*rest, (rest[0]..1_000).collect::<Vec<_>>());
    let counts = link(&ended, "receive");
    assert_eq!((counts.received, counts.missing), (rest.len() as u64, 0));
    assert!(counts.redelivered >= before - rest[0], "{counts:?}");
}

#[test]
fn a_slow_receiver_holds_up_the_sender() {
    let Some(broker) = Broker::start() else { return };
    let small = |subject| edge(&broker, subject).window(64, 1 << 20).at_the_broker(1 << 20);
    let mut graph = Graph::new("sender");
    let blocks = graph.add("blocks", from_iter((0..4_000_u64).map(|number| vec![number as u8; 4096])));
    let send = graph.add("send", publish(small("blocks"), Vec::<u8>::clone));
    graph.connect(&blocks, &send);
    let sender = Flow::new(graph).unwrap();
    let handle = sender.handle();
    let sending = thread::spawn(move || sender.run().unwrap());
    // 16 MB do not fit into the edge, the credit and 1 MB at the broker.
    let stored = || handle.stats().node("send").unwrap().link.clone().unwrap_or_default();
    until(LIMIT, "the stream is full", || stored().away.is_some_and(|why| why.contains("full")));
    assert!(handle.why("send").unwrap().to_string().contains("full"), "{}", handle.why("send").unwrap());
    assert!(stored().stored * 4096 <= 1 << 20);

    let mut graph = Graph::new("receiver");
    let receive = graph.add("receive", subscribe(small("blocks"), |bytes| Ok(bytes.to_vec())));
    let count = graph.add("count", sink(|_: Vec<u8>| {}));
    graph.connect(&receive, &count);
    let received = Flow::new(graph).unwrap().run().unwrap();
    let sent = sending.join().unwrap();
    assert_eq!((link(&sent, "send").stored, link(&received, "receive").received), (4_000, 4_000));
}

#[test]
fn a_window_larger_than_the_credit_fills() {
    let Some(broker) = Broker::start() else { return };
    let small = || edge(&broker, "numbers").window(16, 1 << 20);
    sender(small(), 0..1_000).run().unwrap();
    let mut graph = Graph::new("receiver");
    let receive = graph.add("receive", receives(small()));
    let batches = graph.add("batches", sched_flow::batcher::<u64>(400));
    let got = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&got);
    let keep = graph.add("keep", sink(move |batch: Vec<u64>| into.lock().unwrap().push(batch.len())));
    graph.connect(&receive, &batches);
    graph.connect(&batches, &keep);
    let ended = Flow::new(graph).unwrap().run().unwrap();
    assert_eq!(*got.lock().unwrap(), [400, 400, 200]);
    assert_eq!(link(&ended, "receive").delivered, 1_000);
}

#[test]
fn a_message_that_cannot_be_decoded_fails_and_stops_nothing() {
    let Some(broker) = Broker::start() else { return };
    sender(edge(&broker, "numbers"), 0..100).run().unwrap();
    let odd = subscribe(edge(&broker, "numbers"), |bytes| {
        let number = u64::from_le_bytes(bytes.try_into()?);
        if number % 2 == 0 { Err(sched_flow::NodeError::msg("even")) } else { Ok(number) }
    });
    let mut graph = Graph::new("receiver");
    let receive = graph.add("receive", odd);
    let got = Got::default();
    let into = Arc::clone(&got);
    let keep = graph.add("keep", sink(move |number: u64| into.lock().unwrap().push(number)));
    graph.connect(&receive, &keep);
    let ended = Flow::new(graph).unwrap().run().unwrap();
    assert_eq!(*got.lock().unwrap(), (1..100).step_by(2).collect::<Vec<_>>());
    assert_eq!(ended.stats.node("receive").unwrap().errors, 50);
    // All of them were acknowledged: the next one gets nothing of them.
    let (next, rest) = receiver(edge(&broker, "numbers"), Duration::ZERO);
    let handle = next.handle();
    let receiving = thread::spawn(move || next.run());
    thread::sleep(Duration::from_millis(500));
    handle.stop_now();
    let _ = receiving.join().unwrap();
    assert_eq!(rest.lock().unwrap().len(), 0);
}
