//! Two processes at one end of an edge: the one that is there stays.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sched_flow::{Ended, Flow, Graph, Handle, from_iter, sink};
use sched_nats::{Edge, NatsError, publish, subscribe};
use test_support::{Broker, until};

const LIMIT: Duration = Duration::from_secs(60);

fn edge(broker: &Broker) -> Edge {
    Edge::new(broker.address("numbers").parse().unwrap())
}

fn send(broker: &Broker, numbers: std::ops::Range<u64>) -> Ended {
    let mut graph = Graph::new("sender");
    let numbers = graph.add("numbers", from_iter(numbers));
    let send = graph.add("send", publish(edge(broker), |number: &u64| number.to_le_bytes().to_vec()));
    graph.connect(&numbers, &send);
    Flow::new(graph).unwrap().run().unwrap()
}

/// A sender that sends a number each millisecond, from `first` on, until `stop`.
fn ticking(broker: &Broker, first: u64, stop: &Arc<AtomicBool>) -> Flow {
    let (mut next, stop) = (first, Arc::clone(stop));
    let mut graph = Graph::new("sender");
    let ticks = sched_flow::source(move || {
        next += 1;
        (!stop.load(Ordering::Relaxed)).then_some(next)
    });
    let numbers = graph.add("numbers", ticks.tick(Duration::from_millis(1)));
    let send = graph.add("send", publish(edge(broker), |number: &u64| number.to_le_bytes().to_vec()));
    graph.connect(&numbers, &send);
    Flow::new(graph).unwrap()
}

type Got = Arc<Mutex<Vec<u64>>>;

fn receiver(broker: &Broker) -> (Flow, Got) {
    let got = Got::default();
    let into = Arc::clone(&got);
    let mut graph = Graph::new("receiver");
    let receive = graph.add("receive", subscribe(edge(broker), |bytes| Ok(u64::from_le_bytes(bytes.try_into()?))));
    let keep = graph.add("keep", sink(move |number: u64| into.lock().unwrap().push(number)));
    graph.connect(&receive, &keep);
    (Flow::new(graph).unwrap(), got)
}

fn failure(handle: &Handle, node: &str) -> Option<String> {
    handle.stats().node(node).unwrap().failure.clone()
}

fn stored(handle: &Handle) -> u64 {
    handle.stats().node("send").unwrap().link.clone().unwrap_or_default().stored
}

/// Waits until someone receives.
fn is_received(broker: &Broker) {
    until(LIMIT, "someone receives", || edge(broker).check_receiver().is_err_and(|error| error.is_taken()));
}

#[test]
fn a_second_receiver_is_refused_and_the_first_gets_everything() {
    let Some(broker) = Broker::start() else { return };
    let (first, got) = receiver(&broker);
    let receiving = thread::spawn(move || first.run().unwrap());
    is_received(&broker);
    let error = edge(&broker).check_receiver().unwrap_err();
    assert!(matches!(error, NatsError::AnotherReceiver { .. }) && error.is_taken(), "{error:?}");
    assert!(error.to_string().contains(&format!("(process {}", std::process::id())), "{error}");
    // One that does not ask before is refused as well.
    let (second, nothing) = receiver(&broker);
    let refused = second.run().unwrap();
    let said = refused.stats.node("receive").unwrap().failure.clone().unwrap();
    assert!(said.contains("another process receives from nats://127.0.0.1:"), "{said}");
    send(&broker, 0..5_000);
    let ended = receiving.join().unwrap();
    assert_eq!(*got.lock().unwrap(), (0..5_000).collect::<Vec<_>>());
    assert_eq!(nothing.lock().unwrap().len(), 0);
    let link = ended.stats.node("receive").unwrap().link.clone().unwrap();
    assert_eq!((link.redelivered, link.duplicates, link.missing, link.outages), (0, 0, 0, 0), "{link:?}");
}

