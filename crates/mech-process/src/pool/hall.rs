//! Where the keepers of a pool wait, and the thread that hears them.
//!
//! Room: mechanism. The only place of a client that waits for keepers.
//!
//! # Invariant
//! What was queued for a keeper is sent, without anybody blocking, and a pool whose keepers are silent uses no CPU.
//!
//! # Why it holds
//! Whoever queues also flushes. If the socket takes only a part, it asks `epoll` for room, under the lock of the queue, and the pool's thread
//! sends the rest. `epoll` may be changed from any thread while another waits in it, so new keepers need no wake.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::slot::{Slot, Told, lock};
use super::{Listener, sweep};
use crate::launch::{End, Report};
use crate::record;
use crate::wire::{Reply, Request};

/// A pool that is dropped waits this long for processes that the system holds.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// A keeper without client and command goes within this time.
const GOING: Duration = Duration::from_secs(1);
/// The key of the eventfd; keepers count from 1.
const WAKE: u64 = 0;

pub(super) struct Hall {
    /// Where keepers have their records, if they have any.
    home: Option<PathBuf>,
    epoll: OwnedFd,
    wake: OwnedFd,
    state: Mutex<State>,
    pub(super) hold_ends: AtomicBool,
}

#[derive(Default)]
struct State {
    slots: HashMap<u64, Arc<Slot>>,
    /// The last to end is the first to start: its memory is warm.
    idle: Vec<Arc<Slot>>,
    /// Which keeper has the record of an end that is not settled.
    held: HashMap<String, Arc<Slot>>,
    keys: u64,
    closing: bool,
}

