//! Jobs that are commands: an [`Executor`] over keepers.
//!
//! Room: driver. Knows jobs and keepers; knows nothing of what runs next.
//!
//! # Invariant
//! An attempt that was started is reported as ended exactly once, in whatever order requests arrive.
//!
//! # Why it holds
//! The listener of a keeper gets one end, and removes the attempt with it. Ends that are known within `start` (a keeper could not be started, an end that
//! was recorded earlier) are reported from there; the scheduler does not start the next job from within that report, so the stack does not grow
//! (`any_number_of_ends_within_start_does_not_grow_the_stack`). Requests that arrive before there is a process are in `attempts.rs`.

mod attempts;
mod command;
mod listener;
mod outputs;
#[cfg(test)]
mod tests;
mod vram;
mod words;

use core::fmt;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use hashbrown::HashMap;

use policy_jobs::{Cause, Gpu, GpuDriver, JobId};

pub use self::command::{Command, OnCrash};
pub use self::listener::{CommandEnd, Listen, LogPath, News};
pub use self::outputs::{Made, Stamp, Verdict, Watched};
pub use self::vram::VramWatch;
pub use self::words::{exit_code, words};
pub use mech_process::keeper::main as keeper_main;
pub use mech_process::{
    Class, End, GroupValue, Handle, How, InForce, IoPriority, KeeperProgram, Keepers, Launch, Limits as ProcessLimits,
    Listener, OverRam, Policy, Recovered, Refusal, Report, Reservation, Setting, Snapshot, Stdin, Streams, Survivor,
    UnknownClass,
};

use self::attempts::Attempts;
use crate::executor::{AttemptId, Executor, Order, Outcome, Reporter};

/// An executor for jobs whose work is a [`Command`].
pub struct Processes {
    keepers: Keepers,
    /// Part of the tokens: no other process of this program has the same.
    instance: String,
    log: LogPath,
    listen: Listen,
    attempts: Attempts,
    found: Mutex<HashMap<String, Found>>,
    refused: OnceLock<String>,
    me: Weak<Processes>,
}

/// What is known of an attempt that an earlier process of this program began.
enum Found {
    Recovered(Recovered),
    /// How it ended: the earlier process knew it.
    Ended(Outcome),
}

/// The variables of a command, and those with its graphics cards. A variable that the command sets itself wins.
fn with_cards(own: &[(OsString, OsString)], gpus: &[Gpu]) -> Vec<(OsString, OsString)> {
    let mut env = own.to_vec();
    for driver in [GpuDriver::Cuda, GpuDriver::Rocm] {
        let ids: Vec<&str> = gpus.iter().filter(|gpu| gpu.driver == driver).map(|gpu| gpu.id.as_str()).collect();
        if !ids.is_empty() && !own.iter().any(|(name, _)| name == driver.variable()) {
            env.push((driver.variable().into(), ids.join(",").into()));
        }
    }
    env
}

