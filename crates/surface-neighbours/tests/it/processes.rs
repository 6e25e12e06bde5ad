//! Runs in processes of their own, which can be killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sched_jobs::{Job, State};

use crate::{Folder, TIMEOUT, run};

const FOLDER: &str = "BURSAR_TEST_FOLDER";
const ROLE: &str = "BURSAR_TEST_ROLE";

/// A run in another process, killed at the latest when this is dropped.
struct Process(Child);

impl Process {
    /// Starts one, and waits until it says that it has begun.
    fn start(folder: &Path, role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a test"))
            .args(["--exact", "processes::played_by_another_process", "--nocapture"])
            .env(FOLDER, folder)
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        while !lines.next().expect("it says that it has begun").expect("text").contains("BEGUN") {}
        // Its output is no longer read; it is little.
        std::mem::forget(lines);
        Self(child)
    }

    fn kill(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it was killed");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn begun() {
    println!("BEGUN");
    std::io::stdout().flush().expect("it is read");
}

/// Not a test: what other processes do when a test starts them.
#[test]
fn played_by_another_process() {
    let (Some(folder), Ok(role)) = (std::env::var_os(FOLDER), std::env::var(ROLE)) else { return };
    let folder = Path::new(&folder);
    match role.split_once(' ').unwrap_or((&role, "")) {
        ("hold", _) => {
            let (jobs, _listener) = run(folder, 2);
            let job = Job::new("holder").cpu_slots(2).run(|_| {
                begun();
                std::thread::sleep(TIMEOUT * 10); // it is killed
            });
            jobs.submit(job).unwrap();
            jobs.wait().unwrap();
        }
        ("stream", _) => stream(folder),
        ("crowd", number) => crowd(folder, number.parse().unwrap()),
        (role, _) => panic!("unknown role {role}"),
    }
}

/// Small jobs without end, two at a time and never ending together.
fn stream(folder: &Path) {
    let (jobs, _listener) = run(folder, 2);
    for number in 0_u64.. {
        let small = Job::new(number.to_string()).run(move |_| {
            if number == 4 {
                begun();
            }
            std::thread::sleep(Duration::from_millis(3 + number * 7 % 11));
        });
        jobs.submit(small).unwrap();
        while jobs.counts().iter().any(|(state, count)| *state == State::Ready && *count > 20) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The time that all processes share, in nanoseconds.
fn clock() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

const CROWD_SLOTS: u32 = 3;

/// Many short jobs, each of which writes down when it held how much.
fn crowd(folder: &Path, number: u64) {
    let log = File::options().create(true).append(true).open(folder.join(format!("log-{number}"))).unwrap();
    let log = Arc::new(Mutex::new(log));
    let (jobs, _listener) = run(folder, CROWD_SLOTS);
    begun();
    for job in 0..150 {
        let (log, slots) = (log.clone(), (job * 7 + number) % 3 + 1);
        let note = move |what: &str| {
            let line = format!("{} {what} {job} {slots}\n", clock());
            log.lock().unwrap().write_all(line.as_bytes()).unwrap();
        };
        let work = move |_: &sched_jobs::Ctx<'_>| {
            note("+");
            std::thread::sleep(Duration::from_micros(200 + job % 5 * 300));
            note("-");
        };
        jobs.submit(Job::new(job.to_string()).cpu_slots(slots as u32).run(work)).unwrap();
    }
    jobs.wait().unwrap();
}

/// What was held when, by a process that died at `end`: `(time, change)`. A job that has no end ended then.
fn changes(folder: &Path, number: u64, end: u64) -> Vec<(u64, i64)> {
    let text = std::fs::read_to_string(folder.join(format!("log-{number}"))).unwrap();
    let mut open = std::collections::HashMap::new();
    let mut changes = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [time, what, job, slots] = fields[..] else { continue }; // the last one may be cut
        let (time, slots) = (time.parse::<u64>().unwrap(), slots.parse::<i64>().unwrap());
        // Killed, but not dead yet, it may have begun something still: that is not ours to judge.
        if time >= end {
            continue;
        }
        if what == "+" {
            open.insert(job.to_owned(), slots);
            changes.push((time, slots));
        } else {
            open.remove(job);
            changes.push((time, -slots));
        }
    }
    changes.extend(open.into_values().map(|slots| (end, -slots)));
    changes
}

#[test]
fn the_limit_holds_whatever_processes_do() {
    let folder = Folder::new();
    let mut all: Vec<Process> = (0..3).map(|i| Process::start(folder.path(), &format!("crowd {i}"))).collect();
    // One is killed in the middle: when it has written something.
    while std::fs::metadata(folder.path().join("log-0")).unwrap().len() < 1000 {
        std::thread::yield_now();
    }
    let killed_at = clock();
    all[0].kill();
    for process in &mut all[1..] {
        assert!(process.0.wait().unwrap().success());
    }
    let ends = [killed_at, u64::MAX, u64::MAX];
    let mut changes: Vec<_> = (0..3).flat_map(|i| changes(folder.path(), i, ends[i as usize])).collect();
    let jobs = changes.iter().filter(|(_, change)| *change > 0).count();
    assert!(jobs > 300, "only {jobs} jobs ran");
    changes.sort_unstable(); // of the same moment, ends first
    let mut held = 0;
    let mut most = 0;
    for (time, change) in changes {
        held += change;
        most = most.max(held);
        assert!(held <= i64::from(CROWD_SLOTS), "{held} slots held at {time}, of {CROWD_SLOTS}");
    }
    assert_eq!((held, most), (0, i64::from(CROWD_SLOTS)), "all ended, and the limit was reached");
}

#[test]
fn a_killed_run_gives_back_at_once() {
    let folder = Folder::new();
    let mut other = Process::start(folder.path(), "hold");
    let (jobs, _listener) = run(folder.path(), 2);
    jobs.submit(Job::new("waits").run(|_| ())).unwrap();
    assert_eq!(jobs.status("waits").unwrap().state, State::Ready);
    other.kill();
    jobs.wait_timeout(TIMEOUT).expect("it starts when the other is gone").expect("it succeeds");
    // Its socket file went with its record.
    let sockets = std::fs::read_dir(folder.path()).unwrap().count() - 1;
    assert_eq!(sockets, 1, "ours alone");
}

#[test]
fn a_large_job_is_not_starved_by_another_runs_small_ones() {
    let folder = Folder::new();
    let mut other = Process::start(folder.path(), "stream");
    let (jobs, _listener) = run(folder.path(), 2);
    jobs.submit(Job::new("large").cpu_slots(2).run(|_| ())).unwrap();
    jobs.wait_timeout(TIMEOUT).expect("its turn comes").expect("it succeeds");
    assert!(other.0.try_wait().unwrap().is_none(), "the other streams on");
}
