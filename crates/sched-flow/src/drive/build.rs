//! The builder of a flow: from graphs and settings to a flow that can run.
//!
//! Room: interface.

use std::{
    sync::{Arc, Mutex},
    task::Waker,
    time::Duration,
};

use super::{
    Flow, Shared,
    cell::Cell,
    clock::Clock,
    host::{NurseryHost, NurseryTasks},
    signals::{NodeWaker, Signals},
};
use policy_flow::{Band, Core, EdgeFacts, NodeFacts};

use crate::{
    edge::{AnyEdge, EdgeSetup},
    graph::{
        Graph, Problem, Problems,
        check::{self, Plan, Target},
    },
    node::{NodeSpec, cx::Cx},
    observe::Observer,
};

/// The default limit of messages a turn.
const DEFAULT_BATCH: u32 = 256;
/// The default limit of the time of a turn.
const DEFAULT_TURN: Duration = Duration::from_micros(500);
const DEFAULT_DRAIN: Duration = Duration::from_secs(5);

/// Chooses how a flow runs.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Flow, Graph, from_iter, sink};
///
/// let mut graph = Graph::new("numbers");
/// let numbers = graph.add("numbers", from_iter(0..100_000u64));
/// let out = graph.add("out", sink(|_: u64| ()));
/// graph.connect(&numbers, &out);
/// let flow = Flow::builder()
///     .register(graph)
///     .workers(2)
///     .batch(128)
///     .drain_timeout(Duration::from_secs(1))
///     .build()?;
/// assert!(flow.run()?.drained);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Builder {
    graphs: Vec<Graph>,
    /// Nodes that were registered without a graph.
    loose: Graph,
    workers: usize,
    batch: u32,
    shares: [u32; 3],
    tick: Option<Duration>,
    drain: Duration,
    turn: Duration,
    virtual_time: bool,
    observer: Option<Arc<dyn Observer>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            graphs: Vec::new(),
            loose: Graph::new("flow"),
            workers: 1,
            batch: DEFAULT_BATCH,
            shares: [4, 2, 1],
            tick: None,
            drain: DEFAULT_DRAIN,
            turn: DEFAULT_TURN,
            virtual_time: false,
            observer: None,
        }
    }
}

impl Builder {
    /// Adds a graph. Several may be added; their nodes stand side by side, and names must differ.
    pub fn register(mut self, graph: Graph) -> Self {
        self.graphs.push(graph);
        self
    }

    /// Adds a node that needs no edges.
    pub fn register_node(mut self, name: impl Into<String>, node: NodeSpec) -> Self {
        self.loose.add(name, node);
        self
    }

    /// How many nodes may run at the same time. With one, the default, they run on the calling thread; with more, on as many tasks of the runtime.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// The limit of messages a turn (256). A higher one makes small messages cheaper; [`turn_time`](Self::turn_time) limits how long
    /// control traffic waits.
    pub fn batch(mut self, messages: u32) -> Self {
        self.batch = messages;
        self
    }

    /// The limit of the time of a turn (about 500 µs). A control message waits no longer than that. In virtual time only messages are counted, so that turns
    /// do not depend on the clock.
    pub fn turn_time(mut self, at_most: Duration) -> Self {
        self.turn = at_most;
        self
    }

    /// How the bands control, high and normal share turns when all are busy (4:2:1). Control must have at least half.
    pub fn shares(mut self, control: u32, high: u32, normal: u32) -> Self {
        self.shares = [control, high, normal];
        self
    }

    /// A cadence for all nodes that are not sources and have none of their own. Without it they have only the ticks that they ask for.
    pub fn tick(mut self, every: Duration) -> Self {
        self.tick = Some(every);
        self
    }

    /// How long the flow may take to deliver messages on their way, after [`shutdown`](super::Handle::shutdown) (5 s).
    pub fn drain_timeout(mut self, at_most: Duration) -> Self {
        self.drain = at_most;
        self
    }

    /// Virtual time, for tests, with one worker. Time advances only when nothing else can happen, and then at once: an hour of ticks takes as long as its turns. While the flow
    /// drains each turn takes a microsecond, so that it ends in any case.
    pub fn virtual_time(mut self) -> Self {
        self.virtual_time = true;
        self
    }

