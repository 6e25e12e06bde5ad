//! A tree is gone when its end is reported, whatever it did to survive.

use std::time::{Duration, Instant};

use mech_process::{How, Report};

use crate::bench::{Bench, read};

/// Leaves its session and its parents, and ignores TERM.
const STUBBORN: &str = "setsid sh -c 'trap \"\" TERM HUP INT; echo up > up; while :; do sleep 0.05; done' &";

#[test]
fn a_tree_that_forks_leaves_its_session_and_ignores_term_is_gone_when_its_end_is_reported() {
    let bench = Bench::new();
    let running = bench.start(bench.script(&format!("trap '' TERM; {STUBBORN} while :; do sleep 0.05; done")));
    bench.wait_for("up");
    assert!(bench.left().len() >= 2);
    running.handle.cancel(Duration::from_millis(50));
    assert_eq!(running.end().how, How::Cancelled);
    assert_eq!(bench.left(), [0; 0]);
}

#[test]
fn a_daemon_that_forked_twice_is_gone_with_its_command() {
    let bench = Bench::new();
    let mut launch = bench.script(&format!("( ( {STUBBORN} ) & ) & while ! test -e up; do sleep 0.01; done; exit 3"));
    launch.grace = Duration::from_millis(50);
    assert_eq!(bench.start(launch).end().how, How::Exit(3));
    assert_eq!(bench.left(), [0; 0]);
}

#[test]
fn a_command_that_leaves_processes_running_causes_a_warning() {
    let bench = Bench::new();
    let warnings_of = |script: &str| {
        let running = bench.start(bench.script(script));
        let mut warnings = Vec::new();
        loop {
            match running.next() {
                Report::Warning(text) => warnings.push(text),
                Report::Ended(end) => break (end.how, warnings),
                _ => {}
            }
        }
    };
    let (how, warnings) = warnings_of("mkfifo never; (read x < never) & (read x < never) & true");
    assert_eq!(how, How::Exit(0));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("its command left 2 processes in the background: ended"), "{warnings:?}");
    assert_eq!(warnings_of("true & wait"), (How::Exit(0), Vec::new()));
}

#[test]
fn what_a_command_leaves_running_gets_term_first() {
    let bench = Bench::new();
    let end = bench.run(
        "sh -c 'trap \"echo asked > asked; exit\" TERM; echo up > up; while :; do sleep 0.02; done' &
         while ! test -e up; do sleep 0.01; done",
    );
    assert_eq!(end.how, How::Exit(0));
    assert_eq!(read(bench.path("asked")), "asked\n");
    assert_eq!(bench.left(), [0; 0]);
}

#[test]
fn a_fork_bomb_is_ended() {
    let bench = Bench::new();
    // Each process starts its successor and exits: a process that a scan found is gone already. The leader does not wait for them.
    let bomb = "trap '' TERM; next() { next & }; i=0; while test $i -lt 30; do next & i=$((i+1)); done
        echo up > up; while :; do sleep 1; done";
    let running = bench.start(bench.script(bomb));
    bench.wait_for("up");
    let start = Instant::now();
    running.handle.cancel(Duration::ZERO);
    assert_eq!(running.end().how, How::Cancelled);
    assert_eq!(bench.left(), [0; 0]);
    assert!(start.elapsed() < Duration::from_secs(20), "the bomb ran for {:?}", start.elapsed());
}

#[test]
fn a_tree_whose_parts_start_each_other_again_is_ended() {
    let bench = Bench::new();
    // Two groups; each has the other's death as its reason to fork.
    let text = "trap '' TERM; again() { trap '' TERM; while :; do setsid sh -c 'echo x >> up; exec sleep 0.02'; done; }
        again & again & again & wait";
    let running = bench.start(bench.script(text));
    bench.wait_for("up");
    running.handle.cancel(Duration::from_millis(20));
    assert_eq!(running.end().how, How::Cancelled);
    assert_eq!(bench.left(), [0; 0]);
}

#[test]
fn a_command_that_handles_term_has_its_grace() {
    let bench = Bench::new();
    let running = bench.start(bench.script("trap 'echo bye; exit 5' TERM; echo up > up; while :; do sleep 0.01; done"));
    bench.wait_for("up");
    running.handle.cancel(Duration::from_secs(50));
    let end = running.end();
    assert_eq!(end.how, How::Cancelled);
    assert!(bench.log().ends_with("bye\n"), "{}", bench.log());
    assert!(end.wall < Duration::from_secs(40), "{end:?}");
}

#[test]
fn a_second_cancel_makes_it_sooner_and_a_late_one_does_not_reach_the_next_command() {
    let bench = Bench::new();
    let running = bench.start(bench.script("trap '' TERM; echo up > up; while :; do sleep 0.01; done"));
    bench.wait_for("up");
    running.handle.cancel(Duration::from_secs(1000));
    running.handle.cancel(Duration::ZERO);
    assert_eq!(running.end().how, How::Cancelled);
    let next = bench.start(bench.script("echo go > go; while ! test -e stop; do sleep 0.01; done"));
    bench.wait_for("go");
    running.handle.cancel(Duration::ZERO);
    next.handle.pause();
    next.wait_for(&Report::Paused); // so the keeper has read the cancel before it
    next.handle.resume();
    std::fs::write(bench.path("stop"), "").unwrap();
    assert_eq!(next.end().how, How::Exit(0));
    assert_eq!(bench.keepers.count(), 1);
}

#[test]
fn a_wall_limit_ends_the_tree_and_says_so() {
    let bench = Bench::new();
    let mut launch = bench.script("sleep 1000 & sleep 1000");
    launch.limits.wall = Some(Duration::from_millis(80));
    let end = bench.start(launch).end();
    assert_eq!(end.how, How::TimedOut { after: Duration::from_millis(80) });
    assert!(end.wall >= Duration::from_millis(80), "{end:?}");
    assert_eq!(bench.left(), [0; 0]);
}

#[test]
fn dropping_the_pool_kills_its_commands_and_reports_their_ends() {
    let bench = Bench::new();
    let running = bench.start(bench.script(&format!("{STUBBORN} sleep 1000")));
    bench.wait_for("up");
    let Bench { dir, keepers } = bench;
    drop(keepers);
    assert_eq!(running.end().how, How::Cancelled);
    assert_eq!(std::fs::read_dir(dir.path().join("home")).unwrap().count(), 0, "keepers leave nothing behind");
    let mark = format!("TREE={}", dir.path().display());
    assert_eq!(crate::bench::marked(&mark), [0; 0]);
}
