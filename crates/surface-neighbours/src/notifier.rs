//! How a run that waits learns that another run gave something back.
//!
//! Room: driver.
//!
//! # Invariant
//! A run that waits for what others hold is notified when one of them gives something back, or dies.
//!
//! # Why it holds
//! Every run has a datagram socket beside the budget file. A run sets *waits* in its record before it releases the lock. A run that gives something back
//! afterwards notifies every run whose record says so. A notification that comes before the thread listens stays in the socket. A dead run notifies none: so
//! a run that waits watches the processes of all others.
//!
//! Memory of other programs is freed unannounced. Only while a run waits for it, the thread checks twice a second. It notifies the
//! other runs first, which then write how much their jobs really use. A run that waits for others checks every five seconds, in case its socket file
//! was removed.

use core::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

const RECHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Our socket file, or the whole budget file, may have been removed: a run that waits checks from time to time.
const FALLBACK_INTERVAL: Duration = Duration::from_secs(5);
/// Check again which jobs may start.
const NOTIFY: u8 = b'!';
/// Only the list of watched processes changed.
const REWATCH: u8 = b'?';

/// What the thread should watch.
#[derive(Debug, Default)]
struct Watching {
    /// Processes of other runs, while we wait for what they hold.
    processes: Vec<(u64, Arc<OwnedFd>)>,
    /// Whether what we wait for is freed unannounced; and which runs should report their memory.
    recheck: Option<Vec<u64>>,
    /// What the thread watches already.
    seen: (Vec<u64>, bool),
    stop: bool,
}

/// What the budget and the thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    folder: File,
    id: u64,
    socket: UnixDatagram,
    watching: Mutex<Watching>,
}

fn path_in(folder: &File, id: u64) -> PathBuf {
    // By the descriptor: paths of sockets may have 107 bytes only.
    PathBuf::from(format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), name_of(id)))
}

/// The name is part of the format: runs of different versions share a folder.
fn name_of(id: u64) -> String {
    format!("notify-{id:016x}")
}

/// The run that a socket file of this name belongs to.
fn owner_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("notify-")?, 16).ok()
}

impl Shared {
    pub(crate) fn new(folder: &File, id: u64) -> io::Result<Arc<Self>> {
        let folder = folder.try_clone()?;
        let socket = UnixDatagram::bind(path_in(&folder, id))?;
        socket.set_nonblocking(true)?;
        Ok(Arc::new(Self { folder, id, socket, watching: Mutex::default() }))
    }

    /// The folder of the sockets.
    pub(crate) fn folder(&self) -> &File {
        &self.folder
    }

    fn lock(&self) -> MutexGuard<'_, Watching> {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies these runs. One whose socket is full has a notification already.
    pub(crate) fn notify(&self, runs: impl IntoIterator<Item = u64>) {
        for id in runs {
            self.send(id, NOTIFY);
        }
    }

    fn send(&self, to: u64, what: u8) {
        // A run that is gone, or has a full socket, needs none.
        let _ = self.socket.send_to(&[what], path_in(&self.folder, to));
    }

    /// Sets the processes to watch, and whether to check by the clock.
    pub(crate) fn watch(&self, processes: Vec<(u64, Arc<OwnedFd>)>, recheck: Option<Vec<u64>>) {
        let mut watching = self.lock();
        let (seen, ticking) = &watching.seen;
        // The thread is woken only for what it does not watch yet: watching too much does no harm.
        let news = processes.iter().any(|(id, _)| !seen.contains(id)) || (recheck.is_some() && !ticking);
        (watching.processes, watching.recheck) = (processes, recheck);
        drop(watching);
        if news {
            self.send(self.id, REWATCH);
        }
    }

    /// Removes the socket file of a run that is gone.
    pub(crate) fn remove(&self, id: u64) {
        let _ = std::fs::remove_file(path_in(&self.folder, id));
    }

    /// Removes the socket files of all other runs.
    pub(crate) fn remove_all_but(&self, known: &[u64]) {
        let Ok(entries) = std::fs::read_dir(format!("/proc/self/fd/{}", self.folder.as_raw_fd())) else { return };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        for id in names.filter_map(|name| owner_of(&name)).filter(|id| !known.contains(id)) {
            self.remove(id);
        }
    }

    /// Takes all notifications at once. False if only the list of watched processes changed.
    fn drain(&self) -> bool {
        let mut what = [0];
        let mut notified = false;
        while self.socket.recv(&mut what).is_ok_and(|bytes| bytes > 0) {
            notified |= what[0] == NOTIFY;
        }
        notified
    }

    fn listen(&self, mut notify: impl FnMut()) {
        // Processes that are known to have ended. If they stay in the list (the lock is stuck), the clock triggers the next check.
        let mut ended: Vec<u64> = Vec::new();
        let mut last = Instant::now();
        loop {
            let (processes, recheck) = {
                let mut watching = self.lock();
                if watching.stop {
                    return;
                }
                ended.retain(|id| watching.processes.iter().any(|(known, _)| known == id));
                let processes: Vec<_> =
                    watching.processes.iter().filter(|(id, _)| !ended.contains(id)).cloned().collect();
                let recheck = watching.recheck.clone();
                let ids = watching.processes.iter().map(|(id, _)| *id).collect();
                watching.seen = (ids, recheck.is_some() || !ended.is_empty());
                (processes, recheck)
            };
            let waits = !processes.is_empty() || !ended.is_empty();
            let every = if recheck.is_some() || !ended.is_empty() { RECHECK_INTERVAL } else { FALLBACK_INTERVAL };
            let ticking = recheck.is_some() || waits;
            let left = ticking.then(|| every.saturating_sub(last.elapsed()));
            let fds = core::iter::once(self.socket.as_fd()).chain(processes.iter().map(|(_, fd)| fd.as_fd()));
            let mut polled: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            let _ = poll(&mut polled, left.as_ref()); // a signal does no harm
            let fired: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
            let died = processes.iter().zip(&fired[1..]).filter(|(_, fired)| **fired).map(|((id, _), _)| *id);
            let before = ended.len();
            ended.extend(died);
            let mut notified = (fired[0] && self.drain()) || ended.len() > before;
            if ticking && last.elapsed() >= every {
                last = Instant::now();
                self.notify(recheck.into_iter().flatten());
                notified = true;
            }
            if notified {
                notify();
            }
        }
    }
}

/// Notifies when other runs gave something back. Nothing is delivered before [`listen`](Notifier::listen).
#[must_use = "without a listener, jobs that wait for other runs wait until one of their own run ends"]
#[derive(Debug)]
pub struct Notifier {
    pub(crate) shared: Arc<Shared>,
}

impl Notifier {
    /// Calls `notify`, from a thread of its own, whenever other jobs may be able to start.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn listen(self, notify: impl FnMut() + Send + 'static) -> io::Result<Listener> {
        let shared = self.shared.clone();
        let thread =
            std::thread::Builder::new().name("bursar-notify".to_owned()).spawn(move || shared.listen(notify))?;
        Ok(Listener { shared: self.shared, thread: Some(thread) })
    }
}

/// The thread that listens. Dropping it ends the thread, and drops the callback.
pub struct Listener {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.send(self.shared.id, REWATCH);
        // If the socket file is gone, a datagram cannot reach the thread.
        let _ = self.shared.socket.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}
