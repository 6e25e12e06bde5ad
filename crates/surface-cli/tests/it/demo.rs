//! The demonstration, for a log, for a script, and cut short.

use std::{
    io::{BufRead, BufReader, Read},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{bursar, run, text};

/// Everything a script may rely on, by its path in the object.
const PROMISED: [&str; 23] = [
    "/version",
    "/interrupted",
    "/seconds",
    "/tree/frames",
    "/tree/tasks",
    "/tree/stolen",
    "/parked/fibers",
    "/parked/bytes_each",
    "/parked/park_ms",
    "/parked/wake_ms",
    "/cancelled/error",
    "/cancelled/others/0",
    "/cancelled/cancelled",
    "/cancelled/ended_after_ms",
    "/cancelled/deadline_ended_after_ms",
    "/throughput/join/ns_each",
    "/throughput/spawn/ns_each",
    "/throughput/message/ns_each",
    "/workers/1/tasks",
    "/total/tasks",
    "/total/switches",
    "/total/parks",
    "/total/overflowed",
];

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} is no number in {report}"))
}

#[test]
fn json_is_one_object_with_everything_that_was_promised() {
    let output = run(&["demo", "--json", "--seconds", "1", "--workers", "2", "--fibers", "1000"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
    for path in PROMISED {
        assert!(report.pointer(path).is_some(), "{path} is missing from {report}");
    }
    assert_eq!(report["interrupted"], false);
    assert_eq!(report["parked"]["fibers"], 1000);
    assert_eq!(report["total"]["overflowed"], 0, "it unwound, and no stack was lost");
    assert_eq!(report["cancelled"]["cancelled"], 5);
    assert!(report["cancelled"]["error"].as_str().is_some_and(|error| error.contains("overflowed its stack")));
    assert!(number(&report, "/cancelled/deadline_ended_after_ms") >= 100.0);
    let sum: f64 = ["/workers/0/tasks", "/workers/1/tasks"].iter().map(|path| number(&report, path)).sum();
    assert_eq!(sum, number(&report, "/total/tasks"), "the workers' tasks are all there are");
}

#[test]
fn a_log_gets_plain_lines_and_a_table() {
    let output = run(&["demo", "--seconds", "1", "--workers", "1", "--fibers", "1000"]);
    let log = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!log.contains('\x1b') && !log.contains('\r'), "a log has no use for colours and bars:\n{log}");
    for part in ["1/4", "4/4", "error: task `link`", "and: task `upload`", "tasks begun", "stack switches", "worker 0"]
    {
        assert!(log.contains(part), "`{part}` is missing from:\n{log}");
    }
}

/// Starts the demonstration, presses Ctrl-C as soon as it has said something, and waits for its end.
fn interrupt(args: &[&str], begun: impl FnOnce(&mut dyn BufRead)) -> (Option<i32>, String) {
    let mut child = bursar(args).spawn().expect("the command was built with this test");
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    begun(&mut stdout);
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).expect("it is our child and alive");
    let pressed = Instant::now();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("it prints text");
    let status = child.wait().expect("it is our child");
    assert!(pressed.elapsed() < Duration::from_secs(20), "it went on for {:?} after Ctrl-C", pressed.elapsed());
    (status.code(), rest)
}

#[test]
fn ctrl_c_ends_it_with_the_table_so_far() {
    let (code, rest) = interrupt(&["demo", "--seconds", "600"], |stdout| {
        let mut line = String::new();
        while !line.contains("1/4") {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).expect("it prints text"), 0, "it ended before it began");
        }
    });
    assert_eq!(code, Some(130));
    assert!(rest.contains("Interrupted. So far:") && rest.contains("stack switches"), "{rest}");
    assert!(!rest.contains("2/4"), "what comes later is left out:\n{rest}");
}

#[test]
fn ctrl_c_leaves_json_whole() {
    let (code, json) = interrupt(&["demo", "--json", "--seconds", "600"], |_| {
        // It says nothing before the end; before this its handler may not be there yet.
        std::thread::sleep(Duration::from_millis(700));
    });
    assert_eq!(code, Some(130));
    let report: Value = serde_json::from_str(&json).expect("nothing but JSON");
    assert_eq!(report["interrupted"], true);
    assert!(report["tree"].is_null() && report["throughput"].is_null(), "{report}");
}
