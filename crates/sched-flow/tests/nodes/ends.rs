//! Nodes over channels, tasks and futures: what is outside the graph wakes them.

use std::{
    future::{pending, poll_fn, ready},
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

use sched_flow::{
    DeadLetter, Harness, Kind, NodeError, OnError, Produced, from_channel, from_task, map_async, sink_async,
    timeout_async, to_channel, to_task,
};
use sched_tasks::{SendError, channel};

use crate::MS;

#[test]
fn a_channel_wakes_its_source_and_ends_it() {
    let (tx, rx) = channel(4);
    let mut node = Harness::new(from_channel(rx));
    assert_eq!(node.produce().unwrap(), Produced::Idle);
    assert!(!node.is_woken());
    tx.send(1).unwrap();
    node.woken();
    tx.send(2).unwrap();
    assert_eq!(node.produce().unwrap(), Produced::Idle, "both, in one call");
    assert_eq!(node.take::<i32>("out"), [1, 2]);
    drop(tx);
    node.woken();
    assert_eq!(node.produce().unwrap(), Produced::End);
}

#[test]
fn a_full_graph_leaves_values_in_the_channel() {
    let (tx, rx) = channel(4);
    let mut node = Harness::new(from_channel(rx)).output_capacity(1);
    (0..4).for_each(|x| tx.send(x).unwrap());
    node.produce().unwrap();
    node.produce().unwrap();
    assert_eq!(tx.len(), 3);
    assert_eq!(node.take::<i32>("out"), [0]);
    drop(tx);
    assert_eq!(node.collect::<i32>("out", usize::MAX), [1, 2, 3]);
}

#[test]
fn a_full_channel_holds_its_sink_until_there_is_room() {
    let (tx, rx) = channel::<i32>(1);
    let mut node = Harness::new(to_channel(tx));
    (0..4).for_each(|x| node.send("in", x).unwrap());
    node.end();
    assert!(!node.accepts());
    assert_eq!(node.waiting(), 2, "one is in the channel, one is held");
    let mut got = Vec::new();
    while !node.is_ended() {
        got.push(rx.recv().unwrap());
        if !node.is_ended() {
            node.woken();
        }
    }
    node.stop();
    got.extend(rx);
    assert_eq!(got, [0, 1, 2, 3]);
}

#[test]
fn a_channel_without_a_receiver_is_an_error() {
    let (tx, rx) = channel::<i32>(1);
    let mut node = Harness::new(to_channel(tx).on_error(OnError::DeadLetter));
    drop(rx);
    node.send("in", 7).unwrap();
    let dead = node.take::<DeadLetter<i32>>("dead");
    assert_eq!(dead[0].payload, 7);
    assert!(dead[0].error.starts_with("the channel has no receiver any more"), "{dead:?}");
}

#[test]
fn a_reader_that_goes_away_frees_a_sink_that_waits() {
    let (tx, rx) = channel::<i32>(1);
    let mut node = Harness::new(to_channel(tx));
    node.send("in", 1).unwrap();
    node.send("in", 2).unwrap();
    assert!(!node.accepts());
    drop(rx);
    node.woken();
    assert!(node.accepts());
    assert_eq!(node.errors().len(), 1);
}

#[test]
fn a_task_sends_into_the_graph_and_its_return_is_the_end() {
    let (kept, keeps) = channel(1);
    let mut node = Harness::new(from_task(2, move |sender| {
        kept.send(sender.clone()).ok(); // a sender that outlives the task
        (0..100).try_for_each(|x| sender.send(x))
    }));
    assert_eq!(node.collect::<i32>("out", usize::MAX), (0..100).collect::<Vec<_>>());
    assert!(keeps.recv().unwrap().is_closed());
}

#[test]
fn what_a_task_fails_with_comes_after_what_it_sent() {
    let mut node = Harness::new(from_task(8, |sender| {
        sender.send(1).map_err(|_| NodeError::msg("gone"))?;
        Err(NodeError::msg("the sensor is broken"))
    }));
    assert_eq!(node.collect::<i32>("out", usize::MAX), [1]);
    assert_eq!(node.errors(), ["the sensor is broken"]);

    let mut node = Harness::new(from_task(8, |sender| -> Result<(), SendError<i32>> {
        sender.send(1)?;
        panic!("out of range")
    }));
    assert_eq!(node.collect::<i32>("out", usize::MAX), [1]);
    assert_eq!(node.errors(), ["panicked: out of range"]);
}

#[test]
fn a_stopped_source_cancels_its_task() {
    struct Gone(sched_tasks::Sender<()>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.try_send(()).ok();
        }
    }
    let (gone, is_gone) = channel(1);
    let mut node = Harness::new(from_task(1, move |sender| {
        let _gone = Gone(gone);
        (0..).try_for_each(|x| sender.send(x))
    }));
    node.collect::<i32>("out", 1);
    node.stop();
    assert_eq!(is_gone.try_recv(), Ok(()), "`stop` waits for it");
}

