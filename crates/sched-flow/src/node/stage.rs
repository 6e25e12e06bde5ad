//! The [`Unit`] of a [`Stage`].
//!
//! Room: driver.
//!
//! Its loop is compiled for its types: one virtual call a turn, none a message.

use std::{any::Any, sync::Arc};

use crate::{
    edge::{AnyEdge, Edge, EdgeSetup},
    error::{DeadLetter, NodeError, NodeResult, OnError},
    message::{Header, Kind, Message, Payload},
    node::{
        Stage,
        cx::Cx,
        inlet::{Body, Fate, Inlet},
        out::{Out, Outlet},
        schema::{Check, PortSpec},
        unit::{Declared, Hook, Unit},
    },
};

pub(crate) struct StageUnit<S: Stage> {
    stage: S,
    inlet: Inlet<S::In>,
    outlets: Vec<Outlet<S::Out>>,
    names: Vec<String>,
}

impl<S: Stage> StageUnit<S> {
    pub(crate) fn new(stage: S) -> Self {
        let names = stage.outputs();
        let outlets = names.iter().map(|_| Outlet::new()).collect();
        Self { stage, inlet: Inlet::new("in"), outlets, names }
    }
}

struct StageBody<'a, S: Stage> {
    stage: &'a mut S,
    outlets: &'a mut [Outlet<S::Out>],
}

impl<S: Stage> Body<S::In> for StageBody<'_, S> {
    #[inline]
    fn call(&mut self, message: Message<S::In>, cx: &mut Cx) -> NodeResult {
        self.stage.on_message(message, &mut Out { outlets: self.outlets, cx })
    }

    fn roll_back(&mut self, call: u64) {
        self.outlets.iter_mut().for_each(|outlet| outlet.roll_back(call));
    }

    #[inline]
    fn room(&self) -> usize {
        room(self.stage, self.outlets)
    }

    #[inline]
    fn accepts(&self) -> bool {
        self.stage.accepts()
    }
}

#[inline]
fn room<S: Stage>(stage: &S, outlets: &[Outlet<S::Out>]) -> usize {
    let rooms = outlets.iter().map(Outlet::room);
    if stage.any_output() { rooms.max() } else { rooms.min() }.unwrap_or(usize::MAX)
}

/// Adds a check, of a type that was compared before, to an outlet.
pub(super) fn add_check<T: Payload>(outlet: &mut Outlet<T>, check: &Arc<dyn Any + Send + Sync>) {
    let check = check.downcast_ref::<Check<T>>().expect("types are compared before");
    outlet.checks.push(Arc::clone(check));
}

/// Makes an edge that begins at an outlet.
pub(super) fn open<T: Payload>(outlet: &mut Outlet<T>, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
    let edge = Arc::new(Edge::new(setup));
    outlet.attach(Arc::clone(&edge));
    edge
}

impl<S: Stage> Unit for StageUnit<S> {
    fn declare(&self, dead: bool) -> Declared {
        let mut outputs: Vec<_> = self.names.iter().map(|name| PortSpec::new::<S::Out>(name.as_str())).collect();
        if dead {
            outputs.push(PortSpec::new::<DeadLetter<S::In>>("dead"));
        }
        Declared { inputs: vec![PortSpec::new::<S::In>("in")], outputs }
    }

    fn open_output(&mut self, port: usize, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        match self.outlets.get_mut(port) {
            Some(outlet) => open(outlet, setup),
            None => open(&mut self.inlet.dead, setup),
        }
    }

    fn open_input(&mut self, _port: usize, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        self.inlet.open(setup)
    }

    fn attach_input(&mut self, _port: usize, edge: Arc<dyn AnyEdge>) -> usize {
        self.inlet.attach_any(edge)
    }

    fn check_output(&mut self, port: usize, check: &Arc<dyn Any + Send + Sync>) {
        match self.outlets.get_mut(port) {
            Some(outlet) => add_check(outlet, check),
            None => add_check(&mut self.inlet.dead, check),
        }
    }

    fn hook(&mut self, hook: Hook, cx: &mut Cx) -> NodeResult {
        let out = &mut Out { outlets: &mut self.outlets, cx };
        match hook {
            Hook::Start => self.stage.on_start(out),
            Hook::Tick => self.stage.on_tick(out),
            Hook::Wake => self.stage.on_wake(out),
            Hook::End => self.stage.on_end(out),
            Hook::Stop => self.stage.on_stop(out),
        }
    }

    fn serve(&mut self, _port: usize, feed: usize, budget: u32, on_error: &OnError, cx: &mut Cx) -> (Fate, bool) {
        let mut body = StageBody { stage: &mut self.stage, outlets: &mut self.outlets };
        self.inlet.serve(feed, budget, on_error, &mut body, cx)
    }

    fn emit_dead_letter(&mut self, error: &NodeError, cx: &mut Cx) {
        // The record came from outside: without an edge it is only an error, and no message is lost.
        if !self.inlet.dead.is_unconnected()
            && let Some(payload) = self.stage.bad_record(error.record())
        {
            let header = Header { kind: Kind::Error, ..cx.header_for::<DeadLetter<S::In>>() };
            let payload = DeadLetter { payload, error: error.to_string().into(), tries: 1 };
            self.inlet.dead.push_dead_letter(Message { header, payload }, cx);
        }
    }

    fn has_room(&mut self, hoped: usize) -> bool {
        // Every outlet is asked: each full edge must send a signal.
        let roomy = self.outlets.iter_mut().filter_map(|outlet| outlet.has_room(hoped).then_some(())).count();
        let enough = if self.stage.any_output() { 1.min(self.outlets.len()) } else { self.outlets.len() };
        self.inlet.dead.has_room(hoped) & (roomy >= enough)
    }

    fn room(&self) -> usize {
        room(&self.stage, &self.outlets)
    }

    fn flush(&mut self, cx: &mut Cx) -> bool {
        let outlets = self.outlets.iter_mut().fold(true, |empty, outlet| outlet.flush(cx) & empty);
        self.inlet.dead.flush(cx) & outlets
    }

    fn roll_back(&mut self, call: u64) {
        self.outlets.iter_mut().for_each(|outlet| outlet.roll_back(call));
    }

    fn discard(&mut self) {
        self.outlets.iter_mut().for_each(Outlet::discard);
        self.inlet.dead.discard();
    }

    fn unsent(&self) -> usize {
        self.outlets.iter().map(|outlet| outlet.outbox.len()).sum::<usize>() + self.inlet.dead.outbox.len()
    }

    fn accepts(&self) -> bool {
        self.stage.accepts()
    }

    fn is_done(&self) -> bool {
        self.stage.is_done()
    }
}
