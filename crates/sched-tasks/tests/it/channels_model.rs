//! A channel used by one thread does what a plain queue does.

use std::collections::VecDeque;

use proptest::prelude::*;
use sched_tasks::{Receiver, Sender, TryRecvError, TrySendError, channel, unbounded};

#[derive(Debug, Clone, Copy)]
enum Step {
    Send,
    Recv,
    Close,
    CloneSender,
    DropSender,
    CloneReceiver,
    DropReceiver,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => Just(Step::Send),
        10 => Just(Step::Recv),
        1 => Just(Step::Close),
        1 => Just(Step::CloneSender),
        1 => Just(Step::DropSender),
        1 => Just(Step::CloneReceiver),
        1 => Just(Step::DropReceiver),
    ];
    prop::collection::vec(step, 0..200)
}

struct Model {
    queue: VecDeque<u32>,
    capacity: usize,
    closed: bool,
}

fn check(capacity: Option<usize>, steps: Vec<Step>) {
    let (tx, rx) = capacity.map_or_else(unbounded, channel);
    let mut model = Model { queue: VecDeque::new(), capacity: capacity.unwrap_or(usize::MAX), closed: false };
    let (mut senders, mut receivers): (Vec<Sender<u32>>, Vec<Receiver<u32>>) = (vec![tx], vec![rx]);
    for (value, step) in (0..).zip(steps) {
        match step {
            Step::Send => {
                let Some(tx) = senders.last() else { continue };
                let expected = match &mut model {
                    Model { closed: true, .. } => Err(TrySendError::Closed(value)),
                    Model { queue, capacity, .. } if queue.len() >= *capacity => Err(TrySendError::Full(value)),
                    Model { queue, .. } => {
                        queue.push_back(value);
                        Ok(())
                    }
                };
                assert_eq!(tx.try_send(value), expected);
            }
            Step::Recv => {
                let Some(rx) = receivers.last() else { continue };
                let empty = if model.closed { TryRecvError::Closed } else { TryRecvError::Empty };
                assert_eq!(rx.try_recv(), model.queue.pop_front().ok_or(empty));
            }
            Step::Close => {
                if let Some(tx) = senders.last() {
                    assert_eq!(tx.close(), !model.closed);
                    model.closed = true;
                }
            }
            Step::CloneSender => senders.extend(senders.last().cloned()),
            Step::DropSender => {
                model.closed |= senders.pop().is_some() && senders.is_empty();
            }
            Step::CloneReceiver => receivers.extend(receivers.last().cloned()),
            Step::DropReceiver => {
                if receivers.pop().is_some() && receivers.is_empty() {
                    model.closed = true;
                    model.queue.clear();
                }
            }
        }
        if let Some(tx) = senders.last() {
            assert_eq!((tx.len(), tx.is_closed()), (model.queue.len(), model.closed));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_bounded_channel_is_a_queue(capacity in 0usize..6, steps in steps()) {
        check(Some(capacity), steps);
    }

    #[test]
    fn an_unbounded_channel_is_a_queue(steps in steps()) {
        check(None, steps);
    }
}
