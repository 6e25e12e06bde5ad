//! The keys of a flow file that belong to no kind of node: its sections, the settings of the flow, edges, retries.
//!
//! Room: surface, values only.
//!
//! # Invariant
//! A key that is not in these tables, or in the table of kinds, does not exist: files are checked against them, and the reference is written
//! from them.

use surface_text::fields::Field;
use surface_text::reference::{Entry, Shape};

/// A key and what it means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) field: Field<'static>,
    pub(crate) shape: Shape,
    pub(crate) without: &'static str,
    pub(crate) about: &'static str,
}

impl Row {
    /// For the reference.
    pub(crate) fn entry(&self) -> Entry {
        let Field { name, takes, example } = self.field;
        Entry { name, takes: takes.to_owned(), shape: self.shape, without: self.without, about: self.about, example }
    }
}

/// The field of this name.
pub(crate) fn find(rows: &'static [Row], name: &str) -> Option<&'static Field<'static>> {
    rows.iter().map(|row| &row.field).find(|field| field.name == name)
}

/// All names.
pub(crate) fn names(rows: &'static [Row]) -> impl Iterator<Item = &'static str> {
    rows.iter().map(|row| row.field.name)
}

const fn row(field: Field<'static>, shape: Shape, without: &'static str, about: &'static str) -> Row {
    Row { field, shape, without, about }
}

const NONE: &str = "none";

const NODE: Row = row(
    Field::new("node", "a section for each node", "{ in = { kind = \"stdin\" } }"),
    Shape::Section("node"),
    "required, unless there is a nested graph",
    "the nodes: `[node.NAME]` each, and their fields below",
);
const EDGES: Row = row(
    Field::new("edges", "a list of edges", "[\"in -> out\"]"),
    Shape::Texts,
    NONE,
    "edges that are as usual, also chains: \"imu:out -> filter -> log:in\". Without a port, the only one is meant",
);
const EDGE_TABLES: Row = row(
    Field::new("edge", "a list of tables", "[{ from = \"in\", to = \"out\", capacity = 8 }]"),
    Shape::Section("edge"),
    NONE,
    "edges with settings of their own: `[[edge]]` each, and its fields below",
);
const GRAPH: Row = row(
    Field::new("graph", "a section for each graph", "{}"),
    Shape::Section("graph"),
    NONE,
    "graphs within the graph: `[graph.NAME]` each, with nodes, edges and `expose`",
);

/// The parts of a file.
pub(crate) const TOP: &[Row] = &[
    row(
        Field::new("name", "a text", "\"sensors\""),
        Shape::Text,
        "the file's name without its ending",
        "what the flow is called",
    ),
    row(
        Field::new("flow", "a section", "{ workers = 2 }"),
        Shape::Section("flow"),
        "as usual",
        "settings of the whole flow",
    ),
    NODE,
    EDGES,
    EDGE_TABLES,
    GRAPH,
];

/// The parts of a nested graph.
pub(crate) const NESTED: &[Row] = &[
    NODE,
    EDGES,
    EDGE_TABLES,
    GRAPH,
    row(
        Field::new("expose", "a table of ports", "{ in = \"fir:in\", out = \"gate:out\" }"),
        Shape::Table,
        NONE,
        "ports of the graph, and the ports of its nodes that they are",
    ),
];

/// `[flow]`.
pub(crate) const FLOW: &[Row] = &[
    row(
        Field::new("tick", "a duration", "\"50ms\""),
        Shape::Duration,
        "never",
        "how often nodes are called without a message. Not 0",
    ),
    row(
        Field::new("batch", "a whole number", "64"),
        Shape::Whole(1, 1_000_000),
        "256",
        "messages that a node handles in one turn",
    ),
    row(
        Field::new("drain", "a duration", "\"5s\""),
        Shape::Duration,
        "5s",
        "how long what is on its way may take to be delivered when the flow is to end",
    ),
    row(
        Field::new("workers", "a whole number", "1"),
        Shape::Whole(1, 1_024),
        "1",
        "threads: independent nodes run at the same time",
    ),
    row(
        Field::new("shares", "three whole numbers", "[4, 2, 1]"),
        Shape::Wholes(1, 1_000),
        "[4, 2, 1]",
        "turns of the bands control, high and normal in a cycle. Together at most 1000, and control at least half",
    ),
];

/// `[[edge]]`.
pub(crate) const EDGE: &[Row] = &[
    row(
        Field::new("from", "the output of a node", "\"imu:out\""),
        Shape::Text,
        "required",
        "where messages come from: `node`, or `node:port`",
    ),
    row(Field::new("to", "the input of a node", "\"hot:in\""), Shape::Text, "required", "where they go"),
    row(
        Field::new("capacity", "a whole number", "256"),
        Shape::Whole(1, CAPACITY_MOST),
        "1024",
        "how many messages may wait",
    ),
    row(
        Field::new("policy", "\"block\", \"drop\", \"latest\" or \"coalesce\"", "\"latest\""),
        Shape::Word(&["block", "drop", "latest", "coalesce"]),
        "block",
        "what happens when it is full: the source waits, the new message is dropped, only the latest is kept, or messages become one",
    ),
    row(
        Field::new("coalesce", "\"last\", \"sum\", \"list\" or \"merge\"", "\"last\""),
        Shape::Word(&["last", "sum", "list", "merge"]),
        "last",
        "how messages become one; means `policy = \"coalesce\"`",
    ),
    row(
        Field::new("priority", "\"control\", \"high\", \"normal\" or a whole number", "\"high\""),
        Shape::Any,
        "normal",
        "which edge is served first",
    ),
];

/// The most that a file may say; whoever reads files of strangers may allow less.
const CAPACITY_MOST: i64 = crate::limits::CAPACITY as i64;

/// `retry` of a node.
pub(crate) const RETRY: &[Row] = &[
    row(
        Field::new("times", "a whole number", "3"),
        Shape::Whole(1, 1_000_000),
        "3",
        "how often a message is tried again",
    ),
    row(
        Field::new("first", "a duration", "\"10ms\""),
        Shape::Duration,
        "10ms",
        "the first pause; each time twice as long",
    ),
    row(
        Field::new("then", "\"skip\", \"stop-node\", \"stop\" or \"dead-letter\"", "\"dead-letter\""),
        Shape::Word(&["skip", "stop-node", "stop", "dead-letter"]),
        "skip",
        "what becomes of a message that fails every time",
    ),
];
