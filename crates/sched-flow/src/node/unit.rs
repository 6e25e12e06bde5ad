//! A node as the driver sees it: without its types, called once a turn.
//!
//! Room: driver.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    edge::{AnyEdge, EdgeSetup},
    error::{NodeError, NodeResult, OnError},
    node::{
        Produced,
        cx::Cx,
        inlet::{Fate, panicked},
        schema::PortSpec,
    },
    observe::Call,
};

/// The calls of a node without a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    Start,
    Tick,
    Wake,
    End,
    Stop,
}

impl Hook {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Hook::Start => "on_start",
            Hook::Tick => "on_tick",
            Hook::Wake => "on_wake",
            Hook::End => "on_end",
            Hook::Stop => "on_stop",
        }
    }
}

/// The ports that a node declares.
#[derive(Default, Clone)]
pub(crate) struct Declared {
    pub(crate) inputs: Vec<PortSpec>,
    /// Real outputs first; then, if the node has dead letters, one for each input; for a source, one for bad records.
    pub(crate) outputs: Vec<PortSpec>,
}

/// The name of the output for dead letters of an input. `inputs`: how many the node has.
pub(crate) fn dead_name(input: &str, inputs: usize) -> String {
    if inputs == 1 { "dead".to_owned() } else { format!("dead-{input}") }
}

/// A node without its types. All calls come from the one worker that runs it.
pub(crate) trait Unit: Send {
    /// `dead`: whether there are outputs for dead letters.
    fn declare(&self, dead: bool) -> Declared;
    fn is_source(&self) -> bool {
        false
    }

    // ---- wiring, before it runs ----
    /// Makes an edge that begins at an output.
    fn open_output(&mut self, port: usize, setup: EdgeSetup) -> Arc<dyn AnyEdge>;
    /// Makes an edge that ends at an input and has no producer.
    fn open_input(&mut self, port: usize, setup: EdgeSetup) -> Arc<dyn AnyEdge>;
    /// Attaches an edge to an input; returns its index there.
    fn attach_input(&mut self, port: usize, edge: Arc<dyn AnyEdge>) -> usize;
    /// Adds a [`Check`](super::schema::Check) to an output.
    fn check_output(&mut self, port: usize, check: &Arc<dyn Any + Send + Sync>);

    // ---- turns ----
    fn hook(&mut self, hook: Hook, cx: &mut Cx) -> NodeResult;
    /// Serves an edge; true if more wait there.
    fn serve(&mut self, port: usize, feed: usize, budget: u32, on_error: &OnError, cx: &mut Cx) -> (Fate, bool);
    /// Asks a source for messages.
    fn produce(&mut self, _budget: u32, _cx: &mut Cx) -> Result<Produced, NodeError> {
        unreachable!("only sources are asked")
    }
    /// Emits a dead letter for a bad record from outside, if the node can.
    fn emit_dead_letter(&mut self, _error: &NodeError, _cx: &mut Cx) {}
    /// Whether at least one message can be emitted at every output. If not, a signal comes when there is room.
    fn has_room(&mut self, hoped: usize) -> bool;
    /// How many more messages can be emitted, as far as is known.
    fn room(&self) -> usize;
    /// Puts what was emitted into the edges. True if nothing is left.
    fn flush(&mut self, cx: &mut Cx) -> bool;
    /// Removes what a failed call emitted.
    fn roll_back(&mut self, call: u64);
    /// Drops emitted messages that were not accepted.
    fn discard(&mut self);
    /// The number of emitted messages that are not accepted.
    fn unsent(&self) -> usize;
    fn accepts(&self) -> bool {
        true
    }
    fn is_done(&self) -> bool {
        true
    }
}

/// Calls a hook. As with messages, nothing is emitted if it fails.
pub(crate) fn call_hook(unit: &mut dyn Unit, hook: Hook, cx: &mut Cx) -> NodeResult {
    cx.handle_none();
    cx.call += 1;
    let observer = cx.observer.clone();
    let id = Arc::clone(&cx.id);
    let call = Call::hook(&id, hook.name(), cx.now);
    if let Some(observer) = &observer {
        observer.call_began(&call);
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| unit.hook(hook, cx)));
    let result = outcome.unwrap_or_else(|panic| Err(panicked(panic)));
    let result = cx.verdict(result);
    if let Some(observer) = &observer {
        observer.call_ended(&call, result.as_ref().err().map(|error| error as _));
    }
    if let Err(error) = &result {
        unit.roll_back(cx.call);
        note(error, cx);
    }
    result
}

/// Counts an error, and reports it to the observer.
#[cold]
pub(crate) fn note(error: &NodeError, cx: &mut Cx) {
    let text: Arc<str> = error.to_string().into();
    cx.log.errors += 1;
    if let Some(observer) = &cx.observer {
        observer.failed(&cx.id, &text);
    }
    cx.log.last_error = Some(text);
}
