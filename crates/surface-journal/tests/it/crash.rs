//! A process is killed while it writes. What it was promised is there.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use surface_journal::{Journal, Moved, State, Status};

use crate::child;
use crate::temp::{Temp, run_of};

/// Jobs move, one event each; odd rounds ask for a commit and even ones for a sync; each answer is printed.
fn write_for_ever(dir: &Path) {
    let journal = Journal::open(dir).unwrap();
    let run = journal.begin(run_of(50)).unwrap();
    let writer = journal.writer(&run).unwrap();
    println!("run {}", run.id());
    for round in 0_u32.. {
        let mut number = 0;
        for n in 0..=(round % 7) {
            let job = (round + n) % 50;
            number = writer.record(Moved::new(job, round + 1, State::Running));
        }
        let (word, safe) = if round % 2 == 0 { ("flushed", writer.flush()) } else { ("committed", writer.commit()) };
        safe.unwrap();
        println!("{word} {number}");
    }
}

#[test]
fn what_flush_returned_for_survives_kill_nine() {
    if let Some(dir) = child::word() {
        return write_for_ever(Path::new(&dir));
    }
    let temp = Temp::new();
    for round in 0..30_u64 {
        let mut writer =
            child::start("crash::what_flush_returned_for_survives_kill_nine", temp.path().to_str().unwrap());
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines().map(Result::unwrap);
        // The moment is another in each round: after so many answers, and then a little.
        let answers = 1 + (round * 7) % 40;
        let mut run = String::new();
        let mut promised = 0;
        let mut seen = 0;
        let mut note = |line: &str| {
            // The harness prints before the child does, on the same line.
            if let Some((_, id)) = line.split_once("run r-") {
                run = format!("r-{id}");
            } else if let Some((_, number)) = line.rsplit_once("flushed ").or_else(|| line.rsplit_once("committed ")) {
                promised = number.parse().unwrap_or(promised); // the last line may be cut
                return 1;
            }
            0
        };
        while seen < answers {
            seen += note(&lines.next().expect("the child writes until it is killed"));
        }
        std::thread::sleep(Duration::from_micros(round * 311 % 5_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        lines.for_each(|line| {
            note(&line);
        });

        let journal = temp.journal();
        let run = journal.find(&run).unwrap();
        let events = journal.events(&run).unwrap();
        assert!(events.len() as u64 >= promised, "round {round}: {promised} promised, {} there", events.len());
        assert!(events.iter().zip(1..).all(|(event, n)| event.n == n), "round {round}: a hole in the events");
        for job in journal.jobs(&run).unwrap() {
            let last = events.iter().rev().find(|event| event.job == job.job).map_or(0, |event| event.attempt);
            assert_eq!(job.attempt, last, "round {round}: job {} differs from its events", job.job);
        }
        assert_eq!(journal.run(&run).unwrap().status, Status::Interrupted, "round {round}");
    }
}
