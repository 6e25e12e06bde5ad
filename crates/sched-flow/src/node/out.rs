//! An output of a node: an outbox, which is emptied into the edges after the call of the node.
//!
//! Room: driver. Knows one output and its edges; knows nothing of workers and bands.
//!
//! # Invariant
//! Every message in an outbox reaches every edge of its port exactly once, in order; and none of a call that failed reaches any.
//!
//! # Why it holds
//! Messages leave the outbox only in [`Outlet::flush`], after a call. A failed call is rolled back to the mark that was made at its first message. [`Outlet::put`] is the exception: what
//! it sends within a call is final, and so is what was emitted before it. Therefore it moves the mark.
//! `sent[k]` counts the messages of the outbox that the edge `k` already has. So a full edge stops only itself, and continues
//! where it stopped. A message leaves the outbox when the last edge has it.

use std::{
    collections::VecDeque,
    sync::{Arc, MutexGuard},
};

use policy_flow::{PutResult, Queue};

use crate::{
    edge::Edge,
    error::NodeError,
    message::{Control, Header, Kind, Message, Payload, TraceId},
    node::{Receipts, cx::Cx, schema::Check},
};

/// The limit of messages that a node may emit within one call. More is an error, so that the node does not use up the memory.
pub(crate) const MAX_PER_CALL: usize = 1 << 20;

/// One output: emitted messages that are not accepted yet, and their edges.
pub(crate) struct Outlet<T> {
    pub(crate) outbox: VecDeque<Message<T>>,
    edges: Vec<Arc<Edge<T>>>,
    sent: Vec<usize>,
    /// The room in all Block edges, counted with the messages of the outbox, when it was last read. There may be more now, but not less,
    /// unless a capacity was lowered.
    room: usize,
    /// How long the outbox was before `call`, the last that emitted here.
    mark: usize,
    call: u64,
    /// The number of messages of the outbox that are counted as emitted.
    counted: usize,
    pub(crate) checks: Vec<Check<T>>,
    /// Messages that edges discarded, to be dropped without a lock.
    discarded: Vec<Message<T>>,
}

impl<T: Payload> Outlet<T> {
    pub(crate) fn new() -> Self {
        Self {
            outbox: VecDeque::new(),
            edges: Vec::new(),
            sent: Vec::new(),
            room: 0,
            mark: 0,
            call: 0,
            counted: 0,
            checks: Vec::new(),
            discarded: Vec::new(),
        }
    }

    pub(crate) fn attach(&mut self, edge: Arc<Edge<T>>) {
        self.edges.push(edge);
        self.sent.push(0);
    }

    #[inline]
    fn push(&mut self, message: Message<T>, cx: &mut Cx) {
        // A separate function, so that here a message goes from registers into the outbox without an address.
        if !self.checks.is_empty() {
            return self.push_checked(message, cx);
        }
        self.push_unchecked(message, cx);
    }

    #[cold]
    #[inline(never)]
    fn push_checked(&mut self, message: Message<T>, cx: &mut Cx) {
        match self.checks.iter().try_for_each(|check| check(&message.payload)) {
            Ok(()) => self.push_unchecked(message, cx),
            Err(problem) => cx.reject_emitted(problem),
        }
    }

    #[inline]
    fn push_unchecked(&mut self, message: Message<T>, cx: &mut Cx) {
        if self.call != cx.call {
            self.call = cx.call;
            self.mark = self.outbox.len();
        } else if self.outbox.len() - self.mark >= MAX_PER_CALL {
            cx.reject_flood();
            return;
        }
        cx.pushes += 1;
        self.outbox.push_back(message);
    }

    /// Sends a message within the call, after what was emitted before, and returns the result. That is final, also if the call fails.
    pub(crate) fn put(&mut self, message: Message<T>, cx: &mut Cx) -> PutResult {
        if let Err(problem) = self.checks.iter().try_for_each(|check| check(&message.payload)) {
            cx.reject_emitted(problem);
            return PutResult::Dropped;
        }
        cx.pushes += 1;
        let all_sent = self.flush(cx);
        self.outbox.push_back(message);
        let result = if all_sent { self.put_last(cx) } else { PutResult::Blocked };
        (self.call, self.mark) = (cx.call, self.outbox.len());
        result
    }

