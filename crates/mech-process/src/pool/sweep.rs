//! Killing the processes that a killed keeper left behind.
//!
//! Room: mechanism. Knows marks, sessions and control groups; knows nothing of sockets.
//!
//! This is best effort: without its keeper a tree has no root.
//!
//! # What is found
//! Processes with the keeper's mark in their environment, all processes of its session and of its command's, and those in its control group. A process
//! that cleared its environment *and* left the session before the keeper was killed is not found.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cgroup::Group;
use crate::keeper::{kill_these, signal};
use crate::procfs::{self, Process};
use crate::{MARK, cpu_group};

/// How long to repeat if killed processes do not disappear.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(1);

/// Kills everything that keeper `id` has started. `sessions`: those of the keeper and of its command, if they are known.
pub(super) fn sweep(id: &str, sessions: &[i32]) {
    let group = Group::of(id);
    if let Some(group) = &group {
        let _ = group.freeze(false);
    }
    let inside = || group.as_ref().map(Group::pids).unwrap_or_default();
    let me = std::process::id().cast_signed();
    // A session id is not reused while the session has members, and these sessions have only processes of its command.
    let find = || {
        let inside = inside();
        let is_ours = |one: &Process| {
            one.pid != me
                && !one.is_dead()
                && (sessions.contains(&one.session)
                    || inside.contains(&one.pid)
                    || mark_of(one.pid).as_deref() == Some(id))
        };
        procfs::all().into_iter().filter(is_ours).collect::<Vec<_>>()
    };
    let until = Instant::now() + SWEEP_TIMEOUT;
    let mut wait = Duration::from_millis(1);
    while !find().is_empty() && Instant::now() < until {
        kill_these(find, one_by_one);
        std::thread::sleep(wait);
        wait = (wait * 2).min(Duration::from_millis(50));
    }
    // The new parent of the dead processes must reap them before their group can be removed.
    while let Some(group) = &group
        && group.remove().is_err()
        && Instant::now() < until
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    while !cpu_group::remove(id) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Signals processes, not process groups: the processes found are ours, other members of their groups need not be.
fn one_by_one(processes: &[Process], to_send: Signal) {
    for process in processes {
        signal(process, to_send);
    }
}

/// Those of these dead keepers that left processes behind. Sends no signal.
pub(super) fn with_processes<'a>(keepers: impl IntoIterator<Item = &'a str>) -> HashSet<String> {
    let mut keepers: HashSet<&str> = keepers.into_iter().collect();
    let mut found = HashSet::new();
    if keepers.is_empty() {
        return found; // the usual case: `/proc` is not read
    }
    let me = std::process::id().cast_signed();
    let alive: Vec<Process> = procfs::all().into_iter().filter(|one| one.pid != me && !one.is_dead()).collect();
    found.extend(alive.iter().filter_map(|one| mark_of(one.pid)).filter(|mark| keepers.contains(mark.as_str())));
    keepers.retain(|id| !found.contains(*id));
    let alive: HashSet<i32> = alive.iter().map(|one| one.pid).collect();
    let is_inhabited =
        |id: &&str| Group::of(id).is_some_and(|group| group.pids().iter().any(|pid| alive.contains(pid)));
    found.extend(keepers.into_iter().filter(is_inhabited).map(str::to_owned));
    found
}

/// The id of the keeper above a process, from its environment.
fn mark_of(pid: i32) -> Option<String> {
    procfs::variable(pid, MARK)
}
