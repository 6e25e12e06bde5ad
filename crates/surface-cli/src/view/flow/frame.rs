//! The live area of a flow: its edges, its nodes, and a line for the whole.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! A frame has at most `height` lines, none wider than `width`, whatever the flow.
//!
//! # Why it holds
//! Tables are cut to the width; rows without room are only counted.
//! Checked by `a_frame_is_never_larger_than_the_terminal_and_always_shows_the_selected_edge`.

use std::ops::Range;

use console::measure_text_width;
use surface_text::amounts::latency;

use super::rates::Rates;
use crate::control::{EdgeLine, FlowLine, NodeLine};
use crate::view::paint::{Paint, cut};
use crate::view::printer::Shown;
use crate::view::table::{Column, fit, wanted};
use crate::view::text::{clean, count, errors, grouped, percent, rate, time};

const BAR: usize = 8;
/// What the keys do, in lines.
const KEYS: [&str; 4] = [
    " k  stop at once: the kill switch     q  deliver messages on their way, then stop",
    " ↑ ↓  select an edge     + -  double or halve its capacity",
    " p  its next band: normal, high, control     space  pause or resume all sources",
    " ?  this help     Ctrl-C  as q; twice, as k",
];

/// Everything a frame shows besides counters.
pub(crate) struct FrameContext {
    /// Keys select an edge.
    pub(crate) shown: Shown,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) paint: Paint,
}

/// The lines of the live area.
pub(crate) fn frame(flow: &FlowLine, rates: &Rates, context: &FrameContext) -> Vec<String> {
    let FrameContext { width, height, paint, .. } = *context;
    let mut foot: Vec<String> = Vec::new();
    if context.shown.shows_keys {
        foot.extend(KEYS.map(|line| paint.dim(line)));
    }
    foot.push(status(flow, rates, context));
    foot.drain(..foot.len().saturating_sub(height));
    // Two lines of titles, and an empty one between.
    let room = height.saturating_sub(foot.len());
    let (edges, nodes) = share(flow.edges.len(), flow.nodes.len(), room.saturating_sub(3));
    let mut lines = Vec::new();
    if edges > 0 {
        lines.extend(some(flow.edges.len(), edges, context.shown.selected.unwrap_or(0), paint, |shown| {
            edge_table(flow, rates, shown, context)
        }));
    }
    if edges > 0 && nodes > 0 {
        lines.push(String::new());
    }
    if nodes > 0 {
        lines.extend(some(flow.nodes.len(), nodes, 0, paint, |shown| node_table(flow, rates, shown, context)));
    }
    lines.truncate(room);
    lines.extend(foot);
    cut(&mut lines, width);
    lines
}

/// How many rows edges and nodes get: what they want, else half of the room each, or what the other leaves.
fn share(edges: usize, nodes: usize, room: usize) -> (usize, usize) {
    if edges + nodes <= room {
        return (edges, nodes);
    }
    let half = room / 2;
    let for_edges = if nodes < half { room - nodes } else { edges.min(room - half) };
    (for_edges, room - for_edges)
}

/// A table of as many rows as there is room for, around row `near`; the last line says how many are not shown.
fn some(
    all: usize,
    room: usize,
    near: usize,
    paint: Paint,
    table: impl Fn(Range<usize>) -> Vec<String>,
) -> Vec<String> {
    if all <= room {
        return table(0..all);
    }
    let rows = room - 1;
    let first = near.saturating_sub(rows / 2).min(all - rows);
    let mut lines = table(first..first + rows);
    lines.push(paint.dim(&format!(" … and {} more", all - rows)));
    lines
}

fn edge_table(flow: &FlowLine, rates: &Rates, shown: Range<usize>, context: &FrameContext) -> Vec<String> {
    let FrameContext { paint, width, .. } = *context;
    let edges: Vec<(usize, &EdgeLine)> = flow.edges.iter().enumerate().skip(shown.start).take(shown.len()).collect();
    let cells = |cell: &dyn Fn(usize, &EdgeLine) -> String| edges.iter().map(|(at, edge)| cell(*at, edge)).collect();
    let names = |short: bool| {
        cells(&|at, edge: &EdgeLine| {
            let mark = if context.shown.selected == Some(at) { "▸" } else { " " };
            let id = clean(&edge.id);
            format!("{mark}{}", if short { shortened(&id) } else { id })
        })
    };
    let most = edges.iter().map(|(_, edge)| filled(edge).len()).max().unwrap_or(0);
    let mut columns = vec![
        Column::left(" EDGE", 9, names(false)),
        Column::left("BAND", 2, cells(&|_, edge| band(&edge.band, paint))),
        Column::left("POLICY", 3, cells(&|_, edge| edge.policy.clone())),
        Column::left("WAITING", 8, cells(&|_, edge| format!("{} {:>most$}", bar(edge, paint), filled(edge)))),
        Column::right("RATE/S", 7, cells(&|at, _| rate(rates.edge(at)))),
        Column::right("DELIVERED", 4, cells(&|_, edge| count(edge.delivered))),
        Column::left("", 5, cells(&|_, edge| lost(edge, paint))),
        // Last, so that no other column moves when it appears.
        Column::left("", 6, cells(&|_, edge| if edge.blocked { paint.red("■ blocked") } else { String::new() })),
    ];
    if wanted(&columns) > width {
        columns[0].cells = names(true);
    }
    fit(columns, width, paint)
}