    /// Sets an observer, which is called for every call of a node.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn build(mut self) -> Result<Flow, Problems> {
        if !self.loose.nodes.is_empty() {
            self.graphs.push(std::mem::replace(&mut self.loose, Graph::new("")));
        }
        let name = self.graphs.first().map_or_else(String::new, |graph| graph.name.clone());
        let settings = self.check_settings();
        let plan = match check::plan(std::mem::take(&mut self.graphs)) {
            Ok(plan) if settings.is_empty() => plan,
            Ok(_) => return Err(Problems { graph: name, list: settings }),
            Err(mut problems) => {
                problems.list.extend(settings);
                return Err(problems);
            }
        };
        Ok(self.wire(plan))
    }

    fn check_settings(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut bad = |setting| problems.push(Problem::BadSetting { of: "flow".to_owned(), setting });
        if self.workers == 0 {
            bad("0 workers do nothing; use at least 1");
        }
        if self.batch == 0 {
            bad("a batch of 0 messages does nothing; use at least 1");
        }
        if self.tick.is_some_and(|every| every.is_zero()) {
            bad("a tick every 0 ns leaves no time for anything else; use at least 1 ns");
        }
        let [control, high, normal] = self.shares;
        if control == 0 || high == 0 || normal == 0 {
            bad("a band with a share of 0 would starve; use at least 1");
        } else if high.checked_add(normal).is_none_or(|others| others > control) {
            bad("control has less than half of the turns, so its messages could wait for two of others; give it more");
        } else if u64::from(control) + u64::from(high) + u64::from(normal) > 1_000 {
            bad("shares that add up to more than 1000 make control of latency meaningless; use smaller numbers");
        }
        if self.virtual_time && self.workers > 1 {
            bad("virtual time needs one worker: with several, it is not known when nothing else can happen");
        }
        problems
    }

    /// Makes edges, cells and the scheduler of a plan.
    fn wire(self, plan: Plan) -> Flow {
        let ids = plan.ids();
        let Plan { name, nodes, edges, order, groups, bands } = plan;
        let facts = nodes.iter().zip(&groups).zip(&bands).map(|((node, group), band)| {
            let source = node.spec.unit.is_source();
            NodeFacts {
                source,
                cadence: node.spec.tick.or(self.tick.filter(|_| !source)),
                batch: node.spec.batch.unwrap_or(self.batch),
                band: *band,
                group: *group,
            }
        });
        let edge_facts = edges.iter().map(|edge| EdgeFacts {
            from: edge.flat.from.0,
            to: edge.flat.to.0,
            band: Band::of(edge.priority),
            steers: edge.flat.to.1 == Target::Control,
            loose: edge.loose,
        });
        let core = Core::new(facts.collect(), edge_facts.collect(), &order, self.shares);
        let priorities = edges.iter().map(|edge| edge.priority).collect();
        let signals = Arc::new(Signals::new(core, priorities, self.workers));
        let nursery_tasks = NurseryTasks::default();
        let clock = Arc::new(if self.virtual_time { Clock::virtual_time() } else { Clock::real() });

        let mut cells: Vec<Cell> = nodes
            .into_iter()
            .enumerate()
            .map(|(index, node)| {
                let node_index = index as u32;
                let mut spec = *node.spec;
                // Messages are checked at the output, for both ends of an edge.
                for (port, output) in node.declared.outputs.iter().enumerate() {
                    if let Some(schema) = &output.schema {
                        spec.unit.check_output(port, &schema.check);
                    }
                }
                let waker = Waker::from(Arc::new(NodeWaker { signals: Arc::clone(&signals), node: node_index }));
                let on_error = {
                    let signals = Arc::clone(&signals);
                    Arc::new(move |error| Shared::task_failed(&signals, node_index, &error))
                };
                let host = NurseryHost::with(Arc::clone(&node.id), on_error, nursery_tasks.starter(&node.id));
                let mut cx = Cx::new(node.id, node_index, waker, Box::new(host));
                cx.observer = self.observer.clone();
                cx.pace.preempt = Arc::clone(&signals.preempt);
                if !clock.is_virtual() {
                    let clock = Arc::clone(&clock);
                    cx.pace.clock = Some(Arc::new(move || clock.now()));
                    cx.pace.longest_nanos = u64::try_from(self.turn.as_nanos()).unwrap_or(u64::MAX);
                }
                let paced = spec.unit.is_source() && spec.tick.is_some();
                Cell::new(spec.unit, cx, spec.on_error, paced)
            })
            .collect();

        let mut wired: Vec<Arc<dyn AnyEdge>> = Vec::with_capacity(edges.len());
        let mut targets = Vec::with_capacity(edges.len());
        let mut edge_ids = Vec::with_capacity(edges.len());
        let mut ends = Vec::with_capacity(edges.len());
        for (index, edge) in edges.into_iter().enumerate() {
            let ((source, output), (target, input)) = (edge.flat.from, edge.flat.to);
            let setup = EdgeSetup {
                index: index as u32,
                id: edge.flat.id.as_str().into(),
                capacity: edge.flat.spec.capacity,
                policy: edge.flat.spec.policy,
                merge: edge.flat.spec.merge.map(|(merge, _)| merge),
                taken: cells[target as usize].cx.in_flight.clone(),
            };
            if let Some(check) = &edge.check {
                cells[source as usize].unit.check_output(output, check);
            }
            let made = cells[source as usize].unit.open_output(output, setup);
            let target_cell = &mut cells[target as usize];
            let at = match input {
                Target::Port(port) => target_cell.unit.attach_input(port, Arc::clone(&made)),
                Target::Control => target_cell.control.attach_any(Arc::clone(&made)),
            };
            wired.push(made);
            targets.push((input, at));
            edge_ids.push(edge.flat.id);
            ends.push((source, target));
        }
        let in_flight = cells.iter().map(|cell| cell.cx.in_flight.clone()).collect();
        let shared = Shared {
            name,
            ids,
            edge_ids,
            edges: wired,
            targets,
            ends,
            order,
            in_flight,
            cells: cells.into_iter().map(Mutex::new).collect(),
            signals,
            clock,
            drain_timeout: self.drain,
            ended: std::sync::OnceLock::new(),
            observer: self.observer.clone(),
            nursery_tasks,
        };
        Flow { shared: Arc::new(shared), workers: self.workers }
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("graphs", &self.graphs).field("workers", &self.workers).finish_non_exhaustive()
    }
}
