//! The counters in the text format of Prometheus.
//!
//! Room: surface. Knows [`Stats`] and the text format; knows nothing of running flows.
//!
//! # Invariant
//! A line is one sample, whatever the names of nodes and edges: names are only label values, and those are escaped.
//! All lines of a metric stand together, as the format demands.

use std::{fmt::Write, time::Duration};

use policy_flow::Histogram;

use crate::stats::{EdgeStats, NodeStats, Stats};

/// Upper ends of the buckets of latencies: from a microsecond to ten seconds.
const LATENCIES: [(&str, Duration); 15] = [
    ("0.000001", Duration::from_micros(1)),
    ("0.0000025", Duration::from_nanos(2_500)),
    ("0.000005", Duration::from_micros(5)),
    ("0.00001", Duration::from_micros(10)),
    ("0.000025", Duration::from_micros(25)),
    ("0.00005", Duration::from_micros(50)),
    ("0.0001", Duration::from_micros(100)),
    ("0.00025", Duration::from_micros(250)),
    ("0.0005", Duration::from_micros(500)),
    ("0.001", Duration::from_millis(1)),
    ("0.0025", Duration::from_micros(2_500)),
    ("0.01", Duration::from_millis(10)),
    ("0.1", Duration::from_millis(100)),
    ("1", Duration::from_secs(1)),
    ("10", Duration::from_secs(10)),
];

impl Stats {
    /// All counters in the text format of Prometheus: gauges and counters of edges, counters and a histogram of latencies of nodes.
    ///
    /// ```
    /// use bursar::flow::{Flow, Graph, from_iter, sink};
    ///
    /// let mut graph = Graph::new("numbers");
    /// let numbers = graph.add("numbers", from_iter(0..10));
    /// let out = graph.add("out", sink(|_: i32| ()));
    /// graph.connect(&numbers, &out);
    /// let text = Flow::new(graph)?.run()?.stats.prometheus();
    /// assert!(text.contains("flow_edge_put_total{flow=\"numbers\",edge=\"numbers:out->out:in\"} 10\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prometheus(&self) -> String {
        let mut text = Exposition { text: String::new(), flow: self.name.clone() };
        text.edges("depth", "gauge", "Messages that wait on an edge.", self, |edge| edge.depth as u64);
        text.edges("capacity", "gauge", "How many messages may wait on an edge.", self, |edge| edge.capacity as u64);
        text.head("flow_edge_messages_total", "counter", "Messages that left an edge, by result.");
        for edge in &self.edges {
            let EdgeStats { id, delivered, dropped, replaced, coalesced, .. } = edge;
            let results =
                [("delivered", delivered), ("dropped", dropped), ("replaced", replaced), ("coalesced", coalesced)];
            for (result, count) in results {
                text.sample("flow_edge_messages_total", &[("edge", id), ("result", result)], count);
            }
        }
        text.edges("put_total", "counter", "Messages that were put on an edge.", self, |edge| edge.put);
        let help = "How often the producer of an edge had to wait.";
        text.edges("blocked_total", "counter", help, self, |edge| edge.blocked_times);
        text.nodes("messages_total", "Messages that a node handled.", self, |node| node.messages);
        text.nodes("emitted_total", "Messages that a node emitted.", self, |node| node.emitted);
        text.nodes("errors_total", "Calls of a node that failed.", self, |node| node.errors);
        text.nodes("retries_total", "Messages that a node was given again.", self, |node| node.retries);
        text.nodes("lost_total", "Messages that a node took and lost.", self, |node| node.lost);
        text.nodes("unwanted_total", "Messages that a node took and did not need.", self, |node| node.unwanted);
        let help = "Messages that a node emitted to an output without an edge.";
        text.nodes("unconnected_total", help, self, |node| node.unconnected);
        text.nodes("busy_seconds_total", "How long a node ran.", self, |node| node.busy.as_secs_f64());
        text.head("flow_node_latency_seconds", "histogram", "How long a node took for a message.");
        for node in &self.nodes {
            text.histogram("flow_node_latency_seconds", &node.id, &node.latency);
        }
        text.links(self);
        text.text
    }
}

/// The text for Prometheus. Every sample has the name of its flow.
struct Exposition {
    text: String,
    flow: String,
}

