//! Several processes with one part of a flow: the one that is there stays, and one that was killed is followed at once.

use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use test_support::{Broker, until};

use crate::site::{FLOW, LIMIT, Site, link};

/// Runs a part once more: it is refused in one line.
fn refused(site: &Site, part: &str, said: &str) {
    let output = site.output(&format!("flow run flow.toml --part {part} --for 5s"));
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

/// The first sender is stopped while the broker is restarted: so the second is there before it, for certain.
#[test]
fn a_second_sender_is_refused_before_the_first_has_come_back_to_a_broker_that_was_restarted() {
    let Some(broker) = Broker::start() else { return };
    let mut site = Site::new(broker, FLOW);
    let (there, here) = (site.start("there"), site.start("here"));
    until(LIMIT, "messages come", || site.lines("out.txt") > 50);
    for _ in 0..2 {
        site.broker.kill();
        here.signal("STOP");
        site.broker.restart();
        refused(
            &site,
            "here",
            &format!("another process sends to {} (process {}", site.broker.address("clock"), here.id()),
        );
        let before = site.lines("out.txt");
        here.signal("CONT");
        until(LIMIT, "the first sends again", || site.lines("out.txt") > before + 50);
        refused(&site, "here", "another process sends to nats://127.0.0.1:");
    }
    here.signal("INT");
    let (sent, received) = (here.code(130), there.ended());
    let (sent, received) = (link(&sent, "clock!publish"), link(&received, "clock!subscribe"));
    assert_eq!((&sent["put"], &received["missing"]), (&received["delivered"], &0.into()), "{sent} {received}");
}

#[test]
fn a_second_sender_is_refused_by_a_broker_that_came_back_without_its_files() {
    let Some(broker) = Broker::start() else { return };
    let mut site = Site::new(broker, FLOW);
    let (_there, here) = (site.start("there"), site.start("here"));
    until(LIMIT, "messages come", || site.lines("out.txt") > 50);
    site.broker.erase();
    site.broker.restart();
    refused(&site, "here", "another process sends to nats://127.0.0.1:");
    let before = site.lines("out.txt");
    until(LIMIT, "the first sends again", || site.lines("out.txt") > before + 50);
    drop(here);
}

/// It could not be asked, and nothing was written down of it: then the first has the edge when it comes back.
#[test]
fn a_sender_that_comes_late_to_a_broker_without_files_ends_the_one_that_began_meanwhile() {
    let Some(broker) = Broker::start() else { return };
    let mut site = Site::new(broker, FLOW);
    let (_there, first) = (site.start("there"), site.start("here"));
    until(LIMIT, "messages come", || site.lines("out.txt") > 50);
    first.signal("STOP");
    site.broker.erase();
    site.broker.restart();
    let (second, before) = (site.start_plain("here"), site.lines("out.txt"));
    until(LIMIT, "the second sends", || site.lines("out.txt") > before + 50);
    first.signal("CONT");
    let ended = second.output();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("(process {}", first.id())), "{said}");
    let before = site.lines("out.txt");
    until(LIMIT, "the first sends again", || site.lines("out.txt") > before + 50);
}

#[test]
fn of_senders_that_begin_together_one_sends_and_the_others_are_refused() {
    let Some(broker) = Broker::start() else { return };
    let site = Site::new(broker, FLOW);
    let codes: Vec<i32> = thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let mut command = site.command("flow run flow.toml --plain --part here --for 6s");
                scope.spawn(move || command.output().unwrap().status.code().unwrap())
            })
            .collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    let count = |code| codes.iter().filter(|it| **it == code).count();
    assert_eq!((count(0), count(9)), (1, 3), "{codes:?}");
}

const WIDE: &str = r#"
[part.here]
nodes = ["first", "second"]
[part.there]
nodes = ["one", "two"]

[node.first]
kind = "every"
interval = "1ms"
[node.second]
kind = "every"
interval = "1ms"

[node.one]
kind = "write"
path = "one.txt"
[node.two]
kind = "write"
path = "two.txt"

[[edge]]
from = "second"
to = "two"
over = "OVER/two"
[[edge]]
from = "first"
to = "one"
over = "OVER/one"
"#;

/// One that is refused has started nothing: it would have said so.
#[test]
fn of_processes_that_begin_together_one_has_all_edges_of_the_part_and_the_others_start_nothing() {
    let Some(broker) = Broker::start() else { return };
    let site = Site::new(broker, WIDE);
    for part in ["there", "here", "there", "here"] {
        let outputs: Vec<_> = thread::scope(|scope| {
            let processes: Vec<_> = (0..3)
                .map(|_| {
                    let mut command = site.command(&format!("flow run flow.toml --plain --part {part} --for 6s"));
                    scope.spawn(move || command.output().unwrap())
                })
                .collect();
            processes.into_iter().map(|process| process.join().unwrap()).collect()
        });
        let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        let refused: Vec<_> = outputs.iter().filter(|output| output.status.code() == Some(9)).collect();
        let stay = outputs.iter().filter(|output| output.status.code() == Some(0)).count();
        let all: Vec<String> = outputs.iter().map(said).collect();
        assert_eq!((stay, refused.len()), (1, 2), "{part}: {all:?}");
        for output in refused {
            assert!(output.stdout.is_empty() && said(output).lines().count() == 1, "{part}: {output:?}");
        }
    }
}

#[test]
fn a_sender_that_was_killed_while_its_broker_was_away_is_followed_at_once() {
    let Some(broker) = Broker::start() else { return };
    let mut site = Site::new(broker, FLOW);
    let (_there, here) = (site.start("there"), site.start("here"));
    until(LIMIT, "messages come", || site.lines("out.txt") > 50);
    site.broker.kill();
    here.kill();
    site.broker.restart();
    let (before, began) = (site.lines("out.txt"), Instant::now());
    let _here = site.start("here");
    until(LIMIT, "messages of the next session come", || site.lines("out.txt") > before + 20);
    // On another machine it would be waited for, for 8 s.
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}
