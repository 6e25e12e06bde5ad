//! A line: items in the order they came, each with a number. Its owner takes from both ends, thieves take the oldest.
//!
//! Room: mechanism. Knows order and numbers; knows nothing of what waits in it.
//!
//! # Invariants
//! Every pushed item is taken once. Numbers only grow along the line. `len` never reads zero while an item pushed before a SeqCst fence of the reader is in
//! the line.
//!
//! # Why they hold
//! A lock guards the line, and `len` is stored while it is held. The lock orders the items; `len` only says whether to take it. A publisher fences after `push` (see
//! `idle.rs`), a worker before it looks.
//!
//! # Rejected
//! The deque of `deque.rs`: 4 KiB more for each line, and a line is one of many of a worker, most of them empty.
//!
//! Checked by `tests/loom/line.rs`: if `len` is stored after the lock was released, `an_item_of_a_line_is_taken_once` fails.

use std::collections::VecDeque;

use crate::{
    spin::SpinLock,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        or_planted,
    },
};

/// Items in the order they came.
#[derive(Debug)]
pub struct Line<T> {
    len: AtomicUsize,
    numbered: SpinLock<Numbered<T>>,
}

#[derive(Debug)]
struct Numbered<T> {
    items: VecDeque<(u64, T)>,
    next: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        let numbered = Numbered { items: VecDeque::new(), next: 0 };
        Self { len: AtomicUsize::new(0), numbered: SpinLock::new(numbered) }
    }
}

impl<T> Line<T> {
    /// Adds an item behind all others.
    pub fn push(&self, item: T) {
        let mut numbered = self.numbered.lock();
        let number = numbered.next;
        numbered.next += 1;
        numbered.items.push_back((number, item));
        self.len.store(numbered.items.len(), Relaxed);
    }

    #[inline]
    fn take(&self, take: impl FnOnce(&mut VecDeque<(u64, T)>) -> Option<(u64, T)>) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut numbered = self.numbered.lock();
        let taken = take(&mut numbered.items);
        let left = numbered.items.len();
        self.len.store(or_planted!(left, "line-len-outside-lock" => { drop(numbered); left }), Relaxed);
        taken.map(|(_, item)| item)
    }

    /// Takes what came first.
    pub fn pop_oldest(&self) -> Option<T> {
        self.take(VecDeque::pop_front)
    }

    /// Takes what came last.
    pub fn pop_newest(&self) -> Option<T> {
        self.take(VecDeque::pop_back)
    }

    /// Takes what came last, if it is `wanted`.
    pub fn pop_newest_if(&self, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        self.take(|items| items.pop_back_if(|(_, item)| wanted(item)))
    }

    /// Takes all that are `wanted`, oldest first. The others keep their order. Looks at every item while the line is locked.
    ///
    /// ```
    /// use mech_sync::Line;
    ///
    /// let line = Line::default();
    /// (1..6).for_each(|item| line.push(item));
    /// assert_eq!(line.extract(|item| item % 2 == 0), [2, 4]);
    /// assert_eq!((line.pop_oldest(), line.pop_newest(), line.len()), (Some(1), Some(5), 1));
    /// ```
    pub fn extract(&self, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut numbered = self.numbered.lock();
        let mut taken = Vec::new();
        for (number, item) in std::mem::take(&mut numbered.items) {
            if wanted(&item) {
                taken.push(item);
            } else {
                numbered.items.push_back((number, item));
            }
        }
        self.len.store(numbered.items.len(), Relaxed);
        taken
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

    /// The number that the next item gets.
    pub fn mark(&self) -> u64 {
        self.numbered.lock().next
    }

    /// Only the oldest item, if there is one, came before this mark.
    pub fn mark_behind_oldest(&self) -> u64 {
        let numbered = self.numbered.lock();
        numbered.items.front().map_or(numbered.next, |(number, _)| number + 1)
    }

    /// Whether all items that came before `mark` are gone.
    pub fn has_passed(&self, mark: u64) -> bool {
        self.is_empty() || self.numbered.lock().items.front().is_none_or(|(number, _)| *number >= mark)
    }
}
