//! Observers: hooks for logs, traces and metrics.
//!
//! Room: interface.
//!
//! The flow calls the observer on its own threads, so the observer must not block.

use crate::{
    error::NodeError,
    message::{Header, Kind, Time, TraceId},
};

/// One call of a node: a span. Payloads are not part of it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Call<'a> {
    /// The node.
    pub node: &'a str,
    /// `on_message`, `on_tick`, `on_start`…
    pub name: &'static str,
    /// The input, if it is a message.
    pub port: Option<&'a str>,
    /// The trace of the message; [`TraceId::NONE`] for other calls.
    pub trace: TraceId,
    /// The kind of the message.
    pub kind: Kind,
    /// When the turn began.
    pub at: Time,
    /// When the message entered the flow.
    pub born: Time,
}

impl<'a> Call<'a> {
    pub(crate) fn message(node: &'a str, port: &'a str, header: Header, at: Time) -> Self {
        let Header { trace, at: born, kind } = header;
        Call { node, name: "on_message", port: Some(port), trace, kind, at, born }
    }

    pub(crate) fn hook(node: &'a str, name: &'static str, at: Time) -> Self {
        Call { node, name, port: None, trace: TraceId::NONE, kind: Kind::Data, at, born: at }
    }
}

/// Is called for the events of a flow, on the thread of each event. Without an observer none of this is computed.
pub trait Observer: Send + Sync + 'static {
    /// A flow begins: its nodes are started next. Called on the thread that runs it.
    fn flow_began(&self, flow: &str) {
        let _ = flow;
    }

    /// The flow has ended: its nodes were stopped. Called on the same thread.
    fn flow_ended(&self, flow: &str) {
        let _ = flow;
    }

    /// Messages were put on an edge, at the end of a turn of its producer.
    fn enqueued(&self, edge: &str, messages: usize) {
        let _ = (edge, messages);
    }

    /// Messages were taken from an edge, at the beginning of a turn of its consumer. Those that the turn does not handle go back.
    fn dequeued(&self, edge: &str, messages: usize) {
        let _ = (edge, messages);
    }

    /// A call of a node begins.
    fn call_began(&self, call: &Call<'_>) {
        let _ = call;
    }

    /// The call is over. After a panic only [`failed`](Self::failed) is called.
    fn call_ended(&self, call: &Call<'_>, error: Option<&NodeError>) {
        let _ = (call, error);
    }

    /// A node failed, and its error policy is applied.
    fn failed(&self, node: &str, error: &str) {
        let _ = (node, error);
    }
}
