//! The same nodes inside a flow, with one worker and with two.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use sched_flow::{
    Builder, Flow, Graph, Message, NodeError, NodeResult, NodeSpec, Out, Stage, Time, batcher, deal, debounce, delay,
    from_channel, from_iter, from_task, map, map_async, sink, tcp_in_on, tcp_out, throttle, to_channel, to_task,
};

use crate::{MS, ms};

fn on_both(test: impl Fn(Builder)) {
    test(Flow::builder());
    test(Flow::builder().workers(2));
}

type Kept<T> = Arc<Mutex<Vec<(Time, T)>>>;

/// A sink that keeps what it gets, with the time.
fn keep<T: Clone + Send + 'static>() -> (NodeSpec, Kept<T>) {
    struct Keep<T>(Kept<T>);
    impl<T: Clone + Send + 'static> Stage for Keep<T> {
        type In = T;
        type Out = ();
        fn outputs(&self) -> Vec<String> {
            Vec::new()
        }
        fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, ()>) -> NodeResult {
            self.0.lock().unwrap().push((out.now(), message.payload));
            Ok(())
        }
    }
    let kept = Kept::<T>::default();
    (NodeSpec::stage(Keep(Arc::clone(&kept))), kept)
}

/// Runs `node` between numbers and a sink, in virtual time; says when what arrived.
fn through<T: Clone + Send + 'static>(count: u32, node: impl Into<NodeSpec>) -> Vec<(Time, T)> {
    let mut graph = Graph::new("through");
    let numbers = graph.add("numbers", from_iter(0..count));
    let node = graph.add("node", node);
    let (out, kept) = keep::<T>();
    let out = graph.add("out", out);
    graph.connect(&numbers, &node).capacity(4);
    graph.connect(&node, &out).capacity(4);
    let ended = Flow::builder().virtual_time().register(graph).build().unwrap().run().unwrap();
    assert!(ended.drained);
    Arc::try_unwrap(kept).map(|kept| kept.into_inner().unwrap()).unwrap_or_else(|kept| kept.lock().unwrap().clone())
}

#[test]
fn a_throttle_keeps_its_rate_in_a_flow() {
    let got = through::<u32>(1_000, throttle::<u32>(100.0, 1));
    let expected: Vec<_> = (0..1_000).map(|x| (ms(x * 10), x)).collect();
    assert_eq!(got, expected);
}

#[test]
fn what_a_node_holds_comes_before_its_end() {
    let got = through::<u32>(10, delay::<u32>(MS * 50));
    assert_eq!(got, (0..10).map(|x| (ms(50), x)).collect::<Vec<_>>());
    assert_eq!(through::<u32>(10, debounce::<u32>(MS * 50))[0].1, 9);
    let batches = through::<Vec<u32>>(10, batcher::<u32>(4).within(MS));
    assert_eq!(batches.iter().map(|(_, batch)| batch.len()).collect::<Vec<_>>(), [4, 4, 2]);
}

#[test]
fn a_task_at_the_end_of_a_graph_has_all_when_the_flow_ends() {
    on_both(|builder| {
        let sum = Arc::new(AtomicU64::new(0));
        let mut graph = Graph::new("to task");
        let numbers = graph.add("numbers", from_iter(1..=100u64));
        let add = Arc::clone(&sum);
        let task = graph.add(
            "task",
            to_task(4, move |numbers| {
                for x in &numbers {
                    sched_tasks::yield_now();
                    add.fetch_add(x, SeqCst);
                }
                sched_tasks::sleep(MS * 20);
                add.fetch_add(1_000_000, SeqCst);
                Ok::<(), NodeError>(())
            }),
        );
        graph.connect(&numbers, &task).capacity(2);
        let ended = builder.register(graph).build().unwrap().run().unwrap();
        assert!(ended.drained);
        assert_eq!(sum.load(SeqCst), 1_005_050);
    });
}

#[test]
fn what_a_task_sends_goes_through_futures_into_a_channel() {
    on_both(|builder| {
        let (tx, rx) = sched_tasks::channel(3);
        let mut graph = Graph::new("all of it");
        let task = graph.add("task", from_task(2, |numbers| (0..300u64).try_for_each(|x| numbers.send(x))));
        let futures = map_async(|x: u64| async move {
            sched_tasks::sleep_async(Duration::from_micros(x % 7 * 100)).await;
            Ok::<_, NodeError>(x)
        });
        let futures = graph.add("futures", futures.concurrency(8));
        let out = graph.add("out", to_channel(tx));
        graph.connect(&task, &futures).capacity(2);
        graph.connect(&futures, &out).capacity(2);
        let flow = builder.register(graph).build().unwrap();
        let reader = std::thread::spawn(move || rx.iter().collect::<Vec<u64>>());
        assert!(flow.run().unwrap().drained);
        assert_eq!(reader.join().unwrap(), (0..300).collect::<Vec<_>>());
    });
}

