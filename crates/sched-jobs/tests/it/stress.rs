//! Everything at once, on real threads. Requests come from a seeded plan; the interleaving is up to the threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use sched_jobs::{Event, Job, JobError, Jobs, Retry, Scheduler, State, Target, What};
use test_support::Dice;

use crate::{Door, LONG, in_time, works_until};

/// Every life cycle in a log ends once.
fn check_life_cycles(events: impl Iterator<Item = Event>, context: &str) -> HashMap<usize, Vec<What>> {
    let mut lives: HashMap<usize, Vec<What>> = HashMap::new();
    let is_end = |what: &What| matches!(what, What::Succeeded | What::Failed | What::Cancelled);
    for event in events {
        let life = lives.entry(event.job.index()).or_default();
        let over = life.last().is_some_and(is_end);
        assert_eq!(over, event.what == What::Revived, "{context}: {:?} after {life:?}", event.what);
        life.push(event.what);
    }
    for (id, life) in &lives {
        assert!(life.last().is_some_and(is_end), "{context}: job {id} never ended: {life:?}");
    }
    lives
}

fn storm(seed: u64, count: u64) {
    let dice = Dice::new(seed);
    let workers = 2 + dice.below(7) as u32;
    let scheduler = if seed % 5 == 4 { Scheduler::Simple } else { Scheduler::Threadpool };
    let context = format!("seed {seed}, {workers} workers, {scheduler}");
    let (sender, received) = mpsc::channel();
    let jobs = Jobs::builder()
        .cpu_slots(workers)
        .scheduler(scheduler)
        .ram_mb(1000)
        .resource("licence", 2)
        .pause_timeout(LONG)
        .seed(seed)
        .observe(move |event, _| {
            let _ = sender.send(*event);
        })
        .build();
    let running = Arc::new(AtomicUsize::new(0));
    let mut submitted = 0;
    while submitted < count {
        let batch = match dice.below(10) {
            0 => 300 + dice.below(300),
            1..4 => 1 + dice.below(40),
            _ => 1,
        };
        let batch: Vec<Job> = (0..batch.min(count - submitted))
            .map(|i| {
                let number = submitted + i;
                let (kind, spins) = (dice.below(100), dice.below(3));
                let running = running.clone();
                let mut job = Job::new(format!("{number}")).priority(dice.below(4) as i32).ram_mb(dice.below(5) * 100);
                for _ in 0..dice.below(3) {
                    if number > 0 {
                        job = job.needs(format!("{}", number - 1 - dice.below(number.min(50))));
                    }
                }
                if dice.below(10) == 0 {
                    job = job.takes("licence", 1);
                }
                if dice.below(20) == 0 {
                    job = job.cpu_slots(2);
                }
                let zero = std::time::Duration::ZERO;
                job = job.retry(Retry { times: dice.below(2) as u32, backoff: zero, longest: zero });
                job.run(move |ctx| {
                    let most = if scheduler == Scheduler::Simple { 1 } else { workers as usize };
                    // A paused job leaves its slot: it is not counted at a checkpoint.
                    assert!(running.fetch_add(1, Ordering::SeqCst) < most, "too many at once");
                    running.fetch_sub(1, Ordering::SeqCst);
                    for _ in 0..spins {
                        ctx.progress(0.5)?;
                        std::thread::yield_now();
                    }
                    match kind {
                        0 => Err(JobError::msg("no")),
                        1 => panic!("as planned"),
                        _ => Ok(()),
                    }
                })
            })
            .collect();
        let size = batch.len() as u64;
        // A dependency may have failed meanwhile: then the batch is refused, and nothing of it remains.
        if jobs.submit_all(batch).is_ok() {
            submitted += size;
        } else {
            let redone: Vec<Job> = (0..size).map(|i| Job::new(format!("{}", submitted + i)).run(|_| ())).collect();
            jobs.submit_all(redone).unwrap();
            submitted += size;
        }
        let name = format!("{}", dice.below(submitted));
        let subtree = || Target::Subtree(name.as_str().into());
        match dice.below(60) {
            0 => jobs.pause(Target::Run).unwrap_or_default(),
            1..4 => jobs.pause(name.as_str()).unwrap_or_default(),
            4..6 => jobs.pause(subtree()).unwrap_or_default(),
            6..10 => jobs.resume(Target::Run).unwrap(),
            10..12 => jobs.resume(name.as_str()).unwrap_or_default(),
            12..14 => jobs.cancel(name.as_str()).unwrap(),
            14 if dice.below(4) == 0 => jobs.cancel_and_wait(subtree()).unwrap(),
            15..18 => jobs.retry(name.as_str()).unwrap_or_default(),
            18 => drop(jobs.why(name.as_str()).unwrap()),
            19 => drop(jobs.statuses()),
            _ => {}
        }
    }
    // Some requests come while everything ends.
    while jobs.wait_timeout(std::time::Duration::from_millis(2)).is_none() {
        jobs.resume(Target::Run).unwrap();
    }
    let counts: usize = jobs.counts().iter().map(|(_, count)| count).sum();
    assert_eq!(counts as u64, count, "{context}");
    let usage = jobs.usage();
    assert_eq!((usage.running, usage.cpu_slots, usage.ram_mb, usage.named[0].1), (0, 0, 0, 0), "{context}");
    let statuses = jobs.statuses();
    drop(jobs);
    let lives = check_life_cycles(received.try_iter(), &context);
    for status in statuses {
        let wanted = match lives[&status.id.index()].last() {
            Some(What::Succeeded) => State::Succeeded,
            Some(What::Failed) => State::Failed,
            _ => State::Cancelled,
        };
        assert_eq!(status.state, wanted, "{context}: {}", status.name);
    }
}

