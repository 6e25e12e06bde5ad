//! Pictures of a plan: for a terminal, for Graphviz, for a browser.
//!
//! Room: surface.
//!
//! # Invariant
//! A picture is a function of the plan, the same every time; texts of the file are escaped; control edges look different from all others.

use std::fmt::Write;

use surface_text::amounts::counted;
use surface_text::picture::{Arrow, Picture, PictureNode, shown};
use surface_text::units::clip;

use crate::action::Action;
use crate::plan::{CAPACITY, CONTROL, Edge, PRIORITY_CONTROL, PRIORITY_HIGH, Plan, Policy};

/// Limit of edges that are listed for a terminal; further ones are only counted.
const EDGES: usize = 200;

/// For a terminal: each node below the nodes that feed it, then the edges with policy and capacity.
///
/// ```
/// let plan = surface_flowfile::parse("count.toml", r#"
///     edges = ["count -> even"]
///     [node.count]
///     kind = "numbers"
///     to = 10
///     [node.even]
///     kind = "sample"
///     every = 2
///     [node.show]
///     kind = "print"
///     [[edge]]
///     from = "even"
///     to = "show"
///     policy = "latest"
/// "#)?;
/// assert_eq!(surface_flowfile::graph::text(&plan), "\
/// count: 3 nodes, 2 edges
///
///   count        numbers
///   └─ even      sample
///      └─ show   print
///
///   count:out->even:in   block 1024
///   even:out->show:in    latest 1024
/// ");
/// # Ok::<(), surface_flowfile::Problems>(())
/// ```
pub fn text(plan: &Plan) -> String {
    let (nodes, edges) = (counted(plan.nodes.len(), "node"), counted(plan.edges.len(), "edge"));
    let mut out = format!("{}: {nodes}, {edges}\n\n{}", shown(&plan.name), picture(plan).rows("from"));
    if plan.edges.is_empty() {
        return out;
    }
    out.push('\n');
    let ids: Vec<String> = plan.edges.iter().take(EDGES).map(|edge| shown(&plan.edge_id(edge))).collect();
    let width = ids.iter().map(|id| id.chars().count()).max().unwrap_or(0);
    for (edge, id) in plan.edges.iter().zip(&ids) {
        let gap = width - id.chars().count() + 3;
        let band = band(edge).map_or_else(String::new, |band| format!(", {band}"));
        let over = edge.over.as_ref().map_or_else(String::new, |over| format!(", over {over}"));
        let _ = writeln!(out, "  {id}{:gap$}{} {}{band}{over}", "", edge.policy.name(), edge.capacity);
    }
    if plan.edges.len() > EDGES {
        let _ = writeln!(out, "  … and {} more", plan.edges.len() - EDGES);
    }
    out
}

/// For Graphviz: `bursar flow graph FILE --dot | dot -Tpdf`.
///
/// ```
/// let plan = surface_flowfile::parse("a.toml", "edges = ['a -> b']\n[node.a]\nkind = 'stdin'\n[node.b]\nkind = 'print'")?;
/// assert!(surface_flowfile::graph::dot(&plan).contains("n0 -> n1;"));
/// # Ok::<(), surface_flowfile::Problems>(())
/// ```
pub fn dot(plan: &Plan) -> String {
    picture(plan).dot()
}

/// For a browser: one file without scripts, left to right.
pub fn svg(plan: &Plan) -> String {
    picture(plan).svg()
}

fn picture(plan: &Plan) -> Picture {
    let cards = plan.nodes.iter().map(|node| {
        let detail = match &node.action {
            Action::Command(command) => {
                let line = if command.argv.first().is_some_and(|program| program == "sh") && command.argv.len() == 3 {
                    command.argv[2].clone()
                } else {
                    command.argv.join(" ")
                };
                format!("$ {}", clip(&line))
            }
            _ => node.kind.name.to_owned(),
        };
        PictureNode::new(node.id.clone(), detail)
    });
    let arrows = plan.edges.iter().map(|edge| Arrow {
        from: edge.from,
        to: edge.to,
        label: label(edge),
        control: edge.is_control(),
        loose: edge.breaks_circles(),
    });
    Picture::new(&plan.name, cards.collect(), arrows.collect())
}

/// What is not default at an edge: ports, policy, capacity, band.
fn label(edge: &Edge) -> String {
    let mut parts = Vec::new();
    match (edge.output.as_str(), edge.input.as_str()) {
        ("out", "in") => {}
        (output, "in") => parts.push(output.to_owned()),
        ("out", input) => parts.push(input.to_owned()),
        (output, input) => parts.push(format!("{output}→{input}")),
    }
    match (edge.policy, edge.capacity) {
        (Policy::Block, CAPACITY) => {}
        (policy, capacity) => parts.push(format!("{} {capacity}", policy.name())),
    }
    parts.extend(edge.over.as_ref().map(|over| format!("over {over}")));
    // An edge into `control` shows that by its port.
    parts.extend(band(edge).filter(|band| !(edge.input == CONTROL && band == CONTROL)));
    parts.join(", ")
}

fn band(edge: &Edge) -> Option<String> {
    match edge.priority {
        None if edge.input == CONTROL => Some("control".to_owned()),
        None | Some(0) => None,
        Some(priority) => named(priority),
    }
}

fn named(priority: i32) -> Option<String> {
    match priority {
        priority if priority >= PRIORITY_CONTROL => {
            Some(if priority == 100 { "control".to_owned() } else { format!("control {priority}") })
        }
        PRIORITY_HIGH => Some("high".to_owned()),
        priority => Some(format!("priority {priority}")),
    }
}
