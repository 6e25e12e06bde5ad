//! Events of sockets: who is told that one has become ready, and by which thread.
//!
//! Room: driver. Knows `epoll` and who polls; what a socket is for is said by `net`.
//!
//! There is one for the process. A worker that has nothing to run waits for events instead of sleeping, so a request costs one switch. If no worker does, the thread of
//! `monitor.rs` does after a while.
//!
//! # Invariant
//! While there are sockets, a thread waits for their events, or polled within the last [`MONITOR_INTERVAL`], or the monitor is about to look.
//!
//! # Why it holds
//! By [`PollerRole`], and since the monitor rests only if it finds another poller.
//!
//! # Rejected
//! Registration for one event at a time (`EPOLLONESHOT`): a system call for each wait. A reactor for each runtime: a socket would belong to one, and end with it.

mod monitor;
mod source;

use std::{
    cell::RefCell,
    io,
    os::fd::{AsFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    task::Waker,
    thread,
    time::{Duration, Instant},
};

use mech_sync::{Inbox, Lasts, PollerRole, Taken, inbox::Notify, tally::lock, ticks};
use rustix::{
    buffer::spare_capacity,
    event::{
        EventfdFlags, Timespec,
        epoll::{self, CreateFlags, Event, EventData, EventFlags},
        eventfd,
    },
};
use slab::Slab;

pub(crate) use self::source::{ByteStream, Direction, Registered, charge, refuse_seeded};
use self::{
    monitor::Monitor,
    source::{Source, Waiting},
};
use crate::kernel::{strand, turn::Fixed, wake};

/// How long the events of sockets may go unseen while all workers are busy.
const MONITOR_INTERVAL: Duration = Duration::from_millis(10);
/// A worker that is busy with fibers looks at them after so long.
pub(crate) const BETWEEN_FIBERS: Duration = Duration::from_micros(200);
/// One that starts task after task, or polls future after future. Before the monitor would look; and not much sooner than it comes to the end of what events made ready, since what comes goes behind that.
pub(crate) const BETWEEN_TASKS: Duration = Duration::from_micros(500);
/// How many are taken in at once.
const EVENTS_MAX: usize = 1024;
/// The number of the notifier; sources have smaller ones.
const NOTIFIER: u64 = u64::MAX;
/// How often a worker looks whether the monitor has given its role up.
const HANDOVER_LOOKS: usize = 64;

/// After these a socket stays ready for reading; or it is not known when a read has emptied it, since out-of-band data stops one.
const STAYS_READABLE: EventFlags =
    EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR).union(EventFlags::PRI);
const READABLE: EventFlags = EventFlags::IN.union(STAYS_READABLE);
const WRITABLE: EventFlags = EventFlags::OUT.union(EventFlags::HUP).union(EventFlags::ERR);

pub(crate) struct Reactor {
    epoll: OwnedFd,
    notifier: EventNotifier,
    role: PollerRole,
    /// The monitor is asked to give up its role.
    is_wanted: AtomicBool,
    sources: Mutex<Slab<Arc<Source>>>,
    count: AtomicUsize,
    /// When a thread last stopped polling, by `ticks`.
    polled_at: AtomicU64,
    monitor: Monitor,
}

/// Wakes the thread that polls. Never read: every write is an edge.
#[derive(Debug)]
struct EventNotifier(OwnedFd);

impl Notify for EventNotifier {
    fn notify(&self) {
        // It fails if it was notified 2^64 times: then it was heard.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

static REACTOR: OnceLock<Reactor> = OnceLock::new();

/// The one of the process, made for the first socket.
fn reactor() -> io::Result<&'static Reactor> {
    if let Some(reactor) = REACTOR.get() {
        return Ok(reactor);
    }
    let made = Reactor::new()?;
    Ok(REACTOR.get_or_init(|| made))
}

/// If there are sockets.
#[inline]
fn in_use() -> Option<&'static Reactor> {
    REACTOR.get().filter(|reactor| reactor.count.load(Relaxed) > 0)
}

/// Whether a worker that has nothing to run would wait for events: then it should not search for long.
pub(crate) fn wants_a_poller() -> bool {
    in_use().is_some_and(|reactor| reactor.role.is_free())
}

/// Sleeps until `inbox` is notified, there are events, or the time has come. None if no sockets are in use, or another thread waits for them.
pub(crate) fn sleep(inbox: &'static Inbox, deadline: Option<Instant>) -> Option<Arrived> {
    let reactor = in_use()?;
    if !reactor.take_role() {
        return None;
    }
    let mut buffers = Buffers::take();
    inbox.sleep_elsewhere(&reactor.notifier, || {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        reactor.wait(&mut buffers, left.map(timespec).as_ref());
    });
    reactor.give_up_role();
    Some(Arrived { reactor, buffers })
}

