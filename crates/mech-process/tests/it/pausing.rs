//! A frozen tree does nothing, and its wall clock is stopped.

use std::time::{Duration, Instant};

use mech_process::{Confinement, How, Report};

use crate::bench::{Bench, read, until};

/// Two processes that count, one of them in a session of its own.
const COUNT: &str = "setsid sh -c 'while ! test -e stop; do echo x >> far; done' &
    while ! test -e stop; do echo x >> near; done; wait";

/// Each way to freeze that this system offers.
fn ways() -> [Bench; 3] {
    [Bench::new(), Bench::without_groups("v2"), Bench::without_groups("all")]
}

#[test]
fn a_paused_tree_does_nothing_and_runs_again_when_resumed() {
    for bench in ways() {
        let running = bench.start(bench.script(COUNT));
        bench.wait_for("far");
        bench.wait_for("near");
        running.handle.pause();
        running.wait_for(&Report::Paused);
        let count = || (read(bench.path("far")).len(), read(bench.path("near")).len());
        let before = count();
        // Nothing can be awaited here: the claim is that nothing happens. The tree wrote every 10 µs or so.
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(count(), before);
        running.handle.resume();
        running.wait_for(&Report::Resumed);
        until("both count again", || count().0 > before.0 && count().1 > before.1);
        std::fs::write(bench.path("stop"), "").unwrap();
        assert_eq!(running.end().how, How::Exit(0));
        assert_eq!(bench.left(), [0; 0]);
    }
}

#[test]
fn a_tree_that_forks_all_the_time_is_frozen_whole() {
    for bench in ways() {
        let text = "( while ! test -e stop; do ( echo x >> far; : & ) & wait; done ) & while ! test -e stop; do /bin/true; done; wait";
        let running = bench.start(bench.script(text));
        bench.wait_for("far");
        running.handle.pause();
        running.wait_for(&Report::Paused);
        let before = (bench.left(), read(bench.path("far")).len());
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!((bench.left(), read(bench.path("far")).len()), before);
        running.handle.cancel(Duration::ZERO);
        assert_eq!(running.end().how, How::Cancelled);
        assert_eq!(bench.left(), [0; 0]);
    }
}

#[test]
fn a_tree_that_waits_inside_the_kernel_for_its_own_frozen_child_is_frozen() {
    for bench in ways() {
        // Most of the time this shell has a child between `vfork` and `exec`, or one that has just started.
        let running = bench.start(bench.script("echo up > up; while ! test -e stop; do /bin/true; done"));
        bench.wait_for("up");
        for _ in 0..50 {
            running.handle.pause();
            running.wait_for(&Report::Paused);
            running.handle.resume();
            running.wait_for(&Report::Resumed);
        }
        std::fs::write(bench.path("stop"), "").unwrap();
        assert_eq!(running.end().how, How::Exit(0));
    }
}

#[test]
fn the_wall_limit_does_not_run_while_frozen() {
    for bench in ways() {
        let frozen = Duration::from_millis(300);
        let mut launch = bench.script("echo up > up; while ! test -e stop; do sleep 0.01; done");
        launch.limits.wall = Some(Duration::from_secs(30));
        let start = Instant::now();
        let running = bench.start(launch);
        bench.wait_for("up");
        running.handle.pause();
        running.wait_for(&Report::Paused);
        std::thread::sleep(frozen);
        running.handle.resume();
        running.wait_for(&Report::Resumed);
        std::fs::write(bench.path("stop"), "").unwrap();
        let end = running.end();
        assert_eq!(end.how, How::Exit(0));
        assert!(end.wall + frozen <= start.elapsed(), "{end:?} of {:?}", start.elapsed());
    }
}

#[test]
fn a_limit_that_would_have_passed_while_frozen_comes_after_it() {
    for bench in ways() {
        let mut launch = bench.script("echo up > up; while :; do sleep 0.01; done");
        let limit = Duration::from_millis(400);
        launch.limits.wall = Some(limit);
        let running = bench.start(launch);
        running.handle.pause();
        assert!(
            matches!(running.next(), Report::Started { .. }),
            "the start is reported first, however soon the pause comes"
        );
        assert_eq!(running.next(), Report::Paused);
        std::thread::sleep(limit * 3 / 2);
        assert!(running.reports.try_recv().is_err(), "a frozen tree reports nothing");
        running.handle.resume();
        running.wait_for(&Report::Resumed);
        assert_eq!(running.end().how, How::TimedOut { after: limit });
    }
}

#[test]
fn a_frozen_tree_has_its_grace_when_it_is_cancelled() {
    for bench in ways() {
        let running =
            bench.start(bench.script("trap 'echo bye; exit' TERM; echo up > up; while :; do sleep 0.01; done"));
        bench.wait_for("up");
        running.handle.pause();
        running.wait_for(&Report::Paused);
        running.handle.cancel(Duration::from_secs(50));
        assert_eq!(running.end().how, How::Cancelled);
        assert!(bench.log().ends_with("bye\n"), "{}", bench.log());
    }
}

#[test]
fn pause_and_resume_at_once_leave_it_running() {
    for bench in ways() {
        let running = bench.start(bench.script("echo up > up; while ! test -e stop; do sleep 0.01; done"));
        bench.wait_for("up");
        for _ in 0..20 {
            running.handle.pause();
            running.handle.resume();
        }
        std::fs::write(bench.path("stop"), "").unwrap();
        assert_eq!(running.end().how, How::Exit(0));
    }
}

#[test]
fn the_reported_confinement_is_the_one_in_use() {
    let bench = Bench::new();
    let running = bench.start(bench.script("echo up > up; while :; do sleep 1; done"));
    bench.wait_for("up");
    assert_eq!(bench.groups(), 0, "a command that is never paused has no group");
    running.handle.pause();
    running.wait_for(&Report::Paused);
    match bench.keepers.confinement() {
        Confinement::None { reason } => assert!(!reason.is_empty() && bench.groups() == 0),
        _ => assert_eq!(bench.groups(), 1),
    }
    running.handle.cancel(Duration::ZERO);
    running.end();
    assert_eq!(bench.groups(), 0);
}
