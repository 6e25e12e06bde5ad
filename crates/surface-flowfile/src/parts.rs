//! The keys of a flow file that belong to no kind of node: its sections, the settings of the flow, edges, retries.
//!
//! Room: values.
//!
//! # Invariant
//! A key that is not in these tables, or in the table of kinds, does not exist: files are checked against them, and the reference is written
//! from them.

use surface_text::reference::Shape;

use crate::kinds::Takes::{Duration, Other, Text, Whole, Word};
use crate::kinds::Without::Means;
use crate::kinds::{Field, Without, field};

const NONE: Without = Means("none");

const NODE: Field = field(
    "node",
    Other("a section for each node", Shape::Section("node")),
    Means("required, unless there is a nested graph"),
    "the nodes: `[node.NAME]` each, and their fields below",
    "{ in = { kind = \"stdin\" } }",
);
const EDGES: Field = field(
    "edges",
    Other("a list of edges", Shape::Texts),
    NONE,
    "edges with default settings, also chains: \"imu:out -> filter -> log:in\". A port may be left out if there is only one",
    "[\"in -> out\"]",
);
const EDGE_TABLES: Field = field(
    "edge",
    Other("a list of tables", Shape::Section("edge")),
    NONE,
    "edges with their own settings: `[[edge]]` each, and its fields below",
    "[{ from = \"in\", to = \"out\", capacity = 8 }]",
);
const PART: Field = field(
    "part",
    Other("a section for each part", Shape::Section("part")),
    Means("one process runs everything"),
    "the parts that processes run, each its own: `[part.NAME]` each. With parts, every node is in one",
    "{ edge = { nodes = [\"imu\"] } }",
);
const GRAPH: Field = field(
    "graph",
    Other("a section for each graph", Shape::Section("graph")),
    NONE,
    "graphs within the graph: `[graph.NAME]` each, with nodes, edges and `expose`",
    "{}",
);

/// The parts of a file.
pub(crate) const TOP: &[Field] = &[
    field("name", Text, Means("the file name without its extension"), "the name of the flow", "\"sensors\""),
    field(
        "flow",
        Other("a section", Shape::Section("flow")),
        Means("defaults"),
        "settings of the whole flow",
        "{ workers = 2 }",
    ),
    NODE,
    EDGES,
    EDGE_TABLES,
    GRAPH,
    PART,
];

/// The parts of a nested graph.
pub(crate) const NESTED: &[Field] = &[
    NODE,
    EDGES,
    EDGE_TABLES,
    GRAPH,
    field(
        "expose",
        Other("a table of ports", Shape::Table),
        NONE,
        "the ports of the graph, and the port of a node that each stands for",
        "{ in = \"fir:in\", out = \"gate:out\" }",
    ),
];

/// `[flow]`.
pub(crate) const FLOW: &[Field] = &[
    field("tick", Duration, Means("never"), "how often nodes are called without a message. Not 0", "\"50ms\""),
    field("batch", Whole(1, 1_000_000), Means("256"), "messages that a node handles in one turn", "64"),
    field(
        "drain",
        Duration,
        Means("5s"),
        "how long a flow that stops waits until queued messages are delivered",
        "\"5s\"",
    ),
    field("workers", Whole(1, 1_024), Means("1"), "how many nodes may run at the same time", "1"),
    field(
        "shares",
        Other("three whole numbers", Shape::Wholes(1, 1_000)),
        Means("[4, 2, 1]"),
        "turns of the bands control, high and normal in a cycle. The sum is at most 1000, and control has at least half of it",
        "[4, 2, 1]",
    ),
];

/// `[[edge]]`.
pub(crate) const EDGE: &[Field] = &[
    field(
        "from",
        Other("the output of a node", Shape::Text),
        Means("required"),
        "where messages come from: `node`, or `node:port`",
        "\"imu:out\"",
    ),
    field("to", Other("the input of a node", Shape::Text), Means("required"), "where messages go", "\"hot:in\""),
    field(
        "capacity",
        Other("a whole number", Shape::Whole(1, CAPACITY_MAX)),
        Means("1024"),
        "how many messages the edge holds",
        "256",
    ),
    field(
        "policy",
        Word(&["block", "drop", "latest", "coalesce"]),
        Means("block"),
        "what happens when the edge is full: the sender waits (block), the new message is dropped, the oldest is dropped (latest), or messages are merged (coalesce)",
        "\"latest\"",
    ),
    field(
        "coalesce",
        Word(&["last", "sum", "list", "merge"]),
        Means("last"),
        "how two messages are merged; implies `policy = \"coalesce\"`",
        "\"last\"",
    ),
    field(
        "priority",
        Other("\"control\", \"high\", \"normal\" or a whole number", Shape::Any),
        Means("normal"),
        "which edge is served first",
        "\"high\"",
    ),
    field(
        "over",
        Other("a broker and a subject", Shape::Text),
        Means("within the process"),
        "the broker (NATS with JetStream) that carries its messages from process to process, and a subject that no other edge has; `tls://` for a connection that must be encrypted. The policy decides before \
         the broker; what the broker has is not lost",
        "\"nats://127.0.0.1:4222/imu\"",
    ),
];

/// `[part.NAME]`.
pub(crate) const PART_KEYS: &[Field] = &[field(
    "nodes",
    Other("a list of nodes and graphs", Shape::Texts),
    Means("required"),
    "its nodes; a nested graph means all nodes in it",
    "[\"imu\", \"clean\"]",
)];

/// The limit for files; a program that reads untrusted files may set a lower one.
const CAPACITY_MAX: i64 = crate::limits::CAPACITY as i64;

/// `retry` of a node.
pub(crate) const RETRY: &[Field] = &[
    field("times", Whole(1, 1_000_000), Means("3"), "how often a message is retried", "3"),
    field("first", Duration, Means("10ms"), "the first pause; each further one is twice as long", "\"10ms\""),
    field(
        "then",
        Word(&["skip", "stop-node", "stop", "dead-letter"]),
        Means("skip"),
        "what happens to a message that fails every time",
        "\"dead-letter\"",
    ),
];
