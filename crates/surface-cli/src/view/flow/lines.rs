//! A flow in lines: for people without a terminal, and for files.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! ```text
//!     1.000  1,203 msg/s · 1,210 delivered · full: imu:out->slow:in 64/64
//!     2.101  error     parse: expected a number (3 errors)
//! ```

use std::time::Duration;

use super::rates::Rates;
use crate::control::{EdgeLine, FlowLine, LinkLine, missing};
use crate::view::text::{clean, counted, errors, grouped, listed, rate, stamp, time};

/// Full edges that a line names.
const NAMED: usize = 3;

/// How a flow ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its sources ended, and everything was delivered.
    Done,
    /// It was stopped by a user, or by this node, and everything was delivered.
    Stopped(Option<String>),
    /// The drain timeout expired.
    Late,
    /// A node failed, and its policy stops the graph.
    Failed(String),
    /// It ended, and messages were lost on the way.
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
    parts.extend(some(&counts));
    let is_full = |edge: &&EdgeLine| edge.blocked || edge.depth >= edge.capacity;
    let full: Vec<&EdgeLine> = flow.edges.iter().filter(is_full).collect();
    if !full.is_empty() {
        let name = |edge: &&EdgeLine| format!("{} {}/{}", clean(&edge.id), edge.depth, edge.capacity);
        parts.push(format!("full: {}", listed(&full, NAMED, name)));
    }
    format!("{}{}", stamp(flow.elapsed()), parts.join(" · "))
}

/// A node failed.
pub(crate) fn plain_error(at: Duration, node: &str, error: &str, count: u64) -> String {
    format!("{}error     {}: {} ({} {})", stamp(at), clean(node), clean(error), grouped(count), errors(count))
}

/// Counts that are not 0.
fn some(counts: &[(u64, &str)]) -> impl Iterator<Item = String> {
    counts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{} {what}", grouped(*number)))
}

/// The last line: the result.
pub(crate) fn last_line(ended: &Ended, flow: &FlowLine) -> String {
    let (totals, took) = (flow.totals(), time(flow.elapsed()));
    let mut parts = vec![format!("{} delivered", counted(totals.delivered as usize, "message"))];
    let counts = [
        (totals.lost, "lost"),
        (totals.failed, "failed"),
        (totals.unwanted, "not wanted"),
        (totals.unconnected, "to outputs without an edge"),
        (totals.dropped, "dropped"),
        (totals.replaced, "replaced by newer"),
        (totals.coalesced, "merged"),
        (totals.waiting, "left behind"),
        (missing(&flow.links), "missing at the broker"),
        (totals.errors, errors(totals.errors)),
    ];
    parts.extend(some(&counts));
    let what = match ended {
        Ended::Done => format!("done in {took}"),
        Ended::Stopped(Some(node)) => format!("stopped by `{}` after {took}", clean(node)),
        Ended::Stopped(None) => format!("stopped after {took}"),
        Ended::Late => format!("stopped after {took}, when the drain timeout expired"),
        Ended::Failed(_) => format!("failed after {took}"),
        Ended::Lost(_) => format!("ended after {took}"),
        Ended::Interrupted => format!("interrupted after {took}"),
        Ended::Killed => format!("killed after {took}"),
    };
    let mut line = format!("{}: {what} · {}", clean(&flow.name), parts.join(", "));
    for link in flow.links.iter().filter(|_| !matches!(ended, Ended::Done | Ended::Stopped(_))) {
        if let Some(why) = &link.away {
            line += &format!(" · {}, {}", clean(&link.node), away(link, why));
        }
    }
    line
}

/// The broker of an edge is away, or is back.
pub(crate) fn plain_link(at: Duration, link: &LinkLine, why: Option<&str>) -> String {
    let (what, text) = match why {
        Some(why) => ("away ", away(link, why)),
        None => ("back ", clean(&link.address)),
    };
    format!("{}{what}     {}: {text}", stamp(at), clean(&link.node))
}

fn away(link: &LinkLine, why: &str) -> String {
    format!("{}: {}", clean(&link.address), clean(why))
}
