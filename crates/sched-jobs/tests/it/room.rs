//! CPU slots, memory, video memory, named resources; neighbours.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use sched_jobs::{Job, Jobs, Neighbours, Others, Scheduler, State, Usage};

use crate::{Door, LONG, in_time, logs, on_both, on_both_with, stands_at, state, until};

/// Many jobs of each demand; the most that ran together.
fn most_together(jobs: &Jobs, demand: impl Fn(Job) -> Job) -> usize {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for i in 0..60 {
        let (now, most) = (now.clone(), most.clone());
        let job = Job::new(format!("{i}")).run(move |_| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
        });
        jobs.submit(demand(job)).unwrap();
    }
    assert_eq!(jobs.wait().unwrap().succeeded, 60);
    most.load(Ordering::SeqCst)
}

#[test]
fn cpu_slots_and_named_resources_are_never_exceeded() {
    in_time("limits".to_owned(), || {
        let build = || Jobs::builder().cpu_slots(6).resource("licence", 2).ram_mb(1000).vram_mb(1000).build();
        assert!(most_together(&build(), |job| job.cpu_slots(2)) <= 3);
        assert!(most_together(&build(), |job| job.cpu_slots(6)) <= 1);
        assert!(most_together(&build(), |job| job.takes("licence", 1)) <= 2);
        assert!(most_together(&build(), |job| job.ram_mb(400)) <= 2);
        assert!(most_together(&build(), |job| job.vram_mb(501)) <= 1);
        assert!(most_together(&build(), |job| job.ram_mb(5000)) <= 1, "more than there is runs alone");
        assert!(most_together(&build(), |job| job.cpu_slots(0)) <= 6, "there are six workers");
    });
}

#[test]
fn memory_is_unlimited_where_the_limit_is_zero() {
    in_time("unlimited".to_owned(), || {
        let jobs = Jobs::builder().cpu_slots(2).ram_mb(0).vram_mb(0).build();
        let door = Door::default();
        for name in ["a", "b"] {
            let (job, runs) = stands_at(&door, name);
            jobs.submit(job.ram_mb(u64::MAX).vram_mb(u64::MAX)).unwrap();
            runs.recv_timeout(LONG).unwrap();
        }
        door.open();
        jobs.wait().unwrap();
    });
}

#[test]
fn a_job_larger_than_the_soft_limit_runs_when_nothing_else_does() {
    on_both(|jobs| {
        let (door, (log, order)) = (Door::default(), mpsc::channel());
        let (first, runs) = stands_at(&door, "first");
        jobs.submit(first).unwrap();
        runs.recv().unwrap();
        jobs.submit(logs(&log, "huge").ram_mb(1 << 50).vram_mb(1 << 50)).unwrap();
        assert_eq!(state(&jobs, "huge"), State::Ready);
        door.open();
        assert_eq!(jobs.wait().unwrap().succeeded, 2);
        assert_eq!(order.try_iter().count(), 1);
    });
}

#[test]
fn why_names_what_is_short_and_who_holds_it() {
    on_both_with(
        |builder| builder.cpu_slots(4).ram_mb(1000),
        |jobs| {
            let door = Door::default();
            let (first, runs) = stands_at(&door, "first");
            jobs.submit(first.ram_mb(800)).unwrap();
            runs.recv().unwrap();
            jobs.submit(Job::new("next").ram_mb(300)).unwrap();
            let message = [
                "next waits for RAM: needs 300 MB, 200 MB free of 1.0 GB. Held by first (800 MB). First in line",
                // One job at a time.
                "next waits for a worker thread: needs 1, 0 free of 1; also short of RAM. Held by first (1). First in line",
            ];
            let why = jobs.why("next").unwrap().to_string();
            assert!(message.contains(&why.as_str()), "{why}");
            jobs.submit(Job::new("below").needs("next").needs("first")).unwrap();
            assert_eq!(jobs.why("below").unwrap().to_string(), "below waits for next (ready) and first (running)");
            door.open();
            jobs.wait().unwrap();
            assert_eq!(jobs.why("next").unwrap().to_string(), "next does not wait: it succeeded");
        },
    );
}

/// Other runs, whose usage the test sets; and the usage that was published to them.
#[derive(Clone, Default)]
struct FakeNeighbours {
    others: Arc<Mutex<Others>>,
    published: Arc<Mutex<Usage>>,
}

impl Neighbours for FakeNeighbours {
    fn share(&mut self, choose: &mut dyn FnMut(&Others) -> Usage) {
        let others = self.others.lock().unwrap();
        *self.published.lock().unwrap() = choose(&others);
    }
}

