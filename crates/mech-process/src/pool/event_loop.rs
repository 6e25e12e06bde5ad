//! The event loop of a pool: one thread that waits for all keepers.
//!
//! Room: mechanism. Knows sockets and `epoll`; knows nothing of what the commands are for.
//!
//! No other code of a client waits for keepers.
//!
//! # Invariant
//! Every queued request is sent. No thread blocks for it. A pool whose keepers are silent uses no CPU.
//!
//! # Why it holds
//! The thread that queues a request also flushes the queue. If the socket takes only a part, that thread registers for `EPOLLOUT`, under the lock
//! of the queue, and the event loop sends the rest. Any thread may change an `epoll` set while another waits in it, so new keepers need no wakeup.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::held::HeldEnds;
use super::slot::{Outcome, Slot, lock};
use super::{Listener, sweep};
use crate::launch::{End, Report};
use crate::record;
use crate::wire::{Reply, Request};

/// A dropped pool waits at most this long for processes that the kernel keeps from ending.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// A keeper without client and command exits within this time.
const KEEPER_EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// The key of the eventfd. Keys of keepers begin at 1.
const WAKE: u64 = 0;

pub(super) struct EventLoop {
    /// The directory with the keepers' records, if they have any.
    home: Option<PathBuf>,
    epoll: OwnedFd,
    wake: OwnedFd,
    state: Mutex<State>,
    pub(super) held: HeldEnds,
}

#[derive(Default)]
struct State {
    slots: HashMap<u64, Arc<Slot>>,
    /// A stack: the keeper that became idle last starts the next command, because its memory is warm.
    idle: Vec<Arc<Slot>>,
    keys: u64,
    closing: bool,
}

