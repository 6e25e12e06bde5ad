//! Hooks for those who watch: logs, traces, metrics.
//!
//! Room: vocabulary of the crate. The flow calls, the observer must not wait.

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
    /// Whose message it is; [`TraceId::NONE`] for other calls.
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

/// Is told what happens in a flow, on the thread where it happens. Without an observer nothing of this is computed.
pub trait Observer: Send + Sync + 'static {
    /// A flow begins: its nodes are started next. Told on the thread that runs it.
    fn flow_began(&self, flow: &str) {
        let _ = flow;
    }

    /// The flow has ended: its nodes were stopped. Told on the same thread.
    fn flow_ended(&self, flow: &str) {
        let _ = flow;
    }

    /// So many messages were put on an edge, at the end of a turn of its producer.
    fn enqueued(&self, edge: &str, messages: usize) {
        let _ = (edge, messages);
    }

    /// So many messages were taken from an edge, at the beginning of a turn of its consumer. What the turn does not come to goes back.
    fn dequeued(&self, edge: &str, messages: usize) {
        let _ = (edge, messages);
    }

    /// A node is being called.
    fn call_began(&self, call: &Call<'_>) {
        let _ = call;
    }

    /// The call is over. One that panics is told of by [`failed`](Self::failed) only.
    fn call_ended(&self, call: &Call<'_>, error: Option<&NodeError>) {
        let _ = (call, error);
    }

    /// A node failed, and its error policy is applied.
    fn failed(&self, node: &str, error: &str) {
        let _ = (node, error);
    }
}
