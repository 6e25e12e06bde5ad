//! Flattening: drafts of nested graphs become one graph, and names become indices of nodes and ports.
//!
//! Room: surface.
//!
//! # Invariant
//! An edge of the result joins an output that exists to an input that exists, and no two join the same.
//!
//! # Why it holds
//! The members of a graph are known before its edges are resolved, and nested graphs are resolved before the graph around them: an exposed port is
//! a port of a node by then. The ports of a broken node are not known, so edges to it are left out without a report.

use std::collections::HashMap;

use surface_text::fields::Values;
use surface_text::units::clip;
use surface_text::{Span, did_you_mean, nearest};

use crate::plan::{CONTROL, Edge, Node};
use crate::read::{Draft, End, Link, Member, exposed};

/// Nodes and edges, and their positions in the file.
#[derive(Default)]
pub(crate) struct Flat {
    pub(crate) nodes: Vec<Node>,
    pub(crate) node_spans: Vec<Span>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) edge_spans: Vec<Span>,
    /// Where the brokers of edges are written.
    pub(crate) over_spans: Vec<Span>,
    /// Ports of edges whose other end has a problem: they count as connected.
    pub(crate) excused: Vec<(usize, String)>,
    /// Nodes may lack edges because of another problem.
    pub(crate) incomplete: bool,
}

/// A port of a node of the flat graph.
type Port = (usize, String);
type Exposed<'n> = HashMap<&'n str, (Side, Port)>;

/// What a name in a graph stands for.
enum Symbol<'n> {
    Node(usize),
    /// Its ports by their names from outside, and whether all are known.
    Graph(Exposed<'n>, bool),
    /// It has a problem, which was reported.
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Input,
    Output,
}

impl Side {
    fn other(self) -> Self {
        if self == Self::Input { Self::Output } else { Self::Input }
    }
}

/// Flattens a draft.
pub(crate) fn flatten(draft: Draft<'_>, values: &mut Values<'_>) -> Flat {
    let mut flat = Flat::default();
    graph(draft, "", &mut flat, values);
    let mut seen: HashMap<(usize, &str, usize, &str), ()> = HashMap::with_capacity(flat.edges.len());
    for (edge, at) in flat.edges.iter().zip(&flat.edge_spans) {
        if seen.insert((edge.from, &edge.output, edge.to, &edge.input), ()).is_some() {
            let name = |node: usize| &flat.nodes[node].id;
            let message = format!(
                "the edge `{}:{}->{}:{}` is written twice",
                name(edge.from),
                edge.output,
                name(edge.to),
                edge.input
            );
            values.report.add(at, message, "remove one of the two");
        }
    }
    flat
}

fn graph<'n>(draft: Draft<'n>, prefix: &str, flat: &mut Flat, values: &mut Values<'_>) -> (Exposed<'n>, bool) {
    flat.incomplete |= draft.incomplete;
    let mut scope: HashMap<&'n str, Symbol<'n>> = HashMap::with_capacity(draft.nodes.len() + draft.graphs.len());
    for Member { name, at, what } in draft.nodes {
        let symbol = match what {
            Some(mut node) => {
                node.id.insert_str(0, prefix);
                flat.nodes.push(node);
                flat.node_spans.push(at);
                Symbol::Node(flat.nodes.len() - 1)
            }
            None => Symbol::Broken,
        };
        scope.insert(name, symbol);
    }
    for Member { name, at, what } in draft.graphs {
        let (inner, whole) = graph(what, &format!("{prefix}{name}/"), flat, values);
        if scope.contains_key(name) {
            let message = format!("`{name}` is a node and a graph");
            values.report.add(&at, message, "give one of the two another name");
            continue;
        }
        scope.insert(name, Symbol::Graph(inner, whole));
    }
    flat.edges.reserve(draft.links.len());
    for link in &draft.links {
        join(link, &scope, flat, values);
    }
    let mut outside: Exposed<'n> = HashMap::new();
    let mut whole = !draft.incomplete;
    for Member { name, at, what } in draft.expose {
        if !crate::read::is_valid_name(name) || name == CONTROL {
            let message = format!("`{}` cannot be the name of an exposed port", clip(name).escape_debug());
            values.report.add(&at, message, "use letters, digits, `_` and `-`; `control` is reserved");
            whole = false;
            continue;
        }
        match exposed(&what, values).and_then(|end| expose(name, &end, &scope, flat, values)) {
            Some(port) => {
                outside.insert(name, port);
            }
            None => whole = false,
        }
    }
    flat.incomplete |= !whole;
    (outside, whole)
}