#[test]
fn of_receivers_that_begin_together_one_receives() {
    let Some(broker) = Broker::start() else { return };
    let flows: Vec<_> = (0..6).map(|_| receiver(&broker)).collect();
    let handles: Vec<Handle> = flows.iter().map(|(flow, _)| flow.handle()).collect();
    let running: Vec<_> =
        flows.into_iter().map(|(flow, got)| thread::spawn(move || (flow.run().unwrap(), got))).collect();
    let refused = || handles.iter().filter(|handle| failure(handle, "receive").is_some()).count();
    until(LIMIT, "all but one are refused", || refused() == 5);
    send(&broker, 0..1_000);
    let ended: Vec<_> = running.into_iter().map(|flow| flow.join().unwrap()).collect();
    let got: Vec<u64> = ended.iter().flat_map(|(_, got)| got.lock().unwrap().clone()).collect();
    assert_eq!(got, (0..1_000).collect::<Vec<_>>(), "one process got all");
}

#[test]
fn a_receiver_that_is_restarted_begins_at_once() {
    let Some(broker) = Broker::start() else { return };
    for round in 0..3 {
        let (flow, got) = receiver(&broker);
        let handle = flow.handle();
        let receiving = thread::spawn(move || flow.run().unwrap());
        is_received(&broker);
        handle.stop_now();
        let _ = receiving.join().unwrap();
        let began = Instant::now();
        edge(&broker).check_receiver().unwrap();
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "round {round}: it gave the edge back, {:?}",
            began.elapsed()
        );
        drop(got);
    }
}

