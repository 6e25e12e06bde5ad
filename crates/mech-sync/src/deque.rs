//! Unstarted work: the owner at one end, thieves at the other (Chase and Lev, with the fences of Lê et al.).
//!
//! Room: mechanism. Knows raw pointers; knows nothing of what they point to.
//!
//! # Invariant
//! Every pushed pointer is returned exactly once: by `pop`, by `pop_oldest` or by one `steal`.
//!
//! # Why it holds
//! Items live at indices `top..bottom`. Only the owner moves `bottom`; `top` only grows, by CAS, so each
//! index below `bottom` is handed out once. The one contested case is the last item: the owner lowers
//! `bottom`, fences and reads `top`; a thief reads `top`, fences and reads `bottom`. Two SeqCst fences have
//! one order, so either the thief sees the lowered `bottom`, or the owner sees the raised `top` and
//! settles by CAS.
//!
//! Every store of `bottom` is a Release, also the one by which `pop` lowers it: a thief may learn of an item from any of them,
//! and then it reads the slot, the buffer and what the item points to. `top_seen` comes from Acquire loads: a push may reuse
//! a slot only after the thief that took the item there has read it.
//!
//! A thief may read a slot from a buffer that was just replaced. Old buffers are kept until the deque is
//! dropped (together they are smaller than the newest), and `grow` copies the items, so the thief reads the same pointer
//! from either; its CAS then decides whether it may keep it.
//!
//! # Rejected
//! crossbeam-deque: loom does not model it, and its epoch pin costs more than our whole `pop`.
//!
//! Checked by `tests/loom/deque.rs`: without the fence in `pop` or the one in `steal`, `the_last_item_is_taken_once` fails; if `push` or
//! `pop` lowers or raises `bottom` relaxed, `a_thief_sees_what_it_steals`; if a larger buffer is published relaxed,
//! `a_steal_survives_growth`.
//!
//! Argued but not modelled, because loom lets no load read a store that is yet to come: that `top_seen` must be acquired, and that the last
//! store of `pop` must release. The CASes are SeqCst as in the paper; AcqRel would do.

use std::{cell::Cell, ptr};

use crate::sync::{
    Arc, Mutex, Padded,
    atomic::{
        AtomicIsize, AtomicPtr,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        fence,
    },
    lock, or_planted,
};

#[cfg(not(loom))]
const FIRST_CAPACITY: usize = 256;
#[cfg(loom)]
const FIRST_CAPACITY: usize = 2;

/// The owner's end. It may move to another thread, but two threads never share it.
#[derive(Debug)]
pub struct Deque<T> {
    shared: Arc<Shared<T>>,
    /// The owner's copy of `bottom`, and a lower bound of `top`: a push reads no shared line.
    bottom: Cell<isize>,
    top_seen: Cell<isize>,
    buffer: Cell<*const Buffer<T>>,
}

/// A thief's end.
#[derive(Debug)]
pub struct Stealer<T>(Arc<Shared<T>>);

/// What one attempt to steal brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Steal<T> {
    /// The oldest item.
    Taken(*mut T),
    /// Nothing was there.
    Empty,
    /// Another thread took it first; there may be more.
    Lost,
}

#[derive(Debug)]
struct Shared<T> {
    top: Padded<AtomicIsize>,
    bottom: Padded<AtomicIsize>,
    buffer: AtomicPtr<Buffer<T>>,
    /// Replaced buffers, which a slow thief may still read.
    retired: Mutex<Vec<Retired<T>>>,
}

#[derive(Debug)]
struct Retired<T>(*mut Buffer<T>);

#[derive(Debug)]
struct Buffer<T> {
    slots: Box<[AtomicPtr<T>]>,
}

// SAFETY: the deque moves pointers between threads and never looks behind them; the thread that pushes a pointer
// promises that the thread that takes it out may use it (`Deque::push` says so).
unsafe impl<T> Send for Deque<T> {}
// SAFETY: as above; `Shared` itself is only atomics, and a lock around the retired buffers.
unsafe impl<T> Send for Stealer<T> {}
// SAFETY: every method of `Stealer` takes `&self` and works on atomics only.
unsafe impl<T> Sync for Stealer<T> {}

