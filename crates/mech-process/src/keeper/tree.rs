//! The life of one command and everything it starts.
//!
//! Room: mechanism. Knows its tree and the clock; speaks to nobody, but says what should be told.
//!
//! ```text
//!            pause 1          still 2
//!   Going ──────────▶ Freezing ─────▶ Frozen
//!     │ ◀────────────────┴── resume 3 ──┘ │
//!     │ end 4: limit, cancel, leader gone │
//!     └────────────▶ Ending ◀─────────────┘
//!                      │ grace over 5
//!                      ▼
//!                   Killing          any state ── no children left 6 ──▶ over
//! ```
//! 1 `pause`, 2 `step`, 3 `resume`, 4 `end`, 5 and 6 `step`.
//!
//! # Invariant
//! A tree is over when, and only when, the kernel says that the keeper has no children; and the first reason to end it stays the reason.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{fell, freeze::Freezer};
use crate::launch::{End, How, Launch, Limits, OverRam};
use crate::log::LimitedLog;
use crate::procfs;
use crate::raw::reap;
use crate::wire::{Alive, Reply};

/// Between two looks at memory, when there is a limit to hold; and when there is none.
const LOOK_OFTEN: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(200);
/// A command that ends sooner is told in one message: one wake of the client less.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(4);
/// What a command leaves running has this long after TERM.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);
/// After so long of killing, somebody is told.
const STUBBORN: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Going,
    Freezing { wait: Duration },
    Frozen,
    Ending { kill_at: Instant },
    Killing { since: Instant, wait: Duration, told: bool },
}

/// A command that runs.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) run: u64,
    token: String,
    /// Names the control group, if there is one.
    keeper: String,
    me: i32,
    leader: i32,
    limits: Limits,
    grace: Duration,
    phase: Phase,
    /// The leader while it lives, then any other direct child: when it ends there is something to do.
    watch: Option<OwnedFd>,
    leader_end: Option<How>,
    verdict: Option<How>,
    started: Instant,
    announce_at: Instant,
    frozen: Duration,
    frozen_since: Option<Instant>,
    freezer: Freezer,
    announced: bool,
    /// None: nothing is measured.
    look_at: Option<Instant>,
    told_mb: u64,
    warned: bool,
    peak_kb: u64,
    cpu: Duration,
    /// Those that have a limit.
    logs: Vec<LimitedLog>,
}

impl Tree {
    /// Of a command that was started between these times.
    pub(super) fn new(keeper: &str, run: u64, launch: Launch, leader: i32, [started, now]: [Instant; 2]) -> Tree {
        let Launch { token, limits, grace, log, err_log, log_bytes_max, .. } = launch;
        let logs = [Some(log), err_log].into_iter().flatten();
        let look = if limits.ram_mb.is_some() { LOOK_OFTEN } else { LOOK };
        Tree {
            run,
            token,
            keeper: keeper.to_owned(),
            me: std::process::id().cast_signed(),
            leader,
            limits,
            grace,
            phase: Phase::Going,
            watch: watch(leader),
            leader_end: None,
            verdict: None,
            started,
            announce_at: now + ANNOUNCE_AFTER,
            frozen: Duration::ZERO,
            frozen_since: None,
            freezer: Freezer::default(),
            announced: false,
            look_at: Some(now + look),
            told_mb: 0,
            warned: false,
            peak_kb: 0,
            cpu: Duration::ZERO,
            logs: log_bytes_max
                .map_or_else(Vec::new, |bytes| logs.filter_map(|path| LimitedLog::open(&path, bytes).ok()).collect()),
        }
    }

    /// Of an ephemeral pool: the start is told at once, and memory is not measured if nothing limits it.
    pub(super) fn ephemeral(mut self) -> Tree {
        self.announce_at = self.started;
        if self.limits.ram_mb.is_none() && self.logs.is_empty() {
            self.look_at = None;
        }
        self
    }

    /// Becomes readable when [`Tree::step`] has something to do.
    pub(super) fn watched(&self) -> Option<&OwnedFd> {
        self.watch.as_ref()
    }

    /// For a client that comes later. It need not be told of the start again.
    pub(super) fn alive(&mut self, now: Instant) -> Alive {
        self.announced = true;
        let paused = self.phase == Phase::Frozen;
        Alive { run: self.run, token: self.token.clone(), pid: self.leader, paused, wall: self.ran(now) }
    }

    /// Time it ran, without the time it was frozen.
    fn ran(&self, now: Instant) -> Duration {
        let frozen = self.frozen + self.frozen_since.map_or(Duration::ZERO, |since| now - since);
        (now - self.started).saturating_sub(frozen)
    }