impl Hall {
    pub(super) fn new(home: Option<PathBuf>) -> io::Result<Hall> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Hall { home, epoll, wake, state: Mutex::default(), hold_ends: AtomicBool::new(false) })
    }

    /// A keeper with nothing to do.
    pub(super) fn idle(&self) -> Option<Arc<Slot>> {
        lock(&self.state).idle.pop()
    }

    /// A keeper that could not begin. A new one that nobody uses sees its socket close, and goes.
    pub(super) fn back(&self, slot: &Arc<Slot>, is_new: bool) {
        if !is_new {
            lock(&self.state).idle.push(Arc::clone(slot));
        } else if let Some(mut child) = lock(&slot.child).take() {
            let _ = slot.stream.shutdown(std::net::Shutdown::Both);
            let _ = child.wait();
        }
    }

    /// A new keeper: from now on it is heard.
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
            lock(&self.state).slots.remove(&key); // what is queued for it is never sent
        })?;
        // What came together with the greeting waits in our buffer, where epoll does not see it.
        self.hint();
        Ok(())
    }

    fn hint(&self) {
        // Otherwise it fails only if a wake is pending already.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.wake, &1_u64.to_ne_bytes()));
    }

    /// Sends what is queued for a keeper.
    pub(super) fn send(&self, slot: &Slot) {
        let mut out = lock(&slot.out);
        match out.flush(&slot.stream) {
            Ok(true) => {}
            Ok(false) => self.watch(slot, EventFlags::IN | EventFlags::OUT),
            // What it was to be told it will never hear. The pool's thread learns from the socket that it is lost.
            Err(_) => {
                let _ = slot.stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }

    fn watch(&self, slot: &Slot, flags: EventFlags) {
        let _ = epoll::modify(&self.epoll, &slot.stream, EventData::new_u64(slot.key.load(Ordering::Relaxed)), flags);
    }

    /// Ends that an earlier client's keeper has recorded, to be settled like our own.
    pub(super) fn hold(&self, slot: &Arc<Slot>, tokens: Vec<String>) {
        if self.hold_ends.load(Ordering::Relaxed) {
            lock(&self.state).held.extend(tokens.into_iter().map(|token| (token, Arc::clone(slot))));
        }
    }

    pub(super) fn settle(&self, token: &str) {
        let slot = lock(&self.state).held.remove(token);
        if let Some(slot) = slot {
            let mut now = lock(&slot.now);
            now.held = now.held.saturating_sub(1);
        }
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.state).slots.len()
    }

    /// Ends everything; [`Hall::listen`] returns when that is done.
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
        self.hint();
    }

    /// The pool's thread.
    pub(super) fn listen(&self) {
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
                    slots.iter().for_each(|slot| self.hear(slot, false));
                    continue;
                }
                let Some(slot) = lock(&self.state).slots.get(&key).cloned() else { continue };
                let flags = event.flags;
                if flags.contains(EventFlags::OUT) {
                    let flushed = lock(&slot.out).flush(&slot.stream);
                    match flushed {
                        Ok(false) => {}
                        Ok(true) => self.watch(&slot, EventFlags::IN),
                        Err(_) => {
                            self.lost(&slot);
                            continue;
                        }
                    }
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    self.hear(&slot, true);
                }
            }
            if lock(&self.state).closing {
                let give_up = *give_up_at.get_or_insert_with(|| Instant::now() + LAST_WAIT);
                if self.part(Instant::now() >= give_up) {
                    return;
                }
            }
        }
    }

    /// Says goodbye to all, once none is busy, or if it has been long enough.
    fn part(&self, is_late: bool) -> bool {
        let slots: Vec<_> = lock(&self.state).slots.values().cloned().collect();
        let busy: Vec<_> = slots.iter().filter(|slot| slot.is_busy()).collect();
        if !busy.is_empty() && !is_late {
            // A listener may have started one more meanwhile.
            for slot in busy {
                slot.cancel_current();
                self.send(slot);
            }
            return false;
        }
        let mut state = lock(&self.state);
        state.idle.clear();
        state.held.clear();
        state.slots.clear();
        drop(state);
        for slot in &slots {
            // Ends that are held stay recorded: whoever asked for that has not settled them.
            if !slot.is_busy() && lock(&slot.now).held == 0 {
                slot.ask(&Request::Bye);
                self.send(slot);
            }
            let _ = epoll::delete(&self.epoll, &slot.stream);
            // Handles may outlive the pool, so closing is not left to them.
            let _ = slot.stream.shutdown(std::net::Shutdown::Both);
        }
        for slot in slots.iter().filter(|slot| !slot.is_busy()) {
            if let Some(child) = lock(&slot.child).take() {
                wait_for(child);
            }
        }
        true
    }

    /// Reads what a keeper says.
    fn hear(&self, slot: &Arc<Slot>, read: bool) {
        let there = !read || lock(&slot.come).fill(&slot.stream).unwrap_or(false);
        let understood = loop {
            let reply = lock(&slot.come).next::<Reply>();
            match reply {
                Ok(Some(reply)) => {
                    let told = catch_unwind(AssertUnwindSafe(|| slot.tell(reply))).unwrap_or(Told::Done);
                    if let Told::Ended(listen, end) = told {
                        self.ended(slot, listen, end);
                    }
                }
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if !there || !understood {
            self.lost(slot);
        }
    }

    /// The keeper is idle first, so that the listener can start the next command on it.
    fn ended(&self, slot: &Arc<Slot>, listen: Option<Listener>, end: End) {
        {
            let mut state = lock(&self.state);
            if self.hold_ends.load(Ordering::Relaxed) {
                state.held.insert(end.token.clone(), Arc::clone(slot));
            } else {
                lock(&slot.now).held = 0;
            }
            state.idle.push(Arc::clone(slot));
        }
        tell(listen, end);
    }

    /// A keeper's socket closed: it was killed, or broke.
    fn lost(&self, slot: &Arc<Slot>) {
        {
            let mut state = lock(&self.state);
            state.slots.remove(&slot.key.load(Ordering::Relaxed));
            state.idle.retain(|idle| !Arc::ptr_eq(idle, slot));
        }
        let _ = epoll::delete(&self.epoll, &slot.stream);
        if let Some(mut child) = lock(&slot.child).take() {
            // It may not have died of itself: one that talks nonsense must not go on unheard.
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some((listen, end)) = slot.lose() {
            sweep::sweep(&slot.id, slot.pid);
            // It may have recorded the end, and died before it could tell.
            let recorded = self.home.as_deref().and_then(|home| record::end_of(home, &slot.id, &end.token));
            let end = recorded.unwrap_or(end);
            tell(listen, end);
        }
    }
}

/// Waits for a keeper that goes. One that holds ends which it cannot record stays, and is not waited for.
fn wait_for(mut keeper: Child) {
    let until = Instant::now() + GOING;
    while matches!(keeper.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The listener goes after its last word; a panic in it stays with it.
fn tell(listen: Option<Listener>, end: End) {
    let _ = catch_unwind(AssertUnwindSafe(move || listen.map(|mut listen| listen(Report::Ended(end)))));
}