#[test]
fn what_neighbours_hold_is_not_free_and_our_usage_is_published_to_them() {
    for scheduler in [Scheduler::Threadpool, Scheduler::Simple] {
        in_time(format!("neighbours of {scheduler}"), move || {
            let neighbours = FakeNeighbours::default();
            *neighbours.others.lock().unwrap() = Others { running: 1, cpu_slots: 3, ..Others::default() };
            let builder = Jobs::builder().cpu_slots(4).ram_mb(1000).resource("licence", 2);
            let jobs = builder.neighbours(neighbours.clone()).scheduler(scheduler).build();
            let door = Door::default();
            let (job, runs) = stands_at(&door, "two");
            jobs.submit(job.cpu_slots(2).takes("licence", 1)).unwrap();
            assert_eq!(state(&jobs, "two"), State::Ready);
            let message = jobs.why("two").unwrap().to_string();
            assert!(message.contains("needs 2, 1 free of 4. Held by other runs (3)"), "{message}");
            // They release one; this run notices it only after `poke`.
            neighbours.others.lock().unwrap().cpu_slots = 2;
            jobs.poke();
            runs.recv_timeout(LONG).unwrap();
            let published = neighbours.published.lock().unwrap().clone();
            assert_eq!((published.running, published.cpu_slots, published.ram_mb), (1, 2, 256));
            assert_eq!(published.named, [("licence".to_owned(), 1)]);
            jobs.submit(Job::new("large").cpu_slots(0).ram_mb(900)).unwrap();
            *neighbours.others.lock().unwrap() = Others { ram_mb: 200, running: 1, ..Others::default() };
            door.open();
            until(&jobs, "two", State::Succeeded);
            jobs.poke();
            assert_eq!(state(&jobs, "large"), State::Ready, "200 MB of 1,000 are theirs, and something runs");
            *neighbours.others.lock().unwrap() = Others { ram_mb: 200, ..Others::default() };
            jobs.poke();
            until(&jobs, "large", State::Succeeded);
            jobs.poke();
            assert_eq!(neighbours.published.lock().unwrap().running, 0);
        });
    }
}

#[test]
fn memory_that_is_not_really_there_is_not_given_away() {
    in_time("memory".to_owned(), || {
        let neighbours = FakeNeighbours::default();
        *neighbours.others.lock().unwrap() = Others { running: 1, ram_free_mb: Some(100), ..Others::default() };
        let jobs = Jobs::builder().cpu_slots(4).ram_mb(10_000).neighbours(neighbours.clone()).build();
        jobs.submit(Job::new("hungry").ram_mb(300)).unwrap();
        assert_eq!(state(&jobs, "hungry"), State::Ready);
        let message = "hungry waits for RAM: needs 300 MB, 100 MB free on this machine; other programs use the rest. First in line";
        assert_eq!(jobs.why("hungry").unwrap().to_string(), message);
        *neighbours.others.lock().unwrap() = Others { running: 1, ram_free_mb: Some(300), ..Others::default() };
        jobs.poke();
        jobs.wait().unwrap();
    });
}

#[test]
fn a_job_waits_for_memory_that_other_programs_use_also_if_nothing_else_runs() {
    in_time("memory of others".to_owned(), || {
        let neighbours = FakeNeighbours::default();
        let others = |free| Others { ram_free_mb: Some(free), ram_most_mb: Some(20_000), ..Others::default() };
        *neighbours.others.lock().unwrap() = others(15_000);
        // The limit does not matter to a job that runs alone; what is really there does.
        let jobs = Jobs::builder().cpu_slots(4).ram_mb(10_000).neighbours(neighbours.clone()).build();
        jobs.submit(Job::new("large").ram_mb(18_000)).unwrap();
        assert_eq!(state(&jobs, "large"), State::Ready);
        let why = jobs.why("large").unwrap().to_string();
        assert!(why.contains("needs 18.0 GB, 15.0 GB free on this machine; other programs use the rest"), "{why}");
        assert!(neighbours.published.lock().unwrap().lacks_memory, "memory is checked again from time to time");
        // Small jobs do not wait for it.
        jobs.submit(Job::new("small").ram_mb(100)).unwrap();
        while state(&jobs, "small") != State::Succeeded {
            std::thread::yield_now();
        }
        *neighbours.others.lock().unwrap() = others(18_000);
        jobs.poke();
        jobs.wait().unwrap();
        // A job that needs more than could ever be free does not wait.
        jobs.submit(Job::new("huge").ram_mb(30_000)).unwrap();
        jobs.wait().unwrap();
    });
}
