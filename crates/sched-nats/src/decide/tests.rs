//! Both windows against a broker that loses connections, refuses, forgets names and delivers again.
//!
//! Room: tests.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;

use super::lost::Lost;
use super::receive::{Came, Decision, Position, Receiver};
use super::send::{ACK_TIMEOUT, PACKS, Pack, Refused, Sender};

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A pack of so many messages joins the window.
    Push(u64),
    /// The sender sends what it may.
    Send,
    /// The broker takes the oldest of what is on its way.
    Take,
    /// The oldest answer arrives.
    Answer,
    /// The connection is lost, and what is on its way with it.
    Cut,
    Reconnect,
    /// The broker has no room for the next pack.
    Full,
    /// It forgets the names of packs, as after a restart.
    Forget,
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..5_u64).prop_map(Step::Push),
        4 => Just(Step::Send),
        8 => Just(Step::Take),
        8 => Just(Step::Answer),
        1 => Just(Step::Cut),
        2 => Just(Step::Reconnect),
        1 => Just(Step::Full),
        1 => Just(Step::Forget),
        2 => (1..2_000_u64).prop_map(Step::Time),
    ]
}

/// A pack on its way: its attempt, its number, and the one it must follow.
type OnItsWay = (u64, u64, Option<u64>);
type Answer = (u64, u64, Result<(), Refused>);

struct World {
    sender: Sender,
    now: Duration,
    next: u64,
    pushed: Vec<Pack>,
    left: u64,
    way: VecDeque<OnItsWay>,
    answers: VecDeque<Answer>,
    is_cut: bool,
    full: bool,
    /// What the broker stored, in order.
    stored: Vec<u64>,
    last: Option<u64>,
    names: HashSet<u64>,
}

impl World {
    fn new() -> Self {
        Self {
            sender: Sender::new(),
            now: Duration::ZERO,
            next: 1,
            pushed: Vec::new(),
            left: 0,
            way: VecDeque::new(),
            answers: VecDeque::new(),
            is_cut: false,
            full: false,
            stored: Vec::new(),
            last: None,
            names: HashSet::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push(messages) if self.sender.has_room() => {
                let pack = Pack { first: self.next, messages, bytes: messages * 10 };
                self.next += messages;
                self.sender.push(pack);
                self.pushed.push(pack);
            }
            Step::Push(_) => assert!(self.pushed.len() >= PACKS),
            Step::Send => {
                while let Some(send) = self.sender.next(self.now) {
                    assert!(!self.is_cut, "nothing is sent without a connection");
                    self.way.push_back((self.sender.attempt(), send.first, send.after));
                }
            }
            Step::Take => {
                let Some((attempt, first, after)) = self.way.pop_front() else { return };
                let answer = if self.names.contains(&first) {
                    Ok(())
                } else if after.is_some() && after != self.last {
                    Err(Refused::Again)
                } else if std::mem::take(&mut self.full) {
                    Err(Refused::Full)
                } else {
                    self.stored.push(first);
                    self.last = Some(first);
                    self.names.insert(first);
                    Ok(())
                };
                self.answers.push_back((attempt, first, answer));
            }
            Step::Answer => match self.answers.pop_front() {
                Some((_, first, Ok(()))) => self.left += self.sender.acked(first, self.now).0,
                Some((attempt, _, Err(why))) => drop(self.sender.refused(attempt, why, self.now)),
                None => {}
            },
            Step::Cut if !self.is_cut => {
                self.is_cut = true;
                self.way.clear();
                self.answers.clear();
                self.sender.disconnected();
            }
            Step::Reconnect if self.is_cut => {
                self.is_cut = false;
                self.sender.connected(self.now);
            }
            Step::Cut | Step::Reconnect => {}
            Step::Full => self.full = true,
            Step::Forget => {
                self.names.clear();
                self.last = None;
            }
            Step::Time(ms) => {
                self.now += Duration::from_millis(ms);
                let _ = self.sender.tick(self.now);
            }
        }
    }

    /// From now on nothing goes wrong.
    fn settle(&mut self) {
        self.step(Step::Reconnect);
        self.full = false;
        for _ in 0..10_000 {
            if self.sender.is_empty() {
                return;
            }
            for step in [Step::Send, Step::Take, Step::Answer] {
                self.step(step);
            }
            if self.way.is_empty()
                && self.answers.is_empty()
                && let Some(due) = self.sender.due()
            {
                self.now = self.now.max(due);
                let _ = self.sender.tick(self.now);
            }
        }
        panic!("it never ends: {:?}", self.sender);
    }
}