/// The longest is longer than any machine runs.
fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX).min(i64::from(i32::MAX)),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// For a worker that is busy: looks whether there are events, if none has for so long. If the monitor polls, it is asked to leave that to the worker, which will come by again: it would tell
/// each event for itself, and take a CPU for that.
pub(crate) fn poll_if_due(unseen_max: Duration) -> Option<Arrived> {
    let reactor = in_use()?;
    let unseen_nanos = ticks::nanos().saturating_sub(reactor.polled_at.load(Relaxed));
    if u128::from(unseen_nanos) < unseen_max.as_nanos() {
        return None;
    }
    match reactor.role.take() {
        Taken::Yes => {}
        Taken::ByWorker => return None,
        Taken::ByMonitor => {
            reactor.ask_monitor();
            return None;
        }
    }
    let mut buffers = Buffers::take();
    reactor.wait(&mut buffers, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    reactor.give_up_role();
    Some(Arrived { reactor, buffers })
}

/// Events that have come, and have not been told yet.
#[must_use = "those that wait for them are to be woken"]
pub(crate) struct Arrived {
    reactor: &'static Reactor,
    buffers: Buffers,
}

/// What a thread that polls uses again.
#[derive(Default)]
struct Buffers {
    events: Vec<Event>,
    ended: Vec<Waiting>,
    wakers: Vec<Waker>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

impl Buffers {
    fn take() -> Self {
        BUFFERS.try_with(RefCell::take).unwrap_or_default()
    }

    fn give_back(self) {
        let _ = BUFFERS.try_with(|buffers| buffers.replace(self));
    }
}

impl Reactor {
    fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &eventfd, EventData::new_u64(NOTIFIER), EventFlags::IN | EventFlags::ET)?;
        Ok(Self {
            epoll,
            notifier: EventNotifier(eventfd),
            role: PollerRole::new(),
            is_wanted: AtomicBool::new(false),
            sources: Mutex::default(),
            count: AtomicUsize::new(0),
            polled_at: AtomicU64::new(0),
            monitor: Monitor::default(),
        })
    }

    /// Watches a socket, which must not block.
    fn register(&'static self, io: impl AsFd) -> io::Result<Arc<Source>> {
        let source = {
            let mut sources = lock(&self.sources);
            let entry = sources.vacant_entry();
            let source = Arc::new(Source::new(entry.key()));
            entry.insert(source.clone());
            source
        };
        let flags = EventFlags::IN | EventFlags::PRI | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if let Err(error) = epoll::add(&self.epoll, io, EventData::new_u64(source.key as u64), flags) {
            lock(&self.sources).remove(source.key);
            return Err(error.into());
        }
        if self.count.fetch_add(1, SeqCst) == 0 && self.role.watch() {
            self.monitor.schedule(self);
        }
        Ok(source)
    }

    /// A socket is about to be closed. Events on their way may reach another that has its number: it is tried once more than needed.
    fn deregister(&self, source: &Source, io: impl AsFd) {
        // It may have been closed through another descriptor: then there is nothing to take out.
        let _ = epoll::delete(&self.epoll, io);
        lock(&self.sources).remove(source.key);
        self.count.fetch_sub(1, SeqCst);
    }

    /// A worker wants to poll.
    fn take_role(&self) -> bool {
        for look in 0..HANDOVER_LOOKS {
            match self.role.take() {
                Taken::Yes => return true,
                Taken::ByWorker => return false,
                Taken::ByMonitor if look == 0 => self.ask_monitor(),
                Taken::ByMonitor => {}
            }
            thread::yield_now();
        }
        false // the monitor polls, or looks soon
    }

    /// Asks the monitor to give up its role.
    fn ask_monitor(&self) {
        self.is_wanted.store(true, SeqCst);
        self.notifier.notify(); // each time: another thread may have heard the last one
    }

    fn give_up_role(&'static self) {
        self.polled_at.store(ticks::nanos(), Relaxed);
        if self.role.give_up() {
            self.monitor.schedule(self);
        }
    }

    /// Waits for events. May also end without any.
    fn wait(&self, buffers: &mut Buffers, timeout: Option<&Timespec>) {
        buffers.events.clear();
        buffers.events.reserve(EVENTS_MAX);
        match epoll::wait(&self.epoll, spare_capacity(&mut buffers.events), timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system does not tell events of sockets any more: {error}"),
        }
    }
}

impl Arrived {
    /// Wakes those that wait. Not under a lock, and not while we are the poller: that may run foreign wakers.
    pub(crate) fn dispatch(self) {
        let Self { reactor, mut buffers } = self;
        {
            let sources = lock(&reactor.sources);
            for event in &buffers.events {
                let (flags, number) = (event.flags, event.data.u64());
                let Some(source) = usize::try_from(number).ok().and_then(|key| sources.get(key)) else { continue };
                if flags.intersects(READABLE) {
                    let lasts = if flags.intersects(STAYS_READABLE) { Lasts::ForEver } else { Lasts::UntilEmptied };
                    buffers.ended.extend(source.read.ready(lasts));
                }
                if flags.intersects(WRITABLE) {
                    buffers.ended.extend(source.write.ready(Lasts::UntilEmptied));
                }
            }
        }
        // Fibers are served in the order in which they are woken.
        for waiting in buffers.ended.drain(..) {
            match waiting {
                Waiting::Token(token) => _ = wake::wake(token, 0),
                Waiting::Waker(waker) => buffers.wakers.push(waker),
            }
        }
        strand::with(|strand| {
            // Those that came first run first. Among groups, of what a worker publishes that is the newest; else it waits in one line.
            if strand.worker.as_ref().is_some_and(|worker| worker.shared.goes_long_way()) {
                buffers.wakers.reverse();
            }
            strand.turn.while_fixed(Fixed::InWaker, || wake_all(&mut buffers.wakers));
        });
        buffers.give_back();
    }
}

/// Wakes each, whatever the others do: they may be foreign.
fn wake_all(wakers: &mut Vec<Waker>) {
    let mut left = wakers.drain(..);
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| left.by_ref().for_each(Waker::wake))) {
        std::mem::forget(payload); // it was printed; to drop it might panic again
    }
}
