//! A random graph: nodes, settings and edges.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, atomic::AtomicUsize, mpsc::Sender},
    task::Waker,
    time::Duration,
};

use sched_flow::{
    Band, Control, DeadLetter, Graph, NodeRef, NodeSpec, OnError, Policy, Retry, from_iter, sink, source,
};
use test_support::Dice;

use super::{
    nodes::{Hold, Manner, Relay, Spring, Tag, merge},
    record::{Known, Record},
};

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Spring { left: u64, fail_percent: u64, hops: u32 },
    Relay(Manner),
}

#[derive(Debug, Clone)]
pub(crate) struct NodePlan {
    pub(crate) kind: Kind,
    pub(crate) on_error: OnError,
    /// It may be stopped before the others, by its policy or by a command.
    pub(crate) breaks: bool,
    batch: Option<u32>,
    band: Band,
    cadence: Option<Duration>,
    /// It is alone in a graph of its own.
    pub(crate) wrapped: bool,
    /// Its dead letters are collected.
    dead_letters: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) struct EdgePlan {
    pub(crate) from: usize,
    pub(crate) output: usize,
    pub(crate) to: usize,
    pub(crate) policy: Policy,
    capacity: usize,
    priority: i32,
    /// It leads forwards.
    pub(crate) forwards: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) edges: Vec<EdgePlan>,
    /// Words for the input `control` of a node.
    pub(crate) steered: Option<(usize, Vec<bool>)>,
    pub(crate) shutdown_at: Option<u64>,
    pub(crate) shutdown_before: bool,
    pub(crate) stop_now_at: Option<u64>,
    /// At which call which node is ended.
    pub(crate) end_at: Option<(u64, usize)>,
    pub(crate) batch: u32,
    order: Vec<usize>,
}

fn on_error(dice: &Dice, source: bool) -> (OnError, bool) {
    let last = match dice.below(if source { 12 } else { 40 }) {
        0 => OnError::StopGraph,
        1..3 => OnError::StopNode,
        3..10 => OnError::DeadLetter,
        _ => OnError::Skip,
    };
    let breaks = matches!(last, OnError::StopGraph | OnError::StopNode);
    if dice.chance(50) {
        return (last, breaks);
    }
    let retry = Retry::times(1 + dice.below(3) as u32).backoff(Duration::from_micros(50));
    (OnError::Retry(retry.at_most(Duration::from_micros(150)).then(last)), breaks)
}

impl Plan {
    pub(crate) fn of(dice: &Dice) -> Self {
        let springs = 1 + dice.below(2) as usize;
        let relays = 1 + dice.below(6) as usize;
        let calm = dice.chance(30); // a graph in which nothing fails
        let mut nodes = Vec::new();
        for at in 0..springs + relays {
            let source = at < springs;
            let fail_percent = if calm || dice.chance(50) { 0 } else { dice.below(25) };
            let kind = if source {
                Kind::Spring { left: dice.below(25), fail_percent, hops: 2 + dice.below(4) as u32 }
            } else {
                let micros = [100, 500, 1_000];
                Kind::Relay(Manner {
                    outputs: dice.one_of(&[0, 1, 1, 1, 2]),
                    fail_percent,
                    throttle: dice.chance(15).then(|| Duration::from_micros(dice.one_of(&micros))),
                    hold: dice.one_of(&[Hold::No, Hold::No, Hold::No, Hold::Wake, Hold::Tick]),
                    fresh: dice.one_of(&[0, 0, 3]),
                    at_end: dice.one_of(&[0, 0, 1, 12]),
                })
            };
            let (on_error, breaks) = on_error(dice, source);
            nodes.push(NodePlan {
                kind,
                on_error,
                breaks: breaks && fail_percent > 0,
                batch: dice.chance(40).then(|| 1 + dice.below(5) as u32),
                band: dice.one_of(&[Band::Normal, Band::Normal, Band::High, Band::Control]),
                cadence: dice.chance(20).then(|| Duration::from_micros(700)),
                wrapped: !source && dice.chance(20),
                dead_letters: dice.chance(50).then(|| 1 + dice.below(3) as usize),
            });
        }
        let mut edges = Vec::new();
        let mut there = BTreeSet::new();
        let mut join = |dice: &Dice, from: usize, to: usize, policies: &[Policy]| {
            let outputs = match &nodes[from].kind {
                Kind::Spring { .. } => 1,
                Kind::Relay(manner) => manner.outputs,
            };
            let output = dice.below(outputs as u64) as usize;
            if outputs == 0 || !there.insert((from, output, to)) {
                return;
            }
            edges.push(EdgePlan {
                from,
                output,
                to,
                policy: dice.one_of(policies),
                capacity: 1 + dice.below(8) as usize,
                priority: dice.one_of(&[0, 0, 0, 10, 100]),
                forwards: from < to,
            });
        };
        let any = [Policy::Block, Policy::Block, Policy::Block, Policy::Drop, Policy::Latest, Policy::Coalesce];
        for to in springs..springs + relays {
            // A source feeds all nodes without another input.
            let first = dice.below(springs as u64) as usize;
            join(dice, first, to, &any);
            for _ in 0..dice.below(3) {
                let from = dice.below(to as u64) as usize;
                join(dice, from, to, &any);
            }
            if dice.chance(15) {
                let from = to + dice.below((springs + relays - to) as u64) as usize;
                join(dice, from, to, &[Policy::Drop, Policy::Latest]);
            }
        }
        let steered = dice.chance(20).then(|| {
            let mut words: Vec<bool> = (0..dice.below(6)).map(|_| dice.chance(50)).collect();
            words.push(false);
            (dice.below(nodes.len() as u64) as usize, words)
        });
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        for at in 1..order.len() {
            order.swap(at, dice.below(at as u64 + 1) as usize);
        }
        let ends = dice.below(10);
        let end_at = dice.chance(15).then(|| (dice.below(150), dice.below(nodes.len() as u64) as usize));
        if let Some((_, node)) = end_at {
            nodes[node].breaks = true;
        }
        Self {
            nodes,
            edges,
            steered,
            shutdown_at: (ends < 3).then(|| dice.below(150)),
            shutdown_before: ends == 3 && dice.chance(30),
            stop_now_at: (ends == 4).then(|| dice.below(150)),
            end_at,
            batch: dice.one_of(&[1, 2, 64]),
            order,
        }
    }

