//! Jobs that are commands: an [`Executor`] over keepers.
//!
//! Room: scheduler, at its lower edge. Knows jobs and keepers; decides nothing about what runs.
//!
//! # Invariants
//! - An attempt that was started is reported ended exactly once, whatever order requests arrive in.
//! - A request for an attempt that is only about to start is not lost.
//!
//! # Why they hold
//! Requests and ends come from different threads, so a request may find that there is no process yet. Each attempt has
//! a *desk*, made by whoever comes first; what is asked before there is a process lies there until there is one.
//! A keeper's listener is told one end, and takes the desk away with it. Ends that are known within `start` (no keeper to be had, an end that
//! was recorded earlier) are reported from there; the scheduler does not start the next from within that report, so the stack does not grow
//! (`any_number_of_ends_within_start_does_not_grow_the_stack`).

mod command;
mod outputs;
#[cfg(test)]
mod tests;
mod vram;
mod words;

use core::fmt;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use hashbrown::HashMap;

use policy_jobs::{Cause, Gpu, GpuDriver, JobId};

pub use self::command::{Command, OnCrash};
pub use self::outputs::{Made, Stamp};
pub use self::vram::VramWatch;
pub use self::words::{exit_code, words};
pub use mech_process::keeper::main as keeper_main;
pub use mech_process::{
    End, Handle, How, KeeperProgram, Keepers, Launch, Limits as ProcessLimits, Listener, OverRam, Recovered, Report,
    Seen, Stdin, Survivor,
};

use self::outputs::{Verdict, Watched};
use crate::drive::panics::{Caught, Whose};
use crate::executor::{Executor, Order, Outcome, Reporter, Ticket};
use crate::job::number;

/// What is told about attempts, from the thread that hears of it and before the scheduler does. Must be quick. A panic is counted by [`Jobs::panics`](crate::Jobs::panics) and
/// keeps nothing from ending.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum News<'a> {
    /// It has a process.
    Began {
        /// The first of its tree.
        pid: i32,
    },
    /// Something a person should read.
    Warning(&'a str),
    /// It has ended, and whoever observes the scheduler has been told: see [`CommandEnd`].
    Ended,
}

/// How a command ended, and what it used. Whoever [observes](crate::Builder::observe) the scheduler gets it with the end of the job, by [`Facts::measured`](crate::Facts::measured).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommandEnd {
    /// How, and what it used.
    pub end: End,
    /// What that means for the attempt: a command may exit with 0 and not have made what it should.
    pub outcome: Outcome,
    /// The files it declared, after a success.
    pub made: Vec<Made>,
    /// The most that it was seen to use of graphics cards, in MB, if anything.
    pub peak_vram_mb: Option<u64>,
}

