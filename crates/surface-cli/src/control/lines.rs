//! Snapshots of a run and its jobs, and of a flow and its nodes and edges.
//!
//! Room: values.
//!
//! They are sent over sockets and printed as JSON: fields are added, never changed.

use std::collections::HashSet;
use std::time::Duration;

use bursar::flow::{EdgeStats, NodeStats, Stats};
use sched_jobs::State;
use serde::{Deserialize, Serialize};
use surface_text::amounts::counted;

use super::links::{self, LinkLine};

/// A run, as in `ps`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunLine {
    pub(crate) run: String,
    pub(crate) pid: u32,
    pub(crate) age_ms: u64,
    /// By the names of the states.
    pub(crate) counts: std::collections::BTreeMap<String, usize>,
    pub(crate) cpu_slots: u64,
    pub(crate) ram_mb: u64,
    pub(crate) vram_mb: u64,
    pub(crate) jobs: Vec<JobLine>,
    /// Jobs that were left out.
    pub(crate) more: usize,
    /// Jobs that are to be paused, and that another scheduler has not paused.
    pub(crate) unpaused: usize,
}

/// A job, as in `ps`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JobLine {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Where it is, if another scheduler has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) elsewhere: Option<String>,
    /// Its state there: `pending`, `running`, or `pausing` if it is to be paused and may still run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stand: Option<String>,
}

impl JobLine {
    pub(crate) fn is_over(&self) -> bool {
        State::from_name(&self.state).is_some_and(State::is_terminal)
    }
}

/// A flow at a moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FlowLine {
    pub(crate) flow: String,
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) elapsed_ms: u64,
    pub(crate) nodes: Vec<NodeLine>,
    pub(crate) edges: Vec<EdgeLine>,
    /// Halves of edges over a broker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) links: Vec<LinkLine>,
}

/// A node at a moment. Times are in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NodeLine {
    pub(crate) id: String,
    /// `running`, `paused`, `ending`, `ended`, `failed`, `stopped`.
    pub(crate) state: String,
    /// No edge feeds it.
    pub(crate) source: bool,
    /// Messages it handled; of a source, how often it was asked.
    pub(crate) messages: u64,
    pub(crate) emitted: u64,
    pub(crate) errors: u64,
    pub(crate) retries: u64,
    /// Messages it took and lost: its program was gone, or the flow had ended.
    pub(crate) lost: u64,
    /// Messages it took that its program did not read: it ended successfully without them.
    pub(crate) unwanted: u64,
    /// Messages it emitted to an output without an edge.
    pub(crate) unconnected: u64,
    /// Messages that failed and were given up, or made dead letters.
    pub(crate) failed: u64,
    /// Messages it took and has not finished with.
    pub(crate) held: u64,
    pub(crate) ticks: u64,
    pub(crate) turns: u64,
    pub(crate) busy_us: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
}

/// An edge at a moment: `put = delivered + dropped + replaced + coalesced + depth`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EdgeLine {
    pub(crate) id: String,
    pub(crate) capacity: usize,
    pub(crate) depth: usize,
    pub(crate) peak: usize,
    pub(crate) priority: i32,
    pub(crate) band: String,
    pub(crate) policy: String,
    pub(crate) put: u64,
    pub(crate) delivered: u64,
    pub(crate) dropped: u64,
    pub(crate) replaced: u64,
    pub(crate) coalesced: u64,
    pub(crate) blocked_times: u64,
    pub(crate) blocked: bool,
}

impl FlowLine {
    /// What the flow `id` has counted so far.
    pub(crate) fn of(id: &str, stats: Stats) -> FlowLine {
        let fed: HashSet<&str> = stats.edges.iter().filter_map(|edge| fed_by(&edge.id)).collect();
        let sources: Vec<bool> = stats.nodes.iter().map(|node| !fed.contains(node.id.as_str())).collect();
        let node = |(node, source)| NodeLine { source, ..NodeLine::from(node) };
        let links = links::of(&stats);
        FlowLine {
            flow: id.to_owned(),
            name: stats.name,
            pid: std::process::id(),
            elapsed_ms: stats.elapsed.as_millis() as u64,
            nodes: stats.nodes.into_iter().zip(sources).map(node).collect(),
            edges: stats.edges.into_iter().map(EdgeLine::from).collect(),
            links,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms)
    }

    /// What happened to all messages that were put on edges; see [`Totals`]. A message that a node took and lost, did not want, failed at or has not finished was not delivered.
    pub(crate) fn totals(&self) -> Totals {
        let sum = |of: fn(&EdgeLine) -> u64| self.edges.iter().map(of).sum::<u64>();
        let count = |of: fn(&NodeLine) -> u64| self.nodes.iter().map(of).sum::<u64>();
        let (lost, unwanted, held) = (count(|node| node.lost), count(|node| node.unwanted), count(|node| node.held));
        let failed = count(|node| node.failed);
        // What a source could not read was on no edge.
        let unread = count(|node| if node.source { node.lost } else { 0 });
        let undelivered = lost - unread + unwanted + held + failed;
        Totals {
            put: sum(|edge| edge.put),
            delivered: sum(|edge| edge.delivered).saturating_sub(undelivered),
            lost,
            failed,
            unwanted,
            unconnected: count(|node| node.unconnected),
            held,
            dropped: sum(|edge| edge.dropped),
            replaced: sum(|edge| edge.replaced),
            coalesced: sum(|edge| edge.coalesced),
            waiting: sum(|edge| edge.depth as u64),
            errors: count(|node| node.errors),
        }
    }
}

