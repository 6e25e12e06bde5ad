//! The client's side: a pool of keepers, and one thread that listens to them all.
//!
//! Room: mechanism. Knows keepers; knows nothing of what the commands are for.
//!
//! # Invariant
//! Every listener is told exactly one end, by the pool's thread, and no lock is held while it is told.
//!
//! # Why it holds
//! A listener belongs to the command that its keeper runs. It is taken out with the `Ended`, or when the keeper's socket
//! closes, under the lock of that keeper; whoever takes it tells it. The keeper is idle *before* the listener hears the end, so a listener can
//! start the next command on it, from the same thread: two messages for each command, and no thread in between.

mod hall;
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

use crate::MARK;
use crate::cgroup::{Confinement, confinement};
use crate::launch::{End, Launch, Report};
use crate::procfs;
use crate::record;
use crate::wire::Request;
use hall::Hall;

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

    /// The program that runs now, whatever has happened to its file meanwhile.
    pub fn this_one<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> KeeperProgram {
        KeeperProgram { program: "/proc/self/exe".into(), args: args.into_iter().map(Into::into).collect() }
    }
}

/// The contents of a home, as read from its files.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Seen {
    /// Keepers that live: those with a client, and those whose command outlived theirs.
    pub alive: usize,
    /// The tokens of commands that run below their keepers.
    pub running: Vec<String>,
    /// The tokens of commands whose keepers are gone and whose processes still run.
    pub unkept: Vec<String>,
    /// The tokens of commands that are gone together with their keepers: how they ended is not known.
    pub lost: Vec<String>,
    /// Ends that are recorded.
    pub ended: Vec<End>,
}

impl Seen {
    /// Whether a keeper lives, or processes of one that is gone.
    pub fn is_busy(&self) -> bool {
        self.alive > 0 || !self.unkept.is_empty()
    }

    /// The tokens of all commands that run, with their keepers or without.
    pub fn all_running(&self) -> impl Iterator<Item = &str> {
        self.running.iter().chain(&self.unkept).map(String::as_str)
    }
}

/// Is told what becomes of one command. Called from the pool's thread, in order, ending with one `Ended`; it must not block for long.
pub type Listener = Box<dyn FnMut(Report) + Send>;

/// A pool of keepers and one thread that listens to them all.
///
/// Dropping it ends its commands at once, tells their listeners, and returns when they are gone (or after 10 s, if the system holds one).
/// Killing the program does not: its commands run on, each below its keeper, and the next client finds them with [`Keepers::recover`].
/// A command that is frozen then stays so until somebody takes it over.
///
/// ```no_run
/// use mech_process::{KeeperProgram, Keepers, Launch, Report};
/// use std::sync::mpsc;
///
/// # fn main() -> std::io::Result<()> {
/// let home = std::path::Path::new("state/keepers");
/// let keepers = Keepers::new(KeeperProgram::this_one(["keep"]), home)?;
/// let (tell, ended) = mpsc::channel();
/// keepers.start(
///     Launch::new("hello-1", ["echo", "hello"], "hello.log"),
///     Box::new(move |report| {
///         if let Report::Ended(end) = report {
///             tell.send(end).unwrap();
///         }
///     }),
/// )?;
/// println!("{}", ended.recv().unwrap().how);
/// # Ok(())
/// # }
/// ```
pub struct Keepers {
    program: KeeperProgram,
    home: PathBuf,
    /// Distinguishes this pool's keepers from those of any other, of this program or another.
    name: String,
    made: AtomicU64,
    hall: Arc<Hall>,
    thread: Option<JoinHandle<()>>,
}

impl Keepers {
    /// A pool whose keepers have their files in `home`, which is made if need be, for this user only.
    ///
    /// No process is started before the first command.
    pub fn new(program: KeeperProgram, home: &Path) -> io::Result<Keepers> {
        let say = |error: io::Error| io::Error::new(error.kind(), format!("keepers' home {}: {error}", home.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(say)?;
        // Keepers stay where they are told to be, wherever the client goes.
        let home = home.canonicalize().map_err(say)?;
        let hall = Arc::new(Hall::new(home.clone())?);
        let listening = Arc::clone(&hall);
        let thread = std::thread::Builder::new().name("keepers".into()).spawn(move || listening.listen())?;
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!("{:x}-{nanos:x}", std::process::id());
        Ok(Keepers { program, home, name, made: AtomicU64::new(0), hall, thread: Some(thread) })
    }

    /// Starts a command on an idle keeper, or on a new one. Does not wait for it; may be called from a listener.
    ///
    /// What keeps the command from starting is told to the listener; an error means that there is no keeper, and no report comes.
    pub fn start(&self, launch: Launch, listen: Listener) -> io::Result<Handle> {
        let idle = self.hall.idle();
        let (slot, is_new) = match idle {
            Some(slot) => (slot, false),
            None => (self.hire()?, true),
        };
        let run = slot.begin(launch, listen).inspect_err(|_| self.hall.back(&slot, is_new))?;
        if is_new {
            self.hall.add(&slot).map_err(cannot_hear).inspect_err(|_| self.hall.back(&slot, true))?;
        }
        self.hall.send(&slot);
        Ok(Handle { slot, run, hall: Arc::clone(&self.hall) })
    }

    /// Starts a keeper.
    fn hire(&self) -> io::Result<Arc<Slot>> {
        let id = format!("{}-{}", self.name, self.made.fetch_add(1, Ordering::Relaxed));
        let (ours, theirs) = UnixStream::pair()?;
        // Made here, not by the keeper: if we are killed now, whoever comes next waits for a keeper that is just about to begin.
        let record = record::make(&self.home, &id)?;
        let child = Command::new(&self.program.program)
            .args(&self.program.args)
            .arg(&self.home)
            .arg(&id)
            .env(MARK, &id)
            .process_group(0) // out of reach of Ctrl-C from the first moment
            .stdin(OwnedFd::from(theirs))
            .stdout(record)
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                record::unmake(&self.home, &id);
                let program = self.program.program.display();
                io::Error::new(error.kind(), format!("cannot start a keeper with {program}: {error}"))
            })?;
        Ok(Arc::new(Slot::new(id, ours, Some(child))))
    }

