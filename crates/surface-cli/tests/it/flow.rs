//! Flows as a script meets them: files, exit codes, lines and JSON.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::run_site::{Site, assert_code, is_alive};
use crate::{json_lines, text};

/// A place with a flow file `flow.toml`.
pub(crate) fn site(flow: &str) -> Site {
    let site = Site::new("");
    fs::write(site.path("flow.toml"), flow).unwrap();
    site
}

const COUNT: &str = r#"
name = "count"
edges = ["count -> double -> show"]
[node.count]
kind = "numbers"
to = 3
[node.double]
kind = "map"
scale = 2
[node.show]
kind = "print"
"#;

#[test]
fn a_flow_prints_what_its_nodes_print_and_reports_about_itself_elsewhere() {
    for workers in ["", " --workers 2"] {
        let output = site(COUNT).bursar(&format!("flow run flow.toml{workers}"));
        assert_code(&output, 0);
        let numbers: Vec<f64> = text(&output.stdout).lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers, [2.0, 4.0, 6.0]);
        let told = text(&output.stderr);
        assert!(told.starts_with("flow f-") && told.contains(": count, 3 nodes, 2 edges"), "{told}");
        assert!(told.contains("count:out->double:in") && told.contains("block"), "{told}");
        assert!(told.lines().last().unwrap().starts_with("count: done in "), "{told}");
        assert!(told.ends_with(" · 6 messages delivered\n") && !told.contains('\x1b'), "{told:?}");
    }
}

#[test]
fn programs_get_an_object_for_each_event() {
    let output = site(COUNT).bursar("flow run flow.toml --json");
    assert_code(&output, 0);
    let events = json_lines(&text(&output.stdout));
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    assert_eq!(events[0]["event"], "flow_started");
    assert_eq!((&events[0]["nodes"], &events[0]["edges"]), (&3.into(), &2.into()));
    let printed: Vec<f64> =
        of("printed").iter().map(|event| event["text"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(printed, [2.0, 4.0, 6.0]);
    let end = events.last().unwrap();
    assert_eq!((end["event"].as_str(), end["outcome"].as_str()), (Some("flow_ended"), Some("done")));
    assert_eq!(end["delivered"], 6);
    assert_eq!(end["stats"]["edges"][0]["id"], "count:out->double:in");
}

#[test]
fn a_file_that_is_wrong_is_shown_with_its_lines_and_code_3() {
    let site = site("edges = ['a -> b']\n[node.a]\nkind = 'numbrs'\nto = 3\n[node.b]\nkind = 'print'\n");
    for words in ["flow check flow.toml", "flow run flow.toml", "flow graph flow.toml"] {
        let output = site.bursar(words);
        assert_code(&output, 3);
        let error = text(&output.stderr);
        for part in ["flow.toml", "kind = 'numbrs'", "did you mean \"numbers\"?", "bursar: flow.toml has 1 problem"] {
            assert!(error.contains(part), "`{part}` is missing from:\n{error}");
        }
        assert!(output.stdout.is_empty());
    }
    let output = site.bursar("flow check flow.toml --json");
    assert_code(&output, 3);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["ok"].as_bool(), json["problems"][0]["line"].as_u64()), (Some(false), Some(3)));
}

#[test]
fn a_file_that_is_right_is_listed_and_drawn() {
    let site = site(COUNT);
    let listed = text(&site.bursar("flow check flow.toml").stdout);
    assert!(listed.starts_with("count: 3 nodes, 2 edges") && listed.contains("└─ double"), "{listed}");
    let json: Value = serde_json::from_slice(&site.bursar("flow check flow.toml --json").stdout).unwrap();
    assert_eq!((json["ok"].as_bool(), json["edges"][1]["id"].as_str()), (Some(true), Some("double:out->show:in")));
    assert!(text(&site.bursar("flow graph flow.toml").stdout).starts_with("digraph "));
    assert_eq!(text(&site.bursar("flow graph flow.toml --text").stdout), listed);
    assert_code(&site.bursar("flow graph flow.toml -o flow.svg"), 0);
    assert!(site.lines("flow.svg")[0].starts_with("<svg "));
}

