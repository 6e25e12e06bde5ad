//! Large runs: the cost of a job does not depend on the number of jobs.
//!
//! Room: tests.

use std::time::{Duration, Instant};

use super::{MS, Scope, Spec, Stage, job, rules};
use crate::state::State;

/// More than anything here takes; a quadratic step among 100,000 jobs takes much longer.
const TIME_LIMIT: Duration = Duration::from_secs(45);

fn in_time(what: &str, act: impl FnOnce()) {
    let start = Instant::now();
    act();
    let took = start.elapsed();
    assert!(took < TIME_LIMIT, "{what} took {took:?}");
}

#[test]
fn a_job_without_a_part_takes_56_bytes_besides_its_name_and_needs() {
    // Whether it ran, when, and where: what few jobs have is stored elsewhere.
    assert_eq!(size_of::<crate::decide::graph::Node>(), 56);
    assert!(size_of::<crate::Event>() <= 40);
    let mut stage = fan(1000, 0);
    while let Some(id) = stage.core.pick(1) {
        stage.succeed(id);
    }
    assert!(stage.core.extras.is_empty() && stage.core.keys.is_empty());
    assert!((0..1001).all(|id| stage.core.times(id)[2].is_some() && stage.core.part_of(id).is_none()));
}

/// A root, and so many that need it, all of them ready.
fn fan(count: usize, retries: u32) -> Stage {
    let mut rules = rules(1);
    rules.limits.cpu_slots = u32::MAX;
    (rules.workers, rules.limits.ram_mb) = (usize::MAX, 0);
    let mut stage = Stage::new(rules);
    stage.core.record_events(false);
    stage.submit(job("root"));
    let spec = |i| if retries > 0 { job(format!("{i}")).retries(retries, 1) } else { job(format!("{i}")) };
    let children: Vec<Spec> = (0..count).map(|i| spec(i).needs("root")).collect();
    stage.try_submit(&children).unwrap();
    assert_eq!(stage.core.pick(0), Some(0));
    stage.succeed(0);
    assert_eq!(stage.core.counts()[State::Ready as usize], count);
    stage
}

#[test]
fn a_hundred_thousand_ready_jobs_are_paused_resumed_and_cancelled_quickly() {
    for scope in [Scope::Run, Scope::Subtree(0)] {
        let mut stage = fan(100_000, 0);
        in_time("pausing", || assert!(stage.core.pause(1, scope).unwrap().is_empty()));
        assert_eq!(stage.core.counts()[State::Paused as usize], 100_000);
        in_time("resuming", || stage.core.resume(2, scope).unwrap());
        assert_eq!(stage.core.counts()[State::Ready as usize], 100_000);
        assert_eq!(stage.core.pick(3), Some(1));
        stage.core.ended(3, 1, super::Ended::Succeeded);
        in_time("cancelling", || stage.core.cancel(4, scope));
        assert_eq!(stage.core.counts()[State::Cancelled as usize], 99_999);
        assert_eq!(stage.core.pick(5), None);
    }
}

#[test]
fn a_hundred_thousand_jobs_are_cancelled_in_any_order() {
    let mut stage = fan(100_000, 0);
    in_time("cancelling one by one", || {
        for id in 1..=100_000_u64 {
            // A step that has nothing in common with the count visits every job once.
            stage.core.cancel(1, Scope::Job((id * 61_803 % 100_000 + 1) as u32));
        }
    });
    assert_eq!(stage.core.open(), 0);
}

#[test]
fn a_hundred_thousand_back_offs_that_end_at_once_end_quickly() {
    let mut stage = fan(100_000, 1);
    in_time("starting and failing", || {
        while let Some(id) = stage.core.pick(1) {
            stage.fail(id);
        }
    });
    assert_eq!(stage.core.counts()[State::Queued as usize], 100_000);
    in_time("the end of back-offs", || stage.core.tick(1_000 * MS));
    assert_eq!(stage.core.counts()[State::Ready as usize], 100_000);
    assert_eq!(stage.core.pick(1_000 * MS), Some(1), "those ready at the same time run in the order of submission");
}