    /// Puts the only message of the outbox into every edge. It stays for those that are full.
    fn put_last(&mut self, cx: &mut Cx) -> PutResult {
        cx.log.emitted += 1;
        let mut worst = None;
        let mut room = usize::MAX;
        for (edge, sent) in self.edges.iter().zip(&mut self.sent) {
            let (result, queue) = edge.put(&self.outbox[0]);
            *sent = usize::from(result != PutResult::Blocked);
            room = room.min(settle(edge, queue, *sent, &mut self.discarded, cx));
            worst = worst.max(Some(result));
        }
        self.room = room;
        if self.sent.iter().all(|sent| *sent == 1) {
            self.sent.fill(0);
            self.outbox.clear();
        }
        if self.edges.is_empty() {
            cx.in_flight.count_unconnected(1);
        }
        self.counted = self.outbox.len();
        worst.unwrap_or(PutResult::Closed)
    }

    /// Whether it has no edge.
    pub(crate) fn is_unconnected(&self) -> bool {
        self.edges.is_empty()
    }

    /// Puts a dead letter into the outbox. Without an edge it is counted as lost.
    #[cold]
    pub(crate) fn push_dead_letter(&mut self, message: Message<T>, cx: &mut Cx) {
        if self.edges.is_empty() {
            cx.log.lost += 1;
        } else {
            self.outbox.push_back(message);
        }
    }

    /// Removes the messages of a call that failed.
    pub(crate) fn roll_back(&mut self, call: u64) {
        if self.call == call {
            self.outbox.truncate(self.mark);
        }
    }

    /// How many more messages may be emitted before the node must wait.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.room.saturating_sub(self.outbox.len())
    }

    /// Whether there is room for at least one message. A full edge will send a signal when there is.
    pub(crate) fn has_room(&mut self, hoped: usize) -> bool {
        if self.room >= hoped && self.outbox.is_empty() {
            return true;
        }
        self.room = self.edges.iter().map(|edge| edge.queue().room_or_want()).min().unwrap_or(usize::MAX);
        self.room > self.outbox.len()
    }

    /// Puts messages into the edges. True if none is left.
    pub(crate) fn flush(&mut self, cx: &mut Cx) -> bool {
        if self.outbox.is_empty() {
            return true;
        }
        cx.log.emitted += (self.outbox.len() - self.counted) as u64;
        match self.edges.as_slice() {
            [] => {
                cx.in_flight.count_unconnected(self.outbox.len() as u64);
                self.outbox.clear();
            }
            [edge] => {
                let before = self.outbox.len();
                let queue = edge.put_all(&mut self.outbox);
                let put = before - self.outbox.len();
                self.room = settle(edge, queue, put, &mut self.discarded, cx);
            }
            edges => {
                let (last, others) = edges.split_last().expect("more than one");
                let total = self.outbox.len();
                let mut room = usize::MAX;
                for (edge, sent) in others.iter().zip(&mut self.sent) {
                    let before = *sent;
                    let queue = edge.put_copies(&self.outbox, sent);
                    room = room.min(settle(edge, queue, *sent - before, &mut self.discarded, cx));
                }
                // The last edge takes the messages that all others have: one copy less.
                let shared = self.sent[..others.len()].iter().copied().min().expect("at least one other");
                let sent = &mut self.sent[others.len()];
                let (queue, put) = if *sent == 0 && shared == total {
                    let queue = last.put_all(&mut self.outbox);
                    let taken = total - self.outbox.len();
                    self.sent.iter_mut().take(others.len()).for_each(|sent| *sent -= taken);
                    (queue, taken)
                } else {
                    let before = *sent;
                    (last.put_copies(&self.outbox, sent), *sent - before)
                };
                self.room = room.min(settle(last, queue, put, &mut self.discarded, cx));
                let done = self.sent.iter().copied().min().expect("edges");
                self.outbox.drain(..done);
                self.sent.iter_mut().for_each(|sent| *sent -= done);
            }
        }
        self.counted = self.outbox.len();
        self.outbox.is_empty()
    }

    /// Drops the messages: there will be no further flush.
    pub(crate) fn discard(&mut self) {
        self.outbox.clear();
        self.sent.fill(0);
        self.counted = 0;
    }
}

/// After messages were put on an edge: notes the signal for the scheduler and calls the observer. Returns the room that is left.
#[inline]
fn settle<T: Payload>(
    edge: &Edge<T>,
    mut queue: MutexGuard<'_, Queue<Message<T>>>,
    put: usize,
    discarded: &mut Vec<Message<T>>,
    cx: &mut Cx,
) -> usize {
    if queue.signal_filled() {
        cx.log.filled.push(edge.index);
    }
    let room = queue.room();
    queue.swap_discarded(discarded);
    drop(queue);
    discarded.clear();
    if let Some(observer) = &cx.observer
        && put > 0
    {
        observer.enqueued(&edge.id, put);
    }
    room
}