#[test]
#[should_panic(expected = "a channel with room for 0 messages")]
fn a_task_without_room_is_refused() {
    let _ = from_task(0, |sender| sender.send(1));
}

#[test]
fn a_task_takes_all_and_the_end_waits_for_it() {
    let sum = Arc::new(Mutex::new(0));
    let (go, gate) = channel::<()>(1);
    let mut node = Harness::new(to_task(2, {
        let sum = Arc::clone(&sum);
        move |numbers| {
            gate.recv().ok();
            numbers.iter().for_each(|x: i32| *sum.lock().unwrap() += x);
            sched_tasks::sleep(MS * 20); // slow at its end
            *sum.lock().unwrap() += 1000;
            Ok::<(), NodeError>(())
        }
    }));
    (1..=5).for_each(|x| node.send("in", x).unwrap());
    assert_eq!(node.waiting(), 2, "two are in the channel, one is held");
    node.end();
    go.send(()).unwrap();
    while !node.is_ended() {
        node.woken();
    }
    assert_eq!(*sum.lock().unwrap(), 1015);
}

#[test]
fn a_task_that_fails_stops_its_node() {
    let mut node = Harness::new(to_task(1, |_: sched_tasks::Receiver<i32>| Err(NodeError::msg("no paper"))));
    node.woken();
    assert_eq!(node.errors(), ["no paper"]);
    assert!(node.send("in", 1).is_err());
    assert!(node.is_ended());
}

/// Futures that are ready when the test opens their gate.
#[derive(Clone, Default)]
struct Gates(Arc<Mutex<Vec<Gate>>>);

#[derive(Default)]
struct Gate {
    open: bool,
    polls: u32,
    waker: Option<Waker>,
}

impl Gates {
    fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new((0..count).map(|_| Gate::default()).collect())))
    }

    fn open(&self, place: usize) {
        let gate = &mut self.0.lock().unwrap()[place];
        gate.open = true;
        if let Some(waker) = gate.waker.take() {
            waker.wake();
        }
    }

    fn polls(&self) -> Vec<u32> {
        self.0.lock().unwrap().iter().map(|gate| gate.polls).collect()
    }

    fn wait(&self, place: usize) -> impl Future<Output = Result<usize, NodeError>> + Send + use<> {
        let gates = self.clone();
        poll_fn(move |cx| {
            let gate = &mut gates.0.lock().unwrap()[place];
            gate.polls += 1;
            gate.waker = Some(cx.waker().clone());
            if gate.open { Poll::Ready(Ok(place)) } else { Poll::Pending }
        })
    }
}

#[test]
fn futures_are_bounded_polled_when_woken_and_kept_in_order() {
    let gates = Gates::new(4);
    let mut node = Harness::new(
        map_async({
            let gates = gates.clone();
            move |x: usize| gates.wait(x)
        })
        .concurrency(3),
    );
    (0..4usize).for_each(|x| node.send("in", x).unwrap());
    assert!(!node.accepts());
    assert_eq!((node.waiting(), gates.polls()), (1, vec![1, 1, 1, 0]));
    gates.open(2);
    node.woken();
    assert!(node.take::<usize>("out").is_empty(), "0 comes first");
    assert_eq!(gates.polls(), [1, 1, 2, 0], "only the one that was woken");
    gates.open(0);
    node.woken();
    assert_eq!(node.take::<usize>("out"), [0]);
    assert_eq!(gates.polls(), [2, 1, 2, 1], "there is room for the fourth");
    node.end();
    gates.open(1);
    gates.open(3);
    node.woken();
    assert!(node.is_ended());
    assert_eq!(node.take::<usize>("out"), [1, 2, 3]);
}

