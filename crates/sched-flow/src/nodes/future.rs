//! Futures as nodes.
//!
//! Room: interface.
//!
//! # Invariant
//! At most `concurrency` futures run. Each is polled by the node, in its turns, and only when its own waker was woken. Each
//! result is emitted once, in the order of the messages by default.
//!
//! # Why it holds
//! A future lives in a [`Slot`] from its message to its outcome. Slots leave the queue from the front, or, without order, as they are done.
//! A call that fails emits nothing, so an error is reported in a call of its own: the node wakes itself for that.

use std::{
    collections::VecDeque,
    future::Future,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release},
    },
    task::{Context as Poller, Poll, Wake, Waker},
    time::Duration,
};

use crate::{
    error::{DeadLetter, NodeError, NodeResult},
    message::{Header, Kind, Message, Payload, Time},
    node::{AnyMessage, Context, Node, NodeSpec, Ports, inlet::panicked},
};

/// Each message becomes a future, and its outcome a message. Up to 16 run at a time; their order is kept.
///
/// The node polls the futures itself, so they should not compute for long; they are dropped when it stops. A future that fails is an error of the node, but there is no
/// message left to try again or to send as a dead letter: see [`keep_failed`](MapAsync::keep_failed).
///
/// ```
/// use bursar::flow::{Harness, NodeError, map_async};
/// use std::time::Duration;
///
/// let mut node = Harness::new(map_async(|x: u64| async move {
///     bursar::sleep_async(Duration::from_millis(10 - x)).await;
///     Ok::<_, NodeError>(x * 2)
/// }).concurrency(3));
/// for x in 0..3u64 {
///     node.send("in", x)?;
/// }
/// assert_eq!(node.collect::<u64>("out", 3), [0, 2, 4]); // in order, though the last was ready first
/// # Ok::<(), NodeError>(())
/// ```
pub fn map_async<A, B, E, Fut, F>(make: F) -> MapAsync<A, B, F>
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
    Fut: Future<Output = Result<B, E>> + Send + 'static,
    F: FnMut(A) -> Fut + Send + 'static,
{
    MapAsync { make, concurrency: 16, ordered: true, keep_failed: false, limit: None, emits: true, of: PhantomData }
}

/// Messages end in a future. Up to 16 run at a time; the flow does not end before they have.
///
/// As [`map_async`], without an output.
pub fn sink_async<A, E, Fut, F>(make: F) -> MapAsync<A, (), F>
where
    A: Payload,
    E: Into<NodeError>,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    F: FnMut(A) -> Fut + Send + 'static,
{
    MapAsync { emits: false, ..map_async(make) }
}

/// As [`map_async`]; a future that takes longer than `limit` is dropped, and has failed.
pub fn timeout_async<A, B, E, Fut, F>(limit: Duration, make: F) -> MapAsync<A, B, F>
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
    Fut: Future<Output = Result<B, E>> + Send + 'static,
    F: FnMut(A) -> Fut + Send + 'static,
{
    map_async(make).timeout(limit)
}

/// Futures as a node; made by [`map_async`], [`sink_async`] and [`timeout_async`].
pub struct MapAsync<A, B, F> {
    make: F,
    concurrency: usize,
    ordered: bool,
    keep_failed: bool,
    limit: Option<Duration>,
    emits: bool,
    of: PhantomData<fn(A) -> B>,
}

impl<A, B, F> MapAsync<A, B, F> {
    /// Sets how many futures may run at a time. With so many, the node takes no more messages.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn concurrency(mut self, futures: usize) -> Self {
        assert!(futures > 0, "with 0 futures at a time nothing is ever done; allow at least 1");
        self.concurrency = futures;
        self
    }

    /// Emits in the order of the messages: the default.
    pub fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Emits in the order in which the futures are done.
    pub fn unordered(mut self) -> Self {
        self.ordered = false;
        self
    }

    /// Sets a timeout. A future that takes longer is dropped, and has failed. Measured in the time of the flow.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Keeps a copy of each message until its future is done. If it failed, the message leaves by the output `failed`, as a [`DeadLetter`].
    pub fn keep_failed(mut self) -> Self {
        self.keep_failed = true;
        self
    }
}

impl<A, B, E, Fut, F> MapAsync<A, B, F>
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
    Fut: Future<Output = Result<B, E>> + Send + 'static,
    F: FnMut(A) -> Fut + Send + 'static,
{
    /// The node, to change the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        NodeSpec::node(Async { options: self, slots: VecDeque::new(), failed: VecDeque::new() })
    }
}

impl<A, B, E, Fut, F> From<MapAsync<A, B, F>> for NodeSpec
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
    Fut: Future<Output = Result<B, E>> + Send + 'static,
    F: FnMut(A) -> Fut + Send + 'static,
{
    fn from(node: MapAsync<A, B, F>) -> NodeSpec {
        node.spec()
    }
}

/// The waker of one future: marks it as woken, and wakes the node.
struct SlotWaker {
    woken: AtomicBool,
    node: Waker,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, AcqRel) {
            self.node.wake_by_ref();
        }
    }
}

