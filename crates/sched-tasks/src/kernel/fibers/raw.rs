//! A worker's fibers, each with its strand at the top of its own stack.
//!
//! Room: mechanism. Knows stacks and strands; knows nothing of queues.
//!
//! # Invariant
//! A fiber is entered by its worker's own strand, one at a time; fibers are added and removed only while none runs. A slot that is `gone` has no fiber. A strand
//! that was introduced lives as long as its fiber.
//!
//! # Why it holds
//! All methods but `introduce` are called on the worker's own strand alone, which does not run while a fiber does; the table is not `Sync` and belongs to the worker's
//! thread. A key is not entered between `remove` and the `add` that takes its place: the worker keeps such keys apart. A strand lives in the outermost frame of its
//! fiber, which is left when the fiber ends, and never if its stack was lost: then its content stays as it was.
//!
//! # Rejected
//! Strands on the heap: a page of stack has room for them anyway, and a million of them are four memory mappings more.

use std::{
    cell::{Cell, UnsafeCell},
    mem::ManuallyDrop,
    ptr,
};

use mech_fiber::{Fiber, Step};
use mech_sync::Waiter;
use vocab::TaskId;

use crate::{
    error::TaskLabel,
    kernel::{
        current::{self, StrandRef},
        scope::ScopeRef,
        strand::Strand,
        task::Running,
    },
};

pub(crate) struct Fibers(UnsafeCell<Vec<Slot>>);

struct Slot {
    /// Dropped when `gone` is set.
    fiber: ManuallyDrop<Fiber>,
    gone: bool,
    waiter: &'static Waiter,
    /// Null until the fiber introduced it.
    strand: Cell<*const Strand>,
}

impl Slot {
    /// Drops the fiber: its stack is free.
    fn empty(&mut self) {
        if !std::mem::replace(&mut self.gone, true) {
            // SAFETY: it was there until now, and is not used again.
            unsafe { ManuallyDrop::drop(&mut self.fiber) };
        }
    }
}

impl Slot {
    /// What runs on it, if it has not ended.
    fn running(&self) -> Option<Running> {
        if self.gone || self.fiber.is_done() || self.strand.get().is_null() {
            return None;
        }
        // SAFETY: introduced, and its fiber has not ended, so it is there.
        unsafe { (*self.strand.get()).running.get() }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.empty();
    }
}

