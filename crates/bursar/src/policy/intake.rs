//! From the bytes of a service to decisions.
//!
//! Room: decisions. Knows bytes and times as values; knows nothing of sockets, threads or clocks.
//!
//! # Invariant
//! Whatever the bytes are: no more than the longest message is kept of them, and what is in force passed all checks.
//!
//! Checked by `whatever_bytes_come_what_is_in_force_is_good_and_never_older`.

use policy_admission::service::{Decision, Event, MESSAGE_BYTES_MAX, Receiver, Refusal};

use super::wire::{self, Message};

/// What the driver does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "a service that is not worth listening to is listened to"]
pub(super) struct Todo {
    /// Subscribe again: an epoch did not arrive.
    pub(super) ask: bool,
    /// Drop the connection.
    pub(super) hang_up: bool,
}

/// A receiver, and the beginning of a line that has not come to its end.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) receiver: Receiver,
    line: Vec<u8>,
    is_ready: bool,
}

impl Intake {
    pub(super) fn new(receiver: Receiver) -> Intake {
        Intake { receiver, line: Vec::new(), is_ready: false }
    }

    /// A new connection: what an older one left is void.
    pub(super) fn connected(&mut self, now: u64) {
        self.line.clear();
        self.is_ready = false;
        let _ = self.receiver.take(now, Event::Connected);
    }

    /// The connection ended.
    pub(super) fn lost(&mut self, now: u64) {
        self.line = Vec::new();
        let _ = self.receiver.take(now, Event::Lost);
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: u64) -> Todo {
        Todo { hang_up: self.receiver.take(now, Event::Tick) == Decision::Gone, ask: false }
    }

