//! Adapter nodes, where a port does not carry JSON.
//!
//! Room: surface.
//!
//! # Invariant
//! A shim has the id `NODE!PORT`, which no file can contain, and is in the graph of its node. Each such port that has
//! edges has exactly one.

use std::collections::HashSet;

use bursar::flow::{Control, DeadLetter, Graph, InPort, NodeError, NodeSpec, OutPort, map, try_map};
use serde_json::{Value, json};

use crate::action::Action;
use crate::plan::{CONTROL, Edge, Node, Plan};

/// What a port carries that is not JSON.
enum Carries {
    /// A dead letter; of a source, a line that it could not read.
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

/// Converts what a port carries to JSON. `fed`: whether its node has an input edge.
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

/// The ports that an edge of the plan connects in the flow: its own, or those of shims.
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
    /// Adds those that an edge needs. `fed`: whether the node it leaves has an input edge.
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
                let added = graph.add_at(name, try_map(control));
                graph.connect(&added, InPort::from(format!("{}:{CONTROL}", to.id).as_str())).control();
            }
        }
    }
}

/// A message as a control message: `"stop"`, `"pause"` or `"resume"`; any value that is not a text means stop.
fn control(message: Value) -> Result<Control, NodeError> {
    match message.as_str() {
        None | Some("stop") => Ok(Control::Stop),
        Some("pause") => Ok(Control::Pause),
        Some("resume") => Ok(Control::Resume),
        Some(other) => {
            let other = surface_text::units::clip(other);
            Err(NodeError::msg(format!("`{other}` is not a control message; send \"stop\", \"pause\" or \"resume\"")))
        }
    }
}