#[test]
fn a_hundred_thousand_running_and_paused_jobs_end_and_resume_quickly() {
    let mut stage = fan(100_000, 0);
    in_time("starting", || while stage.core.pick(1).is_some() {});
    in_time("pausing", || {
        stage.core.pause(2, Scope::Run).unwrap();
        (1..=100_000).for_each(|id| assert!(stage.core.paused(2, id)));
    });
    // Another run has all slots: the resumed jobs wait for them, and are paused again.
    stage.core.set_others(&crate::decide::Others { cpu_slots: u64::from(u32::MAX), ..Default::default() });
    in_time("resuming, pausing again, resuming again", || {
        stage.core.resume(3, Scope::Run).unwrap();
        stage.core.pause(4, Scope::Run).unwrap();
        stage.core.resume(5, Scope::Run).unwrap();
    });
    stage.core.set_others(&Default::default());
    in_time("being let back", || stage.core.resume_waiting(6));
    assert_eq!(stage.core.counts()[State::Running as usize], 100_000);
    in_time("ending", || (1..=100_000).rev().for_each(|id| stage.succeed(id)));
    assert_eq!((stage.core.open(), stage.core.usage().running), (0, 0));
}

#[test]
fn a_long_chain_below_two_failures_is_retried_quickly() {
    let mut stage = Stage::new(rules(2));
    let chain: Vec<Spec> = (0..100_000_u32)
        .map(|i| match i {
            0 | 1 => job(format!("{i}")),
            2 => job("2").needs("0").needs("1"),
            _ => job(format!("{i}")).needs(&format!("{}", i - 1)),
        })
        .collect();
    stage.try_submit(&chain).unwrap();
    stage.pick();
    stage.fail(0);
    stage.fail(1);
    in_time("a retry that revives no other job", || stage.core.retry(1, 0).unwrap());
    assert_eq!(stage.core.open(), 1);
    in_time("a retry that revives all", || stage.core.retry(2, 99_999).unwrap());
    assert_eq!(stage.core.open(), 100_000);
}

/// Submits so many, each needing three of those before, and runs them all. In nanoseconds per job: taken in, run.
fn cost(count: u32, lanes: u32) -> (u64, u64) {
    let mut stage = Stage::new(rules(4));
    stage.core.record_events(false);
    let specs: Vec<Spec> = (0..count)
        .map(|i| {
            let mut spec = job(format!("{i}")).priority((i % lanes) as i32);
            let needs = if i < 1000 { 0 } else { 3 };
            spec.needs = (1..=needs).map(|k| crate::JobId(i - k * 331).into()).collect();
            spec
        })
        .collect();
    let start = Instant::now();
    stage.try_submit(&specs).unwrap();
    let taken = start.elapsed();
    let start = Instant::now();
    let mut running = std::collections::VecDeque::new();
    let mut now = 0;
    loop {
        now += 300;
        while let Some(id) = stage.core.pick(now) {
            running.push_back(id);
        }
        let Some(id) = running.pop_front() else { break };
        stage.core.ended(now, id, super::Ended::Succeeded);
    }
    assert_eq!(stage.core.open(), 0);
    let each = |time: Duration| time.as_nanos() as u64 / u64::from(count);
    (each(taken), each(start.elapsed()))
}

#[test]
#[ignore = "a measurement: run it in release"]
fn what_a_job_costs_from_a_thousand_to_a_million() {
    for lanes in [1, 10, 1000] {
        for count in [1_000, 10_000, 100_000, 1_000_000] {
            let (taken, run) = cost(count, lanes);
            println!("{count:>8} jobs, {lanes:>4} priorities: {taken:>5} ns to take one in, {run:>5} ns to run it");
        }
    }
    for count in [10_000, 100_000, 1_000_000] {
        let mut stage = fan(count, 0);
        let mut each = |act: &mut dyn FnMut(&mut Stage)| {
            let start = Instant::now();
            act(&mut stage);
            start.elapsed().as_nanos() as u64 / count as u64
        };
        let pause = each(&mut |stage| drop(stage.core.pause(1, Scope::Run)));
        let resume = each(&mut |stage| stage.core.resume(2, Scope::Run).unwrap());
        let cancel = each(&mut |stage| stage.core.cancel(3, Scope::Run));
        println!("{count:>8} jobs: {pause} ns to pause one, {resume} to resume, {cancel} to cancel");
    }
}