/// Is told [`News`].
pub type Listen = Box<dyn Fn(Ticket, News<'_>) + Send + Sync>;

/// Where the logs of attempts go.
pub type LogPath = Box<dyn Fn(Ticket) -> PathBuf + Send + Sync>;

/// Carries out jobs whose work is a [`Command`].
pub struct Processes {
    keepers: Keepers,
    /// Distinguishes the tokens of this life of the program from those of another.
    life: String,
    log: LogPath,
    listen: Listen,
    desks: Mutex<HashMap<u32, Desk>>,
    found: Mutex<HashMap<String, Found>>,
    hurried: AtomicBool,
    refused: OnceLock<String>,
    me: Weak<Processes>,
}

/// One attempt.
struct Desk {
    attempt: u32,
    handle: Option<Handle>,
    grace: Duration,
    pause: bool,
    cancel: bool,
    peak_vram_mb: u64,
}

/// What is known of an attempt that an earlier life began.
enum Found {
    Kept(Recovered),
    /// How it ended, which was heard of in time.
    Told(Outcome),
}

/// The variables of a command, and those that tell it its graphics cards. What it says itself goes before.
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
    // What is guarded is whole at every step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Processes {
    /// Carries out commands with these keepers. `life` must differ from that of any earlier process whose keepers are in the same home.
    ///
    /// Ends stay recorded by the keepers until [`settle`](Self::settle) is called for their token.
    pub fn new(keepers: Keepers, life: impl Into<String>, log: LogPath, listen: Listen) -> Arc<Self> {
        keepers.hold_ends();
        Arc::new_cyclic(|me| Self {
            keepers,
            life: life.into(),
            log,
            listen,
            desks: Mutex::default(),
            found: Mutex::default(),
            hurried: AtomicBool::new(false),
            refused: OnceLock::new(),
            me: me.clone(),
        })
    }

    /// The token of an attempt that this life starts.
    pub fn token(&self, ticket: Ticket) -> String {
        format!("{}/{}/{}", ticket.job.index(), ticket.attempt, self.life)
    }

    /// Which attempt at which job (by its number) a token stands for, whatever life made it.
    pub fn attempt_of(token: &str) -> Option<(usize, u32)> {
        let mut parts = token.splitn(3, '/');
        let (job, attempt) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().map(|_| (job, attempt))
    }

    /// What an earlier life left, for [`find_again`](Executor::find_again) to find.
    pub fn found(&self, recovered: impl IntoIterator<Item = Recovered>) {
        let mut found = lock(&self.found);
        for one in recovered {
            let token = match &one {
                Recovered::Running(survivor) => survivor.token().to_owned(),
                Recovered::Ended(end) => end.token.clone(),
            };
            found.insert(token, Found::Kept(one));
        }
    }

    /// An attempt that an earlier life saw end so: if it is found again under this token, that is what is told.
    pub fn found_ended(&self, token: impl Into<String>, outcome: Outcome) {
        lock(&self.found).insert(token.into(), Found::Told(outcome));
    }

    /// This end is safe elsewhere: its keeper need not keep it any longer.
    pub fn settle(&self, token: &str) {
        self.keepers.settle(token);
    }

    /// From now on nobody has any grace: what is being cancelled is killed at once, and what will be too.
    pub fn hurry(&self) {
        self.hurried.store(true, Ordering::SeqCst);
        self.hurry_cancelled();
    }

    /// What is being cancelled now is killed at once; what will be has its grace.
    pub fn hurry_cancelled(&self) {
        let handles: Vec<Handle> =
            lock(&self.desks).values().filter(|desk| desk.cancel).filter_map(|desk| desk.handle.clone()).collect();
        handles.iter().for_each(|handle| handle.cancel(Duration::ZERO));
    }

    /// From now on no command starts: an attempt that would fails for this reason. What runs goes on.
    pub fn refuse(&self, why: impl Into<String>) {
        let _ = self.refused.set(why.into()); // the first reason stays
    }

    /// What each command that runs holds now, in MB, as far as its keeper has looked.
    pub fn usage_mb(&self) -> Vec<(JobId, u64)> {
        let desks = lock(&self.desks);
        let used =
            desks.iter().filter_map(|(job, desk)| Some((JobId::from_index(*job), desk.handle.as_ref()?.usage_mb())));
        used.collect()
    }

    /// Takes a command that another life left, and ends it at once. Nobody is told.
    pub fn end_survivor(&self, survivor: Survivor) {
        if let Ok(handle) = self.keepers.adopt(survivor, Box::new(|_| ())) {
            handle.cancel(Duration::ZERO);
        }
    }

    /// The desk of an attempt, and whether it was cancelled before it began. Anything about an earlier attempt goes.
    fn sit_down(&self, ticket: Ticket, grace: Duration) -> bool {
        let mut desks = lock(&self.desks);
        let desk = desks.entry(number(ticket.job)).or_insert_with(|| Desk::new(ticket.attempt));
        if desk.attempt != ticket.attempt {
            *desk = Desk::new(ticket.attempt);
        }
        desk.grace = grace;
        let goes = !desk.cancel;
        if !goes {
            desks.remove(&number(ticket.job));
        }
        goes
    }

    /// There is a process: what was asked meanwhile is asked of it now.
    fn seat(&self, ticket: Ticket, handle: Handle) {
        let mut desks = lock(&self.desks);
        let Some(desk) = desks.get_mut(&number(ticket.job)).filter(|desk| desk.attempt == ticket.attempt) else {
            return;
        };
        if desk.cancel {
            handle.cancel(self.grace(desk.grace));
        } else if desk.pause {
            handle.pause();
        }
        desk.handle = Some(handle);
    }

    fn stand_up(&self, ticket: Ticket) {
        let mut desks = lock(&self.desks);
        if desks.get(&number(ticket.job)).is_some_and(|desk| desk.attempt == ticket.attempt) {
            desks.remove(&number(ticket.job));
        }
    }

    fn is_cancelled(&self, ticket: Ticket) -> bool {
        lock(&self.desks).get(&number(ticket.job)).is_some_and(|desk| desk.attempt == ticket.attempt && desk.cancel)
    }

    fn grace(&self, grace: Duration) -> Duration {
        if self.hurried.load(Ordering::SeqCst) { Duration::ZERO } else { grace }
    }

    /// Asks something of an attempt, or leaves it at its desk.
    fn ask(&self, ticket: Ticket, change: impl FnOnce(&mut Desk), request: impl FnOnce(&Handle, Duration)) {
        let mut desks = lock(&self.desks);
        let desk = desks.entry(number(ticket.job)).or_insert_with(|| Desk::new(ticket.attempt));
        if desk.attempt > ticket.attempt {
            return; // that one is over
        }
        if desk.attempt < ticket.attempt {
            *desk = Desk::new(ticket.attempt);
        }
        change(desk);
        let grace = self.grace(desk.grace);
        if let Some(handle) = &desk.handle {
            request(handle, grace);
        }
    }

    /// Hears what becomes of an attempt.
    fn listener(&self, ticket: Ticket, report: Reporter, watched: Watched) -> mech_process::Listener {
        let me = self.me.clone();
        Box::new(move |news| {
            let Some(me) = me.upgrade() else { return };
            match news {
                Report::Started { pid } => me.tell(&report, News::Began { pid }),
                Report::Warning(text) => me.tell(&report, News::Warning(&text)),
                Report::Paused => report.paused(),
                Report::Resumed | Report::Usage { .. } => {}
                Report::Ended(end) => {
                    let peak_vram_mb = Some(me.peak_vram_mb(ticket)).filter(|peak_mb| *peak_mb > 0);
                    me.stand_up(ticket);
                    me.ended(end, peak_vram_mb, &watched, &report);
                }
            }
        })
    }

    /// Tells of an end.
    fn ended(&self, end: End, peak_vram_mb: Option<u64>, watched: &Watched, report: &Reporter) {
        let Verdict { outcome, made, warnings } = watched.end(&end.how);
        warnings.iter().for_each(|text| self.tell(report, News::Warning(text)));
        report.ended_with(outcome.clone(), CommandEnd { end, outcome, made, peak_vram_mb });
        self.tell(report, News::Ended);
    }

    /// Tells those who listen. If they panic, the scheduler is told all the same.
    fn tell(&self, report: &Reporter, news: News<'_>) {
        let mut tell = || (self.listen)(report.ticket, news);
        match report.hears.upgrade() {
            Some(hears) => hears.guard(&mut tell),
            // The last ends of a run that is over.
            None => drop(Caught::default().catch(Whose::Executor, tell)),
        }
    }

    fn launch(&self, order: Order) {
        let Order { ticket, name, gpus, work, report, .. } = order;
        let Some(command) = work.downcast_ref::<Command>() else {
            return fail(&report, format!("the work of `{name}` is no command; give `execute` a `Command`"));
        };
        if let Some(why) = self.refused.get() {
            return fail(&report, why.clone());
        }
        if !self.sit_down(ticket, command.grace) {
            return report.ended(Outcome::Stopped);
        }
        let log = (self.log)(ticket);
        let launch = Launch {
            token: self.token(ticket),
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
        match self.keepers.start(launch, self.listener(ticket, report.clone(), watched)) {
            Ok(handle) => self.seat(ticket, handle),
            Err(error) => {
                self.stand_up(ticket);
                fail(&report, error.to_string());
            }
        }
    }

    fn adopt(&self, order: Order, survivor: Survivor, watched: Watched, grace: Duration) {
        let (ticket, report) = (order.ticket, order.report.clone());
        if !self.sit_down(ticket, grace) {
            self.end_survivor(survivor);
            return report.ended(Outcome::Stopped);
        }
        let is_paused = survivor.is_paused();
        let mut hear = self.listener(ticket, report.clone(), watched);
        let (me, mut order) = (self.me.clone(), Some(order));
        let listen = Box::new(move |news: Report| {
            // An earlier life had asked it to end, and was killed before it did: it is neither done nor failed.
            if let Report::Ended(End { how: How::Cancelled, .. }) = &news
                && let Some(me) = me.upgrade().filter(|me| !me.is_cancelled(ticket))
                && let Some(order) = order.take()
            {
                return me.lost(order);
            }
            hear(news);
        });
        match self.keepers.adopt(survivor, listen) {
            Ok(handle) => {
                if is_paused {
                    handle.resume(); // to go on with a run is to go on with all of it
                }
                self.seat(ticket, handle);
            }
            Err(error) => {
                self.stand_up(ticket);
                fail(&report, format!("its processes were found, but not their keeper: {error}"));
            }
        }
    }

    /// Ends what is left of an attempt, then goes on by its policy.
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
            // Without a keeper nobody would tell its end; nor is anything left to end.
            Err(_) => {
                let order = lock(&order).take();
                order.into_iter().for_each(|order| self.lost(order));
            }
        }
    }

    /// An attempt of which nothing is left.
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

