//! A bounded queue for many producers and many consumers (after Vyukov). It is the body of a bounded channel. It never
//! blocks; it only says *full* or *empty*.
//!
//! Room: mechanism.
//!
//! # Invariant
//! Every pushed value is popped once, and values come out in the order in which their pushes claimed a slot. `push` fails only if
//! `capacity` values were in the ring, `pop` only if none was.
//!
//! # Why it holds
//! A slot's `turn` says whose it is: `2 * lap` for the pusher of that lap, `2 * lap + 1` for its popper. A side claims an index by CAS on its
//! cursor, so each index has one pusher and one popper; each hands the slot over by a Release store of the next turn, which the
//! other side acquires before it touches the value.
//!
//! # Closing
//! `close` sets a bit in the pushers' cursor. A push claims its slot by CAS on that cursor, so it either claimed before, and its value will be
//! popped, or it fails: what `pop` does not find after the ring was seen closed will never come.
//!
//! # Waiting
//! The cursors move by SeqCst RMW, and *full* and *empty* are decided by SeqCst loads of the cursors. So a waiter that
//! announces itself by a SeqCst RMW and then finds the ring empty is seen by every pusher that looks (SeqCst) for
//! waiters after its push: all four are in one total order. Channels rely on this. loom models fences rather than
//! SeqCst accesses, so under loom the same places have a fence as well.
//!
//! Checked by `tests/loom/ring.rs`: with either handover relaxed `values_pass_through_the_ring_once` fails; without the
//! fences that replace the one total order, `a_waiter_sees_the_ring_change_or_is_seen`; with the bit set in two
//! steps, `a_value_not_found_after_close_never_comes` and `one_of_several_closers_wins`. Also
//! `the_ring_is_full_or_empty_only_if_it_is`.

use std::mem::MaybeUninit;

use crate::sync::{
    Padded, Spin, UnsafeCell,
    atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
    },
    or_planted,
};

/// In `push_at`: nothing more may be pushed.
const CLOSED: u64 = 1 << 63;

/// A bounded queue of `T`.
#[derive(Debug)]
pub struct Ring<T> {
    /// With CLOSED.
    push_at: Padded<AtomicU64>,
    pop_at: Padded<AtomicU64>,
    slots: Box<[Slot<T>]>,
    /// Cursors count `lap << lap_bits | index`, so that any capacity works and nothing is divided. 63 bits do not overflow in a machine's life.
    lap_bits: u32,
}

#[derive(Debug)]
struct Slot<T> {
    turn: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a value goes in on one thread and comes out on another, each slot in the hands of one side at a time.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above; no method gives out a reference to a value.
unsafe impl<T: Send> Sync for Ring<T> {}

fn fence_for_loom() {
    #[cfg(loom)]
    or_planted!(crate::sync::atomic::fence(SeqCst), "ring-without-total-order" => ());
}

impl<T> Ring<T> {
    /// An empty ring.
    ///
    /// # Panics
    /// If `capacity` is zero.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a ring holds at least one value");
        let slots = (0..capacity)
            .map(|_| Slot { turn: AtomicU64::new(0), value: UnsafeCell::new(MaybeUninit::uninit()) })
            .collect();
        Self {
            push_at: Padded(AtomicU64::new(0)),
            pop_at: Padded(AtomicU64::new(0)),
            slots,
            lap_bits: capacity.next_power_of_two().trailing_zeros(),
        }
    }

    /// How many values fit.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// The distance from a cursor to the same slot, one lap on.
    #[inline]
    fn lap_size(&self) -> u64 {
        1 << self.lap_bits
    }

    #[inline]
    fn split(&self, cursor: u64) -> (usize, u64) {
        ((cursor & (self.lap_size() - 1)) as usize, cursor >> self.lap_bits)
    }

    #[inline]
    fn step(&self, cursor: u64) -> u64 {
        let (index, lap) = self.split(cursor);
        if index + 1 < self.slots.len() { cursor + 1 } else { (lap + 1) << self.lap_bits }
    }