#[test]
fn kinds_are_explained() {
    let site = site("");
    let all = text(&site.bursar("flow kinds").stdout);
    for kind in ["command", "window", "random-walk", "stop"] {
        assert!(all.contains(&format!("\n  {kind} ")), "`{kind}` is missing from:\n{all}");
    }
    let one = text(&site.bursar("flow kinds filter").stdout);
    assert!(one.starts_with("filter: ") && one.contains("above"), "{one}");
    let unknown = site.bursar("flow kinds fliter");
    assert_code(&unknown, 4);
    assert_eq!(text(&unknown.stderr), "bursar: there is no kind `fliter`; did you mean `filter`?\n");
}

#[test]
fn a_node_that_may_stop_the_flow_fails_it() {
    let site = site(
        r#"
        edges = ["words -> number -> show"]
        [node.words]
        kind = "values"
        list = ["1", "two"]
        [node.number]
        kind = "map"
        parse = "number"
        on_error = "stop"
        [node.show]
        kind = "print"
        "#,
    );
    let output = site.bursar("flow run flow.toml");
    assert_code(&output, 1);
    let told = text(&output.stderr);
    assert!(told.contains("flow: failed after "), "{told}");
    assert!(told.lines().last().unwrap().starts_with("bursar: node `number` stopped the graph: "), "{told}");
}

#[test]
fn a_node_that_failed_for_good_is_named_last_and_the_exit_code_shows_it() {
    let numbers = "[node.a]\nkind = 'numbers'\nto = 100000\n";
    let shown = "[node.z]\nkind = 'print'\n";
    let cases = [
        ("a", format!("[node.a]\nkind = 'lines'\npath = 'not-there'\n{shown}"), "not-there cannot be read: "),
        ("a", format!("[node.a]\nkind = 'command'\ncommand = ['no-such-program']\n{shown}"), "cannot be started: "),
        ("a", format!("[node.a]\nkind = 'command'\nrun = 'exit 7'\nrestart = 1\n{shown}"), "exit code 7"),
        ("z", format!("{numbers}[node.z]\nkind = 'write'\npath = 'no/such/folder'\n"), "cannot be written: "),
        ("z", format!("{numbers}[node.z]\nkind = 'write'\npath = '/dev/full'\n"), "cannot be written: "),
    ];
    for (node, nodes, why) in cases {
        let output = site(&format!("edges = ['a -> z']\n{nodes}")).bursar("flow run flow.toml");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{nodes}{told}");
        let last = told.lines().last().unwrap();
        assert!(last.starts_with(&format!("bursar: node `{node}` failed: ")) && last.contains(why), "{nodes}{told}");
    }
}

#[test]
fn messages_that_a_program_did_not_read_are_lost_or_not_wanted_and_the_last_line_shows_it() {
    for (end, code, what) in [("exit 7", 1, " lost"), ("exit 0", 0, " not wanted")] {
        // `y` gets the end of its input when all messages were given out; then `x` may end.
        let site = site(&format!(
            "edges = ['a -> x', 'a -> y']\n[node.a]\nkind = 'numbers'\nto = 300\n[node.y]\nkind = 'command'\n\
             run = 'cat > /dev/null; echo > go'\n[node.x]\nkind = 'command'\n\
             run = 'mkfifo go; read a; read b < go; {end}'\n",
        ));
        let output = site.bursar("flow run flow.toml");
        assert_code(&output, code);
        let told = text(&output.stderr);
        let line = told.lines().find(|line| line.starts_with("flow: ")).unwrap();
        assert!(line.contains(what), "{told}");
        assert!(!line.contains("600 messages delivered"), "{told}");
        let last = told.lines().last().unwrap();
        assert_eq!(last.contains("messages that it had not read are lost"), code == 1, "{told}");
    }
}