#[test]
fn ten_thousand_jobs_and_requests_in_any_order_all_end_once() {
    for seed in 0..10 {
        in_time(format!("storm with seed {seed}"), move || storm(seed, 1_500));
    }
}

#[test]
#[ignore = "minutes: more of the same"]
fn many_storms() {
    for seed in 100..400 {
        in_time(format!("storm with seed {seed}"), move || storm(seed, 10_000));
    }
}

/// Counts its instances.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn ten_thousand_cancels_leave_nothing_behind() {
    in_time("cancels".to_owned(), || {
        let alive = Arc::new(AtomicUsize::new(0));
        let jobs = Jobs::builder().cpu_slots(2).build();
        let door = Door::default();
        let (first, runs) = works_until(&door, "first");
        jobs.submit(first.cpu_slots(2)).unwrap();
        runs.recv().unwrap();
        for i in 0..10_000 {
            alive.fetch_add(1, Ordering::SeqCst);
            let counted = Counted(alive.clone());
            let name = format!("{i}");
            jobs.submit(Job::new(&name).run(move |_| {
                let _ = &counted;
            }))
            .unwrap();
            jobs.cancel(name.as_str()).unwrap();
        }
        door.open();
        assert_eq!(jobs.wait().unwrap_err().summary.cancelled, 10_000);
        drop(jobs);
        assert_eq!(alive.load(Ordering::SeqCst), 0, "closures outlived their scheduler");
    });
}

#[test]
fn the_captures_of_a_closure_are_dropped_when_its_job_has_ended() {
    in_time("captures".to_owned(), || {
        let jobs = Jobs::builder().cpu_slots(2).build();
        let (sent, held) = mpsc::channel::<()>();
        jobs.submit(Job::new("holder").run(move |_| {
            let _ = &sent;
        }))
        .unwrap();
        jobs.wait().unwrap();
        assert_eq!(held.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
    });
}

#[test]
fn an_end_is_reported_while_the_next_job_of_the_same_worker_runs() {
    for workers in [1, 2] {
        in_time(format!("{workers} workers"), move || {
            let jobs = Jobs::builder().cpu_slots(workers).ram_mb(0).build();
            // Quick jobs teach a worker to take many at once.
            jobs.submit_all((0..20_000).map(|i| Job::new(format!("warm-{i}")).run(|_| ()))).unwrap();
            jobs.wait().unwrap();
            let mut events = jobs.events();
            let door = Door::default();
            let all = (0..64).flat_map(|i| {
                let at = door.clone();
                let waits = Job::new(format!("waits-{i}")).run(move |_| at.pass());
                [Job::new(format!("quick-{i}")).run(|_| ()), waits]
            });
            jobs.submit_all(all).unwrap();
            // Each worker waits at the door after a quick job or two; the ends of these are reported now, not later.
            let first = jobs.status("quick-0").unwrap().id;
            let ended = std::iter::from_fn(|| events.recv_timeout(LONG))
                .find(|event| event.job == first && event.what == What::Succeeded);
            assert!(ended.is_some(), "the end of `quick-0` was not reported");
            door.open();
            jobs.wait().unwrap();
        });
    }
}
