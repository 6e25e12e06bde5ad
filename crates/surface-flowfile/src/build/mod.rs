//! Builds a graph that runs from a plan.
//!
//! Room: interface.
//!
//! The only part of the crate with effects: files, sockets, processes.
//!
//! | file | contents |
//! |---|---|
//! | `sources`, `stages`, `sinks` | nodes for JSON and files; all others are nodes of `bursar::flow` |
//! | `command`, `process`, `keepers` | a program as a node, its tree of processes, and the keeper above it, which kills it if this process is killed |
//! | `janus` | a function of a Janus program, for each message |
//! | `net`, `stdin` | lines over TCP and from standard input |
//! | `over` | both halves of an edge over a broker |
//! | `pump`, `wire`, `line` | tasks that copy bytes, bounded channels between tasks and nodes, lines as messages |
//! | `unread` | lines that a program did not read |
//! | `shim` | adapter nodes, where a port does not carry JSON |
//!
//! # Invariant
//! Building has no effects: files are opened and programs started when their nodes start.

mod coalesce;
mod command;
mod janus;
mod json;
mod keepers;
mod line;
mod net;
mod over;
mod process;
mod pump;
mod shim;
mod sinks;
mod sources;
mod stages;
mod stdin;
mod unread;
mod wire;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use bursar::flow::{
    self, Flow, FlowBuilder as Builder, Graph, NodeError, NodeSpec, Policy, Retry, circuit_breaker, correlator,
    debounce, dedup_up_to, delay, filter, merger, router, sample_nth, splitter, throttle, try_map,
};
use mech_process::KeeperProgram;
use serde_json::Value;

use crate::action::Action;
use crate::plan::{self, CONTROL, ELSE, Edge, Node, OnError, Plan};
use keepers::KeeperPool;
#[cfg(feature = "nats")]
pub use over::check as check_brokers;
use process::Ends;
use stages::{Key, Side};

type Print = dyn Fn(&str) -> io::Result<()> + Send + Sync;
type Stdin = dyn Fn() -> io::Result<File> + Send + Sync;
pub(crate) type Stderr = dyn Fn(&str, &str) + Send + Sync;

/// What a graph uses of its process. `Hooks::default()` is standard output and standard input, and no keeper program.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use bursar::flow::Flow;
/// use surface_flowfile::{build, parse};
///
/// let plan = parse("x.toml", "edges = ['a -> b']\n[node.a]\nkind = 'numbers'\nto = 3\n[node.b]\nkind = 'print'")?;
/// let printed = Arc::new(Mutex::new(String::new()));
/// let to = Arc::clone(&printed);
/// let hooks = build::Hooks::default().print(move |line| {
///     to.lock().unwrap().push_str(line);
///     Ok(())
/// });
/// Flow::new(build::build(&plan, &hooks)?)?.run()?;
/// assert_eq!(*printed.lock().unwrap(), "1\n2\n3\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Hooks {
    print: Arc<Print>,
    stdin: Arc<Stdin>,
    stderr: Option<Arc<Stderr>>,
    keepers: Arc<KeeperPool>,
    #[cfg(feature = "nats")]
    login: flow::nats::Login,
}

impl Hooks {
    /// Who we are at the brokers of edges. Without it, a connection without a name.
    #[cfg(feature = "nats")]
    #[must_use]
    pub fn login(mut self, login: flow::nats::Login) -> Self {
        self.login = login;
        self
    }

    /// Where `print` nodes write. The text is a line with its end; [`BrokenPipe`](io::ErrorKind::BrokenPipe) ends the graph.
    #[must_use]
    pub fn print(mut self, print: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.print = Arc::new(print);
        self
    }

    /// Gets each line that a program writes to standard error, with the id of its node. Without it programs share our standard error.
    #[must_use]
    pub fn stderr(mut self, report: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        self.stderr = Some(Arc::new(report));
        self
    }

    /// How to start a keeper: the process that stands above a program of a `command` node, and kills all of its processes when this process is gone. A program that is its own keeper calls
    /// [`mech_process::keeper::main`] when it is started with these arguments. Without it no `command` node can start its program.
    ///
    /// ```
    /// use mech_process::KeeperProgram;
    ///
    /// if std::env::args().nth(1).as_deref() == Some("keep") {
    ///     mech_process::keeper::main();
    /// }
    /// let hooks = surface_flowfile::build::Hooks::default().keeper(KeeperProgram::this_one(["keep"]));
    /// ```
    #[must_use]
    pub fn keeper(mut self, program: KeeperProgram) -> Self {
        self.keepers = Arc::new(KeeperPool::new(program));
        self
    }

    /// Where `stdin` nodes read.
    #[must_use]
    pub fn stdin(mut self, stdin: impl Fn() -> io::Result<File> + Send + Sync + 'static) -> Self {
        self.stdin = Arc::new(stdin);
        self
    }
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            print: Arc::new(|line| io::stdout().lock().write_all(line.as_bytes())),
            stdin: Arc::new(|| Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))),
            stderr: None,
            keepers: Arc::default(),
            #[cfg(feature = "nats")]
            login: flow::nats::Login::default(),
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// An edge of a plan that was made by hand names a node that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadEdge {
    /// Its number in the plan.
    pub edge: usize,
    /// The number of the node.
    pub node: usize,
    /// How many nodes there are.
    pub nodes: usize,
}