impl Exposition {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.text, "{name}{{flow=\"{}\"", escaped(&self.flow));
        for (label, text) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", escaped(text));
        }
        let _ = writeln!(self.text, "}} {value}");
    }

    fn edges(&mut self, what: &str, kind: &str, help: &str, stats: &Stats, value: impl Fn(&EdgeStats) -> u64) {
        let name = format!("flow_edge_{what}");
        self.head(&name, kind, help);
        stats.edges.iter().for_each(|edge| self.sample(&name, &[("edge", &edge.id)], value(edge)));
    }

    /// Halves of edges between processes. A flow without any has no such metric.
    fn links(&mut self, stats: &Stats) {
        let links = || stats.nodes.iter().filter_map(|node| Some((&node.id, node.link.as_ref()?)));
        if links().next().is_none() {
            return;
        }
        let name = "flow_link_messages_total";
        self.head(name, "counter", "Messages of an edge between processes, at this end.");
        for (id, link) in links() {
            let counts = [
                ("stored", link.stored),
                ("resent", link.resent),
                ("received", link.received),
                ("delivered", link.delivered),
                ("redelivered", link.redelivered),
                ("duplicate", link.duplicates),
                ("missing", link.missing),
                ("foreign", link.foreign),
            ];
            for (what, count) in counts {
                self.sample(name, &[("node", id), ("what", what)], count);
            }
        }
        let name = "flow_link_outages_total";
        self.head(name, "counter", "How often the broker of an edge was away.");
        links().for_each(|(id, link)| self.sample(name, &[("node", id)], link.outages));
    }

    fn nodes<V: std::fmt::Display>(&mut self, what: &str, help: &str, stats: &Stats, value: impl Fn(&NodeStats) -> V) {
        let name = format!("flow_node_{what}");
        self.head(&name, "counter", help);
        stats.nodes.iter().for_each(|node| self.sample(&name, &[("node", &node.id)], value(node)));
    }

    fn histogram(&mut self, name: &str, node: &str, times: &Histogram) {
        let bucket = format!("{name}_bucket");
        for (le, limit) in LATENCIES {
            self.sample(&bucket, &[("node", node), ("le", le)], times.count_up_to(limit));
        }
        self.sample(&bucket, &[("node", node), ("le", "+Inf")], times.count());
        self.sample(&format!("{name}_sum"), &[("node", node)], times.sum().as_secs_f64());
        self.sample(&format!("{name}_count"), &[("node", node)], times.count());
    }
}