type Running<B> = Pin<Box<dyn Future<Output = Result<B, NodeError>> + Send>>;

/// A message and its future, until it has an outcome.
struct Slot<A, B> {
    header: Header,
    kept: Option<A>,
    due: Option<Time>,
    waker: Arc<SlotWaker>,
    /// None when it is done.
    future: Option<Running<B>>,
    outcome: Option<Result<B, NodeError>>,
}

impl<A, B> Slot<A, B> {
    /// Polls it if it was woken.
    fn poll(&mut self, now: Time, limit: Option<Duration>) {
        let Some(future) = &mut self.future else { return };
        let mut polled = Poll::Pending;
        if self.waker.woken.swap(false, AcqRel) {
            let waker = Waker::from(Arc::clone(&self.waker));
            let outcome = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Poller::from_waker(&waker))));
            polled = outcome.unwrap_or_else(|panic| Poll::Ready(Err(panicked(panic))));
        }
        if polled.is_pending()
            && let (Some(due), Some(limit)) = (self.due, limit)
            && due <= now
        {
            let late = format!("not ready after the {limit:?} it had; give it more time or less work");
            polled = Poll::Ready(Err(NodeError::msg(late)));
        }
        if let Poll::Ready(outcome) = polled {
            self.future = None;
            self.outcome = Some(outcome);
        }
    }
}

struct Async<A, B, F> {
    options: MapAsync<A, B, F>,
    slots: VecDeque<Slot<A, B>>,
    /// Errors to be reported, each in a call of its own.
    failed: VecDeque<NodeError>,
}

impl<A: Payload, B: Payload, F> Async<A, B, F> {
    /// Polls the futures that were woken, and emits results.
    fn turn(&mut self, cx: &mut Context<'_>) -> NodeResult {
        let (now, limit) = (cx.now(), self.options.limit);
        self.slots.iter_mut().for_each(|slot| slot.poll(now, limit));
        let mut index = 0;
        while let Some(slot) = self.slots.get_mut(index) {
            let Some(outcome) = slot.outcome.take() else {
                if self.options.ordered {
                    break;
                }
                index += 1;
                continue;
            };
            let Slot { header, kept, .. } = self.slots.remove(index).expect("checked");
            match outcome {
                Ok(payload) if self.options.emits => cx.send("out", Message { header, payload })?,
                Ok(_) => {}
                Err(error) => {
                    if let Some(payload) = kept {
                        let letter = DeadLetter { payload, error: error.to_string().into(), tries: 1 };
                        let header = Header { kind: Kind::Error, ..header };
                        cx.send("failed", Message { header, payload: letter })?;
                    }
                    self.failed.push_back(error);
                }
            }
        }
        cx.in_flight().set(self.slots.len());
        if !self.failed.is_empty() {
            cx.waker().wake();
        }
        let earliest = self.slots.iter().filter(|slot| slot.future.is_some()).filter_map(|slot| slot.due).min();
        earliest.into_iter().for_each(|due| cx.tick_at(due));
        Ok(())
    }
}

impl<A, B, E, Fut, F> Node for Async<A, B, F>
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
    Fut: Future<Output = Result<B, E>> + Send + 'static,
    F: FnMut(A) -> Fut + Send + 'static,
{
    fn ports(&self, ports: &mut Ports) {
        ports.input::<A>("in");
        if self.options.emits {
            ports.output::<B>("out");
        }
        if self.options.keep_failed {
            ports.output::<DeadLetter<A>>("failed");
        }
    }

    fn on_message(&mut self, _port: &str, message: AnyMessage<'_>, cx: &mut Context<'_>) -> NodeResult {
        let Message { header, payload } = message.take::<A>()?;
        let kept = self.options.keep_failed.then(|| payload.clone());
        let future = (self.options.make)(payload);
        let future = Box::pin(async move { future.await.map_err(Into::into) });
        let due = self.options.limit.map(|limit| cx.now() + limit);
        let waker = Arc::new(SlotWaker { woken: AtomicBool::new(true), node: cx.waker() });
        self.slots.push_back(Slot { header, kept, due, waker, future: Some(future), outcome: None });
        self.turn(cx)
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) -> NodeResult {
        if let Some(error) = self.failed.pop_front() {
            // A future may have been woken as well; this call has used up that wake.
            cx.waker().wake();
            return Err(error);
        }
        self.turn(cx)
    }

    fn on_tick(&mut self, cx: &mut Context<'_>) -> NodeResult {
        self.turn(cx)
    }

    fn on_stop(&mut self, _cx: &mut Context<'_>) -> NodeResult {
        for slot in &self.slots {
            slot.waker.woken.store(true, Release); // no further wakes
        }
        self.slots.clear();
        Ok(())
    }

    fn accepts(&self) -> bool {
        self.slots.len() < self.options.concurrency
    }

    fn is_done(&self) -> bool {
        self.slots.is_empty() && self.failed.is_empty()
    }
}