#[test]
fn an_error_that_is_skipped_is_reported_and_the_rest_continues() {
    let site = site(
        r#"
        edges = ["words -> number -> show"]
        [node.words]
        kind = "values"
        list = ["1", "two", "3"]
        [node.number]
        kind = "map"
        parse = "number"
        [node.show]
        kind = "print"
        "#,
    );
    let output = site.bursar("flow run flow.toml");
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout).lines().count(), 2);
    let told = text(&output.stderr);
    assert!(told.contains("  error     number: ") && told.contains("(1 error)"), "{told}");
    assert!(told.trim_end().ends_with(" · 4 messages delivered, 1 failed, 1 error"), "{told}");
}

/// Messages come again and again, and the FIFO is written at the first.
const ENDLESS: &str = r#"
edges = ["tick -> signal"]
[node.tick]
kind = "every"
interval = "5ms"
[node.signal]
kind = "command"
run = "read one; echo up > fifo; cat > /dev/null"
"#;

#[test]
fn a_flow_ends_after_the_time_it_was_given() {
    let output = site("edges = ['a -> b']\n[node.a]\nkind = 'every'\ninterval = '5ms'\n[node.b]\nkind = 'discard'\n")
        .bursar("flow run flow.toml --for 150ms");
    assert_code(&output, 0);
    let told = text(&output.stderr);
    assert!(told.contains("its time limit is reached") && told.contains("flow: stopped after "), "{told}");
}

#[test]
fn ctrl_c_delivers_what_is_on_its_way() {
    let site = site(ENDLESS);
    let fifo = site.fifo("fifo");
    let run = site.start("flow run flow.toml");
    fifo.wait();
    run.signal(Signal::INT);
    let (code, said) = run.wait();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("Ctrl-C again stops at once: delivering messages on their way, for at most 5.0 s"), "{said}");
    assert!(said.contains("flow: interrupted after ") && !said.contains("left behind"), "{said}");
}

#[test]
fn a_second_ctrl_c_stops_at_once() {
    let site = site(
        r#"
        edges = ["count -> slow -> signal"]
        [flow]
        drain = "1h"
        [node.count]
        kind = "numbers"
        to = 100
        [node.slow]
        kind = "throttle"
        rate = 0.001
        [node.signal]
        kind = "command"
        run = "read one; echo up > fifo; cat > /dev/null"
        "#,
    );
    let fifo = site.fifo("fifo");
    let run = site.start("flow run flow.toml");
    fifo.wait();
    run.signal(Signal::INT);
    run.until_it_says("delivering messages on their way");
    run.signal(Signal::INT);
    let (code, said) = run.wait();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("flow: killed after ") && said.contains(" left behind"), "{said}");
}

#[test]
fn a_message_to_a_stop_node_ends_the_flow_and_the_last_line_names_it() {
    let site = site(
        r#"
        edges = ["tick -> late -> kill"]
        [node.tick]
        kind = "every"
        interval = "5ms"
        [node.late]
        kind = "filter"
        above = 10
        [node.kill]
        kind = "stop"
        "#,
    );
    let output = site.bursar("flow run flow.toml");
    assert_code(&output, 0);
    assert!(text(&output.stderr).contains("flow: stopped by `kill` after "), "{}", text(&output.stderr));
}

#[test]
fn the_example_of_the_repository_is_right_and_runs() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sensors.toml");
    let site = site("");
    let output = site.bursar(&format!("flow run {example} --for 1500ms --json"));
    assert_code(&output, 0);
    let end: Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
    assert_eq!(end["outcome"], "stopped", "{end:#}");
    let edge = |id: &str| end["stats"]["edges"].as_array().unwrap().iter().find(|edge| edge["id"] == id).unwrap();
    assert!(edge("imu:out->log:in")["replaced"].as_u64() > Some(0), "{end:#}");
    assert!(edge("lidar:out->scan:in")["coalesced"].as_u64() > Some(0), "{end:#}");
    assert_eq!(end["errors"], 0, "{end:#}");
}

