//! Keys: submitting twice is submitting once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use sched_jobs::{Job, JobError, State, SubmitError};

use crate::{in_time, on_both};

fn counts(runs: &Arc<AtomicUsize>, name: &str) -> Job {
    let runs = runs.clone();
    Job::new(name).run(move |_| {
        runs.fetch_add(1, Ordering::SeqCst);
    })
}

#[test]
fn a_second_job_of_a_key_is_the_first_before_and_after_its_end() {
    on_both(|jobs| {
        let runs = Arc::new(AtomicUsize::new(0));
        let first = jobs.submit(counts(&runs, "a").key("k")).unwrap();
        assert_eq!(jobs.submit(counts(&runs, "a").key("k")), Ok(first), "its name is no duplicate");
        jobs.wait().unwrap();
        let other = counts(&runs, "b").key("k").needs("nothing").cpu_slots(9999).run_once(|_| ()).retries(3);
        assert_eq!(jobs.submit(other), Ok(first), "whatever else it says");
        assert_eq!(jobs.wait().unwrap().succeeded, 1);
        assert_eq!((runs.load(Ordering::SeqCst), jobs.statuses().len()), (1, 1));
        assert_eq!((jobs.find_key("k"), jobs.find_key("a")), (Some(first), None));
        let second = jobs.submit(counts(&runs, "b").key("k2")).unwrap();
        assert_ne!(second, first);
        jobs.wait().unwrap();
    });
}

#[test]
fn a_failed_job_stays_the_one_of_its_key() {
    on_both(|jobs| {
        let id = jobs.submit(Job::new("a").key("k").run(|_| Err::<(), _>(JobError::msg("no")))).unwrap();
        jobs.wait().unwrap_err();
        assert_eq!(jobs.submit(Job::new("a").key("k").run(|_| ())), Ok(id));
        assert_eq!(jobs.status(id).unwrap().state, State::Failed, "`retry` is what tries it again");
    });
}

#[test]
fn a_batch_that_is_submitted_again_gives_the_same_ids_in_the_same_order() {
    on_both(|jobs| {
        let runs = Arc::new(AtomicUsize::new(0));
        // More than are made at a time, with needs by name, also of jobs that come later.
        let batch = |count: usize| {
            let runs = runs.clone();
            (0..count).map(move |i| {
                let job = counts(&runs, &format!("{i}")).key(format!("key-{i}"));
                if i % 7 == 3 { job.needs(format!("{}", i - 1)).needs(format!("{}", i / 2)) } else { job }
            })
        };
        let first = jobs.submit_all(batch(400)).unwrap();
        assert_eq!(jobs.submit_all(batch(400)).unwrap(), first);
        jobs.wait().unwrap();
        let longer = jobs.submit_all(batch(1000)).unwrap();
        assert_eq!((&longer[..400], longer.len()), (&first[..], 1000));
        assert!(longer[400..].iter().map(|id| id.index()).eq(400..1000));
        assert_eq!(jobs.wait().unwrap().succeeded, 1000);
        assert_eq!(runs.load(Ordering::SeqCst), 1000);
    });
}

#[test]
fn a_key_twice_in_one_batch_is_one_job() {
    on_both(|jobs| {
        let runs = Arc::new(AtomicUsize::new(0));
        let of = |name: &str, key: &str| counts(&runs, name).key(key);
        let ids = jobs.submit_all([of("a", "k"), counts(&runs, "plain"), of("b", "k"), of("c", "l")]).unwrap();
        assert_eq!(ids.iter().map(|id| id.index()).collect::<Vec<_>>(), [0, 1, 0, 2]);
        assert_eq!(jobs.wait().unwrap().succeeded, 3);
    });
}

#[test]
fn a_refused_batch_leaves_no_key() {
    on_both(|jobs| {
        let runs = Arc::new(AtomicUsize::new(0));
        let batch = [counts(&runs, "a").key("k"), counts(&runs, "b").needs("nothing")];
        jobs.submit_all(batch).unwrap_err();
        assert_eq!(jobs.find_key("k"), None);
        let many = (0..600).map(|i| counts(&runs, &format!("{}", i % 599)).key(format!("k{i}")));
        assert!(matches!(jobs.submit_all(many), Err(SubmitError::Duplicate { .. })));
        assert_eq!(jobs.find_key("k0"), None);
        jobs.submit(counts(&runs, "a").key("k")).unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 1);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_key_that_is_empty_or_too_long_is_refused() {
    on_both(|jobs| {
        for bytes in [0, 4097] {
            let error = jobs.submit(Job::new("a").key("k".repeat(bytes))).unwrap_err();
            assert_eq!(error, SubmitError::BadKey { job: "a".to_owned(), bytes });
            assert!(error.to_string().contains("key of job `a`"), "{error}");
        }
        jobs.submit(Job::new("a").key("k".repeat(4096))).unwrap();
        assert_eq!(jobs.wait().unwrap().succeeded, 1);
    });
}

#[test]
fn a_job_of_a_known_key_stays_in_its_part() {
    on_both(|jobs| {
        let (one, two) = (jobs.part("one"), jobs.part("two"));
        let id = one.submit(Job::new("a").key("k").run(|_| ())).unwrap();
        assert_eq!(two.submit(Job::new("a").key("k").run(|_| ())), Ok(id));
        jobs.wait().unwrap();
        assert_eq!((one.statuses().len(), two.statuses().len()), (1, 0));
    });
}

#[test]
fn of_many_threads_that_submit_one_key_one_does() {
    in_time("eight threads".to_owned(), || {
        let jobs = sched_jobs::Jobs::builder().cpu_slots(2).build();
        let (runs, start) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(8)));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (jobs, runs, start) = (jobs.clone(), runs.clone(), start.clone());
                std::thread::spawn(move || {
                    start.wait();
                    (0..50).map(|i| jobs.submit(counts(&runs, &format!("{i}")).key(format!("k{i}"))).unwrap()).collect()
                })
            })
            .collect();
        let ids: Vec<Vec<_>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(jobs.wait().unwrap().succeeded, 50);
        assert_eq!(runs.load(Ordering::SeqCst), 50);
    });
}
