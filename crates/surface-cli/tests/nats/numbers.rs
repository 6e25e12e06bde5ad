//! Numbered messages through three processes, while the broker and the last process are killed.

use std::fs;
use std::thread;
use std::time::Duration;

use test_support::{Broker, until};

use crate::site::{LIMIT, Site, link};

const FLOW: &str = r#"
edges = ["numbers -> pace"]

[part.first]
nodes = ["numbers", "pace"]
[part.middle]
nodes = ["pass"]
[part.last]
nodes = ["out"]

[node.numbers]
kind = "numbers"
to = COUNT

[node.pace]
PACE

[node.pass]
kind = "filter"
at_least = 0

[node.out]
kind = "write"
path = "out.txt"
append = true

[[edge]]
from = "pace"
to = "pass"
over = "OVER/first"

[[edge]]
from = "pass"
to = "out"
over = "OVER/second"
"#;

/// All numbers from 1 arrive, and those that arrive twice were announced.
fn all_arrive(count: usize, pace: &str) {
    let Some(broker) = Broker::start() else { return };
    let text = FLOW.replace("COUNT", &count.to_string()).replace("PACE", pace);
    let mut site = Site::new(broker, &text);
    let last = site.start("last");
    let middle = site.start("middle");
    let first = site.start("first");
    let until_part = |site: &Site, percent: usize| {
        let wanted = count / 100 * percent;
        until(LIMIT, &format!("{percent} % have arrived"), || site.lines("out.txt") >= wanted);
    };
    let restart = |site: &mut Site| {
        site.broker.kill();
        thread::sleep(Duration::from_millis(300));
        site.broker.restart();
    };
    until_part(&site, 15);
    restart(&mut site);
    until_part(&site, 40);
    last.kill();
    let before = site.lines("out.txt");
    let last = site.start("last");
    until_part(&site, 65);
    restart(&mut site);
    let (first, middle, last) = (first.ended(), middle.ended(), last.ended());

    let text = fs::read_to_string(site.path("out.txt")).unwrap();
    let mut seen = vec![0_u32; count + 1];
    text.lines().for_each(|line| seen[line.parse::<usize>().unwrap()] += 1);
    let missing: Vec<usize> = (1..=count).filter(|number| seen[*number] == 0).collect();
    assert!(missing.is_empty(), "{} are missing, the first is {}", missing.len(), missing[0]);
    let lines = text.lines().count();
    let twice = lines - count;

    // Within a process all is in order, and once.
    let numbers: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
    for part in [&numbers[..before], &numbers[before..]] {
        assert!(part.windows(2).all(|pair| pair[0] + 1 == pair[1]), "in one process all is in order");
    }
    let [sent, received] = [link(&first, "first!publish"), link(&middle, "first!subscribe")];
    assert_eq!((&sent["put"], &sent["stored"]), (&count.into(), &count.into()), "{sent}");
    assert_eq!((&received["received"], &received["delivered"]), (&count.into(), &count.into()), "{received}");
    assert_eq!((&received["redelivered"], &received["missing"]), (&0.into(), &0.into()), "{received}");
    let [sent, received] = [link(&middle, "second!publish"), link(&last, "second!subscribe")];
    assert_eq!(sent["stored"], count, "{sent}");
    assert_eq!(received["received"], lines - before, "{received}");
    assert_eq!((&received["delivered"], &received["missing"]), (&received["received"], &0.into()), "{received}");
    let told = received["redelivered"].as_u64().unwrap() as usize;
    assert!(twice <= told, "{twice} came twice, and {told} were announced: {received}");
    for link in [&sent, &received] {
        assert_eq!(link["adds_up"], true, "{link}");
    }
    println!("{count} numbers, {twice} twice, {told} announced; {sent}; {received}");
}

#[test]
fn ten_thousand_numbers_pass_three_processes_and_three_kills() {
    all_arrive(10_000, "kind = \"throttle\"\nrate = 4000");
}

#[test]
#[ignore = "takes long; a lane of its own runs it"]
fn a_million_numbers_pass_three_processes_and_three_kills() {
    all_arrive(1_000_000, "kind = \"filter\"\nat_least = 0");
}
