//! The client's side: a pool of keepers, and one thread that listens to all of them.
//!
//! Room: mechanism. Knows keepers; knows nothing of what the commands are for.
//!
//! # Invariant
//! Every listener gets exactly one `Ended`, on the pool's thread, and no lock is held while it is called.
//!
//! # Why it holds
//! A listener belongs to the command that its keeper runs. It is taken out with the `Ended`, or when the keeper's socket
//! closes, under the lock of that keeper; the code that takes it out calls it. The keeper is idle *before* the listener gets the end, so a listener
//! can start the next command on it, from the same thread: two messages for each command, and no thread in between.

mod event_loop;
mod held;
mod recover;
mod slot;
mod sweep;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use recover::{Recovered, Survivor};
use slot::{Run, Slot};

use crate::cgroup::{Confinement, confinement};
use crate::in_force::InForce;
use crate::launch::{End, Launch, Report, Streams};
use crate::procfs;
use crate::record;
use crate::wire::Request;
use crate::{MARK, STARTED_AS_KEEPER};
use event_loop::EventLoop;

/// How to start a keeper. The program must call [`keeper::main`](crate::keeper::main) when it sees these arguments.
///
/// ```
/// let program = mech_process::KeeperProgram::this_one(["keep"]);
/// assert!(program.program.ends_with("exe"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperProgram {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments; two more are added.
    pub args: Vec<OsString>,
}

impl KeeperProgram {
    /// Another program, and its first arguments.
    pub fn new<A: Into<OsString>>(program: impl Into<PathBuf>, args: impl IntoIterator<Item = A>) -> KeeperProgram {
        KeeperProgram { program: program.into(), args: args.into_iter().map(Into::into).collect() }
    }

    /// The program that runs now, even if its file was replaced or removed meanwhile.
    pub fn this_one<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> KeeperProgram {
        KeeperProgram { program: "/proc/self/exe".into(), args: args.into_iter().map(Into::into).collect() }
    }
}

/// The state of a keepers' directory, as read from its files.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Live keepers: those with a client, and those whose command outlived their client.
    pub alive: usize,
    /// The tokens of commands that run below a keeper.
    pub running: Vec<String>,
    /// The tokens of commands whose keepers are gone and whose processes still run.
    pub orphaned: Vec<String>,
    /// The tokens of commands that are gone together with their keepers: their exit status is not known.
    pub lost: Vec<String>,
    /// Recorded ends.
    pub ended: Vec<End>,
}

impl Snapshot {
    /// Whether a keeper is alive, or processes of a dead keeper are.
    pub fn is_busy(&self) -> bool {
        self.alive > 0 || !self.orphaned.is_empty()
    }

    /// The tokens of all running commands, with a keeper or without.
    pub fn all_running(&self) -> impl Iterator<Item = &str> {
        self.running.iter().chain(&self.orphaned).map(String::as_str)
    }
}

/// The callback of one command. It is called on the pool's thread, in order; the last call has `Ended`. It must not block for long.
pub type Listener = Box<dyn FnMut(Report) + Send>;

/// A pool of keepers and one thread that listens to all of them.
///
/// Dropping the pool kills its commands at once, reports their ends, and returns when they are gone (or after 10 s, if the kernel keeps one from ending).
/// Killing the program does not kill its commands: each runs on below its keeper, and the next client finds them with [`Keepers::recover`].
/// A command that is frozen at that moment stays frozen until a client adopts it. Commands of an [ephemeral](Keepers::ephemeral) pool end also if the program is killed.
///
/// ```no_run
/// use mech_process::{KeeperProgram, Keepers, Launch, Report};
/// use std::sync::mpsc;
///
/// # fn main() -> std::io::Result<()> {
/// let home = std::path::Path::new("state/keepers");
/// let keepers = Keepers::new(KeeperProgram::this_one(["keep"]), home)?;
/// let (sender, ended) = mpsc::channel();
/// keepers.start(
///     Launch::new("hello-1", ["echo", "hello"], "hello.log"),
///     Box::new(move |report| {
///         if let Report::Ended(end) = report {
///             sender.send(end).unwrap();
///         }
///     }),
/// )?;
/// println!("{}", ended.recv().unwrap().how);
/// # Ok(())
/// # }
/// ```
pub struct Keepers {
    program: KeeperProgram,
    /// None: the pool is ephemeral.
    home: Option<PathBuf>,
    /// Part of the names of this pool's keepers: no other pool on this machine has it.
    name: String,
    made: AtomicU64,
    event_loop: Arc<EventLoop>,
    thread: Option<JoinHandle<()>>,
}

