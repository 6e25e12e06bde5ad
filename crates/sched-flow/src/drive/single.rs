//! A flow of one node that runs only on demand: the driver of a harness.
//!
//! Room: driver. Knows the loop and the clock; knows nothing of ports, payloads and errors.
//!
//! ```text
//!  feeder ──> node ──> taker
//! ```
//!
//! # Invariant
//! The node has its turns from the decisions and the loop of every flow (`work.rs`), on one virtual clock. Outside [`Single::run_until`] it has none.
//!
//! # Why it holds
//! The feeder is a source that is never asked, and the taker is paused: neither has turns that a user could see. They stand for the user, who puts messages on the edges of the
//! feeder and takes them from the edges of the taker. The feeder ends when the user says that no more input comes. The edges to the taker are loose, so it does not end with the node.
//!
//! # Rejected
//! A loop of its own that calls the node directly. It had its own order of ticks, retries and ends, so a test could pass with a node that fails in a flow.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use policy_flow::{Band, Core, EdgeFacts, Event, NodeFacts, NodeState, Phase};

use super::{
    Shared,
    cell::Cell,
    clock::Clock,
    host::{NurseryHost, NurseryTasks},
    signals::{Scheduler, Signals},
    work::Worker,
};
use crate::{
    edge::AnyEdge,
    error::{NodeError, OnError},
    graph::check::Target,
    message::Time,
    node::{NodeSpec, Produced, cx::Cx, unit::Unit},
    nodes::{from_iter, sink},
};

const NODE: u32 = 0;
const FEEDER: u32 = 1;
const TAKER: u32 = 2;

/// The cadence of a source that is only asked on demand: a source with a cadence is asked at its ticks, and these never come.
const NEVER: Duration = Duration::MAX;

pub(crate) struct Single {
    shared: Shared,
    /// The number of edges into the node. They have the first numbers.
    inputs: u32,
}

impl Single {
    /// A node that has been started, between edges that were opened on its unit.
    pub(crate) fn start(
        (unit, cx): (Box<dyn Unit>, Cx),
        tick: Option<Duration>,
        on_error: OnError,
        inputs: &[Arc<dyn AnyEdge>],
        outputs: &[Arc<dyn AnyEdge>],
    ) -> Self {
        let source = unit.is_source();
        let tick = tick.map(|every| every.max(Duration::from_nanos(1)));
        let facts = |group, source, cadence| NodeFacts { source, cadence, batch: 1, band: Band::Normal, group };
        let nodes = vec![
            facts(NODE, source, tick.or(source.then_some(NEVER))),
            facts(FEEDER, true, Some(NEVER)),
            facts(TAKER, false, None),
        ];
        let edge = |from, to, loose| EdgeFacts { from, to, band: Band::Normal, steers: false, loose };
        let edge_in = inputs.iter().map(|_| edge(FEEDER, NODE, false));
        let edge_out = outputs.iter().map(|_| edge(NODE, TAKER, true));
        let order = vec![FEEDER, NODE, TAKER];
        let core = Core::new(nodes, edge_in.chain(edge_out).collect(), &order, [4, 2, 1]);
        let priorities = vec![0; inputs.len() + outputs.len()];
        let quiet = |spec: NodeSpec, index: u32| {
            let host = NurseryHost::on_thread("outside".into(), Arc::new(|_| ()));
            let cx = Cx::new("outside".into(), index, std::task::Waker::noop().clone(), Box::new(host));
            Cell::new(spec.unit, cx, OnError::Skip, false)
        };
        let cells = vec![
            Cell::new(unit, cx, on_error, source && tick.is_some()),
            quiet(from_iter(std::iter::empty::<()>()), FEEDER),
            quiet(sink(|()| ()), TAKER),
        ];
        let ports = (0..inputs.len()).chain(0..outputs.len());
        let shared = Shared {
            name: "harness".to_owned(),
            ids: cells.iter().map(|cell| Arc::clone(&cell.cx.id)).collect(),
            edge_ids: Vec::new(),
            edges: inputs.iter().chain(outputs).map(Arc::clone).collect(),
            targets: ports.map(|port| (Target::Port(port), 0)).collect(),
            ends: Vec::new(),
            order,
            in_flight: cells.iter().map(|cell| cell.cx.in_flight.clone()).collect(),
            cells: cells.into_iter().map(Mutex::new).collect(),
            signals: Arc::new(Signals::new(core, priorities, 1)),
            clock: Arc::new(Clock::virtual_time()),
            drain_timeout: Duration::ZERO,
            ended: OnceLock::new(),
            observer: None,
            nursery_tasks: NurseryTasks::default(),
        };
        shared.start();
        let mut scheduler = shared.signals.lock();
        scheduler.core.command(TAKER, Event::Paused);
        scheduler.started = false; // so that a shutdown is only noted
        drop(scheduler);
        Self { shared, inputs: inputs.len() as u32 }
    }

