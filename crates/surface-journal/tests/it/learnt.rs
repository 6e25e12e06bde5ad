//! What a run teaches the next one.

use std::path::Path;

use surface_journal::{Detail, Moved, NewJob, NewRun, State, group_fingerprint};

use crate::temp::Temp;

fn ended(job: u32, state: State, peak_rss_kb: u64) -> Moved {
    let detail = Detail { peak_rss_kb: Some(peak_rss_kb), wall_ms: Some(40), cpu_ms: Some(30), ..Detail::default() };
    Moved::new(job, 1, state).with(detail)
}

#[test]
fn the_next_run_knows_what_the_last_one_needed() {
    let temp = Temp::new();
    let journal = temp.journal();
    let job = |n: u64| NewJob { group: "draw".into(), fingerprint: n, ..NewJob::new(format!("draw-{n}"), "draw") };
    let file = Path::new("/some/where/film.toml");
    let new = NewRun { file: Some(file.into()), jobs: vec![job(11), job(12), job(13), job(0)], ..NewRun::new("film") };
    let run = journal.begin(new).unwrap();
    let writer = journal.writer(&run).unwrap();
    writer.record(ended(0, State::Succeeded, 1_000));
    writer.record(ended(1, State::Failed, 900_000));
    writer.record(Moved::new(2, 1, State::Succeeded)); // up to date: it did not run
    writer.record(ended(3, State::Succeeded, 2_000));
    writer.flush().unwrap();

    let estimates = journal.estimates(&[13, 12, 11, 0]).unwrap();
    assert_eq!(estimates[0], None, "a job that did not run teaches nothing");
    assert_eq!(estimates[1], None, "a failure teaches nothing");
    let known = estimates[2].unwrap();
    assert_eq!((known.runs, known.peak_rss_kb, known.wall_ms, known.cpu_ms), (1, 1_100, 40, 30));
    assert_eq!(estimates[3], None, "a job without fingerprint is not remembered");
    let group = journal.estimate(group_fingerprint(Some(file), "draw")).unwrap().unwrap();
    assert_eq!((group.runs, group.peak_rss_kb), (2, 2_200));
}
