//! One keeper, as the pool sees it.
//!
//! Room: mechanism. Knows one socket, its queue and its listener; knows nothing of other keepers.
//!
//! # Invariant
//! A listener has exactly one owner: `state` between two calls, and the thread that calls it during a call.

use std::io;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::sockopt::socket_peercred;
use rustix::process::Signal;

use super::Listener;
use crate::in_force::{InForce, Refusal};
use crate::keeper::signal;
use crate::launch::{End, How, Launch, Report, Stdin, Streams};
use crate::procfs;
use crate::wire::{Alive, Incoming, Link, Outgoing, Reply, Request};

/// One command on a keeper.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) usage_mb: AtomicU64,
    /// Its first process; 0 before it is known.
    pub(super) pid: AtomicI32,
    /// What was refused when it was started.
    pub(super) refused: Mutex<Vec<Refusal>>,
}

impl Run {
    fn new(number: u64, pid: i32, in_force: Option<Box<InForce>>) -> Run {
        let refused = Mutex::new(in_force.map(|in_force| in_force.refused).unwrap_or_default());
        Run { number, usage_mb: AtomicU64::new(0), pid: AtomicI32::new(pid), refused }
    }
}

/// A keeper.
pub(super) struct Slot {
    pub(super) id: String,
    /// Its key in the event loop.
    pub(super) key: AtomicU64,
    pub(super) stream: UnixStream,
    /// The keeper's process.
    pub(super) pid: Option<i32>,
    pub(super) outgoing: Mutex<Outgoing>,
    pub(super) incoming: Mutex<Incoming>,
    pub(super) state: Mutex<SlotState>,
    pub(super) child: Mutex<Option<Child>>,
}

#[derive(Default)]
pub(super) struct SlotState {
    current: Option<Current>,
    runs: u64,
    /// Recorded ends of this keeper that the client has not settled.
    pub(super) held: usize,
    gone: bool,
}

struct Current {
    token: String,
    run: Arc<Run>,
    /// `None` while it is being called.
    listener: Option<Listener>,
}

/// What the event loop has to do after a reply.
pub(super) enum Outcome {
    /// Nothing: the listener was called, or there is none.
    Delivered,
    /// Make the keeper idle, then report this end to this listener. A listener that panicked earlier is `None`.
    Ended(Option<Listener>, End),
}