impl<T> Clone for Stealer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Buffer<T> {
    fn with_capacity(capacity: usize) -> *mut Self {
        debug_assert!(capacity.is_power_of_two());
        let slots = (0..capacity).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Box::into_raw(Box::new(Self { slots }))
    }

    #[inline(always)]
    fn slot(&self, index: isize) -> &AtomicPtr<T> {
        // The mask keeps the index in bounds, also after it wraps.
        &self.slots[index as usize & (self.slots.len() - 1)]
    }
}

impl<T> Default for Deque<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deque<T> {
    /// An empty deque.
    pub fn new() -> Self {
        Self::starting_at(0)
    }

    /// An empty deque whose first item has this index: for tests that the indices may wrap.
    #[doc(hidden)]
    pub fn starting_at(index: isize) -> Self {
        let buffer = Buffer::with_capacity(FIRST_CAPACITY);
        Self {
            shared: Arc::new(Shared {
                top: Padded(AtomicIsize::new(index)),
                bottom: Padded(AtomicIsize::new(index)),
                buffer: AtomicPtr::new(buffer),
                retired: Mutex::new(Vec::new()),
            }),
            bottom: Cell::new(index),
            top_seen: Cell::new(index),
            buffer: Cell::new(buffer),
        }
    }

    /// A thief's end of this deque.
    pub fn stealer(&self) -> Stealer<T> {
        Stealer(self.shared.clone())
    }

    /// Adds `item` as the newest. The pointer may come out on any thread that holds a [`Stealer`]; the caller
    /// promises that what it points to may be used there.
    #[inline]
    pub fn push(&self, item: *mut T) {
        let bottom = self.bottom.get();
        if bottom.wrapping_sub(self.top_seen.get()) >= self.buffer().slots.len() as isize {
            self.make_room();
        }
        self.buffer().slot(bottom).store(item, Relaxed);
        self.bottom.set(bottom.wrapping_add(1));
        let release = or_planted!(Release, "push-relaxed" => Relaxed); // publishes the slot to thieves
        self.shared.bottom.store(bottom.wrapping_add(1), release);
    }

    /// Takes the newest item.
    #[inline]
    pub fn pop(&self) -> Option<*mut T> {
        let bottom = self.bottom.get();
        if bottom.wrapping_sub(self.shared.top.load(Relaxed)) <= 0 {
            return None; // only the owner adds, so this cannot become false meanwhile
        }
        self.pop_some()
    }

    /// The same for an owner that has just seen that there was something. If there is nothing, it costs a fence.
    #[inline]
    pub fn pop_some(&self) -> Option<*mut T> {
        let bottom = self.bottom.get();
        let newest = bottom.wrapping_sub(1);
        let release = or_planted!(Release, "pop-lowers-relaxed" => Relaxed); // a thief may learn from it of older items
        self.shared.bottom.store(newest, release);
        or_planted!(fence(SeqCst), "pop-without-fence" => ()); // pairs with the fence in `steal`
        let top = self.shared.top.load(Acquire); // the next pushes reuse the slots below: thieves are done with them
        self.top_seen.set(top);
        let left = newest.wrapping_sub(top);
        if left > 0 {
            self.bottom.set(newest);
            return Some(self.buffer().slot(newest).load(Relaxed));
        }
        // The last item, or none: the thread that moves `top` gets it.
        let won = left == 0 && self.shared.top.compare_exchange(top, top.wrapping_add(1), SeqCst, Relaxed).is_ok();
        self.shared.bottom.store(bottom, Release);
        won.then(|| self.buffer().slot(newest).load(Relaxed))
    }

    /// Takes the oldest item, as a thief would.
    pub fn pop_oldest(&self) -> Option<*mut T> {
        loop {
            let top = self.shared.top.load(Relaxed);
            if self.bottom.get().wrapping_sub(top) <= 0 {
                return None;
            }
            let item = self.buffer().slot(top).load(Relaxed);
            if self.shared.top.compare_exchange(top, top.wrapping_add(1), SeqCst, Relaxed).is_ok() {
                return Some(item);
            }
        }
    }

