//! Runs that are paused and resumed, also by a later process.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::sleep;
use std::time::Duration;

use sched_jobs::{AttemptId, Jobs, State, Target};
use sched_slurm::request::{Submission, Terms};
use sched_slurm::rows::{Fate, Row};
use sched_slurm::{CallError, Cluster, Partition, Remains, SlurmId, Stand, left};

use crate::fake::{Fake, Job, kill_all};
use crate::play::{EFFECT, Play, slurm};

/// The cluster for one process, until that is killed.
struct Wire {
    fake: Arc<Fake>,
    is_cut: AtomicBool,
}

impl Wire {
    fn end(&self) -> Result<&Fake, CallError> {
        let is_cut = self.is_cut.load(SeqCst);
        if is_cut { Err(CallError::Unanswered("this process was killed".to_owned())) } else { Ok(&self.fake) }
    }
}

impl Cluster for Wire {
    fn submit(&self, submission: &Submission) -> Result<u64, CallError> {
        self.end()?.submit(submission)
    }
    fn try_out(&self, terms: &Terms) -> Result<Option<String>, CallError> {
        self.end()?.try_out(terms)
    }
    fn queue(&self) -> Result<Vec<Row>, CallError> {
        self.end()?.queue()
    }
    fn fate(&self, id: SlurmId) -> Result<Option<Fate>, CallError> {
        self.end()?.fate(id)
    }
    fn cancel(&self, ids: &[SlurmId], now: bool) -> Result<(), CallError> {
        self.end()?.cancel(ids, now)
    }
    fn hold(&self, ids: &[SlurmId], held: bool) -> Result<(), CallError> {
        Cluster::hold(self.end()?, ids, held)
    }
    fn freeze(&self, ids: &[SlurmId], frozen: bool) -> Result<(), CallError> {
        self.end()?.freeze(ids, frozen)
    }
    fn array_size_max(&self) -> Result<u32, CallError> {
        self.end()?.array_size_max()
    }
    fn partitions(&self) -> Result<Vec<Partition>, CallError> {
        self.end()?.partitions()
    }
}

fn id(job: u64) -> SlurmId {
    job.into()
}

/// Jobs of one cluster without arrays; the first of them run, and leave their effect when `go` is there.
fn begun(count: usize, running: u64) -> (Play, Arc<Wire>) {
    let mut play = Play::new(false);
    let wire = Arc::new(Wire { fake: Arc::clone(&play.fake), is_cut: AtomicBool::new(false) });
    play.slurm = slurm(&wire, play.folder.path());
    play.fake.state().may_suspend = true;
    for n in 0..count {
        let line = format!("echo began >> began; while [ ! -e go ]; do sleep 0.02; done; {EFFECT}");
        play.jobs.submit(play.job(&format!("{n}"), &line)).unwrap();
    }
    play.until(|fake| fake.state().jobs.len() == count);
    (1..=running).for_each(|job| play.fake.start(job));
    play.until(|_| began(&play) == running as usize);
    play.until(|_| {
        (0..running).all(|n| play.slurm.status(attempt(&play, n)).is_some_and(|words| words.contains("n1")))
    });
    (play, wire)
}

fn began(play: &Play) -> usize {
    fs::read_to_string(play.folder.path().join("began")).unwrap_or_default().lines().count()
}

fn attempt(play: &Play, n: u64) -> AttemptId {
    AttemptId { job: play.jobs.status(format!("{n}")).unwrap().id, attempt: 1 }
}

/// Whether the first of the jobs are suspended, and the others held.
fn are_frozen(play: &Play, running: u64) -> bool {
    let state = play.fake.state();
    state.jobs.iter().all(|(id, job)| if id.job <= running { job.is_suspended } else { job.is_held })
}

/// Whether nothing is frozen. What began while it was held runs on.
fn is_thawed(fake: &Fake) -> bool {
    fake.state().jobs.values().all(|job| !job.is_suspended && (job.script.is_some() || !job.is_held))
}

/// Starts jobs that wait and are not held, as a cluster does.
fn start_waiting(fake: &Fake) {
    let waits = |job: &Job| job.script.is_none() && !job.is_held && job.fate.is_none();
    let ids: Vec<SlurmId> = fake.state().jobs.iter().filter(|(_, job)| waits(job)).map(|(id, _)| *id).collect();
    ids.into_iter().for_each(|id| fake.start(id));
}

/// As after `kill -9`: the first process says nothing more.
fn killed_and_resumed(play: Play, wire: &Wire) -> Play {
    wire.is_cut.store(true, SeqCst);
    let Play { folder, fake, slurm: first, jobs } = play;
    let found = left(&folder.path().join("marks")).unwrap();
    std::mem::forget((first, jobs));
    let play = Play { slurm: slurm(&fake, folder.path()), folder, fake, jobs: Jobs::builder().build() };
    for (n, left) in found.iter().enumerate() {
        play.jobs.submit(play.job(&format!("{n}"), EFFECT).found(left.key.token())).unwrap();
    }
    play
}

