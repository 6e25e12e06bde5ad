//! Edges over a broker, and the parts that processes run.
//!
//! Room: decisions.
//!
//! # Invariant
//! A node is in one part, or there are no parts. An edge between two parts goes over a broker, and no two edges over the same subject.
//!
//! # One process or several
//! An edge with `over` goes over its broker, also in a run without `--part`. So a file that works as one process works as several, with the same guarantees and the same counts.

use std::collections::HashMap;
use std::fmt;

use surface_text::did_you_mean;
use surface_text::fields::{Spanned, Values};
use surface_text::units::clip;

use crate::action::Action;
use crate::flatten::Flat;
use crate::kinds::{Kind, Port, Role};
use crate::over::{Over, subject};
use crate::plan::{CONTROL, Edge, Node, OnError, PRIORITY_CONTROL, Part, Plan, Policy};
use crate::read::Member;

/// A part that the file does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPart {
    name: String,
    parts: Vec<String>,
}

impl fmt::Display for NoPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = clip(&self.name);
        match self.parts.as_slice() {
            [] => write!(
                f,
                "there is no part `{name}`: the file has none; write `[part.{name}]` with `nodes`, or leave `--part` out"
            ),
            parts => write!(f, "there is no part `{name}`; the file has {}", parts.join(", ")),
        }
    }
}

impl std::error::Error for NoPart {}

/// Checks the parts of a file, and the edges between them.
pub(crate) fn parts(flat: &Flat, drafts: Vec<Member<'_, Vec<Spanned<&str>>>>, values: &mut Values<'_>) -> Vec<Part> {
    if flat.incomplete || !values.report.is_empty() {
        return Vec::new(); // a name may be that of a node with another problem
    }
    subjects(flat, values);
    if drafts.is_empty() {
        return Vec::new();
    }
    let mut of: Vec<Option<usize>> = vec![None; flat.nodes.len()];
    for (number, draft) in drafts.iter().enumerate() {
        if draft.what.is_empty() {
            let message = format!("part `{}` has no node, so its process would have nothing to run", clip(draft.name));
            values.report.add(&draft.at, message, "write the names of its nodes into `nodes`, or remove the part");
        }
        for named in &draft.what {
            place(flat, &drafts, number, named, &mut of, values);
        }
    }
    if !values.report.is_empty() {
        return Vec::new(); // a node may lack its part because of another problem
    }
    for ((node, at), part) in flat.nodes.iter().zip(&flat.node_spans).zip(&of) {
        if part.is_none() {
            let message = format!("node `{}` is in no part, so no process runs it", node.id);
            values.report.add(
                at,
                message,
                format!("write its name into `nodes` of a part, as of `{}`", drafts[0].name),
            );
        }
    }
    for (at, edge) in flat.edges.iter().enumerate() {
        let (from, to) = (of[edge.from], of[edge.to]);
        if let (Some(from), Some(to)) = (from, to)
            && from != to
            && edge.over.is_none()
        {
            let (giver, taker) = (&flat.nodes[edge.from].id, &flat.nodes[edge.to].id);
            let (from, to) = (drafts[from].name, drafts[to].name);
            let message =
                format!("this edge leads from part `{from}` (`{giver}`) to part `{to}` (`{taker}`), and has no broker");
            let help = "write it as `[[edge]]` with `over = \"nats://127.0.0.1:4222/SUBJECT\"`, or move a node";
            values.report.add(&flat.edge_spans[at], message, help);
        }
    }
    let nodes = |number| (0..of.len()).filter(|node| of[*node] == Some(number)).collect();
    drafts
        .iter()
        .enumerate()
        .map(|(number, draft)| Part { name: draft.name.to_owned(), nodes: nodes(number) })
        .collect()
}

/// Puts the nodes of a name into a part.
fn place(
    flat: &Flat,
    drafts: &[Member<'_, Vec<Spanned<&str>>>],
    number: usize,
    named: &Spanned<&str>,
    of: &mut [Option<usize>],
    values: &mut Values<'_>,
) {
    let name = named.value;
    let within = format!("{name}/");
    let mut found = false;
    for (at, node) in flat.nodes.iter().enumerate() {
        if node.id != name && !node.id.starts_with(&within) {
            continue;
        }
        found = true;
        if let Some(other) = of[at].replace(number) {
            let message = if other == number {
                format!("node `{}` is named twice in part `{}`", node.id, drafts[number].name)
            } else {
                format!("node `{}` is in the parts `{}` and `{}`", node.id, drafts[other].name, drafts[number].name)
            };
            values.report.add(&named.at, message, "name it once: one process runs it");
        }
    }
    if !found {
        let tops = flat.nodes.iter().map(|node| node.id.split('/').next().unwrap_or_default());
        let help =
            did_you_mean(name, tops).unwrap_or_else(|| format!("write `[node.{}]`, or name another", clip(name)));
        values.report.add(&named.at, format!("there is no node or graph `{}`", clip(name)), help);
    }
}

/// Two edges with one subject.
fn subjects(flat: &Flat, values: &mut Values<'_>) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (at, edge) in flat.edges.iter().enumerate() {
        let Some(over) = &edge.over else { continue };
        if let Some(first) = seen.insert(subject(over), at) {
            let (first, id) = (&flat.edges[first], |node: usize| &flat.nodes[node].id);
            let message =
                format!("the edge from `{}` to `{}` goes over this subject, too", id(first.from), id(first.to));
            values.report.add(&flat.over_spans[at], message, "give each edge a subject of its own");
        }
    }
}

