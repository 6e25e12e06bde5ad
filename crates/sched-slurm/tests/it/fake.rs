//! A cluster that a test plays: it answers, runs scripts, and does what clusters do to jobs.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use sched_slurm::request::Submission;
use sched_slurm::rows::{Fate, Row};
use sched_slurm::{CallError, Cluster, Partition};

/// What the next call of `submit` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It accepts the job.
    Accept,
    /// It accepts the job, and the answer is lost.
    AcceptSilently,
    /// It never gets the call.
    Silent,
    /// It says no.
    Refuse,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) jobs: HashMap<u64, Job>,
    pub(crate) last_id: u64,
    /// For the next calls of `submit`; then it accepts.
    pub(crate) moods: Vec<Mood>,
    /// Whether accepted jobs start at once.
    pub(crate) starts: bool,
    pub(crate) submits: usize,
    pub(crate) queries: usize,
    pub(crate) cancelled: Vec<u64>,
    pub(crate) is_down: bool,
}

pub(crate) struct Job {
    pub(crate) submission: Submission,
    pub(crate) script: Option<Child>,
    /// Set when it is over.
    pub(crate) fate: Option<&'static str>,
}

#[derive(Default)]
pub(crate) struct Fake(Mutex<State>);

fn option<'a>(submission: &'a Submission, name: &str) -> &'a str {
    submission.options.iter().find_map(|option| option.strip_prefix(name)).unwrap_or_default()
}

impl Fake {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Starts the script of a job, as a node would.
    pub(crate) fn start(&self, id: u64) {
        let mut state = self.state();
        let job = state.jobs.get_mut(&id).expect("it was accepted");
        job.script = Some(run(id, &job.submission));
    }

    /// Forgets a job, as a controller does that was killed, and gives its id away.
    pub(crate) fn forget(&self, id: u64) -> Job {
        let mut state = self.state();
        state.last_id = id - 1;
        state.jobs.remove(&id).expect("it was accepted")
    }
}

pub(crate) fn run(id: u64, submission: &Submission) -> Child {
    let mut script = Command::new("sh");
    script.arg(&submission.script).env("SLURM_JOB_ID", id.to_string()).env("SLURMD_NODENAME", "n1");
    script.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

impl Cluster for Fake {
    fn submit(&self, submission: &Submission) -> Result<u64, CallError> {
        let mut state = self.state();
        state.submits += 1;
        let mood = if state.moods.is_empty() { Mood::Accept } else { state.moods.remove(0) };
        match mood {
            _ if state.is_down => return Err(CallError::Unanswered("down".to_owned())),
            Mood::Silent => return Err(CallError::Unanswered("no answer".to_owned())),
            Mood::Refuse => return Err(CallError::Refused("Invalid account".to_owned())),
            Mood::Accept | Mood::AcceptSilently => {}
        }
        state.last_id += 1;
        let id = state.last_id;
        let script = state.starts.then(|| run(id, submission));
        state.jobs.insert(id, Job { submission: submission.clone(), script, fate: None });
        if mood == Mood::AcceptSilently { Err(CallError::Unanswered("lost".to_owned())) } else { Ok(id) }
    }

    fn try_out(&self, _: &[String]) -> Result<(), CallError> {
        Ok(())
    }

    fn queue(&self) -> Result<Vec<Row>, CallError> {
        let mut state = self.state();
        state.queries += 1;
        if state.is_down {
            return Err(CallError::Unanswered("down".to_owned()));
        }
        let mut rows = Vec::new();
        for (id, job) in &mut state.jobs {
            if job.script.as_mut().is_some_and(|script| script.try_wait().unwrap().is_some()) {
                job.fate.get_or_insert("COMPLETED");
            }
            if job.fate.is_none() {
                let state = if job.script.is_some() { "RUNNING" } else { "PENDING" };
                let comment = option(&job.submission, "--comment=");
                rows.push(Row::read(&format!("{id}|{state}|None|||name|{comment}")).unwrap());
            }
        }
        Ok(rows)
    }

    fn fate(&self, id: u64) -> Result<Option<Fate>, CallError> {
        let fate = |job: &Job| Fate {
            state: job.fate.unwrap_or("PENDING").to_owned(),
            reason: "None".to_owned(),
            comment: option(&job.submission, "--comment=").to_owned(),
        };
        Ok(self.state().jobs.get(&id).map(fate))
    }

    fn cancel(&self, ids: &[u64], now: bool) -> Result<(), CallError> {
        let mut state = self.state();
        for id in ids {
            state.cancelled.push(*id);
            let Some(job) = state.jobs.get_mut(id) else { continue };
            job.fate = Some("CANCELLED");
            if let Some(script) = &job.script {
                let signal = if now { "-KILL" } else { "-TERM" };
                let _ = Command::new("kill").args([signal, &script.id().to_string()]).stderr(Stdio::null()).status();
            }
        }
        Ok(())
    }

    fn freeze(&self, _: u64, _: bool, _: bool) -> Result<(), CallError> {
        Err(CallError::Refused("Access/permission denied".to_owned()))
    }

    fn partitions(&self) -> Result<Vec<Partition>, CallError> {
        let mut partition = Partition::default();
        (partition.name, partition.gres) = ("main".to_owned(), "gpu:2,vram:16K".to_owned());
        Ok(vec![partition])
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        for job in self.state().jobs.values_mut() {
            if let Some(script) = &mut job.script {
                let _ = script.kill();
                let _ = script.wait();
            }
        }
    }
}
