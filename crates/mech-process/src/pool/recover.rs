//! Finding the commands and ends that an earlier client left.
//!
//! Room: mechanism. Knows the keepers' records and sockets; knows nothing of what the commands are for.
//!
//! # Invariant
//! For each token that was started, one of: it runs and is a [`Survivor`], or its end is recorded, or it is reported as lost with its keeper.
//! A token is missing only if the machine stopped before its start was on the disk.
//!
//! # Why it holds
//! A keeper is alive while its record is locked. A live keeper that does not answer is an error, not a loss.
//! A keeper whose `Hello` names a command reports the end of that command over the same connection, so that end is left out if it is in the file by
//! now; all earlier ends are in the file before the `Hello`. If the keeper exited instead, no connection is possible: then the file can be locked, and is read.

use std::collections::HashSet;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use super::sweep;
use crate::in_force::InForce;
use crate::keeper::{short_path, signal};
use crate::launch::{End, How};
use crate::procfs::{self, Process};
use crate::record::{Found, find};
use crate::wire::{Alive, Link, Reply};

/// After this time a keeper that neither answers nor exits is an error. Its command may run, so nothing is started in its place.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// After this time without an answer the keeper may be stopped; it is checked, and continued.
const STOPPED_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// What an earlier client left.
#[derive(Debug)]
pub enum Recovered {
    /// A command that still runs; [adopt](crate::Keepers::adopt) it. If this is dropped, the command runs on.
    Running(Survivor),
    /// A command that ended; the earlier client may or may not know that.
    Ended(End),
}

/// A command that outlived its client, and the connection to its keeper.
#[derive(Debug)]
pub struct Survivor {
    pub(super) id: String,
    pub(super) link: Link,
    pub(super) alive: Alive,
    /// Earlier ends in the same record.
    pub(super) held: Vec<String>,
}

impl Survivor {
    /// The token of its launch.
    pub fn token(&self) -> &str {
        &self.alive.token
    }

    /// The first process of its tree.
    pub fn pid(&self) -> i32 {
        self.alive.pid
    }

    /// The value of a variable that it was started with, if that can be read.
    pub fn variable(&self, name: &str) -> Option<String> {
        procfs::variable(self.alive.pid, name)
    }

    /// What the system had in force for it when its keeper last looked, if it asked for any of this.
    pub fn in_force(&self) -> Option<&InForce> {
        self.alive.in_force.as_deref()
    }

    /// Is it frozen?
    pub fn is_paused(&self) -> bool {
        self.alive.paused
    }

    /// How long it has run, without the time it was frozen.
    pub fn wall(&self) -> Duration {
        self.alive.wall
    }
}