impl EventLoop {
    pub(super) fn new(home: Option<PathBuf>) -> io::Result<EventLoop> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(EventLoop { home, epoll, wake, state: Mutex::default(), held: HeldEnds::default() })
    }

    /// Takes an idle keeper, if there is one.
    pub(super) fn idle(&self) -> Option<Arc<Slot>> {
        lock(&self.state).idle.pop()
    }

    /// Returns a keeper whose command could not begin. A new keeper is not kept: it sees its socket close, and exits.
    pub(super) fn give_back(&self, slot: &Arc<Slot>, is_new: bool) {
        if !is_new {
            lock(&self.state).idle.push(Arc::clone(slot));
        } else if let Some(mut child) = lock(&slot.child).take() {
            let _ = slot.stream.shutdown(std::net::Shutdown::Both);
            let _ = child.wait();
        }
    }

    /// Registers a new keeper with the event loop.
    pub(super) fn add(&self, slot: &Arc<Slot>) -> io::Result<()> {
        let key = {
            let mut state = lock(&self.state);
            state.keys += 1;
            let key = state.keys;
            state.slots.insert(key, Arc::clone(slot));
            key
        };
        slot.key.store(key, Ordering::Relaxed);
        epoll::add(&self.epoll, &slot.stream, EventData::new_u64(key), EventFlags::IN).inspect_err(|_| {
            lock(&self.state).slots.remove(&key); // its queued requests are never sent
        })?;
        // Bytes that arrived together with the greeting are in our buffer, where epoll does not see them.
        self.notify();
        Ok(())
    }

    fn notify(&self) {
        // Apart from EINTR this fails only if a wakeup is pending already.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.wake, &1_u64.to_ne_bytes()));
    }

    /// Sends the queued requests of a keeper.
    pub(super) fn send(&self, slot: &Slot) {
        let mut out = lock(&slot.outgoing);
        match out.flush(&slot.stream) {
            Ok(true) => {}
            Ok(false) => self.watch(slot, EventFlags::IN | EventFlags::OUT),
            // The keeper will not get its requests. The event loop sees the closed socket and handles the loss.
            Err(_) => {
                let _ = slot.stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }

    fn watch(&self, slot: &Slot, flags: EventFlags) {
        let _ = epoll::modify(&self.epoll, &slot.stream, EventData::new_u64(slot.key.load(Ordering::Relaxed)), flags);
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.state).slots.len()
    }

    /// Cancels all commands. [`EventLoop::run`] returns when all have ended.
    pub(super) fn close(&self) {
        let slots: Vec<_> = {
            let mut state = lock(&self.state);
            state.closing = true;
            state.slots.values().cloned().collect()
        };
        for slot in slots {
            slot.cancel_current();
            self.send(&slot);
        }
        self.notify();
    }

    /// The loop, on the pool's thread.
    pub(super) fn run(&self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        let mut give_up_at: Option<Instant> = None;
        loop {
            let timeout = give_up_at.map(|at| {
                let left = at.saturating_duration_since(Instant::now());
                Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
            });
            events.clear();
            // An interrupted wait is a wait without events.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref());
            for event in &events {
                let key = event.data.u64();
                if key == WAKE {
                    let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
                    let slots: Vec<_> = lock(&self.state).slots.values().cloned().collect();
                    slots.iter().for_each(|slot| self.receive(slot, false));
                    continue;
                }
                let Some(slot) = lock(&self.state).slots.get(&key).cloned() else { continue };
                let flags = event.flags;
                if flags.contains(EventFlags::OUT) {
                    let flushed = lock(&slot.outgoing).flush(&slot.stream);
                    match flushed {
                        Ok(false) => {}
                        Ok(true) => self.watch(&slot, EventFlags::IN),
                        Err(_) => {
                            self.keeper_lost(&slot);
                            continue;
                        }
                    }
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    self.receive(&slot, true);
                }
            }
            if lock(&self.state).closing {
                let give_up = *give_up_at.get_or_insert_with(|| Instant::now() + SHUTDOWN_TIMEOUT);
                if self.shut_down(Instant::now() >= give_up) {
                    return;
                }
            }
        }
    }

    /// Disconnects all keepers once none is busy, or when the timeout is over. `true`: it is done.
    fn shut_down(&self, is_late: bool) -> bool {
        let slots: Vec<_> = lock(&self.state).slots.values().cloned().collect();
        let busy: Vec<_> = slots.iter().filter(|slot| slot.is_busy()).collect();
        if !busy.is_empty() && !is_late {
            // A listener may have started another command meanwhile.
            for slot in busy {
                slot.cancel_current();
                self.send(slot);
            }
            return false;
        }
        let mut state = lock(&self.state);
        state.idle.clear();
        state.slots.clear();
        drop(state);
        self.held.clear();
        for slot in &slots {
            // Held ends stay recorded: the client has not settled them.
            if !slot.is_busy() && lock(&slot.state).held == 0 {
                slot.ask(&Request::Bye);
                self.send(slot);
            }
            let _ = epoll::delete(&self.epoll, &slot.stream);
            // Handles may outlive the pool, so the socket is closed here.
            let _ = slot.stream.shutdown(std::net::Shutdown::Both);
        }
        for slot in slots.iter().filter(|slot| !slot.is_busy()) {
            if let Some(child) = lock(&slot.child).take() {
                wait_for(child);
            }
        }
        true
    }

    /// Reads the replies of a keeper and passes them to its listener.
    fn receive(&self, slot: &Arc<Slot>, read: bool) {
        let is_connected = !read || lock(&slot.incoming).fill(&slot.stream).unwrap_or(false);
        let is_valid = loop {
            let reply = lock(&slot.incoming).next::<Reply>();
            match reply {
                Ok(Some(reply)) => {
                    let outcome = catch_unwind(AssertUnwindSafe(|| slot.report(reply))).unwrap_or(Outcome::Delivered);
                    if let Outcome::Ended(listener, end) = outcome {
                        self.ended(slot, listener, end);
                    }
                }
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if !is_connected || !is_valid {
            self.keeper_lost(slot);
        }
    }

    /// The keeper becomes idle before the listener is called, so the listener can start the next command on it.
    fn ended(&self, slot: &Arc<Slot>, listener: Option<Listener>, end: End) {
        self.held.add(&end.token, slot);
        lock(&self.state).idle.push(Arc::clone(slot));
        report_end(listener, end);
    }

    /// The socket of a keeper closed: the keeper was killed, or sent an invalid message.
    fn keeper_lost(&self, slot: &Arc<Slot>) {
        {
            let mut state = lock(&self.state);
            state.slots.remove(&slot.key.load(Ordering::Relaxed));
            state.idle.retain(|idle| !Arc::ptr_eq(idle, slot));
        }
        let _ = epoll::delete(&self.epoll, &slot.stream);
        if let Some(mut child) = lock(&slot.child).take() {
            // A keeper that sent an invalid message still runs, and must not run on without a client that listens.
            let _ = child.kill();
            let _ = child.wait();
        }
        let sessions = slot.sessions();
        if let Some((listener, end)) = slot.mark_lost() {
            sweep::sweep(&slot.id, &sessions);
            // The keeper may have recorded the end and died before it reported it.
            let recorded = self.home.as_deref().and_then(|home| record::end_of(home, &slot.id, &end.token));
            report_end(listener, recorded.unwrap_or(end));
        }
    }
}

/// Waits for a keeper to exit, up to a timeout: a keeper that cannot record its ends stays alive.
fn wait_for(mut keeper: Child) {
    let until = Instant::now() + KEEPER_EXIT_TIMEOUT;
    while matches!(keeper.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reports the end and drops the listener. A panic of the listener is caught.
fn report_end(listener: Option<Listener>, end: End) {
    let _ = catch_unwind(AssertUnwindSafe(move || listener.map(|mut listener| listener(Report::Ended(end)))));
}
