//! An input of a node: handles the messages of one edge, within a budget, and applies the error policy.
//!
//! Room: driver. Knows one input and the error policy; knows nothing of workers and bands.
//!
//! # Invariant
//! A message that was taken from an edge is handled, or the error policy applies to it, or it goes back to its position. A message
//! whose call failed has emitted nothing.
//!
//! # Why it holds
//! Messages are taken into the hand and leave it one by one. What is left in the hand is given back when the turn ends. An error, a
//! panic and a payload that its schema refuses all come to one `match`, after the outboxes were rolled back
//! to their mark.

use std::{
    any::Any,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use crate::{
    edge::{AnyEdge, Edge, EdgeSetup},
    error::{DeadLetter, NodeError, NodeResult, OnError},
    message::{Kind, Message, Payload, Time},
    node::{cx::Cx, out::Outlet},
    observe::Call,
};

/// What happens to a node after a call.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It goes on.
    Continue,
    /// It backs off until that time.
    BackOff(Time),
    /// It is stopped.
    StopNode,
    /// Everything is stopped.
    StopGraph(NodeError),
}

/// A node as it is called for one type of input.
pub(crate) trait Body<T> {
    fn call(&mut self, message: Message<T>, cx: &mut Cx) -> NodeResult;
    /// Removes what was emitted in this call.
    fn roll_back(&mut self, call: u64);
    fn room(&self) -> usize;
    fn accepts(&self) -> bool;
}

struct Feed<T> {
    edge: Arc<Edge<T>>,
    /// How often the oldest message has failed.
    failed: u32,
}

/// One input: the edges that lead to it.
pub(crate) struct Inlet<T> {
    name: Arc<str>,
    feeds: Vec<Feed<T>>,
    hand: VecDeque<Message<T>>,
    /// Where failed messages go. Has edges only if the user connected it.
    pub(crate) dead: Outlet<DeadLetter<T>>,
}

