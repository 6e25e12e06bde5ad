//! The plan for a browser.
//!
//! Room: surface, pure.
//!
//! # Invariant
//! Self-contained: no script, no font, no link. Layers stand left to right; no two boxes overlap.
//!
//! # Why it looks tidy
//! Boxes of a layer are sorted by the mean place of those they are tied to, swept to and fro a few times
//! (the barycentre heuristic): most crossings of arrows go away, for the price of a few sorts.

use std::fmt::Write;

use super::picture::Picture;
use crate::plan::Plan;

const LETTER: usize = 8; // of a 13 px monospace font, rounded up
const BOX_HEIGHT: usize = 40;
const ROW: usize = 56;
const GAP: usize = 64;
const MARGIN: usize = 16;
const SWEEPS: usize = 4;
/// Longer labels are cut; the whole is in the tooltip.
const LABEL: usize = 40;

pub(super) fn draw(plan: &Plan, picture: &Picture) -> String {
    let layers = arrange(picture);
    let mut at = vec![(0, 0, 0); picture.cards.len()]; // x, y, width
    let tallest = layers.iter().map(Vec::len).max().unwrap_or(0);
    let mut x = MARGIN;
    for layer in &layers {
        let letters = layer.iter().map(|&node| letters(picture, node)).max().unwrap_or(0);
        let width = letters * LETTER + 24;
        let top = MARGIN + (tallest - layer.len()) * ROW / 2;
        for (nth, &node) in layer.iter().enumerate() {
            at[node] = (x, top + nth * ROW, width);
        }
        x += width + GAP;
    }
    let (width, height) = ((x + MARGIN).saturating_sub(GAP), tallest * ROW + 2 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{}</title>\n<style>\n\
         text {{ font: 13px ui-monospace, monospace; fill: #1d2433 }}\n\
         .d {{ font-size: 10px; fill: #5b6475 }}\n\
         rect {{ fill: #f4f6fa; stroke: #8a94a6 }}\n\
         path {{ fill: none; stroke: #8a94a6 }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6e9f0 }} .d {{ fill: #a3adbf }} rect {{ fill: #262c3a }} }}\n\
         </style>\n",
        escaped(&plan.name)
    );
    for (user, card) in picture.cards.iter().enumerate() {
        for &need in &card.needs {
            let ((from_x, from_y, from_width), (to_x, to_y, _)) = (at[need], at[user]);
            let (x1, y1, x2, y2) = (from_x + from_width, from_y + BOX_HEIGHT / 2, to_x, to_y + BOX_HEIGHT / 2);
            let (bend1, bend2) = (x1 + GAP / 2, x2.saturating_sub(GAP / 2));
            let _ = writeln!(out, "<path d=\"M{x1} {y1}C{bend1} {y1} {bend2} {y2} {x2} {y2}\"/>");
        }
    }
    for (card, &(x, y, width)) in picture.cards.iter().zip(&at) {
        let _ = write!(out, "<g><title>{}</title>", escaped(&format!("{} {}", card.label, card.detail)));
        let _ = write!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>");
        let base = if card.detail.is_empty() { y + 25 } else { y + 18 };
        let _ = write!(out, "<text x=\"{}\" y=\"{base}\">{}</text>", x + 12, escaped(&cut(&card.label)));
        if !card.detail.is_empty() {
            let _ = write!(
                out,
                "<text class=\"d\" x=\"{}\" y=\"{}\">{}</text>",
                x + 12,
                y + 33,
                escaped(&cut(&card.detail))
            );
        }
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn letters(picture: &Picture, node: usize) -> usize {
    let card = &picture.cards[node];
    cut(&card.label).chars().count().max(cut(&card.detail).chars().count() * 4 / 5)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LABEL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The boxes of each layer, top to bottom.
fn arrange(picture: &Picture) -> Vec<Vec<usize>> {
    let cards = &picture.cards;
    let mut layers = vec![Vec::new(); picture.layers];
    let mut users = vec![Vec::new(); cards.len()];
    for (node, card) in cards.iter().enumerate() {
        layers[card.layer].push(node);
        for &need in &card.needs {
            users[need].push(node);
        }
    }
    let mut place = vec![0; cards.len()];
    for layer in &layers {
        number(layer, &mut place);
    }
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        for nth in 0..layers.len() {
            let layer = &mut layers[if down { nth } else { picture.layers - 1 - nth }];
            // In 1024ths, so that the order is one of whole numbers, and the same everywhere.
            layer.sort_by_cached_key(|&node| {
                let tied = if down { &cards[node].needs } else { &users[node] };
                match tied.len() {
                    0 => place[node] * 1024,
                    count => tied.iter().map(|&other| place[other]).sum::<usize>() * 1024 / count,
                }
            });
            number(layer, &mut place);
        }
    }
    layers
}

fn number(layer: &[usize], place: &mut [usize]) {
    for (nth, &node) in layer.iter().enumerate() {
        place[node] = nth;
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