/// `imu->filter` where the ports are the usual ones: it is still a name of the edge.
fn shortened(id: &str) -> String {
    match id.split_once("->") {
        Some((from, to)) => {
            let from = from.strip_suffix(":out").unwrap_or(from);
            format!("{from}->{}", to.strip_suffix(":in").unwrap_or(to))
        }
        None => id.to_owned(),
    }
}

fn filled(edge: &EdgeLine) -> String {
    format!("{}/{}", edge.depth, edge.capacity)
}

fn bar(edge: &EdgeLine, paint: Paint) -> String {
    let part = edge.depth as f64 / edge.capacity.max(1) as f64;
    // One message is visible, too: an empty bar means empty.
    let full = ((part * BAR as f64).round() as usize).clamp(usize::from(edge.depth > 0), BAR);
    let (on, off) = ("█".repeat(full), "░".repeat(BAR - full));
    let on = match part {
        part if part >= 0.95 => paint.red(&on),
        part if part >= 0.5 => paint.yellow(&on),
        _ => paint.green(&on),
    };
    format!("{}{}", if full == 0 { String::new() } else { on }, paint.dim(&off))
}

fn band(band: &str, paint: Paint) -> String {
    match band {
        "control" => paint.red(band),
        "high" => paint.yellow(band),
        _ => paint.dim(band),
    }
}

/// What was dropped, replaced or merged.
fn lost(edge: &EdgeLine, paint: Paint) -> String {
    let mut says = Vec::new();
    for (number, what) in [(edge.dropped, "dropped"), (edge.replaced, "replaced"), (edge.coalesced, "merged")] {
        if number > 0 {
            says.push(paint.yellow(&format!("{} {what}", count(number))));
        }
    }
    says.join(" ")
}

fn node_table(flow: &FlowLine, rates: &Rates, shown: Range<usize>, context: &FrameContext) -> Vec<String> {
    let FrameContext { paint, width, .. } = *context;
    let nodes: Vec<(usize, &NodeLine)> = flow.nodes.iter().enumerate().skip(shown.start).take(shown.len()).collect();
    let cells = |cell: &dyn Fn(usize, &NodeLine) -> String| nodes.iter().map(|(at, node)| cell(*at, node)).collect();
    let if_any = |number: u64, text: String| if number == 0 { String::new() } else { text };
    let columns = vec![
        Column::left(" NODE", 9, cells(&|_, node| format!(" {}", clean(&node.id)))),
        Column::left("STATE", 7, cells(&|_, node| state(&node.state, paint))),
        Column::right("MSG/S", 6, cells(&|at, _| rate(rates.node(at)))),
        Column::right("P50", 3, cells(&|_, node| if_any(node.messages, latency(node.p50_us)))),
        Column::right("P99", 4, cells(&|_, node| if_any(node.messages, latency(node.p99_us)))),
        Column::right("BUSY", 5, cells(&|at, _| percent(rates.busy(at)))),
        Column::right("ERRORS", 8, cells(&|_, node| if_any(node.errors, paint.red(&count(node.errors))))),
        Column::left("", 1, cells(&|_, node| node.last_error.as_deref().map(clean).unwrap_or_default())),
    ];
    fit(cut_last(columns, width), width, paint)
}

/// Cuts the last column, which holds error messages, to the remaining width.
fn cut_last(mut columns: Vec<Column>, width: usize) -> Vec<Column> {
    const LEAST: usize = 12;
    if let Some(mut last) = columns.pop() {
        let room = width.saturating_sub(wanted(&columns) + 2);
        if room >= LEAST {
            let cut = |cell: &String| console::truncate_str(cell, room, "…").into_owned();
            last.cells = last.cells.iter().map(cut).collect();
            columns.push(last);
        }
    }
    columns
}

fn state(state: &str, paint: Paint) -> String {
    match state {
        "running" => paint.green(state),
        "paused" => paint.yellow(state),
        "failed" => paint.red(state),
        _ => paint.dim(state),
    }
}

fn status(flow: &FlowLine, rates: &Rates, context: &FrameContext) -> String {
    let totals = flow.totals();
    let some = |number: u64, what: &str| (number > 0).then(|| format!("{} {what}", grouped(number)));
    let keys = context.shown.selected.map(|_| "k kill · q stop · ? keys".to_owned());
    // With a weight: where there is no room, parts with the lowest weight are left out.
    let mut parts: Vec<(u8, String)> = [
        (9, Some(format!("{} {}", flow.flow, clean(&flow.name)))),
        (8, context.shown.note.clone()),
        (7, Some(time(flow.elapsed()))),
        (6, Some(format!("{} msg/s", rate(rates.delivered())))),
        (4, Some(format!("{} delivered", grouped(totals.delivered)))),
        (5, some(totals.lost, "lost")),
        (1, some(totals.dropped + totals.replaced, "lost by policy")),
        (0, some(totals.coalesced, "merged")),
        (5, some(totals.errors, errors(totals.errors))),
        (2, Some(format!("load {}", percent(rates.load())))),
        (3, keys),
    ]
    .into_iter()
    .filter_map(|(worth, part)| part.map(|part| (worth, part)))
    .collect();
    let wide = |parts: &[(u8, String)]| parts.iter().map(|(_, part)| measure_text_width(part) + 3).sum::<usize>();
    while parts.len() > 1 && wide(&parts) > context.width + 2 {
        let least = (0..parts.len()).min_by_key(|at| parts[*at].0).unwrap_or(0);
        parts.remove(least);
    }
    let line = parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(" · ");
    match &context.shown.note {
        Some(_) => context.paint.yellow(&format!(" {line}")),
        None => context.paint.dim(&format!(" {line}")),
    }
}
