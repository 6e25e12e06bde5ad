//! Reading: a tree of values becomes drafts of graphs. Nodes are checked field by field; edges still have the names of their ends.
//!
//! Room: surface.
//!
//! # Invariant
//! Reading continues after a problem, so that one pass finds all of them. A node with a problem stays in the draft, without an action, so
//! that edges to it are not a second problem.

mod edge;
mod fields;
mod given;
mod meaning;

pub(crate) use edge::{End, Link, exposed};

use bursar::flow::Band;
use surface_text::fields::{Field as Shown, Spanned, Values};
use surface_text::tree::{Entry, Table, Value};
use surface_text::units::clip;
use surface_text::{Span, did_you_mean, nearest};

use crate::kinds::{EVERY_NODE, Field, KINDS, Kind, kind};
use crate::limits::Limits;
use crate::parts;
use crate::plan::{Node, OnError, Settings};
use given::Given;

/// A graph, the whole file or a nested one.
#[derive(Default)]
pub(crate) struct Draft<'n> {
    pub(crate) nodes: Vec<Member<'n, Option<Node>>>,
    pub(crate) graphs: Vec<Member<'n, Draft<'n>>>,
    pub(crate) links: Vec<Link<'n>>,
    pub(crate) expose: Vec<Member<'n, Spanned<&'n str>>>,
    /// An edge or an exposed port could not be read: a node may lack its edge because of that.
    pub(crate) incomplete: bool,
}

/// A named member of a graph.
pub(crate) struct Member<'n, T> {
    pub(crate) name: &'n str,
    pub(crate) at: Span,
    pub(crate) what: T,
}

#[derive(Default)]
pub(crate) struct File<'n> {
    pub(crate) name: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) graph: Draft<'n>,
    pub(crate) parts: Vec<Member<'n, Vec<Spanned<&'n str>>>>,
}

const NAME: Shown<'static> = Shown::new("name", "a text", "\"sensors\"");
const SMALLEST: &str =
    "the smallest file is\nedges = [\"in -> out\"]\n[node.in]\nkind = \"stdin\"\n[node.out]\nkind = \"print\"";

/// What the limits still allow, and how deep graphs are nested now.
pub(crate) struct Remaining<'l> {
    limits: &'l Limits,
    nodes: usize,
    edges: usize,
    depth: usize,
}

/// Reads the whole tree.
pub(crate) fn read<'n, 't>(tree: &'n Table<'t>, values: &mut Values<'t>, limits: &Limits) -> File<'n> {
    let mut file = File::default();
    if let Some(entry) = tree.get("name") {
        file.name = values.some_text(&NAME, &entry.node).map(str::to_owned);
    }
    if let Some(entry) = tree.get("flow")
        && let Some(table) = section(entry, "[flow]", values)
    {
        file.settings = settings(table, &entry.at, values);
    }
    if let Some(entry) = tree.get("part") {
        file.parts = parts_of(entry, values, limits);
    }
    let mut left = Remaining { limits, nodes: limits.nodes, edges: limits.edges, depth: 0 };
    file.graph = graph(tree, parts::TOP, values, &mut left);
    if file.graph.nodes.is_empty() && file.graph.graphs.is_empty() && values.report.is_empty() {
        let end = values.source.len();
        values.report.add(&(end..end), "there is no node in this file", SMALLEST);
    }
    file
}

/// `[part.NAME]`, each with the names of its nodes.
fn parts_of<'n, 't>(
    entry: &'n Entry<'t>,
    values: &mut Values<'t>,
    limits: &Limits,
) -> Vec<Member<'n, Vec<Spanned<&'n str>>>> {
    let mut all = Vec::new();
    let Some(table) = section(entry, "[part.NAME]", values) else { return all };
    for entry in &table.entries {
        if !has_valid_name(entry, "part", values, limits) {
            continue;
        }
        let header = format!("[part.{}]", entry.key);
        let Some(table) = section(entry, &header, values) else { continue };
        let given = Given::read(table, &entry.at, format!("part `{}`", entry.key), &[parts::PART_KEYS], values);
        let named = given.other("nodes").and_then(|(field, node)| values.texts(field, node));
        if named.is_none() && given.valid && !given.has("nodes") {
            let message = format!("part `{}` has no `nodes`", entry.key);
            values.report.add(&entry.at, message, "write `nodes = [\"imu\"]`");
        }
        all.push(Member { name: entry.key.as_ref(), at: entry.at.clone(), what: named.unwrap_or_default() });
    }
    all
}

/// The parts of a graph. Recursion is as deep as graphs are nested, which is limited.
fn graph<'n, 't>(
    table: &'n Table<'t>,
    known: &'static [Field],
    values: &mut Values<'t>,
    left: &mut Remaining<'_>,
) -> Draft<'n> {
    let mut draft = Draft::default();
    for entry in &table.entries {
        match entry.key.as_ref() {
            key if !has(known, key) => unknown_part(entry, known, values),
            "node" => nodes(entry, &mut draft, values, left),
            "edges" => draft.incomplete |= !edge::chains(entry, &mut draft.links, values, left),
            "edge" => draft.incomplete |= !edge::tables(entry, &mut draft.links, values, left),
            "graph" => graphs(entry, &mut draft, values, left),
            "expose" => exposures(entry, &mut draft, values),
            _ => {}
        }
    }
    draft
}

