//! How fast an edge is, beside a publisher and a consumer of async-nats with the same acknowledgements. In release only: `cargo test --release -p bursar-sched-nats --test it speed -- --ignored --nocapture`.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::consumer::pull::Config as Pull;
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use futures_util::StreamExt;
use sched_flow::{Flow, Graph, from_iter, sink};
use sched_nats::{Edge, publish, subscribe};
use test_support::Broker;

const BYTES: usize = 100;
/// Unacknowledged publishes of the peer: as many as packs of ours.
const WINDOW: usize = 256;
/// Messages each second that an edge must reach.
const LEAST: f64 = 100_000.0;

/// Messages each second, over an edge of ours.
fn ours(broker: &Broker, count: u64) -> f64 {
    let edge = || Edge::new(broker.address("ours").parse().unwrap());
    let begun = Instant::now();
    let receiving = {
        let mut graph = Graph::new("receiver");
        let receive = graph.add("receive", subscribe(edge(), |bytes| Ok(bytes.to_vec())));
        let count = graph.add("count", sink(|_: Vec<u8>| {}));
        graph.connect(&receive, &count);
        let flow = Flow::new(graph).unwrap();
        thread::spawn(move || flow.run().unwrap())
    };
    let mut graph = Graph::new("sender");
    let blocks = graph.add("blocks", from_iter((0..count).map(|_| vec![7_u8; BYTES])));
    let send = graph.add("send", publish(edge(), Vec::<u8>::clone));
    graph.connect(&blocks, &send);
    Flow::new(graph).unwrap().run().unwrap();
    let ended = receiving.join().unwrap();
    assert_eq!(ended.stats.node("count").unwrap().messages, count);
    count as f64 / begun.elapsed().as_secs_f64()
}

/// Messages of `bytes` each second, published with a window of acknowledgements, and acknowledged each by a consumer, on one thread.
fn bare(broker: &Broker, subject: &str, count: usize, bytes: usize) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connect = || async_nats::connect(format!("nats://127.0.0.1:{}", broker.port()));
        let (here, there) = (connect().await.unwrap(), connect().await.unwrap());
        let context = async_nats::jetstream::new(here);
        let config = Config {
            name: subject.to_owned(),
            subjects: vec![subject.to_owned()],
            retention: RetentionPolicy::WorkQueue,
            ..Config::default()
        };
        context.create_stream(config).await.unwrap();
        let consumes = async {
            let stream = async_nats::jetstream::new(there).get_stream(subject).await.unwrap();
            let durable_name = Some("bare".to_owned());
            let config = Pull { durable_name, ack_policy: AckPolicy::Explicit, ..Pull::default() };
            let consumer = stream.create_consumer(config).await.unwrap();
            let mut messages = consumer.messages().await.unwrap();
            for _ in 0..count {
                messages.next().await.unwrap().unwrap().ack().await.unwrap();
            }
        };
        let publishes = async {
            let payload = bytes::Bytes::from(vec![7_u8; bytes]);
            let mut open = VecDeque::new();
            for _ in 0..count {
                if open.len() == WINDOW {
                    let oldest: async_nats::jetstream::context::PublishAckFuture = open.pop_front().unwrap();
                    oldest.await.unwrap();
                }
                open.push_back(context.publish(subject.to_owned(), payload.clone()).await.unwrap());
            }
            for answer in open {
                answer.await.unwrap();
            }
        };
        let begun = Instant::now();
        tokio::join!(consumes, publishes);
        count as f64 / begun.elapsed().as_secs_f64()
    })
}

#[test]
#[ignore = "it measures: in release, on a quiet machine"]
fn speed_of_an_edge_and_of_the_bare_client() {
    let Some(broker) = Broker::start() else { return };
    let (mut edge, mut single, mut packs) = (0.0_f64, 0.0_f64, 0.0_f64);
    for round in 0..3 {
        edge = edge.max(ours(&broker, 500_000));
        single = single.max(bare(&broker, &format!("single{round}"), 50_000, BYTES));
        packs = packs.max(512.0 * bare(&broker, &format!("packs{round}"), 1_000, 512 * (BYTES + 13)));
        thread::sleep(Duration::from_millis(200));
    }
    println!("an edge {edge:.0}/s; async-nats with a message each {single:.0}/s, with 512 in each {packs:.0}/s");
    assert!(edge >= LEAST && edge >= 0.9 * single, "{edge:.0}/s, and the peer {single:.0}/s");
}