#[test]
fn a_receiver_outlives_its_broker_while_another_asks_all_the_time() {
    let Some(mut broker) = Broker::start() else { return };
    let (first, got) = receiver(&broker);
    let receiving = thread::spawn(move || first.run().unwrap());
    is_received(&broker);
    let stop = Arc::new(AtomicBool::new(false));
    let (asks, address, ends) = (edge(&broker), broker.address("numbers"), Arc::clone(&stop));
    let asking = thread::spawn(move || {
        let mut refused = 0;
        while !ends.load(Ordering::Relaxed) {
            match asks.check_receiver() {
                Ok(()) => panic!("{address} was free"),
                Err(NatsError::AnotherReceiver { .. }) => refused += 1,
                Err(_) => thread::sleep(Duration::from_millis(5)), // the broker is away
            }
        }
        refused
    });
    for _ in 0..3 {
        broker.kill();
        broker.restart();
        is_received(&broker);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(asking.join().unwrap() > 0, "it was asked meanwhile");
    send(&broker, 0..1_000);
    receiving.join().unwrap();
    assert_eq!(*got.lock().unwrap(), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_second_sender_is_refused_and_the_first_goes_on() {
    let Some(broker) = Broker::start() else { return };
    let stop = Arc::default();
    let first = ticking(&broker, 0, &stop);
    let handle = first.handle();
    let sending = thread::spawn(move || first.run().unwrap());
    until(LIMIT, "the first sends", || stored(&handle) > 10);
    let error = edge(&broker).check_sender().unwrap_err();
    assert!(matches!(error, NatsError::AnotherSender { .. }), "{error:?}");
    let second = ticking(&broker, 1_000_000, &stop);
    let refused = second.run().unwrap();
    let said = refused.stats.node("send").unwrap().failure.clone().unwrap();
    assert!(said.contains("another process sends to nats://127.0.0.1:"), "{said}");
    let before = stored(&handle);
    until(LIMIT, "the first still sends", || stored(&handle) > before + 10);
    assert_eq!(failure(&handle, "send"), None);
    stop.store(true, Ordering::Relaxed);
    sending.join().unwrap();
}

#[test]
fn of_two_senders_that_begin_together_one_stays() {
    let Some(broker) = Broker::start() else { return };
    let stop = Arc::default();
    let flows = [ticking(&broker, 0, &stop), ticking(&broker, 1_000_000, &stop)];
    let handles = flows.each_ref().map(Flow::handle);
    let running = flows.map(|flow| thread::spawn(move || flow.run().unwrap()));
    until(LIMIT, "one of the two gives up", || handles.iter().any(|handle| failure(handle, "send").is_some()));
    let stays = handles.iter().find(|handle| failure(handle, "send").is_none()).expect("one stays");
    let before = stored(stays);
    until(LIMIT, "the other sends", || stored(stays) > before + 100);
    assert_eq!(failure(stays, "send"), None);
    stop.store(true, Ordering::Relaxed);
    for flow in running {
        flow.join().unwrap();
    }
}

#[test]
fn a_sender_that_is_stopped_at_once_is_followed_at_once() {
    let Some(broker) = Broker::start() else { return };
    for round in 0..3 {
        let flow = ticking(&broker, 0, &Arc::default());
        let handle = flow.handle();
        let sending = thread::spawn(move || flow.run().unwrap());
        until(LIMIT, "it sends", || stored(&handle) > 10);
        handle.stop_now();
        let _ = sending.join().unwrap();
        let began = Instant::now();
        edge(&broker).reserve_sender().unwrap();
        assert!(began.elapsed() < Duration::from_secs(3), "round {round}: {:?}", began.elapsed());
    }
}

#[test]
fn a_sender_of_another_machine_that_does_not_come_back_is_followed_after_its_term() {
    let Some(broker) = Broker::start() else { return };
    edge(&broker).check_sender().unwrap(); // makes the stream of records
    let record =
        r#"{"process":{"host":"robot","process":4711,"machine":"another","started":1},"lock":1,"stage":"holds"}"#;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(format!("nats://127.0.0.1:{}", broker.port())).await.unwrap();
        let context = async_nats::jetstream::new(client);
        context.publish("_BURSAR.lock.sender.numbers", record.into()).await.unwrap().await.unwrap();
    });
    let began = Instant::now();
    edge(&broker).reserve_sender().unwrap();
    let waited = began.elapsed();
    assert!((Duration::from_secs(8)..Duration::from_secs(20)).contains(&waited), "{waited:?}");
    send(&broker, 0..10);
}

#[test]
fn a_reserved_end_is_of_this_process_until_it_is_given_back_or_its_flow_has_ended() {
    let Some(broker) = Broker::start() else { return };
    edge(&broker).reserve_receiver().unwrap();
    assert!(record(&broker, "receiver").contains("reserved"));
    edge(&broker).release_receiver();
    assert!(record(&broker, "receiver").contains("over"));
    edge(&broker).reserve_receiver().unwrap();
    let (flow, _got) = receiver(&broker);
    let receiving = thread::spawn(move || flow.run().unwrap());
    is_received(&broker);
    edge(&broker).release_receiver();
    assert!(record(&broker, "receiver").contains("holds"), "a flow uses it");
    assert!(edge(&broker).reserve_receiver().is_err_and(|error| error.is_taken()));
    send(&broker, 0..10);
    receiving.join().unwrap();
    assert!(record(&broker, "receiver").contains("over"));
    edge(&broker).reserve_sender().unwrap();
    edge(&broker).release_sender();
    assert!(record(&broker, "sender").contains("over"));
}

/// What the broker keeps of who has an end.
fn record(broker: &Broker, end: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(format!("nats://127.0.0.1:{}", broker.port())).await.unwrap();
        let records = async_nats::jetstream::new(client).get_stream("BURSAR-LOCKS").await.unwrap();
        let record = records.get_last_raw_message_by_subject(&format!("_BURSAR.lock.{end}.numbers")).await.unwrap();
        String::from_utf8(record.payload.to_vec()).unwrap()
    })
}

#[test]
fn those_that_make_the_stream_of_an_edge_at_once_all_find_it() {
    let Some(broker) = Broker::start() else { return };
    for round in 0..600 {
        let subject = broker.address(&format!("numbers{round}"));
        let asks = || Edge::new(subject.parse().unwrap()).at_the_broker(1 << 20).check();
        let asked: Vec<_> = thread::scope(|scope| {
            let asking: Vec<_> = (0..3).map(|_| scope.spawn(asks)).collect();
            asking.into_iter().map(|asks| asks.join().unwrap()).collect()
        });
        assert_eq!(asked, vec![Ok(()); 3], "round {round}");
    }
}
