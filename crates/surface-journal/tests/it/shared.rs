//! Several processes, one journal.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use surface_journal::{Filter, Journal, JournalError, Moved, Outcome, State, Status};

use crate::child;
use crate::temp::{Temp, run_of};

#[test]
fn processes_that_write_at_once_lose_nothing() {
    const JOBS: u32 = 300;
    if let Some(dir) = child::word() {
        let journal = Journal::open(Path::new(&dir)).unwrap();
        let run = journal.begin(run_of(JOBS)).unwrap();
        let writer = journal.writer(&run).unwrap();
        for job in 0..JOBS {
            writer.record(Moved::new(job, 1, State::Running));
            writer.record(Moved::new(job, 1, State::Succeeded));
            if job % 10 == 0 {
                writer.commit().unwrap();
            }
        }
        return writer.finish(Outcome::Succeeded).unwrap();
    }
    let temp = Temp::new();
    // The directory does not exist yet: they also race to make it.
    let children: Vec<_> = (0..3)
        .map(|_| child::start("shared::processes_that_write_at_once_lose_nothing", temp.path().to_str().unwrap()))
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let journal = temp.journal();
    let runs = journal.runs(Filter::default()).unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        assert_eq!((run.status, run.counts.succeeded), (Status::Succeeded, JOBS));
        assert_eq!(journal.events(&run.id).unwrap().len(), 2 * JOBS as usize);
    }
}

#[test]
fn two_processes_cannot_hold_one_run() {
    if let Some(dir) = child::word() {
        let journal = Journal::open(Path::new(&dir)).unwrap();
        let run = journal.begin(run_of(1)).unwrap();
        println!("run {}", run.id());
        let _ = std::io::stdin().lines().next(); // until the parent has looked
        return;
    }
    let temp = Temp::new();
    let mut holder = child::start("shared::two_processes_cannot_hold_one_run", temp.path().to_str().unwrap());
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.contains("run r-")).expect("the child begins a run");

    let journal = temp.journal();
    let run = journal.find("latest").unwrap();
    assert_eq!(journal.run(&run).unwrap().status, Status::Running);
    let error = journal.reopen(&run, std::process::id()).unwrap_err();
    let pid = holder.id();
    assert!(matches!(error, JournalError::Held { pid: Some(held), .. } if held == pid), "{error}");
    assert!(error.to_string().contains(&pid.to_string()), "{error}");

    holder.stdin.take().unwrap().write_all(b"\n").unwrap();
    holder.wait().unwrap();
    assert_eq!(journal.run(&run).unwrap().status, Status::Interrupted);
    let reopened = journal.reopen(&run, std::process::id()).unwrap();
    assert_eq!(journal.run(&run).unwrap().status, Status::Running);
    // Also within one process.
    assert!(matches!(journal.reopen(&run, std::process::id()), Err(JournalError::Held { .. })));
    drop(reopened);
}