impl fmt::Display for BadEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { edge, node, nodes } = self;
        write!(f, "edge {edge} of the plan names node {node}, and there are {nodes}; number them from 0")
    }
}

impl std::error::Error for BadEdge {}

/// The graph of a plan. Nothing is opened or started before it runs.
///
/// # Errors
/// If an edge names a node that does not exist. A parsed plan has no such edge.
pub fn build(plan: &Plan, hooks: &Hooks) -> Result<Graph, BadEdge> {
    if plan.edges.iter().any(|edge| edge.over.is_some()) {
        return build(&plan.apart(), hooks);
    }
    for (at, edge) in plan.edges.iter().enumerate() {
        if let Some(&node) = [edge.from, edge.to].iter().find(|node| **node >= plan.nodes.len()) {
            return Err(BadEdge { edge: at, node, nodes: plan.nodes.len() });
        }
    }
    let mut ends = vec![Ends { reads: false, prints: false }; plan.nodes.len()];
    for edge in &plan.edges {
        ends[edge.from].prints |= edge.output == "out";
        ends[edge.to].reads |= edge.input != CONTROL;
    }
    let mut graph = Graph::new(&plan.name);
    for (node, ends) in plan.nodes.iter().zip(&ends) {
        let mut spec = spec(node, plan, hooks, *ends).on_error(on_error(&node.on_error));
        if let Some(ms) = node.tick_ms.filter(|_| takes_tick(&node.action)) {
            spec = spec.tick(Duration::from_millis(ms));
        }
        if let Some(batch) = node.batch {
            spec = spec.batch(batch);
        }
        if let Some(band) = node.band {
            spec = spec.band(band);
        }
        graph.add_at(&node.id, spec);
    }
    let mut shims = shim::Shims::default();
    for edge in &plan.edges {
        shims.add(plan, edge, ends[edge.from].reads, &mut graph);
        connect(plan, edge, &mut graph);
    }
    Ok(graph)
}

fn connect(plan: &Plan, edge: &Edge, graph: &mut Graph) {
    let (from, to) = shim::ends(plan, edge);
    let mut made = graph.connect(from.as_str(), to.as_str()).capacity(edge.capacity);
    if let Some(priority) = edge.priority {
        made = made.priority(priority);
    }
    let _ = match edge.policy {
        plan::Policy::Block => made,
        plan::Policy::Drop => made.policy(Policy::Drop),
        plan::Policy::Latest => made.policy(Policy::Latest),
        plan::Policy::Coalesce(how) => made.coalesce(move |queued, new| coalesce::merge(how, queued, new)),
    };
}

/// A flow with the settings of the file: [`build`], and `[flow]`.
///
/// # Errors
/// As [`build`]; call [`Builder::build`] for the checks of the scheduler.
pub fn flow(plan: &Plan, hooks: &Hooks) -> Result<Builder, BadEdge> {
    let settings = &plan.settings;
    let mut builder = Flow::builder().register(build(plan, hooks)?);
    if let Some(ms) = settings.tick_ms {
        builder = builder.tick(Duration::from_millis(ms));
    }
    if let Some(batch) = settings.batch {
        builder = builder.batch(batch);
    }
    if let Some(ms) = settings.drain_ms {
        builder = builder.drain_timeout(Duration::from_millis(ms));
    }
    if let Some(workers) = settings.workers {
        builder = builder.workers(workers);
    }
    if let Some([control, high, normal]) = settings.shares {
        builder = builder.shares(control, high, normal);
    }
    Ok(builder)
}

/// The id an edge of the plan has in the flow. It is [`Plan::edge_id`], unless a port does not carry JSON (dead letters,
/// pairs, control): then an adapter node `NODE!PORT` is between, and the edge is the one before or after it.
///
/// ```
/// let plan = surface_flowfile::parse("x.toml", "edges = ['a -> z', 'a -> z:control']\n[node.a]\nkind = 'stdin'\n[node.z]\nkind = 'print'")?;
/// assert_eq!(surface_flowfile::build::edge_id(&plan, &plan.edges[0]), "a:out->z:in");
/// assert_eq!(surface_flowfile::build::edge_id(&plan, &plan.edges[1]), "a:out->z!control:in");
/// # Ok::<(), surface_flowfile::Problems>(())
/// ```
pub fn edge_id(plan: &Plan, edge: &Edge) -> String {
    let (from, to) = shim::ends(plan, edge);
    format!("{from}->{to}")
}

fn on_error(said: &OnError) -> flow::OnError {
    match said {
        OnError::Skip => flow::OnError::Skip,
        OnError::StopNode => flow::OnError::StopNode,
        OnError::Stop => flow::OnError::StopGraph,
        OnError::DeadLetter => flow::OnError::DeadLetter,
        OnError::Retry { times, first_ms, then } => {
            flow::OnError::Retry(Retry::times(*times).backoff(Duration::from_millis(*first_ms)).then(on_error(then)))
        }
    }
}

