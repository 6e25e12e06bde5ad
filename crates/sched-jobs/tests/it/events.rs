//! Which events there are, in which order, and how often.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sched_jobs::{Events, Job, JobError, Jobs, Retry, Scheduler, What};

use crate::{Door, LONG, in_time, on_both, stands_at, works_until};

fn is_end(what: What) -> bool {
    matches!(what, What::Succeeded | What::Failed | What::Cancelled)
}

/// What happened to a job, in order.
fn history(events: &mut Events, jobs: &Jobs, name: &str) -> Vec<What> {
    let id = jobs.status(name).unwrap().id;
    std::iter::from_fn(|| events.try_recv()).filter(|event| event.job == id).map(|event| event.what).collect()
}

#[test]
fn the_events_of_a_job_are_in_order_and_have_one_end() {
    on_both(|jobs| {
        let mut events = jobs.events();
        jobs.submit(Job::new("good").run(|ctx| ctx.progress(0.5))).unwrap();
        jobs.wait().unwrap();
        let received = history(&mut events, &jobs, "good");
        let wanted = [What::Submitted, What::Ready, What::Started { attempt: 1 }, What::Progress(0.5), What::Succeeded];
        assert_eq!(received, wanted);

        let retry = Retry { times: 1, backoff: Duration::ZERO, longest: Duration::ZERO };
        let bad = Job::new("bad").retry(retry).run(|_| Err::<(), _>(JobError::msg("no")));
        jobs.submit_all([bad, Job::new("below").needs("bad")]).unwrap();
        jobs.wait().unwrap_err();
        jobs.retry("below").unwrap();
        jobs.wait().unwrap_err();
        let all: Vec<_> = std::iter::from_fn(|| events.try_recv()).collect();
        let of = |name: &str| {
            let id = jobs.status(name).unwrap().id;
            all.iter().filter(|event| event.job == id).map(|event| event.what).collect::<Vec<_>>()
        };
        let attempts = |first| {
            let retrying = What::Retrying { attempt: first, after_ms: 0 };
            let last = What::Started { attempt: first + 1 };
            [What::Ready, What::Started { attempt: first }, retrying, What::Ready, last, What::Failed]
        };
        let bad = [&[What::Submitted][..], &attempts(1), &[What::Revived], &attempts(3)].concat();
        assert_eq!(of("bad"), bad);
        assert_eq!(of("below"), [What::Submitted, What::Cancelled, What::Revived, What::Cancelled]);
        assert!(all.windows(2).all(|pair| pair[0].at() <= pair[1].at()), "time runs forward");
    });
}

#[test]
fn pause_resume_and_cancel_are_events() {
    on_both(|jobs| {
        let (door, mut events) = (Door::default(), jobs.events());
        let (work, runs) = works_until(&door, "work");
        jobs.submit(work).unwrap();
        runs.recv().unwrap();
        jobs.pause("work").unwrap();
        jobs.resume("work").unwrap();
        jobs.cancel_and_wait("work").unwrap();
        let wanted =
            [What::Submitted, What::Ready, What::Started { attempt: 1 }, What::Paused, What::Resumed, What::Cancelled];
        assert_eq!(history(&mut events, &jobs, "work"), wanted);
    });
}

#[test]
fn every_listener_gets_all_events_from_the_moment_it_listens() {
    on_both(|jobs| {
        let mut early = jobs.events();
        jobs.submit(Job::new("a")).unwrap();
        jobs.wait().unwrap();
        let mut late = jobs.events();
        drop(jobs.events()); // one that does not listen any more
        jobs.submit(Job::new("b")).unwrap();
        jobs.wait().unwrap();
        let count = |events: &mut Events| std::iter::from_fn(|| events.try_recv()).count();
        assert_eq!((count(&mut early), count(&mut late)), (8, 4));
        assert_eq!(early.missed() + late.missed(), 0);
        drop(jobs);
        assert_eq!(early.recv(), None, "the scheduler is gone");
    });
}

#[test]
fn a_listener_that_does_not_read_loses_the_oldest_events_and_they_are_counted() {
    in_time("a million events".to_owned(), || {
        let jobs = Jobs::builder().cpu_slots(1).build();
        let mut events = jobs.events();
        let door = Door::default();
        let (first, runs) = stands_at(&door, "first");
        jobs.submit(first).unwrap();
        runs.recv().unwrap();
        jobs.submit(Job::new("root").needs("first")).unwrap();
        jobs.submit_all((0..999).map(|i| Job::new(format!("{i}")).needs("root"))).unwrap();
        let (rounds, all) = (1 + (1 << 20) / 2000, sched_jobs::Target::Subtree("root".into()));
        for _ in 0..rounds {
            // Two events for each of a thousand jobs.
            jobs.pause(all.clone()).unwrap();
            jobs.resume(all.clone()).unwrap();
        }
        jobs.cancel(sched_jobs::Target::Run).unwrap();
        door.open();
        let received = 3 + 1000 + 2000 * rounds as u64 + 1000 + 1;
        jobs.wait().unwrap_err();
        let read = std::iter::from_fn(|| events.try_recv()).count() as u64;
        assert_eq!((read, read + events.missed()), (1 << 20, received));
    });
}

#[test]
fn the_observer_gets_all_events_in_order_and_with_names() {
    for scheduler in [Scheduler::Threadpool, Scheduler::Simple] {
        in_time(format!("observer of {scheduler}"), move || {
            let received = Arc::new(Mutex::new(Vec::new()));
            let log = received.clone();
            let jobs = Jobs::builder()
                .cpu_slots(2)
                .scheduler(scheduler)
                .observe(move |event, names| {
                    log.lock().unwrap().push((event.at(), names.name(event.job).into_owned(), event.what));
                })
                .build();
            jobs.submit_all((0..500).map(|i| {
                let job = Job::new(format!("{i}")).run(|_| ());
                if i > 2 { job.needs(format!("{}", i - 3)) } else { job }
            }))
            .unwrap();
            jobs.wait().unwrap();
            drop(jobs);
            let received = received.lock().unwrap();
            assert_eq!(received.len(), 4 * 500);
            assert!(received.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            for i in 0..500 {
                let life: Vec<What> =
                    received.iter().filter(|(_, name, _)| *name == i.to_string()).map(|it| it.2).collect();
                assert_eq!(life, [What::Submitted, What::Ready, What::Started { attempt: 1 }, What::Succeeded]);
            }
        });
    }
}

#[test]
fn a_listener_that_starts_while_jobs_run_misses_no_end() {
    on_both(|jobs| {
        let (door, mut events) = (Door::default(), jobs.events());
        let (work, runs) = stands_at(&door, "work");
        jobs.submit(work).unwrap();
        runs.recv().unwrap();
        door.open();
        let end = std::iter::from_fn(|| events.recv_timeout(LONG)).find(|event| is_end(event.what));
        assert_eq!(end.map(|event| event.what), Some(What::Succeeded));
        assert_eq!(events.recv_timeout(Duration::ZERO), None);
    });
}
