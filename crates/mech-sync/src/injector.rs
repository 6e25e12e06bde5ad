//! The global queue: work from outside, first in, first out. Every worker looks into it when its own work is done, and
//! now and then before.
//!
//! Room: mechanism.
//!
//! # Invariant
//! Every pushed item is taken once, in the order pushed. `len` never reads zero while an item pushed before a SeqCst fence of the
//! reader is in the queue.
//!
//! # Why it holds
//! A lock guards the queue, and `len` is stored while it is held. The lock orders the items; `len` only says whether to take
//! it. A publisher fences after `push` (see `idle.rs`), a worker before it looks.
//!
//! Checked by `tests/loom/injector.rs`: if `len` is stored after the lock was released, `an_injected_item_is_not_overlooked` fails. With
//! `idle.rs`, `an_injected_item_wakes_a_worker`.

use std::collections::VecDeque;

use crate::{
    spin::SpinLock,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        or_planted,
    },
};

/// A shared first-in, first-out queue.
#[derive(Debug)]
pub struct Injector<T> {
    len: AtomicUsize,
    queue: SpinLock<VecDeque<T>>,
}

impl<T> Default for Injector<T> {
    fn default() -> Self {
        Self { len: AtomicUsize::new(0), queue: SpinLock::new(VecDeque::new()) }
    }
}

impl<T> Injector<T> {
    /// Adds an item at the back.
    pub fn push(&self, item: T) {
        let mut queue = self.queue.lock();
        queue.push_back(item);
        self.len.store(queue.len(), Relaxed);
    }

    /// Takes the oldest item, and hands up to `more` further ones to `keep`, oldest first.
    pub fn pop_batch(&self, more: usize, mut keep: impl FnMut(T)) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut queue = self.queue.lock();
        let first = queue.pop_front();
        let more = more.min(queue.len());
        queue.drain(..more).for_each(&mut keep);
        let left = queue.len();
        self.len.store(or_planted!(left, "len-outside-lock" => { drop(queue); left }), Relaxed);
        first
    }

    /// How many items are in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Whether nothing is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
