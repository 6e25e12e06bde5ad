//! What others do with the stream of an edge, and with its broker: nothing is lost without being counted, and nothing hangs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use sched_flow::{Ended, Flow, Graph, Handle, LinkStats, from_iter, sink};
use sched_nats::{Edge, Login, NatsError, publish, subscribe};
use test_support::{Broker, until};

const LIMIT: Duration = Duration::from_secs(60);
const STREAM: &str = "BURSAR_blocks";

fn edge(broker: &Broker) -> Edge {
    Edge::new(broker.address("blocks").parse().unwrap())
}

/// Sends blocks of these sizes, each with its number in front.
fn sender(edge: Edge, sizes: Vec<usize>) -> Flow {
    sender_until(edge, sizes, Arc::new(AtomicBool::new(true)))
}

/// Sends half of them, and slowly, before `on` is set; so it outlasts what is done meanwhile.
fn sender_until(edge: Edge, sizes: Vec<usize>, on: Arc<AtomicBool>) -> Flow {
    let half = sizes.len() / 2;
    let blocks = sizes.into_iter().enumerate().map(move |(number, size)| {
        while !on.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_micros(500));
            if number < half {
                break;
            }
        }
        let mut block = vec![7_u8; size.max(8)];
        block[..8].copy_from_slice(&(number as u64).to_le_bytes());
        block
    });
    let mut graph = Graph::new("sender");
    let blocks = graph.add("blocks", from_iter(blocks));
    let send = graph.add("send", publish(edge, Vec::<u8>::clone));
    graph.connect(&blocks, &send);
    Flow::new(graph).unwrap()
}

type Got = Arc<Mutex<Vec<u64>>>;

fn receiver(edge: Edge) -> (Flow, Got) {
    let got = Got::default();
    let into = Arc::clone(&got);
    let mut graph = Graph::new("receiver");
    let receive = graph.add("receive", subscribe(edge, |bytes| Ok(u64::from_le_bytes(bytes[..8].try_into()?))));
    let keep = graph.add("keep", sink(move |number: u64| into.lock().unwrap().push(number)));
    graph.connect(&receive, &keep);
    (Flow::new(graph).unwrap(), got)
}

fn link(ended: &Ended, node: &str) -> LinkStats {
    ended.stats.node(node).unwrap().link.clone().unwrap()
}

/// Does something at the broker, as an administrator may.
fn meddle<T>(broker: &Broker, with: impl AsyncFnOnce(Context) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address = format!("nats://127.0.0.1:{}", broker.port());
    runtime.block_on(async { with(jetstream::new(async_nats::connect(address).await.unwrap())).await })
}

#[test]
fn messages_of_the_largest_size_go_through_and_larger_ones_are_refused() {
    let config = "jetstream { store_dir: \"STORE\" }\nmax_payload: 4096\n";
    let Some(broker) = Broker::with(config) else { return };
    let sizes: Vec<usize> = (3_700..4_200).step_by(7).collect();
    let count = sizes.len() as u64;
    let sent = sender(edge(&broker), sizes).run().unwrap();
    let (receiver, got) = receiver(edge(&broker));
    receiver.run().unwrap();
    let node = sent.stats.node("send").unwrap();
    let error = node.last_error.clone().unwrap();
    assert!(error.contains("raise `max_payload` of the broker"), "{error}");
    let stored = link(&sent, "send").stored;
    assert!(stored > 0 && stored + node.errors == count, "{stored} and {} of {count}", node.errors);
    assert_eq!(*got.lock().unwrap(), (0..stored).collect::<Vec<_>>());
}

#[test]
fn a_broker_that_takes_less_than_before_gets_smaller_packs() {
    let Some(mut broker) = Broker::start() else { return };
    let (receiving, got) = receiver(edge(&broker));
    let receiving = thread::spawn(move || receiving.run().unwrap());
    let sending = sender(edge(&broker), vec![100; 20_000]);
    let sending = thread::spawn(move || sending.run().unwrap());
    until(LIMIT, "messages come", || got.lock().unwrap().len() > 2_000);
    broker.kill();
    broker.configure("jetstream { store_dir: \"STORE\" }\nmax_payload: 1024\n");
    broker.restart();
    let (sent, received) = (sending.join().unwrap(), receiving.join().unwrap());
    assert_eq!(*got.lock().unwrap(), (0..20_000).collect::<Vec<_>>());
    assert_eq!((link(&sent, "send").stored, link(&received, "receive").missing), (20_000, 0));
}