fn fail(report: &Reporter, message: String) {
    report.ended(Outcome::Failed(Cause::Error(message)));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Poisoning is ignored: the guarded values are consistent at every step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Processes {
    /// Runs commands with these keepers. `instance` must differ from that of any earlier process whose keepers are in the same directory.
    ///
    /// Ends stay recorded by the keepers until [`settle`](Self::settle) is called for their token.
    pub fn new(keepers: Keepers, instance: impl Into<String>, log: LogPath, listen: Listen) -> Arc<Self> {
        keepers.hold_ends();
        Arc::new_cyclic(|me| Self {
            keepers,
            instance: instance.into(),
            log,
            listen,
            attempts: Attempts::default(),
            found: Mutex::default(),
            refused: OnceLock::new(),
            me: me.clone(),
        })
    }

    /// The token of an attempt that this process starts.
    pub fn token(&self, attempt_id: AttemptId) -> String {
        format!("{}/{}/{}", attempt_id.job.index(), attempt_id.attempt, self.instance)
    }

    /// The job (its number) and the attempt of a token, whichever process made it.
    pub fn attempt_of(token: &str) -> Option<(usize, u32)> {
        let mut parts = token.splitn(3, '/');
        let (job, attempt) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().map(|_| (job, attempt))
    }

    /// What an earlier process of this program left, for [`find_again`](Executor::find_again).
    pub fn found(&self, recovered: impl IntoIterator<Item = Recovered>) {
        let mut found = lock(&self.found);
        for one in recovered {
            let token = match &one {
                Recovered::Running(survivor) => survivor.token().to_owned(),
                Recovered::Ended(end) => end.token.clone(),
            };
            found.insert(token, Found::Recovered(one));
        }
    }

    /// The outcome of an attempt that an earlier process saw end: [`find_again`](Executor::find_again) reports it for this token.
    pub fn found_ended(&self, token: impl Into<String>, outcome: Outcome) {
        lock(&self.found).insert(token.into(), Found::Ended(outcome));
    }

    /// This end is durable elsewhere: its keeper need not keep it any longer.
    pub fn settle(&self, token: &str) {
        self.keepers.settle(token);
    }

    /// From now on no command has any grace: those that are being cancelled are killed at once, and so are those that are cancelled later.
    pub fn hurry(&self) {
        self.attempts.hurry();
        self.hurry_cancelled();
    }

    /// Kills the commands that are being cancelled. Those that are cancelled later have their grace.
    pub fn hurry_cancelled(&self) {
        self.attempts.kill_cancelled();
    }

    /// From now on no command starts: each attempt fails for this reason. Running commands are not touched.
    pub fn refuse(&self, why: impl Into<String>) {
        let _ = self.refused.set(why.into()); // the first reason stays
    }

    /// The memory of each running command, in MB, at the last sample of its keeper.
    pub fn usage_mb(&self) -> Vec<(JobId, u64)> {
        self.attempts.usage_mb()
    }

    /// What the system has in force for the command of a job, read now. `None`: it does not run.
    pub fn in_force(&self, job: JobId) -> Option<InForce> {
        self.attempts.handle(job)?.in_force()
    }

    /// Kills a command that an earlier process left. Its end is not reported.
    pub fn end_survivor(&self, survivor: Survivor) {
        if let Ok(handle) = self.keepers.adopt(survivor, Box::new(|_| ())) {
            handle.cancel(Duration::ZERO);
        }
    }

    fn launch(&self, order: Order) {
        let Order { attempt_id, name, gpus, work, report, .. } = order;
        let Some(command) = work.downcast_ref::<Command>() else {
            return fail(&report, format!("the work of `{name}` is not a command; give `execute` a `Command`"));
        };
        if let Some(why) = self.refused.get() {
            return fail(&report, why.clone());
        }
        if !self.attempts.begin(attempt_id, command.grace) {
            return report.ended(Outcome::Stopped);
        }
        let log = (self.log)(attempt_id);
        let launch = Launch {
            token: self.token(attempt_id),
            argv: command.argv.clone(),
            env: with_cards(&command.env, &gpus),
            clear_env: command.clear_env,
            cwd: command.cwd.clone(),
            err_log: command.splits_streams.then(|| log.with_extension("err")),
            log,
            log_bytes_max: command.log_bytes_max,
            stdin: command.stdin,
            limits: command.limits.clone(),
            grace: command.grace,
        };
        let watched = Watched::before(command);
        match self.keepers.start(launch, self.listener(attempt_id, report.clone(), watched)) {
            Ok(handle) => self.attempts.attach(attempt_id, handle),
            Err(error) => {
                self.attempts.remove(attempt_id);
                fail(&report, error.to_string());
            }
        }
    }

    fn adopt(&self, order: Order, survivor: Survivor, watched: Watched, grace: Duration) {
        let (attempt_id, report) = (order.attempt_id, order.report.clone());
        if !self.attempts.begin(attempt_id, grace) {
            self.end_survivor(survivor);
            return report.ended(Outcome::Stopped);
        }
        let is_paused = survivor.is_paused();
        let in_force = survivor.in_force().cloned();
        let mut listener = self.listener(attempt_id, report.clone(), watched);
        let (me, mut order) = (self.me.clone(), Some(order));
        let listen = Box::new(move |news: Report| {
            // An earlier process cancelled it, and was killed before it ended: it has neither succeeded nor failed.
            if let Report::Ended(End { how: How::Cancelled, .. }) = &news
                && let Some(me) = me.upgrade().filter(|me| !me.attempts.is_cancelled(attempt_id))
                && let Some(order) = order.take()
            {
                return me.lost(order);
            }
            listener(news);
        });
        match self.keepers.adopt(survivor, listen) {
            Ok(handle) => {
                if is_paused {
                    handle.resume(); // a resumed run resumes all its commands
                }
                self.attempts.attach(attempt_id, handle);
                if let Some(in_force) = in_force {
                    self.notify(&report, News::InForce(&in_force));
                }
            }
            Err(error) => {
                self.attempts.remove(attempt_id);
                fail(&report, format!("its processes were found, but its keeper cannot be used: {error}"));
            }
        }
    }

    /// Kills what is left of an attempt, then applies its crash policy.
    fn end_first(&self, order: Order, survivor: Survivor) {
        let order = Arc::new(Mutex::new(Some(order)));
        let (me, theirs) = (self.me.clone(), Arc::clone(&order));
        let listen = Box::new(move |news| {
            if let (Report::Ended(_), Some(me)) = (news, me.upgrade())
                && let Some(order) = lock(&theirs).take()
            {
                me.lost(order);
            }
        });
        match self.keepers.adopt(survivor, listen) {
            Ok(handle) => handle.cancel(Duration::ZERO),
            // Without a keeper no end would be reported, and nothing is left to kill.
            Err(_) => {
                let order = lock(&order).take();
                order.into_iter().for_each(|order| self.lost(order));
            }
        }
    }

    /// Applies the crash policy to an attempt of which nothing is left.
    fn lost(&self, order: Order) {
        match order.work.downcast_ref::<Command>().map(|command| command.on_crash) {
            Some(OnCrash::Fail) => {
                let message = "it was running when the run was interrupted, and `on_crash` is `fail`";
                fail(&order.report, message.to_owned());
            }
            _ => self.launch(order),
        }
    }
}

impl Executor for Processes {
    fn start(&self, order: Order) {
        self.launch(order);
    }

    fn find_again(&self, order: Order, token: &str) {
        let found = lock(&self.found).remove(token);
        let Some(command) = order.work.downcast_ref::<Command>() else { return self.launch(order) }; // which reports the error
        let (on_crash, grace, watched) = (command.on_crash, command.grace, Watched::found(command));
        let found = match found {
            Some(Found::Ended(outcome)) => return order.report.ended(outcome),
            Some(Found::Recovered(found)) => Some(found),
            None => None,
        };
        match found {
            Some(Recovered::Running(survivor)) if on_crash == OnCrash::Adopt => {
                self.adopt(order, survivor, watched, grace);
            }
            Some(Recovered::Running(survivor)) => self.end_first(order, survivor),
            // The process that cancelled it was killed before it could record that: the command did not end by itself.
            Some(Recovered::Ended(End { how: How::Cancelled | How::KeeperLost, .. })) | None => self.lost(order),
            Some(Recovered::Ended(end)) => {
                self.ended(end, None, &watched, &order.report);
            }
        }
    }

    fn pause(&self, attempt_id: AttemptId) {
        self.attempts.request(attempt_id, |attempt| attempt.pause = true, |handle, _| handle.pause());
    }

    fn resume(&self, attempt_id: AttemptId) {
        self.attempts.request(attempt_id, |attempt| attempt.pause = false, |handle, _| handle.resume());
    }

    fn cancel(&self, attempt_id: AttemptId) {
        self.attempts.request(attempt_id, |attempt| attempt.cancel = true, Handle::cancel);
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes")
            .field("instance", &self.instance)
            .field("keepers", &self.keepers)
            .finish_non_exhaustive()
    }
}