fn has(parts: &[Field], name: &str) -> bool {
    parts.iter().any(|part| part.name == name)
}

fn unknown_part(entry: &Entry<'_>, known: &'static [Field], values: &mut Values<'_>) {
    let name = clip(&entry.key);
    let nested = !has(known, "flow");
    let whole = if nested { "a nested graph" } else { "a flow file" };
    let list = if nested {
        "node.NAME, edges, edge, graph.NAME and expose"
    } else {
        "name, edges, [flow], [node.NAME], [[edge]], [graph.NAME] and [part.NAME]"
    };
    let help = if entry.key == "expose" {
        "only a nested graph, `[graph.NAME]`, exposes ports".to_owned()
    } else if let Some(near) = did_you_mean(&entry.key, known.iter().map(|part| part.name)) {
        near
    } else if !nested && matches!(entry.node.value, Value::Table(_)) {
        format!("a node is written `[node.{name}]`; the parts are {list}")
    } else {
        format!("the parts are {list}")
    };
    values.report.add(&entry.at, format!("`{name}` is not a part of {whole}"), help);
}

fn section<'n, 't>(entry: &'n Entry<'t>, header: &str, values: &mut Values<'t>) -> Option<&'n Table<'t>> {
    if let Value::Table(table) = &entry.node.value {
        return Some(table);
    }
    let (kind, written) = (entry.node.value.kind(), values.written(&entry.node.at));
    let message = format!("`{}` is a section, not {kind} `{written}`", clip(&entry.key));
    values.report.add(&entry.at, message, format!("write `{header}` on a line of its own, and its fields below"));
    None
}

fn settings<'t>(table: &Table<'t>, at: &Span, values: &mut Values<'t>) -> Settings {
    let given = Given::read(table, at, "[flow]".to_owned(), &[parts::FLOW], values);
    Settings {
        tick_ms: tick(given.millis("tick"), &given.span("tick"), values),
        batch: given.count("batch"),
        drain_ms: given.millis("drain"),
        workers: given.count("workers"),
        shares: given.other("shares").and_then(|(field, node)| shares(field, node, values)),
    }
}

/// Limit of the sum: a band may wait for a whole cycle of turns.
const SHARES_MAX: i64 = 1_000;

