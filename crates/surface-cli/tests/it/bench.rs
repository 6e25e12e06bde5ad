//! The benchmark, small.

use crate::{run, text};

#[test]
fn both_schedulers_are_measured_and_written_down() {
    for scheduler in ["simple", "threadpool"] {
        let file = std::env::temp_dir().join(format!("bursar-bench-{}-{scheduler}.json", std::process::id()));
        let path = file.to_str().expect("text");
        let output = run(&["bench", "jobs", "--scheduler", scheduler, "--runs", "2", "--jobs", "100", "--out", path]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        for part in [scheduler, "p50", "p95", "mean", "queue wait", "independent jobs", "graph", "did not fit"] {
            assert!(table.contains(part), "`{part}` is missing:\n{table}");
        }
        let written = std::fs::read_to_string(&file).expect("it was written");
        std::fs::remove_file(&file).expect("it is there");
        let json: serde_json::Value = serde_json::from_str(&written).expect("JSON");
        assert_eq!(json["scheduler"], scheduler);
        assert_eq!(json["settings"]["jobs"], 100);
        assert_eq!(json["latency_ns"]["count"], 200);
        assert_eq!(json["budget_hits"]["jobs"], 200);
        assert_eq!(json["graph_jobs_per_second"]["runs"].as_array().map(Vec::len), Some(2));
    }
}

#[test]
fn a_file_that_cannot_be_written_is_known_at_once() {
    let output = run(&["bench", "jobs", "--jobs", "1000000", "--out", "/nowhere/at/all.json"]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("/nowhere/at/all.json") && error.contains("may write to"), "{error}");
}

#[test]
fn numbers_out_of_range_are_answered_with_the_range() {
    for (option, value, range) in [("--runs", "0", "1 to 1000 runs"), ("--jobs", "5", "10 to 1000000 jobs")] {
        let output = run(&["bench", "jobs", option, value]);
        assert_eq!(output.status.code(), Some(2));
        let error = text(&output.stderr);
        assert!(error.contains(range), "{error}");
    }
}
