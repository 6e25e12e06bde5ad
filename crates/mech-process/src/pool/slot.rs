//! One keeper, as the pool sees it.
//!
//! Room: mechanism. A socket, what is to be sent on it, and who listens.
//!
//! # Invariant
//! A listener is in exactly one place: in `now` while nobody tells it anything, else with the thread that tells it.

use std::io;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::sockopt::socket_peercred;
use rustix::process::Signal;

use super::Listener;
use crate::keeper::signal;
use crate::launch::{End, How, Launch, Report, Stdin, Streams};
use crate::procfs;
use crate::wire::{Alive, Incoming, Link, Outgoing, Reply, Request};

/// One command on a keeper.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) usage_mb: AtomicU64,
}

/// A keeper.
pub(super) struct Slot {
    pub(super) id: String,
    /// Its key in the hall.
    pub(super) key: AtomicU64,
    pub(super) stream: UnixStream,
    /// The keeper's process.
    pub(super) pid: Option<i32>,
    pub(super) out: Mutex<Outgoing>,
    pub(super) come: Mutex<Incoming>,
    pub(super) now: Mutex<Now>,
    pub(super) child: Mutex<Option<Child>>,
}

#[derive(Default)]
pub(super) struct Now {
    current: Option<Current>,
    runs: u64,
    /// Ends of this keeper that are recorded and that the client has not settled.
    pub(super) held: usize,
    gone: bool,
}

struct Current {
    token: String,
    run: Arc<Run>,
    /// Not there while it is being told something.
    listen: Option<Listener>,
}

/// What the pool's thread has to do after a message.
pub(super) enum Told {
    /// It was told, or there was nobody to tell.
    Done,
    /// The keeper is idle; then this listener hears this end. One that panicked earlier is not there any more.
    Ended(Option<Listener>, End),
}

/// A panic in a listener must not take the pool with it: what we guard is whole at every step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    pub(super) fn new(id: String, stream: UnixStream, child: Option<Child>) -> Slot {
        let own = child.as_ref().map(|child| child.id().cast_signed());
        // Of a keeper that is not our child, the socket knows who made it.
        let peer = || socket_peercred(&stream).ok().map(|peer| peer.pid.as_raw_pid());
        Slot {
            pid: own.or_else(peer),
            id,
            key: AtomicU64::new(0),
            stream,
            out: Mutex::default(),
            come: Mutex::default(),
            now: Mutex::default(),
            child: Mutex::new(child),
        }
    }

    /// A keeper that another client started.
    pub(super) fn adopted(id: String, link: Link) -> Slot {
        let Link { stream, out, come } = link;
        let slot = Slot::new(id, stream, None);
        *lock(&slot.out) = out;
        *lock(&slot.come) = come;
        slot
    }

    /// Queues the start of a command.
    pub(super) fn begin(&self, mut launch: Launch, mut streams: Streams, listen: Listener) -> io::Result<Arc<Run>> {
        // The keeper stands where the client stood when it was started, so a relative path would mean something else there.
        launch.log = std::path::absolute(&launch.log)?;
        launch.err_log = launch.err_log.map(std::path::absolute).transpose()?;
        launch.cwd = launch.cwd.map(std::path::absolute).transpose()?;
        if streams.stdin.is_none() && launch.stdin == Stdin::Client {
            streams.stdin = Some(rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?);
        }
        let mut now = lock(&self.now);
        if now.gone {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, format!("keeper {} is gone", self.id)));
        }
        assert!(now.current.is_none(), "keeper {} was idle", self.id);
        let run = Arc::new(Run { number: now.runs + 1, usage_mb: AtomicU64::new(0) });
        let token = launch.token.clone();
        let (fresh, given) = (now.held == 0, streams.given());
        let start = Request::Start { run: run.number, fresh, given, launch: Box::new(launch) };
        lock(&self.out).put_with(&start, streams.into_fds())?;
        now.runs += 1;
        now.current = Some(Current { token, run: Arc::clone(&run), listen: Some(listen) });
        Ok(run)
    }

    /// Listens to a command that another client started.
    pub(super) fn resume_listening(&self, alive: Alive, held: usize, listen: Listener) -> Arc<Run> {
        let mut now = lock(&self.now);
        let run = Arc::new(Run { number: alive.run, usage_mb: AtomicU64::new(0) });
        now.runs = alive.run;
        now.held = held;
        now.current = Some(Current { token: alive.token, run: Arc::clone(&run), listen: Some(listen) });
        run
    }

    /// Queues a request. Who is gone needs none.
    pub(super) fn ask(&self, request: &Request) {
        let _ = lock(&self.out).put(request);
    }

    /// Ends what runs, now.
    pub(super) fn cancel_current(&self) {
        let run = lock(&self.now).current.as_ref().map(|current| current.run.number);
        if let Some(run) = run {
            self.ask(&Request::Cancel { run, grace: std::time::Duration::ZERO });
        }
    }

    /// A keeper that was stopped hears no request until it is continued. One that was not takes no notice.
    pub(super) fn wake(&self) {
        // Not only if it stands still: it may have been stopped just now, and not yet stand.
        let keeper = self.pid.filter(|_| self.is_busy()).and_then(procfs::one);
        if let Some(keeper) = keeper.filter(|keeper| !keeper.is_dead()) {
            signal(&keeper, Signal::CONT);
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        lock(&self.now).current.is_some()
    }

    /// Tells the listener what the keeper says.
    pub(super) fn tell(&self, reply: Reply) -> Told {
        let report = match reply {
            Reply::Hello(_) | Reply::Busy { .. } | Reply::Unrecorded { .. } => return Told::Done, // heard before a keeper gets a slot
            Reply::Ended(end) => {
                let mut now = lock(&self.now);
                let Some(current) = now.current.take() else { return Told::Done };
                now.held += 1;
                return Told::Ended(current.listen, end);
            }
            Reply::Started { pid } => Report::Started { pid },
            Reply::Paused => Report::Paused,
            Reply::Resumed => Report::Resumed,
            Reply::Warning(text) => Report::Warning(text),
            Reply::Usage { rss_mb } => Report::Usage { rss_mb },
        };
        let listen = {
            let mut now = lock(&self.now);
            let Some(current) = &mut now.current else { return Told::Done };
            if let Report::Usage { rss_mb } = report {
                current.run.usage_mb.store(rss_mb, Ordering::Relaxed);
            }
            current.listen.take()
        };
        if let Some(mut listen) = listen {
            listen(report);
            // Only this thread ends a run, so the same command is still the current one.
            if let Some(current) = &mut lock(&self.now).current {
                current.listen = Some(listen);
            }
        }
        Told::Done
    }

    /// The keeper is gone. Gives back whom to tell, if it had a command.
    pub(super) fn lose(&self) -> Option<(Option<Listener>, End)> {
        let mut now = lock(&self.now);
        now.gone = true;
        let current = now.current.take()?;
        let (cpu, wall) = Default::default();
        let end = End { token: current.token, how: How::KeeperLost, peak_rss_kb: 0, cpu, wall };
        Some((current.listen, end))
    }
}
