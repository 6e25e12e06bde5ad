//! Waiting for the end of a run, and ending it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sched_jobs::{Job, JobError, State};

use crate::{Door, LONG, on_both, stands_at, state, works_until};

#[test]
fn waiting_returns_when_everything_has_ended_or_time_is_up() {
    on_both(|jobs| {
        assert!(jobs.wait().is_ok(), "nothing has nothing to wait for");
        let door = Door::default();
        let (work, runs) = stands_at(&door, "work");
        jobs.submit(work).unwrap();
        runs.recv().unwrap();
        assert_eq!(jobs.wait_timeout(Duration::from_millis(5)), None);
        assert_eq!(jobs.wait_timeout(Duration::ZERO), None);
        door.open();
        let summary = jobs.wait_timeout(LONG).unwrap().unwrap();
        assert_eq!(summary.succeeded, 1);
        assert_eq!(jobs.wait_timeout(Duration::MAX).unwrap().unwrap(), summary);
    });
}

#[test]
fn a_run_with_a_paused_job_has_not_ended() {
    on_both(|jobs| {
        let door = Door::default();
        let (first, runs) = stands_at(&door, "first");
        jobs.submit(first).unwrap();
        runs.recv().unwrap();
        jobs.submit(Job::new("held")).unwrap();
        jobs.submit(Job::new("below").needs("first")).unwrap();
        if state(&jobs, "held") == State::Ready {
            jobs.pause("held").unwrap();
        }
        jobs.pause("below").unwrap();
        door.open();
        assert_eq!(jobs.wait_timeout(Duration::from_millis(5)), None);
        jobs.resume(sched_jobs::Target::Run).unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 3);
    });
}

/// Reports its drop.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn dropping_the_last_handle_cancels_running_jobs_and_returns_when_they_have_ended() {
    on_both(|jobs| {
        let (door, dropped, ended) =
            (Door::default(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (work, runs) = works_until(&door, "work");
        jobs.submit(work).unwrap();
        runs.recv().unwrap();
        let (flag, ends) = (Flag(dropped.clone()), ended.clone());
        jobs.submit(Job::new("never").needs("work").run(move |_| {
            let _ = &flag;
            ends.store(true, Ordering::SeqCst);
        }))
        .unwrap();
        let (mut events, clone) = (jobs.events(), jobs.clone());
        drop(jobs);
        assert_eq!(state(&clone, "work"), State::Running, "there is still a handle");
        drop(clone);
        assert!(dropped.load(Ordering::SeqCst), "closures are gone");
        assert!(!ended.load(Ordering::SeqCst), "and were not run");
        assert_eq!(
            std::iter::from_fn(|| events.recv()).filter(|event| event.what == sched_jobs::What::Cancelled).count(),
            2
        );
    });
}

#[test]
fn dropping_with_paused_jobs_and_back_offs_does_not_wait_for_them() {
    on_both(|jobs| {
        let door = Door::default();
        let (work, runs) = works_until(&door, "work");
        jobs.submit(work).unwrap();
        runs.recv().unwrap();
        jobs.pause("work").unwrap();
        jobs.submit(Job::new("flaky").retries(3).run(|_| Err::<(), _>(JobError::msg("no")))).unwrap();
        let mut events = jobs.events();
        while jobs.status("flaky").unwrap().attempts == 0 || state(&jobs, "flaky") != State::Queued {
            events.recv_timeout(LONG).unwrap();
        }
        jobs.submit(Job::new("held").needs("flaky")).unwrap();
        jobs.pause("held").unwrap();
        drop(jobs);
    });
}

#[test]
fn a_closure_may_hold_the_last_handle() {
    on_both(|jobs| {
        let (door, handle) = (Door::default(), jobs.clone());
        let at = door.clone();
        jobs.submit(Job::new("owner").run_once(move |_| {
            at.pass();
            drop(handle); // on a worker, which cannot wait for itself
        }))
        .unwrap();
        let mut events = jobs.events();
        drop(jobs);
        door.open();
        while events.recv().is_some() {}
    });
}

#[test]
fn a_closure_that_is_kept_for_a_retry_may_hold_a_handle() {
    on_both(|jobs| {
        let handle = jobs.clone();
        jobs.submit(Job::new("owner").run(move |_| {
            handle.submit(Job::new("child"))?;
            Ok::<_, JobError>(())
        }))
        .unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 2);
        let mut events = jobs.events();
        drop(jobs); // the closure's handle may be dropped before or after this one
        while events.recv().is_some() {}
    });
}