    /// The id of a node in the graph.
    pub(crate) fn id(&self, node: usize) -> String {
        if self.nodes[node].wrapped { format!("g{node}/n{node}") } else { format!("n{node}") }
    }

    pub(crate) fn edge_id(&self, edge: &EdgePlan) -> String {
        format!("{}:{}->{}:in", self.id(edge.from), ["out", "alt"][edge.output], self.id(edge.to))
    }

    pub(crate) fn known(&self) -> Vec<Known> {
        let known = |edge: &EdgePlan| Known {
            id: self.edge_id(edge),
            policy: edge.policy,
            most: AtomicUsize::new(edge.capacity),
        };
        self.edges.iter().map(known).collect()
    }

    pub(crate) fn graph(&self, record: &Arc<Record>, wakes: Option<&Sender<Waker>>) -> Graph {
        let mut graph = Graph::new("random");
        let mut refs: HashMap<usize, NodeRef> = HashMap::new();
        for &at in &self.order {
            let node = &self.nodes[at];
            let spec = self.spec(at, record, wakes);
            let has_dead_letters =
                format!("{:?}", node.on_error).contains("DeadLetter") && matches!(node.kind, Kind::Relay(_));
            let entry = if let (true, Kind::Relay(manner)) = (node.wrapped, &node.kind) {
                let mut inner = Graph::new("inner");
                let entry = inner.add(format!("n{at}"), spec);
                inner.expose_input("in", &entry);
                inner.expose_input("steer", entry.control());
                for port in ["out", "alt"].iter().take(manner.outputs) {
                    inner.expose_output(*port, entry.out(*port));
                }
                if has_dead_letters {
                    inner.expose_output("dead", entry.out("dead"));
                }
                graph.add_graph(format!("g{at}"), inner)
            } else {
                graph.add(format!("n{at}"), spec)
            };
            if let (true, Some(capacity)) = (has_dead_letters, node.dead_letters) {
                let dead_letters =
                    graph.add(format!("dead_letters{at}"), sink(|letter: DeadLetter<Tag>| assert!(letter.tries > 0)));
                graph.connect(entry.out("dead"), &dead_letters).capacity(capacity);
            }
            refs.insert(at, entry);
        }
        for edge in &self.edges {
            let from = refs[&edge.from].out(["out", "alt"][edge.output]);
            let made = graph.connect(from, refs[&edge.to].input("in"));
            let made = made.capacity(edge.capacity).priority(edge.priority);
            match edge.policy {
                Policy::Coalesce => _ = made.coalesce(merge),
                policy => _ = made.policy(policy),
            }
        }
        if let Some((node, words)) = &self.steered {
            let words: Vec<_> =
                words.iter().map(|pause| if *pause { Control::Pause } else { Control::Resume }).collect();
            let steer = graph.add("steer", from_iter(words).tick(Duration::from_micros(400)));
            let port = if self.nodes[*node].wrapped { "steer" } else { "control" };
            graph.connect(&steer, refs[node].input(port)).control();
        }
        let (mut ticks, record) = (0, Arc::clone(record));
        let clock = source(move || {
            ticks += 1;
            record.meddle();
            record.resume_all(ticks == 20);
            (ticks < 20).then_some(())
        });
        let clock = graph.add("clock", clock.tick(Duration::from_millis(1)));
        let none = graph.add("none", sink(|()| ()));
        graph.connect(&clock, &none);
        graph
    }

    fn spec(&self, at: usize, record: &Arc<Record>, wakes: Option<&Sender<Waker>>) -> NodeSpec {
        let node = &self.nodes[at];
        let record = Arc::clone(record);
        let mut spec = match node.kind.clone() {
            Kind::Spring { left, fail_percent, hops } => {
                NodeSpec::source(Spring { node: at, left, fail_percent, hops, number: 0, record })
            }
            Kind::Relay(manner) => {
                let inputs = self.edges.iter().filter(|edge| edge.to == at);
                let policies = inputs.map(|edge| ((edge.from, edge.output), edge.policy)).collect();
                NodeSpec::stage(Relay::new(at, manner, record, policies, wakes.cloned()))
            }
        };
        if let Some(batch) = node.batch {
            spec = spec.batch(batch);
        }
        if let Some(cadence) = node.cadence {
            spec = spec.tick(cadence);
        }
        spec.on_error(node.on_error.clone()).band(node.band)
    }
}
