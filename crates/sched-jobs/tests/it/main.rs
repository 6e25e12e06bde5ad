//! Jobs as users see them, on both drivers.

mod basics;
mod control;
mod ends;
mod events;
mod executor;
mod gpus;
mod graph;
mod keys;
mod light;
mod neighbours;
mod outlived;
mod panics;
mod parts;
mod returns;
mod room;
mod seeded;
mod stress;
mod submit;
mod tasks_inside;
mod times;
mod work;

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use sched_jobs::{Builder, Ctx, Job, JobError, Jobs, Scheduler, State};

/// Nothing here takes this long unless it hangs, also on a machine with three times as much to do as it can.
const LONG: Duration = Duration::from_secs(60);

/// Runs something, and fails instead of hanging.
#[track_caller]
fn in_time(what: String, body: impl FnOnce() + Send + 'static) {
    test_support::in_time(LONG, &what, body);
}

/// Runs a test on both drivers, set up by `set`.
fn on_both_with(set: impl Fn(Builder) -> Builder, test: impl Fn(Jobs) + Send + Sync + 'static) {
    let test = Arc::new(test);
    for scheduler in [Scheduler::Threadpool, Scheduler::Simple] {
        let jobs = set(Jobs::builder().workers(2)).scheduler(scheduler).build();
        let test = test.clone();
        in_time(format!("driver {scheduler}"), move || test(jobs));
    }
}

/// Runs a test on both drivers.
fn on_both(test: impl Fn(Jobs) + Send + Sync + 'static) {
    on_both_with(|builder| builder.cpu_slots(2), test);
}

/// A door that is closed until the test opens it.
#[derive(Clone, Default)]
struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        let _open = self.0.1.wait_while(open, |open| !*open).unwrap();
    }

    fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }
}

/// A job that reports its start, then waits at a door. It has no checkpoint before the door opens.
fn stands_at(door: &Door, name: &str) -> (Job, Receiver<()>) {
    let (sent, runs) = mpsc::channel();
    let door = door.clone();
    let job = Job::new(name).run(move |ctx: &Ctx<'_>| {
        let _ = sent.send(());
        door.pass();
        ctx.checkpoint()
    });
    (job, runs)
}

/// A job that reports its start, then calls `checkpoint` until the door opens.
fn works_until(door: &Door, name: &str) -> (Job, Receiver<()>) {
    let (sent, runs) = mpsc::channel();
    let door = door.clone();
    let job = Job::new(name).run(move |ctx: &Ctx<'_>| {
        let _ = sent.send(());
        while !door.is_open() {
            ctx.checkpoint()?;
            std::thread::yield_now();
        }
        Ok::<_, JobError>(())
    });
    (job, runs)
}

/// A job that writes its name into a log.
fn logs(log: &Sender<String>, name: &str) -> Job {
    let (log, line) = (log.clone(), name.to_owned());
    Job::new(name).run(move |_| log.send(line.clone()).map_err(|_| JobError::msg("the log is closed")))
}

fn state(jobs: &Jobs, name: &str) -> State {
    jobs.status(name).unwrap().state
}

/// Waits until a job is in that state: for changes that another thread makes and no event announces.
fn until(jobs: &Jobs, name: &str, wanted: State) {
    let mut events = jobs.events();
    while state(jobs, name) != wanted {
        assert!(events.recv_timeout(LONG).is_some(), "{name} is {} and never gets {wanted}", state(jobs, name));
    }
}
