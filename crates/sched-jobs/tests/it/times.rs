//! When a job was ready, began and ended.

use std::time::{Duration, SystemTime};

use sched_jobs::{Job, JobError, Retry, State, What};

use crate::{Door, LONG, on_both, stands_at, works_until};

#[test]
fn a_status_has_the_times_that_events_have() {
    on_both(|jobs| {
        let (door, mut events) = (Door::default(), jobs.events());
        let (work, runs) = stands_at(&door, "work");
        jobs.submit(work).unwrap();
        jobs.submit(Job::new("below").needs("work").run(|_| ())).unwrap();
        runs.recv_timeout(LONG).unwrap();
        let below = jobs.status("below").unwrap();
        assert_eq!((below.ready, below.started, below.ended), (None, None, None), "it waits");
        let work = jobs.status("work").unwrap();
        assert!(work.ready.is_some() && work.started >= work.ready && work.ended.is_none(), "{work:?}");
        door.open();
        jobs.wait().unwrap();
        let received: Vec<_> = std::iter::from_fn(|| events.try_recv()).collect();
        for status in jobs.statuses() {
            let at = |wanted: fn(&What) -> bool| {
                received.iter().find(|event| event.job == status.id && wanted(&event.what)).map(sched_jobs::Event::at)
            };
            assert_eq!(status.ready, at(|what| *what == What::Ready));
            assert_eq!(status.started, at(|what| matches!(what, What::Started { .. })));
            assert_eq!(status.ended, at(|what| *what == What::Succeeded));
            assert_eq!((status.attempts, status.paused_from), (1, None));
        }
    });
}

#[test]
fn a_job_that_never_ran_has_an_end_and_no_start() {
    on_both(|jobs| {
        jobs.submit_all([
            Job::new("bad").run(|_| Err::<(), _>(JobError::msg("no"))),
            Job::new("below").needs("bad"),
            Job::new("done").already_done(),
        ])
        .unwrap();
        jobs.wait().unwrap_err();
        let below = jobs.status("below").unwrap();
        assert_eq!((below.ready, below.started, below.attempts), (None, None, 0));
        assert_eq!(below.ended, jobs.status("bad").unwrap().ended);
        assert!(below.ended.is_some_and(|ended| ended <= jobs.now()));
        let done = jobs.status("done").unwrap();
        assert_eq!((done.state, done.ready, done.started, done.ended), (State::Succeeded, None, None, None));
    });
}

#[test]
fn times_are_those_of_the_last_attempt() {
    on_both(|jobs| {
        let mut events = jobs.events();
        let retry = Retry { times: 1, backoff: Duration::ZERO, longest: Duration::ZERO };
        jobs.submit(Job::new("bad").retry(retry).run(|_| Err::<(), _>(JobError::msg("no")))).unwrap();
        jobs.wait().unwrap_err();
        let received: Vec<_> = std::iter::from_fn(|| events.try_recv()).collect();
        let second = received.iter().find(|event| event.what == What::Started { attempt: 2 }).unwrap();
        let status = jobs.status("bad").unwrap();
        assert_eq!((status.started, status.attempts), (Some(second.at()), 2));
        assert_eq!(status.ended, received.iter().find(|event| event.what == What::Failed).map(sched_jobs::Event::at));
        let ended = status.ended.unwrap();
        jobs.retry("bad").unwrap();
        jobs.wait().unwrap_err();
        assert!(jobs.status("bad").unwrap().ended.unwrap() > ended, "the end of a former life is forgotten");
    });
}

#[test]
fn the_scheduler_knows_the_time_of_day_of_its_moments() {
    let before = SystemTime::now();
    on_both(move |jobs| {
        jobs.submit(Job::new("a").run(|_| ())).unwrap();
        jobs.wait().unwrap();
        let ended = jobs.status("a").unwrap().ended.unwrap();
        let at = jobs.time_of_day(ended);
        // The test's clock may be set meanwhile, but not by hours.
        let hour = Duration::from_secs(3600);
        assert!(at + hour >= before && at <= SystemTime::now() + hour);
        assert_eq!(jobs.time_of_day(ended + hour).duration_since(at).unwrap(), hour);
        jobs.time_of_day(Duration::MAX);
    });
}

#[test]
fn a_paused_job_says_what_it_was_paused_from() {
    on_both(|jobs| {
        let door = Door::default();
        let (work, runs) = works_until(&door, "work");
        jobs.submit(work).unwrap();
        jobs.submit(Job::new("below").needs("work").run(|_| ())).unwrap();
        runs.recv_timeout(LONG).unwrap();
        assert_eq!(jobs.status("work").unwrap().paused_from, None);
        jobs.pause("below").unwrap();
        jobs.pause("work").unwrap();
        let from = |name: &str| jobs.status(name).unwrap().paused_from;
        assert_eq!((from("work"), from("below")), (Some(State::Running), Some(State::Queued)));
        jobs.resume("work").unwrap();
        assert_eq!(from("work"), None);
        door.open();
        jobs.resume("below").unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 2);
        assert_eq!(from("below"), None);
    });
}
