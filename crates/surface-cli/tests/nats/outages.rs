//! A broker that is away while a flow runs.

use serde_json::Value;
use test_support::{Broker, until, until_some};

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

/// The counts of both halves, each of its own process, as soon as they have come so far.
#[test]
fn stats_account_for_every_message_over_both_ends() {
    let Some(broker) = Broker::start() else { return };
    let site = Site::new(broker, &FLOW.replace("POLICY", "block"));
    let [here, there] = ["here", "there"].map(|part| site.start(part));
    let both = || -> Option<Vec<Value>> {
        let flows: Value = serde_json::from_slice(&site.output("flow ps --json").stdout).ok()?;
        let links = flows.as_array()?.iter().map(|flow| {
            let id = flow["flow"].as_str()?;
            let stats: Value = serde_json::from_slice(&site.output(&format!("flow stats {id} --json")).stdout).ok()?;
            Some(stats["links"][0].clone())
        });
        let links = links.collect::<Option<Vec<Value>>>()?;
        (links.len() == 2 && links.iter().all(|link| link["delivered"].as_u64() > Some(200))).then_some(links)
    };
    for _ in 0..5 {
        let links = until_some(LIMIT, "both ends count", both);
        assert!(links.iter().all(|link| link["adds_up"] == true), "{links:?}");
        let sum = |link: &Value| {
            let parts = ["delivered", "dropped", "replaced", "merged", "failed", "lost", "waiting", "in_flight"];
            parts.into_iter().map(|part| link[part].as_u64().unwrap()).sum::<u64>()
        };
        assert!(links.iter().all(|link| link["put"] == sum(link)), "{links:?}");
    }
    // The end of the sender ends the receiver, too.
    let flows: Value = serde_json::from_slice(&site.output("flow ps --json").stdout).unwrap();
    let sends = |flow: &&Value| flow["links"][0]["sends"] == true;
    let id = flows.as_array().unwrap().iter().find(sends).unwrap()["flow"].as_str().unwrap().to_owned();
    assert!(site.output(&format!("flow stop {id}")).status.success());
    let (sent, received) = (link(&here.ended(), "clock!publish"), link(&there.ended(), "clock!subscribe"));
    assert_eq!((&sent["put"], &sent["put"]), (&received["received"], &received["delivered"]), "{sent} {received}");
}
