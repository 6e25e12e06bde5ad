//! The life of a run, from its beginning to its pruning.

use surface_journal::{
    Demand, Detail, Event, Filter, JournalError, Moved, NewJob, NewRun, Outcome, Prune, State, Status,
};

use crate::temp::{Temp, run_of};

#[test]
fn a_run_comes_back_as_it_was_given() {
    let temp = Temp::new();
    let journal = temp.journal();
    let named = [("licence".to_owned(), 2)].into();
    let job = NewJob {
        group: "images".into(),
        fingerprint: u64::MAX - 3,
        demand: Demand { cpu_slots: 3, ram_mb: 1 << 40, vram_mb: 7, named },
        ..NewJob::new("draw <1>", "draw --n=1")
    };
    let new = NewRun {
        file: Some("/x/y.toml".into()),
        plan_json: r#"{"a":[1,2]}"#.into(),
        jobs: vec![job.clone()],
        ..NewRun::new("film")
    };
    let run = journal.begin(new.clone()).unwrap();
    let row = journal.run(run.id()).unwrap();
    assert_eq!((row.name, row.file, row.cwd, row.jobs), (new.name, new.file, new.cwd, 1));
    assert_eq!((row.status, row.counts.queued), (Status::Running, 1));
    assert_eq!(journal.plan_json(run.id()).unwrap(), new.plan_json);
    let back = journal.jobs(run.id()).unwrap().remove(0);
    assert_eq!((back.name, back.group, back.command), (job.name, job.group, job.command));
    assert_eq!((back.fingerprint, back.demand, back.state), (job.fingerprint, job.demand, State::Queued));
    assert!(run.log(0).parent().unwrap().is_dir(), "the folder for logs is there");
}

#[test]
fn a_job_row_shows_its_latest_attempt() {
    let temp = Temp::new();
    let journal = temp.journal();
    let run = journal.begin(run_of(1)).unwrap();
    let writer = journal.writer(&run).unwrap();
    let token = Detail { token: Some("t1".into()), pid: Some(77), ..Detail::default() };
    writer.record(Moved { offset_us: Some(10), ..Moved::new(0, 1, State::Ready) });
    writer.record(Moved { offset_us: Some(20), ..Moved::new(0, 1, State::Running).with(token) });
    writer.record(Event::Progressed { job: 0, fraction: 0.25 });
    writer.record(Moved { offset_us: Some(30), ..Moved::new(0, 1, State::Paused) });
    writer.record(Moved { offset_us: Some(40), ..Moved::new(0, 1, State::Running) });
    writer.flush().unwrap();
    let job = &journal.jobs(run.id()).unwrap()[0];
    assert_eq!((job.ready_us, job.started_us, job.ended_us), (Some(10), Some(20), None));
    assert_eq!((job.detail.token.as_deref(), job.progress), (Some("t1"), Some(0.25)));

    let bad = Detail { how: Some("exit 3".into()), code: Some(3), error: Some("no".into()), ..Detail::default() };
    writer.record(Moved { offset_us: Some(50), ..Moved::new(0, 1, State::Failed).with(bad) });
    writer.flush().unwrap();
    let job = &journal.jobs(run.id()).unwrap()[0];
    assert_eq!((job.detail.code, job.ended_us, job.detail.pid), (Some(3), Some(50), Some(77)));

    writer.record(Moved { offset_us: Some(60), ..Moved::new(0, 2, State::Queued) });
    writer.flush().unwrap();
    let job = &journal.jobs(run.id()).unwrap()[0];
    assert_eq!((job.state, job.attempt, job.started_us, job.ended_us), (State::Queued, 2, None, None));
    assert_eq!((&job.detail, job.progress), (&Detail::default(), None), "nothing of the first attempt is left");
    let events = journal.events(run.id()).unwrap();
    assert_eq!(events.len(), 6, "progress is no event");
    assert_eq!(events[4].detail.error.as_deref(), Some("no"));
    assert_eq!(journal.events_after(run.id(), 4).unwrap(), events[4..]);
}

