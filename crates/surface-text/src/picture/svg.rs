//! A picture for a browser.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! Self-contained: no script, no font, no link. Layers go left to right; no two boxes overlap.
//!
//! # Why it looks tidy
//! Boxes of a layer are sorted by the mean position of the boxes they are joined with, swept to and fro a few times
//! (the barycentre heuristic): most crossings of arrows go away, for the price of a few sorts.

use std::collections::HashMap;
use std::fmt::Write;

use super::{Arrow, Picture};

const LETTER: usize = 8; // of a 13 px monospace font, rounded up
const BOX_HEIGHT: usize = 40;
const ROW: usize = 56;
const GAP: usize = 64;
const MARGIN: usize = 16;
const SWEEPS: usize = 4;
/// Longer labels are cut; the whole is in the tooltip.
const LABEL: usize = 40;

/// A letter at an arrow, of a 10 px font.
const SMALL: usize = 6;
/// How far below all boxes an arrow runs that goes back, and how far below that the next.
const DIP: usize = 16;

pub(super) fn draw(picture: &Picture) -> String {
    let layers = arrange(picture);
    let mut at = vec![(0, 0, 0); picture.nodes.len()]; // x, y, width
    let tallest = layers.iter().map(Vec::len).max().unwrap_or(0);
    let gaps = gaps(picture);
    let mut x = MARGIN;
    for (layer, gap) in layers.iter().zip(&gaps) {
        let letters = layer.iter().map(|&node| letters(picture, node)).max().unwrap_or(0);
        let width = letters * LETTER + 24;
        let top = MARGIN + (tallest - layer.len()) * ROW / 2;
        for (nth, &node) in layer.iter().enumerate() {
            at[node] = (x, top + nth * ROW, width);
        }
        x += width + gap;
    }
    let back = picture.arrows.iter().filter(|arrow| picture.goes_back(arrow)).count();
    let last_gap = gaps.last().copied().unwrap_or(GAP);
    let width = (x + MARGIN).saturating_sub(last_gap);
    let bottom = tallest * ROW + MARGIN;
    let height = bottom + MARGIN + back * DIP;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{}</title>\n<style>\n\
         text {{ font: 13px ui-monospace, monospace; fill: #1d2433 }}\n\
         .d {{ font-size: 10px; fill: #5b6475 }}\n\
         rect {{ fill: #f4f6fa; stroke: #8a94a6 }}\n\
         path {{ fill: none; stroke: #8a94a6 }}\n\
         .c {{ stroke: #d04437; stroke-dasharray: 5 3 }}\n\
         marker path {{ fill: #8a94a6 }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6e9f0 }} .d {{ fill: #a3adbf }} rect {{ fill: #262c3a }} }}\n\
         </style>\n",
        escaped(&picture.name)
    );
    // Left to right needs no arrow heads; a cycle does.
    let heads = back > 0 || picture.arrows.iter().any(|arrow| !arrow.label.is_empty());
    if heads {
        out.push_str(
            "<marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
             <path d=\"M0 0L8 4L0 8z\"/></marker>\n",
        );
    }
    let mut lowest = bottom;
    let mut drawn: HashMap<(usize, usize), usize> = HashMap::new();
    for arrow in &picture.arrows {
        let nth = drawn.entry((arrow.from, arrow.to)).or_default();
        let goes_back = picture.goes_back(arrow);
        lowest += if goes_back { DIP } else { 0 };
        line(&mut out, arrow, (at[arrow.from], at[arrow.to]), goes_back.then_some(lowest - DIP), *nth, heads);
        *nth += 1;
    }
    for (picture_node, &(x, y, width)) in picture.nodes.iter().zip(&at) {
        let _ =
            write!(out, "<g><title>{}</title>", escaped(&format!("{} {}", picture_node.label, picture_node.detail)));
        let _ = write!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>");
        let base = if picture_node.detail.is_empty() { y + 25 } else { y + 18 };
        let _ = write!(out, "<text x=\"{}\" y=\"{base}\">{}</text>", x + 12, escaped(&cut(&picture_node.label)));
        if !picture_node.detail.is_empty() {
            let _ = write!(
                out,
                "<text class=\"d\" x=\"{}\" y=\"{}\">{}</text>",
                x + 12,
                y + 33,
                escaped(&cut(&picture_node.detail))
            );
        }
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

/// An arrow and its label; the `nth` between the same two boxes is below the one before. One that goes back runs below all boxes, at `back`.
fn line(
    out: &mut String,
    arrow: &Arrow,
    (from, to): ((usize, usize, usize), (usize, usize, usize)),
    back: Option<usize>,
    nth: usize,
    heads: bool,
) {
    let shift = (nth * 10).min(BOX_HEIGHT / 2);
    let (path, label_x, label_y) = if let Some(lowest) = back {
        let (x1, x2) = (from.0 + from.2 / 2 + shift, to.0 + to.2 / 2 + shift);
        let (y1, y2) = (from.1 + BOX_HEIGHT, to.1 + BOX_HEIGHT);
        // A curve comes three quarters as near as its handles are.
        let handle = |y: usize| y + lowest.saturating_sub(y) * 4 / 3;
        let (h1, h2) = (handle(y1), handle(y2));
        (format!("M{x1} {y1}C{x1} {h1} {x2} {h2} {x2} {y2}"), (x1 + x2) / 2, lowest.saturating_sub(4))
    } else {
        let (x1, y1) = (from.0 + from.2, from.1 + BOX_HEIGHT / 2 + shift);
        let (x2, y2) = (to.0, to.1 + BOX_HEIGHT / 2 + shift);
        let (bend1, bend2) = (x1 + GAP / 2, x2.saturating_sub(GAP / 2));
        (format!("M{x1} {y1}C{bend1} {y1} {bend2} {y2} {x2} {y2}"), (x1 + x2) / 2, (y1 + y2) / 2 - 4)
    };
    let class = if arrow.control { " class=\"c\"" } else { "" };
    let head = if heads { " marker-end=\"url(#head)\"" } else { "" };
    let _ = writeln!(out, "<path{class} d=\"{path}\"{head}/>");
    if !arrow.label.is_empty() {
        let label = escaped(&cut(&arrow.label));
        let _ =
            writeln!(out, "<text class=\"d\" x=\"{label_x}\" y=\"{label_y}\" text-anchor=\"middle\">{label}</text>");
    }
}

/// The room behind each layer: labels of the arrows that leave it fit.
fn gaps(picture: &Picture) -> Vec<usize> {
    let mut gaps = vec![GAP; picture.layers];
    for arrow in picture.arrows.iter().filter(|arrow| !arrow.label.is_empty()) {
        let gap = &mut gaps[picture.nodes[arrow.from].layer];
        *gap = (*gap).max(cut(&arrow.label).chars().count() * SMALL + 24);
    }
    gaps
}

fn letters(picture: &Picture, node: usize) -> usize {
    let picture_node = &picture.nodes[node];
    cut(&picture_node.label).chars().count().max(cut(&picture_node.detail).chars().count() * 4 / 5)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LABEL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The boxes of each layer, top to bottom.
fn arrange(picture: &Picture) -> Vec<Vec<usize>> {
    let nodes = &picture.nodes;
    let mut layers = vec![Vec::new(); picture.layers];
    let mut users = vec![Vec::new(); nodes.len()];
    for (node, picture_node) in nodes.iter().enumerate() {
        layers[picture_node.layer].push(node);
        for &need in &picture_node.needs {
            users[need].push(node);
        }
    }
    let mut position = vec![0; nodes.len()];
    for layer in &layers {
        number(layer, &mut position);
    }
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        for nth in 0..layers.len() {
            let layer = &mut layers[if down { nth } else { picture.layers - 1 - nth }];
            // In 1024ths, so that the order is one of whole numbers, and the same everywhere.
            layer.sort_by_cached_key(|&node| {
                let tied = if down { &nodes[node].needs } else { &users[node] };
                match tied.len() {
                    0 => position[node] * 1024,
                    count => tied.iter().map(|&other| position[other]).sum::<usize>() * 1024 / count,
                }
            });
            number(layer, &mut position);
        }
    }
    layers
}

fn number(layer: &[usize], position: &mut [usize]) {
    for (nth, &node) in layer.iter().enumerate() {
        position[node] = nth;
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no way to write most of these.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
