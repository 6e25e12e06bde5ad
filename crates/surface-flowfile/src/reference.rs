//! The reference of flow files, as text and as JSON Schema: generated from the tables that the reader uses.
//!
//! Room: surface.

use serde_json::{Value, json};
use surface_text::reference::{Entry, Part, Reference, Shape, described, object, schema_text};

use crate::kinds::{CONDITIONS, EVERY_NODE, Field, KINDS, Kind, ROUTE, Role, Takes, Without};
use crate::parts::{EDGE, FLOW, NESTED, PART_KEYS, RETRY, TOP};

const EXAMPLE: &str = "\
edges = [\"log -> errors -> out\"]

[node.log]
kind = \"lines\"
path = \"server.log\"
follow = true

[node.errors]
kind = \"filter\"
matches = \"ERROR\"

[node.out]
kind = \"print\"";

fn shape(takes: Takes) -> Shape {
    match takes {
        Takes::Text | Takes::Path | Takes::Name | Takes::Address => Shape::Text,
        Takes::Duration => Shape::Duration,
        Takes::Whole(least, most) => Shape::Whole(least, most),
        Takes::Number => Shape::Number,
        Takes::Flag => Shape::Flag,
        Takes::Word(words) => Shape::Word(words),
        Takes::Any => Shape::Any,
        Takes::List => Shape::List,
        Takes::Texts => Shape::Texts,
        Takes::Table => Shape::Table,
        Takes::Other(_, shape) => shape,
    }
}

fn entry(field: &Field) -> Entry {
    let without = match field.without {
        Without::Required => "required",
        Without::Means(what) => what,
    };
    let Field { name, takes, about, example, .. } = *field;
    Entry { name, takes: takes.to_string(), shape: shape(takes), without, about, example }
}

fn entries(fields: &[Field]) -> Vec<Entry> {
    fields.iter().map(entry).collect()
}

fn route() -> Vec<Entry> {
    ROUTE.iter().chain(CONDITIONS).map(entry).collect()
}

fn part(heading: impl Into<String>, about: impl Into<String>, entries: Vec<Entry>, example: impl Into<String>) -> Part {
    Part { heading: heading.into(), about: about.into(), entries, example: example.into() }
}

fn kind_part(kind: &Kind) -> Part {
    let role = match kind.role {
        Role::Source => "a source",
        Role::Stage => "a stage",
        Role::Sink => "a sink",
        Role::Any => "a source, a stage or a sink",
    };
    let mut about = format!("{}. It is {role}", kind.about);
    for (what, ports) in [("Inputs", kind.inputs), ("Outputs", kind.outputs)] {
        if !ports.is_empty() {
            let ports: Vec<String> = ports.iter().map(|port| format!("`{}` ({})", port.name, port.about)).collect();
            about += &format!(". {what}: {}", ports.join(", "));
        }
    }
    part(format!("kind = \"{}\"", kind.name), about, entries(kind.fields), "")
}

/// Everything about flow files.
///
/// ```
/// assert!(surface_flowfile::reference().text().contains("kind = \"filter\""));
/// ```
pub fn reference() -> Reference {
    let mut parts = vec![
        part("file", "the keys above the first section", entries(TOP), ""),
        part("[flow]", "settings of the whole flow", entries(FLOW), "[flow]\nworkers = 2\ndrain = \"2s\""),
        part(
            "[[edge]]",
            "an edge with its own settings",
            entries(EDGE),
            "[[edge]]\nfrom = \"imu\"\nto = \"log\"\ncapacity = 256\npolicy = \"drop\"",
        ),
        part(
            "[graph.NAME]",
            "a graph within the graph; from outside it is a node with the ports that it exposes",
            entries(NESTED),
            "[graph.clean]\nedges = [\"fir -> gate\"]\nexpose = { in = \"fir:in\", out = \"gate:out\" }",
        ),
        part(
            "[part.NAME]",
            "what one process runs: `bursar flow run FILE --part NAME`. Without `--part`, one process runs everything. Either way, an edge with `over` goes over its broker",
            entries(PART_KEYS),
            "[part.robot]\nnodes = [\"imu\"]\n\n[part.base]\nnodes = [\"log\"]",
        ),
        part(
            "[node.NAME]",
            "a node. Every node has these fields, and those of its kind; its input `control` takes \"stop\", \"pause\" and \"resume\"",
            entries(EVERY_NODE),
            "[node.parse]\nkind = \"map\"\nparse = \"json\"\non_error = \"dead-letter\"",
        ),
        part("retry", "how a message that fails is retried", entries(RETRY), ""),
        part("routes", "an entry of `routes` of a router", route(), ""),
    ];
    parts.extend(KINDS.iter().map(kind_part));
    Reference {
        title: "Flow file",
        intro: "nodes that pass messages, and the edges between them, in TOML or (if its name ends in .json) JSON. `bursar flow run FILE` runs it, `bursar flow check FILE` checks it, `bursar flow kinds` lists the kinds of nodes",
        example: EXAMPLE,
        command: "bursar help flowfile",
        parts,
    }
}

/// A node of one kind.
fn node_schema(kind: &Kind) -> Value {
    let fields: Vec<Entry> = entries(EVERY_NODE).into_iter().chain(entries(kind.fields)).collect();
    let mut node = object(&fields, None);
    node["properties"]["kind"] = json!({ "const": kind.name, "description": kind.about });
    if let Some(about) = fields.iter().find(|field| field.name == "retry") {
        node["properties"]["retry"] = described(about, object(&entries(RETRY), None));
    }
    if let Some(about) = fields.iter().find(|field| field.name == "routes") {
        let route = object(&route(), None);
        node["properties"]["routes"] = described(about, json!({ "type": "array", "items": route }));
    }
    let required = fields.iter().filter(|field| field.without == "required").map(|field| field.name);
    node["required"] = json!(required.collect::<Vec<_>>());
    node
}

/// A file, or a nested graph.
fn graph_schema(known: &[Field]) -> Value {
    let known = entries(known);
    let mut graph = object(&known, None);
    let mut edge = object(&entries(EDGE), None);
    edge["required"] = json!(["from", "to"]);
    for about in &known {
        let section = match about.name {
            "flow" => object(&entries(FLOW), None),
            "node" => json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/node" } }),
            "edge" => json!({ "type": "array", "items": edge }),
            "graph" => json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/graph" } }),
            "part" => {
                let mut part = object(&entries(PART_KEYS), None);
                part["required"] = json!(["nodes"]);
                json!({ "type": "object", "additionalProperties": part })
            }
            _ => continue,
        };
        graph["properties"][about.name] = described(about, section);
    }
    graph
}

/// The reference as a JSON Schema, for editors.
///
/// ```
/// assert!(surface_flowfile::schema().contains("\"on_error\""));
/// ```
pub fn schema() -> String {
    let mut file = graph_schema(TOP);
    let kinds: Vec<Value> = KINDS.iter().map(node_schema).collect();
    file["$defs"] = json!({ "graph": graph_schema(NESTED), "node": { "oneOf": kinds } });
    schema_text("Bursar flow file", file)
}