/// Recovers from `home` the keepers whose current command is wanted. Other keepers are not touched.
pub(super) fn recover(home: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<Recovered>> {
    let mut recovered = Vec::new();
    // Without a client a keeper starts nothing: what it runs can only end.
    let is_left = |found: &Found| found.running().is_some_and(|token| !is_wanted(&token));
    for found in find(home)?.into_iter().filter(|found| !is_left(found)) {
        let until = Instant::now() + ANSWER_TIMEOUT;
        let mut check_at = Instant::now() + STOPPED_CHECK_INTERVAL;
        loop {
            if found.is_orphaned() {
                sweep::sweep(&found.id, &[]);
                let mut ends = found.ends()?;
                ends.extend(found.running().map(lost));
                if ends.is_empty() {
                    let _ = found.forget(&HashSet::new()); // the record is empty; another client may have removed it already
                }
                recovered.extend(ends.into_iter().map(Recovered::Ended));
                break;
            }
            match connect(home, &found, until) {
                Answer::Runs(link, alive) => {
                    // Read after its answer, because it may have recorded an end just before. The end of its current command comes over the connection.
                    let mut ends = found.ends()?;
                    ends.retain(|end| end.token != alive.token);
                    let held = ends.iter().map(|end| end.token.clone()).collect();
                    let survivor = Survivor { id: found.id.clone(), link: *link, alive, held };
                    recovered.extend(ends.into_iter().map(Recovered::Ended));
                    recovered.push(Recovered::Running(survivor));
                    break;
                }
                Answer::Unrecorded(why) => return Err(unrecorded(&found, &why)),
                Answer::HasClient(client) if procfs::one(client).is_some_and(|client| !client.is_dead()) => break,
                _ if Instant::now() >= until => return Err(no_answer(&found)),
                // It is about to exit, or to start, or to learn that its client is gone.
                Answer::HasClient(_) | Answer::None => std::thread::sleep(Duration::from_millis(1)),
            }
            // A keeper that was stopped before it listened accepts no connection.
            if Instant::now() >= check_at {
                wake_stopped(&found.id);
                check_at = Instant::now() + STOPPED_CHECK_INTERVAL;
            }
        }
    }
    Ok(recovered)
}

/// The end of a command whose keeper was killed before it recorded one.
fn lost(token: String) -> End {
    let (cpu, wall) = Default::default();
    End { token, how: How::KeeperLost, peak_rss_kb: 0, cpu, wall, in_force: None }
}

/// The keeper `id`, which has this id as its last argument, and a command between fork and exec, which still has the same arguments.
fn processes_of(id: &str) -> impl Iterator<Item = Process> {
    let is_it = move |process: &Process| {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        line.strip_suffix(b"\0").is_some_and(|line| line.rsplit(|&byte| byte == 0).next() == Some(id.as_bytes()))
    };
    procfs::all().into_iter().filter(move |process| !process.is_dead() && is_it(process))
}

/// Continues the keeper and the command that it is just starting, for which it waits.
fn wake_stopped(id: &str) {
    for stopped in processes_of(id).filter(Process::is_still) {
        signal(&stopped, Signal::CONT);
    }
}

fn no_answer(found: &Found) -> io::Error {
    let process =
        processes_of(&found.id).next().map_or_else(String::new, |keeper| format!(" (process {})", keeper.pid));
    let text = format!(
        "keeper {}{process} is alive and does not answer; its command may still run, so nothing is started in its place. \
         Try again, or kill that process",
        found.id
    );
    io::Error::new(io::ErrorKind::TimedOut, text)
}

fn unrecorded(found: &Found, why: &str) -> io::Error {
    let text = format!(
        "keeper {} knows how a command ended and cannot write that to {}: {why}; free some disk space, or fix the cause, \
         and try again. If the keeper is killed first, the command runs again",
        found.id,
        found.path.display()
    );
    io::Error::other(text)
}

pub(super) fn forget(home: &Path, known: &HashSet<&str>) -> io::Result<()> {
    for found in find(home)? {
        let knows = |token: &str| known.contains(token);
        let has_known = || Ok::<_, io::Error>(found.ends()?.iter().any(|end| knows(&end.token)));
        if found.is_orphaned() && (has_known()? || found.running().is_some_and(|token| knows(&token))) {
            found.forget(known)?;
        }
    }
    Ok(())
}

enum Answer {
    Runs(Box<Link>, Alive),
    HasClient(i32),
    Unrecorded(String),
    None,
}

fn connect(home: &Path, found: &Found, until: Instant) -> Answer {
    try_connect(home, found, until).unwrap_or(Answer::None)
}

fn try_connect(home: &Path, found: &Found, until: Instant) -> io::Result<Answer> {
    let dir = rustix::fs::open(home, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut link = Link::new(UnixStream::connect(short_path(&dir, &found.id))?);
    loop {
        let left = until.saturating_duration_since(Instant::now()).min(STOPPED_CHECK_INTERVAL);
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let ready = poll(&mut [PollFd::from_borrowed_fd(link.fd(), PollFlags::IN)], Some(&left));
        if matches!(ready, Ok(0)) && Instant::now() < until {
            wake_stopped(&found.id); // on the same connection: for the keeper, an abandoned one would be its client
            continue;
        }
        if matches!(ready, Ok(0)) || !link.incoming.fill(&link.stream)? {
            return Ok(Answer::None);
        }
        match link.incoming.next()? {
            Some(Reply::Hello(Some(alive))) => return Ok(Answer::Runs(Box::new(link), alive)),
            Some(Reply::Unrecorded { why }) => return Ok(Answer::Unrecorded(why)),
            Some(Reply::Busy { client }) => return Ok(Answer::HasClient(client)),
            Some(_) => return Ok(Answer::None),
            None => {}
        }
    }
}
