//! Nodes around a closure that may fail: retry and circuit breaker.
//!
//! Room: interface.

use std::{marker::PhantomData, time::Duration};

use crate::{
    error::{NodeError, NodeResult, OnError, Retry},
    message::{Payload, Time},
    node::{AnyMessage, Context, Node, NodeSpec, Ports},
};

/// Each message becomes another, or is tried again; a message that failed for good leaves by the output `dead`, as a [`DeadLetter`](crate::DeadLetter).
///
/// This is [`try_map`](crate::try_map) with an [error policy](NodeSpec::on_error), which every node may have. Messages behind the one that is tried again wait, so their
/// order is kept.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{DeadLetter, Harness, Retry, retry};
///
/// let parse = |text: &str| text.parse::<i32>();
/// let mut node = Harness::new(retry(Retry::times(2).backoff(Duration::from_millis(10)), parse));
/// node.send("in", "12")?;
/// node.send("in", "12x")?;
/// node.advance(Duration::from_millis(30)); // 10 and 20
/// assert_eq!(node.take::<i32>("out"), [12]);
/// assert_eq!(node.take::<DeadLetter<&str>>("dead")[0].tries, 3);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn retry<A, B, E>(how: Retry, change: impl FnMut(A) -> Result<B, E> + Send + 'static) -> NodeSpec
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
{
    super::try_map(change).on_error(OnError::Retry(how.then(OnError::DeadLetter)))
}

/// Each message becomes another, until the closure fails too often in a row. Then messages leave by the output `rejected`, unchanged, and the closure is not
/// called. After the cool-down one message is tried; if it works, the breaker closes again.
///
/// The [error policy](NodeSpec::on_error) of the node applies to a message that fails, as in any node.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, circuit_breaker};
///
/// let node = circuit_breaker(|text: &str| text.parse::<i32>()).failures(2).cool_down(Duration::from_secs(1));
/// let mut node = Harness::new(node);
/// for text in ["a", "b", "3"] {
///     node.send("in", text)?;
/// }
/// assert_eq!(node.take::<&str>("rejected"), ["3"]); // not even tried
/// node.advance(Duration::from_secs(1));
/// node.send("in", "4")?;
/// assert_eq!(node.take::<i32>("out"), [4]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn circuit_breaker<A, B, E, F>(change: F) -> CircuitBreaker<A, B, F>
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
    F: FnMut(A) -> Result<B, E> + Send + 'static,
{
    CircuitBreaker { change, limits: Limits { failures: 5, cool_down: Duration::from_secs(10) }, of: PhantomData }
}

/// Guards a closure that may fail; made by [`circuit_breaker`]. By default it opens after 5 failures, for 10 seconds.
pub struct CircuitBreaker<A, B, F> {
    change: F,
    limits: Limits,
    of: PhantomData<fn(A) -> B>,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    failures: u32,
    cool_down: Duration,
}

impl<A, B, F> CircuitBreaker<A, B, F> {
    /// Opens after so many failures in a row.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn failures(mut self, failures: u32) -> Self {
        assert!(failures > 0, "a breaker that opens after 0 failures is never closed; give it at least 1");
        self.limits.failures = failures;
        self
    }

    /// Stays open for so long.
    pub fn cool_down(mut self, time: Duration) -> Self {
        self.limits.cool_down = time;
        self
    }
}

impl<A, B, E, F> CircuitBreaker<A, B, F>
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
    F: FnMut(A) -> Result<B, E> + Send + 'static,
{
    /// The node, to change the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        NodeSpec::node(Guarded { breaker: self, state: Breaker::Closed { failed: 0 } })
    }
}

impl<A, B, E, F> From<CircuitBreaker<A, B, F>> for NodeSpec
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
    F: FnMut(A) -> Result<B, E> + Send + 'static,
{
    fn from(breaker: CircuitBreaker<A, B, F>) -> NodeSpec {
        breaker.spec()
    }
}

/// ```text
///             failed too often 1
///     Closed ───────────────────► Open { until }
///       ▲  worked 2                 │      ▲
///       └───────────── a try after `until` ┘ failed 3
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaker {
    Closed { failed: u32 },
    Open { until: Time },
}

impl Breaker {
    fn lets_try(self, now: Time) -> bool {
        match self {
            Breaker::Closed { .. } => true,
            Breaker::Open { until } => until <= now,
        }
    }

    /// The only function that makes one state from another.
    fn after(self, worked: bool, now: Time, limits: Limits) -> Breaker {
        match self {
            _ if worked => Breaker::Closed { failed: 0 }, // 2
            Breaker::Closed { failed } if failed + 1 < limits.failures => Breaker::Closed { failed: failed + 1 },
            _ => Breaker::Open { until: now + limits.cool_down }, // 1, 3
        }
    }
}

struct Guarded<A, B, F> {
    breaker: CircuitBreaker<A, B, F>,
    state: Breaker,
}

impl<A, B, E, F> Node for Guarded<A, B, F>
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
    F: FnMut(A) -> Result<B, E> + Send + 'static,
{
    fn ports(&self, ports: &mut Ports) {
        ports.input::<A>("in").output::<B>("out").output::<A>("rejected");
    }

    fn on_message(&mut self, _port: &str, message: AnyMessage<'_>, cx: &mut Context<'_>) -> NodeResult {
        let message = message.take::<A>()?;
        if !self.state.lets_try(cx.now()) {
            return cx.send("rejected", message);
        }
        // A panic is a failure, too. It does not return here, so the failure is counted first.
        let limits = self.breaker.limits;
        let before = self.state;
        self.state = before.after(false, cx.now(), limits);
        let changed = (self.breaker.change)(message.payload).map_err(Into::into)?;
        self.state = before.after(true, cx.now(), limits);
        cx.emit("out", changed)
    }
}
