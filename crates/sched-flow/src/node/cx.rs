//! What surrounds a node's call: the time, whose message it is, and what the node asked for.
//!
//! Room: mechanism of the crate. One for each node, used by the one worker that runs it.

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
    message::{Header, Kind, Time, TraceId},
    node::{
        custody::Custody,
        out::{MOST_PER_CALL, kind_of},
    },
    observe::Observer,
};

/// What every call of a node may ask for, of whatever it emits to.
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

        /// Whoever wakes this, from any thread, has `on_wake` called soon.
        pub fn waker(&self) -> std::task::Waker {
            self.cx.waker.clone()
        }

        /// Starts a task in the nursery of this node. It is cancelled when the node stops, and the flow does not end before it has.
        ///
        /// Tasks may block, as fibers do. What they find out they send into a channel that the node looks at when it is
        /// [woken](Self::waker).
        pub fn spawn(&mut self, body: impl FnOnce() + Send + 'static) {
            self.cx.spawn(Box::new(body));
        }

        /// Asks the whole graph to drain and stop.
        pub fn shutdown(&mut self) {
            self.cx.log.shutdown = true;
        }

        /// This node wants no more: it ends as if no more input came, after what it emits in this call. A node that feeds only such nodes is finished, too, and so on up to the sources,
        /// which stop, as programs before `head` do. What still waits on the edges in between is dropped, and counted so.
        pub fn finish(&mut self) {
            self.cx.log.finish = true;
            self.cx.pace.stop();
        }

        /// So many messages that this node took came to nothing after all: what they were handed to is gone. [`NodeStats::lost`](crate::NodeStats::lost) counts them, also those of
        /// a call that fails.
        pub fn lose(&mut self, messages: u64) {
            self.cx.log.lost += messages;
        }

        /// So many messages that this node took were not wanted: what they were for ended well without them, as a program does that reads the first lines only.
        /// [`NodeStats::unwanted`](crate::NodeStats::unwanted) counts them.
        pub fn decline(&mut self, messages: u64) {
            self.cx.custody.count_unwanted(messages);
        }

        /// Where the node says how many messages it keeps between calls; see [`Custody`](crate::Custody).
        pub fn custody(&self) -> &$crate::Custody {
            &self.cx.custody
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
    /// Cancels what was started and waits for it.
    fn end(&mut self);
}

/// Tells the time.
pub(crate) type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Ends a turn before its messages are used up: when it takes too long, or when control waits.
///
/// To look costs as much as to handle a small message. So it is done every few microseconds, as far as the node's own speed tells.
#[derive(Default)]
pub(crate) struct Pace {
    /// Without it, turns are only counted: in virtual time, and in a harness.
    pub(crate) clock: Option<Clock>,
    /// How long a turn may take.
    pub(crate) longest_nanos: u64,
    /// Control waits.
    pub(crate) rush: Arc<AtomicBool>,
    /// This is a turn of another band, which ends early then.
    heeds_rush: bool,
    /// When this turn should be over.
    ends: Time,
    /// It is looked after so many messages.
    interval: u32,
    left: u32,
    /// The node said that it wants no more.
    stopped: bool,
    /// The last look said so.
    pub(crate) over: bool,
}

impl Pace {
    /// About so long from look to look.
    const LOOK_NANOS: u64 = 2_000;
    /// However quick a node was, it may become slow.
    const LONGEST_INTERVAL: u64 = 64;

    /// A turn begins.
    pub(crate) fn begin(&mut self, now: Time, of_control: bool) {
        self.heeds_rush = !of_control;
        self.ends = Time::from_nanos(now.nanos().saturating_add(self.longest_nanos));
        self.left = self.interval.max(1);
        self.stopped = false;
        self.over = false;
    }

    /// The turn ends with the call that is being made: the next look says so.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        self.left = 1;
    }

    /// A message was handled: is it enough?
    #[inline]
    pub(crate) fn is_over(&mut self) -> bool {
        self.left = self.left.wrapping_sub(1);
        self.left == 0 && self.look()
    }

    #[cold]
    fn look(&mut self) -> bool {
        self.left = self.interval.max(1);
        let is_late = || self.clock.as_ref().is_some_and(|clock| clock() >= self.ends);
        self.over = self.stopped || (self.heeds_rush && self.rush.load(Relaxed)) || is_late();
        self.over
    }

    /// The turn is over: so many messages took so long.
    pub(crate) fn learn(&mut self, messages: u64, took_nanos: u64) {
        let looks = (Self::LOOK_NANOS * messages).checked_div(took_nanos).unwrap_or(u64::MAX);
        self.interval = looks.clamp(1, Self::LONGEST_INTERVAL) as u32;
    }
}

/// What surrounds the calls of one node.
pub(crate) struct Cx {
    pub(crate) id: Arc<str>,
    pub(crate) now: Time,
    /// Of the message being handled; without a trace id if there is none.
    pub(crate) header: Header,
    /// Traces that begin in this node are numbered; the upper bits name the node.
    next_trace: u64,
    /// The number of this call.
    pub(crate) call: u64,
    /// How many messages were ever emitted.
    pub(crate) pushes: usize,
    pub(crate) waker: Waker,
    pub(crate) host: Box<dyn Host>,
    pub(crate) log: Log,
    pub(crate) custody: Custody,
    complaint: Option<NodeError>,
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
            custody: Custody::default(),
            complaint: None,
            pace: Pace::default(),
            observer: None,
        }
    }

    /// The header of what is emitted now.
    #[inline]
    pub(crate) fn header_for<T: 'static>(&mut self) -> Header {
        if self.header.trace == TraceId::NONE {
            let trace = TraceId(self.next_trace);
            self.next_trace += 1;
            return Header { trace, at: self.now, kind: kind_of::<T>() };
        }
        match kind_of::<T>() {
            Kind::Data => self.header, // what comes of a message is of its kind
            kind => Header { kind, ..self.header },
        }
    }

    /// No message is being handled.
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

    /// Something that was emitted may not be. The call that did it fails.
    #[cold]
    pub(crate) fn complain(&mut self, problem: String) {
        if self.complaint.is_none() {
            self.complaint = Some(NodeError::msg(problem));
        }
    }

    #[cold]
    pub(crate) fn complain_of_flood(&mut self) {
        self.complain(format!(
            "node `{}` emitted more than {MOST_PER_CALL} messages in one call; emit fewer at a time, or make it a source",
            self.id
        ));
    }

    /// What the call returned, unless something that it emitted may not be.
    #[inline]
    pub(crate) fn verdict<T>(&mut self, result: Result<T, NodeError>) -> Result<T, NodeError> {
        if self.complaint.is_some() {
            return Err(self.complaint.take().expect("looked at"));
        }
        result
    }
}