fn join(link: &Link<'_>, scope: &HashMap<&str, Symbol<'_>>, flat: &mut Flat, values: &mut Values<'_>) {
    let from = resolve(&link.from, Side::Output, scope, flat, values);
    let to = resolve(&link.to, Side::Input, scope, flat, values);
    let ((from, output), (to, input)) = match (from, to) {
        (Some(from), Some(to)) => (from, to),
        (from, to) => {
            // An edge with an unknown end was meant to lead to some node: that node may lack its edge.
            let meant = !matches!(scope.get(link.to.node), Some(Symbol::Broken));
            flat.incomplete |= to.is_none() && meant;
            flat.excused.extend(from.into_iter().chain(to));
            return;
        }
    };
    let priority = link.priority;
    let (capacity, policy) = (link.capacity, link.policy);
    let over = link.over.as_ref().map(|over| over.value.clone());
    flat.over_spans.push(link.over.as_ref().map_or_else(|| link.at.clone(), |over| over.at.clone()));
    flat.edges.push(Edge { from, output, to, input, capacity, policy, priority, over });
    flat.edge_spans.push(link.at.clone());
}

/// The port that an end names; `None` if there is none, which was reported, or if it cannot be known.
fn resolve(
    end: &End<'_>,
    side: Side,
    scope: &HashMap<&str, Symbol<'_>>,
    flat: &Flat,
    values: &mut Values<'_>,
) -> Option<Port> {
    let symbol = find(end, scope, values)?;
    let port = pick(end, side, &Ports { symbol, flat }, values)?;
    match symbol {
        Symbol::Broken => None,
        Symbol::Node(node) => Some((*node, port)),
        Symbol::Graph(ports, _) => ports.get(port.as_str()).map(|(_, port)| port.clone()),
    }
}

/// The ports of a node or a graph. They are listed only for a message: a splitter has many.
struct Ports<'s, 'n> {
    symbol: &'s Symbol<'n>,
    flat: &'s Flat,
}

impl Ports<'_, '_> {
    fn has(&self, side: Side, name: &str) -> bool {
        match (self.symbol, side) {
            (Symbol::Node(node), Side::Input) => self.flat.nodes[*node].has_input(name),
            (Symbol::Node(node), Side::Output) => self.flat.nodes[*node].has_output(name),
            (Symbol::Graph(ports, _), side) => ports.get(name).is_some_and(|(of, _)| *of == side),
            (Symbol::Broken, _) => false,
        }
    }

    fn list(&self, side: Side) -> Vec<String> {
        match (self.symbol, side) {
            (Symbol::Node(node), Side::Input) => self.flat.nodes[*node].inputs(),
            (Symbol::Node(node), Side::Output) => self.flat.nodes[*node].outputs(),
            (Symbol::Graph(ports, _), side) => {
                let of_side = ports.iter().filter(|(_, (of, _))| *of == side);
                let mut names: Vec<String> = of_side.map(|(name, _)| (*name).to_owned()).collect();
                names.sort_unstable();
                names
            }
            (Symbol::Broken, _) => Vec::new(),
        }
    }
}

fn find<'s, 'n>(
    end: &End<'_>,
    scope: &'s HashMap<&str, Symbol<'n>>,
    values: &mut Values<'_>,
) -> Option<&'s Symbol<'n>> {
    let found = scope.get(end.node);
    if found.is_none() {
        let near = if values.report.is_full() { None } else { did_you_mean(end.node, scope.keys().copied()) };
        let help = near.unwrap_or_else(|| format!("write `[node.{}]`, or name another", clip(end.node)));
        values.report.add(&end.at, format!("there is no node `{}`", clip(end.node)), help);
    }
    found
}

