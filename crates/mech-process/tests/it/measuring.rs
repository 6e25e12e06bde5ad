//! The usage of a tree is reported, and its limits are enforced.

use std::time::Duration;

use mech_process::{How, OverRam, Report};

use crate::bench::Bench;

/// Holds 100 MiB and says so; `read` never comes back, because there is no input but a pipe without a writer.
const HOLD: &str = "mkfifo never; dd if=/dev/zero bs=100M count=1 2>/dev/null | { head -c 1 >/dev/null; echo up > up; read x < never; }";

#[test]
fn the_peak_of_a_command_too_short_to_be_sampled_is_within_a_fifth() {
    let bench = Bench::new();
    let end = bench.run("dd if=/dev/zero of=/dev/null bs=100M count=1 2>/dev/null");
    let peak_mb = end.peak_rss_kb / 1000;
    assert!((90..=120).contains(&peak_mb), "{end:?}");
    // The next command of the same keeper does not inherit it.
    let end = bench.run("true");
    assert!(end.peak_rss_kb < 40_000, "{end:?}");
}

#[test]
fn a_command_of_one_thread_took_at_least_its_cpu_time() {
    let bench = Bench::new();
    for _ in 0..100 {
        let end = bench.run("true");
        assert!(end.wall >= end.cpu, "{end:?}");
    }
}

#[test]
fn the_peak_of_a_tree_is_the_sum_of_its_processes() {
    let bench = Bench::new();
    let one = "dd if=/dev/zero bs=50M count=1 2>/dev/null | { read x < go; cat > /dev/null; }";
    let running = bench.start(bench.script(&format!("mkfifo go; ({one}) & ({one}) & wait")));
    // Reported in steps of a sixteenth: the last step to 100 may be too small.
    let seen = loop {
        match running.next() {
            Report::Usage { rss_mb } if rss_mb >= 94 => break rss_mb,
            Report::Ended(end) => panic!("{end:?}"),
            _ => {}
        }
    };
    assert!(running.handle.usage_mb() >= 94);
    assert!(seen <= 125, "{seen}");
    running.handle.cancel(Duration::ZERO);
    let peak_mb = running.end().peak_rss_kb.div_ceil(1000);
    assert!((94..=125).contains(&peak_mb), "{peak_mb}");
}

#[test]
fn a_tree_over_its_memory_is_ended_with_both_figures() {
    let bench = Bench::new();
    let mut launch = bench.script(HOLD);
    launch.limits.ram_mb = Some(40);
    let end = bench.start(launch).end();
    let How::OverMemory { used_mb, limit_mb: 40 } = end.how else { panic!("{end:?}") };
    assert!((41..=125).contains(&used_mb), "{end:?}");
    assert!(end.how.to_string().contains("limit of 40 MB"));
    assert_eq!(bench.left(), [0; 0]);
}

#[test]
fn a_tree_that_is_only_to_be_warned_is_warned_once_and_runs_on() {
    let bench = Bench::new();
    let mut launch = bench.script(HOLD);
    launch.limits.ram_mb = Some(40);
    launch.limits.over_ram = OverRam::Warn;
    let running = bench.start(launch);
    let mut warnings = 0;
    loop {
        match running.next() {
            Report::Warning(text) => {
                assert!(text.contains("over its limit of 40 MB"), "{text}");
                warnings += 1;
                running.handle.cancel(Duration::ZERO);
            }
            Report::Ended(end) => break assert_eq!(end.how, How::Cancelled),
            _ => {}
        }
    }
    assert_eq!(warnings, 1);
}

#[test]
fn memory_that_forked_processes_share_is_not_counted_for_each() {
    let bench = Bench::new();
    // A shell of some MB, forked 20 times: together far below the limit, though their sizes add up to more.
    let text = "x=$(head -c 12000000 /dev/zero | tr '\\0' x); i=0
        while test $i -lt 20; do (sleep 0.4; :) & i=$((i+1)); done; wait";
    let mut launch = bench.script(text);
    launch.limits.ram_mb = Some(100);
    let end = bench.start(launch).end();
    assert_eq!(end.how, How::Exit(0));
}

#[test]
fn time_on_the_cpu_is_that_of_the_whole_tree() {
    let bench = Bench::new();
    let spin = "i=0; while test $i -lt 100000; do i=$((i+1)); done";
    let one = bench.run(spin).cpu;
    assert!(one > Duration::from_millis(5), "{one:?}");
    // One process that its parent waits for, and one that only the keeper reaps.
    let end = bench.run(&format!(
        "sh -c '{spin}' & (setsid sh -c '{spin}; echo x > done' &); wait; while ! test -e done; do sleep 0.01; done"
    ));
    // A busy machine makes the same work cost more or less, but not by half.
    assert!(end.cpu > one * 5 / 4 && end.cpu < one * 5, "{end:?}, one: {one:?}");
    let idle = bench.run("sleep 0.05");
    assert!(idle.cpu < idle.wall && idle.wall >= Duration::from_millis(50), "{idle:?}");
}
