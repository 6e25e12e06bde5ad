//! Nodes in between, where a port carries something else than JSON.
//!
//! Room: surface.
//!
//! # Invariant
//! A shim is called `NODE!PORT`, which no file can write, and stands in the graph of its node. There is one for each such port that has
//! an edge, whatever the number of edges.

use std::collections::HashSet;

use bursar::flow::{Control, DeadLetter, Graph, InPort, NodeError, NodeSpec, OutPort, map, try_map};
use serde_json::{Value, json};

use crate::action::Action;
use crate::plan::{CONTROL, Edge, Node, Plan};

/// What a port carries that is no JSON.
enum Carries {
    /// A message that was given up; of a source, a line that it could not read.
    Dead,
    Pair,
}

fn carries(node: &Node, output: &str) -> Option<Carries> {
    match node.action {
        _ if node.dead_outputs().iter().any(|dead| dead == output) => Some(Carries::Dead),
        Action::Correlator { .. } if output == "out" => Some(Carries::Pair),
        _ => None,
    }
}

/// Makes JSON of what a port carries. `fed`: whether messages come into its node, which for a program its edges decide.
fn to_json(carried: &Carries, fed: bool) -> NodeSpec {
    match carried {
        Carries::Dead if fed => {
            map(|dead: DeadLetter<Value>| json!({ "value": dead.payload, "why": &*dead.error, "tries": dead.tries }))
        }
        Carries::Dead => map(|dead: DeadLetter<Vec<u8>>| {
            let line = String::from_utf8_lossy(&dead.payload).into_owned();
            json!({ "value": line, "why": &*dead.error, "tries": dead.tries })
        }),
        Carries::Pair => map(|(left, right): (Value, Value)| json!({ "left": left, "right": right })),
    }
}

/// The name of the shim at a port.
fn shim(node: &str, port: &str) -> String {
    format!("{node}!{port}")
}

/// The ports that an edge of the plan joins in the flow: its own, or those of shims.
pub(crate) fn ends(plan: &Plan, edge: &Edge) -> (String, String) {
    let id = |node: usize| plan.nodes.get(node).map_or("?", |node| node.id.as_str());
    let carried = plan.nodes.get(edge.from).and_then(|node| carries(node, &edge.output));
    let start = match carried {
        Some(_) => format!("{}:out", shim(id(edge.from), &edge.output)),
        None => format!("{}:{}", id(edge.from), edge.output),
    };
    let end = match edge.input.as_str() {
        CONTROL => format!("{}:in", shim(id(edge.to), CONTROL)),
        input => format!("{}:{input}", id(edge.to)),
    };
    (start, end)
}

/// The shims that a graph has already.
#[derive(Default)]
pub(crate) struct Shims(HashSet<String>);

impl Shims {
    /// Adds those that an edge needs. `fed`: whether messages come into the node it leaves.
    pub(crate) fn add(&mut self, plan: &Plan, edge: &Edge, fed: bool, graph: &mut Graph) {
        let (from, to) = (&plan.nodes[edge.from], &plan.nodes[edge.to]);
        if let Some(carried) = carries(from, &edge.output) {
            let name = shim(&from.id, &edge.output);
            if self.0.insert(name.clone()) {
                let added = graph.add_at(name, to_json(&carried, fed));
                graph.connect(OutPort::from(format!("{}:{}", from.id, edge.output).as_str()), &added);
            }
        }
        if edge.input == CONTROL {
            let name = shim(&to.id, CONTROL);
            if self.0.insert(name.clone()) {
                let added = graph.add_at(name, try_map(steering));
                graph.connect(&added, InPort::from(format!("{}:{CONTROL}", to.id).as_str())).control();
            }
        }
    }
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