#[test]
fn futures_without_order_come_as_they_are_ready() {
    let gates = Gates::new(3);
    let mut node = Harness::new(
        map_async({
            let gates = gates.clone();
            move |x: usize| gates.wait(x)
        })
        .unordered(),
    );
    (0..3usize).for_each(|x| node.send("in", x).unwrap());
    for place in [2, 0, 1] {
        gates.open(place);
        node.woken();
    }
    let out = node.take_messages::<usize>("out");
    assert_eq!(out.iter().map(|message| message.payload).collect::<Vec<_>>(), [2, 0, 1]);
    assert_eq!(out.iter().map(|message| message.header.trace.0).collect::<Vec<_>>(), [3, 1, 2], "each its own trace");
}

#[test]
fn a_future_that_fails_does_not_harm_others() {
    let mut node = Harness::new(
        map_async(|x: i32| ready(if x % 2 == 0 { Ok(x) } else { Err(NodeError::msg(format!("{x} is odd"))) }))
            .keep_failed(),
    );
    (0..5).for_each(|x| node.send("in", x).unwrap());
    node.end();
    while !node.is_ended() {
        node.woken();
    }
    assert_eq!(node.take::<i32>("out"), [0, 2, 4]);
    let failed = node.take_messages::<DeadLetter<i32>>("failed");
    assert_eq!(failed.iter().map(|letter| letter.payload.payload).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(failed[0].header.kind, Kind::Error);
    assert_eq!(node.errors(), ["1 is odd", "3 is odd"]);
}

#[test]
fn a_future_that_panics_has_failed() {
    let mut node = Harness::new(map_async(|x: i32| async move {
        assert!(x > 0, "{x} is not positive");
        Ok::<_, NodeError>(x)
    }));
    [1, -1, 2].into_iter().for_each(|x| node.send("in", x).unwrap());
    assert_eq!(node.take::<i32>("out"), [1, 2]);
    node.woken();
    assert_eq!(node.errors(), ["panicked: -1 is not positive"]);
}

#[test]
fn a_failed_future_stops_the_node_if_the_policy_says_so() {
    let node = sink_async(|_: i32| ready(Err(NodeError::msg("no"))));
    let mut node = Harness::new(node.spec().on_error(OnError::StopNode));
    node.send("in", 1).unwrap();
    node.woken();
    assert!(node.is_stopped());
}

#[test]
fn a_future_that_takes_too_long_fails_in_the_time_of_the_flow() {
    let mut node = Harness::new(timeout_async(MS * 10, |x: i32| async move {
        if x == 0 {
            pending::<()>().await;
        }
        Ok::<_, NodeError>(x)
    }));
    node.send("in", 0).unwrap();
    node.advance(MS * 4);
    node.send("in", 1).unwrap();
    node.advance(MS * 5);
    assert!(node.take::<i32>("out").is_empty(), "1 waits for its turn");
    node.advance(MS);
    assert_eq!(node.take::<i32>("out"), [1]);
    node.woken();
    assert_eq!(node.errors(), ["not ready after the 10ms it had; give it more time or less work"]);
}

#[test]
fn an_end_in_futures_waits_for_all() {
    let gates = Gates::new(2);
    let mut node = Harness::new(sink_async({
        let gates = gates.clone();
        move |x: usize| {
            let wait = gates.wait(x);
            async move { wait.await.map(drop) }
        }
    }));
    (0..2usize).for_each(|x| node.send("in", x).unwrap());
    node.end();
    gates.open(0);
    node.woken();
    assert!(!node.is_ended());
    gates.open(1);
    node.woken();
    assert!(node.is_ended());
}

#[test]
#[should_panic(expected = "with 0 futures at a time nothing is ever done; allow at least 1")]
fn no_futures_at_a_time_are_refused() {
    let _ = map_async(|x: i32| ready(Ok::<_, NodeError>(x))).concurrency(0);
}
