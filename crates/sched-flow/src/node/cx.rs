//! The context of a call of a node: the time, the header of the message, and what the node asks for.
//!
//! Room: driver. Knows one node; knows nothing of its types and of other nodes.
//!
//! Each node has one. The worker that gives the node its turn has it to itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Waker,
};

use policy_flow::Log;

use crate::{
    error::NodeError,
    in_flight::InFlight,
    message::{Header, Kind, Time, TraceId},
    node::out::{MAX_PER_CALL, kind_of},
    observe::Observer,
};

/// The requests that every call of a node may make, whatever type its output has.
macro_rules! asked_of_a_turn {
    () => {
        /// The time of this turn: read once, not per message. Virtual in a flow with virtual time.
        #[inline]
        pub fn now(&self) -> $crate::Time {
            self.cx.now
        }

        /// Asks for a tick at that time, once. Of several, the earliest counts; ask again in `on_tick` for the next.
        pub fn tick_at(&mut self, at: $crate::Time) {
            self.cx.tick_at(at);
        }

        /// The waker of this node. To wake it, from any thread, has `on_wake` called soon.
        pub fn waker(&self) -> std::task::Waker {
            self.cx.waker.clone()
        }

        /// Starts a task in the nursery of this node. It is cancelled when the node stops, and the flow does not end before it has.
        ///
        /// Tasks may block, as fibers do. They send their results into a channel, which the node reads when it is
        /// [woken](Self::waker).
        pub fn spawn(&mut self, body: impl FnOnce() + Send + 'static) {
            self.cx.spawn(Box::new(body));
        }

        /// Asks the whole graph to drain and stop.
        pub fn shutdown(&mut self) {
            self.cx.log.shutdown = true;
        }

        /// Finishes this node: it takes no more input and ends, after what it emits in this call. A node that feeds only such nodes finishes, too, and so on up to the sources,
        /// as programs before `head` stop. Messages that still wait on the edges in between are dropped, and counted so.
        pub fn finish(&mut self) {
            self.cx.log.finish = true;
            self.cx.pace.stop();
        }

        /// Counts messages that this node took and lost: what they were handed to is gone. [`NodeStats::lost`](crate::NodeStats::lost) counts them, also those of
        /// a call that fails.
        pub fn lose(&mut self, messages: u64) {
            self.cx.log.lost += messages;
        }

        /// Counts messages that this node took and that were not needed: their consumer ended well without them, as a program does that reads the first lines only.
        /// [`NodeStats::unwanted`](crate::NodeStats::unwanted) counts them.
        pub fn decline(&mut self, messages: u64) {
            self.cx.in_flight.count_unwanted(messages);
        }

        /// The messages that the node keeps between calls; see [`InFlight`](crate::InFlight).
        pub fn in_flight(&self) -> &$crate::InFlight {
            &self.cx.in_flight
        }

        /// The name of this node in the graph.
        pub fn node(&self) -> &str {
            &self.cx.id
        }
    };
}

/// Starts tasks in the nursery of a node.
pub(crate) trait Host: Send {
    fn spawn(&mut self, body: Box<dyn FnOnce() + Send>);
    /// Cancels the tasks and waits for them.
    fn end(&mut self);
}

/// Reads the time.
pub(crate) type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Ends a turn before its batch is used up: when it takes too long, or when control waits.
///
/// A check costs as much as a small message. So it is made every few microseconds, estimated from the speed of the node.
#[derive(Default)]
pub(crate) struct Pace {
    /// None in virtual time: there only messages are counted.
    pub(crate) clock: Option<Clock>,
    /// The limit of the time of a turn.
    pub(crate) longest_nanos: u64,
    /// Set when control waits.
    pub(crate) preempt: Arc<AtomicBool>,
    /// This is a turn of another band than control.
    preemptible: bool,
    /// When this turn should be over.
    ends: Time,
    /// A check is made after so many messages.
    interval: u32,
    left: u32,
    /// The node has finished.
    stopped: bool,
    /// The last check ended the turn.
    pub(crate) over: bool,
}

impl Pace {
    /// The time between two checks, about.
    const CHECK_NANOS: u64 = 2_000;
    /// The limit of messages between two checks: a fast node may become slow.
    const MAX_INTERVAL: u64 = 64;