impl Desk {
    fn new(attempt: u32) -> Self {
        Self { attempt, handle: None, grace: Duration::ZERO, pause: false, cancel: false, peak_vram_mb: 0 }
    }
}

impl Executor for Processes {
    fn start(&self, order: Order) {
        self.launch(order);
    }

    fn find_again(&self, order: Order, token: &str) {
        let found = lock(&self.found).remove(token);
        let Some(command) = order.work.downcast_ref::<Command>() else { return self.launch(order) }; // which says so
        let (on_crash, grace, watched) = (command.on_crash, command.grace, Watched::found(command));
        let found = match found {
            Some(Found::Told(outcome)) => return order.report.ended(outcome),
            Some(Found::Kept(found)) => Some(found),
            None => None,
        };
        match found {
            Some(Recovered::Running(survivor)) if on_crash == OnCrash::Adopt => {
                self.adopt(order, survivor, watched, grace);
            }
            Some(Recovered::Running(survivor)) => self.end_first(order, survivor),
            // Whoever cancelled it was killed before the job could be told: it did not end by itself.
            Some(Recovered::Ended(End { how: How::Cancelled | How::KeeperLost, .. })) | None => self.lost(order),
            Some(Recovered::Ended(end)) => {
                self.ended(end, None, &watched, &order.report);
            }
        }
    }

    fn pause(&self, ticket: Ticket) {
        self.ask(ticket, |desk| desk.pause = true, |handle, _| handle.pause());
    }

    fn resume(&self, ticket: Ticket) {
        self.ask(ticket, |desk| desk.pause = false, |handle, _| handle.resume());
    }

    fn cancel(&self, ticket: Ticket) {
        self.ask(ticket, |desk| desk.cancel = true, Handle::cancel);
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes").field("life", &self.life).field("keepers", &self.keepers).finish_non_exhaustive()
    }
}
