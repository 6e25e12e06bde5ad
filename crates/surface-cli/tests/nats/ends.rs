//! Two processes with one part of a flow: the one that is there stays, and one that was killed is followed at once.

use std::time::{Duration, Instant};

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
append = true

[[edge]]
from = "clock"
to = "out"
over = "OVER/clock"
"#;

/// Runs a part once more: it is refused in one line.
fn refused(site: &Site, part: &str, said: &str) {
    let output = site.output(&format!("flow run flow.toml --part {part}"));
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(9), "{line}");
    assert!(line.contains(said) && line.contains("(process ") && line.lines().count() == 1, "{line}");
}

#[test]
fn a_part_that_runs_is_not_run_again() {
    let Some(broker) = Broker::start() else { return };
    let site = Site::new(broker, FLOW);
    let (there, here) = (site.start("there"), site.start("here"));
    let more = |lines: usize| until(LIMIT, "messages come", || site.lines("out.txt") > lines);
    more(50);
    for _ in 0..3 {
        let before = site.lines("out.txt");
        refused(&site, "there", "another process receives from nats://127.0.0.1:");
        refused(&site, "here", "another process sends to nats://127.0.0.1:");
        more(before + 20);
    }
    here.signal("INT");
    let (sent, received) = (here.code(130), there.ended());
    let (sent, received) = (link(&sent, "clock!publish"), link(&received, "clock!subscribe"));
    assert_eq!((&sent["put"], &sent["outages"]), (&received["delivered"], &0.into()), "{sent} {received}");
    assert_eq!((&received["redelivered"], &received["duplicates"]), (&0.into(), &0.into()), "{received}");
    assert_eq!(site.lines("out.txt") as u64, sent["put"].as_u64().unwrap());
}

#[test]
fn a_process_that_was_killed_is_followed_at_once() {
    let Some(broker) = Broker::start() else { return };
    let site = Site::new(broker, FLOW);
    let (mut there, mut here) = (site.start("there"), site.start("here"));
    until(LIMIT, "messages come", || site.lines("out.txt") > 50);
    for round in 0..3 {
        there.kill();
        let (before, began) = (site.lines("out.txt"), Instant::now());
        there = site.start("there");
        until(LIMIT, "messages come again", || site.lines("out.txt") > before);
        // On another machine it would be waited for, for 4 s.
        assert!(began.elapsed() < Duration::from_secs(3), "round {round}: {:?}", began.elapsed());
        here.kill();
        here = site.start("here");
        let before = site.lines("out.txt");
        until(LIMIT, "messages of the next session come", || site.lines("out.txt") > before + 20);
    }
    here.signal("INT");
    let (_, received) = (here.code(130), there.ended());
    assert_eq!(link(&received, "clock!subscribe")["missing"], 0, "{received}");
}