proptest! {
    /// The stored packs, without those that come twice, are all packs in order.
    #[test]
    fn the_broker_gets_every_pack_in_order(steps in proptest::collection::vec(step(), 0..400)) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.step(step));
        world.settle();
        let mut receiver = Receiver::new(u64::MAX, u64::MAX);
        let mut handed = Vec::new();
        for first in &world.stored {
            let pack = world.pushed.iter().find(|pack| pack.first == *first).unwrap();
            let came = Came { session: 7, first: pack.first, messages: pack.messages, bytes: pack.bytes, given_before: false, lost: Lost::default() };
            match receiver.came(came) {
                Decision::HandOn { skip } => {
                    prop_assert_eq!(skip, 0);
                    handed.push(pack.first);
                }
                Decision::Held { .. } | Decision::Acknowledge => {}
                Decision::AskAgain => prop_assert!(false, "a gap before {}: {:?}", first, world.stored),
            }
        }
        let pushed: Vec<u64> = world.pushed.iter().map(|pack| pack.first).collect();
        prop_assert_eq!(handed, pushed);
        prop_assert_eq!(world.left, world.next - 1, "the credit of all messages came back");
        prop_assert_eq!(receiver.counts().missing, 0);
    }

    /// The broker gives packs again from any place, as after a lost connection; the node finishes them at its own speed.
    #[test]
    fn the_node_gets_every_message_once_and_only_finished_packs_are_acknowledged(
        sizes in proptest::collection::vec(1..6_u64, 1..60),
        moves in proptest::collection::vec((0..4_u8, 0..60_usize), 0..300),
    ) {
        let firsts: Vec<u64> = sizes.iter().scan(1, |next, size| { let first = *next; *next += size; Some(first) }).collect();
        let total: u64 = sizes.iter().sum();
        let mut receiver = Receiver::new(20, 10_000);
        let (mut emitted, mut handled, mut finished, mut acked) = (0, 0, 0, 0_usize);
        let mut at = 0;
        let mut last = 0;
        // After the broker was asked again it gives all in order, until there is progress; and so it does at first.
        let mut in_order = true;
        let mut run = |kind: u8, place: usize, receiver: &mut Receiver| {
            match kind {
                // The next pack of the broker.
                0 if at < sizes.len() && receiver.has_credit() => {
                    let came = Came { session: 1, first: firsts[at], messages: sizes[at], bytes: 1, given_before: false, lost: Lost::default() };
                    match receiver.came(came) {
                        Decision::HandOn { skip } => {
                            assert_eq!(firsts[at] + skip, last + 1, "in order, and once");
                            last = firsts[at] + sizes[at] - 1;
                            in_order = false;
                            emitted += sizes[at] - skip;
                            receiver.emitted(emitted);
                        }
                        Decision::Acknowledge => assert!(firsts[at] + sizes[at] <= finished + 1, "it was finished"),
                        Decision::Held { .. } => {}
                        Decision::AskAgain => {
                            (at, in_order) = (acked, true);
                            return;
                        }
                    }
                    at += 1;
                }
                // The connection is lost: what is not acknowledged comes again, or a part of it was lost on its way.
                1 if place.is_multiple_of(2) || in_order => at = acked,
                1 => at = (at + place % 3).min(sizes.len()),
                2 => handled = emitted.min(handled + place as u64),
                _ => finished = handled.min(finished + place as u64),
            }
            let packs = receiver.progressed(handled, finished);
            acked += packs;
            let covered: u64 = sizes[..acked].iter().sum();
            assert!(covered <= finished, "{covered} acknowledged, {finished} finished");
        };
        for (kind, place) in moves {
            run(kind, place, &mut receiver);
        }
        for _ in 0..10 * (sizes.len() + 2) {
            for (kind, place) in [(0, 0), (2, 1_000), (3, 1_000)] {
                run(kind, place, &mut receiver);
            }
            run(1, 0, &mut receiver);
            for _ in 0..4 {
                run(0, 0, &mut receiver);
            }
        }
        prop_assert_eq!(last, total);
        prop_assert_eq!(receiver.counts().received, total);
        prop_assert_eq!(receiver.counts().missing, 0);
    }
}