impl Keepers {
    /// A pool whose keepers have their files in the directory `home`. It is created if it does not exist, for this user only.
    ///
    /// No process is started before the first command.
    pub fn new(program: KeeperProgram, home: &Path) -> io::Result<Keepers> {
        let say =
            |error: io::Error| io::Error::new(error.kind(), format!("keepers' directory {}: {error}", home.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(say)?;
        // Absolute, because the client may change its working directory.
        Keepers::in_home(program, Some(home.canonicalize().map_err(say)?))
    }

    /// A pool whose commands end with this process, also if it is killed with SIGKILL: each keeper then kills its tree at once, and exits.
    ///
    /// It has no files. Nothing is recorded, no other client can connect, and memory is not measured without a limit.
    pub fn ephemeral(program: KeeperProgram) -> io::Result<Keepers> {
        Keepers::in_home(program, None)
    }

    fn in_home(program: KeeperProgram, home: Option<PathBuf>) -> io::Result<Keepers> {
        // A program that does not know that it is to be a keeper would start keepers of its own, each of which would do the same.
        if std::env::var_os(STARTED_AS_KEEPER).is_some() {
            return Err(io::Error::other(
                "this process was started as a keeper and makes keepers itself; call `keeper_main()` first in `main` \
                 when the arguments are those of the `KeeperProgram`",
            ));
        }
        let event_loop = Arc::new(EventLoop::new(home.clone())?);
        let running = Arc::clone(&event_loop);
        let thread = std::thread::Builder::new().name("keepers".into()).spawn(move || running.run())?;
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!("{:x}-{nanos:x}", std::process::id());
        Ok(Keepers { program, home, name, made: AtomicU64::new(0), event_loop, thread: Some(thread) })
    }

    /// Starts a command on an idle keeper, or on a new one. Does not wait for it; may be called from a listener.
    ///
    /// # Errors
    /// If there is no keeper; the listener gets no report then. If the command itself cannot start, that is reported to the listener.
    pub fn start(&self, launch: Launch, listener: Listener) -> io::Result<Handle> {
        self.start_with(launch, Streams::default(), listener)
    }

    /// As [`start`](Keepers::start), with descriptors for the command's standard streams: ends of pipes, for example.
    pub fn start_with(&self, launch: Launch, streams: Streams, listener: Listener) -> io::Result<Handle> {
        let idle = self.event_loop.idle();
        let (slot, is_new) = match idle {
            Some(slot) => (slot, false),
            None => (self.start_keeper()?, true),
        };
        let run = slot.begin(launch, streams, listener).inspect_err(|_| self.event_loop.give_back(&slot, is_new))?;
        if is_new {
            self.event_loop
                .add(&slot)
                .map_err(cannot_listen)
                .inspect_err(|_| self.event_loop.give_back(&slot, true))?;
        }
        self.event_loop.send(&slot);
        Ok(Handle { slot, run, event_loop: Arc::clone(&self.event_loop) })
    }

    /// Starts a keeper.
    fn start_keeper(&self) -> io::Result<Arc<Slot>> {
        let id = format!("{}-{}", self.name, self.made.fetch_add(1, Ordering::Relaxed));
        let (ours, theirs) = UnixStream::pair()?;
        // Created by the client, not by the keeper: if this client is killed now, the next client finds the record and waits for the keeper to begin.
        let record = self.home.as_deref().map(|home| record::create(home, &id)).transpose()?;
        let child = Command::new(&self.program.program)
            .args(&self.program.args)
            .arg(self.home.as_deref().unwrap_or(Path::new("")))
            .arg(&id)
            .env(MARK, &id)
            .env(STARTED_AS_KEEPER, &id)
            .process_group(0) // Ctrl-C must not reach it, from the first moment
            .stdin(OwnedFd::from(theirs))
            .stdout(record.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                self.home.iter().for_each(|home| record::remove(home, &id));
                let program = self.program.program.display();
                io::Error::new(error.kind(), format!("cannot start a keeper with {program}: {error}"))
            })?;
        Ok(Arc::new(Slot::new(id, ours, Some(child))))
    }

    /// Returns what an earlier client left in `home`: commands that still run, and recorded ends.
    ///
    /// Keepers with a live client are left alone. A stopped keeper is continued. A command that was lost together with its keeper has
    /// [`How::KeeperLost`](crate::How::KeeperLost) as its end, or is not in the list if the machine stopped; its processes are killed as far as they can be found.
    ///
    /// Ends are returned by every call until they are [forgotten](Keepers::forget), so nothing is lost if this client is killed too.
    ///
    /// # Errors
    /// If a keeper is alive and does not answer: its command may run, so it must not be started again.
    pub fn recover(home: &Path) -> io::Result<Vec<Recovered>> {
        recover::recover(home, |_| true)
    }

    /// As [`recover`](Keepers::recover), but only for wanted tokens. Keepers that run another command are left alone, and so are the processes
    /// of such a command whose keeper is gone.
    ///
    /// # Errors
    /// As `recover`.
    pub fn recover_some(home: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<Recovered>> {
        recover::recover(home, is_wanted)
    }

    /// Reads what an earlier client left in `home`, from its files and from `/proc`, without connecting to a keeper. Changes nothing and does not disturb other clients.
    pub fn inspect(home: &Path) -> io::Result<Snapshot> {
        let mut seen = Snapshot::default();
        let mut gone = Vec::new();
        for found in record::find(home)? {
            let is_gone = found.looks_orphaned();
            let running = found.running();
            seen.ended.extend(found.ends()?);
            match running {
                Some(token) if is_gone => gone.push((found.id, token)),
                running => seen.running.extend(running.filter(|_| !is_gone)),
            }
            seen.alive += usize::from(!is_gone);
        }
        let inhabited = sweep::with_processes(gone.iter().map(|(id, _)| id.as_str()));
        for (id, token) in gone {
            let list = if inhabited.contains(&id) { &mut seen.orphaned } else { &mut seen.lost };
            list.push(token);
        }
        Ok(seen)
    }

    /// Drops recorded ends that the client has made durable. A live keeper drops its own with its next start.
    pub fn forget<'a>(home: &Path, tokens: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
        recover::forget(home, &tokens.into_iter().collect())
    }

    /// Takes over a command that survived its client. The listener gets the reports from now on; `Started` is not reported again.
    ///
    /// # Errors
    /// If the event loop cannot listen to its keeper. The command is killed then.
    pub fn adopt(&self, survivor: Survivor, listener: Listener) -> io::Result<Handle> {
        let slot = Arc::new(Slot::adopted(survivor.id, survivor.link));
        let run = slot.resume_listening(survivor.alive, survivor.held.len(), listener);
        self.event_loop.add(&slot).map_err(cannot_listen).map_err(|error| {
            // It must not run on, because the client treats it as lost.
            slot.cancel_current();
            self.event_loop.send(&slot);
            io::Error::new(error.kind(), format!("{error}; the command was killed, and its exit status is not known"))
        })?;
        self.event_loop.held.adopt(&slot, survivor.held);
        Ok(Handle { slot, run, event_loop: Arc::clone(&self.event_loop) })
    }

    /// From now on an end stays recorded until [`settle`](Keepers::settle) is called for it.
    ///
    /// Without this, the next start on the same keeper overwrites the record: right if the listener makes an end durable
    /// *before* it starts anything. With it, a client can write its ends later, many at a time. An end that is not settled
    /// outlives even the pool.
    pub fn hold_ends(&self) {
        self.event_loop.held.enable();
    }

    /// The client has made this end durable. Cheap: a later start on the same keeper clears the record, once all its ends are settled.
    pub fn settle(&self, token: &str) {
        self.event_loop.held.settle(token);
    }

    /// How trees are frozen on this system, and if not by control groups, why not.
    pub fn confinement(&self) -> Confinement {
        confinement()
    }

    /// The number of keepers, busy or idle.
    pub fn count(&self) -> usize {
        self.event_loop.count()
    }
}

fn cannot_listen(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen to a keeper: {error}"))
}

impl Drop for Keepers {
    fn drop(&mut self) {
        self.event_loop.close();
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Keepers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keepers").field("home", &self.home).field("count", &self.count()).finish_non_exhaustive()
    }
}

/// A started command. Dropping the handle changes nothing. After the end of the command its methods do nothing.
#[derive(Clone)]
pub struct Handle {
    slot: Arc<Slot>,
    run: Arc<Run>,
    event_loop: Arc<EventLoop>,
}

impl Handle {
    /// Freezes the whole tree; `Paused` is reported when every process is frozen. If the tree is already ending, this does nothing.
    pub fn pause(&self) {
        self.ask(&Request::Pause { run: self.run.number });
    }

