//! What the journal costs. The bounds are for release builds; a debug build is allowed ten times as much.

use std::fs;
use std::time::{Duration, Instant};

use surface_journal::{Detail, Moved, NewJob, NewRun, State};

use crate::child;
use crate::temp::Temp;

fn bound(release: Duration) -> Duration {
    if cfg!(debug_assertions) { release * 10 } else { release }
}

fn jobs(many: u64) -> NewRun {
    let job = |n: u64| NewJob {
        group: "g".into(),
        fingerprint: n + 1,
        ..NewJob::new(format!("job-{n}"), format!("convert --quality 90 image-{n}.png image-{n}.jpg"))
    };
    NewRun { jobs: (0..many).map(job).collect(), file: Some("f.toml".into()), ..NewRun::new("speed") }
}

/// Processor time of the threads called `name`, while they live.
fn cpu_of(name: &str) -> Duration {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let ours = tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name));
    let spent = ours
        .filter_map(|task| fs::read_to_string(task.join("schedstat")).ok())
        .filter_map(|stat| stat.split(' ').next()?.parse().ok().map(Duration::from_nanos));
    spent.sum()
}

#[test]
fn a_hundred_thousand_jobs_begin_and_are_estimated_quickly() {
    let temp = Temp::new();
    let journal = temp.journal();
    let new = jobs(100_000);
    let prints: Vec<u64> = new.jobs.iter().map(|job| job.fingerprint).collect();
    let begun = Instant::now();
    let run = journal.begin(new).unwrap();
    let began = begun.elapsed();
    let begun = Instant::now();
    assert_eq!(journal.jobs(run.id()).unwrap().len(), 100_000);
    let read = begun.elapsed();
    let begun = Instant::now();
    assert_eq!(journal.estimates(&prints).unwrap().len(), 100_000);
    let estimated = begun.elapsed();
    eprintln!("100,000 jobs: begin {began:?}, read {read:?}, estimate {estimated:?}");
    assert!(began < bound(Duration::from_millis(1_500)), "begin took {began:?}");
    assert!(estimated < bound(Duration::from_secs(1)), "estimates took {estimated:?}");
}

#[test]
fn ten_thousand_ended_jobs_cost_the_writer_less_than_a_second() {
    // In a process of its own: writers of other tests would be counted too.
    if child::word().is_none() {
        let child = child::start("speed::ten_thousand_ended_jobs_cost_the_writer_less_than_a_second", "measure");
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let temp = Temp::new();
    let journal = temp.journal();
    let run = journal.begin(jobs(10_000)).unwrap();
    let writer = journal.writer(&run).unwrap();
    let begun = Instant::now();
    for job in 0..10_000 {
        let detail = Detail { token: Some(format!("job-{job}")), pid: Some(job), ..Detail::default() };
        writer.record(Moved::new(job, 1, State::Ready));
        writer.record(Moved::new(job, 1, State::Running).with(detail));
        let detail = Detail {
            how: Some("exit 0".into()),
            code: Some(0),
            peak_rss_kb: Some(3_000),
            cpu_ms: Some(1),
            wall_ms: Some(2),
            waited_ms: Some(3),
            ..Detail::default()
        };
        writer.record(Moved::new(job, 1, State::Succeeded).with(detail));
    }
    let recorded = begun.elapsed();
    writer.flush().unwrap();
    let flushed = begun.elapsed();
    let cpu = cpu_of("bursar-journal");
    eprintln!("10,000 jobs, 30,000 events: recorded in {recorded:?}, on disk after {flushed:?}, writer used {cpu:?}");
    assert!(cpu < bound(Duration::from_secs(1)), "the writer used {cpu:?}");
}