    /// Adds a value, or gives it back if the ring is full or closed.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let mut spin = Spin::default();
        let mut cursor = self.push_at.load(Relaxed);
        loop {
            if cursor & CLOSED != 0 {
                return Err(value);
            }
            let (index, lap) = self.split(cursor);
            let slot = &self.slots[index];
            let turn = slot.turn.load(Acquire);
            if turn == 2 * lap {
                match self.push_at.compare_exchange_weak(cursor, self.step(cursor), SeqCst, Relaxed) {
                    Ok(_) => {
                        slot.value.with_mut(|place| {
                            // SAFETY: the CAS gave this index to us alone, and its turn is the pusher's: the popper of the lap
                            // before has handed it over.
                            unsafe { (*place).write(value) };
                        });
                        let release = or_planted!(Release, "push-hands-over-relaxed" => Relaxed);
                        slot.turn.store(turn + 1, release); // to the popper of this lap
                        fence_for_loom();
                        return Ok(());
                    }
                    Err(moved) => cursor = moved,
                }
            } else {
                fence_for_loom();
                // Full if the popper's cursor stands a lap behind; else another thread is between claim and handover.
                if self.pop_at.load(SeqCst) + self.lap_size() == cursor {
                    return Err(value);
                }
                spin.turn();
                cursor = self.push_at.load(Relaxed);
            }
        }
    }

    /// Takes the oldest value, if there is one.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut spin = Spin::default();
        let mut cursor = self.pop_at.load(Relaxed);
        loop {
            let (index, lap) = self.split(cursor);
            let slot = &self.slots[index];
            let turn = slot.turn.load(Acquire);
            if turn == 2 * lap + 1 {
                match self.pop_at.compare_exchange_weak(cursor, self.step(cursor), SeqCst, Relaxed) {
                    Ok(_) => {
                        let value = slot.value.with_mut(|place| {
                            // SAFETY: the CAS gave this index to us alone, and its turn is the popper's: the pusher of this lap
                            // wrote the value and handed it over.
                            unsafe { (*place).assume_init_read() }
                        });
                        let release = or_planted!(Release, "pop-hands-over-relaxed" => Relaxed);
                        slot.turn.store(turn + 1, release); // to the pusher of the next lap
                        fence_for_loom();
                        return Some(value);
                    }
                    Err(moved) => cursor = moved,
                }
            } else {
                fence_for_loom();
                if self.push_at.load(SeqCst) & !CLOSED == cursor {
                    return None;
                }
                spin.turn();
                cursor = self.pop_at.load(Relaxed);
            }
        }
    }

    /// How many values were in it at some moment during the call.
    pub fn len(&self) -> usize {
        fence_for_loom();
        loop {
            let push_at = self.push_at.load(SeqCst) & !CLOSED;
            let pop_at = self.pop_at.load(SeqCst);
            if self.push_at.load(SeqCst) & !CLOSED == push_at {
                let (pushed, push_lap) = self.split(push_at);
                let (popped, pop_lap) = self.split(pop_at);
                return if push_lap == pop_lap { pushed - popped } else { self.slots.len() + pushed - popped };
            }
        }
    }

    /// Whether it was empty at some moment during the call.
    #[inline]
    pub fn is_empty(&self) -> bool {
        fence_for_loom();
        let pop_at = self.pop_at.load(SeqCst);
        self.push_at.load(SeqCst) & !CLOSED == pop_at
    }

    /// Whether it was full at some moment during the call.
    #[inline]
    pub fn is_full(&self) -> bool {
        fence_for_loom();
        let push_at = self.push_at.load(SeqCst) & !CLOSED;
        self.pop_at.load(SeqCst) + self.lap_size() == push_at
    }

    /// Lets nothing more be pushed; what is in it can still be popped. True for the caller that closed it.
    pub fn close(&self) -> bool {
        let was = or_planted!(self.push_at.fetch_or(CLOSED, SeqCst), "close-in-two-steps" => {
            let was = self.push_at.load(SeqCst);
            self.push_at.store(was | CLOSED, SeqCst);
            was
        });
        fence_for_loom();
        was & CLOSED == 0
    }

    /// Whether it was closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        fence_for_loom();
        self.push_at.load(SeqCst) & CLOSED != 0
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
