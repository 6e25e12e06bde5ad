//! How a node is served: message by message from one edge, within a budget, and what is done when that fails.
//!
//! Room: mechanism of the crate.
//!
//! # Invariant
//! A message that was taken from an edge is handled, or dealt with by the error policy, or goes back to where it was. A message
//! whose call failed has emitted nothing.
//!
//! # Why it holds
//! Messages are taken into the hand, leave it one by one, and what is left in it is given back when the turn settles. All that ends
//! a call early, an error, a panic, a payload that its schema refuses, comes out of one `match`, after the outboxes were cut
//! off at the mark.

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

/// What becomes of a node after a turn.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It goes on.
    Continue,
    /// It is served again at that time, not before.
    Rest(Time),
    /// It is stopped.
    StopNode,
    /// Everything is stopped.
    StopGraph(NodeError),
}

/// A node as it is called for one type of input.
pub(crate) trait Body<T> {
    fn call(&mut self, message: Message<T>, cx: &mut Cx) -> NodeResult;
    /// What was emitted in this call is forgotten.
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
    /// Where failed messages go; has edges only if somebody connected them.
    pub(crate) dead: Outlet<DeadLetter<T>>,
}

impl<T: Payload> Inlet<T> {
    pub(crate) fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), feeds: Vec::new(), hand: VecDeque::new(), dead: Outlet::new() }
    }

    /// An edge that leads here; returns its place.
    pub(crate) fn attach(&mut self, edge: Arc<Edge<T>>) -> usize {
        self.feeds.push(Feed { edge, failed: 0 });
        self.feeds.len() - 1
    }

    /// As [`Inlet::attach`], of an edge whose type was compared before.
    pub(crate) fn attach_any(&mut self, edge: Arc<dyn AnyEdge>) -> usize {
        let edge = edge.into_any().downcast::<Edge<T>>().unwrap_or_else(|_| unreachable!("types are compared before"));
        self.attach(edge)
    }

    /// An edge from nowhere, for a harness.
    pub(crate) fn open(&mut self, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        let edge = Arc::new(Edge::new(setup));
        self.attach(Arc::clone(&edge));
        edge
    }

    /// Serves up to `budget` messages of one edge. True if more wait there.
    pub(crate) fn serve(
        &mut self,
        place: usize,
        budget: u32,
        on_error: &OnError,
        body: &mut impl Body<T>,
        cx: &mut Cx,
    ) -> (Fate, bool) {
        let most = (budget as usize).min(body.room());
        if self.feeds[place].edge.queue().take(most, &mut self.hand) {
            self.feeds[place].failed = 0;
        }
        let taken = self.hand.len();
        if let Some(observer) = &cx.observer
            && taken > 0
        {
            observer.dequeued(&self.feeds[place].edge.id, taken);
        }
        let mut undone = 0;
        let mut fate = Fate::Continue;
        // A copy is kept of what may be tried again or buried. That, and being watched, costs extra only for whom it concerns.
        let plain = !matches!(on_error, OnError::Retry(_) | OnError::DeadLetter) && cx.observer.is_none();
        while matches!(fate, Fate::Continue) && !self.hand.is_empty() {
            let mut kept = None;
            // Round the whole loop, not round each call: a barrier a turn instead of one a message.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                if plain { self.run(body, cx) } else { self.run_with_care(place, &mut kept, body, cx) }
            }));
            let error = match outcome {
                Ok(Ok(())) => break,
                Ok(Err(error)) => error,
                Err(panic) => panicked(panic),
            };
            body.roll_back(cx.call);
            undone += 1;
            fate = self.fail(place, error, kept, on_error, cx);
            if cx.pace.is_over() {
                break;
            }
        }
        cx.handle_none();
        // One that is to be tried again failed, and is back in the hand.
        let back = usize::from(matches!(fate, Fate::Rest(_)));
        cx.log.handled += (taken + back - self.hand.len() - undone) as u64;
        let mut queue = self.feeds[place].edge.queue();
        let settled = queue.settle(&mut self.hand);
        let mut gone = Vec::new();
        queue.swap_gone(&mut gone);
        drop(queue);
        drop(gone);
        if settled.roomy {
            cx.log.roomy.push(self.feeds[place].edge.index);
        }
        (fate, settled.more)
    }

    /// Calls with one message after the other, until one fails, nothing is left, or there is no room for what comes of it.
    #[inline]
    fn run(&mut self, body: &mut impl Body<T>, cx: &mut Cx) -> NodeResult {
        // What was emitted is counted in one place; only when so many were as one output may take, is each looked at.
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

    /// The same, with a copy of each message kept, and told to whoever watches.
    fn run_with_care(
        &mut self,
        place: usize,
        kept: &mut Option<Message<T>>,
        body: &mut impl Body<T>,
        cx: &mut Cx,
    ) -> NodeResult {
        while body.room() > 0 && body.accepts() {
            let Some(message) = self.hand.pop_front() else { break };
            cx.header = message.header;
            cx.call += 1;
            *kept = None; // the copy may fail, and then this message must, not the one before
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
            self.feeds[place].failed = 0;
            if cx.pace.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// A message failed: the policy decides.
    #[cold]
    fn fail(
        &mut self,
        place: usize,
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
        let feed = &mut self.feeds[place];
        feed.failed += 1;
        let tries = feed.failed;
        let mut policy = on_error;
        if let OnError::Retry(retry) = policy {
            if tries <= retry.times
                && let Some(message) = kept
            {
                self.hand.push_front(message);
                cx.log.retries += 1;
                return Fate::Rest(cx.now + retry.pause(tries));
            }
            policy = &retry.then;
        }
        feed.failed = 0;
        if error.is_for_good() {
            cx.log.fail_for_good();
        }
        // A dead letter that reaches nobody is counted as lost instead.
        if !(matches!(policy, OnError::DeadLetter) && self.dead.is_unconnected()) {
            cx.custody.count_failed();
        }
        match policy {
            OnError::Skip | OnError::Retry(_) if error.is_for_good() => return Fate::StopNode,
            OnError::Skip | OnError::Retry(_) => {}
            OnError::StopNode => return Fate::StopNode,
            OnError::StopGraph => return Fate::StopGraph(error),
            OnError::DeadLetter => {
                if let Some(Message { header, payload }) = kept {
                    let header = crate::message::Header { kind: Kind::Error, ..header };
                    self.dead.bury(Message { header, payload: DeadLetter { payload, error: text, tries } }, cx);
                }
            }
        }
        Fate::Continue
    }
}

/// What a panic said. A cancellation is none, and goes on its way.
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> NodeError {
    // One with words is a panic, even if there is a cancellation as well.
    if words(&*panic).is_none() && sched_tasks::is_cancelled() {
        resume_unwind(panic);
    }
    panic_of(panic)
}

/// What a panic said, where no cancellation can come.
pub(crate) fn panic_of(panic: Box<dyn Any + Send>) -> NodeError {
    NodeError::msg(format!("panicked: {}", words(&*panic).unwrap_or("without a message")))
}

fn words(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
