//! The states of one command and everything it starts.
//!
//! Room: mechanism. Knows its process tree and the clock; knows nothing of sockets: it returns the replies to send.
//!
//! ```text
//!            pause 1          frozen 2
//!   Running ────────▶ Freezing ─────▶ Frozen
//!     │ ◀────────────────┴── resume 3 ──┘ │
//!     │ end 4: limit, cancel, leader gone │
//!     └────────────▶ Ending ◀─────────────┘
//!                      │ grace over 5
//!                      ▼
//!                   Killing          any state ── no children left 6 ──▶ finished
//! ```
//! 1 `pause`, 2 `step`, 3 `resume`, 4 `end`, 5 and 6 `step`.
//!
//! # Invariant
//! A tree is finished when, and only when, the kernel says that the keeper has no children; and the first reason to end it stays the reason.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::applied::Applied;
use super::spawn::Spawned;
use super::{freeze::Freezer, kill};
use crate::launch::{End, How, Launch};
use crate::limits::{Limits, OverRam};
use crate::log::LimitedLog;
use crate::procfs;
use crate::raw::reap;
use crate::wire::{Alive, Reply};

/// Between two samples of memory: with a memory limit, and without.
const CHECK_INTERVAL_LIMITED: Duration = Duration::from_millis(50);
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The start of a command that ends sooner is sent together with its end: one wakeup of the client less.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(4);
/// Processes that a command leaves behind have this long after TERM.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);
/// After this time of killing in vain, a warning is sent.
const KILL_WARNING_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Running,
    Freezing { wait: Duration },
    Frozen,
    Ending { kill_at: Instant },
    Killing { since: Instant, wait: Duration, warned: bool },
}

/// A running command.
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
    /// A pidfd: of the leader while it lives, then of any other direct child. When that process ends, `step` has work.
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
    check_at: Option<Instant>,
    reported_mb: u64,
    warned: bool,
    peak_kb: u64,
    cpu: Duration,
    /// Logs with a limit.
    logs: Vec<LimitedLog>,
    applied: Applied,
}

impl Tree {
    /// The tree of a command that was started between these times.
    pub(super) fn new(keeper: &str, run: u64, launch: Launch, spawned: Spawned, [started, now]: [Instant; 2]) -> Tree {
        let leader = spawned.pid;
        let applied = Applied::new(spawned, &launch.limits, now);
        let Launch { token, limits, grace, log, err_log, log_bytes_max, .. } = launch;
        let logs = [Some(log), err_log].into_iter().flatten();
        let look = if limits.ram_mb.is_some() { CHECK_INTERVAL_LIMITED } else { CHECK_INTERVAL };
        Tree {
            run,
            token,
            keeper: keeper.to_owned(),
            me: std::process::id().cast_signed(),
            leader,
            limits,
            grace,
            phase: Phase::Running,
            watch: watch(leader),
            leader_end: None,
            verdict: None,
            started,
            announce_at: now + ANNOUNCE_AFTER,
            frozen: Duration::ZERO,
            frozen_since: None,
            freezer: Freezer::default(),
            announced: false,
            check_at: Some(now + look),
            reported_mb: 0,
            warned: false,
            peak_kb: 0,
            cpu: Duration::ZERO,
            logs: log_bytes_max
                .map_or_else(Vec::new, |bytes| logs.filter_map(|path| LimitedLog::open(&path, bytes).ok()).collect()),
            applied,
        }
    }

    /// Of an ephemeral pool: the start is told at once, and memory is not measured if nothing limits it.
    pub(super) fn ephemeral(mut self) -> Tree {
        self.announce_at = self.started;
        if self.limits.ram_mb.is_none() && self.logs.is_empty() {
            self.check_at = None;
        }
        self
    }

    /// Becomes readable when [`Tree::step`] has something to do.
    pub(super) fn watched(&self) -> Option<&OwnedFd> {
        self.watch.as_ref()
    }

    /// The state for a client that connects later. The start is not reported to it again.
    pub(super) fn alive(&mut self, now: Instant) -> Alive {
        self.announced = true;
        let paused = self.phase == Phase::Frozen;
        let (token, in_force) = (self.token.clone(), self.applied.in_force());
        Alive { run: self.run, token, pid: self.leader, paused, wall: self.ran(now), in_force }
    }

    /// Time it ran, without the time it was frozen.
    fn ran(&self, now: Instant) -> Duration {
        let frozen = self.frozen + self.frozen_since.map_or(Duration::ZERO, |since| now - since);
        (now - self.started).saturating_sub(frozen)
    }