/// Turns of the three bands. Control has at least half, so that it waits for at most one turn of another band.
fn shares<'t>(field: &Shown<'_>, node: &surface_text::tree::Node<'t>, values: &mut Values<'t>) -> Option<[u32; 3]> {
    let help = "write `shares = [4, 2, 1]`";
    let Value::List(items) = &node.value else {
        let message =
            format!("`shares` takes three whole numbers, not {} `{}`", node.value.kind(), values.written(&node.at));
        values.report.add(&node.at, message, help);
        return None;
    };
    if items.len() != 3 {
        let count = items.len();
        let message = format!("`shares` has {count} numbers, and the bands are three: control, high and normal");
        values.report.add(&node.at, message, help);
        return None;
    }
    let mut shares = [0_i64; 3];
    for (share, item) in shares.iter_mut().zip(items) {
        *share = values.whole(field, item, 1, SHARES_MAX)?;
    }
    let [control, high, normal] = shares;
    let (sum, others) = (control + high + normal, high + normal);
    if sum > SHARES_MAX {
        let message = format!("`shares` add up to {sum}; the limit is {SHARES_MAX}");
        values.report.add(&node.at, message, "use smaller numbers of the same ratio");
        return None;
    }
    if control < others {
        let message = format!("`shares` give control {control} turns of {sum}; it needs at least half");
        let help = format!("write `shares = [{others}, {high}, {normal}]`");
        values.report.add(&node.at, message, help);
        return None;
    }
    Some(shares.map(|share| u32::try_from(share).unwrap_or(1)))
}

fn tick(ms: Option<u64>, at: &Span, values: &mut Values<'_>) -> Option<u64> {
    if ms == Some(0) {
        values.report.add(at, "`tick` is 0, and the interval must not be 0", "write `tick = \"1ms\"` or more");
    }
    ms
}

fn nodes<'n, 't>(entry: &'n Entry<'t>, draft: &mut Draft<'n>, values: &mut Values<'t>, left: &mut Remaining<'_>) {
    let Some(table) = section(entry, "[node.NAME]", values) else { return };
    for entry in &table.entries {
        if left.nodes == 0 {
            let message = format!("there are more than {} nodes", left.limits.nodes);
            return values.report.add(&entry.at, message, "split the file");
        }
        left.nodes -= 1;
        if !has_valid_name(entry, "node", values, left.limits) {
            continue;
        }
        let header = format!("[node.{}]", entry.key);
        let what = section(entry, &header, values).and_then(|table| node(entry, table, values));
        draft.nodes.push(Member { name: &entry.key, at: entry.at.clone(), what });
    }
}

fn node<'t>(entry: &Entry<'t>, table: &Table<'t>, values: &mut Values<'t>) -> Option<Node> {
    let known = kind_of(entry, table, values)?;
    let what = format!("`{}` node `{}`", known.name, entry.key);
    let given = Given::read(table, &entry.at, what, &[known.fields, EVERY_NODE], values);
    let on_error = on_error(&given, values);
    let tick_ms = tick(given.millis("tick"), &given.span("tick"), values);
    if !given.valid {
        return None;
    }
    let action = meaning::action(known, &given, values)?;
    if known.inputs.is_empty() && !action.reads_lines() && on_error.has_dead_letters() {
        let place = if given.has("retry") { given.span("retry") } else { given.span("on_error") };
        let message = format!("{} reads no lines or messages that could fail, so it has no dead letters", given.what);
        values.report.add(&place, message, "write \"skip\", \"stop-node\" or \"stop\"");
    }
    Some(Node {
        id: entry.key.to_string(),
        kind: known,
        action,
        on_error,
        tick_ms,
        batch: given.count("batch"),
        band: band(given.word("band")),
    })
}

fn band(word: Option<&str>) -> Option<Band> {
    Band::ALL.into_iter().find(|band| word == Some(&*band.to_string()))
}

fn kind_of<'t>(entry: &Entry<'t>, table: &Table<'t>, values: &mut Values<'t>) -> Option<&'static Kind> {
    const KIND: Shown<'static> = Shown::new("kind", "the name of a kind", "\"filter\"");
    let Some(written) = table.get("kind") else {
        let message = format!("node `{}` has no `kind`", entry.key);
        let help = match table.get("run") {
            Some(_) => "write `kind = \"command\"`".to_owned(),
            None => "write `kind = \"filter\"` or another; `bursar flow kinds` lists them".to_owned(),
        };
        values.report.add(&entry.at, message, help);
        return None;
    };
    let name = values.some_text(&KIND, &written.node)?;
    let found = kind(name);
    if found.is_none() {
        let help = match nearest(name, KINDS.iter().map(|kind| kind.name)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("the kinds are {}", KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")),
        };
        values.report.add(&written.node.at, format!("there is no kind \"{}\"", clip(name)), help);
    }
    found
}

