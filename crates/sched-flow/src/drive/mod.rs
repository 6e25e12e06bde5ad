//! The driver of a flow: threads, clocks and nurseries.
//!
//! Room: driver.
//!
//! | file | one idea |
//! |---|---|
//! | `cell` | a node and one turn of it |
//! | `hooks` | calls of a node without a message, and their failures |
//! | `work` | the loop that picks, gives and reports turns |
//! | `single` | a flow of one node, which a harness moves by hand |
//! | `workers` | the set of workers, one on each thread |
//! | `signals` | the lock of the scheduler, and the channel that wakes workers |
//! | `sleepers` | which workers sleep, and which one waits for the next timer |
//! | `host` | the nursery of a node |
//! | `clock` | real or virtual time |
//! | `handle` | control and statistics, from outside |
//! | `build` | from graphs and settings to a flow |

mod build;
mod cell;
mod clock;
mod handle;
mod hooks;
pub(crate) mod host;
mod signals;
pub(crate) mod single;
mod sleepers;
pub(crate) mod work;
mod workers;

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

pub use build::Builder;
pub use handle::{ControlError, Handle};

use policy_flow::Phase;

use crate::{
    edge::AnyEdge,
    graph::{Graph, Problems, check::Target},
    in_flight::InFlight,
    message::Time,
    node::NodeError,
    observe::Observer,
    stats::Stats,
};
use cell::Cell;
use clock::Clock;
use signals::Signals;
use work::Worker;
use workers::Workers;

/// The parts of a flow that several threads share.
pub(crate) struct Shared {
    name: String,
    ids: Vec<Arc<str>>,
    edge_ids: Vec<String>,
    edges: Vec<Arc<dyn AnyEdge>>,
    /// Where each edge ends: the input of its target, and its index there.
    targets: Vec<(Target, usize)>,
    ends: Vec<(u32, u32)>,
    order: Vec<u32>,
    /// The messages that each node holds, by its number.
    in_flight: Vec<InFlight>,
    cells: Vec<Mutex<Cell>>,
    signals: Arc<Signals>,
    clock: Arc<Clock>,
    drain_timeout: Duration,
    /// When its nodes were stopped.
    ended: OnceLock<Time>,
    observer: Option<Arc<dyn Observer>>,
    nursery_tasks: host::NurseryTasks,
}

/// A graph that was checked and can run.
///
/// ```
/// use bursar::flow::{Flow, Graph, from_iter, map, sink};
///
/// let mut graph = Graph::new("lengths");
/// let words = graph.add("words", from_iter(["a", "bc"]));
/// let length = graph.add("length", map(|word: &str| word.len()));
/// let out = graph.add("out", sink(|length: usize| assert!(length > 0)));
/// graph.connect(&words, &length);
/// graph.connect(&length, &out);
/// let done = Flow::new(graph)?.run()?;
/// assert_eq!(done.stats.node("out").unwrap().messages, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Flow {
    shared: Arc<Shared>,
    workers: usize,
}

impl Flow {
    /// A flow of one graph, single-threaded, with default settings.
    ///
    /// # Errors
    /// Everything that is wrong with the graph.
    pub fn new(graph: Graph) -> Result<Self, Problems> {
        Self::builder().register(graph).build()
    }

    /// A builder, to choose workers, time, shares and ticks.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A handle, to control the flow and read its statistics while it runs, from any thread.
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Runs the graph: starts its nodes, gives them turns, and stops them. It returns when all sources have ended and everything is delivered, after
    /// [`Handle::shutdown`], or when an error policy stops the graph.
    ///
    /// With [one worker](Builder::workers) everything happens on the calling thread. In real time the order is not deterministic: the clock decides how long a turn is and when ticks come.
    /// In [virtual time](Builder::virtual_time) the order depends only on the graph and its input; a seeded run is deterministic, too. With
    /// several workers, independent nodes run at the same time, as tasks of the runtime.
    ///
    /// # Errors
    /// If a node with [`OnError::StopGraph`](crate::OnError::StopGraph) failed.
    pub fn run(self) -> Result<Ended, FlowError> {
        let shared = &*self.shared;
        let workers = self.workers;
        let run = || {
            if workers == 1 {
                let _stop = StopGuard(shared);
                shared.start();
                shared.work(Worker::Alone);
                return Ok(());
            }
            sched_tasks::nursery(|nursery| {
                shared.nursery_tasks.on_fibers(nursery, || {
                    let _stop = StopGuard(shared);
                    shared.start();
                    let set = Workers::new(workers);
                    sched_tasks::nursery(|nursery| {
                        set.spawn(shared, nursery);
                        Ok(())
                    })
                })
            })
        };
        let observed = ObserverGuard::new(shared);
        let result = run();
        drop(observed);
        result.map_err(FlowError::Runtime)?;
        let mut scheduler = shared.signals.lock();
        if let Some((node, error)) = scheduler.failure.take() {
            return Err(FlowError::Node { node: shared.ids[node as usize].to_string(), error });
        }
        let late = scheduler.core.phase() == Phase::Halted { late: true };
        drop(scheduler);
        Ok(Ended { drained: !late, stats: self.handle().stats() })
    }
}

/// Tells the observer that the flow begins and that it has ended, also when the task that runs it is cancelled.
struct ObserverGuard<'a>(&'a Shared);

impl<'a> ObserverGuard<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.observer.iter().for_each(|observer| observer.flow_began(&shared.name));
        Self(shared)
    }
}

impl Drop for ObserverGuard<'_> {
    fn drop(&mut self) {
        self.0.observer.iter().for_each(|observer| observer.flow_ended(&self.0.name));
    }
}

/// Stops the nodes and waits for their tasks, also when the task that runs the flow is cancelled.
struct StopGuard<'a>(&'a Shared);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        sched_tasks::shield(|| self.0.stop());
        self.0.ended.get_or_init(|| self.0.clock.now());
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { name, ids, edge_ids, .. } = &*self.shared;
        f.debug_struct("Flow").field("name", name).field("nodes", ids).field("edges", edge_ids).finish()
    }
}

/// How a flow ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ended {
    /// Every message on an edge was delivered, or dropped or merged by its policy. If not, the drain timeout was over, or
    /// the flow was [stopped](Handle::stop_now); then [`EdgeStats::depth`](crate::EdgeStats::depth) says how many were left on each edge.
    pub drained: bool,
    /// The final counters.
    pub stats: Stats,
}

/// Why a flow ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum FlowError {
    /// A node failed, and its policy is to stop the graph.
    Node {
        /// Its name.
        node: String,
        /// The error.
        error: NodeError,
    },
    /// The task runtime could not run the workers.
    Runtime(sched_tasks::TaskError),
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowError::Node { node, error } => write!(f, "node `{node}` stopped the graph: {error}"),
            FlowError::Runtime(error) => write!(f, "the workers of the flow failed: {error}"),
        }
    }
}

impl Error for FlowError {}

impl FlowError {
    /// What a node or a task failed with, if it is an `E`.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            FlowError::Node { error, .. } => error.downcast_ref(),
            FlowError::Runtime(error) => error.downcast_ref(),
        }
    }
}
