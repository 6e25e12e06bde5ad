//! A cluster that a test plays: it answers, runs scripts, and does what clusters do to jobs.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use sched_slurm::request::{Submission, Terms};
use sched_slurm::rows::{Fate, Row};
use sched_slurm::{CallError, Cluster, Partition, SlurmId};

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
    /// It accepts the job, and the node cannot start it: it runs another one with that id.
    FailToLaunch,
    /// It accepts the job, and says that it runs, though no node has it.
    Ghost,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) jobs: HashMap<SlurmId, Job>,
    pub(crate) last_id: u64,
    /// For the next calls of `submit`; then it accepts.
    pub(crate) moods: Vec<Mood>,
    /// Whether accepted jobs start at once.
    pub(crate) starts: bool,
    pub(crate) submits: usize,
    pub(crate) queries: usize,
    pub(crate) cancelled: Vec<SlurmId>,
    pub(crate) is_down: bool,
    /// 1 for a cluster without job arrays.
    pub(crate) array_size_max: u32,
    /// How many more jobs there is room for, if that is limited.
    pub(crate) room: Option<usize>,
    /// Whether this user may suspend jobs.
    pub(crate) may_suspend: bool,
    /// Calls that hold, release, suspend and resume.
    pub(crate) changes: Vec<(&'static str, Vec<SlurmId>)>,
    /// These start while the next call holds others.
    pub(crate) starts_while_held: Vec<SlurmId>,
}

pub(crate) struct Job {
    pub(crate) submission: Submission,
    pub(crate) script: Option<Child>,
    /// What its script exited with.
    pub(crate) code: Option<i32>,
    /// Set when it is over.
    pub(crate) fate: Option<&'static str>,
    /// Its node, if it got one.
    pub(crate) node: Option<&'static str>,
    pub(crate) is_held: bool,
    pub(crate) is_suspended: bool,
}

impl Job {
    /// One that waits.
    pub(crate) fn new(submission: &Submission) -> Self {
        let submission = submission.clone();
        Self { submission, script: None, code: None, fate: None, node: None, is_held: false, is_suspended: false }
    }
}

#[derive(Default)]
pub(crate) struct Fake {
    state: Mutex<State>,
    /// A call to submit waits for this.
    door: Mutex<()>,
}

impl Fake {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Until the result is dropped, no submission returns.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.door.lock().unwrap()
    }

    /// Starts the script of a job, as a node would.
    pub(crate) fn start(&self, id: impl Into<SlurmId>) {
        let (id, mut state) = (id.into(), self.state());
        let job = state.jobs.get_mut(&id).expect("it was accepted");
        job.script = Some(run(id, &job.submission));
    }

    /// Forgets a job, as a controller does that was killed, and gives its id away.
    pub(crate) fn forget(&self, id: u64) -> Job {
        let mut state = self.state();
        state.last_id = id - 1;
        state.jobs.remove(&id.into()).expect("it was accepted")
    }
}

pub(crate) fn run(id: SlurmId, submission: &Submission) -> Child {
    let mut script = Command::new("sh");
    script.arg(&submission.script).args(submission.batch.arguments());
    script.env("SLURM_JOB_ID", id.job.to_string()).env("SLURMD_NODENAME", "n1");
    if let Some(task) = id.task {
        script.env("SLURM_ARRAY_JOB_ID", id.job.to_string()).env("SLURM_ARRAY_TASK_ID", task.to_string());
    }
    script.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap()
}

/// Kills a script and what it started.
pub(crate) fn kill_all(script: &mut Child) {
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", script.id())]).stderr(Stdio::null()).status();
    let _ = script.wait();
}

impl Cluster for Fake {
    fn submit(&self, submission: &Submission) -> Result<u64, CallError> {
        self.state().submits += 1;
        let _door = self.door.lock().unwrap();
        let mut state = self.state();
        let mood = if state.moods.is_empty() { Mood::Accept } else { state.moods.remove(0) };
        match mood {
            _ if state.is_down => return Err(CallError::Unanswered("down".to_owned())),
            Mood::Silent => return Err(CallError::Unanswered("no answer".to_owned())),
            Mood::Refuse => return Err(CallError::Refused("Invalid account".to_owned())),
            Mood::Accept | Mood::AcceptSilently | Mood::FailToLaunch | Mood::Ghost => {}
        }
        state.last_id += 1;
        let id = state.last_id;
        let batch = &submission.batch;
        if batch.is_array() && state.array_size_max <= 1 {
            return Err(CallError::Refused("Invalid job array specification".to_owned()));
        }
        if let Some(room) = &mut state.room {
            *room = room.checked_sub(batch.count()).ok_or(CallError::Full("MaxJobCount".to_owned()))?;
        }
        for key in batch.keys() {
            let id = batch.id(key, id);
            let fate = (mood == Mood::FailToLaunch).then_some("CANCELLED");
            let node = (mood == Mood::Ghost || fate.is_some()).then_some("n1");
            let script = (state.starts && node.is_none()).then(|| run(id, submission));
            state.jobs.insert(id, Job { script, fate, node, ..Job::new(submission) });
        }
        if mood == Mood::AcceptSilently { Err(CallError::Unanswered("lost".to_owned())) } else { Ok(id) }
    }

