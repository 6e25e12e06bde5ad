//! Every interleaving of two workers on one edge, as far as two preemptions go: no message is lost, and no signal.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p sched-flow --test loom
//! ```
//!
//! The queue of the edge and the decisions are the real ones, each behind a mutex of loom; what is between them, `drive/` and `node/`, is played here in its
//! steps: pick under one lock, flush or take and settle under the other, report under the first. A worker that finds nothing goes home, so the
//! one that is left must find everything. That the model can fail at all is shown by `tests/planted.rs`.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub, unused_imports, reason = "sources are taken whole, and used in part")]

macro_rules! or_planted {
    ($right:expr, $name:literal => $wrong:expr) => {
        if crate::is_planted($name) { $wrong } else { $right }
    };
}

#[path = "../../src/decide/mod.rs"]
mod decide;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/message.rs"]
mod message;
#[path = "../../src/policy.rs"]
mod policy;
#[path = "../../src/edge/queue.rs"]
mod queue;
#[path = "../../src/drive/sleepers.rs"]
mod sleepers;
#[path = "../../src/state.rs"]
mod state;
#[path = "../../src/stats.rs"]
mod stats;

/// As much of `node/` as the decisions know.
mod node {
    pub(crate) use crate::error::NodeError;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Produced {
        More,
        Idle,
        End,
    }

    pub(crate) mod cx {
        use std::sync::Arc;

        use crate::message::Time;

        #[derive(Debug, Default)]
        pub(crate) struct Log {
            pub(crate) filled: Vec<u32>,
            pub(crate) roomy: Vec<u32>,
            pub(crate) emitted: u64,
            pub(crate) handled: u64,
            pub(crate) errors: u64,
            pub(crate) retries: u64,
            pub(crate) lost: u64,
            pub(crate) finish: bool,
            pub(crate) ticked: bool,
            pub(crate) tick_at: Option<Time>,
            pub(crate) last_error: Option<Arc<str>>,
            pub(crate) failure: Option<Arc<str>>,
        }
    }
}

use std::{collections::VecDeque, sync::Arc};

use decide::{Core, EdgeFacts, NodeFacts, Outcome, Pick, Turn, Work};
use loom::{
    sync::{Condvar, Mutex},
    thread,
};
use message::{Message, Time};
use node::{Produced, cx::Log};
use policy::Band;
use queue::{Merge, Queue, Rule};
use sleepers::{Rings, Sleepers};

fn is_planted(name: &str) -> bool {
    static PLANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("PLANTED").ok()).as_deref() == Some(name)
}

const SOURCE: u32 = 0;
const EDGE: u32 = 0;

/// A source that makes so many numbers.
struct Producer {
    left: u32,
    next: u32,
    outbox: VecDeque<Message<u32>>,
}

/// A sink that expects them in order.
#[derive(Default)]
struct Consumer {
    next: u32,
    hand: VecDeque<Message<u32>>,
}

struct Flow {
    /// Messages are bits, which are merged.
    merges: bool,
    core: Mutex<Core>,
    queue: Mutex<Queue<u32>>,
    producer: Mutex<Producer>,
    consumer: Mutex<Consumer>,
}

impl Flow {
    fn new(capacity: usize, messages: u32, batch: u32, merge: Option<Merge<u32>>) -> Self {
        let facts = |group| NodeFacts { source: group == 0, cadence: None, batch, band: Band::Normal, group };
        let edge = EdgeFacts { from: 0, to: 1, band: Band::Normal, steers: false, loose: false };
        let mut core = Core::new(vec![facts(0), facts(1)], vec![edge], &[0, 1], [4, 2, 1]);
        for node in [0, 1] {
            core.started(node, &Outcome::default(), &Log::default(), Time::START);
        }
        Self {
            merges: merge.is_some(),
            core: Mutex::new(core),
            queue: Mutex::new(Queue::new(capacity, merge.map_or(Rule::Block, Rule::Coalesce))),
            producer: Mutex::new(Producer { left: messages, next: 0, outbox: VecDeque::new() }),
            consumer: Mutex::default(),
        }
    }