/// The port that an end names, or the default one.
fn pick(end: &End<'_>, side: Side, ports: &Ports<'_, '_>, values: &mut Values<'_>) -> Option<String> {
    // A symbol whose ports are not all known may have any port.
    if let Symbol::Broken | Symbol::Graph(_, false) = ports.symbol {
        let known = end.port.filter(|port| ports.has(side, port));
        return known.map(str::to_owned);
    }
    let (what, usual) = if side == Side::Input { ("input", "in") } else { ("output", "out") };
    let node = end.node;
    if let Some(port) = end.port {
        let is_control = port == CONTROL && matches!(ports.symbol, Symbol::Node(_)); // a graph has none
        let elsewhere = ports.has(side.other(), port) || (side == Side::Output && is_control);
        // In the middle of a chain the port belongs to one of its two edges: to the first, if it could be either.
        let of_the_other = end.within && elsewhere && (side == Side::Output || !ports.has(side, port));
        if (ports.has(side, port) && !of_the_other) || (side == Side::Input && is_control) {
            return Some(port.to_owned());
        }
        if !of_the_other {
            let (message, help) = if elsewhere {
                let (opposite, rule) =
                    if side == Side::Input { ("output", "ends at an input") } else { ("input", "starts at an output") };
                let message = format!("`{node}:{port}` is an {opposite}, and an edge {rule}");
                (message, "reverse the edge, or name another port".to_owned())
            } else {
                let own = if values.report.is_full() { Vec::new() } else { ports.list(side) };
                let help = match nearest(port, own.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{node}:{near}`?"),
                    None => has(&own, what),
                };
                (format!("node `{node}` has no {what} `{}`", clip(port)), help)
            };
            values.report.add(&end.at, message, help);
            return None;
        }
    }
    if ports.has(side, usual) {
        return Some(usual.to_owned());
    }
    if values.report.is_full() {
        values.report.add(&end.at, "", ""); // only counted; a list of ports for each of a million problems would be slow
        return None;
    }
    let mut own = ports.list(side);
    if own.len() == 1 {
        return own.pop();
    }
    let (message, help) = match own.first() {
        None => {
            let way = if side == Side::Input { "it only sends" } else { "it only takes" };
            (format!("node `{node}` has no {what}"), format!("{way}; reverse the edge, or name another node"))
        }
        Some(first) => {
            (format!("node `{node}` has several {what}s"), format!("write `{node}:{first}`; {}", has(&own, what)))
        }
    };
    values.report.add(&end.at, message, help);
    None
}

fn has(own: &[String], what: &str) -> String {
    match own {
        [] => format!("it has no {what}"),
        [one] => format!("it has `{one}`"),
        many => {
            let shown: Vec<String> = many.iter().take(12).map(|port| format!("`{port}`")).collect();
            let rest = if many.len() > 12 { ", …" } else { "" };
            format!("it has {}{rest}", shown.join(", "))
        }
    }
}

/// The port of a node that an exposed name stands for.
fn expose(
    name: &str,
    end: &End<'_>,
    scope: &HashMap<&str, Symbol<'_>>,
    flat: &Flat,
    values: &mut Values<'_>,
) -> Option<(Side, Port)> {
    let symbol = find(end, scope, values)?;
    let ports = Ports { symbol, flat };
    let (inputs, outputs) = (ports.list(Side::Input), ports.list(Side::Output));
    if let Symbol::Broken = symbol {
        return None;
    }
    // Without a port, the exposed name tells the side.
    let wanted = end.port.unwrap_or(name);
    let side = match (inputs.iter().any(|port| port == wanted), outputs.iter().any(|port| port == wanted)) {
        (true, false) => Side::Input,
        (false, true) => Side::Output,
        _ if end.port.is_none() && outputs.is_empty() => Side::Input,
        _ if end.port.is_none() && inputs.is_empty() => Side::Output,
        _ => {
            let all: Vec<String> = inputs.into_iter().chain(outputs).collect();
            let shown = end.port.map_or_else(|| end.node.to_owned(), |port| format!("{}:{port}", end.node));
            let message = format!("`{}` is not a port of a node, so it cannot be exposed", clip(&shown));
            let help = match nearest(wanted, all.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{}:{near}`?", end.node),
                None => format!("write `{name} = \"{}:PORT\"`; {}", end.node, has(&all, "port")),
            };
            values.report.add(&end.at, message, help);
            return None;
        }
    };
    let end = End { port: end.port.or_else(|| ports.has(side, wanted).then_some(wanted)), ..end.clone() };
    resolve(&end, side, scope, flat, values).map(|port| (side, port))
}
