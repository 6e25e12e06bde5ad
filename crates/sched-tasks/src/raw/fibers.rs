//! A worker's fibers.
//!
//! # Invariant
//! A fiber is entered by the trunk of its worker, one at a time; fibers are added and removed only while none runs. A slot that is `gone` has no fiber.
//!
//! # Why it holds
//! All methods are called by the trunk alone, which does not run while a fiber does; the table is not `Sync` and belongs to the worker's thread. A key is
//! not entered between `remove` and the `add` that takes its place: the worker keeps such keys apart.

use std::{cell::UnsafeCell, mem::ManuallyDrop, rc::Rc};

use mech_fiber::{Fiber, Step};

use crate::strand::Strand;

pub(crate) struct Fibers(UnsafeCell<Vec<Slot>>);

struct Slot {
    /// Dropped when `gone` is set.
    fiber: ManuallyDrop<Fiber>,
    gone: bool,
    strand: Rc<Strand>,
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

impl Drop for Slot {
    fn drop(&mut self) {
        self.empty();
    }
}

impl Fibers {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(Vec::new()))
    }

    /// Adds a fiber in the place of one that is gone, or at the end. Trunk only.
    pub(crate) fn add(&self, place: Option<u32>, fiber: Fiber, strand: Rc<Strand>) -> u32 {
        // SAFETY: the trunk runs, so no fiber does, and nobody else has a reference.
        let slots = unsafe { &mut *self.0.get() };
        let slot = Slot { fiber: ManuallyDrop::new(fiber), gone: false, strand };
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

    /// Runs fiber `key` until it stops. Trunk only.
    #[inline(always)]
    pub(crate) fn enter(&self, key: u32, word: usize) -> Step {
        // SAFETY: as in `add`; and while the fiber runs nothing touches the table.
        let slot = unsafe { &mut (&mut *self.0.get())[key as usize] };
        debug_assert!(!slot.gone, "a fiber was entered after its end");
        super::current::set(&slot.strand);
        slot.fiber.resume_from_defaults(word)
    }

    /// Who runs on fiber `key`. Trunk only.
    pub(crate) fn strand(&self, key: u32) -> Rc<Strand> {
        // SAFETY: as in `add`.
        unsafe { (&*self.0.get())[key as usize].strand.clone() }
    }

    /// Drops fiber `key`, which has returned, and says who ran on it. Trunk only.
    pub(crate) fn remove(&self, key: u32) -> Rc<Strand> {
        // SAFETY: as in `add`.
        let slot = unsafe { &mut (&mut *self.0.get())[key as usize] };
        slot.empty();
        slot.strand.clone()
    }

    /// Ends all fibers that have not ended, by resuming each with `word`, and says who ran on them. Trunk only.
    pub(crate) fn end_all(&self, word: usize) -> Vec<Rc<Strand>> {
        // SAFETY: as in `add`.
        let mut slots = std::mem::take(unsafe { &mut *self.0.get() });
        let there = slots.iter_mut().filter(|slot| !slot.gone && !slot.fiber.is_done());
        there
            .map(|slot| {
                let step = slot.fiber.resume(word);
                debug_assert!(matches!(step, Step::Returned(_)), "a runtime ends when no task is left");
                slot.strand.clone()
            })
            .collect()
    }
}
