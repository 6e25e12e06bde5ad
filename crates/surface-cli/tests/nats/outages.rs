//! A broker that is away while a flow runs.

use serde_json::Value;
use test_support::{Broker, until};

use crate::site::{LIMIT, Site, link};

const FLOW: &str = r#"
[part.here]
nodes = ["clock"]
[part.there]
nodes = ["out"]

[node.clock]
kind = "every"
interval = "1ms"

[node.out]
kind = "write"
path = "out.txt"

[[edge]]
from = "clock"
to = "out"
capacity = 16
policy = "POLICY"
over = "OVER/clock"
"#;

fn stats(site: &Site) -> Value {
    let output = site.output("flow stats --json");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Runs the sending half through an outage, and returns its counts when the edge was full.
fn through_an_outage(policy: &str, full: impl Fn(&Value) -> bool) -> Option<Value> {
    let mut site = Site::new(Broker::start()?, &FLOW.replace("POLICY", policy));
    let here = site.start("here");
    until(LIMIT, "it sends", || stats(&site)["links"][0]["stored"].as_u64() > Some(10));
    site.broker.kill();
    until(LIMIT, "the edge is full", || full(&stats(&site)["edges"][0]));
    let why = String::from_utf8(site.output("flow why clock!publish").stdout).unwrap();
    assert!(why.contains(&format!("the broker nats://127.0.0.1:{}", site.broker.port())), "{why}");
    let during = stats(&site);
    assert!(during["links"][0]["away"].is_string(), "{during}");
    let text = String::from_utf8(site.output("flow stats").stdout).unwrap();
    assert!(text.contains("clock!publish sends to nats://127.0.0.1:") && text.contains("away: "), "{text}");
    let stored = during["links"][0]["stored"].as_u64();
    site.broker.restart();
    until(LIMIT, "it sends again", || stats(&site)["links"][0]["stored"].as_u64() > stored);
    assert!(site.output("flow stop").status.success());
    let ended = here.ended();
    assert_eq!(link(&ended, "clock!publish")["adds_up"], true, "{ended}");
    // What was sent is delivered to a process that begins now, and the end, too.
    let there = site.start("there").ended();
    let (sent, received) = (link(&ended, "clock!publish"), link(&there, "clock!subscribe"));
    assert_eq!(sent["stored"], received["delivered"], "{sent} {received}");
    assert_eq!(site.lines("out.txt") as u64, sent["stored"].as_u64().unwrap());
    Some(sent)
}

#[test]
fn a_block_edge_holds_up_its_producer_and_loses_nothing() {
    let Some(sent) = through_an_outage("block", |edge| edge["blocked"] == true) else { return };
    assert_eq!(sent["put"], sent["stored"], "{sent}");
}

#[test]
fn an_edge_of_the_latest_replaces_at_the_sender() {
    let Some(sent) = through_an_outage("latest", |edge| edge["replaced"].as_u64() > Some(20)) else { return };
    assert!(sent["replaced"].as_u64() > Some(20), "{sent}");
}

#[test]
fn an_edge_that_drops_drops_at_the_sender() {
    let Some(sent) = through_an_outage("drop", |edge| edge["dropped"].as_u64() > Some(20)) else { return };
    assert!(sent["dropped"].as_u64() > Some(20), "{sent}");
}
