//! A message: a payload and its header.
//!
//! Room: values.
//!
//! # Invariant
//! A payload is printed only on request: `Debug` of a message shows its header, and [`Message::reveal`] the rest.

use std::fmt;

pub(crate) use policy_flow::Time;

/// The payload of a message: anything that can be cloned, sent and owned.
///
/// A message is cloned once for every edge after the first that leaves its port, and for a retry. Put large payloads
/// into an [`Arc`](std::sync::Arc).
pub trait Payload: Clone + Send + 'static {}

impl<T: Clone + Send + 'static> Payload for T {}

/// What a message is for.
// As wide as the other fields of a header, so that a header has no padding and is copied by words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u64)]
#[non_exhaustive]
pub enum Kind {
    /// It carries data.
    #[default]
    Data,
    /// It controls nodes.
    Control,
    /// It reports a failure.
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

/// The id of a trace: of one message of a source, and of all that it caused.
///
/// A node that handles a message emits with the trace id of that message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TraceId(pub u64);

impl TraceId {
    /// No id. A message gets its id when it is emitted.
    pub const NONE: TraceId = TraceId(0);
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// The trace: which message of a source caused it.
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
/// assert!(!format!("{message:?}").contains("secret")); // logs do not show it
/// assert!(format!("{:?}", message.reveal()).contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Message<T> {
    /// Its origin, time and kind.
    pub header: Header,
    /// What it carries.
    pub payload: T,
}

impl<T> Message<T> {
    /// A message of data. It gets its trace id and time when it is emitted.
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

/// A message for the input `control`, which every node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Control {
    /// The node takes no more input and ends; a source ends its stream.
    Stop,
    /// The node is paused. It still gets control messages; all others wait.
    Pause,
    /// The node is resumed.
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