#[test]
fn a_channel_feeds_a_flow_that_is_asleep() {
    on_both(|builder| {
        let (tx, rx) = sched_tasks::channel(1);
        let (back, heard) = sched_tasks::channel(1);
        let mut graph = Graph::new("echo");
        let source = graph.add("source", from_channel(rx));
        let out = graph.add("out", to_channel(back));
        graph.connect(&source, &out);
        let flow = builder.register(graph).build().unwrap();
        let talk = std::thread::spawn(move || {
            for x in 0..200 {
                tx.send(x).unwrap();
                assert_eq!(heard.recv(), Ok(x)); // one at a time: the flow falls asleep in between
            }
        });
        assert!(flow.run().unwrap().drained);
        talk.join().unwrap();
    });
}

#[test]
fn a_slow_consumer_gets_less_of_a_deal_and_blocks_no_other() {
    let mut graph = Graph::new("deal");
    let numbers = graph.add("numbers", from_iter(0..1_000u32));
    let deal = graph.add("deal", deal::<u32>(2));
    let slow = graph.add("slow", throttle::<u32>(1.0, 1));
    let end = graph.add("end", sink(|_: u32| ()));
    let (fast, kept) = keep::<u32>();
    let fast = graph.add("fast", fast);
    graph.connect(&numbers, &deal);
    graph.connect(deal.out("0"), slow.input("in")).capacity(1);
    graph.connect(deal.out("1"), fast.input("in")).capacity(1);
    graph.connect(&slow, &end);
    let ended = Flow::builder().virtual_time().register(graph).build().unwrap().run().unwrap();
    let handled = |node: &str| ended.stats.node(node).unwrap().messages;
    assert_eq!(handled("slow") + handled("fast"), 1_000);
    assert!(handled("slow") <= 10, "{}", handled("slow"));
    assert!(kept.lock().unwrap().iter().all(|(at, _)| *at == Time::START), "they do not wait");
}

#[test]
fn two_flows_talk_by_tcp_and_nothing_is_lost() {
    on_both(|builder| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut graph = Graph::new("talk");
        let numbers = graph.add("numbers", from_iter(0..5_000u32));
        let say = graph.add("say", map(|x: u32| x.to_string()));
        let send = graph.add("send", tcp_out(address));
        let hear = graph.add("hear", tcp_in_on(listener));
        let (done, all) = sched_tasks::channel(1);
        let mut next = 0;
        let check = graph.add(
            "check",
            sink(move |line: String| {
                assert_eq!(line, next.to_string());
                next += 1;
                if next == 5_000 {
                    done.try_send(()).unwrap();
                }
            }),
        );
        graph.connect(&numbers, &say).capacity(16);
        graph.connect(&say, &send).capacity(16);
        graph.connect(&hear, &check).capacity(16);
        let flow = builder.register(graph).build().unwrap();
        let handle = flow.handle();
        let watch = std::thread::spawn(move || {
            all.recv().unwrap();
            handle.shutdown(); // a listener never ends by itself
        });
        let ended = flow.run().unwrap();
        watch.join().unwrap();
        assert!(ended.drained);
        assert_eq!(ended.stats.node("check").unwrap().errors, 0);
    });
}

#[test]
fn a_delay_that_is_told_to_stop_lets_go_of_what_it_holds() {
    let mut graph = Graph::new("stopped");
    let mut left = 10;
    let numbers = graph.add(
        "numbers",
        sched_flow::source(move || {
            left -= 1;
            Some(left)
        })
        .tick(MS),
    );
    let node = graph.add("node", delay::<i32>(MS * 50));
    let (out, kept) = keep::<i32>();
    let out = graph.add("out", out);
    let mut at = 0;
    let stop = graph.add(
        "stop",
        sched_flow::source(move || {
            at += 1;
            (at == 1).then_some(sched_flow::Control::Stop)
        })
        .tick(MS * 20),
    );
    graph.connect(&numbers, &node);
    graph.connect(&node, &out);
    graph.connect(stop.out("out"), node.input("control")).control();
    graph.connect(stop.out("out"), numbers.input("control")).control();
    let flow = Flow::builder().virtual_time().register(graph).build().unwrap();
    let handle = flow.handle();
    let run = std::thread::spawn(move || flow.run());
    let begun = std::time::Instant::now();
    while !run.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(5), "{}", handle.why("node").unwrap());
        std::thread::sleep(MS);
    }
    assert_eq!(kept.lock().unwrap().len(), 19);
}
