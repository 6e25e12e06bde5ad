//! How a node emits: an outbox for each output, emptied into its edges when the node's call is over.
//!
//! Room: mechanism of the crate.
//!
//! # Invariant
//! Every message in an outbox reaches every edge of its port exactly once, in order; and none of a call that failed reaches any.
//!
//! # Why it holds
//! Messages leave the outbox only in [`Outlet::flush`], after a call; a failed call is cut off at the mark made at its first message. [`Outlet::put`] is the exception, and says so: what
//! it sends within a call is final, with what was emitted before it, so it moves the mark.
//! `sent[k]` counts how many of the outbox the edge `k` already has, so an edge that is full stops only itself, and is
//! continued where it stopped. A message leaves the outbox when the last edge has it.

use std::{
    collections::VecDeque,
    sync::{Arc, MutexGuard},
};

use policy_flow::{PutResult, Queue};

use crate::{
    edge::Edge,
    message::{Control, Header, Kind, Message, Payload, TraceId},
    node::{cx::Cx, schema::Check},
};

/// A node may emit so many messages within one call; more is an error of the node, before it eats the memory.
pub(crate) const MOST_PER_CALL: usize = 1 << 20;

/// One output: what was emitted and not yet accepted, and where it goes.
pub(crate) struct Outlet<T> {
    pub(crate) outbox: VecDeque<Message<T>>,
    edges: Vec<Arc<Edge<T>>>,
    sent: Vec<usize>,
    /// So many messages of the outbox find room in all Block edges, as far as is known. There may be more room, not less,
    /// unless a capacity was lowered.
    room: usize,
    /// How long the outbox was before `call`, the last that emitted here.
    mark: usize,
    call: u64,
    /// So many of the outbox are counted as emitted.
    counted: usize,
    pub(crate) checks: Vec<Check<T>>,
    /// What edges let go of, on its way out.
    gone: Vec<Message<T>>,
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
            gone: Vec::new(),
        }
    }

    pub(crate) fn attach(&mut self, edge: Arc<Edge<T>>) {
        self.edges.push(edge);
        self.sent.push(0);
    }

    #[inline]
    fn push(&mut self, message: Message<T>, cx: &mut Cx) {
        // Elsewhere, so that here no message needs an address: it goes from registers into the outbox.
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
            Err(problem) => cx.complain(problem),
        }
    }

    #[inline]
    fn push_unchecked(&mut self, message: Message<T>, cx: &mut Cx) {
        if self.call != cx.call {
            self.call = cx.call;
            self.mark = self.outbox.len();
        } else if self.outbox.len() - self.mark >= MOST_PER_CALL {
            cx.complain_of_flood();
            return;
        }
        cx.pushes += 1;
        self.outbox.push_back(message);
    }

    /// Sends a message within the call, after what was emitted before, and says what became of it. That is final, whatever becomes of the call.
    pub(crate) fn put(&mut self, message: Message<T>, cx: &mut Cx) -> PutResult {
        if let Err(problem) = self.checks.iter().try_for_each(|check| check(&message.payload)) {
            cx.complain(problem);
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
            room = room.min(settle(edge, queue, *sent, &mut self.gone, cx));
            worst = worst.max(Some(result));
        }
        self.room = room;
        if self.sent.iter().all(|sent| *sent == 1) {
            self.sent.fill(0);
            self.outbox.clear();
        }
        if self.edges.is_empty() {
            cx.custody.count_unconnected(1);
        }
        self.counted = self.outbox.len();
        worst.unwrap_or(PutResult::Closed)
    }

    /// Whether what is emitted here reaches nobody.
    pub(crate) fn is_unconnected(&self) -> bool {
        self.edges.is_empty()
    }

    /// Puts a dead letter into the outbox. Without an edge it reaches nobody, and is counted as lost.
    #[cold]
    pub(crate) fn bury(&mut self, message: Message<T>, cx: &mut Cx) {
        if self.edges.is_empty() {
            cx.log.lost += 1;
        } else {
            self.outbox.push_back(message);
        }
    }

    /// The call failed: nothing of it is sent.
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

    /// Before a turn: is there room for at least one message? A full edge will signal when there is.
    pub(crate) fn has_room(&mut self, hoped: usize) -> bool {
        if self.room >= hoped && self.outbox.is_empty() {
            return true;
        }
        self.room = self.edges.iter().map(|edge| edge.queue().room_or_want()).min().unwrap_or(usize::MAX);
        self.room > self.outbox.len()
    }

    /// Puts what it can into the edges. True if nothing is left.
    pub(crate) fn flush(&mut self, cx: &mut Cx) -> bool {
        if self.outbox.is_empty() {
            return true;
        }
        cx.log.emitted += (self.outbox.len() - self.counted) as u64;
        match self.edges.as_slice() {
            [] => {
                cx.custody.count_unconnected(self.outbox.len() as u64);
                self.outbox.clear();
            }
            [edge] => {
                let before = self.outbox.len();
                let queue = edge.put_all(&mut self.outbox);
                let put = before - self.outbox.len();
                self.room = settle(edge, queue, put, &mut self.gone, cx);
            }
            edges => {
                let (last, others) = edges.split_last().expect("more than one");
                let total = self.outbox.len();
                let mut room = usize::MAX;
                for (edge, sent) in others.iter().zip(&mut self.sent) {
                    let before = *sent;
                    let queue = edge.put_copies(&self.outbox, sent);
                    room = room.min(settle(edge, queue, *sent - before, &mut self.gone, cx));
                }
                // What all others have, the last takes itself: one copy less.
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
                self.room = room.min(settle(last, queue, put, &mut self.gone, cx));
                let done = self.sent.iter().copied().min().expect("edges");
                self.outbox.drain(..done);
                self.sent.iter_mut().for_each(|sent| *sent -= done);
            }
        }
        self.counted = self.outbox.len();
        self.outbox.is_empty()
    }

    /// Nobody will flush this any more.
    pub(crate) fn discard(&mut self) {
        self.outbox.clear();
        self.sent.fill(0);
        self.counted = 0;
    }
}

