//! Nodes that change when a message is forwarded: throttle, debounce, delay.
//!
//! Room: interface.
//!
//! # Invariant
//! Throttle and delay lose nothing and keep the order; what they hold is bounded, by not accepting more.

use std::{collections::VecDeque, marker::PhantomData, time::Duration};

use crate::{
    error::NodeResult,
    message::{Message, Payload, Time},
    node::{NodeSpec, Out, Stage},
};

/// Limits the rate to `per_second` messages a second, with bursts of up to `burst`. Nothing is lost: the node does not take messages that must wait, so the edge before it
/// fills, and its policy decides.
///
/// A token bucket: it holds `burst` tokens, is full at the beginning, and gets `per_second` new ones a second.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, throttle};
///
/// let mut node = Harness::new(throttle::<i32>(100.0, 2));
/// for x in 0..5 {
///     node.send("in", x)?;
/// }
/// assert_eq!(node.take::<i32>("out"), [0, 1]);
/// node.advance(Duration::from_millis(10));
/// assert_eq!(node.take::<i32>("out"), [2]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
///
/// # Panics
/// If the rate is not a positive number, or the burst is 0.
#[track_caller]
pub fn throttle<T: Payload>(per_second: f64, burst: u32) -> NodeSpec {
    assert!(
        per_second.is_finite() && per_second >= 1e-9,
        "a throttle of {per_second} a second lets nothing pass; give a positive rate"
    );
    assert!(burst > 0, "a throttle with a burst of 0 lets nothing pass; give at least 1");
    let interval = (FEMTOS_PER_SECOND / per_second).ceil().max(1.0) as u128;
    NodeSpec::stage(Throttle::<T> { interval, burst, due: 0, open: true, of: PhantomData })
}

const FEMTOS_PER_SECOND: f64 = 1e15;
const FEMTOS_PER_NANO: u128 = 1_000_000;

/// The bucket as one number: `due` is when it would be full again. It holds a token if that is at most `burst - 1` intervals away.
///
/// Counted in femtoseconds, so that a rate of 3 a second does not drift: it is off by a microsecond after a billion messages.
struct Throttle<T> {
    interval: u128,
    burst: u32,
    due: u128,
    open: bool,
    of: PhantomData<fn(T)>,
}

impl<T> Throttle<T> {
    /// When there is a token.
    fn opens_at(&self) -> Time {
        let opens = self.due.saturating_sub(self.interval * u128::from(self.burst - 1));
        Time::from_nanos(u64::try_from(opens.div_ceil(FEMTOS_PER_NANO)).unwrap_or(u64::MAX))
    }

    fn check(&mut self, now: Time) -> Option<Time> {
        let opens = self.opens_at();
        self.open = opens <= now;
        (!self.open).then_some(opens)
    }
}

impl<T: Payload> Stage for Throttle<T> {
    type In = T;
    type Out = T;

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, T>) -> NodeResult {
        self.due = self.due.max(u128::from(out.now().nanos()) * FEMTOS_PER_NANO) + self.interval;
        out.send(message);
        if let Some(opens) = self.check(out.now()) {
            out.tick_at(opens);
        }
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, T>) -> NodeResult {
        if let Some(opens) = self.check(out.now()) {
            out.tick_at(opens);
        }
        Ok(())
    }

    fn accepts(&self) -> bool {
        self.open
    }
}

/// Forwards the last message of each burst, when nothing has come for `quiet`, or at the end. The ones before it are dropped.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, debounce};
///
/// let mut node = Harness::new(debounce::<&str>(Duration::from_millis(50)));
/// node.send("in", "h")?;
/// node.send("in", "he")?;
/// node.send("in", "hey")?;
/// node.advance(Duration::from_millis(50));
/// assert_eq!(node.take::<&str>("out"), ["hey"]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn debounce<T: Payload>(quiet: Duration) -> NodeSpec {
    NodeSpec::stage(Debounce::<T> { quiet, last: None })
}

struct Debounce<T> {
    quiet: Duration,
    last: Option<(Time, Message<T>)>,
}

impl<T: Payload> Stage for Debounce<T> {
    type In = T;
    type Out = T;

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, T>) -> NodeResult {
        let due = out.now() + self.quiet;
        self.last = Some((due, message));
        out.in_flight().set(1);
        out.tick_at(due);
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, T>) -> NodeResult {
        match self.last.take() {
            Some((due, message)) if due <= out.now() => {
                out.in_flight().set(0);
                out.send(message);
            }
            Some((due, message)) => {
                self.last = Some((due, message));
                out.tick_at(due);
            }
            None => {}
        }
        Ok(())
    }

    fn on_end(&mut self, out: &mut Out<'_, T>) -> NodeResult {
        out.in_flight().set(0);
        self.last.take().into_iter().for_each(|(_, message)| out.send(message));
        Ok(())
    }
}

/// Delays every message. At most 65,536 wait in the node; see [`delay_up_to`].
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, delay};
///
/// let mut node = Harness::new(delay::<i32>(Duration::from_secs(1)));
/// node.send("in", 1)?;
/// node.advance(Duration::from_millis(999));
/// assert!(node.take::<i32>("out").is_empty());
/// node.advance(Duration::from_millis(1));
/// assert_eq!(node.take::<i32>("out"), [1]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn delay<T: Payload>(by: Duration) -> NodeSpec {
    delay_up_to::<T>(by, 65_536)
}

/// As [`delay`]; while `capacity` messages wait in it, the node takes no more.
///
/// # Panics
/// If the capacity is 0.
#[track_caller]
pub fn delay_up_to<T: Payload>(by: Duration, capacity: usize) -> NodeSpec {
    assert!(capacity > 0, "a delay with room for 0 messages takes none; give it at least 1");
    NodeSpec::stage(Delay::<T> { by, capacity, held: VecDeque::new() })
}

struct Delay<T> {
    by: Duration,
    capacity: usize,
    /// The earliest first: all wait equally long.
    held: VecDeque<(Time, Message<T>)>,
}

impl<T: Payload> Stage for Delay<T> {
    type In = T;
    type Out = T;

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, T>) -> NodeResult {
        let due = out.now() + self.by;
        self.held.push_back((due, message));
        self.on_tick(out)
    }

    fn on_tick(&mut self, out: &mut Out<'_, T>) -> NodeResult {
        while let Some((_, message)) = self.held.pop_front_if(|(due, _)| *due <= out.now()) {
            out.send(message);
        }
        if let Some((due, _)) = self.held.front() {
            out.tick_at(*due);
        }
        out.in_flight().set(self.held.len());
        Ok(())
    }

    fn accepts(&self) -> bool {
        self.held.len() < self.capacity
    }

    fn is_done(&self) -> bool {
        self.held.is_empty()
    }
}
