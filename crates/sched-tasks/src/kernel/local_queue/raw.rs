//! A queue of one thread, without a lock and without a borrow flag.
//!
//! Room: mechanism.
//!
//! # Invariant
//! At most one reference to the slots exists at a time, and the slots from `head` up to `tail` are initialised.
//!
//! # Why it holds
//! The queue is not `Sync`, no method calls foreign code (items are `Copy`), and none gives a reference out.

use std::{cell::Cell, mem::MaybeUninit, ptr::NonNull};

pub(crate) struct LocalQueue<T> {
    slots: Cell<NonNull<[MaybeUninit<T>]>>,
    /// Both only grow; the slot is found by masking.
    head: Cell<usize>,
    tail: Cell<usize>,
}

const FIRST_CAPACITY: usize = 64;

fn allocate<T>(capacity: usize) -> NonNull<[MaybeUninit<T>]> {
    NonNull::from(Box::leak(Box::<[T]>::new_uninit_slice(capacity)))
}

impl<T: Copy> LocalQueue<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Cell::new(allocate(FIRST_CAPACITY)), head: Cell::new(0), tail: Cell::new(0) }
    }

    #[inline(always)]
    fn slot(&self, index: usize) -> *mut T {
        let slots = self.slots.get();
        // SAFETY: the mask keeps the index in bounds: the length is a power of two.
        unsafe { slots.cast::<T>().as_ptr().add(index & (slots.len() - 1)) }
    }

    /// Adds at the back.
    #[inline(always)]
    pub(crate) fn push(&self, item: T) {
        let tail = self.tail.get();
        if tail.wrapping_sub(self.head.get()) == self.slots.get().len() {
            self.grow();
        }
        // SAFETY: in bounds, and outside `head..tail`.
        unsafe { self.slot(tail).write(item) };
        self.tail.set(tail.wrapping_add(1));
    }

    /// Takes from the front.
    #[inline(always)]
    pub(crate) fn pop_front(&self) -> Option<T> {
        let item = self.front()?;
        self.head.set(self.head.get().wrapping_add(1));
        Some(item)
    }

    /// Takes from the front and adds at the back. Nothing happens to an empty queue.
    #[inline(always)]
    pub(crate) fn rotate(&self, item: T) {
        let (head, tail) = (self.head.get(), self.tail.get());
        if tail.wrapping_sub(head) == 1 {
            // SAFETY: inside `head..tail`.
            return unsafe { self.slot(head).write(item) }; // the one that goes makes room for the one that comes
        }
        if self.pop_front().is_some() {
            self.push(item);
        }
    }

    /// Takes from the back.
    #[inline(always)]
    pub(crate) fn pop_back(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let last = self.tail.get().wrapping_sub(1);
        self.tail.set(last);
        // SAFETY: it was inside `head..tail`.
        Some(unsafe { self.slot(last).read() })
    }

    /// Takes the first of the `most` at the front that is `wanted`; the others keep their order.
    pub(crate) fn take_first(&self, most: usize, wanted: impl Fn(T) -> bool) -> Option<T> {
        let head = self.head.get();
        // SAFETY: called for places inside `head..tail`; a copy, so there is no reference while `wanted` runs.
        let at = |place: usize| unsafe { self.slot(head.wrapping_add(place)).read() };
        let found = (0..self.len().min(most)).find(|&place| wanted(at(place)))?;
        let taken = at(found);
        for place in (0..found).rev() {
            // SAFETY: `place + 1` is at most `found`, inside `head..tail`.
            unsafe { self.slot(head.wrapping_add(place + 1)).write(at(place)) };
        }
        self.head.set(head.wrapping_add(1));
        Some(taken)
    }

    #[inline(always)]
    pub(crate) fn front(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: not empty, so `head` is inside `head..tail`.
        Some(unsafe { self.slot(self.head.get()).read() })
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.tail.get().wrapping_sub(self.head.get())
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get() == self.tail.get()
    }

    #[cold]
    fn grow(&self) {
        let old = self.slots.get();
        let (head, tail) = (self.head.get(), self.tail.get());
        let new = allocate::<T>(old.len() * 2);
        for index in head..tail {
            // SAFETY: inside `head..tail` of the old slots, and in bounds of the new.
            unsafe { new.cast::<T>().as_ptr().add(index & (new.len() - 1)).write(self.slot(index).read()) };
        }
        self.slots.set(new);
        // SAFETY: made by `allocate`, and replaced.
        drop(unsafe { Box::from_raw(old.as_ptr()) });
    }
}

impl<T> Drop for LocalQueue<T> {
    fn drop(&mut self) {
        // SAFETY: made by `allocate`; items need no drop, being `Copy`.
        drop(unsafe { Box::from_raw(self.slots.get().as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::LocalQueue;

    #[test]
    fn it_keeps_order_while_it_grows_and_goes_round() {
        let queue = LocalQueue::new();
        let mut expected = std::collections::VecDeque::new();
        for n in 0..10_000_u32 {
            queue.push(n);
            expected.push_back(n);
            if n % 3 == 0 {
                assert_eq!(queue.pop_front(), expected.pop_front());
            }
            if n % 7 == 0 {
                assert_eq!(queue.pop_back(), expected.pop_back());
            }
            if n % 5 == 0 {
                queue.rotate(n);
                if expected.pop_front().is_some() {
                    expected.push_back(n);
                }
            }
            assert_eq!(queue.front(), expected.front().copied());
        }
        for wanted in (0..10_000).step_by(97) {
            let found = expected.iter().take(300).position(|n| n % 100 == wanted % 100);
            assert_eq!(queue.take_first(300, |n| n % 100 == wanted % 100), found.and_then(|at| expected.remove(at)));
        }
        assert_eq!(queue.take_first(1000, |n| n > 10_000), None);
        while let Some(n) = queue.pop_front() {
            assert_eq!(Some(n), expected.pop_front());
        }
        assert!(queue.is_empty() && expected.is_empty());
    }
}
