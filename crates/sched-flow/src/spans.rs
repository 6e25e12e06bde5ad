//! Calls of nodes as spans of the `tracing` crate.
//!
//! Room: surface.
//!
//! # Invariants
//! - A span is entered when its call begins and left when it ends, on the thread of the call, so what a node logs is inside it.
//! - No payload is ever part of a span or event: an observer is not given any.
//!
//! # Why the first holds
//! A call stays on its thread, and a node has one call at a time. Calls of different nodes may overlap on a thread, since a fiber may wait in
//! one; so entered spans are kept by node, not in a stack. A failure is reported inside the span of its call and leaves it, also where a panic
//! skipped the end of the call. A span that is still entered is left when its node is called next.

use std::cell::RefCell;

use tracing::span::EnteredSpan;

use crate::{
    error::NodeError,
    observe::{Call, Observer},
};

/// Writes a span for each call of a node, and an event for each failure; one around the whole flow (`flow`), on the thread that runs it; and short ones where messages are put on an edge and taken from
/// it (`enqueue`, `dequeue`, with `edge` and `messages`).
///
/// The target is `flow`, the level of spans is `DEBUG`, that of failures `ERROR`. Fields of a span: `node`, `call` (`on_message`, `on_tick`…), and
/// of a message `port`, `trace` and `kind`. Whether any of it is recorded, and where, is up to the subscriber.
///
/// ```
/// use bursar::flow::{Flow, Graph, TracingObserver, from_iter, sink};
///
/// let mut graph = Graph::new("numbers");
/// let numbers = graph.add("numbers", from_iter(0..10));
/// let out = graph.add("out", sink(|_: i32| ()));
/// graph.connect(&numbers, &out);
/// Flow::builder().register(graph).observer(TracingObserver::new()).build()?.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct TracingObserver(());

impl TracingObserver {
    /// An observer for the subscribers of `tracing`.
    pub fn new() -> Self {
        Self(())
    }
}

struct Open {
    node: Box<str>,
    span: EnteredSpan,
}