#[test]
fn what_run_refuses_check_refuses() {
    // A circle whose only loose edge coalesces: it waits when two messages cannot be merged.
    let text = "edges = ['a -> m', 'm -> n']\n[node.a]\nkind = 'numbers'\nto = 3\n[node.m]\nkind = 'merger'\n[node.n]\nkind = 'merger'\n\
                [[edge]]\nfrom = 'n'\nto = 'm'\ncoalesce = 'sum'\n";
    let site = site(text);
    for command in ["flow check flow.toml", "flow check flow.toml --json", "flow run flow.toml"] {
        assert_code(&site.bursar(command), 3);
    }
}

#[test]
fn a_flow_that_is_killed_takes_its_programs_with_it() {
    // One neither reads nor prints, the other is a source that prints nothing.
    let site = site(
        "edges = ['tick -> deaf', 'mute -> out']\n[node.tick]\nkind = 'every'\ninterval = '5ms'\n[node.deaf]\nkind = 'command'\n\
         run = 'sleep 1000 & echo $$ $! > deaf; wait'\n[node.mute]\nkind = 'command'\nrun = 'echo $$ > mute; exec sleep 1000'\n[node.out]\nkind = 'discard'\n",
    );
    let (deaf, mute) = (site.fifo("deaf"), site.fifo("mute"));
    let run = site.start("flow run flow.toml");
    let pids = format!("{} {}", deaf.wait(), mute.wait());
    let pids: Vec<&str> = pids.split_whitespace().collect();
    assert_eq!(pids.len(), 3, "{pids:?}");
    assert!(pids.iter().all(|pid| is_alive(pid)));
    run.kill();
    let since = std::time::Instant::now();
    while pids.iter().any(|pid| is_alive(pid)) {
        assert!(since.elapsed() < Duration::from_secs(20), "a program outlives its flow: {pids:?}");
        std::thread::yield_now();
    }
}

/// What the flow below has written: how often each path was counted, over all windows.
fn counted(site: &Site) -> std::collections::BTreeMap<String, u64> {
    let mut counts = std::collections::BTreeMap::new();
    for line in site.lines("counts.jsonl") {
        let window: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        *counts.entry(window["key"].as_str().unwrap().to_owned()).or_default() += window["value"].as_u64().unwrap();
    }
    counts
}