    /// Takes what was read. What follows a reason to hang up is not looked at.
    pub(super) fn feed(&mut self, now: u64, mut bytes: &[u8]) -> Todo {
        let mut todo = Todo::default();
        while !todo.hang_up && !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            bytes = rest.get(1..).unwrap_or_default();
            if self.line.len() + part.len() > MESSAGE_BYTES_MAX {
                self.line.clear();
                let refusal = Refusal::TooLong { limit: MESSAGE_BYTES_MAX };
                self.decide(now, Event::Garbled(refusal), &mut todo);
                break;
            }
            self.line.extend_from_slice(part);
            if end.is_some() {
                let event = self.message();
                self.line.clear();
                if let Some(event) = event {
                    self.decide(now, event, &mut todo);
                }
            }
        }
        todo
    }

    fn message(&mut self) -> Option<Event> {
        Some(match wire::parse(&self.line) {
            // The answer to a subscription: one may be on its way for each that was sent.
            Ok(Message::Ready) if !self.is_ready => {
                self.is_ready = true;
                return None;
            }
            Ok(Message::Ready) => Event::Garbled(Refusal::Garbled { what: "an answer that was not asked for".into() }),
            Ok(Message::Epoch { number, set }) => Event::Proposed { number, set },
            Ok(Message::Heartbeat { number }) => Event::Heartbeat { number },
            Err(refusal) => Event::Garbled(refusal),
        })
    }

    fn decide(&mut self, now: u64, event: Event, todo: &mut Todo) {
        match self.receiver.take(now, event) {
            Decision::Ask { .. } => todo.ask = true,
            Decision::Refused { hang_up, .. } => todo.hang_up |= hang_up,
            Decision::Gone => todo.hang_up = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use policy_admission::service::{CpuProfile, Epoch, Machine, PolicySet, Silence, Verdict};
    use proptest::prelude::*;

    use super::*;
    use crate::policy::{epoch_line, heartbeat_line};

    const SECOND: u64 = 1_000_000_000;

    fn intake() -> Intake {
        let mut intake = Intake::new(Receiver::new(Machine::new(2), Silence::default()));
        intake.connected(0);
        intake
    }

    fn line(number: u64, weight: u32) -> String {
        let mut profile = CpuProfile::new("normal");
        profile.weight = weight;
        let machine = Machine::new(2);
        let good = Epoch::new(number, PolicySet::new(profile.clone()), &machine);
        match good {
            Ok(epoch) => epoch_line(&epoch).unwrap(),
            // A lie: the line of a good one, changed.
            Err(_) => line(number, 1024).replace("\"weight\":1024", &format!("\"weight\":{weight}")),
        }
    }

    #[test]
    fn a_message_may_come_in_pieces() {
        let mut intake = intake();
        for byte in format!("{{\"v\":1,\"ok\":{{}}}}\n{}", line(3, 300)).bytes() {
            assert_eq!(intake.feed(0, &[byte]), Todo::default());
        }
        assert_eq!(intake.receiver.handle().profile("x").weight, 300);
    }

    #[test]
    fn a_line_without_an_end_is_refused_and_forgotten() {
        let mut intake = intake();
        let mut todo = Todo::default();
        let mut sent = 0;
        while !todo.hang_up {
            todo = intake.feed(0, &[b'x'; 4096]);
            sent += 4096;
            assert!(intake.line.capacity() <= 2 * MESSAGE_BYTES_MAX);
        }
        assert!(sent > MESSAGE_BYTES_MAX && sent <= MESSAGE_BYTES_MAX + 4096);
        let last = intake.receiver.log().pop().unwrap();
        assert_eq!(last.verdict, Verdict::Refused);
        assert!(last.reason.starts_with("a message has more than 131072 bytes, the limit"), "{}", last.reason);
    }

    #[test]
    fn the_end_of_one_connection_is_not_the_beginning_of_the_next() {
        let mut intake = intake();
        let (start, end) = (line(3, 300), line(4, 400));
        let _ = intake.feed(0, &start.as_bytes()[..20]);
        intake.lost(1);
        intake.connected(2);
        assert_eq!(intake.feed(2, end.as_bytes()), Todo::default());
        assert_eq!(intake.receiver.handle().epoch().number(), 4);
    }

    #[test]
    fn a_second_answer_is_garbage() {
        let mut intake = intake();
        let _ = intake.feed(0, b"{\"v\":1,\"ok\":{}}\n");
        assert!(intake.feed(0, b"{\"v\":1,\"ok\":{}}\n").hang_up);
    }

    #[test]
    fn an_epoch_that_was_missed_is_asked_for() {
        let mut intake = intake();
        assert_eq!(intake.feed(0, heartbeat_line(3).as_bytes()), Todo { ask: true, hang_up: false });
    }

    /// Good lines, lies, and bytes of any kind.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let number = || prop_oneof![8 => 0_u64..30, 1 => any::<u64>()];
        let weight = prop_oneof![4 => 1_u32..4096, 1 => Just(0), 1 => any::<u32>()];
        prop_oneof![
            6 => (number(), weight).prop_map(|(number, weight)| line(number, weight).into_bytes()),
            2 => number().prop_map(|number| heartbeat_line(number).into_bytes()),
            1 => Just(b"{\"v\":1,\"ok\":{}}\n".to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..200),
            // A good line with one byte changed.
            2 => (number(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(number, at, byte)| {
                let mut bytes = line(number, 77).into_bytes();
                let at = at.index(bytes.len());
                bytes[at] = byte;
                bytes
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn whatever_bytes_come_what_is_in_force_is_good_and_never_older(
            pieces in prop::collection::vec(piece(), 0..30),
            cuts in prop::collection::vec(1_usize..300, 1..20),
            step in 0_u64..2 * SECOND,
        ) {
            let bytes = pieces.concat();
            let mut intake = intake();
            let policy = intake.receiver.handle();
            let (mut now, mut at, mut before) = (0, 0, policy.epoch());
            for cut in cuts.iter().cycle() {
                let end = (at + cut).min(bytes.len());
                now += step;
                if intake.feed(now, &bytes[at..end]).hang_up {
                    intake.lost(now);
                    intake.connected(now);
                }
                let after = policy.epoch();
                prop_assert!(after.number() >= before.number());
                prop_assert!(after.number() > before.number() || after == before);
                prop_assert!(Epoch::new(after.number(), after.set().clone(), &Machine::new(2)).is_ok());
                prop_assert!(intake.line.len() <= MESSAGE_BYTES_MAX);
                before = after;
                at = end;
                if at == bytes.len() {
                    break;
                }
            }
        }
    }
}