/// The node that an edge feeds; an edge of control feeds none.
fn fed_by(edge: &str) -> Option<&str> {
    let (_, target) = edge.split_once("->")?;
    target.rsplit_once(':').filter(|(_, port)| *port != "control").map(|(node, _)| node)
}

/// Where messages were lost: "`p` lost 3 messages, `q` 1"; and what a broker lost. None if none were.
pub(crate) fn losses(nodes: &[NodeStats]) -> Option<String> {
    let mut said: Vec<String> = Vec::new();
    for node in nodes.iter().filter(|node| node.lost > 0) {
        let (id, lost) = (surface_text::clean(&node.id), node.lost);
        said.push(match (said.is_empty(), lost) {
            (true, 1) => format!("`{id}` lost 1 message"),
            (true, lost) => format!("`{id}` lost {lost} messages"),
            (false, lost) => format!("`{id}` {lost}"),
        });
    }
    let links = || nodes.iter().filter_map(|node| Some((node, node.link.as_ref()?)));
    let receives = |address: &str| links().any(|(_, link)| !link.sends && link.address == address);
    for (node, link) in links().filter(|(_, link)| link.missing > 0) {
        let (id, missing) = (surface_text::clean(&node.id), counted(link.missing as usize, "message"));
        match link.sends {
            // Its other half is here, and knows it better.
            true if receives(&link.address) => {}
            true => said.push(format!(
                "`{id}` sent {missing} that the broker had and lost: it lost its files, or its stream was removed"
            )),
            false => said.push(format!(
                "`{id}` never got {missing} that the broker had: it lost its files, or its stream was removed"
            )),
        }
    }
    (!said.is_empty()).then(|| said.join(", "))
}

/// The first node that failed at all messages it got, and kept none as a dead letter: what it is there for did not happen, whatever its policy says about single messages.
pub(crate) fn failed_at_all(nodes: &[NodeStats]) -> Option<String> {
    let failed = nodes.iter().find(|node| node.failed > 0 && node.messages == 0 && node.emitted == 0)?;
    let (id, all) = (surface_text::clean(&failed.id), counted(failed.failed as usize, "message"));
    Some(format!(
        "`{id}` failed at every message it got ({all}); correct it, or keep them with `on_error = \"dead-letter\"`"
    ))
}

impl NodeLine {
    /// What went through it: messages it handled, or, of a source, emitted.
    pub(crate) fn passed(&self) -> u64 {
        if self.source { self.emitted } else { self.messages }
    }
}

/// The totals of a flow: `put = delivered + lost + failed + unwanted + held + dropped + replaced + coalesced + waiting`. Lines that a source could not read are not in this sum: they are lost and were put on no edge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    pub(crate) put: u64,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) failed: u64,
    pub(crate) unwanted: u64,
    pub(crate) unconnected: u64,
    pub(crate) held: u64,
    pub(crate) dropped: u64,
    pub(crate) replaced: u64,
    pub(crate) coalesced: u64,
    pub(crate) waiting: u64,
    pub(crate) errors: u64,
}

impl From<NodeStats> for NodeLine {
    fn from(node: NodeStats) -> NodeLine {
        let micros = |part: f64| node.latency.quantile(part).as_nanos() as f64 / 1000.0;
        NodeLine {
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            id: node.id,
            state: node.state.to_string(),
            source: false,
            messages: node.messages,
            emitted: node.emitted,
            errors: node.errors,
            retries: node.retries,
            lost: node.lost,
            unwanted: node.unwanted,
            unconnected: node.unconnected,
            failed: node.failed,
            held: node.held,
            ticks: node.ticks,
            turns: node.turns,
            busy_us: node.busy.as_micros() as u64,
            last_error: node.last_error,
        }
    }
}

impl From<EdgeStats> for EdgeLine {
    fn from(edge: EdgeStats) -> EdgeLine {
        EdgeLine {
            id: edge.id,
            capacity: edge.capacity,
            depth: edge.depth,
            peak: edge.peak,
            priority: edge.priority,
            band: edge.band.to_string(),
            policy: edge.policy.to_string(),
            put: edge.put,
            delivered: edge.delivered,
            dropped: edge.dropped,
            replaced: edge.replaced,
            coalesced: edge.coalesced,
            blocked_times: edge.blocked_times,
            blocked: edge.blocked,
        }
    }
}