/// So many messages were put on an edge: tells the scheduler, and whoever watches. The room that is left.
#[inline]
fn settle<T: Payload>(
    edge: &Edge<T>,
    mut queue: MutexGuard<'_, Queue<Message<T>>>,
    put: usize,
    gone: &mut Vec<Message<T>>,
    cx: &mut Cx,
) -> usize {
    if queue.tell() {
        cx.log.filled.push(edge.index);
    }
    let room = queue.room();
    queue.swap_gone(gone);
    drop(queue);
    gone.clear();
    if let Some(observer) = &cx.observer
        && put > 0
    {
        observer.enqueued(&edge.id, put);
    }
    room
}

/// What a [`Stage`](crate::Stage) or [`Source`](crate::Source) emits to, and what it may ask for.
pub struct Out<'a, T> {
    pub(crate) outlets: &'a mut [Outlet<T>],
    pub(crate) cx: &'a mut Cx,
}

impl<T: Payload> Out<'_, T> {
    /// Emits to the first output. The message has the trace id, time and kind of the one that is being handled; those of a source, a tick
    /// or a wake begin a trace of their own.
    #[inline]
    pub fn emit(&mut self, payload: T) {
        self.emit_to(0, payload);
    }

    /// Emits to an output by its place in [`Stage::outputs`](crate::Stage::outputs).
    ///
    /// # Panics
    /// If there is no such output, which fails the node's call.
    #[inline]
    pub fn emit_to(&mut self, output: usize, payload: T) {
        let header = self.cx.header_for::<T>();
        self.outlets[output].push(Message { header, payload }, self.cx);
    }

    /// Emits to the first output at once, and tells what became of the message: whether it was accepted, merged, dropped, has to wait, or came to nobody. [`emit`](Self::emit) cannot tell: what it
    /// takes is sent when the call is over. So what is put, and what was emitted before it, is not taken back if the call fails.
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

    /// As [`put`](Self::put), to an output by its place in [`Stage::outputs`](crate::Stage::outputs).
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

    /// As [`room`](Self::room), of an output by its place.
    #[inline]
    pub fn room_at(&self, output: usize) -> usize {
        self.outlets.get(output).map_or(0, Outlet::room)
    }

    asked_of_a_turn!();
}

/// The kind of messages that carry a `T`, unless somebody says otherwise.
pub(crate) fn kind_of<T: 'static>() -> Kind {
    if std::any::TypeId::of::<T>() == std::any::TypeId::of::<Control>() { Kind::Control } else { Kind::Data }
}
