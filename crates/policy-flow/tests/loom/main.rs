//! Every interleaving of two workers on one edge, as far as two preemptions go: no message is lost, and no signal.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p policy-flow --test loom
//! ```
//!
//! The queue of the edge and the decisions are the real ones, each behind a mutex of loom; the code between them, in `sched-flow`, is repeated here step by
//! step: pick under one lock, flush or take and settle under the other, report under the first. A worker that finds nothing ends, so the
//! one that is left must find everything. `tests/planted.rs` shows that the model can fail.
#![cfg(loom)]

use std::{collections::VecDeque, sync::Arc};

use loom::{sync::Mutex, thread};
use policy_flow::{Band, Core, EdgeFacts, Log, NodeFacts, Outcome, Pick, Policy, Produced, Queue, Time, Turn, Work};

const SOURCE: u32 = 0;
const EDGE: u32 = 0;

/// A source of `left` numbers.
struct Producer {
    left: u32,
    next: u32,
    outbox: VecDeque<u32>,
}

/// A sink that expects them in order.
#[derive(Default)]
struct Consumer {
    next: u32,
    hand: VecDeque<u32>,
}

/// Merges a new message into one that waits; whether it worked.
type Merge = fn(&mut u32, u32) -> bool;

struct Flow {
    /// Messages are bits, which are merged.
    merge: Option<Merge>,
    core: Mutex<Core>,
    queue: Mutex<Queue<u32>>,
    producer: Mutex<Producer>,
    consumer: Mutex<Consumer>,
}

impl Flow {
    fn new(capacity: usize, messages: u32, batch: u32, merge: Option<Merge>) -> Self {
        let facts = |group| NodeFacts { source: group == 0, cadence: None, batch, band: Band::Normal, group };
        let edge = EdgeFacts { from: 0, to: 1, band: Band::Normal, steers: false, loose: false };
        let mut core = Core::new(vec![facts(0), facts(1)], vec![edge], &[0, 1], [4, 2, 1]);
        for node in [0, 1] {
            core.started(node, &Outcome::default(), &Log::default(), Time::START);
        }
        let policy = if merge.is_some() { Policy::Coalesce } else { Policy::Block };
        Self {
            merge,
            core: Mutex::new(core),
            queue: Mutex::new(Queue::new(capacity, policy)),
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
                let merge = self.merge.expect("it coalesces");
                while outbox.front().is_some_and(|first| merge(merging.newest(), *first)) {
                    merging.merged();
                    outbox.pop_front();
                }
                queue = self.queue.lock().unwrap();
                waits = queue.end_merge(merging, !outbox.is_empty());
            }
            if queue.signal_filled() {
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
                let message = if self.merge.is_some() { 1 << producer.next } else { producer.next };
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
            while let Some(bits) = hand.pop_front() {
                if self.merge.is_some() {
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

    /// As `Shared::work`; but a worker that finds nothing ends.
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
            // No node is over before the end, so there is nothing to close.
        }
    }
}

fn two_workers(capacity: usize, messages: u32, batch: u32) {
    two_workers_with(capacity, messages, batch, None);
}

fn two_workers_with(capacity: usize, messages: u32, batch: u32, merge: Option<Merge>) {
    loom::model(move || {
        let flow = Arc::new(Flow::new(capacity, messages, batch, merge));
        let other = {
            let flow = Arc::clone(&flow);
            thread::spawn(move || flow.work())
        };
        flow.work();
        other.join().unwrap();
        assert_eq!(flow.consumer.lock().unwrap().next, messages, "a message waits without a signal");
        assert_eq!(flow.core.lock().unwrap().pick(Time::START), Pick::Over, "a node waits for a signal that was lost");
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
    // One at a time into an edge of two: both have turns at once, and what one reports is for the other, which has not reported yet.
    two_workers(2, 4, 1);
}

#[test]
fn nothing_is_lost_while_the_producer_merges_without_the_lock() {
    two_workers_with(
        1,
        4,
        2,
        Some(|waits, new| {
            *waits |= new;
            true
        }),
    );
}

#[test]
fn a_merge_that_fails_waits_for_room_and_is_signalled() {
    two_workers_with(
        1,
        3,
        3,
        Some(|waits, new| {
            if new != 0b10 {
                *waits |= new;
            }
            new != 0b10 // not this one
        }),
    );
}
