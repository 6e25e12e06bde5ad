//! A worker's fibers, each with its strand at the top of its own stack.
//!
//! # Invariant
//! A fiber is entered by the trunk of its worker, one at a time; fibers are added only while none runs. A strand that was introduced lives as long as
//! the worker.
//!
//! # Why it holds
//! `enter` and `add` are called by the trunk alone, which does not run while a fiber does; the table is not `Sync` and belongs to the worker's thread. A strand
//! lives in the outermost frame of its fiber, which is left only when the worker exits, and never if its stack was lost: then its content stays as it was.
//!
//! # Rejected
//! Strands on the heap: a page of stack has room for them anyway, and a million of them are four memory mappings more.

use std::{
    cell::{Cell, UnsafeCell},
    ptr,
};

use mech_fiber::{Fiber, Step};
use mech_sync::Seat;

use super::current::{self, StrandRef};
use crate::strand::Strand;

pub(crate) struct Fibers(UnsafeCell<Vec<Slot>>);

struct Slot {
    fiber: Fiber,
    seat: &'static Seat,
    /// Null until the fiber introduced it.
    strand: Cell<*const Strand>,
}

impl Fibers {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(Vec::new()))
    }

    /// Adds a fiber in the place of one that is gone, or at the end. Trunk only.
    pub(crate) fn add(&self, place: Option<u32>, fiber: Fiber, seat: &'static Seat) -> u32 {
        // SAFETY: the trunk runs, so no fiber does, and nobody else has a reference.
        let slots = unsafe { &mut *self.0.get() };
        let slot = Slot { fiber, seat, strand: Cell::new(ptr::null()) };
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
        // SAFETY: as in `add`; and while the fiber runs nothing touches the table, except for the one cell in `introduce`.
        let slot = unsafe { &mut (&mut *self.0.get())[key as usize] };
        current::set(slot.strand.get());
        slot.fiber.resume_from_defaults(word)
    }

    /// Notes the strand of the running fiber `key`, once, and makes it current. The strand must stay where it is for as long as the fiber exists.
    pub(crate) fn introduce(&self, key: u32, strand: &Strand) {
        // SAFETY: the fiber was entered and waits for nothing: the trunk uses of the slot only the fiber until it is back.
        unsafe { (&raw const (*(*self.0.get()).as_ptr().add(key as usize)).strand).as_ref() }
            .expect("a slot is somewhere")
            .set(strand);
        current::set(strand);
    }

    /// Who runs, or ran until its stack was lost, on fiber `key`. Trunk only.
    pub(crate) fn strand(&self, key: u32) -> StrandRef {
        // SAFETY: as in `add`; and by the invariant the strand is there.
        unsafe { StrandRef::new((&*self.0.get())[key as usize].strand.get()) }
    }

    /// All fibers, which are then the caller's. Trunk only.
    pub(crate) fn take(&self) -> Vec<(Fiber, &'static Seat)> {
        // SAFETY: as in `add`.
        let slots = std::mem::take(unsafe { &mut *self.0.get() });
        slots.into_iter().map(|slot| (slot.fiber, slot.seat)).collect()
    }
}
