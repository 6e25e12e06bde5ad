//! The plan for a terminal.
//!
//! Room: surface, pure.
//!
//! # Invariant
//! A line for each group, at most [`ROWS`]; who is drawn below another needs it, and other needs are named.
//!
//! # Why a tree
//! A group hangs below the deepest of its needs, so reading downwards is an order in which jobs can run. Deep plans are
//! listed by step instead: a line would not hold their indentation.

use std::collections::VecDeque;
use std::fmt::Write;

use super::picture::{Picture, longest_chain};
use crate::plan::Plan;
use crate::units::{clip, size};

const ROWS: usize = 200;
const DEEP: usize = 12;
/// Names of other needs, and of a chain, that are written out.
const NAMES: usize = 8;
const COLUMN: usize = 48;

pub(super) fn draw(plan: &Plan, picture: &Picture) -> String {
    let mut out = headline(plan, picture);
    let rows = if picture.layers > DEEP || picture.cards.len() > ROWS { steps(picture) } else { tree(picture) };
    let width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0).min(COLUMN);
    for (label, detail) in &rows {
        let gap = width.saturating_sub(label.chars().count()) + 3;
        let line = format!("  {label}{:gap$}{detail}", "");
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if rows.len() < picture.cards.len() {
        let _ = writeln!(out, "  … and {} more", picture.cards.len() - rows.len());
    }
    let chain = longest_chain(plan);
    if !chain.is_empty() {
        let mut names: Vec<String> = chain.iter().map(|&job| shown(&plan.jobs[job].group)).collect();
        let count = names.len();
        if count > NAMES {
            names.splice(NAMES / 2..count - NAMES / 2, ["…".to_owned()]);
        }
        let jobs = if count == 1 { "job" } else { "jobs" };
        let _ = writeln!(out, "\nlongest chain: {count} {jobs}, {}", names.join(" → "));
    }
    out
}

fn headline(plan: &Plan, picture: &Picture) -> String {
    let (jobs, groups) = (plan.jobs.len(), picture.cards.len());
    let mut out = format!("{}: {jobs} {}", shown(&plan.name), if jobs == 1 { "job" } else { "jobs" });
    if groups < jobs {
        let _ = write!(out, " in {groups} {}", if groups == 1 { "group" } else { "groups" });
    }
    let resources = &plan.resources;
    let amount = |mb: u64| if mb == 0 { "unlimited".to_owned() } else { size(mb) };
    let mut parts = Vec::new();
    parts.extend(resources.cpu.map(|cpu| format!("cpu {cpu}")));
    parts.extend(resources.ram_mb.map(|mb| format!("ram {}", amount(mb))));
    parts.extend(resources.vram_mb.map(|mb| format!("vram {}", amount(mb))));
    parts.extend(resources.named.iter().map(|(name, count)| format!("{} {count}", shown(name))));
    for part in parts {
        let _ = write!(out, " · {part}");
    }
    out.push_str("\n\n");
    out
}

/// What a terminal would act on is not sent to one.
fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn tree(picture: &Picture) -> Vec<(String, String)> {
    let cards = &picture.cards;
    let parent = |node: usize| cards[node].needs.iter().copied().rev().max_by_key(|&need| cards[need].layer);
    let mut children = vec![Vec::new(); cards.len()];
    let mut roots = VecDeque::new();
    for (node, card) in cards.iter().enumerate() {
        match parent(node).filter(|_| card.layer > 0) {
            Some(parent) => children[parent].push(node),
            None => roots.push_back(node),
        }
    }
    let mut rows = Vec::with_capacity(cards.len());
    // (node, what its line starts with, what its children's lines start with)
    let mut stack: Vec<(usize, String, String)> =
        roots.into_iter().rev().map(|root| (root, String::new(), String::new())).collect();
    while let Some((node, mark, below)) = stack.pop() {
        let under = if mark.is_empty() { None } else { parent(node) };
        let others = cards[node].needs.iter().copied().filter(|&need| Some(need) != under).collect::<Vec<_>>();
        rows.push((format!("{mark}{}", shown(&cards[node].label)), detail(picture, node, &others, under.is_some())));
        for (nth, &child) in children[node].iter().enumerate().rev() {
            let last = nth + 1 == children[node].len();
            let (branch, bar) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            stack.push((child, format!("{below}{branch}"), format!("{below}{bar}")));
        }
    }
    rows
}

fn steps(picture: &Picture) -> Vec<(String, String)> {
    let mut nodes: Vec<usize> = (0..picture.cards.len()).collect();
    nodes.sort_by_key(|&node| picture.cards[node].layer);
    nodes.truncate(ROWS);
    let row = |node: usize| {
        let card = &picture.cards[node];
        (format!("{:>4}  {}", card.layer + 1, shown(&card.label)), detail(picture, node, &card.needs, false))
    };
    nodes.into_iter().map(row).collect()
}

fn detail(picture: &Picture, node: usize, needs: &[usize], also: bool) -> String {
    let mut parts = Vec::new();
    if !picture.cards[node].detail.is_empty() {
        parts.push(shown(&picture.cards[node].detail));
    }
    if !needs.is_empty() {
        let names: Vec<String> =
            needs.iter().take(NAMES).map(|&need| clip(&shown(&picture.cards[need].label))).collect();
        let more = needs.len().saturating_sub(NAMES);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("{} {}{rest}", if also { "also needs" } else { "needs" }, names.join(", ")));
    }
    parts.join(" · ")
}
