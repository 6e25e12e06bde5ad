//! Finding what an earlier client has left.
//!
//! Room: mechanism. Reads the keepers' files and speaks to those that live.
//!
//! # Invariant
//! For each token that was started, one of: it runs and is a [`Survivor`], or its end is recorded, or it is told as lost with its keeper. A token is missing
//! only if the machine stopped before its start was on the disk.
//!
//! # Why it holds
//! A keeper lives while its record is locked; one that lives and cannot be spoken to is an error, not a loss.
//! A keeper that greets us with a command tells its end over the same link, so that end is left out if it is in the file by now; all earlier ones
//! are in the file before it greets. If it left instead, there is nobody to speak to: the file can be locked then, and is read.

use std::collections::HashSet;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use super::sweep;
use crate::keeper::{short_path, signal};
use crate::launch::{End, How};
use crate::procfs::{self, Process};
use crate::record::{Found, find};
use crate::wire::{Alive, Link, Reply};

/// A keeper that neither speaks nor goes is told of after this. Its command may run, so nothing is started in its place.
const PATIENCE: Duration = Duration::from_secs(5);

/// A keeper that has not answered for so long may have been stopped.
const LOOK: Duration = Duration::from_millis(100);

/// What an earlier client left.
#[derive(Debug)]
pub enum Recovered {
    /// A command that still runs; [adopt](crate::Keepers::adopt) it. If this is dropped, it runs on.
    Running(Survivor),
    /// A command that ended; the client may or may not have heard of it.
    Ended(End),
}

/// A command that outlived its client, and the line to its keeper.
#[derive(Debug)]
pub struct Survivor {
    pub(super) id: String,
    pub(super) link: Link,
    pub(super) alive: Alive,
    /// Earlier ends in the same record.
    pub(super) held: Vec<String>,
}

impl Survivor {
    /// Of its launch.
    pub fn token(&self) -> &str {
        &self.alive.token
    }

    /// The first process of its tree.
    pub fn pid(&self) -> i32 {
        self.alive.pid
    }

    /// The value of a variable that it was started with, if that can be told.
    pub fn variable(&self, name: &str) -> Option<String> {
        procfs::variable(self.alive.pid, name)
    }

    /// Does it stand still?
    pub fn is_paused(&self) -> bool {
        self.alive.paused
    }

    /// How long it has run, without the time it was frozen.
    pub fn wall(&self) -> Duration {
        self.alive.wall
    }
}

/// What is in `home`, of keepers whose present command is wanted; of others nothing is touched.
pub(super) fn recover(home: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<Recovered>> {
    let mut recovered = Vec::new();
    // Without a client a keeper starts nothing: what it runs can only end.
    let is_left = |found: &Found| found.running().is_some_and(|token| !is_wanted(&token));
    for found in find(home)?.into_iter().filter(|found| !is_left(found)) {
        let until = Instant::now() + PATIENCE;
        let mut look_at = Instant::now() + LOOK;
        loop {
            if found.is_orphaned() {
                sweep::sweep(&found.id, None);
                let mut ends = found.ends()?;
                ends.extend(found.running().map(lost));
                if ends.is_empty() {
                    let _ = found.forget(&HashSet::new()); // it has nothing to say; another client may have been quicker
                }
                recovered.extend(ends.into_iter().map(Recovered::Ended));
                break;
            }
            match speak(home, &found, until) {
                Answer::Runs(link, alive) => {
                    // Read after it answered: it may have recorded an end just then. Its present command's comes over the link.
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
                _ if Instant::now() >= until => return Err(silent(&found)),
                // It is about to go, or to come, or to learn that its client is gone.
                Answer::HasClient(_) | Answer::Nobody => std::thread::sleep(Duration::from_millis(1)),
            }
            // One that was stopped before it listened cannot be connected to.
            if Instant::now() >= look_at {
                wake_stopped(&found.id);
                look_at = Instant::now() + LOOK;
            }
        }
    }
    Ok(recovered)
}

/// The end of a command whose keeper was killed before it could record one.
fn lost(token: String) -> End {
    let (cpu, wall) = Default::default();
    End { token, how: How::KeeperLost, peak_rss_kb: 0, cpu, wall }
}

/// The processes of keeper `id`: it was started with this name, and a command that it is just starting has it, too.
fn processes_of(id: &str) -> impl Iterator<Item = Process> {
    let is_it = move |process: &Process| {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        line.strip_suffix(b"\0").is_some_and(|line| line.rsplit(|&byte| byte == 0).next() == Some(id.as_bytes()))
    };
    procfs::all().into_iter().filter(move |process| !process.is_dead() && is_it(process))
}

/// To go on with a command is to go on with its keeper, too; and a keeper waits for what it is just starting.
fn wake_stopped(id: &str) {
    for stopped in processes_of(id).filter(Process::is_still) {
        signal(&stopped, Signal::CONT);
    }
}

fn silent(found: &Found) -> io::Error {
    let who = processes_of(&found.id).next().map_or_else(String::new, |keeper| format!(" (process {})", keeper.pid));
    let text = format!(
        "keeper {}{who} lives and does not answer; its command may still run, so nothing is started in its place. \
         Try again, or end that process",
        found.id
    );
    io::Error::new(io::ErrorKind::TimedOut, text)
}

fn unrecorded(found: &Found, why: &str) -> io::Error {
    let text = format!(
        "keeper {} knows how a command ended and cannot write that to {}: {why}; free some disk space, or mend what is wrong with it, \
         and try again. If that process is ended first, the command runs once more",
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
    Nobody,
}

fn speak(home: &Path, found: &Found, until: Instant) -> Answer {
    try_speak(home, found, until).unwrap_or(Answer::Nobody)
}

fn try_speak(home: &Path, found: &Found, until: Instant) -> io::Result<Answer> {
    let dir = rustix::fs::open(home, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut link = Link::new(UnixStream::connect(short_path(&dir, &found.id))?);
    loop {
        let left = until.saturating_duration_since(Instant::now()).min(LOOK);
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let ready = poll(&mut [PollFd::from_borrowed_fd(link.fd(), PollFlags::IN)], Some(&left));
        if matches!(ready, Ok(0)) && Instant::now() < until {
            wake_stopped(&found.id); // on the same line: one that we gave up would be its client
            continue;
        }
        if matches!(ready, Ok(0)) || !link.come.fill(&link.stream)? {
            return Ok(Answer::Nobody);
        }
        match link.come.next()? {
            Some(Reply::Hello(Some(alive))) => return Ok(Answer::Runs(Box::new(link), alive)),
            Some(Reply::Unrecorded { why }) => return Ok(Answer::Unrecorded(why)),
            Some(Reply::Busy { client }) => return Ok(Answer::HasClient(client)),
            Some(_) => return Ok(Answer::Nobody),
            None => {}
        }
    }
}
