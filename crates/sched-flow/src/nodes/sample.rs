//! Nodes that let only some messages pass.
//!
//! Room: interface.

use std::{marker::PhantomData, time::Duration};

use crate::{
    error::NodeResult,
    message::{Message, Payload, Time},
    node::{NodeSpec, Out, Stage},
};

/// Forwards the first `count` messages; then it [finishes](Out::finish): it takes no more, and nodes that feed only it end.
///
/// ```
/// use bursar::flow::{Flow, Graph, head, sink, source};
///
/// let mut graph = Graph::new("first");
/// let mut n = 0;
/// let numbers = graph.add("numbers", source(move || { n += 1; Some(n) })); // would never end
/// let first = graph.add("first", head::<i32>(3));
/// let out = graph.add("out", sink(|n: i32| assert!(n <= 3)));
/// graph.connect(&numbers, &first);
/// graph.connect(&first, &out);
/// assert_eq!(Flow::new(graph)?.run()?.stats.node("out").unwrap().messages, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// If it is 0.
#[track_caller]
pub fn head<T: Payload>(count: u64) -> NodeSpec {
    assert!(count > 0, "the first 0 messages are none; ask for at least 1");
    NodeSpec::stage(Head::<T> { left: count, of: PhantomData })
}

struct Head<T> {
    left: u64,
    of: PhantomData<fn(T)>,
}

impl<T: Payload> Stage for Head<T> {
    type In = T;
    type Out = T;

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, T>) -> NodeResult {
        if self.left > 0 {
            self.left -= 1;
            out.send(message);
        }
        if self.left == 0 {
            out.finish();
        }
        Ok(())
    }
}

/// The first of every `n` messages.
///
/// ```
/// use bursar::flow::{Harness, sample_nth};
///
/// let mut node = Harness::new(sample_nth::<i32>(3));
/// for x in 0..7 {
///     node.send("in", x)?;
/// }
/// assert_eq!(node.take::<i32>("out"), [0, 3, 6]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
///
/// # Panics
/// If `n` is 0.
#[track_caller]
pub fn sample_nth<T: Payload>(n: u64) -> NodeSpec {
    assert!(n > 0, "every 0th message is none; use 1 for all of them");
    let mut left = 0;
    super::filter(move |_: &T| {
        let passes = left == 0;
        left = if passes { n - 1 } else { left - 1 };
        passes
    })
}

/// At most one message in each `period`: the first, and then the first that comes when the period is over. To lose none, see
/// [`throttle`](crate::throttle); to have the last, see [`debounce`](crate::debounce).
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, sample_every};
///
/// let mut node = Harness::new(sample_every::<i32>(Duration::from_secs(1)));
/// for x in 0..4 {
///     node.send("in", x)?;
///     node.advance(Duration::from_millis(400));
/// }
/// assert_eq!(node.take::<i32>("out"), [0, 3]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn sample_every<T: Payload>(period: Duration) -> NodeSpec {
    NodeSpec::stage(Every::<T> { period, next: Time::START, of: PhantomData })
}

struct Every<T> {
    period: Duration,
    next: Time,
    of: PhantomData<fn(T)>,
}

impl<T: Payload> Stage for Every<T> {
    type In = T;
    type Out = T;

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, T>) -> NodeResult {
        if out.now() >= self.next {
            self.next = out.now() + self.period;
            out.send(message);
        }
        Ok(())
    }
}

/// Each message with this probability. The same seed chooses the same messages.
///
/// ```
/// use bursar::flow::{Harness, sample_random};
///
/// let mut node = Harness::new(sample_random::<i32>(0.25, 7));
/// for x in 0..1000 {
///     node.send("in", x)?;
/// }
/// let some = node.take::<i32>("out").len();
/// assert!((200..300).contains(&some));
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
///
/// # Panics
/// If the probability is not within 0 and 1.
#[track_caller]
pub fn sample_random<T: Payload>(probability: f64, seed: u64) -> NodeSpec {
    assert!((0.0..=1.0).contains(&probability), "{probability} is no probability; give one from 0.0 to 1.0");
    let mut state = seed;
    super::filter(move |_: &T| {
        // SplitMix64: its upper 53 bits are a fraction.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        ((word >> 11) as f64 / (1u64 << 53) as f64) < probability
    })
}
