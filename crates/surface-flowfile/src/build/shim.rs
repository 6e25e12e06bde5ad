//! Nodes in between, where a port carries something else than JSON.
//!
//! Room: surface.
//!
//! # Invariant
//! A shim is called `NODE!PORT`, which no file can write, and stands in the graph of its node. There is one for each such port that has
//! an edge, whatever the number of edges.

use bursar::flow::{Control, DeadLetter, NodeError, NodeSpec, map, try_map};
use serde_json::{Value, json};

use super::tree::{Port, Tree};
use crate::action::Action;
use crate::plan::{CONTROL, Edge, Node, Plan};

/// What a port carries.
enum Carries {
    Json,
    DeadLetter,
    /// A line that a source could not read.
    BadLine,
    Pair,
}

/// `fed`: whether messages come into the node, which for a program its edges decide.
fn carries(node: &Node, output: &str, fed: bool) -> Carries {
    match node.action {
        _ if node.dead_outputs().iter().any(|dead| dead == output) => {
            if fed {
                Carries::DeadLetter
            } else {
                Carries::BadLine
            }
        }
        Action::Correlator { .. } if output == "out" => Carries::Pair,
        _ => Carries::Json,
    }
}

/// The ports an edge of the plan joins, with the shims it needs. `fed`: whether messages come into the node it leaves.
pub(crate) fn ends(plan: &Plan, edge: &Edge, fed: bool, tree: &mut Tree) -> (Port, Port) {
    let (from, to) = (&plan.nodes[edge.from], &plan.nodes[edge.to]);
    let spec: Option<fn() -> NodeSpec> = match carries(from, &edge.output, fed) {
        Carries::Json => None,
        Carries::DeadLetter => Some(|| {
            map(|dead: DeadLetter<Value>| json!({ "value": dead.payload, "why": &*dead.error, "tries": dead.tries }))
        }),
        Carries::BadLine => Some(|| {
            map(|dead: DeadLetter<Vec<u8>>| {
                let line = String::from_utf8_lossy(&dead.payload).into_owned();
                json!({ "value": line, "why": &*dead.error, "tries": dead.tries })
            })
        }),
        Carries::Pair => Some(|| map(|(left, right): (Value, Value)| json!({ "left": left, "right": right }))),
    };
    let start = match spec {
        None => Port::new(&from.id, &edge.output),
        Some(spec) => {
            let shim = format!("{}!{}", from.id, edge.output);
            if tree.add_once(&shim, spec) {
                tree.join(&Port::new(&from.id, &edge.output), &Port::new(&shim, "in"));
            }
            Port::new(&shim, "out")
        }
    };
    let end = if edge.input == CONTROL {
        let shim = format!("{}!{CONTROL}", to.id);
        if tree.add_once(&shim, || try_map(steering)) {
            tree.steer(&Port::new(&shim, "out"), &Port::new(&to.id, CONTROL));
        }
        Port::new(&shim, "in")
    } else {
        Port::new(&to.id, &edge.input)
    };
    (start, end)
}

/// What a message says to a node: `"stop"`, `"pause"` or `"resume"`; or all that is no text, which stops it.
fn steering(message: Value) -> Result<Control, NodeError> {
    match message.as_str() {
        None | Some("stop") => Ok(Control::Stop),
        Some("pause") => Ok(Control::Pause),
        Some("resume") => Ok(Control::Resume),
        Some(other) => {
            let other = surface_text::units::clip(other);
            Err(NodeError::msg(format!("`{other}` steers nothing; send \"stop\", \"pause\" or \"resume\"")))
        }
    }
}

pub(crate) fn edge_id(plan: &Plan, edge: &Edge) -> String {
    let id = |node: usize| plan.nodes.get(node).map_or("?", |node| node.id.as_str());
    // A shim is called the same, whether or not messages come into its node.
    let start = match plan.nodes.get(edge.from).map(|node| carries(node, &edge.output, true)) {
        Some(Carries::DeadLetter | Carries::BadLine | Carries::Pair) => {
            format!("{}!{}:out", id(edge.from), edge.output)
        }
        _ => format!("{}:{}", id(edge.from), edge.output),
    };
    if edge.input == CONTROL {
        return format!("{start}->{}!{CONTROL}:in", id(edge.to));
    }
    format!("{start}->{}:{}", id(edge.to), edge.input)
}