    /// As `Outlet::flush`, with `Edge::put_all`.
    fn flush(&self, producer: &mut Producer, log: &mut Log) -> bool {
        let outbox = &mut producer.outbox;
        while !outbox.is_empty() {
            let mut queue = self.queue.lock().unwrap();
            queue.put_all(outbox);
            let mut waits = true;
            if !outbox.is_empty()
                && let Some(mut merging) = queue.begin_merge()
            {
                drop(queue);
                while outbox.front().is_some_and(|first| merging.add(&first.payload)) {
                    outbox.pop_front();
                }
                queue = self.queue.lock().unwrap();
                waits = queue.end_merge(merging, !outbox.is_empty());
            }
            if queue.tell() {
                log.filled.push(EDGE);
            }
            if waits {
                break;
            }
        }
        outbox.is_empty()
    }

    /// As `Cell::turn` of a source.
    fn produce(&self, turn: Turn, log: &mut Log) -> Outcome {
        let mut producer = self.producer.try_lock().expect("one turn at a time");
        let mut outcome = Outcome::default();
        let empty = self.flush(&mut producer, log);
        let room = self.queue.lock().unwrap().room_or_want();
        if !empty || room == 0 {
            outcome.refused = true;
        } else if turn.work == Work::Produce {
            for _ in 0..(turn.budget as usize).min(room) {
                let Some(left) = producer.left.checked_sub(1) else { break };
                producer.left = left;
                let message = Message::new(if self.merges { 1 << producer.next } else { producer.next });
                producer.outbox.push_back(message);
                producer.next += 1;
            }
            outcome.produced = Some(if producer.left == 0 { Produced::End } else { Produced::More });
        }
        let empty = self.flush(&mut producer, log);
        outcome.unsent = !empty;
        outcome.blocked = !empty || self.queue.lock().unwrap().room_or_want() == 0;
        outcome
    }

    /// As `Inlet::serve`.
    fn consume(&self, turn: Turn, log: &mut Log) -> Outcome {
        let mut consumer = self.consumer.try_lock().expect("one turn at a time");
        let Consumer { next, hand } = &mut *consumer;
        let mut outcome = Outcome::default();
        if turn.work == Work::Serve(EDGE) {
            self.queue.lock().unwrap().take(turn.budget as usize, hand);
            while let Some(message) = hand.pop_front() {
                let bits = message.payload;
                if self.merges {
                    assert_eq!(bits & (1 << *next), 1 << *next, "in order");
                    assert_eq!(bits & ((1 << *next) - 1), 0, "each once");
                    *next += bits.count_ones();
                } else {
                    assert_eq!(bits, *next, "in order, each once");
                    *next += 1;
                }
            }
            let settled = self.queue.lock().unwrap().settle(hand);
            outcome.more = settled.more;
            if settled.roomy {
                log.roomy.push(EDGE);
            }
        }
        outcome
    }

    /// As `Shared::work`; but whoever finds nothing goes home.
    fn work(&self) {
        loop {
            let turn = match self.core.lock().unwrap().pick(Time::START) {
                Pick::Turn(turn) => turn,
                Pick::Idle(_) | Pick::Over => return,
            };
            let mut log = Log::default();
            let outcome = if turn.node == SOURCE { self.produce(turn, &mut log) } else { self.consume(turn, &mut log) };
            let mut core = self.core.lock().unwrap();
            core.report(turn, &outcome, &log);
            // Nobody is over before the end, so there is nothing to close.
        }
    }
}

fn two_workers(capacity: usize, messages: u32, batch: u32) {
    two_workers_with(capacity, messages, batch, None);
}

fn two_workers_with(capacity: usize, messages: u32, batch: u32, merge: Option<Merge<u32>>) {
    loom::model(move || {
        let flow = Arc::new(Flow::new(capacity, messages, batch, merge.clone()));
        let other = {
            let flow = Arc::clone(&flow);
            thread::spawn(move || flow.work())
        };
        flow.work();
        other.join().unwrap();
        assert_eq!(flow.consumer.lock().unwrap().next, messages, "a message waits, and nobody knows");
        assert_eq!(
            flow.core.lock().unwrap().pick(Time::START),
            Pick::Over,
            "somebody waits for a signal that was lost"
        );
    });
}

#[test]
fn nothing_is_lost_between_two_workers_at_an_edge_of_one() {
    two_workers(1, 3, 1);
}

#[test]
fn nothing_is_lost_between_two_workers_at_an_edge_of_two() {
    two_workers(2, 3, 2);
}

#[test]
fn no_signal_is_lost_that_comes_during_a_turn() {
    // One at a time into an edge of two: both have turns at once, and what one reports is for the other, who has not reported yet.
    two_workers(2, 4, 1);
}

