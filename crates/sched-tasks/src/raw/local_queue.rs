//! A queue of one thread, without a lock and without a borrow flag.
//!
//! # Invariant
//! At most one reference to the queue exists at a time.
//!
//! # Why it holds
//! It is not `Sync`, no method calls foreign code (items are `Copy`), and no method gives a reference out.

use std::{cell::UnsafeCell, collections::VecDeque};

pub(crate) struct LocalQueue<T>(UnsafeCell<VecDeque<T>>);

impl<T: Copy> LocalQueue<T> {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(VecDeque::with_capacity(64)))
    }

    #[inline(always)]
    fn queue<R>(&self, f: impl FnOnce(&mut VecDeque<T>) -> R) -> R {
        // SAFETY: by the invariant no other reference exists while `f` runs.
        f(unsafe { &mut *self.0.get() })
    }

    #[inline(always)]
    pub(crate) fn push_back(&self, item: T) {
        self.queue(|queue| queue.push_back(item));
    }

    #[inline(always)]
    pub(crate) fn pop_front(&self) -> Option<T> {
        self.queue(VecDeque::pop_front)
    }

    #[inline(always)]
    pub(crate) fn push(&self, item: T) {
        self.push_back(item);
    }

    /// Takes the item that was added last.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<T> {
        self.queue(VecDeque::pop_back)
    }

    #[inline(always)]
    pub(crate) fn front(&self) -> Option<T> {
        self.queue(|queue| queue.front().copied())
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue(|queue| queue.is_empty())
    }
}