    /// When [`Tree::step`] must be called even if nothing happens.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let announce = (!self.announced).then_some(self.announce_at);
        let phase = match self.phase {
            Phase::Running => {
                let wall = self.limits.wall.map(|wall| now + wall.saturating_sub(self.ran(now)));
                [self.check_at, wall].into_iter().flatten().min()
            }
            Phase::Freezing { wait } | Phase::Killing { wait, .. } => Some(now + wait),
            Phase::Frozen => None,
            Phase::Ending { kill_at } => Some(kill_at),
        };
        [announce, phase, self.applied.wakes_at()].into_iter().flatten().min()
    }

    /// Reports the start, once, and before anything else.
    fn announce(&mut self, replies: &mut Vec<Reply>) {
        if !std::mem::replace(&mut self.announced, true) {
            replies.push(Reply::Started { pid: self.leader });
            replies.extend(self.applied.in_force().map(Reply::InForce));
        }
    }

    /// Freezes the tree, unless its end has begun.
    pub(super) fn pause(&mut self, now: Instant, replies: &mut Vec<Reply>) {
        if self.phase == Phase::Running {
            self.announce(replies);
            self.frozen_since = Some(now);
            self.phase = Phase::Freezing { wait: Duration::ZERO };
        }
    }

    /// Thaws the tree. `Resumed` is reported even if the tree was not frozen completely.
    pub(super) fn resume(&mut self, now: Instant, replies: &mut Vec<Reply>) {
        if matches!(self.phase, Phase::Freezing { .. } | Phase::Frozen) {
            self.thaw(now);
            self.phase = Phase::Running;
            self.check_at = self.check_at.map(|_| now + CHECK_INTERVAL_LIMITED);
            replies.push(Reply::Resumed);
        }
    }

    fn thaw(&mut self, now: Instant) {
        if let Some(since) = self.frozen_since.take() {
            self.frozen += now - since;
            self.freezer.thaw(self.me);
        }
    }

    /// The client cancels the command.
    pub(super) fn cancel(&mut self, grace: Duration, now: Instant) {
        self.end(Some(How::Cancelled), grace, now);
    }

    /// Begins to end the tree. A second call can only shorten the grace.
    fn end(&mut self, verdict: Option<How>, grace: Duration, now: Instant) {
        if self.leader_end.is_none() && self.verdict.is_none() {
            self.verdict = verdict;
        }
        let kill_at = now + grace.min(Duration::from_secs(86_400));
        match self.phase {
            Phase::Killing { .. } => {}
            Phase::Ending { kill_at: earlier } => self.phase = Phase::Ending { kill_at: kill_at.min(earlier) },
            Phase::Running | Phase::Freezing { .. } | Phase::Frozen => {
                if !grace.is_zero() {
                    kill::terminate(self.me);
                    self.thaw(now); // a frozen process does not handle TERM
                }
                self.phase = Phase::Ending { kill_at };
            }
        }
    }

    /// Does what is due. `Some`: the tree is finished.
    pub(super) fn step(&mut self, now: Instant, replies: &mut Vec<Reply>) -> Option<End> {
        let is_empty = self.reap();
        if is_empty || now >= self.announce_at {
            self.announce(replies);
        }
        if is_empty {
            return Some(self.finish(now, replies));
        }
        if self.applied.retry(now, self.leader_end.is_none()) && self.announced {
            replies.extend(self.applied.in_force().map(Reply::InForce));
        }
        if self.leader_end.is_some() && !matches!(self.phase, Phase::Ending { .. } | Phase::Killing { .. }) {
            // Processes that are ending by themselves cause no warning.
            let left = procfs::scan(self.me).iter().filter(|one| !one.is_dead()).count();
            if left > 0 && self.verdict.is_none() {
                let processes = if left == 1 { "1 process" } else { &format!("{left} processes") };
                replies.push(Reply::Warning(format!(
                    "its command left {processes} in the background: ended, because a job ends with its command"
                )));
            }
            self.end(None, LEFTOVER_GRACE.min(self.grace), now);
        }
        match self.phase {
            Phase::Running => self.check_limits(now, replies),
            Phase::Freezing { wait } => {
                if self.freezer.step(self.me, &self.keeper) {
                    self.phase = Phase::Frozen;
                    replies.push(Reply::Paused);
                } else {
                    self.phase = Phase::Freezing { wait: backoff(wait) };
                }
            }
            Phase::Frozen | Phase::Ending { .. } | Phase::Killing { .. } => {}
        }
        if let Phase::Ending { kill_at } = self.phase
            && now >= kill_at
        {
            self.phase = Phase::Killing { since: now, wait: Duration::ZERO, warned: false };
        }
        if let Phase::Killing { since, wait, warned } = self.phase {
            let refused = kill::kill(self.me);
            self.thaw(now); // with cgroup v1 a frozen process does not die
            let warn_now = !warned && now >= since + KILL_WARNING_AFTER;
            if warn_now {
                replies.push(Reply::Warning(still_alive_warning(self.me, refused)));
            }
            self.phase = Phase::Killing { since, wait: backoff(wait), warned: warned || warn_now };
        }
        if self.watch.is_none() {
            self.watch = procfs::scan(self.me).iter().find(|one| one.parent == self.me).and_then(|one| watch(one.pid));
        }
        None
    }

    /// Reaps all ended children. `true`: there are no children left.
    fn reap(&mut self) -> bool {
        loop {
            match reap() {
                Ok(Some(gone)) => {
                    self.cpu += gone.cpu;
                    self.peak_kb = self.peak_kb.max(gone.peak_kb);
                    if gone.pid == self.leader && self.leader_end.is_none() {
                        self.leader_end = Some(gone.code.map_or(How::Signal(gone.signal), How::Exit));
                    }
                    // It may have been the watched process; the next step finds another.
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

    /// Samples the tree and enforces its limits.
    fn check_limits(&mut self, now: Instant, replies: &mut Vec<Reply>) {
        if let Some(after) = self.limits.wall
            && self.ran(now) >= after
        {
            return self.end(Some(How::TimedOut { after }), self.grace, now);
        }
        if self.check_at.is_none_or(|at| now < at) {
            return;
        }
        self.trim_logs(replies);
        let pids = procfs::walk(self.me);
        let used_kb = procfs::resident_kb(&pids);
        self.peak_kb = self.peak_kb.max(used_kb);
        let used_mb = used_kb.div_ceil(1000);
        if used_mb.abs_diff(self.reported_mb) > self.reported_mb / 16 {
            self.reported_mb = used_mb;
            replies.push(Reply::Usage { rss_mb: used_mb });
        }
        if let Some(limit_mb) = self.limits.ram_mb.filter(|&limit| used_kb > limit.saturating_mul(1000))
            && !self.warned
        {
            let used_kb = procfs::exact_kb(&pids);
            if used_kb > limit_mb.saturating_mul(1000) {
                self.over_memory(used_kb.div_ceil(1000), limit_mb, now, replies);
            }
        }
        // Sampling takes at most a twentieth of the time: on a machine with very many processes it is done less often.
        let every = if self.limits.ram_mb.is_some() { CHECK_INTERVAL_LIMITED } else { CHECK_INTERVAL };
        let done = Instant::now();
        self.check_at = Some(done + every.max((done - now) * 20));
    }

    /// Trims the logs. A log that cannot be kept within its limit is left alone, with a warning.
    fn trim_logs(&mut self, replies: &mut Vec<Reply>) {
        self.logs.retain_mut(|log| match log.trim() {
            Ok(()) => true,
            Err(error) => {
                replies.push(Reply::Warning(format!(
                    "its log is over its limit and grows: the file system cannot give back a part of a file ({error})"
                )));
                false
            }
        });
    }

    fn over_memory(&mut self, used_mb: u64, limit_mb: u64, now: Instant, replies: &mut Vec<Reply>) {
        match self.limits.over_ram {
            OverRam::Kill => self.end(Some(How::OverMemory { used_mb, limit_mb }), Duration::ZERO, now),
            OverRam::Warn => {
                self.warned = true;
                replies.push(Reply::Warning(format!(
                    "uses {used_mb} MB, over its limit of {limit_mb} MB; it keeps running, because the limit only warns"
                )));
            }
        }
    }

    fn finish(&mut self, now: Instant, replies: &mut Vec<Reply>) -> End {
        self.freezer.clean(&self.keeper);
        self.trim_logs(replies);
        let peak_mb = self.peak_kb.div_ceil(1000);
        if let Some(limit) = self.limits.ram_mb.filter(|&limit| peak_mb > limit)
            && !self.warned
            && !matches!(self.verdict, Some(How::OverMemory { .. }))
        {
            replies.push(Reply::Warning(format!("used {peak_mb} MB for a moment, over its limit of {limit} MB")));
        }
        // A cancel or a limit stays the reason, whatever exit status the leader had after TERM.
        let how = self.verdict.take().or(self.leader_end.take()).unwrap_or(How::KeeperLost);
        let token = std::mem::take(&mut self.token);
        let in_force = self.applied.end(&self.keeper);
        End { token, how, peak_rss_kb: self.peak_kb, cpu: self.cpu, wall: self.ran(now), in_force }
    }
}

fn watch(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// 1 ms at first, then longer, at most 50 ms.
fn backoff(wait: Duration) -> Duration {
    (wait * 2).clamp(Duration::from_millis(1), Duration::from_millis(50))
}

fn still_alive_warning(me: i32, refused: Option<i32>) -> String {
    match refused {
        Some(pid) => {
            format!("process {pid} cannot be killed: it belongs to another user; kill it as that user or as root")
        }
        None => {
            let left = procfs::scan(me).len();
            format!(
                "{left} processes were killed but do not exit: they wait inside the kernel, perhaps for a disk that does not answer"
            )
        }
    }
}
