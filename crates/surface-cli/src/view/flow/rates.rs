//! Rates: differences between counters now and about a second ago.
//!
//! Room: decisions.
//!
//! # Invariant
//! Memory is bounded: samples older than a second are dropped, except the one that the second is measured from.

use std::collections::VecDeque;
use std::time::Duration;

use crate::control::FlowLine;

/// The period of a rate.
const SPAN: Duration = Duration::from_secs(1);

struct Sample {
    at: Duration,
    delivered: Vec<u64>,
    messages: Vec<u64>,
    busy_us: Vec<u64>,
}

/// What moved in the last second.
#[derive(Default)]
pub(crate) struct Rates {
    samples: VecDeque<Sample>,
}

impl Rates {
    /// Over the whole time, for the end.
    pub(crate) fn of_all(flow: &FlowLine) -> Rates {
        let mut rates = Rates::default();
        let zeros = |count: usize| vec![0; count];
        let (nodes, edges) = (flow.nodes.len(), flow.edges.len());
        let first =
            Sample { at: Duration::ZERO, delivered: zeros(edges), messages: zeros(nodes), busy_us: zeros(nodes) };
        rates.samples.push_back(first);
        rates.samples.push_back(Sample::of(flow));
        rates
    }

    /// Adds a sample.
    pub(crate) fn take(&mut self, flow: &FlowLine) {
        let sample = Sample::of(flow);
        let is_old = |second: &Sample| second.at + SPAN <= sample.at;
        while self.samples.get(1).is_some_and(is_old) {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Messages an edge delivers in a second.
    pub(crate) fn edge(&self, edge: usize) -> f64 {
        self.of(|sample| sample.delivered.get(edge).copied().unwrap_or(0))
    }

    /// Messages that go through a node in a second.
    pub(crate) fn node(&self, node: usize) -> f64 {
        self.of(|sample| sample.messages.get(node).copied().unwrap_or(0))
    }

    /// The part of its time that a node runs, 0 to 1.
    pub(crate) fn busy(&self, node: usize) -> f64 {
        self.of(|sample| sample.busy_us.get(node).copied().unwrap_or(0)) / 1e6
    }

    /// Messages all edges deliver in a second.
    pub(crate) fn delivered(&self) -> f64 {
        self.of(|sample| sample.delivered.iter().sum())
    }

    /// CPUs that all nodes keep busy.
    pub(crate) fn load(&self) -> f64 {
        self.of(|sample| sample.busy_us.iter().sum()) / 1e6
    }

    fn of(&self, count: impl Fn(&Sample) -> u64) -> f64 {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) if last.at > first.at => {
                let moved = count(last).saturating_sub(count(first)) as f64;
                moved / (last.at - first.at).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}

impl Sample {
    fn of(flow: &FlowLine) -> Sample {
        Sample {
            at: flow.elapsed(),
            delivered: flow.edges.iter().map(|edge| edge.delivered).collect(),
            messages: flow.nodes.iter().map(|node| node.passed()).collect(),
            busy_us: flow.nodes.iter().map(|node| node.busy_us).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rates;
    use crate::control::{EdgeLine, FlowLine, NodeLine};

    fn at(elapsed_ms: u64, delivered: u64) -> FlowLine {
        let edges = vec![EdgeLine { delivered, ..EdgeLine::default() }];
        let nodes = vec![NodeLine { messages: delivered, busy_us: elapsed_ms * 250, ..NodeLine::default() }];
        FlowLine { elapsed_ms, edges, nodes, ..FlowLine::default() }
    }

    #[test]
    fn a_rate_is_what_moved_in_the_last_second() {
        let mut rates = Rates::default();
        assert_eq!(rates.edge(0), 0.0);
        for tenth in 0..=30 {
            // 100 a second for two seconds, then nothing.
            rates.take(&at(tenth * 100, (tenth * 10).min(200)));
            if tenth == 20 {
                assert_eq!((rates.edge(0), rates.node(0), rates.delivered()), (100.0, 100.0, 100.0));
                assert_eq!((rates.busy(0), rates.load()), (0.25, 0.25));
            }
        }
        assert_eq!(rates.edge(0), 0.0);
        assert!(rates.samples.len() <= 12, "{} samples", rates.samples.len());
        assert_eq!(Rates::of_all(&at(4000, 200)).edge(0), 50.0);
    }
}
