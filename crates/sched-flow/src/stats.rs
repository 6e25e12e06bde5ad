//! The statistics of a flow, as users see them.
//!
//! Room: values.

use std::time::Duration;

use policy_flow::{Band, Histogram, NodeState, Policy};

/// The counters of a node.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeStats {
    /// Its name in the graph.
    pub id: String,
    /// Its state.
    pub state: NodeState,
    /// Messages it handled; of a source, how often it was asked.
    pub messages: u64,
    /// Messages it emitted.
    pub emitted: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Failed messages that were tried again.
    pub retries: u64,
    /// Messages it took and [lost](crate::Out::lose), or still [held](Self::held) when the flow was over. On their edge they count as delivered.
    pub lost: u64,
    /// Messages it took and did not need ([`Out::decline`](crate::Out::decline)). On their edge they count as delivered.
    pub unwanted: u64,
    /// Messages it emitted to an output without an edge.
    pub unconnected: u64,
    /// Messages that failed and were not tried again: skipped, or turned into a dead letter, which is another message. On their edge they count as delivered.
    pub failed: u64,
    /// Messages it took and has not finished with ([`InFlight`](crate::InFlight)). When the flow is over there are none: they are lost.
    pub held: u64,
    /// Ticks it was given.
    pub ticks: u64,
    /// Ticks of its cadence that came while one was still due.
    pub ticks_missed: u64,
    /// Turns it had.
    pub turns: u64,
    /// How long it ran.
    pub busy: Duration,
    /// How long a message took: turns, divided by their messages.
    pub latency: Histogram,
    /// Its last error.
    pub last_error: Option<String>,
    /// Why it failed for good, or was stopped: the first cause.
    pub failure: Option<String>,
    /// What it counts as one half of an edge between two processes, if it is one.
    pub link: Option<LinkStats>,
}

/// How far the receiver of an edge between two processes is: counted from the first message of the sender's session, over all processes that received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FarEnd {
    /// So many came there.
    pub received: u64,
    /// So many the node there has finished with. Counted by packs, so it may be some more.
    pub delivered: u64,
    /// Of both, so many never came: they were lost with the stream at the broker.
    pub missing: u64,
}

/// The counters of one half of an edge between two processes, since this process began. Messages, unless it says otherwise.
///
/// At the sender, what its node took is `stored`, or still [held](NodeStats::held), or it failed or was lost. At the receiver, `received = delivered +` what is in flight there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Where it leads: `nats://host:4222/subject`.
    pub address: String,
    /// This is the sending half.
    pub sends: bool,
    /// Sender: the broker has acknowledged them.
    pub stored: u64,
    /// Sender: sent once more, because no acknowledgement came. The broker drops those that it has.
    pub resent: u64,
    /// Sender: what the receiver reported last of the messages of this session, if there is one.
    pub far: Option<FarEnd>,
    /// Receiver: they came, each counted once.
    pub received: u64,
    /// Receiver: the next node has finished with them.
    pub delivered: u64,
    /// Receiver: of those received, the ones that an earlier process had been given. It may have handled them.
    pub redelivered: u64,
    /// Receiver: came once more to this process, and were dropped.
    pub duplicates: u64,
    /// Receiver: never came, though later ones did. Sender: the broker had them, and they were lost there, as far as it is known. Not 0 only if the broker lost them, or they were removed there.
    pub missing: u64,
    /// Receiver: came on the subject, were not of a flow, and were removed. Not messages of the edge.
    pub foreign: u64,
    /// How often the broker was away.
    pub outages: u64,
    /// Why the broker cannot be used now.
    pub away: Option<String>,
}

/// The counters of an edge. `put = delivered + dropped + replaced + coalesced + depth`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EdgeStats {
    /// `source:port->target:port`.
    pub id: String,
    /// How many may wait.
    pub capacity: usize,
    /// How many wait.
    pub depth: usize,
    /// The largest depth so far.
    pub peak: usize,
    /// Its priority.
    pub priority: i32,
    /// The band of its priority.
    pub band: Band,
    /// What it does when it is full.
    pub policy: Policy,
    /// Messages that were accepted, dropped or merged.
    pub put: u64,
    /// Messages that were handled, or failed for good at the consumer.
    pub delivered: u64,
    /// New messages that were dropped.
    pub dropped: u64,
    /// Old messages that made room.
    pub replaced: u64,
    /// Messages that became part of another.
    pub coalesced: u64,
    /// How often its producer had to wait.
    pub blocked_times: u64,
    /// Its producer waits now.
    pub blocked: bool,
}

/// The counters of a flow.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stats {
    /// The name of the graph.
    pub name: String,
    /// How long it has been running, or ran.
    pub elapsed: Duration,
    /// Its nodes, in the order they were added.
    pub nodes: Vec<NodeStats>,
    /// Its edges, in the order they were connected, inner graphs first.
    pub edges: Vec<EdgeStats>,
}

impl Stats {
    /// A node by its name.
    pub fn node(&self, id: &str) -> Option<&NodeStats> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Nodes that failed for good, and why.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.nodes.iter().filter_map(|node| Some((&*node.id, node.failure.as_deref()?)))
    }

    /// An edge by its id.
    pub fn edge(&self, id: &str) -> Option<&EdgeStats> {
        self.edges.iter().find(|edge| edge.id == id)
    }
}
