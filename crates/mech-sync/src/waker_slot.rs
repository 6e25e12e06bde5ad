//! The waker of a future that waits: kept by the future, taken by the thread that ends the wait.
//!
//! Room: mechanism. Knows wakers; whether a wait has ended is said by `waiter.rs`.
//!
//! ```text
//!            keep            take
//!   EMPTY ─────────► KEPT ─────────► TAKING ─────► TAKEN
//!     ▲              │  ▲                            │
//!     │         change  │ changed                    │
//!     │              ▼  │      take        changed   │
//!     │             CHANGING ────────► LEFT ──────► TAKEN
//!     └───────────── clear ──────────────────────────┘  (also from KEPT, if the future itself ended its wait)
//! ```
//!
//! # Invariant
//! The waker that is taken is the newest one, and it is taken once; or the future is just leaving a newer one, and looks whether it was woken afterwards. Who took it
//! touches the waiter no more once that is TAKEN.
//!
//! # Why it holds
//! One thread takes, since one claims the wait, and it does so after that: a future that finds its waker taken, or left to it, finds its wait ended. Only the future writes the waker, in EMPTY
//! and in CHANGING, in which no other thread reads it. In the other states both may read it. So a future that is polled again with the same waker changes no shared memory.
//!
//! Checked by `tests/loom/waker_slot.rs`: `a_wake_reaches_the_newest_waker` fails if the waker is handed over relaxed, or if TAKEN is said before the waker was read, or if the future
//! overlooks that it was left to it, or learns of that relaxed; or if `WaitToken::is_woken` does not acquire.

use std::{
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

use crate::sync::{
    UnsafeCell,
    atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
    or_planted,
};

const EMPTY: u32 = 0;
const KEPT: u32 = 1;
const CHANGING: u32 = 2;
const LEFT: u32 = 3;
const TAKING: u32 = 4;
const TAKEN: u32 = 5;

/// Where a waker is. Apart from the waker itself, for the sake of space.
#[derive(Debug)]
pub(crate) struct SlotState(AtomicU32);

/// A waker, if its [`SlotState`] says so.
#[derive(Debug)]
pub(crate) struct Slot(UnsafeCell<MaybeUninit<Waker>>);

// SAFETY: wakers are `Send` and `Sync`; who may read and write the slot is the invariant.
unsafe impl Sync for Slot {}
// SAFETY: as above.
unsafe impl Send for Slot {}

impl SlotState {
    pub(crate) fn empty() -> Self {
        Self(AtomicU32::new(EMPTY))
    }
}

impl Slot {
    pub(crate) fn empty() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// # Safety
    /// No thread reads or writes the slot meanwhile. What it holds is forgotten.
    unsafe fn write(&self, waker: Waker) {
        // SAFETY: as the caller promised.
        self.0.with_mut(|slot| unsafe { (*slot).write(waker) });
    }

    /// # Safety
    /// A waker is there, no thread writes it meanwhile, and of all that read it one is used.
    unsafe fn read(&self) -> Waker {
        // SAFETY: as the caller promised.
        self.0.with(|slot| unsafe { (*slot).assume_init_read() })
    }

    /// Whether what is or was there wakes the same task.
    ///
    /// # Safety
    /// A waker was there, and no thread writes the slot meanwhile.
    unsafe fn wakes_like(&self, waker: &Waker) -> bool {
        // SAFETY: as the caller promised. A waker that was taken is still there bit by bit, and that is all that is compared.
        self.0.with(|slot| unsafe { (*slot).assume_init_ref().will_wake(waker) })
    }
}

/// The slot of a future that waits, with its state. All but [`WakerSlot::take`] are for that future alone.
#[derive(Clone, Copy)]
pub(crate) struct WakerSlot<'a> {
    pub(crate) state: &'a SlotState,
    pub(crate) slot: &'a Slot,
}