    /// Where the next push goes. Everything now in the deque is before this mark.
    #[inline]
    pub fn mark(&self) -> isize {
        self.bottom.get()
    }

    /// Only the oldest item, if there is one, is before this mark.
    #[inline]
    pub fn mark_behind_oldest(&self) -> isize {
        self.shared.top.load(Relaxed).wrapping_add(1)
    }

    /// A mark that has been passed.
    #[inline]
    pub fn passed_mark(&self) -> isize {
        self.shared.top.load(Relaxed)
    }

    /// Whether everything that stood before `mark` has been taken. Says no for longer than it must if `pop` took items from before
    /// the mark and others were pushed in their place.
    #[inline]
    pub fn has_passed(&self, mark: isize) -> bool {
        let top = self.shared.top.load(Relaxed);
        top.wrapping_sub(mark) >= 0 || self.bottom.get().wrapping_sub(top) <= 0
    }

    /// Whether nothing is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bottom.get().wrapping_sub(self.shared.top.load(Relaxed)) <= 0
    }

    #[inline(always)]
    fn buffer(&self) -> &Buffer<T> {
        // SAFETY: `buffer` is the newest one, made by `new` or `make_room`, and freed only when the last
        // end of the deque is dropped; we hold one.
        unsafe { &*self.buffer.get() }
    }

    #[cold]
    fn make_room(&self) {
        let top = self.shared.top.load(Acquire);
        self.top_seen.set(top);
        let bottom = self.bottom.get();
        let old = self.buffer();
        if bottom.wrapping_sub(top) < old.slots.len() as isize {
            return;
        }
        // Large ones grow faster: each that is left behind is a memory mapping of its own.
        let new = Buffer::with_capacity(old.slots.len() * if old.slots.len() < 4096 { 2 } else { 4 });
        // SAFETY: just made, not yet shared.
        let larger: &Buffer<T> = unsafe { &*new };
        let mut index = top;
        while index != bottom {
            larger.slot(index).store(old.slot(index).load(Relaxed), Relaxed);
            index = index.wrapping_add(1);
        }
        self.buffer.set(new);
        let release = or_planted!(Release, "grow-relaxed" => Relaxed); // publishes the copied slots
        let old = self.shared.buffer.swap(new, release);
        lock(&self.shared.retired).push(Retired(old));
    }
}

impl<T> Stealer<T> {
    /// Tries once to take the oldest item.
    pub fn steal(&self) -> Steal<T> {
        let shared = &*self.0;
        let top = shared.top.load(Relaxed);
        or_planted!(fence(SeqCst), "steal-without-fence" => ()); // pairs with the fence in `pop`; acquires `top`
        let bottom = shared.bottom.load(Acquire);
        if bottom.wrapping_sub(top) <= 0 {
            return Steal::Empty;
        }
        // SAFETY: current or retired, a buffer lives until the last end of the deque is dropped; we are one.
        let buffer = unsafe { &*shared.buffer.load(Acquire) };
        let item = buffer.slot(top).load(Relaxed);
        match shared.top.compare_exchange(top, top.wrapping_add(1), SeqCst, Relaxed) {
            Ok(_) => Steal::Taken(item),
            Err(_) => Steal::Lost,
        }
    }

    /// About how many items are in it.
    pub fn len(&self) -> usize {
        let top = self.0.top.load(Relaxed);
        self.0.bottom.load(Relaxed).wrapping_sub(top).max(0) as usize
    }

    /// Whether it looks empty from here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let newest = self.buffer.load(Relaxed);
        // SAFETY: made by `Buffer::with_capacity`, and no other thread is left to read it.
        drop(unsafe { Box::from_raw(newest) });
    }
}

impl<T> Drop for Retired<T> {
    fn drop(&mut self) {
        // SAFETY: made by `Buffer::with_capacity`, replaced since, and dropped with `Shared`, when no thread is left to
        // read it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
