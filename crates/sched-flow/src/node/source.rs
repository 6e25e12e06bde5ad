//! A [`Source`] behind [`Unit`].

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    slice,
    sync::Arc,
};

use crate::{
    edge::{AnyEdge, EdgeSetup},
    error::{NodeError, NodeResult, OnError},
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
}

impl<S: Source> SourceUnit<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, outlet: Outlet::new() }
    }
}

impl<S: Source> Unit for SourceUnit<S> {
    fn declare(&self, _dead: bool) -> Declared {
        Declared { inputs: Vec::new(), outputs: vec![PortSpec::new::<S::Out>("out")] }
    }

    fn is_source(&self) -> bool {
        true
    }

    fn open_output(&mut self, _port: usize, setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        open(&mut self.outlet, setup)
    }

    fn open_input(&mut self, _port: usize, _setup: EdgeSetup) -> Arc<dyn AnyEdge> {
        unreachable!("a source has no inputs")
    }

    fn attach_input(&mut self, _port: usize, _edge: Arc<dyn AnyEdge>) -> usize {
        unreachable!("a source has no inputs")
    }

    fn check_output(&mut self, _port: usize, check: &Arc<dyn Any + Send + Sync>) {
        add_check(&mut self.outlet, check);
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

    fn serve(&mut self, _port: usize, _place: usize, _budget: u32, _on_error: &OnError, _cx: &mut Cx) -> (Fate, bool) {
        unreachable!("a source has no inputs")
    }

    fn produce(&mut self, budget: u32, cx: &mut Cx) -> Result<Produced, NodeError> {
        cx.handle_none();
        let Self { source, outlet } = self;
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

    fn has_room(&mut self, hoped: usize) -> bool {
        self.outlet.has_room(hoped)
    }

    fn room(&self) -> usize {
        self.outlet.room()
    }

    fn flush(&mut self, cx: &mut Cx) -> bool {
        self.outlet.flush(cx)
    }

    fn roll_back(&mut self, call: u64) {
        self.outlet.roll_back(call);
    }

    fn discard(&mut self) {
        self.outlet.discard();
    }

    fn unsent(&self) -> usize {
        self.outlet.outbox.len()
    }
}