    /// A turn begins.
    pub(crate) fn begin(&mut self, now: Time, of_control: bool) {
        self.preemptible = !of_control;
        self.ends = Time::from_nanos(now.nanos().saturating_add(self.longest_nanos));
        self.left = self.interval.max(1);
        self.stopped = false;
        self.over = false;
    }

    /// Ends the turn with the current call.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        self.left = 1;
    }

    /// A message was handled. True if the turn ends.
    #[inline]
    pub(crate) fn is_over(&mut self) -> bool {
        self.left = self.left.wrapping_sub(1);
        self.left == 0 && self.check()
    }

    #[cold]
    fn check(&mut self) -> bool {
        self.left = self.interval.max(1);
        let is_late = || self.clock.as_ref().is_some_and(|clock| clock() >= self.ends);
        self.over = self.stopped || (self.preemptible && self.preempt.load(Relaxed)) || is_late();
        self.over
    }

    /// Adapts the interval to a turn of so many messages that took so long.
    pub(crate) fn learn(&mut self, messages: u64, took_nanos: u64) {
        let interval = (Self::CHECK_NANOS * messages).checked_div(took_nanos).unwrap_or(u64::MAX);
        self.interval = interval.clamp(1, Self::MAX_INTERVAL) as u32;
    }
}

/// The context of the calls of one node.
pub(crate) struct Cx {
    pub(crate) id: Arc<str>,
    pub(crate) now: Time,
    /// The header of the current message; without a trace id if there is none.
    pub(crate) header: Header,
    /// The next trace id that begins in this node. The upper bits are the number of the node.
    next_trace: u64,
    /// The number of this call.
    pub(crate) call: u64,
    /// The number of messages emitted so far.
    pub(crate) pushes: usize,
    pub(crate) waker: Waker,
    pub(crate) host: Box<dyn Host>,
    pub(crate) log: Log,
    pub(crate) in_flight: InFlight,
    emit_error: Option<NodeError>,
    pub(crate) pace: Pace,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

impl Cx {
    pub(crate) fn new(id: Arc<str>, index: u32, waker: Waker, host: Box<dyn Host>) -> Self {
        Self {
            id,
            now: Time::START,
            header: Header::default(),
            next_trace: (u64::from(index) + 1) << 40,
            call: 0,
            pushes: 0,
            waker,
            host,
            log: Log::default(),
            in_flight: InFlight::default(),
            emit_error: None,
            pace: Pace::default(),
            observer: None,
        }
    }

    /// The header of a message that is emitted now.
    #[inline]
    pub(crate) fn header_for<T: 'static>(&mut self) -> Header {
        if self.header.trace == TraceId::NONE {
            let trace = TraceId(self.next_trace);
            self.next_trace += 1;
            return Header { trace, at: self.now, kind: kind_of::<T>() };
        }
        match kind_of::<T>() {
            Kind::Data => self.header, // it has the kind of the message that caused it
            kind => Header { kind, ..self.header },
        }
    }

    /// There is no current message.
    #[inline]
    pub(crate) fn handle_none(&mut self) {
        self.header = Header::default();
    }

    pub(crate) fn tick_at(&mut self, at: Time) {
        self.log.tick_at = Some(self.log.tick_at.map_or(at, |earlier| earlier.min(at)));
    }

    pub(crate) fn spawn(&mut self, body: Box<dyn FnOnce() + Send>) {
        self.host.spawn(body);
    }

    /// An emitted message is not allowed. The call fails.
    #[cold]
    pub(crate) fn reject_emitted(&mut self, problem: String) {
        if self.emit_error.is_none() {
            self.emit_error = Some(NodeError::msg(problem));
        }
    }

    #[cold]
    pub(crate) fn reject_flood(&mut self) {
        self.reject_emitted(format!(
            "node `{}` emitted more than {MAX_PER_CALL} messages in one call; emit fewer at a time, or make it a source",
            self.id
        ));
    }

    /// The result of a call: an error, if it emitted a message that is not allowed.
    #[inline]
    pub(crate) fn verdict<T>(&mut self, result: Result<T, NodeError>) -> Result<T, NodeError> {
        if self.emit_error.is_some() {
            return Err(self.emit_error.take().expect("checked"));
        }
        result
    }
}