impl WakerSlot<'_> {
    /// Keeps `waker` for the thread that ends the next wait. Before it parks.
    pub(crate) fn keep(self, waker: &Waker) {
        let waker = waker.clone();
        debug_assert_eq!(self.state.0.load(Relaxed), EMPTY, "a waiter has one waker");
        // SAFETY: EMPTY, and not parked: no other thread comes here.
        unsafe { self.slot.write(waker) };
        self.state.0.store(KEPT, Relaxed); // released by `park`
    }

    /// Keeps `waker` instead, if the wait has not ended. The future must look afterwards whether it has.
    pub(crate) fn change(self, waker: &Waker) {
        // SAFETY: a waker was kept, and only we write it.
        if unsafe { self.slot.wakes_like(waker) } {
            return; // or it was taken: then the wait has ended
        }
        let fresh = waker.clone();
        if self.state.0.compare_exchange(KEPT, CHANGING, Relaxed, Acquire).is_err() {
            return; // it was taken, and acquired, so the future sees that its wait has ended
        }
        // SAFETY: CHANGING: there is a waker, and no other thread reads it.
        let old = unsafe { self.slot.read() };
        // SAFETY: as above.
        unsafe { self.slot.write(fresh) };
        let release = or_planted!(Release, "waker-kept-relaxed" => Relaxed);
        let acquire = or_planted!(Acquire, "waker-left-relaxed" => Relaxed); // as above
        let unwanted = or_planted!(
            match self.state.0.compare_exchange(CHANGING, KEPT, release, acquire) {
                Ok(_) => None,
                Err(_left) => {
                    // SAFETY: the waker was left to us.
                    let fresh = unsafe { self.slot.read() };
                    self.state.0.store(TAKEN, Relaxed);
                    Some(fresh)
                }
            },
            "waker-left-to-none" => { self.state.0.store(KEPT, acquire); None }
        );
        drop((old, unwanted)); // foreign code
    }

    /// Takes the waker out: no thread is on its way to take it, since the future itself ended the wait, or has taken it. Ready for another wait.
    pub(crate) fn clear(self) {
        let before = self.state.0.load(Acquire);
        debug_assert!(matches!(before, EMPTY | KEPT | TAKEN), "the waker is being taken");
        self.state.0.store(EMPTY, Relaxed);
        if before == KEPT {
            // SAFETY: no other thread comes here, and the state says that it is not there any more.
            drop(unsafe { self.slot.read() });
        }
    }

    /// Whether there is a waker here that is not cleared.
    pub(crate) fn has_one(self) -> bool {
        self.state.0.load(Relaxed) != EMPTY
    }

    /// Whether the thread that ended the wait is done with this slot.
    pub(crate) fn is_taken(self) -> bool {
        self.state.0.load(Acquire) == TAKEN
    }

    /// Takes the newest waker, unless the future is just leaving another: it runs, and will see. For the thread that ended the wait, which must not touch the slot after.
    pub(crate) fn take(self) -> Option<Waker> {
        let mut now = self.state.0.load(Relaxed);
        loop {
            let next = match now {
                KEPT => TAKING,
                CHANGING => LEFT,
                _ => unreachable!("one thread ends a wait, and a future leaves a waker before it waits"),
            };
            match self.state.0.compare_exchange_weak(now, next, AcqRel, Relaxed) {
                Ok(KEPT) => break,
                Ok(_) => return None,
                Err(changed) => now = changed,
            }
        }
        if or_planted!(false, "waker-taken-before-read" => true) {
            self.state.0.store(TAKEN, Release);
        }
        // SAFETY: TAKING: a waker is there, no thread writes it, and it is we who use it.
        let waker = unsafe { self.slot.read() };
        self.state.0.store(TAKEN, Release);
        Some(waker)
    }
}

/// Wakes a task, from the middle of an operation. A panic of its waker has been reported by the panic hook, and ends here: every other waiter that was to be
/// woken still is, and the thread that wakes, perhaps the one that runs the timers, goes on.
pub(crate) fn wake_contained(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        std::mem::forget(dropped); // a payload that panics when it is dropped is leaked
    }
}
