//! Messages of 100 bytes over a broker, a NATS server with JetStream: a Block edge of ours beside async-nats.
//!
//! Ours: two flows, each on a thread of this process, and the one thread on which their connections are. The peer: a publisher with a window of unacknowledged publishes, and a pull consumer that
//! acknowledges each message, each on a thread and a connection of its own. The streams are alike: on disk, a work queue, so that an acknowledged message is gone; and both sides connect anew in each round.
//!
//! Ours puts many messages into one of NATS, which is then acknowledged as a whole. So the peer is measured once more with as many bytes in each, for orientation: that is what an edge costs besides.
//!
//! Bars: 0.9 of the rate of the peer, and 100,000 messages a second.

use std::collections::VecDeque;
use std::thread;
use std::time::Instant;

use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::consumer::pull::Config as Pull;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy};
use async_nats::jetstream::{self, Context};
use bursar::flow::nats::{Edge, publish, subscribe};
use bursar::flow::{Flow, Graph, from_iter, sink};
use bytes::Bytes;
use futures_lite::StreamExt;

use crate::Failure;
use crate::cluster::variable;
use crate::measure::{Plan, Side};
use crate::table::{Bar, LIMIT, Row};

pub const NAME: &str = "cluster-edge";
const BYTES: usize = 100;
/// Messages in a pack of ours, and what each takes there besides its bytes.
const PACK: usize = 512;
const HEAD: usize = 13;
/// Unacknowledged publishes: as many as packs of ours.
const WINDOW: usize = 256;
/// What the broker keeps of a stream.
const STREAM_BYTES: i64 = 256 << 20;
/// Of the rate of the peer: 0.9.
const TIMES_MAX: f64 = 1.0 / 0.9;
/// A second, in thousands.
const RATE_MIN: f64 = 100.0;

// ---- ours ----

fn ours(url: &str, count: usize) -> Result<(), Failure> {
    let edge = || Ok::<_, Failure>(Edge::new(format!("{url}/ours").parse()?));
    let mut graph = Graph::new("receiver");
    let receive = graph.add("receive", subscribe(edge()?, |bytes| Ok(bytes.to_vec())));
    let end = graph.add("end", sink(|_: Vec<u8>| {}));
    graph.connect(&receive, &end);
    let receiver = Flow::new(graph)?;
    let mut graph = Graph::new("sender");
    let messages = graph.add("messages", from_iter((0..count).map(|_| vec![7_u8; BYTES])));
    let send = graph.add("send", publish(edge()?, Vec::<u8>::clone));
    graph.connect(&messages, &send);
    let sender = Flow::new(graph)?;
    let receiving = thread::spawn(move || receiver.run());
    sender.run()?;
    let ended = receiving.join().map_err(|_| "the receiver panicked")??;
    let received = ended.stats.node("end").map_or(0, |node| node.messages);
    right(received as usize, count)
}

fn right(received: usize, count: usize) -> Result<(), Failure> {
    if received == count { Ok(()) } else { Err(format!("{received} messages of {count} were received").into()) }
}

// ---- the peer ----

/// A connection, and the stream that is on it.
async fn connect(
    url: &str,
    subject: &str,
) -> Result<(async_nats::Client, Context, jetstream::stream::Stream), Failure> {
    let client = async_nats::connect(url).await?;
    let context = jetstream::new(client.clone());
    let config = Config {
        name: subject.to_owned(),
        subjects: vec![subject.to_owned()],
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        max_bytes: STREAM_BYTES,
        ..Config::default()
    };
    let stream = context.get_or_create_stream(config).await?;
    Ok((client, context, stream))
}

async fn publishes(url: &str, subject: &str, count: usize, bytes: usize) -> Result<(), Failure> {
    let (_client, context, _) = connect(url, subject).await?;
    let payload = Bytes::from(vec![7_u8; bytes]);
    let mut open = VecDeque::<PublishAckFuture>::with_capacity(WINDOW);
    for _ in 0..count {
        if open.len() == WINDOW
            && let Some(oldest) = open.pop_front()
        {
            oldest.await?;
        }
        open.push_back(context.publish(subject.to_owned(), payload.clone()).await?);
    }
    for answer in open {
        answer.await?;
    }
    Ok(())
}

async fn consumes(url: &str, subject: &str, count: usize) -> Result<(), Failure> {
    const CONSUMER: &str = "peer";
    let (client, _, stream) = connect(url, subject).await?;
    let _ = stream.delete_consumer(CONSUMER).await; // that of the last round
    let durable_name = Some(CONSUMER.to_owned());
    let config = Pull { durable_name, ack_policy: AckPolicy::Explicit, max_ack_pending: -1, ..Pull::default() };
    let mut messages = stream.create_consumer(config).await?.messages().await?;
    for _ in 0..count {
        let message = messages.next().await.ok_or("the consumer ended")??;
        message.ack().await.map_err(|error| error.to_string())?;
    }
    Ok(client.flush().await?)
}

/// Runs a future of the peer on this thread.
fn on_tokio(future: impl Future<Output = Result<(), Failure>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(future).map_err(|error| error.to_string())
}

fn peer(url: &str, subject: &str, count: usize, bytes: usize) -> Result<(), Failure> {
    thread::scope(|scope| {
        let consuming = scope.spawn(|| on_tokio(consumes(url, subject, count)));
        on_tokio(publishes(url, subject, count, bytes))?;
        Ok(consuming.join().map_err(|_| "the consumer panicked")??)
    })
}

/// Says how fast each round was.
fn told<'a>(plan: &'a Plan, name: &'static str, count: usize, work: impl Fn() -> Result<(), Failure> + 'a) -> Side<'a> {
    Side::new(name, move || {
        let began = Instant::now();
        work()?;
        plan.done(&format!("{NAME}: {name}: {:.0} messages/s", count as f64 / began.elapsed().as_secs_f64()));
        Ok(())
    })
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let url = &*variable("NATS_URL")?;
    let packs = plan.pick(400, 100);
    let count = packs * PACK;
    let best = plan.best_of(
        count,
        [
            told(plan, "ours", count, || ours(url, count)),
            told(plan, "async-nats", count, || peer(url, "single", count, BYTES)),
            told(plan, "async-nats, packs", count, || peer(url, "packs", packs, PACK * (BYTES + HEAD))),
        ],
    )?;
    let [ours, single, packs] = best.map(|nanoseconds| nanoseconds / 1e3);
    let unit = "µs/message";
    Ok(vec![
        Row::new(NAME, "async-nats", [ours, single], unit, Bar::Times(TIMES_MAX)),
        Row::new(NAME, "async-nats, 512 in each", [ours, packs], unit, Bar::Open),
        Row::new(NAME, LIMIT, [1e3 / ours, RATE_MIN], "k messages/s", Bar::AtLeast),
    ])
}