/// Locks, and ignores poisoning: a panic of a listener must not break the pool, and the guarded values are consistent at every step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    pub(super) fn new(id: String, stream: UnixStream, child: Option<Child>) -> Slot {
        let own = child.as_ref().map(|child| child.id().cast_signed());
        // If the keeper is not our child, its pid comes from the socket.
        let peer = || socket_peercred(&stream).ok().map(|peer| peer.pid.as_raw_pid());
        Slot {
            pid: own.or_else(peer),
            id,
            key: AtomicU64::new(0),
            stream,
            outgoing: Mutex::default(),
            incoming: Mutex::default(),
            state: Mutex::default(),
            child: Mutex::new(child),
        }
    }

    /// A keeper that another client started.
    pub(super) fn adopted(id: String, link: Link) -> Slot {
        let Link { stream, outgoing, incoming } = link;
        let slot = Slot::new(id, stream, None);
        *lock(&slot.outgoing) = outgoing;
        *lock(&slot.incoming) = incoming;
        slot
    }

    /// Queues the start of a command.
    pub(super) fn begin(&self, mut launch: Launch, mut streams: Streams, listener: Listener) -> io::Result<Arc<Run>> {
        // The keeper has the working directory that the client had when it started the keeper, so a relative path could mean another file there.
        launch.log = std::path::absolute(&launch.log)?;
        launch.err_log = launch.err_log.map(std::path::absolute).transpose()?;
        launch.cwd = launch.cwd.map(std::path::absolute).transpose()?;
        if streams.stdin.is_none() && launch.stdin == Stdin::Client {
            streams.stdin = Some(rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?);
        }
        let mut state = lock(&self.state);
        if state.gone {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, format!("keeper {} is gone", self.id)));
        }
        assert!(state.current.is_none(), "keeper {} was idle", self.id);
        let run = Arc::new(Run::new(state.runs + 1, 0, None));
        let token = launch.token.clone();
        let (fresh, given) = (state.held == 0, streams.given());
        let start = Request::Start { run: run.number, fresh, given, launch: Box::new(launch) };
        lock(&self.outgoing).put_with(&start, streams.into_fds())?;
        state.runs += 1;
        state.current = Some(Current { token, run: Arc::clone(&run), listener: Some(listener) });
        Ok(run)
    }

    /// Attaches a listener to a command that another client started.
    pub(super) fn resume_listening(&self, alive: Alive, held: usize, listener: Listener) -> Arc<Run> {
        let mut state = lock(&self.state);
        let run = Arc::new(Run::new(alive.run, alive.pid, alive.in_force));
        state.runs = alive.run;
        state.held = held;
        state.current = Some(Current { token: alive.token, run: Arc::clone(&run), listener: Some(listener) });
        run
    }

    /// Queues a request. Errors are ignored: a keeper that is gone needs no request.
    pub(super) fn ask(&self, request: &Request) {
        let _ = lock(&self.outgoing).put(request);
    }

    /// Queues a cancellation of the current command, without grace.
    pub(super) fn cancel_current(&self) {
        let run = lock(&self.state).current.as_ref().map(|current| current.run.number);
        if let Some(run) = run {
            self.ask(&Request::Cancel { run, grace: std::time::Duration::ZERO });
        }
    }

    /// Continues the keeper. A stopped keeper reads no request until it is continued; for a running one SIGCONT does nothing.
    pub(super) fn wake(&self) {
        // Sent in every state: a keeper that was stopped just now may not show as stopped yet.
        let keeper = self.pid.filter(|_| self.is_busy()).and_then(procfs::one);
        if let Some(keeper) = keeper.filter(|keeper| !keeper.is_dead()) {
            signal(&keeper, Signal::CONT);
        }
    }

    /// The keeper's session, and that of its command.
    pub(super) fn sessions(&self) -> Vec<i32> {
        let command = lock(&self.state).current.as_ref().map(|current| current.run.pid.load(Ordering::Relaxed));
        self.pid.into_iter().chain(command.filter(|pid| *pid > 0)).collect()
    }

    /// Whether this is the command that it runs now.
    pub(super) fn runs(&self, run: &Run) -> bool {
        lock(&self.state).current.as_ref().is_some_and(|current| current.run.number == run.number)
    }

    pub(super) fn is_busy(&self) -> bool {
        lock(&self.state).current.is_some()
    }

    /// Passes a reply of the keeper to the listener.
    pub(super) fn report(&self, reply: Reply) -> Outcome {
        let report = match reply {
            Reply::Hello(_) | Reply::Busy { .. } | Reply::Unrecorded { .. } => return Outcome::Delivered, // only sent before a keeper gets a slot
            Reply::Ended(end) => {
                let mut state = lock(&self.state);
                let Some(current) = state.current.take() else { return Outcome::Delivered };
                state.held += 1;
                return Outcome::Ended(current.listener, end);
            }
            Reply::Started { pid } => Report::Started { pid },
            Reply::InForce(in_force) => Report::InForce(in_force),
            Reply::Paused => Report::Paused,
            Reply::Resumed => Report::Resumed,
            Reply::Warning(text) => Report::Warning(text),
            Reply::Usage { rss_mb } => Report::Usage { rss_mb },
        };
        let listener = {
            let mut state = lock(&self.state);
            let Some(current) = &mut state.current else { return Outcome::Delivered };
            match &report {
                Report::Usage { rss_mb } => current.run.usage_mb.store(*rss_mb, Ordering::Relaxed),
                Report::Started { pid } => current.run.pid.store(*pid, Ordering::Relaxed),
                Report::InForce(in_force) => lock(&current.run.refused).clone_from(&in_force.refused),
                _ => {}
            }
            current.listener.take()
        };
        if let Some(mut listener) = listener {
            listener(report);
            // Only this thread ends a run, so the same command is still the current one.
            if let Some(current) = &mut lock(&self.state).current {
                current.listener = Some(listener);
            }
        }
        Outcome::Delivered
    }

    /// The keeper is gone. If it had a command, returns its listener and its end.
    pub(super) fn mark_lost(&self) -> Option<(Option<Listener>, End)> {
        let mut state = lock(&self.state);
        state.gone = true;
        let current = state.current.take()?;
        let (cpu, wall) = Default::default();
        let end = End { token: current.token, how: How::KeeperLost, peak_rss_kb: 0, cpu, wall, in_force: None };
        Some((current.listener, end))
    }
}
