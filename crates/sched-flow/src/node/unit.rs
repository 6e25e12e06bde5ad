//! A node as the scheduler sees it: without its types, called once a turn.
//!
//! Room: mechanism of the crate.

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

/// The calls of a node that bring no message.
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

/// What a node declares.
#[derive(Default, Clone)]
pub(crate) struct Declared {
    pub(crate) inputs: Vec<PortSpec>,
    /// Real outputs first, then one for dead letters of each input, if there are any; of a source, one for bad records.
    pub(crate) outputs: Vec<PortSpec>,
}

/// The output for dead letters of an input, of so many.
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
    /// Makes an edge that ends at an input and begins nowhere.
    fn open_input(&mut self, port: usize, setup: EdgeSetup) -> Arc<dyn AnyEdge>;
    /// Lets an edge end at an input; returns its place there.
    fn attach_input(&mut self, port: usize, edge: Arc<dyn AnyEdge>) -> usize;
    /// Adds a [`Check`](super::schema::Check) to an output.
    fn check_output(&mut self, port: usize, check: &Arc<dyn Any + Send + Sync>);

    // ---- turns ----
    fn hook(&mut self, hook: Hook, cx: &mut Cx) -> NodeResult;
    /// Serves an edge; true if more wait there.
    fn serve(&mut self, port: usize, place: usize, budget: u32, on_error: &OnError, cx: &mut Cx) -> (Fate, bool);
    /// Asks a source for messages.
    fn produce(&mut self, _budget: u32, _cx: &mut Cx) -> Result<Produced, NodeError> {
        unreachable!("only sources are asked")
    }
    /// A record that the node brought from outside is bad, and its policy is to bury it, if it can.
    fn bury(&mut self, _error: &NodeError, _cx: &mut Cx) {}
    /// Whether at least one message can be emitted at every output. If not, the scheduler is told when.
    fn has_room(&mut self, hoped: usize) -> bool;
    /// How many more messages can be emitted, as far as is known.
    fn room(&self) -> usize;
    /// Puts what was emitted into the edges. True if nothing is left.
    fn flush(&mut self, cx: &mut Cx) -> bool;
    /// A call failed: what it emitted is forgotten.
    fn roll_back(&mut self, call: u64);
    /// What was emitted and not accepted is forgotten.
    fn discard(&mut self);
    /// How much is emitted and not accepted.
    fn unsent(&self) -> usize;
    fn accepts(&self) -> bool {
        true
    }
    fn is_done(&self) -> bool {
        true
    }
}

/// Calls a hook as messages are handled: with nothing emitted if it fails.
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

/// Counts and tells an error.
#[cold]
pub(crate) fn note(error: &NodeError, cx: &mut Cx) {
    let text: Arc<str> = error.to_string().into();
    cx.log.errors += 1;
    if let Some(observer) = &cx.observer {
        observer.failed(&cx.id, &text);
    }
    cx.log.last_error = Some(text);
}
