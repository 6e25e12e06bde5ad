//! What travels: a payload and its header.
//!
//! Room: vocabulary of the crate. Values only.
//!
//! # Invariant
//! A payload is never printed unless somebody asked: `Debug` of a message shows its header, and [`Message::reveal`] the rest.

use std::fmt;

pub(crate) use policy_flow::Time;

/// What can travel along an edge: anything that can be cloned, sent and owned.
///
/// A message is cloned once for every edge after the first that leaves its port, and for a retry. Put large payloads
/// into an [`Arc`](std::sync::Arc).
pub trait Payload: Clone + Send + 'static {}

impl<T: Clone + Send + 'static> Payload for T {}

/// What a message is for.
// As wide as its neighbours in a header, so that a header has no gaps and is copied by words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u64)]
#[non_exhaustive]
pub enum Kind {
    /// It carries what the graph is there for.
    #[default]
    Data,
    /// It steers nodes.
    Control,
    /// It tells of a failure.
    Error,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Data => "data",
            Kind::Control => "control",
            Kind::Error => "error",
        })
    }
}

/// Names everything that came of one message of a source.
///
/// It follows the message: what a node emits while it handles a message has the trace id of that message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TraceId(pub u64);

impl TraceId {
    /// Of a message that is not on its way yet. It gets its id when it is emitted.
    pub const NONE: TraceId = TraceId(0);
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What goes with every payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Which message of which source all this came from.
    pub trace: TraceId,
    /// When that message entered the flow.
    pub at: Time,
    /// What it is for.
    pub kind: Kind,
}

/// A payload and its header.
///
/// ```
/// use bursar::flow::{Kind, Message};
///
/// let message = Message::new(String::from("secret"));
/// assert_eq!(message.header.kind, Kind::Data);
/// assert!(!format!("{message:?}").contains("secret")); // logs do not tell
/// assert!(format!("{:?}", message.reveal()).contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Message<T> {
    /// Where it came from, and when.
    pub header: Header,
    /// What it carries.
    pub payload: T,
}

impl<T> Message<T> {
    /// A message of data. Its trace id and time are given to it when it is emitted.
    pub const fn new(payload: T) -> Self {
        Self::of(Kind::Data, payload)
    }

    /// A message of some kind.
    pub const fn of(kind: Kind, payload: T) -> Self {
        Self { header: Header { trace: TraceId::NONE, at: Time::START, kind }, payload }
    }

    /// Another payload under the same header.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Message<U> {
        Message { header: self.header, payload: change(self.payload) }
    }

    /// To print it with its payload.
    pub const fn reveal(&self) -> Revealed<'_, T> {
        Revealed(self)
    }
}

impl<T> fmt::Debug for Message<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { trace, at, kind } = self.header;
        write!(f, "Message({kind} {trace} at {at}, payload hidden)")
    }
}

/// A message that is printed with its payload: see [`Message::reveal`].
pub struct Revealed<'a, T>(&'a Message<T>);

impl<T: fmt::Debug> fmt::Debug for Revealed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { trace, at, kind } = self.0.header;
        write!(f, "Message({kind} {trace} at {at}, {:?})", self.0.payload)
    }
}

/// What the input `control` understands, which every node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Control {
    /// The node takes no more input and ends as if it had been told that none comes: a source ends its stream.
    Stop,
    /// The node stands still, but for control. What waits for it keeps waiting.
    Pause,
    /// It goes on.
    Resume,
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Control::Stop => "stop",
            Control::Pause => "pause",
            Control::Resume => "resume",
        })
    }
}
