//! A picture for a terminal.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! A line for each box, at most [`ROWS`]; what is drawn below another needs it, and other needs are named.
//!
//! # Why a tree
//! A box hangs below the deepest of its needs, so reading downwards is an order in which things can happen. Deep pictures are
//! listed by step instead: a line would not hold their indentation.

use std::collections::VecDeque;
use std::fmt::Write;

use super::Picture;
use crate::units::clip;

const ROWS: usize = 200;
const DEEP: usize = 12;
/// Names of other needs that are written out.
const NAMES: usize = 8;
const COLUMN: usize = 48;

pub(super) fn draw(picture: &Picture, needs: &str) -> String {
    let rows =
        if picture.layers > DEEP || picture.nodes.len() > ROWS { steps(picture, needs) } else { tree(picture, needs) };
    let width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0).min(COLUMN);
    let mut out = String::new();
    for (label, detail) in &rows {
        let gap = width.saturating_sub(label.chars().count()) + 3;
        let line = format!("  {label}{:gap$}{detail}", "");
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if rows.len() < picture.nodes.len() {
        let _ = writeln!(out, "  … and {} more", picture.nodes.len() - rows.len());
    }
    out
}

/// The name without characters that a terminal would act on.
pub fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn tree(picture: &Picture, word: &str) -> Vec<(String, String)> {
    let nodes = &picture.nodes;
    let parent = |node: usize| nodes[node].needs.iter().copied().rev().max_by_key(|&need| nodes[need].layer);
    let mut children = vec![Vec::new(); nodes.len()];
    let mut roots = VecDeque::new();
    for (node, picture_node) in nodes.iter().enumerate() {
        match parent(node).filter(|_| picture_node.layer > 0) {
            Some(parent) => children[parent].push(node),
            None => roots.push_back(node),
        }
    }
    let mut rows = Vec::with_capacity(nodes.len());
    // (node, what its line starts with, what its children's lines start with)
    let mut stack: Vec<(usize, String, String)> =
        roots.into_iter().rev().map(|root| (root, String::new(), String::new())).collect();
    while let Some((node, mark, below)) = stack.pop() {
        let under = if mark.is_empty() { None } else { parent(node) };
        let others = nodes[node].needs.iter().copied().filter(|&need| Some(need) != under).collect::<Vec<_>>();
        rows.push((
            format!("{mark}{}", shown(&nodes[node].label)),
            detail(picture, node, &others, word, under.is_some()),
        ));
        for (nth, &child) in children[node].iter().enumerate().rev() {
            let last = nth + 1 == children[node].len();
            let (branch, bar) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            stack.push((child, format!("{below}{branch}"), format!("{below}{bar}")));
        }
    }
    rows
}

fn steps(picture: &Picture, word: &str) -> Vec<(String, String)> {
    let mut nodes: Vec<usize> = (0..picture.nodes.len()).collect();
    nodes.sort_by_key(|&node| picture.nodes[node].layer);
    nodes.truncate(ROWS);
    let row = |node: usize| {
        let picture_node = &picture.nodes[node];
        (
            format!("{:>4}  {}", picture_node.layer + 1, shown(&picture_node.label)),
            detail(picture, node, &picture_node.needs, word, false),
        )
    };
    nodes.into_iter().map(row).collect()
}

fn detail(picture: &Picture, node: usize, needs: &[usize], word: &str, also: bool) -> String {
    let mut parts = Vec::new();
    if !picture.nodes[node].detail.is_empty() {
        parts.push(shown(&picture.nodes[node].detail));
    }
    if !needs.is_empty() {
        let names: Vec<String> =
            needs.iter().take(NAMES).map(|&need| clip(&shown(&picture.nodes[need].label))).collect();
        let more = needs.len().saturating_sub(NAMES);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("{}{word} {}{rest}", if also { "also " } else { "" }, names.join(", ")));
    }
    parts.join(" · ")
}