    fn try_out(&self, _: &Terms) -> Result<Option<String>, CallError> {
        Ok(None)
    }

    fn queue(&self) -> Result<Vec<Row>, CallError> {
        let mut state = self.state();
        state.queries += 1;
        if state.is_down {
            return Err(CallError::Unanswered("down".to_owned()));
        }
        let mut rows = Vec::new();
        for (id, job) in &mut state.jobs {
            if let Some(status) = job.script.as_mut().and_then(|script| script.try_wait().unwrap()) {
                job.fate.get_or_insert("COMPLETED");
                job.code = status.code().or_else(|| Some(128 + status.signal()?));
            }
            if job.fate.is_none() {
                let state = match job.script.is_some() || job.node.is_some() {
                    true if job.is_suspended => "SUSPENDED",
                    true => "RUNNING",
                    false => "PENDING",
                };
                let reason = if job.is_held { "JobHeldUser" } else { "None" };
                let comment = &job.submission.description.comment;
                let task = id.task.map_or("N/A".to_owned(), |task| task.to_string());
                rows.push(Row::read(&format!("{}|{task}|{state}|{reason}|||name|{comment}", id.job)).unwrap());
            }
        }
        Ok(rows)
    }

    fn fate(&self, id: SlurmId) -> Result<Option<Fate>, CallError> {
        let fate = |job: &Job| Fate {
            state: job.fate.unwrap_or("PENDING").to_owned(),
            reason: "None".to_owned(),
            node: job.node.map(str::to_owned),
            comment: job.submission.description.comment.clone(),
            code: job.code,
        };
        Ok(self.state().jobs.get(&id).map(fate))
    }

    fn cancel(&self, ids: &[SlurmId], now: bool) -> Result<(), CallError> {
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

    fn hold(&self, ids: &[SlurmId], held: bool) -> Result<(), CallError> {
        let mut state = self.state();
        if state.is_down {
            return Err(CallError::Unanswered("down".to_owned()));
        }
        state.changes.push((if held { "hold" } else { "release" }, ids.to_vec()));
        for id in ids {
            let Some(job) = state.jobs.get_mut(id) else { continue };
            job.is_held = held;
        }
        let starts: Vec<SlurmId> = if held { std::mem::take(&mut state.starts_while_held) } else { Vec::new() };
        drop(state);
        starts.into_iter().for_each(|id| self.start(id));
        Ok(())
    }

    fn freeze(&self, ids: &[SlurmId], frozen: bool) -> Result<(), CallError> {
        let mut state = self.state();
        if !state.may_suspend {
            return Err(CallError::Refused("Access/permission denied".to_owned()));
        }
        state.changes.push((if frozen { "suspend" } else { "resume" }, ids.to_vec()));
        for id in ids {
            let Some(job) = state.jobs.get_mut(id) else { continue };
            job.is_suspended = frozen;
            if let Some(script) = &job.script {
                let signal = if frozen { "-STOP" } else { "-CONT" };
                let _ = Command::new("kill").args([signal, "--", &format!("-{}", script.id())]).status();
            }
        }
        Ok(())
    }

    fn array_size_max(&self) -> Result<u32, CallError> {
        Ok(self.state().array_size_max)
    }

    fn partitions(&self) -> Result<Vec<Partition>, CallError> {
        let mut partition = Partition::default();
        (partition.name, partition.gres) = ("main".to_owned(), "gpu:2,vram:16K".to_owned());
        Ok(vec![partition])
    }
}

impl Fake {
    pub(crate) fn kill_scripts(&self) {
        for job in self.state().jobs.values_mut() {
            job.script.as_mut().map(kill_all);
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.kill_scripts();
    }
}
