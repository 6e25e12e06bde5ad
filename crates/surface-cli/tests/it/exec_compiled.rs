//! `exec`: limits that count while machine code is made, and in virtual time.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use test_support::until;

use crate::run_site::{Site, assert_code};
use crate::text;

/// A program whose machine code takes far longer than its limits.
fn large() -> Site {
    let mut source = String::new();
    for n in 0..10_000 {
        writeln!(
            source,
            "func f{n}(x: i64) -> i64 do\n    if x > {n} do return x * {n} + 1 end\n    return x % 7 + {n}\nend"
        )
        .unwrap();
    }
    source += "func main() -> bool do\n    var sum = 0\n";
    for n in 0..10_000 {
        writeln!(source, "    sum = sum + f{n}(sum % 100)").unwrap();
    }
    source += "    return sum > 0\nend\n";
    let site = Site::new("");
    fs::write(site.path("x.jan"), source).unwrap();
    site
}

#[test]
fn the_time_limit_counts_while_machine_code_is_made() {
    let site = large();
    let output = site.bursar("exec x.jan --json --timeout 300ms");
    assert_code(&output, 124);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["fault"]["kind"], "timeout");
    let nanos = json["nanos"].as_u64().unwrap();
    assert!((300_000_000..5_000_000_000).contains(&nanos), "it took {nanos} ns");
}

#[test]
fn a_signal_ends_a_program_whose_machine_code_is_made() {
    let site = large();
    for words in ["exec x.jan", "exec x.jan --seed 1"] {
        let run = site.start(words);
        let tasks = format!("/proc/{}/task", run.child.id());
        let is_compiling = || {
            let threads = fs::read_dir(&tasks).into_iter().flatten().flatten();
            let names = threads.map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
            names.into_iter().any(|name| name.starts_with("janus-compiler"))
        };
        until(Duration::from_secs(60), "it compiles", is_compiling);
        run.signal(Signal::TERM);
        let (ended, said) = run.wait_at_most(Duration::from_secs(10));
        assert_eq!(ended, Some(143), "{said}");
        assert!(said.contains("x.jan: cancelled\n") && said.contains("spent: ops 0"), "{said}");
    }
}

#[test]
fn virtual_time_does_not_begin_anew() {
    let site = Site::new("");
    let wait = |millis: u64| format!("    select do timeout {millis} do print({millis}) end end\n");
    fs::write(site.path("x.jan"), format!("func main() do\n{}{}end\n", wait(18_446_744_073_709), wait(1_000))).unwrap();
    let output = site.bursar("exec x.jan --seed 1 --json");
    assert_code(&output, 0);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["nanos"].as_u64().unwrap() >= 18_446_744_073_709_000_000, "{json}");
}

#[test]
fn a_seed_that_is_explored_ends_with_the_code_of_its_replay() {
    let site = Site::new("");
    fs::write(
        site.path("x.jan"),
        "func main(code: i64) -> i64 do\n    select do timeout 5000 do end end\n    return code\nend\n",
    )
    .unwrap();
    for (options, code) in [("--arg 0 --timeout 1s", 124), ("--arg 7", 7)] {
        let output = site.bursar(&format!("exec x.jan --explore 0..3 {options}"));
        assert_code(&output, code);
        let said = text(&output.stderr);
        let replay = said.lines().find_map(|line| line.strip_prefix("replay: bursar ")).expect(&said);
        assert_code(&site.bursar(replay), code);
    }
    // Each seed has all of it.
    assert_code(&site.bursar("exec x.jan --explore 0..3 --arg 0 --timeout 6s"), 0);
}