const PUBLISH: &Kind = &Kind {
    name: "publish",
    role: Role::Sink,
    about: "The sending half of an edge over a broker",
    inputs: &[Port { name: "in", about: "messages" }],
    outputs: &[],
    fields: &[],
};
const SUBSCRIBE: &Kind = &Kind {
    name: "subscribe",
    role: Role::Source,
    about: "The receiving half of an edge over a broker",
    inputs: &[],
    outputs: &[Port { name: "out", about: "messages" }],
    fields: &[],
};

impl Plan {
    /// What one process runs: the nodes of a part, or all; and of each edge over a broker the halves whose nodes it runs. The halves are nodes, called `SUBJECT!publish` and `SUBJECT!subscribe`.
    ///
    /// # Errors
    /// If there is no such part.
    pub fn part(&self, name: Option<&str>) -> Result<Plan, NoPart> {
        let Some(name) = name else { return Ok(self.apart()) };
        let Some(part) = self.parts.iter().find(|part| part.name == name) else {
            let parts = self.parts.iter().map(|part| part.name.clone()).collect();
            return Err(NoPart { name: name.to_owned(), parts });
        };
        let mut runs = vec![false; self.nodes.len()];
        part.nodes.iter().for_each(|node| runs[*node] = true);
        Ok(self.halves(&runs))
    }

    /// All of it, with the halves of edges over a broker as nodes.
    pub(crate) fn apart(&self) -> Plan {
        self.halves(&vec![true; self.nodes.len()])
    }

    /// `runs`: which nodes this process runs.
    #[cfg_attr(
        not(feature = "nats"),
        allow(unreachable_code, unused_variables, reason = "without the feature no edge has a broker")
    )]
    fn halves(&self, runs: &[bool]) -> Plan {
        let mut number = vec![usize::MAX; self.nodes.len()];
        let mut nodes: Vec<Node> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(at, _)| runs[*at]) {
            number[at] = nodes.len();
            nodes.push(node.clone());
        }
        let mut edges = Vec::new();
        for edge in &self.edges {
            let (from, to) = (number[edge.from], number[edge.to]);
            let Some(over) = &edge.over else {
                if runs[edge.from] && runs[edge.to] {
                    edges.push(Edge { from, to, ..edge.clone() });
                }
                continue;
            };
            // The other process does not see where it leads, so its band is written.
            let priority = edge.priority.or((self.is_steering(edge)).then_some(PRIORITY_CONTROL));
            let plain = Edge { over: None, priority, ..edge.clone() };
            if runs[edge.from] {
                edges.push(Edge { from, to: nodes.len(), input: "in".to_owned(), ..plain.clone() });
                // An edge that drops shall do so when it is full, not after thousands of old messages are on their way.
                let credit = (edge.policy != Policy::Block).then_some(edge.capacity as u64);
                nodes.push(half(over, "publish", PUBLISH, Action::Publish { over: over.clone(), credit }));
            }
            if runs[edge.to] {
                // The policy was applied before the broker.
                edges.push(Edge { from: nodes.len(), to, output: "out".to_owned(), policy: Policy::Block, ..plain });
                nodes.push(half(over, "subscribe", SUBSCRIBE, Action::Subscribe(over.clone())));
            }
        }
        Plan {
            name: self.name.clone(),
            base: self.base.clone(),
            settings: self.settings.clone(),
            nodes,
            edges,
            parts: Vec::new(),
        }
    }

    /// Whether an edge leads to `control`, or to a node all of whose edges do, and which has some.
    fn is_steering(&self, edge: &Edge) -> bool {
        let leaves = || self.edges.iter().filter(|after| after.from == edge.to);
        edge.is_control() || (leaves().next().is_some() && leaves().all(|after| after.input == CONTROL))
    }
}

fn half(over: &Over, what: &str, kind: &'static Kind, action: Action) -> Node {
    let id = format!("{}!{what}", subject(over));
    Node { id, kind, action, on_error: OnError::default(), tick_ms: None, batch: None, band: None }
}