#[test]
fn a_log_that_rotates_is_counted_by_key_and_time_and_the_totals_are_right() {
    let site = site(
        "edges = ['log -> per -> out']\n[node.log]\nkind = 'lines'\npath = 'access.log'\nformat = 'json'\nfollow = true\n\
         [node.per]\nkind = 'window'\nspan = '100ms'\naggregate = 'count'\nkey = 'path'\n\
         [node.out]\nkind = 'write'\npath = 'counts.jsonl'\n",
    );
    let log = |name: &str| fs::File::options().append(true).create(true).open(site.path(name)).unwrap();
    let mut file = log("access.log");
    let run = site.start("flow run flow.toml");
    let mut expected = std::collections::BTreeMap::new();
    let mut write = |file: &mut fs::File, from: u64| {
        for n in from..from + 100 {
            let path = ["/", "/cart", "/pay"][(n % 3) as usize];
            std::io::Write::write_all(file, format!("{{\"path\":\"{path}\",\"ms\":{n}}}\n").as_bytes()).unwrap();
            *expected.entry(path.to_owned()).or_insert(0_u64) += 1;
        }
    };
    let until_counted = |total: u64| {
        let since = std::time::Instant::now();
        while counted(&site).values().sum::<u64>() < total {
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "only {:?} of {total} lines were counted",
                counted(&site)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    write(&mut file, 0);
    until_counted(100);
    // Rotated by rename: the rest of the old file counts, and then the new one.
    fs::rename(site.path("access.log"), site.path("access.log.1")).unwrap();
    write(&mut file, 100);
    let mut file = log("access.log");
    write(&mut file, 200);
    until_counted(300);
    // Rotated by copying and truncating.
    fs::copy(site.path("access.log"), site.path("access.log.2")).unwrap();
    file.set_len(0).unwrap();
    write(&mut file, 300);
    until_counted(400);
    assert_eq!(counted(&site), expected);
    run.signal(Signal::INT);
    let (code, said) = run.wait();
    assert_eq!(code, Some(130), "{said}");
    // A log that is not there is no success.
    fs::remove_file(site.path("access.log")).unwrap();
    let output = site.bursar("flow run flow.toml --for 200ms");
    assert_code(&output, 1);
    assert!(text(&output.stderr).contains("access.log"), "{}", text(&output.stderr));
}

/// The last line about the flow, and the one about its failure, if there is one.
fn last_lines(stderr: &[u8]) -> String {
    let told = text(stderr);
    let lines: Vec<&str> = told.lines().collect();
    lines[lines.len().saturating_sub(2)..].join("\n")
}

#[test]
fn a_program_that_is_started_again_and_again_loses_no_message() {
    let site = site(
        r#"
        edges = ["a -> p -> b"]
        [node.a]
        kind = "numbers"
        to = 2000
        [node.p]
        kind = "command"
        run = "n=0; while read x; do echo $x; n=$((n+1)); test $n = 300 && exit 1; done; exit 0"
        restart = 100
        [node.b]
        kind = "write"
        path = "rs.txt"
        "#,
    );
    for _ in 0..10 {
        let output = site.bursar("flow run flow.toml");
        let lines = site.lines("rs.txt");
        assert!(lines.iter().map(|line| line.parse::<u32>().unwrap()).eq(1..=2000), "{} lines", lines.len());
        assert_code(&output, 0);
        let last = last_lines(&output.stderr);
        assert!(last.contains(" 4,000 messages delivered, 6 errors") && !last.contains("lost"), "{last}");
    }
}

#[test]
fn what_a_program_that_ends_well_did_not_read_is_not_wanted_and_no_failure() {
    let site = site(
        r#"
        edges = ["a -> p"]
        [node.a]
        kind = "numbers"
        to = 20
        [node.p]
        kind = "command"
        run = "sleep 0.2; exit 0"
        "#,
    );
    let output = site.bursar("flow run flow.toml");
    assert_code(&output, 0);
    let last = last_lines(&output.stderr);
    assert!(last.contains(" 0 messages delivered, 20 not wanted") && !last.contains("lost"), "{last}");
}

#[test]
fn what_a_delay_or_a_program_has_not_handled_when_the_flow_is_stopped_is_lost() {
    for (slow, lost) in
        [("kind = 'delay'\nby = '1h'", 100), ("kind = 'command'\nrun = 'read x; exec sleep 60'\ngrace = '10ms'", 99)]
    {
        let site = site(&format!(
            "edges = ['a -> p -> b']\n[flow]\ndrain = '50ms'\n[node.a]\nkind = 'numbers'\nto = 100\n[node.p]\n{slow}\n[node.b]\nkind = 'print'"
        ));
        let output = site.bursar("flow run flow.toml --for 2s");
        assert_code(&output, 1);
        let last = last_lines(&output.stderr);
        let wanted = format!(" · {} delivered, {lost} lost", if lost == 100 { "0 messages" } else { "1 message" });
        assert!(last.contains(&wanted), "{slow}: {last}");
    }
}

#[test]
fn a_disk_that_is_full_fails_a_flow_that_prints_and_one_that_writes() {
    let numbers = "edges = ['a -> b']\n[node.a]\nkind = 'numbers'\nto = 1000\n[node.b]\n";
    let prints = site(&format!("{numbers}kind = 'print'"));
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = prints.command(["flow", "run", "flow.toml"]).stdout(full).output().unwrap();
    assert_code(&output, 1);
    let last = last_lines(&output.stderr);
    assert!(
        last.contains(" · 0 messages delivered, ") && last.contains("node `b` failed: cannot be printed: "),
        "{last}"
    );
    let writes = site(&format!("{numbers}kind = 'write'\npath = '/dev/full'"));
    let output = writes.bursar("flow run flow.toml");
    assert_code(&output, 1);
    let last = last_lines(&output.stderr);
    assert!(last.contains(" · 0 messages delivered, ") && last.contains("/dev/full cannot be written"), "{last}");
}

#[test]
fn what_does_not_fit_on_a_full_disk_is_a_dead_letter_each() {
    let site = site(
        "edges = ['a -> b', 'b:dead -> d']\n[node.a]\nkind = 'numbers'\nto = 3000\n[node.b]\nkind = 'write'\npath = '/dev/full'\n\
         on_error = 'dead-letter'\n[node.d]\nkind = 'write'\npath = 'dead.txt'",
    );
    let output = site.bursar("flow run flow.toml");
    assert_code(&output, 1);
    let last = last_lines(&output.stderr);
    assert_eq!(site.lines("dead.txt").len(), 3000, "{last}");
    // From `b` to the node that makes JSON of a dead letter, and from that to `d`.
    assert!(last.contains(" · 6,000 messages delivered, 3,000 failed, 3,000 errors"), "{last}");
}

#[test]
fn lines_for_an_address_where_nothing_listens_are_lost_and_the_refusal_is_reported_once() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let site = site(&format!(
        "edges = ['a -> z']\n[flow]\ndrain = '50ms'\n[node.a]\nkind = 'numbers'\nto = 100\n[node.z]\nkind = 'tcp-out'\nconnect = '{address}'"
    ));
    let output = site.bursar("flow run flow.toml --for 500ms");
    assert_code(&output, 1);
    let told = text(&output.stderr);
    assert!(told.lines().next().unwrap().ends_with(": flow, 2 nodes, 1 edge"), "{told}");
    assert_eq!(told.matches(&format!("z: cannot send to {address}: Connection refused")).count(), 1, "{told}");
    assert!(last_lines(&output.stderr).contains(" · 0 messages delivered, 100 lost, 1 error"), "{told}");
}

#[test]
fn the_last_line_adds_up_to_what_the_sources_gave() {
    let numbers = "edges = ['a -> b']\n[node.a]\nkind = 'numbers'\nto = 3000\n[node.b]\n";
    for sink in [
        "kind = 'write'\npath = '/dev/full'",
        "kind = 'write'\npath = '/dev/full'\nretry = { times = 2 }",
        "kind = 'write'\npath = '/dev/full'\non_error = 'dead-letter'",
        "kind = 'write'\npath = 'nodir/x'",
        "kind = 'command'\nrun = 'exit 1'",
        "kind = 'command'\nrun = 'head -n 5 > some'",
        "kind = 'discard'",
    ] {
        let site = site(&format!("{numbers}{sink}"));
        let last = last_lines(&site.bursar("flow run flow.toml").stderr);
        let counts = last.lines().find_map(|line| line.split_once(" · ")).expect(&last).1;
        // "0 messages delivered, 1,859 lost, 2 errors"
        let number = |part: &str| part.split(' ').next().unwrap().replace(',', "").parse::<u64>().expect(part);
        let told: u64 = counts.split(", ").filter(|part| !part.contains("error")).map(number).sum();
        let output = site.bursar("flow run flow.toml --json");
        let end: Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
        let totals = end.as_object().unwrap();
        let of = |names: &[&str]| names.iter().map(|name| totals[*name].as_u64().expect(name)).sum::<u64>();
        let fates = ["delivered", "lost", "failed", "unwanted", "held", "dropped", "replaced", "coalesced", "waiting"];
        assert_eq!(of(&fates), of(&["put"]), "{sink}: {totals:?}");
        assert_eq!(of(&["put"]), end["stats"]["nodes"][0]["emitted"].as_u64().unwrap(), "{sink}: {totals:?}");
        // A flow whose sink has failed stops its source, at one moment or another: how much it gave is not known from outside.
        assert!(told <= 3000, "{sink}: {last}");
        if sink.contains("discard") || sink.contains("dead-letter") {
            assert_eq!((told, of(&["put"])), (3000, 3000), "{sink}: {last}");
        }
    }
    // All three are on the edge before the first fails.
    let prints = site(&format!("{}kind = 'print'", numbers.replace("3000", "3")));
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = prints.command(["flow", "run", "flow.toml"]).stdout(full).output().unwrap();
    let last = last_lines(&output.stderr);
    assert!(last.contains(" · 0 messages delivered, 1 failed, 2 dropped, 1 error\n"), "{last}");
}

#[test]
fn a_flow_whose_only_sink_cannot_open_its_file_ends_and_says_why() {
    let flow =
        "edges = ['a -> z']\n[node.a]\nkind = 'every'\ninterval = '100ms'\n[node.z]\nkind = 'write'\npath = 'nodir/x'";
    let output = site(flow).bursar("flow run flow.toml");
    assert_code(&output, 1);
    assert!(last_lines(&output.stderr).contains("node `z` failed: "), "{}", text(&output.stderr));
}

#[test]
fn kinds_are_printed_for_programs() {
    let site = site(COUNT);
    let output = site.bursar("flow kinds --json");
    assert_code(&output, 0);
    let kinds: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let names: Vec<&str> = kinds.as_array().unwrap().iter().map(|kind| kind["name"].as_str().unwrap()).collect();
    assert!(["command", "lines", "window", "write"].iter().all(|name| names.contains(name)), "{names:?}");
    let output = site.bursar("flow kinds write --json");
    assert_code(&output, 0);
    let write: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!((&write["role"], &write["fields"][0]["name"]), (&"sink".into(), &"path".into()));
    assert_eq!(write["fields"][0]["required"], true);
    assert!(kinds.as_array().unwrap().contains(&write));
}

#[test]
fn edges_that_the_readme_and_the_help_name_are_those_of_the_example() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let site = site(COUNT);
    let example = root.join("examples/sensors.toml");
    let output = site.bursar(&format!("flow check {} --json", example.display()));
    let plan: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let edges: Vec<&str> = plan["edges"].as_array().unwrap().iter().map(|edge| edge["id"].as_str().unwrap()).collect();
    let mut pages = vec![fs::read_to_string(root.join("README.md")).unwrap()];
    for command in ["flow", "flow set", "flow why"] {
        pages.push(text(&site.bursar(&format!("{command} --help")).stdout));
    }
    let mut named = 0;
    for page in &pages {
        for (_, rest) in page.match_indices("bursar flow set ").map(|(at, found)| page.split_at(at + found.len())) {
            let mut words = rest.split_whitespace().filter(|word| !word.starts_with("f-"));
            if rest.starts_with('[') {
                continue; // the usage
            }
            let word = words.next().unwrap().trim_matches('\'');
            let (from, to) = word.split_once("->").or_else(|| word.split_once(',')).unwrap_or((word, ""));
            let names = |edge: &&&str| match edge.split_once("->") {
                Some((start, end)) if !to.is_empty() => {
                    [start, start.split(':').next().unwrap()].contains(&from)
                        && [end, end.split(':').next().unwrap()].contains(&to)
                }
                _ => edge.contains(from),
            };
            assert_eq!(edges.iter().filter(names).count(), 1, "`{word}` is one edge of {edges:?}");
            named += 1;
        }
    }
    assert!(named >= 4, "{named}");
}
