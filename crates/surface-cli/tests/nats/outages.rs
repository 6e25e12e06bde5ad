//! A broker that is away while a flow runs.

use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::{Broker, until, until_some};

use crate::site::{LIMIT, Process, Site, link};

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

/// A flow that is told by people: its lines, and how it ended.
fn said(process: Process, code: i32) -> String {
    let output = process.output();
    let lines = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{lines}");
    lines
}

#[test]
fn messages_that_the_broker_lost_are_counted_and_change_the_exit_code() {
    let Some(broker) = Broker::start() else { return };
    let mut site = Site::new(broker, &FLOW.replace("POLICY", "block"));
    let here = site.start("here");
    let id = until_some(LIMIT, "it sends", || links(&site).pop().map(|link| link["flow"].as_str().unwrap().to_owned()));
    let there = site.start_plain("there");
    until(LIMIT, "messages come", || site.lines("out.txt") > 50);
    // The receiver is stopped, and so gives no answer. Of what is stored from now on the broker has sent it the first packs already, as many as it had asked for.
    let stored = || stats_of(&site, &id)["links"][0]["stored"].as_u64().unwrap();
    let before = stored();
    there.signal("STOP");
    until(LIMIT, "some are only at the broker", || stored() > before + 400);
    site.broker.erase();
    site.broker.restart();
    there.signal("CONT");
    let lines = site.lines("out.txt");
    until(LIMIT, "messages come again", || site.lines("out.txt") > lines + 50);
    here.signal("INT");
    let sent = super::site::link(&here.code(130), "clock!publish")["stored"].as_u64().unwrap();
    let told = said(there, 1);
    let missing = sent - site.lines("out.txt") as u64;
    assert!(missing > 0 && told.contains(&format!("{missing} missing at the broker")), "{missing} of {sent}: {told}");
    assert!(told.contains("`clock!subscribe` never got"), "{told}");
}

#[test]
fn an_outage_is_told_when_it_begins_and_ends_and_by_who_is_stopped_within_it() {
    let Some(broker) = Broker::start() else { return };
    let mut site = Site::new(broker, &FLOW.replace("POLICY", "block"));
    let (here, there) = (site.start_plain("here"), site.start_plain("there"));
    until(LIMIT, "messages come", || site.lines("out.txt") > 50);
    let broker = format!("nats://127.0.0.1:{}/clock", site.broker.port());
    site.broker.kill();
    until(LIMIT, "the broker is away", || links(&site).iter().filter(|link| link["away"].is_string()).count() == 2);
    let began = Instant::now();
    here.signal("INT");
    let told = said(here, 130);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let last = told.lines().last().unwrap();
    assert!(last.contains("left behind") && last.contains(&format!("clock!publish, {broker}: ")), "{told}");
    assert!(told.contains(&format!("away      clock!publish: {broker}: ")), "{told}");
    site.broker.restart();
    until(LIMIT, "the broker is back", || links(&site).iter().all(|link| link["away"].is_null()));
    there.signal("INT");
    let told = said(there, 130);
    assert!(told.contains(&format!("away      clock!subscribe: {broker}: ")), "{told}");
}

/// The halves of edges of all flows that run.
fn links(site: &Site) -> Vec<Value> {
    let flows: Value = serde_json::from_slice(&site.output("flow ps --json").stdout).unwrap_or_default();
    let ids = flows.as_array().into_iter().flatten().filter_map(|flow| flow["flow"].as_str());
    let links = ids.map(|id| {
        let mut link = stats_of(site, id)["links"][0].clone();
        link["flow"] = id.into();
        link
    });
    links.collect()
}

fn stats_of(site: &Site, id: &str) -> Value {
    serde_json::from_slice(&site.output(&format!("flow stats {id} --json")).stdout).unwrap_or_default()
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