/// These ask for their own ticks; a `tick` of the file would make them emit at other times.
fn takes_tick(action: &Action) -> bool {
    !matches!(action, Action::Every { .. } | Action::RandomWalk(_) | Action::Counter { .. })
}

fn spec(node: &Node, plan: &Plan, hooks: &Hooks, ends: Ends) -> NodeSpec {
    let path = |path: &std::path::Path| plan.base.join(path);
    let millis = Duration::from_millis;
    match &node.action {
        Action::Publish { over, credit } => over::publish(over, *credit, hooks),
        Action::Subscribe(over) => over::subscribe(over, hooks),
        Action::Command(command) => {
            let (keepers, stderr) = (Arc::clone(&hooks.keepers), hooks.stderr.clone());
            command::node(command.clone(), plan.base.clone(), ends, keepers, stderr)
        }
        Action::Lines { path: file, follow, from_end, reading } => {
            sources::lines(path(file), *follow, *from_end, *reading)
        }
        Action::Stdin { reading } => stdin::node(Arc::clone(&hooks.stdin), *reading),
        Action::TcpIn { listen, reading } => net::tcp_in(*listen, *reading),
        Action::Every { interval_ms, emit, count } => sources::every(millis(*interval_ms), emit.clone(), *count),
        Action::Numbers { from, to } => sources::numbers(*from, *to),
        Action::Values { list, repeat } => sources::values(list.clone(), *repeat),
        Action::RandomWalk(walk) => sources::random_walk(walk.clone()),
        Action::Map(change) => {
            let change = change.clone();
            try_map(move |message: Value| stages::map(&change, message))
        }
        Action::Filter(condition) => {
            let condition = condition.clone();
            filter(move |message: &Value| condition.holds(message))
        }
        Action::Janus(janus) => janus::node(janus, Arc::clone(&hooks.print)),
        Action::Router(routes) => {
            let (routes, outputs) = (routes.clone(), node.outputs());
            let outputs: Vec<String> = outputs.into_iter().filter(|name| !node.dead_outputs().contains(name)).collect();
            router(outputs, move |message: &Value| {
                let route = routes.iter().find(|route| route.condition.holds(message));
                route.map_or_else(|| ELSE.to_owned(), |route| route.to.clone())
            })
        }
        Action::Splitter { outputs } => splitter::<Value>(*outputs),
        Action::Merger => merger::<Value>(),
        Action::Batcher { size, within_ms } => stages::batcher(*size, within_ms.map(millis)),
        Action::Window { extent, aggregate, field, key: Some(key), keys } => {
            stages::window_by_key(*extent, *aggregate, field.clone(), key.clone(), *keys)
        }
        Action::Window { extent, aggregate, field, .. } => stages::window(*extent, *aggregate, field.clone()),
        Action::Head { count } => flow::head::<Value>(*count),
        Action::Throttle { rate, burst } => throttle::<Value>(*rate, *burst),
        Action::Debounce { quiet_ms } => debounce::<Value>(millis(*quiet_ms)),
        Action::Sample { every } => sample_nth::<Value>(*every),
        Action::Validator { fields } => stages::validator(fields.clone()),
        Action::Counter { interval_ms, field, reset } => stages::counter(millis(*interval_ms), field.clone(), *reset),
        Action::Cache { key, ttl_ms, keys } => dedup_up_to(*keys, millis(*ttl_ms), Key::of(key.clone(), Side::Left)),
        Action::Breaker { failure, failures, cool_ms } => {
            let failure = failure.clone();
            let passed = move |message: Value| {
                if failure.holds(&message) {
                    Err(NodeError::msg("the message meets the failure condition"))
                } else {
                    Ok(message)
                }
            };
            circuit_breaker(passed).failures(*failures).cool_down(millis(*cool_ms)).spec()
        }
        Action::Timeout { after_ms } => stages::timeout(millis(*after_ms)),
        Action::Delay { by_ms } => delay::<Value>(millis(*by_ms)),
        Action::Correlator { key, within_ms, keys } => {
            let (left, right) = (Key::of(key.clone(), Side::Left), Key::of(key.clone(), Side::Right));
            correlator::<Value, Value, Key, _, _>(left, right, millis(*within_ms)).capacity(*keys).spec()
        }
        Action::Json => try_map(|message: Value| match message {
            Value::String(text) => json::read(&text).map_err(NodeError::from),
            other => Err(NodeError::msg(format!("{other} is not a text, so it cannot be parsed"))),
        }),
        Action::Text => flow::map(|message: Value| Value::String(message.to_string())),
        Action::Print { format } => sinks::print(Arc::clone(&hooks.print), *format),
        Action::Write { path: file, append, format } => {
            sinks::write(path(file), *append, *format, node.on_error.has_dead_letters())
        }
        Action::TcpOut { connect, format } => net::tcp_out(*connect, *format),
        Action::Discard => sinks::discard(),
        Action::Stop => sinks::stop(),
    }
}
