//! Messages of 100 bytes over a broker, a NATS server with JetStream: a Block edge of ours beside async-nats.
//!
//! Ours: two flows, each on a thread of this process, and the one thread on which their connections are. The peer: a publisher with a window of unacknowledged publishes, and a pull consumer that
//! acknowledges each message, each on a thread and a connection of its own. The streams are alike: on disk, a work queue, so that an acknowledged message is gone; and both sides connect anew in each round.
//!
//! The peer runs with two settings, a small and a large window, and the faster one counts: its rate changes from round to round, and neither is always the better. A round leaves nothing in the stream: the
//! next one begins where its numbers ended. More than 5,000 publishes would wait for ever: async-nats has so many permits, and a publish that is not awaited keeps its own.
//!
//! Ours puts many messages into one of NATS, which is then acknowledged as a whole. So there is a second peer, which packs and unpacks as many messages by hand: what an edge costs besides, for orientation.
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
/// Unacknowledged publishes of the peer, and messages that its consumer asks for at a time.
#[derive(Clone, Copy)]
struct Window {
    publishes: usize,
    batch: usize,
}
const SMALL: Window = Window { publishes: 256, batch: 200 };
const LARGE: Window = Window { publishes: 4_096, batch: 1_000 };
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

/// What a peer publishes: `count` payloads.
trait Payloads: Iterator<Item = Bytes> + Send {}
impl<T: Iterator<Item = Bytes> + Send> Payloads for T {}

async fn publishes(url: &str, subject: &str, window: Window, payloads: impl Payloads) -> Result<(), Failure> {
    let (_client, context, _) = connect(url, subject).await?;
    let mut open = VecDeque::<PublishAckFuture>::with_capacity(window.publishes);
    for payload in payloads {
        if open.len() == window.publishes
            && let Some(oldest) = open.pop_front()
        {
            oldest.await?;
        }
        open.push_back(context.publish(subject.to_owned(), payload).await?);
    }
    for answer in open {
        answer.await?;
    }
    Ok(())
}

async fn consumes(
    url: &str,
    subject: &str,
    window: Window,
    count: usize,
    mut handle: impl FnMut(Bytes),
) -> Result<(), Failure> {
    const CONSUMER: &str = "peer";
    let (client, _, stream) = connect(url, subject).await?;
    let _ = stream.delete_consumer(CONSUMER).await; // that of the last round
    let durable_name = Some(CONSUMER.to_owned());
    let config = Pull { durable_name, ack_policy: AckPolicy::Explicit, max_ack_pending: -1, ..Pull::default() };
    let consumer = stream.create_consumer(config).await?;
    let mut messages = consumer.stream().max_messages_per_batch(window.batch).messages().await?;
    for _ in 0..count {
        let message = messages.next().await.ok_or("the consumer ended")??;
        handle(message.payload.clone());
        message.ack().await.map_err(|error| error.to_string())?;
    }
    Ok(client.flush().await?)
}

/// Runs a future of the peer on this thread.
fn on_tokio(future: impl Future<Output = Result<(), Failure>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(future).map_err(|error| error.to_string())
}

fn peer(
    url: &str,
    subject: &str,
    window: Window,
    payloads: impl Payloads,
    count: usize,
    handle: impl FnMut(Bytes) + Send,
) -> Result<(), Failure> {
    thread::scope(|scope| {
        let consuming = scope.spawn(|| on_tokio(consumes(url, subject, window, count, handle)));
        on_tokio(publishes(url, subject, window, payloads))?;
        Ok(consuming.join().map_err(|_| "the consumer panicked")??)
    })
}

/// A message in each message of NATS.
fn single(url: &str, window: Window, count: usize) -> Result<(), Failure> {
    let mut received = 0;
    peer(url, "single", window, (0..count).map(|_| Bytes::from(vec![7_u8; BYTES])), count, |bytes| {
        received += usize::from(bytes.len() == BYTES)
    })?;
    right(received, count)
}

/// Packed and unpacked by hand.
fn packed(url: &str, packs: usize) -> Result<(), Failure> {
    let packs_of = (0..packs).map(|_| {
        let mut pack = Vec::with_capacity(PACK * (BYTES + HEAD));
        for _ in 0..PACK {
            let message = vec![7_u8; BYTES];
            pack.extend_from_slice(&(message.len() as u32).to_le_bytes());
            pack.extend_from_slice(&[0; HEAD - 4]);
            pack.extend_from_slice(&message);
        }
        Bytes::from(pack)
    });
    let mut received = 0;
    peer(url, "packs", SMALL, packs_of, packs, |bytes| {
        for message in bytes.chunks(BYTES + HEAD) {
            let message = std::hint::black_box(message[HEAD..].to_vec());
            received += usize::from(message.len() == BYTES);
        }
    })?;
    right(received, packs * PACK)
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
            told(plan, "async-nats, small window", count, || single(url, SMALL, count)),
            told(plan, "async-nats, large window", count, || single(url, LARGE, count)),
            told(plan, "async-nats, packed", count, || packed(url, packs)),
        ],
    )?;
    let [ours, small, large, packs] = best.map(|nanoseconds| nanoseconds / 1e3);
    let single = small.min(large);
    let unit = "µs/message";
    Ok(vec![
        Row::new(NAME, "async-nats", [ours, single], unit, Bar::Times(TIMES_MAX)),
        Row::new(NAME, "async-nats, packed by hand", [ours, packs], unit, Bar::Open),
        Row::new(NAME, LIMIT, [1e3 / ours, RATE_MIN], "k messages/s", Bar::AtLeast),
    ])
}