#[test]
fn a_resumed_run_continues_where_it_was() {
    let temp = Temp::new();
    let journal = temp.journal();
    let lock = journal.begin(NewRun { plan_json: "plan".into(), ..run_of(2) }).unwrap();
    let id = lock.id().clone();
    let writer = journal.writer(&lock).unwrap();
    let token = Detail { token: Some("cgroup-7".into()), ..Detail::default() };
    writer.record(Moved::new(0, 1, State::Running).with(token));
    writer.record(Moved { offset_us: Some(9_000_000), ..Moved::new(1, 1, State::Running) });
    drop((writer, lock)); // dropping waits for the disk

    let again = journal.reopen(&id, std::process::id()).unwrap();
    assert_eq!(again.plan_json, "plan");
    assert_eq!((again.jobs[0].state, again.jobs[0].attempt), (State::Running, 1));
    assert_eq!(again.jobs[0].detail.token.as_deref(), Some("cgroup-7"));
    let writer = journal.writer(&again.lock).unwrap();
    writer.record(Event::RunPaused(true));
    writer.record(Moved::new(0, 1, State::Succeeded));
    writer.flush().unwrap();
    assert_eq!(journal.run(&id).unwrap().status, Status::Paused);
    let events = journal.events(&id).unwrap();
    assert_eq!(events.iter().map(|event| event.n).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(events[2].offset_us >= 9_000_000, "time of the run went back to {}", events[2].offset_us);
    writer.finish(Outcome::Failed).unwrap();
    let row = journal.run(&id).unwrap();
    assert_eq!((row.status, row.counts.ended(), row.counts.of(State::Running)), (Status::Failed, 1, 1));
    assert_eq!(row.ended_ms, Some(row.seen_ms));
}

#[test]
fn runs_are_found_by_their_beginning() {
    let temp = Temp::new();
    let journal = temp.journal();
    assert!(matches!(journal.find("latest"), Err(JournalError::NoRun { .. })));
    // 40 runs on 32 letters: at least two begin alike.
    let ids: Vec<_> = (0..40).map(|_| journal.begin(run_of(0)).unwrap().id().clone()).collect();
    for id in &ids {
        assert_eq!(&journal.find(id.as_str()).unwrap(), id);
        assert_eq!(&journal.find(&id.as_str()[2..].to_uppercase()).unwrap(), id);
        let start = &id.as_str()[..3];
        let alike = ids.iter().filter(|other| other.as_str().starts_with(start)).count();
        match journal.find(start) {
            Ok(found) => assert!(alike == 1 && found == *id),
            Err(JournalError::Ambiguous { candidates, .. }) => {
                assert_eq!(candidates.len(), alike.min(10));
                assert!(alike > 10 || candidates.contains(id), "{candidates:?} lacks {id}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    for newest in ["latest", "-"] {
        assert_eq!(journal.find(newest).unwrap(), ids[39]);
    }
    for nothing in ["", "r-", "*", "r-?", "zzzzzzz", "r-'; --"] {
        assert!(matches!(journal.find(nothing), Err(JournalError::NoRun { .. })), "{nothing}");
    }
}

#[test]
fn old_runs_are_pruned_and_held_ones_are_not() {
    let temp = Temp::new();
    let journal = temp.journal();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let run = journal.begin(run_of(2)).unwrap();
        ids.push(run.id().clone());
        let writer = journal.writer(&run).unwrap();
        writer.record(Moved::new(0, 1, State::Running));
        writer.finish(Outcome::Cancelled).unwrap();
    }
    let held = journal.reopen(&ids[0], std::process::id()).unwrap();
    assert_eq!(journal.prune(Prune::default()).unwrap(), []);
    let hour = Prune { older_than_ms: Some(3_600_000), ..Prune::default() };
    assert_eq!(journal.prune(hour).unwrap(), [], "all are younger than an hour");
    let gone = journal.prune(Prune { keep: Some(2), ..Prune::default() }).unwrap();
    assert_eq!(gone, [ids[2].clone(), ids[1].clone()]);
    let left: Vec<_> = journal.runs(Filter::default()).unwrap().into_iter().map(|run| run.id).collect();
    assert_eq!(left, [ids[4].clone(), ids[3].clone(), ids[0].clone()]);
    assert!(!journal.folder(&ids[1]).exists() && journal.folder(&ids[0]).exists());
    assert!(matches!(journal.jobs(&ids[1]), Err(JournalError::NoRun { .. })));
    drop(held);
}

#[test]
fn runs_are_listed_by_how_they_stand() {
    let temp = Temp::new();
    let journal = temp.journal();
    let running = journal.begin(run_of(1)).unwrap();
    let ended = journal.begin(run_of(1)).unwrap();
    journal.finish(&ended, Outcome::Succeeded).unwrap();
    let listed = |filter| journal.runs(filter).unwrap().into_iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!(listed(Filter { live: true, ..Filter::default() }), [running.id().clone()]);
    assert_eq!(listed(Filter { status: Some(Status::Succeeded), ..Filter::default() }), [ended.id().clone()]);
    assert_eq!(listed(Filter { limit: Some(1), ..Filter::default() }), [ended.id().clone()]);
}

#[test]
#[should_panic(expected = "job 3 of a run with 3 jobs")]
fn an_event_of_a_job_that_is_not_there_is_a_bug_of_the_caller() {
    let temp = Temp::new();
    let journal = temp.journal();
    let run = journal.begin(run_of(3)).unwrap();
    let _ = journal.writer(&run).unwrap().record(Moved::new(3, 1, State::Ready));
}
