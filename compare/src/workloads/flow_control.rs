//! How long a control message waits while data never lets up.
//!
//! A source that always has more, and a stage that works 1 µs on each message: its edge is always full. Another thread sends a control
//! message every millisecond, with the time on it, to an input of the same stage. It is taken in by a source of its own, which puts a second time on it. So there are two latencies: from *emitting*
//! it inside the flow, and from *sending* it, which adds the way in: waking that source.
//!
//! Bar: what is emitted waits at most one turn, 99.9 % of the times. A turn is 64 messages, and what one costs is measured in the same run: the time
//! of the run by the messages worked on. The machine's own pauses only ever add to a latency, and in a thousand there is always one: so the
//! figure is that of the best of several batches, and a further row has all of them.
//!
//! Tokio stands beside it for orientation: two tasks on one thread, and a `biased` select that looks at the control channel before each message.
//! No batches, so it may be quicker here; `flow-chain` says what that costs.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::measure::{Plan, per_mille};
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::peers;

pub const NAME: &str = "flow-control";
const CAPACITY: usize = 1024;
const BATCH: u32 = 64;
const PAUSE: Duration = Duration::from_millis(1);
/// Before the first control message: the edges are full by then.
const WARM_UP: Duration = Duration::from_millis(100);

/// About a microsecond of work.
fn work(value: u64) -> u64 {
    (0..600).fold(value, |x, _| (x ^ (x >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// A control message: when it was sent, and when it was emitted.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    sent: Instant,
    emitted: Instant,
}

impl Stamp {
    fn now() -> Self {
        let now = Instant::now();
        Self { sent: now, emitted: now }
    }
}

/// What was seen of one side.
#[derive(Debug, Default)]
struct Seen {
    from_send_us: Vec<f64>,
    from_emit_us: Vec<f64>,
    /// Data messages worked on.
    worked: u64,
    took: Duration,
}

impl Seen {
    fn with_room(count: usize) -> Self {
        Self { from_send_us: Vec::with_capacity(count), from_emit_us: Vec::with_capacity(count), ..Self::default() }
    }

    /// A control message arrived.
    fn arrived(&mut self, stamp: Stamp) {
        let now = Instant::now();
        let since = |then: Instant| now.duration_since(then).as_secs_f64() * 1e6;
        self.from_send_us.push(since(stamp.sent));
        self.from_emit_us.push(since(stamp.emitted));
    }

    /// A data message arrived.
    fn worked(&mut self, value: u64) {
        black_box(work(value));
        self.worked += 1;
    }

    /// What a turn of data costs.
    fn turn_us(&self) -> f64 {
        let message_us = self.took.as_secs_f64() * 1e6 / self.worked as f64;
        (message_us * f64::from(BATCH) * 10.0).round() / 10.0
    }

    /// Every message arrived, and there was always data to compete with.
    fn check(self, count: usize) -> Result<Self, Failure> {
        if self.from_send_us.len() != count {
            return Err(format!("of {count} control messages {} arrived", self.from_send_us.len()).into());
        }
        let worked_us = self.took.as_secs_f64() * 1e6;
        if (self.worked as f64) < worked_us / 100.0 {
            return Err(format!("{} messages in {worked_us:.0} µs: the load was not full", self.worked).into());
        }
        Ok(self)
    }
}

/// Sends `count` control messages, one every millisecond.
fn send_all(count: usize, mut send: impl FnMut(Stamp)) {
    thread::sleep(WARM_UP);
    for _ in 0..count {
        thread::sleep(PAUSE);
        send(Stamp::now());
    }
}

mod ours {
    use super::*;
    use bursar::flow::{
        AnyMessage, Band, Context, Flow, Graph, Node, NodeError, NodeResult, NodeSpec, Out, Ports, Produced, Source,
        source,
    };
    use std::sync::mpsc;
    use std::task::Waker;

    /// Takes control messages in from a thread outside.
    struct Inlet {
        messages: mpsc::Receiver<Stamp>,
        /// Gives the thread the waker of this node.
        wakers: mpsc::Sender<Waker>,
    }

    impl Source for Inlet {
        type Out = Stamp;

        fn on_start(&mut self, out: &mut Out<'_, Stamp>) -> NodeResult {
            Ok(self.wakers.send(out.waker())?)
        }

        fn produce(&mut self, out: &mut Out<'_, Stamp>) -> Result<Produced, NodeError> {
            Ok(match self.messages.try_recv() {
                Ok(stamp) => {
                    out.emit(Stamp { emitted: Instant::now(), ..stamp });
                    Produced::More
                }
                Err(mpsc::TryRecvError::Empty) => Produced::Idle,
                Err(mpsc::TryRecvError::Disconnected) => Produced::End,
            })
        }
    }

    /// The busy stage. What it saw it hands over when it stops.
    struct Busy {
        seen: Seen,
        result: mpsc::Sender<Seen>,
        began: Instant,
    }

    impl Node for Busy {
        fn ports(&self, ports: &mut Ports) {
            ports.input::<u64>("in");
            ports.input::<Stamp>("orders");
        }

        fn on_message(&mut self, port: &str, message: AnyMessage<'_>, _: &mut Context<'_>) -> NodeResult {
            match port {
                "orders" => self.seen.arrived(message.take::<Stamp>()?.payload),
                _ => self.seen.worked(message.take::<u64>()?.payload),
            }
            Ok(())
        }

        fn on_stop(&mut self, _: &mut Context<'_>) -> NodeResult {
            let mut seen = std::mem::take(&mut self.seen);
            seen.took = self.began.elapsed();
            Ok(self.result.send(seen)?)
        }
    }

    pub(super) fn run(count: usize, workers: Option<usize>) -> Result<Seen, Failure> {
        let (send, messages) = mpsc::channel();
        let (wakers, waker_of_node) = mpsc::channel();
        let (result, results) = mpsc::channel();
        let mut graph = Graph::new("control");
        let stop = Arc::new(AtomicBool::new(false));
        let (mut numbers, stopping) = (0_u64.., stop.clone());
        let data = graph.add("data", source(move || numbers.next().filter(|_| !stop.load(Ordering::Relaxed))));
        let inlet = graph.add("inlet", NodeSpec::source(Inlet { messages, wakers }).band(Band::Control));
        let seen = Seen::with_room(count);
        let busy = graph.add("busy", NodeSpec::node(Busy { seen, result, began: Instant::now() }));
        graph.connect(data.out("out"), busy.input("in")).capacity(CAPACITY);
        graph.connect(inlet.out("out"), busy.input("orders")).control();

        let mut flow = Flow::builder().register(graph).batch(BATCH);
        if let Some(workers) = workers {
            flow = flow.workers(workers);
        }
        let flow = flow.build()?;
        thread::scope(|threads| {
            threads.spawn(move || {
                if let Ok(waker) = waker_of_node.recv() {
                    send_all(count, |stamp| {
                        send.send(stamp).expect("the inlet is open");
                        waker.wake_by_ref();
                    });
                    // Both sources end, and so does the flow when all is delivered.
                    stopping.store(true, Ordering::Relaxed);
                    drop(send);
                    waker.wake();
                }
            });
            flow.run()
        })?;
        results.recv()?.check(count)
    }
}

mod with_tokio {
    use super::*;
    use tokio::select;
    use tokio::sync::mpsc::{channel, unbounded_channel};

    pub(super) fn run(count: usize) -> Result<Seen, Failure> {
        let runtime = peers::tokio_on_this_thread()?;
        let (send, mut orders) = unbounded_channel();
        let (data, mut input) = channel::<u64>(CAPACITY);
        let stop = Arc::new(AtomicBool::new(false));
        thread::scope(|threads| {
            let stopping = stop.clone();
            threads.spawn(move || {
                send_all(count, |stamp| send.send(stamp).expect("the stage still receives"));
                stopping.store(true, Ordering::Relaxed);
            });
            runtime.block_on(async move {
                tokio::spawn(async move {
                    for value in 0.. {
                        if stop.load(Ordering::Relaxed) || data.send(value).await.is_err() {
                            break;
                        }
                    }
                });
                let busy = tokio::spawn(async move {
                    let mut seen = Seen::with_room(count);
                    let began = Instant::now();
                    loop {
                        select! {
                            biased;
                            Some(stamp) = orders.recv() => seen.arrived(stamp),
                            Some(value) = input.recv() => seen.worked(value),
                            else => break,
                        }
                    }
                    seen.took = began.elapsed();
                    seen
                });
                busy.await.expect("no task panics").check(count)
            })
        })
    }
}

/// What a percentile came to, over all batches and in the best of them.
struct Tail {
    all: f64,
    best: f64,
}

fn tail(batches: &[Seen], latencies: fn(&Seen) -> &Vec<f64>, thousandths: usize) -> Tail {
    let mut all: Vec<f64> = batches.iter().flat_map(latencies).copied().collect();
    let each = batches.iter().map(|seen| per_mille(&mut latencies(seen).clone(), thousandths));
    Tail { best: each.fold(f64::INFINITY, f64::min), all: per_mille(&mut all, thousandths) }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let (batches, count) = (plan.pick(4, 2), plan.pick(2000, 500));
    let [mut alone, mut both, mut tokio] = [const { Vec::new() }; 3];
    for batch in 1..=batches {
        plan.step(&format!("ours, batch {batch} of {batches}"));
        alone.push(ours::run(count, None)?);
        plan.step(&format!("ours, 2 workers, batch {batch} of {batches}"));
        both.push(ours::run(count, Some(2))?);
        plan.step(&format!("tokio, batch {batch} of {batches}"));
        tokio.push(with_tokio::run(count)?);
    }

    let mut rows = Vec::new();
    for (peer, seen) in [(LIMIT, &alone), ("bar, 2 workers", &both)] {
        let turn = seen.iter().map(Seen::turn_us).fold(f64::INFINITY, f64::min);
        let emitted = tail(seen, |seen| &seen.from_emit_us, 999);
        rows.push(Row::new(NAME, peer, [emitted.best, turn], "µs p99.9, emitted", Bar::AtMost));
        rows.push(Row::new(NAME, peer, [emitted.all, turn], "µs p99.9, emitted, all batches", Bar::Open));
        let sent = tail(seen, |seen| &seen.from_send_us, 999);
        rows.push(Row::new(NAME, peer, [sent.best, turn], "µs p99.9, sent", Bar::Open));
    }
    for (peer, seen) in [("tokio", &alone), ("tokio, ours 2 workers", &both)] {
        for (thousandths, unit) in [(500, "µs p50, sent"), (990, "µs p99, sent"), (999, "µs p99.9, sent")] {
            let both = [seen, &tokio].map(|seen| tail(seen, |seen| &seen.from_send_us, thousandths).best);
            rows.push(Row::new(NAME, peer, both, unit, Bar::Open));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_every_side_all_control_messages_arrive() {
        let count = 20;
        ours::run(count, None).expect("ours");
        ours::run(count, Some(2)).expect("ours, 2 workers");
        with_tokio::run(count).expect("tokio");
    }

    #[test]
    fn the_best_batch_is_the_least_disturbed() {
        let batch = |us: f64| Seen { from_send_us: vec![us; 10], ..Seen::default() };
        let Tail { all, best } = tail(&[batch(3.0), batch(900.0)], |seen| &seen.from_send_us, 999);
        assert_eq!((all, best), (900.0, 3.0));
    }

    #[test]
    fn a_control_message_that_is_lost_is_a_failure() {
        let mut seen = Seen { worked: 1000, took: Duration::from_millis(1), ..Seen::default() };
        seen.arrived(Stamp::now());
        assert!(seen.check(2).is_err());
    }

    #[test]
    fn a_load_that_is_not_full_proves_nothing() {
        let mut seen = Seen { worked: 5, took: Duration::from_millis(1), ..Seen::default() };
        seen.arrived(Stamp::now());
        assert!(seen.check(1).is_err());
    }
}