impl<T: Payload> Inlet<T> {
    pub(crate) fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), feeds: Vec::new(), hand: VecDeque::new(), dead: Outlet::new() }
    }

    /// Adds an edge that leads here, and returns its index.
    pub(crate) fn attach(&mut self, edge: Arc<Edge<T>>) -> usize {
        self.feeds.push(Feed { edge, failed: 0 });
        self.feeds.len() - 1
    }

    /// As [`Inlet::attach`], for an edge whose type was compared before.
    pub(crate) fn attach_any(&mut self, edge: Arc<dyn AnyEdge>) -> usize {
        let edge = edge.into_any().downcast::<Edge<T>>().unwrap_or_else(|_| unreachable!("types are compared before"));
        self.attach(edge)
    }

    /// Makes an edge without a producer, for a harness.
    pub(crate) fn open(&mut self, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        let edge = Arc::new(Edge::new(setup));
        self.attach(Arc::clone(&edge));
        edge
    }

    /// Serves up to `budget` messages of one edge. True if more wait there.
    pub(crate) fn serve(
        &mut self,
        feed: usize,
        budget: u32,
        on_error: &OnError,
        body: &mut impl Body<T>,
        cx: &mut Cx,
    ) -> (Fate, bool) {
        let limit = (budget as usize).min(body.room());
        if self.feeds[feed].edge.queue().take(limit, &mut self.hand) {
            self.feeds[feed].failed = 0;
        }
        let taken = self.hand.len();
        if let Some(observer) = &cx.observer
            && taken > 0
        {
            observer.dequeued(&self.feeds[feed].edge.id, taken);
        }
        let mut undone = 0;
        let mut fate = Fate::Continue;
        // A message that may be tried again, or become a dead letter, is copied first. Only such nodes, and those with an observer, pay for it.
        let plain = !matches!(on_error, OnError::Retry(_) | OnError::DeadLetter) && cx.observer.is_none();
        while matches!(fate, Fate::Continue) && !self.hand.is_empty() {
            let mut kept = None;
            // Around the whole loop, not around each call: one `catch_unwind` a turn, not one a message.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                if plain { self.run(body, cx) } else { self.run_observed(feed, &mut kept, body, cx) }
            }));
            let error = match outcome {
                Ok(Ok(())) => break,
                Ok(Err(error)) => error,
                Err(panic) => panicked(panic),
            };
            body.roll_back(cx.call);
            undone += 1;
            fate = self.fail(feed, error, kept, on_error, cx);
            if cx.pace.is_over() {
                break;
            }
        }
        cx.handle_none();
        // A message that is tried again is back in the hand.
        let back = usize::from(matches!(fate, Fate::BackOff(_)));
        cx.log.handled += (taken + back - self.hand.len() - undone) as u64;
        let mut queue = self.feeds[feed].edge.queue();
        let settled = queue.settle(&mut self.hand);
        let mut discarded = Vec::new();
        queue.swap_discarded(&mut discarded);
        drop(queue);
        drop(discarded);
        cx.in_flight.changed();
        if settled.roomy {
            cx.log.roomy.push(self.feeds[feed].edge.index);
        }
        (fate, settled.more)
    }

    /// Handles one message after the other, until one fails, none is left, or there is no room for output.
    #[inline]
    fn run(&mut self, body: &mut impl Body<T>, cx: &mut Cx) -> NodeResult {
        // Emitted messages are counted together. The outputs are checked only when the count reaches the smallest room.
        let mut limit = cx.pushes.saturating_add(body.room());
        while body.accepts() {
            if cx.pushes >= limit {
                limit = cx.pushes.saturating_add(body.room());
                if cx.pushes >= limit {
                    break;
                }
            }
            let Some(message) = self.hand.pop_front() else { break };
            cx.header = message.header;
            cx.call += 1;
            let result = body.call(message, cx);
            cx.verdict(result)?;
            if cx.pace.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// The same, with a copy of each message and calls of the observer.
    fn run_observed(
        &mut self,
        feed: usize,
        kept: &mut Option<Message<T>>,
        body: &mut impl Body<T>,
        cx: &mut Cx,
    ) -> NodeResult {
        while body.room() > 0 && body.accepts() {
            let Some(message) = self.hand.pop_front() else { break };
            cx.header = message.header;
            cx.call += 1;
            *kept = None; // if the copy fails, this message fails, not the one before
            *kept = Some(message.clone());
            let result = match cx.observer.clone() {
                None => body.call(message, cx),
                Some(observer) => {
                    let id = Arc::clone(&cx.id);
                    let call = Call::message(&id, &self.name, cx.header, cx.now);
                    observer.call_began(&call);
                    let result = body.call(message, cx);
                    observer.call_ended(&call, result.as_ref().err().map(|error| error as _));
                    result
                }
            };
            cx.verdict(result)?;
            self.feeds[feed].failed = 0;
            if cx.pace.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Applies the error policy to a message that failed.
    #[cold]
    fn fail(
        &mut self,
        feed: usize,
        error: NodeError,
        kept: Option<Message<T>>,
        on_error: &OnError,
        cx: &mut Cx,
    ) -> Fate {
        let text: Arc<str> = error.to_string().into();
        cx.log.errors += 1;
        cx.log.last_error = Some(Arc::clone(&text));
        if let Some(observer) = &cx.observer {
            observer.failed(&cx.id, &text);
        }
        let feed = &mut self.feeds[feed];
        feed.failed += 1;
        let tries = feed.failed;
        let mut policy = on_error;
        if let OnError::Retry(retry) = policy {
            if tries <= retry.times
                && let Some(message) = kept
            {
                self.hand.push_front(message);
                cx.log.retries += 1;
                return Fate::BackOff(cx.now + retry.pause(tries));
            }
            policy = &retry.then;
        }
        feed.failed = 0;
        if error.is_for_good() {
            cx.log.fail_for_good();
        }
        // A dead letter without an edge is counted as lost instead.
        if !(matches!(policy, OnError::DeadLetter) && self.dead.is_unconnected()) {
            cx.in_flight.count_failed();
        }
        match policy {
            OnError::Skip | OnError::Retry(_) if error.is_for_good() => return Fate::StopNode,
            OnError::Skip | OnError::Retry(_) => {}
            OnError::StopNode => return Fate::StopNode,
            OnError::StopGraph => return Fate::StopGraph(error),
            OnError::DeadLetter => {
                if let Some(Message { header, payload }) = kept {
                    let header = crate::message::Header { kind: Kind::Error, ..header };
                    self.dead
                        .push_dead_letter(Message { header, payload: DeadLetter { payload, error: text, tries } }, cx);
                }
            }
        }
        Fate::Continue
    }
}

/// The error of a panic. A cancellation is no panic, and continues to unwind.
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> NodeError {
    // A payload with a text is a panic, also if the task is cancelled.
    if message_of(&*panic).is_none() && sched_tasks::is_cancelled() {
        resume_unwind(panic);
    }
    panic_of(panic)
}

/// The error of a panic, where no cancellation can come.
pub(crate) fn panic_of(panic: Box<dyn Any + Send>) -> NodeError {
    NodeError::msg(format!("panicked: {}", message_of(&*panic).unwrap_or("without a message")))
}

fn message_of(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