/// Both halves, while `with` is done once to the broker.
fn through(with: impl FnOnce(&Broker)) -> Option<(Vec<u64>, LinkStats, LinkStats)> {
    let broker = Broker::start()?;
    edge(&broker).check_sender().unwrap(); // the first sender at a broker waits
    let (receiving, got) = receiver(edge(&broker));
    let receiving = thread::spawn(move || receiving.run().unwrap());
    let on = Arc::<AtomicBool>::default();
    let sending = sender_until(edge(&broker), vec![100; 1_500], Arc::clone(&on));
    let sending = thread::spawn(move || sending.run().unwrap());
    until(LIMIT, "messages come", || got.lock().unwrap().len() > 100);
    with(&broker);
    on.store(true, Ordering::Relaxed);
    let (sent, received) = (sending.join().unwrap(), receiving.join().unwrap());
    let got = got.lock().unwrap().clone();
    Some((got, link(&sent, "send"), link(&received, "receive")))
}

#[test]
fn a_consumer_that_is_removed_is_made_again() {
    let removes = |broker: &Broker| {
        meddle(broker, async |context| {
            use futures_util::StreamExt;
            let stream = context.get_stream(STREAM).await.unwrap();
            let name = stream.consumer_names().next().await.unwrap().unwrap();
            // While it is in use its files may be in the way, and the broker says so; it is removed all the same.
            let _ = stream.delete_consumer(&name).await;
        });
    };
    let Some((got, _, received)) = through(removes) else { return };
    assert_eq!(got, (0..1_500).collect::<Vec<_>>());
    assert_eq!((received.received, received.missing), (1_500, 0), "{received:?}");
}

#[test]
fn a_stream_that_is_removed_is_made_again_and_what_was_in_it_is_counted() {
    let removes = |broker: &Broker| {
        meddle(broker, async |context| assert!(context.delete_stream(STREAM).await.unwrap().success));
    };
    let Some((got, sent, received)) = through(removes) else { return };
    assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "in order, and once");
    assert_eq!(sent.stored, 1_500);
    assert_eq!(received.received + received.missing, 1_500, "{received:?}");
    assert_eq!(*got.last().unwrap(), 1_499);
}

#[test]
fn a_stream_cannot_be_purged() {
    let Some(broker) = Broker::start() else { return };
    sender(edge(&broker), vec![100; 10]).run().unwrap();
    meddle(&broker, async |context| {
        let stream = context.get_stream(STREAM).await.unwrap();
        assert!(stream.purge().await.is_err());
        assert!(stream.delete_message(1).await.is_err());
    });
    let (receiver, got) = receiver(edge(&broker));
    receiver.run().unwrap();
    assert_eq!(got.lock().unwrap().len(), 10);
}

#[test]
fn foreign_messages_on_the_subject_are_removed_and_counted() {
    let publishes = |broker: &Broker| {
        meddle(broker, async |context| {
            for bytes in [&b"hello"[..], b"", b"BRF1", &[255; 5_000]] {
                context.publish("blocks", bytes.to_vec().into()).await.unwrap().await.unwrap();
            }
        });
    };
    let Some((got, sent, received)) = through(publishes) else { return };
    assert_eq!(got, (0..1_500).collect::<Vec<_>>());
    assert_eq!((received.foreign, received.received, received.missing), (4, 1_500, 0), "{received:?}");
    assert_eq!((sent.away, received.away), (None, None), "the broker was never away");
}