#[test]
fn nothing_is_lost_while_the_producer_merges_without_the_lock() {
    two_workers_with(
        1,
        4,
        2,
        Some(Arc::new(|waits, new| {
            *waits |= new;
            Ok(())
        })),
    );
}

#[test]
fn a_merge_that_fails_waits_for_room_and_is_signalled() {
    two_workers_with(
        1,
        3,
        3,
        Some(Arc::new(|waits, new| {
            if *new == 0b10 {
                return Err(error::NodeError::msg("not this one"));
            }
            *waits |= new;
            Ok(())
        })),
    );
}

/// What workers look at: how many turns are ready, at what time one will be, and whether there will ever be more.
#[derive(Default)]
struct Mind {
    sleepers: Sleepers,
    ready: u32,
    timer: Option<Time>,
    over: bool,
    /// So many turns were given.
    done: u32,
}

/// The lock and the bell, as in `signals.rs`: rings are tokens in a channel with a place for each worker.
#[derive(Default)]
struct Signals {
    mind: Mutex<Mind>,
    tokens: Mutex<usize>,
    bell: Condvar,
}

impl Signals {
    fn ring(&self, rings: Rings, workers: usize) {
        for _ in 0..rings.count() {
            let mut tokens = self.tokens.lock().unwrap();
            if *tokens < workers {
                *tokens += 1;
                self.bell.notify_one();
            }
        }
    }

    fn wait(&self) {
        let mut tokens = self.tokens.lock().unwrap();
        while *tokens == 0 {
            tokens = self.bell.wait(tokens).unwrap();
        }
        *tokens -= 1;
    }

    /// As `Shared::work`. Whoever watches the clock does not sleep: in this model its time has come at once.
    fn work(&self, workers: usize) {
        let mut mind = self.mind.lock().unwrap();
        loop {
            if mind.ready > 0 {
                mind.ready -= 1;
                mind.done += 1;
                let Mind { sleepers, ready, timer, .. } = &mut *mind;
                let rings = sleepers.ring_one(*ready > 0, *timer);
                drop(mind);
                self.ring(rings, workers);
                mind = self.mind.lock().unwrap();
            } else if mind.over && mind.timer.is_none() {
                let rings = mind.sleepers.ring_all();
                drop(mind);
                return self.ring(rings, workers);
            } else {
                let until = mind.timer;
                let kept = mind.sleepers.sleeps(until);
                drop(mind);
                if kept.is_none() {
                    self.wait();
                }
                mind = self.mind.lock().unwrap();
                mind.sleepers.woke(kept);
                if kept.is_some() && mind.timer.take().is_some() {
                    mind.ready += 1;
                }
            }
        }
    }

    /// As a waker or a handle does.
    fn say(&self, workers: usize, change: impl FnOnce(&mut Mind)) {
        let mut mind = self.mind.lock().unwrap();
        change(&mut mind);
        let Mind { sleepers, ready, timer, over, .. } = &mut *mind;
        let rings = if *over { sleepers.ring_all() } else { sleepers.ring_one(*ready > 0, *timer) };
        drop(mind);
        self.ring(rings, workers);
    }
}

#[test]
fn whoever_sleeps_is_rung_when_there_is_something_to_do() {
    loom::model(|| {
        let signals = Arc::new(Signals::default());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let signals = Arc::clone(&signals);
                thread::spawn(move || signals.work(2))
            })
            .collect();
        signals.say(2, |mind| mind.ready += 1);
        signals.say(2, |mind| mind.timer = Some(Time::from_nanos(1)));
        signals.say(2, |mind| mind.over = true);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(signals.mind.lock().unwrap().done, 2);
    });
}

#[test]
fn a_time_is_watched_again_after_the_one_who_did_was_rung() {
    loom::model(|| {
        let signals = Arc::new(Signals::default());
        let worker = {
            let signals = Arc::clone(&signals);
            thread::spawn(move || signals.work(1))
        };
        for _ in 0..2 {
            signals.say(1, |mind| mind.timer = Some(Time::from_nanos(1)));
        }
        signals.say(1, |mind| mind.over = true);
        worker.join().unwrap();
        let mind = signals.mind.lock().unwrap();
        assert!(mind.timer.is_none() && mind.done >= 1);
    });
}
