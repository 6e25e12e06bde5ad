//! The [`Unit`] of a [`Source`].
//!
//! Room: driver.
//!
//! # Invariant
//! A bad record becomes a dead letter once, after its call was rolled back. It never leaves together with what its call emitted.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    slice,
    sync::Arc,
};

use crate::{
    edge::{AnyEdge, EdgeSetup},
    error::{DeadLetter, NodeError, NodeResult, OnError},
    message::{Header, Kind, Message},
    node::{
        Produced, Source,
        cx::Cx,
        inlet::{Fate, panicked},
        out::{Out, Outlet},
        schema::PortSpec,
        stage::{add_check, open},
        unit::{Declared, Hook, Unit},
    },
};

pub(crate) struct SourceUnit<S: Source> {
    source: S,
    outlet: Outlet<S::Out>,
    /// Where bad records go. Has edges only if the user connected it.
    dead: Outlet<DeadLetter<Vec<u8>>>,
}

impl<S: Source> SourceUnit<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, outlet: Outlet::new(), dead: Outlet::new() }
    }
}

impl<S: Source> Unit for SourceUnit<S> {
    fn declare(&self, dead: bool) -> Declared {
        let mut outputs = vec![PortSpec::new::<S::Out>("out")];
        outputs.extend(dead.then(|| PortSpec::new::<DeadLetter<Vec<u8>>>("dead")));
        Declared { inputs: Vec::new(), outputs }
    }

    fn is_source(&self) -> bool {
        true
    }

    fn open_output(&mut self, port: usize, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        if port == 0 { open(&mut self.outlet, setup) } else { open(&mut self.dead, setup) }
    }

    fn open_input(&mut self, _port: usize, _setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        unreachable!("a source has no inputs")
    }

    fn attach_input(&mut self, _port: usize, _edge: Arc<dyn AnyEdge>) -> usize {
        unreachable!("a source has no inputs")
    }

    fn check_output(&mut self, port: usize, check: &Arc<dyn Any + Send + Sync>) {
        if port == 0 { add_check(&mut self.outlet, check) } else { add_check(&mut self.dead, check) }
    }

    fn hook(&mut self, hook: Hook, cx: &mut Cx) -> NodeResult {
        let out = &mut Out { outlets: slice::from_mut(&mut self.outlet), cx };
        match hook {
            Hook::Start => self.source.on_start(out),
            Hook::Tick => self.source.on_tick(out),
            Hook::Wake => self.source.on_wake(out),
            Hook::End => Ok(()),
            Hook::Stop => self.source.on_stop(out),
        }
    }

    fn serve(&mut self, _port: usize, _feed: usize, _budget: u32, _on_error: &OnError, _cx: &mut Cx) -> (Fate, bool) {
        unreachable!("a source has no inputs")
    }

    fn produce(&mut self, budget: u32, cx: &mut Cx) -> Result<Produced, NodeError> {
        cx.handle_none();
        let Self { source, outlet, .. } = self;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..budget {
                if outlet.room() == 0 {
                    break;
                }
                cx.call += 1;
                let result = source.produce(&mut Out { outlets: slice::from_mut(outlet), cx });
                let produced = cx.verdict(result)?;
                cx.log.handled += 1;
                if produced != Produced::More {
                    return Ok(produced);
                }
                if cx.pace.is_over() {
                    break;
                }
            }
            Ok(Produced::More)
        }));
        let result = outcome.unwrap_or_else(|panic| Err(panicked(panic)));
        if result.is_err() {
            self.outlet.roll_back(cx.call);
        }
        result
    }

    fn emit_dead_letter(&mut self, error: &NodeError, cx: &mut Cx) {
        let header = Header { kind: Kind::Error, ..cx.header_for::<DeadLetter<Vec<u8>>>() };
        let payload = DeadLetter { payload: error.record().to_vec(), error: error.to_string().into(), tries: 1 };
        self.dead.push_dead_letter(Message { header, payload }, cx);
    }

    fn has_room(&mut self, hoped: usize) -> bool {
        // Both are asked: each full edge must send a signal.
        self.dead.has_room(hoped) & self.outlet.has_room(hoped)
    }

    fn room(&self) -> usize {
        self.outlet.room()
    }

    fn flush(&mut self, cx: &mut Cx) -> bool {
        self.dead.flush(cx) & self.outlet.flush(cx)
    }

    fn roll_back(&mut self, call: u64) {
        self.outlet.roll_back(call);
    }

    fn discard(&mut self) {
        self.outlet.discard();
        self.dead.discard();
    }

    fn unsent(&self) -> usize {
        self.outlet.outbox.len() + self.dead.outbox.len()
    }
}