thread_local! {
    /// Calls on this thread that have not ended: nearly always none or one.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// Removes the span of a node's call; it is left when it is dropped. A thread that is ending has none.
fn take(node: &str) -> Option<Open> {
    OPEN.try_with(|open| {
        let mut open = open.borrow_mut();
        let at = open.iter().rposition(|open| *open.node == *node)?;
        Some(open.remove(at))
    })
    .ok()
    .flatten()
}

/// The span of a flow is kept with those of its nodes, under a name that no node has.
fn of_flow(flow: &str) -> String {
    format!("\0{flow}")
}

impl Observer for TracingObserver {
    fn flow_began(&self, flow: &str) {
        let span = tracing::debug_span!(target: "flow", "flow", flow);
        if !span.is_disabled() {
            let open = Open { node: of_flow(flow).into(), span: span.entered() };
            let _ = OPEN.try_with(|all| all.borrow_mut().push(open));
        }
    }

    fn flow_ended(&self, flow: &str) {
        drop(take(&of_flow(flow)));
    }

    fn enqueued(&self, edge: &str, messages: usize) {
        drop(tracing::debug_span!(target: "flow", "enqueue", edge, messages).entered());
    }

    fn dequeued(&self, edge: &str, messages: usize) {
        drop(tracing::debug_span!(target: "flow", "dequeue", edge, messages).entered());
    }

    fn call_began(&self, call: &Call<'_>) {
        drop(take(call.node));
        let Call { node, name, port, trace, kind, .. } = *call;
        let span = match port {
            Some(port) => {
                tracing::debug_span!(target: "flow", "call", node, call = name, port, trace = %trace, kind = %kind)
            }
            None => tracing::debug_span!(target: "flow", "call", node, call = name),
        };
        if !span.is_disabled() {
            let open = Open { node: node.into(), span: span.entered() };
            let _ = OPEN.try_with(|all| all.borrow_mut().push(open)); // without it, the span is left at once
        }
    }

    fn call_ended(&self, call: &Call<'_>, error: Option<&NodeError>) {
        // If it failed, that is reported next, inside the span.
        if error.is_none() {
            drop(take(call.node));
        }
    }

    fn failed(&self, node: &str, error: &str) {
        let open = take(node);
        tracing::error!(target: "flow", node, error, "a node failed");
        drop(open.map(|open| open.span));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fmt::{self, Write},
        sync::{Arc, Mutex},
        time::Duration,
    };

    use tracing::{
        Event, Metadata, Subscriber,
        field::{Field, Visit},
        span::{Attributes, Id, Record},
    };

    use super::*;
    use crate::{Flow, Graph, NodeError, from_iter, source, try_sink};

    /// Records spans and events, one line each.
    #[derive(Clone, Default)]
    struct Scribe(Arc<Mutex<Vec<String>>>);

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            let _ = write!(self.0, " {}={value:?}", field.name());
        }
    }

    impl Subscriber for Scribe {
        fn enabled(&self, about: &Metadata<'_>) -> bool {
            about.target() == "flow"
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut lines = self.0.lock().unwrap();
            let mut line = format!("span {}", span.metadata().name());
            span.record(&mut Fields(&mut line));
            lines.push(line);
            Id::from_u64(lines.len() as u64)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = "event".to_owned();
            event.record(&mut Fields(&mut line));
            self.0.lock().unwrap().push(line);
        }

        fn enter(&self, _: &Id) {
            self.0.lock().unwrap().push("enter".into());
        }

        fn exit(&self, _: &Id) {
            self.0.lock().unwrap().push("exit".into());
        }
    }

    fn recorded(graph: Graph) -> Vec<String> {
        let scribe = Scribe::default();
        let flow = Flow::builder().register(graph).virtual_time().observer(TracingObserver::new()).build().unwrap();
        tracing::subscriber::with_default(scribe.clone(), || flow.run().unwrap());
        let lines = scribe.0.lock().unwrap();
        lines.clone()
    }

    fn secrets(take: impl FnMut(&'static str) -> Result<(), NodeError> + Send + 'static) -> Graph {
        let mut graph = Graph::new("secrets");
        let words = graph.add("words", from_iter(["secret"]));
        let out = graph.add("out", try_sink(take));
        graph.connect(&words, &out);
        graph
    }

    #[test]
    fn a_message_is_a_span_with_node_port_trace_and_kind_but_without_its_payload() {
        let lines = recorded(secrets(|_| Ok(())));
        let span = r#"span call node="out" call="on_message" port="in" trace=0000010000000000 kind=data"#;
        let at = lines.iter().position(|line| line == span).unwrap_or_else(|| panic!("{span} is not in {lines:#?}"));
        assert_eq!(lines[at + 1..at + 3], ["enter", "exit"]);
        assert!(!lines.iter().any(|line| line.contains("secret") && !line.contains("secrets")), "{lines:#?}");
    }

    #[test]
    fn a_failure_is_an_event_inside_its_span() {
        for panics in [false, true] {
            let lines = recorded(secrets(move |_| {
                assert!(!panics, "no");
                Err(NodeError::msg("no"))
            }));
            let at = lines.iter().position(|line| line.contains("on_message")).unwrap();
            assert_eq!(lines[at + 1], "enter");
            assert!(lines[at + 2].starts_with("event message=a node failed node=\"out\" error=\""), "{lines:#?}");
            assert!(lines[at + 2].contains("no"), "{lines:#?}");
            assert_eq!(lines[at + 3], "exit");
            let count = |word: &str| lines.iter().filter(|line| *line == word).count();
            assert_eq!(count("enter"), count("exit"), "no span stays open: {lines:#?}");
        }
    }

    #[test]
    fn a_flow_and_what_is_put_on_its_edges_and_taken_are_spans() {
        let lines = recorded(secrets(|_| Ok(())));
        assert_eq!(lines[..2], [r#"span flow flow="secrets""#, "enter"], "{lines:#?}");
        assert_eq!(lines.last().map(String::as_str), Some("exit"), "around everything");
        let at = |span: &str| {
            let at =
                lines.iter().position(|line| line == span).unwrap_or_else(|| panic!("{span} is not in {lines:#?}"));
            assert_eq!(lines[at + 1..at + 3], ["enter", "exit"], "{span}");
            at
        };
        let put = at(r#"span enqueue edge="words:out->out:in" messages=1"#);
        let taken = at(r#"span dequeue edge="words:out->out:in" messages=1"#);
        let handled = lines.iter().position(|line| line.contains("on_message")).unwrap();
        assert!(put < taken && taken < handled, "{lines:#?}");
        let count = |word: &str| lines.iter().filter(|line| *line == word).count();
        assert_eq!(count("enter"), count("exit"), "no span stays open: {lines:#?}");
    }

    #[test]
    fn a_tick_is_a_span() {
        let mut graph = Graph::new("ticks");
        let mut left = 3;
        let ask = move || {
            left -= 1;
            (left > 0).then_some(left)
        };
        let clock = graph.add("clock", source(ask).tick(Duration::from_millis(10)));
        let out = graph.add("out", crate::sink(|_: i32| ()));
        graph.connect(&clock, &out);
        let ticks = recorded(graph).iter().filter(|line| *line == r#"span call node="clock" call="on_tick""#).count();
        assert_eq!(ticks, 3);
    }
}
