//! A stream that is lost while no process receives from it.

use std::thread;
use std::time::Duration;

use test_support::{Broker, until};

use crate::site::{FLOW, LIMIT, Process, Site, link};

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

/// Asks the sender to drain and to end, as its only flow or as one of two.
fn stops(site: &Site) {
    let flows: serde_json::Value = serde_json::from_slice(&site.output("flow ps --json").stdout).unwrap();
    let sends = |flow: &&serde_json::Value| flow["links"][0]["sends"] == true;
    let id = flows.as_array().unwrap().iter().find(sends).unwrap()["flow"].as_str().unwrap().to_owned();
    assert!(site.output(&format!("flow stop {id}")).status.success());
}

#[test]
fn the_loss_is_in_the_last_line_and_the_exit_code_of_the_sender() {
    for has_receiver in [false, true] {
        let Some(broker) = Broker::start() else { return };
        let mut site = Site::new(broker, FLOW);
        let here = site.start_plain("here");
        until(LIMIT, "many are only at the broker", || stored(&site) > 500);
        site.broker.erase();
        site.broker.restart();
        let before = stored(&site);
        until(LIMIT, "it sends again", || stored(&site) > before + 50);
        let there = has_receiver.then(|| site.start("there"));
        if has_receiver {
            until(LIMIT, "messages come", || site.lines("out.txt") > 50);
        }
        stops(&site);
        let ended = here.output();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{told}");
        let last = told.lines().last().unwrap();
        assert!(last.contains("`clock!publish` sent ") && last.contains(" that the broker had and lost"), "{told}");
        if let Some(there) = there {
            let missing = link(&there.code(1), "clock!subscribe")["missing"].as_u64().unwrap();
            assert!(missing > 500 && last.contains(&missing.to_string()), "{missing}: {told}");
        }
    }
}

/// The receiver lives on and has nearly everything; what it had not reported yet, it says before the sender ends.
#[test]
fn what_a_receiver_had_before_the_stream_was_lost_is_no_loss_of_the_sender() {
    let Some(broker) = Broker::start() else { return };
    let mut site = Site::new(broker, FLOW);
    let (here, there) = (site.start("here"), site.start("there"));
    until(LIMIT, "messages come", || site.lines("out.txt") > 300);
    site.broker.erase();
    site.broker.restart();
    let lines = site.lines("out.txt");
    until(LIMIT, "messages come again", || site.lines("out.txt") > lines + 5);
    stops(&site);
    let (sent, received) = (here.output(), there.output());
    let event = |output: &std::process::Output| -> serde_json::Value {
        serde_json::from_str(String::from_utf8_lossy(&output.stdout).lines().last().unwrap()).unwrap()
    };
    let missing = link(&event(&received), "clock!subscribe")["missing"].as_u64().unwrap();
    assert_eq!(link(&event(&sent), "clock!publish")["lost"], missing, "{sent:?} {received:?}");
    let code = i32::from(missing > 0);
    assert_eq!((sent.status.code(), received.status.code()), (Some(code), Some(code)), "{missing}");
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
    stops(&site);
    let sent = link(&here.ended(), "clock!publish");
    let received = link(&there.ended(), "clock!subscribe");
    assert_eq!((&received["missing"], &sent["lost"]), (&0.into(), &0.into()), "{received} {sent}");
    assert_eq!(sent["put"], sent["stored"], "{sent}");
}