#[test]
fn a_stream_that_would_lose_messages_is_refused_and_named() {
    let Some(broker) = Broker::start() else { return };
    let own = || Config {
        name: STREAM.to_owned(),
        subjects: vec!["blocks".to_owned()],
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        ..Config::default()
    };
    let old = Duration::from_secs(120);
    for (config, said) in [
        (Config { max_age: old, duplicate_window: old, ..own() }, "`max_age`"),
        (Config { storage: StorageType::Memory, ..own() }, "in memory"),
        (Config { retention: RetentionPolicy::Limits, ..own() }, "not a work queue"),
        (Config { discard: DiscardPolicy::Old, ..own() }, "drops old messages"),
        (Config { max_message_size: 100, ..own() }, "`max_msg_size`"),
        (Config { subjects: vec!["blocks".to_owned(), "more".to_owned()], ..own() }, "other subjects"),
        (Config { name: "theirs".to_owned(), ..own() }, "the stream theirs is in the way"),
    ] {
        let name = config.name.clone();
        meddle(&broker, async |context| drop(context.create_stream(config).await.unwrap()));
        let error = edge(&broker).check().unwrap_err();
        assert!(matches!(error, NatsError::ForeignStream { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(said) && text.contains(&format!("nats stream rm {name}")), "{text}");
        meddle(&broker, async |context| assert!(context.delete_stream(name).await.unwrap().success));
    }
    meddle(&broker, async |context| drop(context.create_stream(own()).await.unwrap()));
    edge(&broker).check().unwrap();
}

#[test]
fn a_foreign_consumer_is_named_and_left_alone() {
    let Some(broker) = Broker::start() else { return };
    edge(&broker).check().unwrap();
    meddle(&broker, async |context| {
        let config =
            jetstream::consumer::pull::Config { durable_name: Some("monitor".to_owned()), ..Default::default() };
        context.get_stream(STREAM).await.unwrap().create_consumer(config).await.unwrap();
    });
    let error = edge(&broker).check_receiver().unwrap_err();
    assert!(matches!(&error, NatsError::ForeignConsumer { consumer, .. } if consumer == "monitor"), "{error:?}");
    assert!(error.to_string().contains("nats consumer rm BURSAR_blocks monitor"), "{error}");
}

#[test]
fn what_a_login_may_not_do_is_named() {
    for (denied, said) in [
        ("publish: { deny: \"_BURSAR.>\" }", "_BURSAR.sender.blocks"),
        ("publish: { deny: \"$JS.API.>\" }", "$JS.API.STREAM"),
        ("subscribe: { deny: \"_INBOX.>\" }", "_INBOX."),
    ] {
        let config = format!(
            "jetstream {{ store_dir: \"STORE\" }}\nauthorization {{ users: [ {{ user: robot, password: hunter2, permissions: {{ {denied} }} }} ] }}\n"
        );
        let Some(broker) = Broker::with(&config) else { return };
        let error = edge(&broker).login(Login::default().user("robot", "hunter2")).check_sender().unwrap_err();
        assert!(matches!(error, NatsError::Forbidden { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(said) && text.contains("user `robot`") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn what_an_end_may_not_do_is_named_before_it_begins_and_the_probe_leaves_nothing() {
    let config = |denied: &str| {
        format!(
            "jetstream {{ store_dir: \"STORE\" }}\nauthorization {{ users: [ {{ user: boss, password: hunter2 }}, \
             {{ user: robot, password: hunter2, permissions: {{ {denied} }} }} ] }}\n"
        )
    };
    for (denied, sends, said) in [
        ("publish: { deny: \"blocks\" }", true, "\"blocks\""),
        ("publish: { deny: \"$JS.ACK.>\" }", false, "$JS.ACK.BURSAR_blocks"),
        ("subscribe: { deny: \"_BURSAR.>\" }", true, "_BURSAR.report.blocks"),
        ("subscribe: { deny: \"_BURSAR.>\" }", false, "_BURSAR.report.blocks"),
    ] {
        let Some(broker) = Broker::with(&config(denied)) else { return };
        let edge = |user: &str| edge(&broker).login(Login::default().user(user, "hunter2"));
        let reserve = |user: &str| if sends { edge(user).reserve_sender() } else { edge(user).reserve_receiver() };
        let error = reserve("robot").unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, NatsError::Forbidden { .. }) && text.contains(said), "{denied}: {error:?}");
        assert!(text.contains("permit the subject of the edge"), "{text}");
        reserve("boss").unwrap();
        sender(edge("boss"), vec![100; 10]).run().unwrap();
        let (receiver, got) = receiver(edge("boss"));
        let received = receiver.run().unwrap();
        assert_eq!((got.lock().unwrap().len(), link(&received, "receive").foreign), (10, 0), "{denied}");
    }
}

#[test]
fn a_receiver_that_may_not_acknowledge_any_more_fails_and_the_messages_stay() {
    let config = |denied: &str| {
        format!(
            "jetstream {{ store_dir: \"STORE\" }}\nauthorization {{ users: [ {{ user: boss, password: hunter2 }}, \
             {{ user: robot, password: hunter2, permissions: {{ publish: {{ deny: \"{denied}\" }} }} }} ] }}\n"
        )
    };
    let Some(mut broker) = Broker::with(&config("nothing")) else { return };
    let edge = Edge::new(broker.address("blocks").parse().unwrap());
    let edge = |user: &str| edge.clone().login(Login::default().user(user, "hunter2"));
    edge("robot").reserve_receiver().unwrap();
    let (receiving, _) = receiver(edge("robot"));
    let receiving = thread::spawn(move || receiving.run().unwrap());
    until(LIMIT, "it receives", || edge("boss").check_receiver().is_err_and(|error| error.is_taken()));
    broker.kill();
    broker.configure(&config("$JS.ACK.>"));
    broker.restart();
    sender(edge("boss"), vec![100; 10]).run().unwrap();
    let ended = receiving.join().unwrap();
    let said = ended.stats.node("receive").unwrap().failure.clone().unwrap_or_default();
    assert!(said.contains("does not permit user `robot`") && said.contains("$JS.ACK.BURSAR_blocks"), "{said}");
    let (receiver, got) = receiver(edge("boss"));
    receiver.run().unwrap();
    assert_eq!(got.lock().unwrap().len(), 10);
}

/// Why the receiver says that the broker cannot be used.
fn away(handle: &Handle) -> Option<String> {
    handle.stats().node("receive").unwrap().link.clone().unwrap_or_default().away
}

#[test]
fn a_receiver_says_that_its_broker_is_stopped_and_goes_on_with_it() {
    let Some(broker) = Broker::start() else { return };
    let (receiver, got) = receiver(edge(&broker));
    let handle = receiver.handle();
    let receiving = thread::spawn(move || receiver.run().unwrap());
    until(LIMIT, "it receives", || edge(&broker).check_receiver().is_err_and(|error| error.is_taken()));
    broker.signal("STOP");
    until(LIMIT, "it says so", || away(&handle).is_some_and(|why| why.contains("no sign of life")));
    broker.signal("CONT");
    until(LIMIT, "it says that it is back", || away(&handle).is_none());
    sender(edge(&broker), vec![100; 10]).run().unwrap();
    let received = receiving.join().unwrap();
    assert_eq!(*got.lock().unwrap(), (0..10).collect::<Vec<_>>());
    assert_eq!(link(&received, "receive").missing, 0);
}

/// Longer than the signs of life and two questions to JetStream may take.
#[test]
#[ignore = "takes 40 s"]
fn a_receiver_whose_broker_stays_away_says_nothing_of_its_jetstream() {
    let Some(mut broker) = Broker::start() else { return };
    let (receiver, _) = receiver(edge(&broker));
    let handle = receiver.handle();
    let receiving = thread::spawn(move || receiver.run().unwrap());
    until(LIMIT, "it receives", || edge(&broker).check_receiver().is_err_and(|error| error.is_taken()));
    broker.kill();
    until(LIMIT, "it says so", || away(&handle).is_some());
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(40) {
        let why = away(&handle).unwrap();
        assert!(!why.contains("JetStream"), "after {:?}: {why}", began.elapsed());
        thread::sleep(Duration::from_millis(50));
    }
    handle.stop_now();
    let _ = receiving.join().unwrap();
}

#[test]
fn a_receiver_that_may_not_acknowledge_ends_and_the_messages_stay() {
    let config = "jetstream { store_dir: \"STORE\" }\nauthorization { users: [ { user: boss, password: hunter2 }, \
        { user: robot, password: hunter2, permissions: { publish: { deny: \"$JS.ACK.>\" } } } ] }\n";
    let Some(broker) = Broker::with(config) else { return };
    let edge = |user: &str| edge(&broker).login(Login::default().user(user, "hunter2"));
    sender(edge("boss"), vec![100; 1_000]).run().unwrap();
    let (refused, _) = receiver(edge("robot"));
    let ended = refused.run().unwrap();
    let said = ended.stats.node("receive").unwrap().failure.clone().unwrap_or_default();
    // The end of the stream comes before the answer of the broker, or after it.
    assert!(said.contains("does not permit user `robot`") && said.contains("$JS.ACK.BURSAR_blocks"), "{said}");
    let (receiver, got) = receiver(edge("boss"));
    receiver.run().unwrap();
    assert_eq!(got.lock().unwrap().len(), 1_000);
}