impl Fibers {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(Vec::new()))
    }

    /// Adds a fiber in the place of one that is gone, or at the end. Only on the worker's own strand.
    pub(crate) fn add(&self, place: Option<u32>, fiber: Fiber, waiter: &'static Waiter) -> u32 {
        // SAFETY: the worker's own strand runs, so no fiber does, and there is no other reference.
        let slots = unsafe { &mut *self.0.get() };
        let slot = Slot { fiber: ManuallyDrop::new(fiber), gone: false, waiter, strand: Cell::new(ptr::null()) };
        match place {
            Some(key) => {
                slots[key as usize] = slot;
                key
            }
            None => {
                slots.push(slot);
                u32::try_from(slots.len() - 1).expect("a worker has fewer than 2^32 stacks")
            }
        }
    }

    /// Runs fiber `key` until it stops. Only on the worker's own strand.
    #[inline(always)]
    pub(crate) fn enter(&self, key: u32, word: usize) -> Step {
        // SAFETY: as in `add`; and while the fiber runs nothing touches the table, except for the one cell in `introduce`.
        let slot = unsafe { &mut (&mut *self.0.get())[key as usize] };
        debug_assert!(!slot.gone, "a fiber was entered after its end");
        current::set(slot.strand.get());
        slot.fiber.resume_from_defaults(word)
    }

    /// The same for a caller that may be a fiber itself.
    pub(crate) fn enter_from_anywhere(&self, key: u32) -> Step {
        // SAFETY: as in `enter`.
        let slot = unsafe { &mut (&mut *self.0.get())[key as usize] };
        debug_assert!(!slot.gone, "a fiber was entered after its end");
        current::set(slot.strand.get());
        slot.fiber.resume(0)
    }

    /// Which task runs on fiber `key`, which has not ended. Also for a fiber that is about to stop.
    pub(crate) fn task(&self, key: u32) -> Option<TaskId> {
        // SAFETY: as in `introduce`: there is such a slot, and one cell of it is read.
        let strand = unsafe { (*(*self.0.get()).as_ptr().add(key as usize)).strand.get() };
        // SAFETY: null, or introduced; and its fiber has not ended, so it is there.
        let running = unsafe { strand.as_ref() }?.running.get()?;
        Some(running.task().id())
    }

    /// The nursery of the task that runs on fiber `key`, which has not ended. Also for a fiber that is about to stop.
    pub(crate) fn base(&self, key: u32) -> Option<ScopeRef> {
        // SAFETY: as in `task`.
        let strand = unsafe { (*(*self.0.get()).as_ptr().add(key as usize)).strand.get() };
        // SAFETY: as in `task`.
        unsafe { strand.as_ref() }?.base.get()
    }

    /// Whether the task that runs on fiber `key`, which has not ended, unwinds when it goes on, or does so already, since its nursery was cancelled. Also for a fiber that is about to stop.
    pub(crate) fn is_to_unwind(&self, key: u32) -> bool {
        // SAFETY: as in `task`.
        let strand = unsafe { (*(*self.0.get()).as_ptr().add(key as usize)).strand.get() };
        // SAFETY: as in `task`.
        let Some(strand) = (unsafe { strand.as_ref() }) else { return false };
        let is_cancelled = |scope: Option<ScopeRef>| scope.is_some_and(|scope| scope.is_cancelled());
        let is_open_to_it = strand.traces.shields().get() == 0 && is_cancelled(strand.scope.get());
        is_cancelled(strand.base.get()) && (is_open_to_it || strand.traces.unwinding().get())
    }

    /// Which tasks wait on these fibers. Only on the worker's own strand.
    pub(crate) fn labels(&self) -> Vec<TaskLabel> {
        // SAFETY: as in `add`.
        let slots = unsafe { &*self.0.get() };
        slots.iter().filter_map(|slot| slot.running().map(|running| running.task().label())).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: as in `add`.
        unsafe { (&*self.0.get()).is_empty() }
    }

    /// Notes the strand of the running fiber `key`, once, and makes it current. The strand must stay where it is for as long as the fiber exists.
    pub(crate) fn introduce(&self, key: u32, strand: &Strand) {
        // SAFETY: `key` is the running fiber's, so there is such a slot; and of that slot the worker's own strand uses only the fiber until it is back.
        unsafe { (*(*self.0.get()).as_ptr().add(key as usize)).strand.set(strand) };
        current::set(strand);
    }

    /// The strand that ran on fiber `key` until its stack was lost. Only on the worker's own strand.
    pub(crate) fn strand(&self, key: u32) -> StrandRef {
        // SAFETY: as in `add`; and by the invariant the strand is there, for ever.
        unsafe { StrandRef::new((&*self.0.get())[key as usize].strand.get()) }
    }

    /// Drops fiber `key`, which has returned, makes `worker_strand` current in its place, and gives its waiter back to the caller. Only on the worker's own strand.
    pub(crate) fn remove(&self, key: u32, worker_strand: &Strand) -> &'static Waiter {
        current::set(worker_strand); // the strand went with its frame
        // SAFETY: as in `add`.
        let slot = unsafe { &mut (&mut *self.0.get())[key as usize] };
        slot.empty();
        slot.waiter
    }

    /// Ends all fibers that have not ended, by resuming each with `word`, and gives their waiters back. Only on the worker's own strand.
    pub(crate) fn end_all(&self, word: usize, worker_strand: &Strand) -> Vec<&'static Waiter> {
        // SAFETY: as in `add`. The table stays where it is: a fiber that never ran introduces itself first.
        let count = unsafe { (&*self.0.get()).len() };
        let mut waiters = Vec::new();
        for key in 0..count {
            // SAFETY: as in `enter`.
            let slot = unsafe { &mut (&mut *self.0.get())[key] };
            if !slot.gone && !slot.fiber.is_done() {
                let step = slot.fiber.resume(word);
                current::set(worker_strand); // as in `remove`
                debug_assert!(matches!(step, Step::Returned(_)), "a runtime ends when no task is left");
                waiters.push(slot.waiter);
            }
        }
        // SAFETY: as in `add`.
        unsafe { (&mut *self.0.get()).clear() };
        waiters
    }
}