/// The outputs of a [`Stage`](crate::Stage) or [`Source`](crate::Source), and the requests that it may make.
pub struct Out<'a, T> {
    pub(crate) outlets: &'a mut [Outlet<T>],
    pub(crate) cx: &'a mut Cx,
}

impl<T: Payload> Out<'_, T> {
    /// Emits to the first output. The message has the trace id, time and kind of the current one. In a source, a tick
    /// or a wake, a new trace begins.
    #[inline]
    pub fn emit(&mut self, payload: T) {
        self.emit_to(0, payload);
    }

    /// Emits to an output by its index in [`Stage::outputs`](crate::Stage::outputs).
    ///
    /// # Panics
    /// If there is no such output, which fails the node's call.
    #[inline]
    pub fn emit_to(&mut self, output: usize, payload: T) {
        let header = self.cx.header_for::<T>();
        self.outlets[output].push(Message { header, payload }, self.cx);
    }

    /// Emits to the first output at once, and returns what happened to the message: it was accepted, merged or dropped, has to wait, or has no consumer. [`emit`](Self::emit) cannot say so: it
    /// sends when the call is over. So a message that was put, and those emitted before it, are not taken back if the call fails.
    ///
    /// It costs the lock of every edge for one message, and a copy; `emit` needs neither.
    ///
    /// ```
    /// use bursar::flow::{Message, NodeResult, Out, PutResult, Stage};
    ///
    /// /// Counts what a full edge dropped.
    /// struct Lossy(u64);
    ///
    /// impl Stage for Lossy {
    ///     type In = f64;
    ///     type Out = f64;
    ///
    ///     fn on_message(&mut self, message: Message<f64>, out: &mut Out<'_, f64>) -> NodeResult {
    ///         if out.put(message.payload) == PutResult::Dropped {
    ///             self.0 += 1;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    /// ```
    pub fn put(&mut self, payload: T) -> PutResult {
        self.put_to(0, payload)
    }

    /// As [`put`](Self::put), to an output by its index in [`Stage::outputs`](crate::Stage::outputs).
    ///
    /// # Panics
    /// If there is no such output, which fails the node's call.
    pub fn put_to(&mut self, output: usize, payload: T) -> PutResult {
        let header = self.cx.header_for::<T>();
        self.outlets[output].put(Message { header, payload }, self.cx)
    }

    /// Emits a message with a header of its own to the first output. A header without a trace id gets one.
    #[inline]
    pub fn send(&mut self, message: Message<T>) {
        self.send_to(0, message);
    }

    /// Emits a message with a header of its own. A header without a trace id gets one.
    ///
    /// # Panics
    /// If there is no such output, which fails the node's call.
    #[inline]
    pub fn send_to(&mut self, output: usize, mut message: Message<T>) {
        if message.header.trace == TraceId::NONE {
            let kind = message.header.kind;
            message.header = Header { kind, ..self.cx.header_for::<T>() };
        }
        self.outlets[output].push(message, self.cx);
    }

    /// How many more messages the Block edges of the first output take before this node must wait.
    #[inline]
    pub fn room(&self) -> usize {
        self.outlets.first().map_or(usize::MAX, Outlet::room)
    }

    /// As [`room`](Self::room), of an output by its index.
    #[inline]
    pub fn room_at(&self, output: usize) -> usize {
        self.outlets.get(output).map_or(0, Outlet::room)
    }

    /// Learns which messages of the first output their consumers have finished with: for a source that must tell so to those who sent them. `notify` is called, on any thread, when there may be news; it
    /// must be quick, and must not wait. Call it once, in `on_start`.
    ///
    /// # Errors
    /// If an edge of this output does not block: it may drop messages, and those are never finished.
    pub fn receipts(&mut self, notify: impl Fn() + Send + Sync + 'static) -> Result<Receipts, NodeError> {
        let edges = self.outlets.first().map_or(&[][..], |outlet| &outlet.edges);
        Receipts::new(edges, Arc::new(notify))
    }

    asked_of_a_turn!();
}

/// The default kind of messages that carry a `T`.
pub(crate) fn kind_of<T: 'static>() -> Kind {
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<Control>() { Kind::Control } else { Kind::Data }
}