    /// Thaws the tree; `Resumed` is reported.
    pub fn resume(&self) {
        self.ask(&Request::Resume { run: self.run.number });
    }

    /// Ends the whole tree: TERM, then KILL after `grace`. `Ended` is reported when the tree is empty. A grace of zero kills at once; a second call
    /// can only shorten the grace.
    pub fn cancel(&self, grace: Duration) {
        self.ask(&Request::Cancel { run: self.run.number, grace });
        self.slot.wake();
    }

    /// Memory of the tree at its last sample, in MB; 0 for a command that has just started.
    pub fn usage_mb(&self) -> u64 {
        self.run.usage_mb.load(Ordering::Relaxed)
    }

    /// Sums the amounts of those processes in `holders` that belong to the tree. Orphaned processes of the tree are below its keeper, so they count.
    pub fn sum_of(&self, holders: &HashMap<i32, u64>) -> u64 {
        let Some(keeper) = self.slot.pid else { return 0 };
        let ours = holders.iter().filter(|(pid, _)| procfs::lineage(**pid).contains(&keeper));
        ours.map(|(_, amount)| amount).sum()
    }

    /// What the system has in force for its first process, read now. `None`: that process has not started, or has ended.
    pub fn in_force(&self) -> Option<InForce> {
        let (pid, keeper) = (self.run.pid.load(Ordering::Relaxed), self.slot.pid?);
        // A pid may be given to another process; the first process of a command is a child of its keeper.
        let is_it =
            || self.slot.runs(&self.run) && procfs::one(pid).is_some_and(|one| one.parent == keeper && !one.is_dead());
        let now = if pid > 0 && is_it() { InForce::of(pid)? } else { return None };
        is_it().then(|| InForce { refused: slot::lock(&self.run.refused).clone(), ..now })
    }

    fn ask(&self, request: &Request) {
        self.slot.ask(request);
        self.event_loop.send(&self.slot);
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("keeper", &self.slot.id).field("run", &self.run.number).finish()
    }
}
