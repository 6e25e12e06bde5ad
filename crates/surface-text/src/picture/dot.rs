//! A picture for Graphviz.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! Boxes are named by numbers; text from the file is only in quotes, escaped.

use std::fmt::Write;

use super::Picture;

pub(super) fn draw(picture: &Picture) -> String {
    let name = quoted(&picture.name);
    let mut out = format!("digraph {name} {{\n  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    for (node, picture_node) in picture.nodes.iter().enumerate() {
        let label = if picture_node.detail.is_empty() {
            picture_node.label.clone()
        } else {
            format!("{}\n{}", picture_node.label, picture_node.detail)
        };
        let _ = writeln!(out, "  n{node} [label={}];", quoted(&label));
    }
    for arrow in &picture.arrows {
        let mut looks = Vec::new();
        looks.extend((!arrow.label.is_empty()).then(|| format!("label={}", quoted(&arrow.label))));
        looks.extend(arrow.control.then(|| "style=dashed, color=red".to_owned()));
        // Otherwise Graphviz would reverse the cycle.
        looks.extend((arrow.loose && picture.goes_back(arrow)).then(|| "constraint=false".to_owned()));
        let looks = if looks.is_empty() { String::new() } else { format!(" [{}]", looks.join(", ")) };
        let _ = writeln!(out, "  n{} -> n{}{looks};", arrow.from, arrow.to);
    }
    out.push_str("}\n");
    out
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push('\u{fffd}'),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
