//! A flow in lines: for people without a terminal, for files, and for programs.
//!
//! Room: surface, pure.
//!
//! ```text
//!     1.000  1,203 msg/s · 1,210 delivered · full: imu:out->slow:in 64/64
//!     2.101  error     parse: expected a number (3 errors)
//! ```
//!
//! JSON: an object a line. Always `v` (1), `at_ms`, `event`. The events: `flow_started` (`flow`, `name`, `pid`, `nodes`, `edges`: how many),
//! `stats` (`flow`: everything counted, once a second if anything moved), `printed` (`text`: a line of a node that prints), `failed` (`node`,
//! `error`, `errors`), `said` (`text`), `flow_ended` (`outcome`: `done`, `stopped`, `late`, `failed`, `lost`, `interrupted` or `killed`; `error`;
//! `totals`; `flow`).

use std::time::Duration;

use serde::Serialize;

use super::rates::Rates;
use super::words::{grouped, rate};
use crate::flow::wire::{EdgeLine, FlowLine, Totals};
use crate::view::text::{clean, time};

/// Full edges that a line names.
const NAMED: usize = 3;

/// How a flow ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its sources ended, and everything was delivered.
    Done,
    /// Somebody, or this node of it, wanted it to end, and everything was delivered.
    Stopped(Option<String>),
    /// The time to deliver what was on its way was over.
    Late,
    /// A node failed, and its policy stops the graph.
    Failed(String),
    /// It came to its end, and messages were lost on the way.
    Lost(String),
    /// A signal ended it.
    Interrupted,
    /// It was stopped at once.
    Killed,
}

impl Ended {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Ended::Done => "done",
            Ended::Stopped(_) => "stopped",
            Ended::Late => "late",
            Ended::Failed(_) => "failed",
            Ended::Lost(_) => "lost",
            Ended::Interrupted => "interrupted",
            Ended::Killed => "killed",
        }
    }
}

/// An event for programs.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Told<'a> {
    pub(crate) v: u32,
    pub(crate) at_ms: u64,
    pub(crate) event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flow: Option<Flow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) edges: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) errors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) totals: Option<Totals>,
}

/// The name of a flow, or all about it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Flow<'a> {
    Name(&'a str),
    Whole(&'a FlowLine),
}

impl<'a> Told<'a> {
    pub(crate) fn new(at: Duration, event: &'static str) -> Told<'a> {
        Told { v: 1, at_ms: at.as_millis() as u64, event, ..Told::default() }
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn stamp(at: Duration) -> String {
    format!("{:>5}.{:03}  ", at.as_secs(), at.subsec_millis())
}

/// What moved, once a second.
pub(crate) fn plain(flow: &FlowLine, rates: &Rates) -> String {
    let totals = flow.totals();
    let mut parts =
        vec![format!("{} msg/s", rate(rates.delivered())), format!("{} delivered", grouped(totals.delivered))];
    let counts = [
        (totals.held, "in hand"),
        (totals.lost, "lost"),
        (totals.failed, "failed"),
        (totals.unwanted, "not wanted"),
        (totals.unconnected, "to outputs without an edge"),
        (totals.dropped, "dropped"),
        (totals.replaced, "replaced"),
        (totals.coalesced, "merged"),
    ];
    for (number, what) in counts {
        if number > 0 {
            parts.push(format!("{} {what}", grouped(number)));
        }
    }
    let is_full = |edge: &&EdgeLine| edge.blocked || edge.depth >= edge.capacity;
    let full: Vec<&EdgeLine> = flow.edges.iter().filter(is_full).collect();
    if !full.is_empty() {
        let named = full.iter().take(NAMED).map(|edge| format!("{} {}/{}", clean(&edge.id), edge.depth, edge.capacity));
        let more = if full.len() > NAMED { format!(" and {} more", full.len() - NAMED) } else { String::new() };
        parts.push(format!("full: {}{more}", named.collect::<Vec<_>>().join(", ")));
    }
    format!("{}{}", stamp(flow.elapsed()), parts.join(" · "))
}

/// A node failed.
pub(crate) fn plain_error(at: Duration, node: &str, error: &str, errors: u64) -> String {
    let plural = if errors == 1 { "error" } else { "errors" };
    format!("{}error     {}: {} ({} {plural})", stamp(at), clean(node), clean(error), grouped(errors))
}

/// The last line, which says how it was.
pub(crate) fn last_line(ended: &Ended, flow: &FlowLine) -> String {
    let (totals, took) = (flow.totals(), time(flow.elapsed()));
    let mut parts = vec![format!("{} delivered", messages(totals.delivered))];
    let counts = [
        (totals.lost, "lost"),
        (totals.failed, "failed"),
        (totals.unwanted, "not wanted"),
        (totals.unconnected, "to outputs without an edge"),
        (totals.dropped, "dropped"),
        (totals.replaced, "replaced by newer"),
        (totals.coalesced, "merged"),
        (totals.waiting, "left behind"),
        (totals.errors, if totals.errors == 1 { "error" } else { "errors" }),
    ];
    for (number, what) in counts {
        if number > 0 {
            parts.push(format!("{} {what}", grouped(number)));
        }
    }
    let what = match ended {
        Ended::Done => format!("done in {took}"),
        Ended::Stopped(Some(node)) => format!("stopped by `{}` after {took}", clean(node)),
        Ended::Stopped(None) => format!("stopped after {took}"),
        Ended::Late => format!("stopped after {took}, when the time to drain was over"),
        Ended::Failed(_) => format!("failed after {took}"),
        Ended::Lost(_) => format!("ended after {took}"),
        Ended::Interrupted => format!("interrupted after {took}"),
        Ended::Killed => format!("killed after {took}"),
    };
    format!("{}: {what} · {}", clean(&flow.name), parts.join(", "))
}

fn messages(number: u64) -> String {
    format!("{} {}", grouped(number), if number == 1 { "message" } else { "messages" })
}