    /// Makes a change to the decisions.
    fn change<T>(&self, change: impl FnOnce(&mut Scheduler) -> T) -> T {
        let mut scheduler = self.shared.signals.lock();
        let result = change(&mut scheduler);
        self.shared.close_edges(&mut scheduler);
        let wakeups = scheduler.wake_all();
        self.shared.unlock(scheduler, wakeups);
        result
    }

    /// Gives turns until nothing more can happen by that time, which is now after that. False if the node asks for ticks without end.
    pub(crate) fn run_until(&self, time: Time) -> bool {
        let ran = self.shared.work(Worker::Until(time));
        self.shared.clock.jump(time);
        ran
    }

    pub(crate) fn now(&self) -> Time {
        self.shared.clock.now()
    }

    /// Input `port` has a message, and had none.
    pub(crate) fn filled(&self, port: usize) {
        self.change(|scheduler| scheduler.core.filled(port as u32));
    }

    /// Output `port` has room, and the node waited for it.
    pub(crate) fn roomy(&self, port: usize) {
        self.change(|scheduler| scheduler.core.roomy(self.inputs + port as u32));
    }

    /// The node has a turn of `on_wake` next.
    pub(crate) fn wake(&self) {
        self.change(|scheduler| scheduler.core.woken(NODE));
    }

    /// The node has a turn of `on_tick` next.
    pub(crate) fn tick(&self) {
        self.change(|scheduler| scheduler.core.tick(NODE));
    }

    /// No more input comes.
    pub(crate) fn end(&self) {
        let ends = if self.inputs > 0 { FEEDER } else { NODE };
        self.change(|scheduler| scheduler.core.command(ends, Event::InputsEnded));
    }

    /// Asks a source once. None if it cannot be asked now.
    pub(crate) fn produce(&self) -> Option<Result<Produced, NodeError>> {
        if !self.change(|scheduler| scheduler.core.ask(NODE)) {
            return None;
        }
        self.run_until(self.now());
        let answer = self.cell().answer.take()?;
        Some(answer.map_err(|text| NodeError::msg(&*text)))
    }

    /// Calls `on_stop`, and ends the tasks of the node.
    pub(crate) fn stop(&self) {
        self.shared.stop();
        let asked = self.cell().cx.log.shutdown;
        self.shared.signals.lock().shutdown_asked |= asked;
    }

    pub(crate) fn state(&self) -> NodeState {
        self.shared.signals.lock().core.node(NODE).state
    }

    /// Whether the node takes input: it runs, and its input has not ended.
    pub(crate) fn takes_input(&self) -> bool {
        let scheduler = self.shared.signals.lock();
        [NODE, FEEDER].iter().all(|node| scheduler.core.node(*node).state == NodeState::Running)
    }

    /// Whether an error policy stopped the node, or the whole graph.
    pub(crate) fn has_failed(&self) -> bool {
        let scheduler = self.shared.signals.lock();
        scheduler.core.node(NODE).state == NodeState::Failed || matches!(scheduler.core.phase(), Phase::Halted { .. })
    }

    pub(crate) fn asked_for_shutdown(&self) -> bool {
        self.shared.signals.lock().shutdown_asked
    }

    pub(crate) fn cell(&self) -> MutexGuard<'_, Cell> {
        self.shared.cells[NODE as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
