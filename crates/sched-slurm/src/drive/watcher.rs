//! The thread that reads marks.
//!
//! Room: driver. Knows files and reports; knows nothing of Slurm.
//!
//! The kernel says when a script on this machine writes a mark. Of scripts on other machines it says nothing, so the folder is read at intervals, too.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use sched_jobs::process::CommandEnd;
use sched_jobs::{AttemptId, Cause, Outcome, Reporter};

use super::table::Attempt;
use super::{News, Shared};
use crate::ends;
use crate::key::Key;
use crate::marks::{self, EndKind};
use crate::state::{Event, State};

/// How often the folder is read: soon after something happened, and rarely when nothing does.
const LOOK_MIN: Duration = Duration::from_millis(100);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// How long an output that the node has may take to be seen here.
const OUTPUT_DELAY: Duration = Duration::from_secs(15);

/// Notices of the kernel about the marks folder.
pub(super) struct FolderChanges(OwnedFd);

impl FolderChanges {
    pub(super) fn of(folder: &Path) -> std::io::Result<Self> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&watch, folder, WatchFlags::MOVED_TO)?;
        Ok(Self(watch))
    }

    /// Waits for a change, but at most that long.
    fn wait(&self, most: Duration) {
        let most = Timespec { tv_sec: 0, tv_nsec: most.as_nanos().min(999_999_999) as i64 };
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&most)); // after a signal the folder is read early
        let mut buffer = [0_u8; 4096];
        while rustix::io::read(&self.0, &mut buffer).is_ok_and(|count| count > 0) {}
    }
}

impl Shared {
    /// Reads marks until the executor is dropped.
    pub(super) fn watch_until_closed(&self, changes: &FolderChanges) {
        let mut pause = LOOK_MIN;
        while !self.table().is_closing {
            pause = if self.look() { LOOK_MIN } else { (pause * 2).min(LOOK_MAX) };
            self.pause_overdue();
            // A pause that is asked for now is overdue after half of its time.
            changes.wait(pause.min(self.pause_timeout / 4));
        }
    }

    /// Calls paused what Slurm has not paused in time: else the scheduler would cancel it.
    fn pause_overdue(&self) {
        let now = Instant::now();
        let overdue: Vec<(AttemptId, Reporter)> = {
            let mut table = self.table();
            let is_overdue = |attempt: &&mut Attempt| attempt.pause_due.is_some_and(|at| at <= now);
            let overdue = table.attempts.values_mut().filter(is_overdue);
            let report = |attempt: &mut Attempt| {
                attempt.pause_due = None;
                (attempt.attempt_id, attempt.report.clone())
            };
            overdue.map(report).collect()
        };
        for (attempt_id, report) in overdue {
            (self.listen)(attempt_id, News::Warning("Slurm has not paused it yet: its command may still run"));
            report.paused();
        }
    }

    /// Reads the folder once. Returns whether anything was new.
    fn look(&self) -> bool {
        let (mut started, mut ended) = (Vec::new(), Vec::new());
        let mut marked: Vec<(Key, bool)> = Vec::new();
        self.folder.marked(|key, is_end| marked.push((key, is_end)));
        {
            let table = self.table();
            for (key, is_end) in marked {
                let Some(attempt) = table.by_key.get(&key).and_then(|id| table.attempts.get(id)) else { continue };
                if is_end {
                    ended.push((attempt.attempt_id, key));
                } else if attempt.node.is_none() {
                    started.push((attempt.attempt_id, key));
                }
            }
        }
        let found = !(started.is_empty() && ended.is_empty());
        for (attempt_id, key) in started {
            self.started(attempt_id, key);
        }
        for (attempt_id, key) in ended {
            self.ended(attempt_id, key);
        }
        found
    }

    fn started(&self, attempt_id: AttemptId, key: Key) {
        let Some(start) = self.folder.start(key) else { return };
        {
            let mut table = self.table();
            let Some(attempt) = table.attempts.get_mut(&attempt_id) else { return };
            attempt.apply(Event::Started);
            (attempt.id, attempt.node) = (Some(start.id), Some(start.node.clone()));
            if attempt.change().is_some() {
                self.work.notify_one(); // it began while it was being held, or an earlier process left it frozen
            }
        }
        (self.listen)(attempt_id, News::Placed { node: &start.node, id: start.id });
    }

    fn ended(&self, attempt_id: AttemptId, key: Key) {
        let Some(end) = self.folder.end(key, false) else { return };
        let attempt = {
            let mut table = self.table();
            let Some(attempt) = table.attempts.get_mut(&attempt_id) else { return };
            if attempt.state != State::Ended {
                attempt.apply(Event::Finished);
            }
            // The node has all outputs, and a network file system may show them a little later.
            let is_late = end.code == 0 && end.missing.is_none() && attempt.job.command.made().is_err();
            if is_late && attempt.marked_since.get_or_insert_with(Instant::now).elapsed() < OUTPUT_DELAY {
                return;
            }
            table.remove(attempt_id)
        };
        if let Some(attempt) = attempt {
            self.report(attempt, end);
        }
    }

    fn report(&self, attempt: Attempt, end: marks::End) {
        let Attempt { attempt_id, key, job, report, watched, kill_at, node, .. } = attempt;
        let measured = ends::measured(key, &end, job.command.limits.wall, kill_at.is_some());
        let mut verdict = watched.end(&measured.how);
        if end.kind == EndKind::Asked && kill_at.is_none() && end.code != 0 {
            let node = node.map_or_else(String::new, |node| format!(" on {node}"));
            let why = format!(
                "exited with {}{node} after Slurm asked it to end: its job was cancelled there, or its node taken out of service",
                end.code
            );
            verdict.outcome = Outcome::Failed(Cause::Error(why));
        }
        if !end.is_whole && end.kind != EndKind::NoSpace {
            let why = "its node could not write how long it ran to the folder of the run: is its disk full?";
            (self.listen)(attempt_id, News::Warning(why));
        }
        for text in &verdict.warnings {
            (self.listen)(attempt_id, News::Warning(text));
        }
        let outcome = verdict.outcome;
        report.ended_with(outcome.clone(), CommandEnd::new(measured, outcome, verdict.made));
        (self.listen)(attempt_id, News::Ended);
    }
}