    /// When [`Tree::step`] wants to be called even if nothing happens.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let announce = (!self.announced).then_some(self.announce_at);
        let phase = match self.phase {
            Phase::Going => {
                let wall = self.limits.wall.map(|wall| now + wall.saturating_sub(self.ran(now)));
                [self.look_at, wall].into_iter().flatten().min()
            }
            Phase::Freezing { wait } | Phase::Killing { wait, .. } => Some(now + wait),
            Phase::Frozen => None,
            Phase::Ending { kill_at } => Some(kill_at),
        };
        [announce, phase].into_iter().flatten().min()
    }

    /// Tells of the start, once, and before anything else.
    fn announce(&mut self, tell: &mut Vec<Reply>) {
        if !std::mem::replace(&mut self.announced, true) {
            tell.push(Reply::Started { pid: self.leader });
        }
    }

    /// Freezes the tree, unless its end has begun.
    pub(super) fn pause(&mut self, now: Instant, tell: &mut Vec<Reply>) {
        if self.phase == Phase::Going {
            self.announce(tell);
            self.frozen_since = Some(now);
            self.phase = Phase::Freezing { wait: Duration::ZERO };
        }
    }

    /// Lets it go on. Says so even if it never stood still.
    pub(super) fn resume(&mut self, now: Instant, tell: &mut Vec<Reply>) {
        if matches!(self.phase, Phase::Freezing { .. } | Phase::Frozen) {
            self.thaw(now);
            self.phase = Phase::Going;
            self.look_at = self.look_at.map(|_| now + LOOK_OFTEN);
            tell.push(Reply::Resumed);
        }
    }

    fn thaw(&mut self, now: Instant) {
        if let Some(since) = self.frozen_since.take() {
            self.frozen += now - since;
            self.freezer.thaw(self.me);
        }
    }

    /// The client wants it gone.
    pub(super) fn cancel(&mut self, grace: Duration, now: Instant) {
        self.end(Some(How::Cancelled), grace, now);
    }

    /// Begins the end. A second call can only make it come sooner.
    fn end(&mut self, verdict: Option<How>, grace: Duration, now: Instant) {
        if self.leader_end.is_none() && self.verdict.is_none() {
            self.verdict = verdict;
        }
        let kill_at = now + grace.min(Duration::from_secs(86_400));
        match self.phase {
            Phase::Killing { .. } => {}
            Phase::Ending { kill_at: earlier } => self.phase = Phase::Ending { kill_at: kill_at.min(earlier) },
            Phase::Going | Phase::Freezing { .. } | Phase::Frozen => {
                if !grace.is_zero() {
                    fell::ask(self.me);
                    self.thaw(now); // the frozen cannot hear
                }
                self.phase = Phase::Ending { kill_at };
            }
        }
    }

    /// Does what is due. `Some`: the tree is over.
    pub(super) fn step(&mut self, now: Instant, tell: &mut Vec<Reply>) -> Option<End> {
        let is_empty = self.reap();
        if is_empty || now >= self.announce_at {
            self.announce(tell);
        }
        if is_empty {
            return Some(self.over(now, tell));
        }
        if self.leader_end.is_some() && !matches!(self.phase, Phase::Ending { .. } | Phase::Killing { .. }) {
            // Those that are ending by themselves are not worth a word.
            let left = procfs::scan(self.me).iter().filter(|one| !one.is_dead()).count();
            if left > 0 && self.verdict.is_none() {
                let processes = if left == 1 { "1 process" } else { &format!("{left} processes") };
                tell.push(Reply::Warning(format!(
                    "its command left {processes} in the background: ended, for a job is over with its command"
                )));
            }
            self.end(None, LEFTOVER_GRACE.min(self.grace), now);
        }
        match self.phase {
            Phase::Going => self.look(now, tell),
            Phase::Freezing { wait } => {
                if self.freezer.step(self.me, &self.keeper) {
                    self.phase = Phase::Frozen;
                    tell.push(Reply::Paused);
                } else {
                    self.phase = Phase::Freezing { wait: longer(wait) };
                }
            }
            Phase::Frozen | Phase::Ending { .. } | Phase::Killing { .. } => {}
        }
        if let Phase::Ending { kill_at } = self.phase
            && now >= kill_at
        {
            self.phase = Phase::Killing { since: now, wait: Duration::ZERO, told: false };
        }
        if let Phase::Killing { since, wait, told } = self.phase {
            let refused = fell::kill(self.me);
            self.thaw(now); // the first version of groups lets no frozen process die
            let tell_now = !told && now >= since + STUBBORN;
            if tell_now {
                tell.push(Reply::Warning(stubborn(self.me, refused)));
            }
            self.phase = Phase::Killing { since, wait: longer(wait), told: told || tell_now };
        }
        if self.watch.is_none() {
            self.watch = procfs::scan(self.me).iter().find(|one| one.parent == self.me).and_then(|one| watch(one.pid));
        }
        None
    }

    /// Reaps all that have ended. `true`: there are no children left.
    fn reap(&mut self) -> bool {
        loop {
            match reap() {
                Ok(Some(gone)) => {
                    self.cpu += gone.cpu;
                    self.peak_kb = self.peak_kb.max(gone.peak_kb);
                    if gone.pid == self.leader && self.leader_end.is_none() {
                        self.leader_end = Some(gone.code.map_or(How::Signal(gone.signal), How::Exit));
                    }
                    // It may have been the one that was watched; the next step finds another.
                    if self.leader_end.is_some() {
                        self.watch = None;
                    }
                }
                Ok(None) => return false,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return true, // ECHILD: the only other error that `wait4` has for us
            }
        }
    }

    /// Measures, and holds the tree to its limits.
    fn look(&mut self, now: Instant, tell: &mut Vec<Reply>) {
        if let Some(after) = self.limits.wall
            && self.ran(now) >= after
        {
            return self.end(Some(How::TimedOut { after }), self.grace, now);
        }
        if self.look_at.is_none_or(|at| now < at) {
            return;
        }
        self.trim_logs(tell);
        let pids = procfs::walk(self.me);
        let used_kb = procfs::resident_kb(&pids);
        self.peak_kb = self.peak_kb.max(used_kb);
        let used_mb = used_kb.div_ceil(1000);
        if used_mb.abs_diff(self.told_mb) > self.told_mb / 16 {
            self.told_mb = used_mb;
            tell.push(Reply::Usage { rss_mb: used_mb });
        }
        if let Some(limit_mb) = self.limits.ram_mb.filter(|&limit| used_kb > limit.saturating_mul(1000))
            && !self.warned
        {
            let used_kb = procfs::exact_kb(&pids);
            if used_kb > limit_mb.saturating_mul(1000) {
                self.over_memory(used_kb.div_ceil(1000), limit_mb, now, tell);
            }
        }
        // Looking must not become the work: on a machine with very many processes it is done less often.
        let every = if self.limits.ram_mb.is_some() { LOOK_OFTEN } else { LOOK };
        let done = Instant::now();
        self.look_at = Some(done + every.max((done - now) * 20));
    }

    /// A log that cannot be kept within its limit is left alone, and a person is told.
    fn trim_logs(&mut self, tell: &mut Vec<Reply>) {
        self.logs.retain_mut(|log| match log.trim() {
            Ok(()) => true,
            Err(error) => {
                tell.push(Reply::Warning(format!(
                    "its log is over its limit and grows: the file system cannot give back a part of a file ({error})"
                )));
                false
            }
        });
    }

    fn over_memory(&mut self, used_mb: u64, limit_mb: u64, now: Instant, tell: &mut Vec<Reply>) {
        match self.limits.over_ram {
            OverRam::Kill => self.end(Some(How::OverMemory { used_mb, limit_mb }), Duration::ZERO, now),
            OverRam::Warn => {
                self.warned = true;
                tell.push(Reply::Warning(format!(
                    "holds {used_mb} MB, over its limit of {limit_mb} MB; it goes on, because it is only to be warned"
                )));
            }
        }
    }

    fn over(&mut self, now: Instant, tell: &mut Vec<Reply>) -> End {
        self.freezer.clean(&self.keeper);
        self.trim_logs(tell);
        let peak_mb = self.peak_kb.div_ceil(1000);
        if let Some(limit) = self.limits.ram_mb.filter(|&limit| peak_mb > limit)
            && !self.warned
            && !matches!(self.verdict, Some(How::OverMemory { .. }))
        {
            tell.push(Reply::Warning(format!("held {peak_mb} MB for a moment, over its limit of {limit} MB")));
        }
        // Whoever asked for the end gets it as the reason, whatever the leader made of the TERM.
        let how = self.verdict.take().or(self.leader_end.take()).unwrap_or(How::KeeperLost);
        let token = std::mem::take(&mut self.token);
        End { token, how, peak_rss_kb: self.peak_kb, cpu: self.cpu, wall: self.ran(now) }
    }
}

fn watch(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// 1 ms at first, then longer, at most 50 ms.
fn longer(wait: Duration) -> Duration {
    (wait * 2).clamp(Duration::from_millis(1), Duration::from_millis(50))
}

fn stubborn(me: i32, refused: Option<i32>) -> String {
    match refused {
        Some(pid) => {
            format!("process {pid} cannot be ended: it belongs to another user; end it as that user or as root")
        }
        None => {
            let left = procfs::scan(me).len();
            format!(
                "{left} processes are killed but not gone: the system holds them, perhaps for a disk that does not answer"
            )
        }
    }
}