#[test]
fn an_acknowledgement_that_does_not_come_is_not_awaited_for_ever() {
    let mut sender = Sender::new();
    sender.push(Pack { first: 1, messages: 1, bytes: 1 });
    assert!(sender.next(Duration::ZERO).is_some_and(|send| !send.again));
    assert!(!sender.tick(ACK_TIMEOUT / 2));
    assert!(sender.tick(ACK_TIMEOUT));
    let due = sender.due().unwrap();
    assert!(sender.next(due).is_some_and(|send| send.again));
}

#[test]
fn messages_that_are_really_gone_are_counted_and_do_not_stop_the_rest() {
    let mut receiver = Receiver::new(100, 100);
    let came = |first| Came { session: 1, first, messages: 2, bytes: 1, given_before: false, lost: Lost::default() };
    assert_eq!(receiver.came(came(1)), Decision::HandOn { skip: 0 });
    assert_eq!(receiver.came(came(7)), Decision::AskAgain);
    assert_eq!(receiver.came(came(7)), Decision::HandOn { skip: 0 });
    assert_eq!(receiver.counts().missing, 4);
}

#[test]
fn credit_is_for_what_is_not_handled_and_not_for_what_a_window_holds() {
    let mut receiver = Receiver::new(4, 100);
    let came = |first| Came { session: 1, first, messages: 4, bytes: 1, given_before: true, lost: Lost::default() };
    assert_eq!(receiver.came(came(1)), Decision::HandOn { skip: 0 });
    assert!(!receiver.has_credit());
    receiver.emitted(4);
    assert_eq!(receiver.progressed(4, 0), 0, "handled and held: not acknowledged");
    assert!(receiver.has_credit());
    assert_eq!(receiver.progressed(4, 4), 1);
    assert_eq!(receiver.counts().redelivered, 4);
}

#[test]
fn a_sender_that_starts_again_is_a_new_session() {
    let mut receiver = Receiver::new(100, 100);
    let came = |session| Came { session, first: 1, messages: 2, bytes: 1, given_before: false, lost: Lost::default() };
    assert_eq!(receiver.came(came(1)), Decision::HandOn { skip: 0 });
    assert_eq!(receiver.came(came(2)), Decision::HandOn { skip: 0 });
    assert_eq!(receiver.position(), Some(Position { session: 2, received: 2, delivered: 0, missing: 0 }));
    assert_eq!(receiver.came(came(1)), Decision::Held { at: 0 });
}

/// What a process counts as missing that began with `first`, after another told of all before `told`.
fn missing(first: u64, lost: Lost, told: Option<(u64, u64)>) -> (u64, u64) {
    let mut receiver = Receiver::new(100, 100);
    receiver.was_told(told);
    let came = Came { session: 1, first, messages: 2, bytes: 1, given_before: false, lost };
    assert_eq!(receiver.came(came), Decision::HandOn { skip: 0 });
    (receiver.counts().missing, receiver.position().unwrap().missing)
}

#[test]
fn what_was_lost_before_a_process_began_is_counted_by_it() {
    let lost = Lost { messages: 4, before: 7 };
    assert_eq!(missing(7, Lost::default(), None), (0, 0), "an earlier process had them");
    assert_eq!(missing(7, lost, None), (4, 4));
    assert_eq!(missing(9, lost, None), (4, 4), "by the next process, too, if the one before was killed");
    assert_eq!(missing(9, lost, Some((1, 9))), (0, 4), "and once only, if that one ended and told it");
    assert_eq!(missing(9, lost, Some((2, 9))), (4, 4), "of another session");
}

#[test]
fn what_was_lost_while_a_process_lives_is_counted_once() {
    let mut receiver = Receiver::new(100, 100);
    let came = |first, lost| Came { session: 1, first, messages: 2, bytes: 1, given_before: false, lost };
    assert_eq!(receiver.came(came(3, Lost::default())), Decision::HandOn { skip: 0 });
    let lost = Lost { messages: 5, before: 8 };
    assert_eq!(receiver.came(came(8, lost)), Decision::AskAgain);
    assert_eq!(receiver.came(came(8, lost)), Decision::HandOn { skip: 0 });
    assert_eq!(receiver.came(came(10, lost)), Decision::HandOn { skip: 0 });
    assert_eq!(receiver.counts().missing, 3);
}