fn on_error<'t>(given: &Given<'_, 't>, values: &mut Values<'t>) -> OnError {
    let plain = |word: &str| match word {
        "stop-node" => OnError::StopNode,
        "stop" => OnError::Stop,
        "dead-letter" => OnError::DeadLetter,
        _ => OnError::Skip,
    };
    let (said, table) = (given.word("on_error"), given.node("retry"));
    let Some(node) = table else {
        return match said {
            Some("retry") => OnError::Retry { times: 3, first_ms: 10, then: Box::new(OnError::Skip) },
            Some(word) => plain(word),
            None => OnError::Skip,
        };
    };
    if let Some(said) = said.filter(|said| *said != "retry") {
        let message = format!("`on_error` is \"{said}\", and there is a `retry`");
        let help = format!("write `then = \"{said}\"` in `retry`, and leave `on_error` out");
        values.report.add(&given.span("on_error"), message, help);
    }
    let Value::Table(table) = &node.value else { return OnError::Skip };
    let retry = Given::read(table, &node.at, "`retry`".to_owned(), &[parts::RETRY], values);
    let (times, first_ms) = (retry.count("times").unwrap_or(3), retry.millis("first").unwrap_or(10));
    OnError::Retry { times, first_ms, then: Box::new(retry.word("then").map_or(OnError::Skip, plain)) }
}

fn graphs<'n, 't>(entry: &'n Entry<'t>, draft: &mut Draft<'n>, values: &mut Values<'t>, left: &mut Remaining<'_>) {
    let Some(table) = section(entry, "[graph.NAME]", values) else { return };
    for entry in &table.entries {
        if !has_valid_name(entry, "graph", values, left.limits) {
            continue;
        }
        if left.depth == left.limits.depth {
            let message =
                format!("graph `{}` is nested {} deep; the limit is {}", entry.key, left.depth + 1, left.limits.depth);
            values.report.add(&entry.at, message, "write its nodes into the graph around it");
            continue;
        }
        let Some(table) = section(entry, "[graph.NAME]", values) else { continue };
        left.depth += 1;
        let what = graph(table, parts::NESTED, values, left);
        left.depth -= 1;
        draft.graphs.push(Member { name: &entry.key, at: entry.at.clone(), what });
    }
}

fn exposures<'n, 't>(entry: &'n Entry<'t>, draft: &mut Draft<'n>, values: &mut Values<'t>) {
    let field = Shown::new("expose", "a table of ports", "{ in = \"fir:in\", out = \"gate:out\" }");
    let Some(table) = values.table(&field, &entry.node) else {
        draft.incomplete = true;
        return;
    };
    for entry in &table.entries {
        let field = Shown::new(&entry.key, "a port of a node", "\"fir:in\"");
        let Some(end) = values.some_text(&field, &entry.node) else {
            draft.incomplete = true;
            continue;
        };
        let what = Spanned { at: entry.node.at.clone(), value: end };
        draft.expose.push(Member { name: &entry.key, at: entry.at.clone(), what });
    }
}

/// Names are parts of ids, between `/`, `:` and `->`.
pub(crate) fn is_valid_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || "_-.+@".contains(c))
}

fn has_valid_name(entry: &Entry<'_>, what: &str, values: &mut Values<'_>, limits: &Limits) -> bool {
    let name = entry.key.as_ref();
    if !is_valid_name(name) {
        let message = format!("`{}` cannot be the name of a {what}", clip(name).escape_debug());
        values.report.add(&entry.at, message, "start with a letter, and use letters, digits and any of `_-.+@`");
        return false;
    }
    if name.len() > limits.name_bytes {
        let (shown, length, most) = (clip(name), name.len(), limits.name_bytes);
        let message = format!("the name `{shown}` has {length} bytes; the limit is {most}");
        values.report.add(&entry.at, message, "write a shorter one");
        return false;
    }
    true
}
