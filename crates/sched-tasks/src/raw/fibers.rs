//! A worker's fibers.
//!
//! # Invariant
//! A fiber is entered by the trunk of its worker, one at a time; fibers are added only while none runs.
//!
//! # Why it holds
//! `enter` and `add` are called by the trunk alone, which does not run while a fiber does; the table is not `Sync` and belongs to the worker's thread.

use std::{cell::UnsafeCell, rc::Rc};

use mech_fiber::{Fiber, Step};

use crate::strand::Strand;

pub(crate) struct Fibers(UnsafeCell<Vec<Slot>>);

struct Slot {
    fiber: Fiber,
    strand: Rc<Strand>,
}

impl Fibers {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(Vec::new()))
    }

    /// Adds a fiber in the place of one that is gone, or at the end. Trunk only.
    pub(crate) fn add(&self, place: Option<u32>, fiber: Fiber, strand: Rc<Strand>) -> u32 {
        // SAFETY: the trunk runs, so no fiber does, and nobody else has a reference.
        let slots = unsafe { &mut *self.0.get() };
        let slot = Slot { fiber, strand };
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
        super::current::set(&slot.strand);
        slot.fiber.resume_from_defaults(word)
    }

    /// Who runs on fiber `key`. Trunk only.
    pub(crate) fn strand(&self, key: u32) -> Rc<Strand> {
        // SAFETY: as in `add`.
        unsafe { (&*self.0.get())[key as usize].strand.clone() }
    }

    /// All fibers, which are then the caller's. Trunk only.
    pub(crate) fn take(&self) -> Vec<(Fiber, Rc<Strand>)> {
        // SAFETY: as in `add`.
        let slots = std::mem::take(unsafe { &mut *self.0.get() });
        slots.into_iter().map(|slot| (slot.fiber, slot.strand)).collect()
    }
}