#[test]
fn what_waits_is_held_by_one_call_before_what_runs_is_frozen_and_then_all_is_paused() {
    let (play, _) = begun(20, 3);
    play.jobs.pause(Target::Run).unwrap();
    let changes: Vec<(&str, usize)> = play.fake.state().changes.iter().map(|(verb, ids)| (*verb, ids.len())).collect();
    assert_eq!(changes, [("hold", 17), ("suspend", 3)]);
    assert!(are_frozen(&play, 3));
    start_waiting(&play.fake);
    fs::write(play.folder.path().join("go"), "").unwrap();
    sleep(Duration::from_millis(300));
    assert_eq!((began(&play), play.effects()), (3, 0));
    let words = || play.slurm.status(attempt(&play, 0)).unwrap();
    play.until(|_| words() == "Slurm job 1 is suspended on n1");
    play.jobs.resume(Target::Run).unwrap();
    play.until(is_thawed);
    start_waiting(&play.fake);
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (20, 20));
}

#[test]
fn what_began_while_others_were_held_is_frozen_before_it_counts_as_paused() {
    let (play, _) = begun(4, 0);
    play.fake.state().starts_while_held = vec![id(2)];
    play.jobs.pause(Target::Run).unwrap();
    let is_suspended = play.fake.state().jobs[&id(2)].is_suspended;
    assert!(is_suspended);
    play.jobs.resume(Target::Run).unwrap();
    fs::write(play.folder.path().join("go"), "").unwrap();
    play.until(is_thawed);
    start_waiting(&play.fake);
    play.ends();
    assert_eq!(play.effects(), 4);
}

#[test]
fn what_was_not_submitted_when_it_was_paused_is_submitted_when_it_is_resumed() {
    let play = Play::new(true);
    play.fake.state().is_down = true;
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    play.until(|fake| fake.state().submits > 0);
    play.jobs.pause(Target::Run).unwrap();
    play.fake.state().is_down = false;
    sleep(Duration::from_millis(2500));
    assert!(play.fake.state().jobs.is_empty());
    assert_eq!(play.jobs.status("a").unwrap().state, State::Paused);
    play.jobs.resume(Target::Run).unwrap();
    play.ends();
    assert_eq!(play.effects(), 1);
}

#[test]
fn what_slurm_has_not_paused_is_not_called_paused_until_it_has() {
    let (play, _) = begun(3, 2);
    play.fake.state().is_down = true;
    play.jobs.pause(Target::Run).unwrap();
    let (unpaused, why) = play.slurm.unpaused();
    assert_eq!((unpaused.len(), why.as_deref()), (3, Some("Slurm does not answer: down")));
    assert_eq!(play.slurm.stand(attempt(&play, 0)), Some(Stand::Unpaused));
    let words = play.slurm.status(attempt(&play, 0)).unwrap();
    assert!(words.contains("is running on n1; it is to be paused, and Slurm has not done that yet"), "{words}");
    play.fake.state().is_down = false;
    play.until(|_| play.slurm.unpaused().0.is_empty());
    assert!(are_frozen(&play, 2));
    assert_eq!(play.slurm.stand(attempt(&play, 0)), Some(Stand::Runs));
    assert_eq!(play.slurm.stand(attempt(&play, 2)), Some(Stand::Waits));
    play.jobs.resume(Target::Run).unwrap();
    fs::write(play.folder.path().join("go"), "").unwrap();
    play.until(is_thawed);
    start_waiting(&play.fake);
    play.ends();
}

#[test]
fn a_later_process_thaws_what_was_paused_by_one_that_was_killed() {
    let (play, wire) = begun(4, 2);
    play.jobs.pause(Target::Run).unwrap();
    fs::write(play.folder.path().join("go"), "").unwrap();
    let play = killed_and_resumed(play, &wire);
    play.until(is_thawed);
    let is_mark =
        |entry: std::io::Result<fs::DirEntry>| entry.unwrap().path().extension().is_some_and(|it| it == "frozen");
    play.until(|_| !fs::read_dir(play.marks()).unwrap().any(is_mark));
    start_waiting(&play.fake);
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (4, 4));
}

#[test]
fn a_later_process_that_is_paused_at_once_keeps_frozen_what_was_and_thaws_it_when_it_is_resumed() {
    let (play, wire) = begun(4, 2);
    play.jobs.pause(Target::Run).unwrap();
    let play = killed_and_resumed(play, &wire);
    play.jobs.pause(Target::Run).unwrap();
    assert!(are_frozen(&play, 2));
    fs::write(play.folder.path().join("go"), "").unwrap();
    play.jobs.resume(Target::Run).unwrap();
    play.until(is_thawed);
    start_waiting(&play.fake);
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (4, 4));
}

#[test]
fn what_an_earlier_process_left_has_ended_once_it_was_cancelled_without_a_mark_of_its_end() {
    let (play, _) = begun(2, 1);
    {
        let mut state = play.fake.state();
        let job = state.jobs.get_mut(&id(1)).unwrap();
        kill_all(&mut job.script.take().unwrap()); // with its command: neither writes anything more
        job.node = Some("n1");
    }
    let Play { folder, fake, slurm, jobs } = play;
    std::mem::forget((slurm, jobs));
    let marks = folder.path().join("marks");
    let cancelled = sched_slurm::cancel_left(&*fake, &marks, &left(&marks).unwrap()).unwrap();
    assert_eq!(cancelled.len(), 2);
    let found: Vec<(Remains, bool)> =
        left(&marks).unwrap().iter().map(|left| (left.what, left.was_cancelled)).collect();
    assert_eq!(found, [(Remains::Ended, true), (Remains::Revoked, true)]);
}
