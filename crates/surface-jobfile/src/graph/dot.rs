//! The plan for Graphviz.
//!
//! Room: surface, pure.
//!
//! # Invariant
//! Boxes are called by numbers; what people wrote stands only in quotes, escaped.

use std::fmt::Write;

use super::picture::Picture;
use crate::plan::Plan;

pub(super) fn draw(plan: &Plan, picture: &Picture) -> String {
    let mut out = format!("digraph {} {{\n  rankdir=LR;\n  node [shape=box, style=rounded];\n", quoted(&plan.name));
    for (node, card) in picture.cards.iter().enumerate() {
        let label =
            if card.detail.is_empty() { card.label.clone() } else { format!("{}\n{}", card.label, card.detail) };
        let _ = writeln!(out, "  n{node} [label={}];", quoted(&label));
    }
    for (user, card) in picture.cards.iter().enumerate() {
        for need in &card.needs {
            let _ = writeln!(out, "  n{need} -> n{user};");
        }
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
