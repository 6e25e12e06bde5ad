//! A stream that is lost while no process receives from it.

use std::thread;
use std::time::Duration;

use test_support::{Broker, until};

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
append = true

[[edge]]
from = "clock"
to = "out"
over = "OVER/clock"
"#;

/// How many messages the broker has acknowledged, of the only flow.
fn stored(site: &Site) -> u64 {
    let output = site.output("flow stats --json");
    let stats: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    stats["links"][0]["stored"].as_u64().unwrap_or(0)
}

/// A sender that sends.
fn sends(site: &Site) -> Process {
    let here = site.start("here");
    until(LIMIT, "it sends", || stored(site) > 0);
    here
}

#[test]
fn a_receiver_that_begins_after_the_stream_was_lost_counts_what_was_in_it() {
    let Some(broker) = Broker::start() else { return };
    let mut site = Site::new(broker, FLOW);
    let here = sends(&site);
    let there = site.start("there");
    until(LIMIT, "messages come", || site.lines("out.txt") > 50);
    there.kill();
    let before = stored(&site);
    // More than a report of the receiver may lag behind.
    until(LIMIT, "many are only at the broker", || stored(&site) > before + 1_000);
    let least = stored(&site) - before;
    site.broker.erase();
    site.broker.restart();
    let receives = |more: usize| {
        let (there, before) = (site.start("there"), site.lines("out.txt"));
        until(LIMIT, "messages come again", || site.lines("out.txt") > before + more);
        there
    };
    // One that is killed did not tell it.
    receives(300).kill();
    let there = receives(300);
    there.signal("INT");
    let received = link(&there.code(130), "clock!subscribe");
    assert!(received["missing"].as_u64() >= Some(least), "{least}: {received}");
    // And now it was told.
    let there = receives(50);
    here.signal("INT");
    let sent = link(&here.code(130), "clock!publish");
    let received = link(&there.ended(), "clock!subscribe");
    assert_eq!(received["missing"], 0, "{received}");
    assert!(sent["lost"].as_u64() >= Some(least), "{least}: {sent}");
    assert_eq!(sent["adds_up"], true, "{sent}");
}

#[test]
fn the_loss_is_in_the_last_line_and_the_exit_code_of_a_receiver_that_began_later() {
    let Some(broker) = Broker::start() else { return };
    let mut site = Site::new(broker, FLOW);
    let here = sends(&site);
    let there = site.start("there");
    until(LIMIT, "messages come", || site.lines("out.txt") > 50);
    there.kill();
    let (before, lines) = (stored(&site), site.lines("out.txt"));
    until(LIMIT, "many are only at the broker", || stored(&site) > before + 500);
    site.broker.erase();
    site.broker.restart();
    let there = site.start_plain("there");
    until(LIMIT, "messages come again", || site.lines("out.txt") > lines + 50);
    here.signal("INT");
    let sent = link(&here.code(130), "clock!publish");
    let ended = there.output();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.lines().last().unwrap().contains("`clock!subscribe` never got"), "{told}");
    assert!(told.contains("missing at the broker"), "{told}");
    // No less than what is not there; up to a quarter of a second more, which the first receiver had and could not report.
    let missing = sent["stored"].as_u64().unwrap() - site.lines("out.txt") as u64;
    assert!(missing > 0 && sent["lost"].as_u64() >= Some(missing), "{missing}: {sent} {told}");
}

#[test]
fn a_stream_that_is_lost_with_nothing_in_it_is_no_loss() {
    let Some(broker) = Broker::start() else { return };
    let text = FLOW.replace("\"1ms\"", "\"1500ms\"");
    let mut site = Site::new(broker, &text);
    let here = sends(&site);
    let there = site.start("there");
    until(LIMIT, "messages come", || site.lines("out.txt") > 0);
    // Between two messages all are handled, and the sender is told.
    let lines = site.lines("out.txt");
    until(LIMIT, "another message comes", || site.lines("out.txt") > lines);
    thread::sleep(Duration::from_millis(500));
    there.kill();
    site.broker.erase();
    site.broker.restart();
    let there = site.start("there");
    let lines = site.lines("out.txt");
    until(LIMIT, "messages come again", || site.lines("out.txt") > lines + 1);
    here.signal("INT");
    let sent = link(&here.code(130), "clock!publish");
    let received = link(&there.ended(), "clock!subscribe");
    assert_eq!(received["missing"], 0, "{received}");
    assert_eq!(sent["put"], sent["stored"], "{sent}");
}