    /// What an earlier client left in `home`: commands that still run, and ends that it did not hear of.
    ///
    /// Keepers that have a living client are left alone, and one that was stopped is continued. A command that was lost together with its keeper has
    /// [`How::KeeperLost`](crate::How::KeeperLost) as its end, or is not in the list if the machine stopped; what could be found of its processes was ended.
    ///
    /// # Errors
    /// If a keeper lives and does not answer: its command may run, so it must not be started again.
    ///
    /// Ends are found again and again until they are [forgotten](Keepers::forget), so nothing is lost if this client is killed too.
    pub fn recover(home: &Path) -> io::Result<Vec<Recovered>> {
        recover::recover(home, |_| true)
    }

    /// As [`recover`](Keepers::recover), but keepers whose present command has another token are left alone, and so are the processes of
    /// such a command whose keeper is gone.
    ///
    /// # Errors
    /// As `recover`.
    pub fn recover_some(home: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<Recovered>> {
        recover::recover(home, is_wanted)
    }

    /// Reads what an earlier client left in `home` from its files and from `/proc`, without connecting to a keeper. Nothing is changed, and other clients are not disturbed.
    pub fn look(home: &Path) -> io::Result<Seen> {
        let mut seen = Seen::default();
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
            let list = if inhabited.contains(&id) { &mut seen.unkept } else { &mut seen.lost };
            list.push(token);
        }
        Ok(seen)
    }

    /// Drops recorded ends that the client has made its own. Those of keepers that live are dropped when they start something else.
    pub fn forget<'a>(home: &Path, tokens: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
        recover::forget(home, &tokens.into_iter().collect())
    }

    /// Takes over a command that survived its client. The listener hears what happens from now on; `Started` is not told again.
    ///
    /// # Errors
    /// If its keeper cannot be listened to. The command is ended then.
    pub fn adopt(&self, survivor: Survivor, listen: Listener) -> io::Result<Handle> {
        let slot = Arc::new(Slot::adopted(survivor.id, survivor.link));
        let run = slot.resume_listening(survivor.alive, survivor.held.len(), listen);
        self.hall.add(&slot).map_err(cannot_hear).map_err(|error| {
            // It must not run on while the client takes it for lost.
            slot.cancel_current();
            self.hall.send(&slot);
            io::Error::new(error.kind(), format!("{error}; it was ended, and its exit status is not known"))
        })?;
        self.hall.hold(&slot, survivor.held);
        Ok(Handle { slot, run, hall: Arc::clone(&self.hall) })
    }

    /// From now on an end stays recorded until [`settle`](Keepers::settle) is called for it.
    ///
    /// Without this the next command of the same keeper takes its place: right if the listener makes an end durable
    /// *before* it starts anything. With it, a client can write its ends later, many at a time; what is not settled outlives
    /// even the pool.
    pub fn hold_ends(&self) {
        self.hall.hold_ends.store(true, Ordering::Relaxed);
    }

    /// The client has made this end durable. Cheap: the record goes with a later start on the same keeper, once all its ends are settled.
    pub fn settle(&self, token: &str) {
        self.hall.settle(token);
    }

    /// What holds a tree while it is frozen, and if it is not a control group, why.
    pub fn confinement(&self) -> Confinement {
        confinement()
    }

    /// Keepers that are there, busy or idle.
    pub fn count(&self) -> usize {
        self.hall.count()
    }
}

fn cannot_hear(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot wait for what a keeper says: {error}"))
}

impl Drop for Keepers {
    fn drop(&mut self) {
        self.hall.close();
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

/// A command that was started. Dropping it changes nothing; after the end its calls do nothing.
#[derive(Clone)]
pub struct Handle {
    slot: Arc<Slot>,
    run: Arc<Run>,
    hall: Arc<Hall>,
}

impl Handle {
    /// Freezes the whole tree; `Paused` is reported when it stands still. Nothing is if its end has begun.
    pub fn pause(&self) {
        self.ask(&Request::Pause { run: self.run.number });
    }

    /// Lets it go on; `Resumed` is reported.
    pub fn resume(&self) {
        self.ask(&Request::Resume { run: self.run.number });
    }

    /// Ends the whole tree: TERM, `grace`, then by force. `Ended` is reported when it is empty. No grace means now; a second call can
    /// only make it sooner.
    pub fn cancel(&self, grace: Duration) {
        self.ask(&Request::Cancel { run: self.run.number, grace });
        self.slot.wake();
    }

    /// What the tree held when it was last looked at, in MB; 0 for one that has just started.
    pub fn usage_mb(&self) -> u64 {
        self.run.usage_mb.load(Ordering::Relaxed)
    }

    /// How much these processes hold of something, in sum over those of its tree. Processes that it left behind are found below its keeper.
    pub fn sum_of(&self, holders: &HashMap<i32, u64>) -> u64 {
        let Some(keeper) = self.slot.pid else { return 0 };
        let ours = holders.iter().filter(|(pid, _)| procfs::lineage(**pid).contains(&keeper));
        ours.map(|(_, amount)| amount).sum()
    }

    fn ask(&self, request: &Request) {
        self.slot.ask(request);
        self.hall.send(&self.slot);
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("keeper", &self.slot.id).field("run", &self.run.number).finish()
    }
}
