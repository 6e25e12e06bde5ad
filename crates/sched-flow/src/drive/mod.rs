//! The drivers: where a flow has threads, clocks and nurseries.
//!
//! | file | one idea |
//! |---|---|
//! | `cell` | a node and one turn of it |
//! | `work` | the loop that picks, gives and reports turns |
//! | `crew` | more workers when there is more to do |
//! | `signals` | the lock and the bell |
//! | `sleepers` | who sleeps, who was rung, who watches the clock |
//! | `host` | the nursery of a node |
//! | `clock` | real or virtual time |
//! | `handle` | what can be asked of a flow from outside |

mod build;
pub(crate) mod cell;
mod clock;
mod crew;
mod handle;
pub(crate) mod host;
mod signals;
mod sleepers;
mod work;

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
    graph::{Graph, Problems, check::Place},
    message::Time,
    node::{Custody, NodeError},
    observe::Observer,
    stats::Stats,
};
use cell::Cell;
use clock::Clock;
use crew::Crew;
use signals::Signals;

/// Everything of a flow that several threads use.
pub(crate) struct Shared {
    name: String,
    ids: Vec<Arc<str>>,
    edge_ids: Vec<String>,
    edges: Vec<Arc<dyn AnyEdge>>,
    /// Where each edge ends: the input of its target, and its place there.
    places: Vec<(Place, usize)>,
    ends: Vec<(u32, u32)>,
    order: Vec<u32>,
    /// What each node has in its hands, by its number.
    custodies: Vec<Custody>,
    cells: Vec<Mutex<Cell>>,
    signals: Arc<Signals>,
    clock: Arc<Clock>,
    drain_timeout: Duration,
    /// When its nodes were stopped.
    ended: OnceLock<Time>,
    observer: Option<Arc<dyn Observer>>,
    keepers: host::Keepers,
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
    /// A flow of one graph, single-threaded, with the usual settings.
    ///
    /// # Errors
    /// Everything that is wrong with the graph.
    pub fn new(graph: Graph) -> Result<Self, Problems> {
        Self::builder().register(graph).build()
    }

    /// To choose: workers, time, shares, ticks.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// To steer the flow and look at it while it runs, from any thread.
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Runs the graph: starts its nodes, gives them turns, and stops them. It returns when all sources have ended and everything is delivered, after
    /// [`Handle::shutdown`], or when an error policy stops the graph.
    ///
    /// With [one worker](Builder::workers) everything happens on the calling thread. In real time its order is not repeatable: how long a turn is, and when ticks come, is decided by the
    /// clock. It is in [virtual time](Builder::virtual_time), where the order depends on nothing but the graph and its input, and in a run that a seed decides. With
    /// several, independent nodes run at the same time, as tasks of the runtime.
    ///
    /// # Errors
    /// If a node with [`OnError::StopGraph`](crate::OnError::StopGraph) failed.
    pub fn run(self) -> Result<Ended, FlowError> {
        let shared = &*self.shared;
        let workers = self.workers;
        let run = || {
            if workers == 1 {
                let _stops = Stops(shared);
                shared.start();
                shared.work(None);
                return Ok(());
            }
            sched_tasks::nursery(|nursery| {
                shared.keepers.on_fibers(nursery, || {
                    let _stops = Stops(shared);
                    shared.start();
                    let crew = Crew::new(workers);
                    sched_tasks::nursery(|nursery| {
                        crew.call(shared, nursery);
                        Ok(())
                    })
                })
            })
        };
        let watched = Watched::new(shared);
        let result = run();
        drop(watched);
        result.map_err(FlowError::Runtime)?;
        let mut mind = shared.signals.lock();
        if let Some((node, error)) = mind.failure.take() {
            return Err(FlowError::Node { node: shared.ids[node as usize].to_string(), error });
        }
        let late = mind.core.phase() == Phase::Halted { late: true };
        drop(mind);
        Ok(Ended { drained: !late, stats: self.handle().stats() })
    }
}

/// Tells whoever watches that the flow begins, and that it has ended; also when the task that runs it is cancelled.
struct Watched<'a>(&'a Shared);

impl<'a> Watched<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.observer.iter().for_each(|observer| observer.flow_began(&shared.name));
        Self(shared)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.observer.iter().for_each(|observer| observer.flow_ended(&self.0.name));
    }
}

/// Stops the nodes, and waits for what they started; also when the task that runs the flow is cancelled.
struct Stops<'a>(&'a Shared);

impl Drop for Stops<'_> {
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
    /// Everything that was put on an edge was delivered, or went the way of its policy. If not, the time to drain was over, or
    /// somebody [stopped](Handle::stop_now) it, and [`EdgeStats::depth`](crate::EdgeStats::depth) says what was left where.
    pub drained: bool,
    /// The last counts.
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
        /// What it failed with.
        error: NodeError,
    },
    /// The runtime of tasks could not run the workers.
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