/// A label value: backslash, quote and line end are the only characters that mean something.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::stats::{EdgeStats, NodeStats, Stats};
    use policy_flow::{Band, Histogram, NodeState, Policy};

    fn stats() -> Stats {
        let mut latency = Histogram::default();
        latency.record(Duration::from_micros(3), 4);
        latency.record(Duration::from_millis(40), 1);
        let node = NodeStats {
            id: "a \"b\"\\\n".into(),
            state: NodeState::Running,
            messages: 5,
            emitted: 6,
            errors: 1,
            retries: 2,
            lost: 4,
            unwanted: 7,
            unconnected: 8,
            failed: 0,
            held: 0,
            ticks: 0,
            ticks_missed: 0,
            turns: 3,
            busy: Duration::from_millis(1_500),
            latency,
            last_error: None,
            failure: None,
            link: None,
        };
        let edge = EdgeStats {
            id: "a:out->b:in".into(),
            capacity: 64,
            depth: 2,
            peak: 9,
            priority: 0,
            band: Band::Normal,
            policy: Policy::Latest,
            put: 10,
            delivered: 4,
            dropped: 1,
            replaced: 2,
            coalesced: 1,
            blocked_times: 3,
            blocked: false,
        };
        Stats { name: "x".into(), elapsed: Duration::from_secs(2), nodes: vec![node], edges: vec![edge] }
    }

    #[test]
    fn edges_and_counters_are_told_exactly_so() {
        let text = stats().prometheus();
        let expected = r#"# HELP flow_edge_depth Messages that wait on an edge.
# TYPE flow_edge_depth gauge
flow_edge_depth{flow="x",edge="a:out->b:in"} 2
# HELP flow_edge_capacity How many messages may wait on an edge.
# TYPE flow_edge_capacity gauge
flow_edge_capacity{flow="x",edge="a:out->b:in"} 64
# HELP flow_edge_messages_total Messages that left an edge, by result.
# TYPE flow_edge_messages_total counter
flow_edge_messages_total{flow="x",edge="a:out->b:in",result="delivered"} 4
flow_edge_messages_total{flow="x",edge="a:out->b:in",result="dropped"} 1
flow_edge_messages_total{flow="x",edge="a:out->b:in",result="replaced"} 2
flow_edge_messages_total{flow="x",edge="a:out->b:in",result="coalesced"} 1
# HELP flow_edge_put_total Messages that were put on an edge.
# TYPE flow_edge_put_total counter
flow_edge_put_total{flow="x",edge="a:out->b:in"} 10
# HELP flow_edge_blocked_total How often the producer of an edge had to wait.
# TYPE flow_edge_blocked_total counter
flow_edge_blocked_total{flow="x",edge="a:out->b:in"} 3
# HELP flow_node_messages_total Messages that a node handled.
# TYPE flow_node_messages_total counter
flow_node_messages_total{flow="x",node="a \"b\"\\\n"} 5
# HELP flow_node_emitted_total Messages that a node emitted.
# TYPE flow_node_emitted_total counter
flow_node_emitted_total{flow="x",node="a \"b\"\\\n"} 6
# HELP flow_node_errors_total Calls of a node that failed.
# TYPE flow_node_errors_total counter
flow_node_errors_total{flow="x",node="a \"b\"\\\n"} 1
# HELP flow_node_retries_total Messages that a node was given again.
# TYPE flow_node_retries_total counter
flow_node_retries_total{flow="x",node="a \"b\"\\\n"} 2
# HELP flow_node_lost_total Messages that a node took and lost.
# TYPE flow_node_lost_total counter
flow_node_lost_total{flow="x",node="a \"b\"\\\n"} 4
# HELP flow_node_unwanted_total Messages that a node took and did not need.
# TYPE flow_node_unwanted_total counter
flow_node_unwanted_total{flow="x",node="a \"b\"\\\n"} 7
# HELP flow_node_unconnected_total Messages that a node emitted to an output without an edge.
# TYPE flow_node_unconnected_total counter
flow_node_unconnected_total{flow="x",node="a \"b\"\\\n"} 8
# HELP flow_node_busy_seconds_total How long a node ran.
# TYPE flow_node_busy_seconds_total counter
flow_node_busy_seconds_total{flow="x",node="a \"b\"\\\n"} 1.5
# HELP flow_node_latency_seconds How long a node took for a message.
# TYPE flow_node_latency_seconds histogram
"#;
        assert_eq!(&text[..expected.len().min(text.len())], expected);
    }

    #[test]
    fn a_histogram_grows_from_bucket_to_bucket_up_to_its_count() {
        let text = stats().prometheus();
        let at = |le: &str| {
            format!("flow_node_latency_seconds_bucket{{flow=\"x\",node=\"a \\\"b\\\"\\\\\\n\",le=\"{le}\"}} ")
        };
        for (le, count) in [("0.0000025", 0), ("0.000005", 4), ("0.01", 4), ("0.1", 5), ("10", 5), ("+Inf", 5)] {
            assert!(text.contains(&format!("{}{count}\n", at(le))), "up to {le} there are {count}:\n{text}");
        }
        assert!(text.ends_with(
            "flow_node_latency_seconds_sum{flow=\"x\",node=\"a \\\"b\\\"\\\\\\n\"} 0.040012\n\
             flow_node_latency_seconds_count{flow=\"x\",node=\"a \\\"b\\\"\\\\\\n\"} 5\n"
        ));
    }

    #[test]
    fn an_edge_between_processes_has_its_own_counters() {
        let mut stats = stats();
        assert!(!stats.prometheus().contains("flow_link"));
        stats.nodes[0].link = Some(crate::LinkStats { stored: 7, outages: 2, ..Default::default() });
        let text = stats.prometheus();
        assert!(text.contains("what=\"stored\"} 7\n") && text.contains("flow_link_outages_total{"), "{text}");
    }
}
