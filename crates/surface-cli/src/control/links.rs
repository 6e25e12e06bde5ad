//! Edges over a broker, as `flow stats` shows them: what became of every message, over both ends.
//!
//! Room: values.
//!
//! # Invariant
//! At the sender `put = delivered + dropped + replaced + merged + failed + lost + waiting + in_flight`, where what is behind the broker is as of the receiver's last report. At the receiver
//! `put` is what came, and `put = delivered + failed + in_flight`.
//!
//! # Why it is checked
//! The numbers come from five places: the queue before the broker, the node that sends, the acknowledgements, the receiver's report, the edge behind it. They are read one after the other while messages move,
//! so [`LinkLine::adds_up`] is asked again before it counts.

use bursar::flow::{LinkStats, NodeStats, Stats};
use serde::{Deserialize, Serialize};

/// One half of an edge over a broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LinkLine {
    pub(crate) node: String,
    pub(crate) address: String,
    /// This is the sending half.
    pub(crate) sends: bool,
    pub(crate) put: u64,
    pub(crate) delivered: u64,
    pub(crate) dropped: u64,
    pub(crate) replaced: u64,
    pub(crate) merged: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    /// On the edge before the broker, and at the broker.
    pub(crate) waiting: u64,
    /// Sent and not acknowledged, or received and not handled.
    pub(crate) in_flight: u64,
    /// Acknowledged by the broker.
    pub(crate) stored: u64,
    /// Sent again.
    pub(crate) resent: u64,
    /// Came to this process, each counted once.
    pub(crate) received: u64,
    /// Of those, given to an earlier process, too, which may have handled them.
    pub(crate) redelivered: u64,
    /// Came twice to this process, and were dropped.
    pub(crate) duplicates: u64,
    /// Did not come, though later ones did; or was at the broker and is lost there, as far as the sender knows.
    pub(crate) missing: u64,
    /// Came on the subject and were not of a flow; they were removed.
    pub(crate) foreign: u64,
    /// How often the broker was away.
    pub(crate) outages: u64,
    /// Why it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) away: Option<String>,
    /// Whether the numbers add up.
    pub(crate) adds_up: bool,
}

/// The links of a flow.
pub(crate) fn of(stats: &Stats) -> Vec<LinkLine> {
    let line = |node: &NodeStats| node.link.as_ref().map(|link| one(stats, node, link));
    stats.nodes.iter().filter_map(line).collect()
}

/// How many messages brokers lost. Of an edge with both halves here that is what its receiver never got.
pub(crate) fn missing(links: &[LinkLine]) -> u64 {
    let receives = |address: &str| links.iter().any(|link| !link.sends && link.address == address);
    links.iter().filter(|link| !link.sends || !receives(&link.address)).map(|link| link.missing).sum()
}

fn one(stats: &Stats, node: &NodeStats, link: &LinkStats) -> LinkLine {
    let mut line = LinkLine {
        node: node.id.clone(),
        address: link.address.clone(),
        sends: link.sends,
        stored: link.stored,
        resent: link.resent,
        received: link.received,
        redelivered: link.redelivered,
        duplicates: link.duplicates,
        missing: link.missing,
        foreign: link.foreign,
        outages: link.outages,
        away: link.away.clone(),
        failed: node.failed,
        lost: node.lost,
        ..LinkLine::default()
    };
    if link.sends {
        let into = format!("->{}:in", node.id);
        for edge in stats.edges.iter().filter(|edge| edge.id.ends_with(&into)) {
            line.put += edge.put;
            line.dropped += edge.dropped;
            line.replaced += edge.replaced;
            line.merged += edge.coalesced;
            line.waiting += edge.depth as u64;
        }
        let far = link.far.unwrap_or_default();
        line.delivered = far.delivered - far.missing.min(far.delivered);
        line.lost += far.missing.min(far.delivered);
        line.waiting += link.stored.saturating_sub(far.received);
        // A report may be ahead of the acknowledgement: then the message is still in flight here, and counts there.
        let ahead = far.received.saturating_sub(link.stored);
        line.in_flight = node.held.saturating_sub(ahead) + far.received.saturating_sub(far.delivered);
        // What no receiver has missed yet.
        let known = link.missing.saturating_sub(far.missing).min(line.waiting);
        line.lost += known;
        line.waiting -= known;
    } else {
        line.put = link.received;
        line.delivered = link.delivered;
        line.failed = node.errors.min(link.received - link.delivered);
        line.in_flight = link.received - link.delivered - line.failed;
    }
    line.adds_up = line.put == line.sum();
    line
}

impl LinkLine {
    fn sum(&self) -> u64 {
        let over = self.dropped + self.replaced + self.merged + self.failed + self.lost;
        self.delivered + over + self.waiting + self.in_flight
    }
}
