//! Which stack is free: a slab of guarded stacks, reused warm, bounded when idle.
//!
//! Room: mechanism. Knows stacks by number; knows nothing of what runs on them.
//!
//! # Invariant
//! A stack has one owner: a [`Stack`] value, one of the free lists, the batch that is being trimmed, or the quarantine,
//! which no stack leaves. Free stacks hold at most `warm_bytes` of memory. While fewer than `max_stacks` are in use,
//! and no more are quarantined than there are spare ones, there is one to take.
//!
//! # Why it holds
//! Numbers move between lists only under the lock, and `Stack` is not `Clone`. A freed stack is charged before it joins a
//! list: first at its full size, which needs no system call (`recent`, up to half of `warm_bytes`). When half of that is
//! reached, the thread that freed the last one trims: it takes them off the list as a batch, and gives back all but the first
//! two pages of each (`warm`, up to the other half), or all. They stay charged until that is done.
//!
//! One thread trims at a time, so that at most `batch_max` free stacks are on no list. So many spare ones there are.
//! Others add to `recent` meanwhile, and if that is full give back what they free, before the number is free.
//!
//! # Why batches
//! After a burst a hundred thousand stacks are given back. One by one that is a system call each, and worse, an interrupt of
//! every other CPU that runs this process each: 5 µs on two CPUs, more than to unwind the fiber. A batch in the order of
//! addresses needs one of either.
//!
//! # Rejected
//! A list per thread: the runtime above keeps warm fibers per worker already. To count pages by `mincore` and keep those of
//! deep stacks, too: a system call for each stack, 1.6 µs while others fault pages in. To wait in `take` for the thread
//! that trims: some spare addresses do as well.

use std::fmt;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::StackError;
use crate::header::Header;
use crate::memory::{self, GuardKind};

/// How many different offsets in its last page a stack may begin at, and how far apart they are (cache colouring). At
/// most 0.9 KB of the page are lost to it.
const COLOURS: usize = 8;
const COLOUR_BYTES: usize = 128;

/// What the bookkeeping and the different beginnings take at most of the top of a stack.
pub(crate) const TOP_BYTES: usize = mem::size_of::<Header>() + COLOURS * COLOUR_BYTES;

/// The most stacks that are trimmed together: what one system call takes.
const BATCH_MAX: usize = memory::AT_ONCE_MAX;

/// So many pages a free stack keeps that was trimmed: where the frames of a new task begin, and those of a nursery that it opens. With one page a tree of a
/// million tasks spent a tenth of its time in page faults.
const WARM_PAGES: usize = 2;

/// Slabs whose owner is done, waiting for the next [`Slab::reserve`] of their shape.
static RETIRED: Mutex<Vec<&'static Slab>> = Mutex::new(Vec::new());

/// The size of a slab and of its stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabOptions {
    /// Usable bytes of one stack: a multiple of the page size from 16 KiB to 1 GiB. A stack
    /// commits only the pages it touches. Up to 1 KB at the top is bookkeeping.
    pub stack_bytes: usize,
    /// How many stacks may be in use at once.
    pub max_stacks: usize,
    /// How much memory free stacks may keep for their next user.
    pub warm_bytes: usize,
}

impl Default for SlabOptions {
    fn default() -> Self {
        Self { stack_bytes: 256 << 10, max_stacks: 1 << 20, warm_bytes: 64 << 20 }
    }
}

/// What a slab holds at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlabStats {
    /// Stacks that are in use.
    pub in_use: usize,
    /// Free stacks that kept their memory.
    pub free_warm: usize,
    /// Free stacks that were used once and whose memory was given back.
    pub free_cold: usize,
    /// Stacks lost to an overflow: never reused, readable for ever.
    pub quarantined: usize,
    /// How the stacks are kept apart.
    pub guard: GuardKind,
    /// How many stacks may be in use at once.
    pub max_stacks: usize,
}

/// One reserved range of addresses, cut into guarded stacks.
///
/// Lives for ever: a retired slab is recycled, its addresses are never unmapped. So an address
/// inside a stack, even a quarantined one, stays readable.
pub struct Slab {
    start: usize,
    slot_bytes: usize,
    stack_bytes: usize,
    max_stacks: usize,
    /// `max_stacks` and some spare ones, so that neither a few overflows nor a batch that is being trimmed lowers the limit.
    slots: u32,
    /// The most stacks that are trimmed together.
    batch_max: usize,
    guard: GuardKind,
    lists: Mutex<Lists>,
}

/// The owner of each stack. Every number below `fresh` is in exactly one list or in use.
struct Lists {
    /// Free, with memory, charged at full size: last freed last.
    recent: Vec<u32>,
    /// Free, with [`WARM_PAGES`] of memory: last trimmed last.
    warm: Vec<u32>,
    /// The batch that a thread trims: how many stacks, charged at full size.
    trimmed: usize,
    /// What all charges together may reach.
    warm_limit_pages: usize,
    /// Free, guarded, without memory.
    cold: Vec<u32>,
    /// Free, but the kernel refused the guard.
    unguarded: Vec<u32>,
    /// The first number never taken.
    fresh: u32,
    in_use: usize,
    quarantined: usize,
}

impl Lists {
    /// The warmest of the free stacks that have their guards.
    fn pop_guarded(&mut self) -> Option<u32> {
        self.recent.pop().or_else(|| self.warm.pop()).or_else(|| self.cold.pop())
    }

    /// How many more `warm` may hold.
    fn warm_room(&self) -> usize {
        ((self.warm_limit_pages - self.warm_limit_pages / 2) / WARM_PAGES).saturating_sub(self.warm.len())
    }
}

impl Slab {
    /// Reserves addresses for `options.max_stacks` stacks, or recycles a retired slab of that
    /// shape.
    ///
    /// # Errors
    /// When a size is out of range, the kernel refuses the addresses, or guards have no effect here; the error says which.
    pub fn reserve(options: SlabOptions) -> Result<&'static Slab, StackError> {
        Self::reserve_with(options, None)
    }

    /// As [`Slab::reserve`], with the kind of guard chosen by the caller: for tests of old kernels.
    #[doc(hidden)]
    pub fn reserve_with(options: SlabOptions, guard: Option<GuardKind>) -> Result<&'static Slab, StackError> {
        let SlabOptions { stack_bytes, max_stacks, warm_bytes } = options;
        let warm_limit_pages = warm_bytes / memory::page_bytes();
        let batch_max = (warm_bytes / 2).checked_div(stack_bytes).unwrap_or(0).clamp(1, BATCH_MAX);
        let slots = max_stacks.saturating_add(max_stacks / 64 + 16).saturating_add(batch_max.min(max_stacks));
        let (slot_bytes, bytes) = memory::check_shape(stack_bytes, max_stacks, slots)?;
        if let Some(slab) = Self::recycle(stack_bytes, max_stacks, guard) {
            slab.lock().warm_limit_pages = warm_limit_pages;
            return Ok(slab);
        }
        let start =
            memory::reserve(bytes).map_err(|errno| StackError::Reserve { bytes, max_stacks, stack_bytes, errno })?;
        // SAFETY: just reserved, and no caller knows of it yet.
        let guard = memory::probe(start, guard).inspect_err(|_| unsafe { memory::release(start, bytes) })?;
        let slab = Slab {
            start,
            slot_bytes,
            stack_bytes,
            max_stacks,
            slots: slots as u32,
            batch_max,
            guard,
            lists: Mutex::new(Lists {
                recent: Vec::new(),
                warm: Vec::new(),
                trimmed: 0,
                warm_limit_pages,
                cold: Vec::new(),
                unguarded: Vec::new(),
                fresh: 0,
                in_use: 0,
                quarantined: 0,
            }),
        };
        Ok(Box::leak(Box::new(slab)))
    }

    /// A retired slab of this shape that can still hand out `max_stacks` stacks.
    fn recycle(stack_bytes: usize, max_stacks: usize, guard: Option<GuardKind>) -> Option<&'static Slab> {
        let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
        let fit = retired.iter().position(|slab| {
            let lists = slab.lock();
            slab.stack_bytes == stack_bytes
                && slab.max_stacks == max_stacks
                && guard.is_none_or(|kind| kind == slab.guard)
                && lists.in_use == 0
                && slab.slots as usize - lists.quarantined >= max_stacks + slab.batch_max.min(max_stacks)
        })?;
        Some(retired.swap_remove(fit))
    }

    /// A guarded stack: the one freed last if it is warm, else a cold one, else a new one.
    ///
    /// A fiber asks [`has_room`](crate::has_room) for 4 KiB first: one that overflowed here would
    /// keep the slab's lock.
    ///
    /// # Errors
    /// When `max_stacks` are in use, or the kernel refuses one more guard.
    pub fn take(&'static self) -> Result<Stack, StackError> {
        let mut lists = self.lock();
        let guarded = lists.fresh as usize - lists.unguarded.len();
        if lists.in_use >= self.max_stacks {
            return Err(self.all_in_use(&lists));
        }
        if let Some(index) = lists.pop_guarded() {
            lists.in_use += 1;
            return Ok(self.stack(index));
        }
        let index = match lists.unguarded.pop() {
            Some(index) => index,
            None if lists.fresh == self.slots => return Err(self.all_in_use(&lists)),
            None => {
                lists.fresh += 1;
                lists.fresh - 1
            }
        };
        lists.in_use += 1;
        drop(lists); // the system call below needs no list: `index` is ours
        if let Err(errno) = memory::install(self.guard, self.slot(index)) {
            let mut lists = self.lock();
            lists.in_use -= 1;
            lists.unguarded.push(index);
            return Err(StackError::Guard { guarded, errno });
        }
        Ok(self.stack(index))
    }

    /// What the slab holds now.
    pub fn stats(&self) -> SlabStats {
        let lists = self.lock();
        SlabStats {
            in_use: lists.in_use,
            free_warm: lists.recent.len() + lists.warm.len(),
            free_cold: lists.cold.len(),
            quarantined: lists.quarantined,
            guard: self.guard,
            max_stacks: self.max_stacks,
        }
    }

    /// The owner is done: gives the memory of free stacks back and offers the addresses to a later
    /// [`Slab::reserve`] of the same shape.
    ///
    /// Stacks still in use stay valid; the slab is recycled once they are dropped.
    pub fn retire(&'static self) {
        let mut lists = self.lock();
        lists.warm_limit_pages = 0; // a stack dropped from now on keeps nothing, nor does one that is being trimmed
        let mut batch = mem::take(&mut lists.recent);
        batch.append(&mut lists.warm);
        batch.sort_unstable();
        // SAFETY: they were on free lists, and the lock is held: nothing lives on them.
        unsafe { self.give_back(&batch, 0) };
        lists.cold.extend(batch.into_iter().rev());
        drop(lists);
        let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
        if !retired.iter().any(|other| std::ptr::eq(*other, self)) {
            retired.push(self);
        }
    }

    fn free(&self, index: u32) {
        let full = self.full_pages();
        let mut lists = self.lock();
        let half = lists.warm_limit_pages / 2;
        if (lists.trimmed + lists.recent.len() + 1) * full > half {
            drop(lists);
            // SAFETY: the caller dropped the only `Stack` of this number.
            unsafe { memory::give_back(self.usable(index), self.stack_bytes) };
            lists = self.lock();
            lists.in_use -= 1;
            lists.cold.push(index);
            return;
        }
        lists.in_use -= 1;
        lists.recent.push(index);
        let is_batch = lists.recent.len() * full > half / 2 || lists.recent.len() >= self.batch_max;
        if is_batch && lists.trimmed == 0 {
            self.trim(lists);
        }
    }

    /// Keeps a little of the stacks that were freed longest ago of the recent ones, or nothing.
    #[cold]
    fn trim(&self, mut lists: MutexGuard<'_, Lists>) {
        let count = lists.recent.len().min(self.batch_max);
        let mut batch = Vec::from_iter(lists.recent.drain(..count));
        lists.trimmed = count;
        let kept = count.min(lists.warm_room());
        drop(lists); // the system call below needs no list: the batch is ours
        batch.sort_unstable();
        // SAFETY: they were on a free list, from which we took them: nothing lives on them, and no other has their numbers.
        unsafe { self.give_back(&batch, kept) };
        let mut lists = self.lock();
        let fit = kept.min(lists.warm_room());
        if fit < kept {
            // SAFETY: as above. The slab was retired meanwhile.
            unsafe { self.give_back(&batch[fit..kept], 0) };
        }
        lists.trimmed = 0;
        lists.cold.extend(batch.drain(fit..).rev()); // the lowest is taken first
        lists.warm.extend(batch.into_iter().rev());
    }

    /// Gives the memory of these stacks back, which are in order; of the first `warm` of them all but [`WARM_PAGES`] of
    /// each. The guards between two neighbours stay.
    ///
    /// # Safety
    /// They are the caller's, and nothing lives on them.
    unsafe fn give_back(&self, batch: &[u32], warm: usize) {
        let (warm, cold) = batch.split_at(warm);
        let end = |index| self.slot(index) + self.slot_bytes;
        let below = |index: &u32| self.usable(*index)..end(*index) - WARM_PAGES * memory::page_bytes();
        let whole = |run: &[u32]| self.usable(run[0])..end(run[run.len() - 1]);
        let neighbours = cold.chunk_by(|one, next| one + 1 == *next);
        let ranges = warm.iter().map(below).chain(neighbours.map(whole)).filter(|range| !range.is_empty());
        // SAFETY: parts of stacks, and guards, which hold nothing; the rest is the caller's contract.
        unsafe { memory::give_back_all(&Vec::from_iter(ranges)) };
    }

    fn full_pages(&self) -> usize {
        self.stack_bytes / memory::page_bytes()
    }

    fn all_in_use(&self, lists: &Lists) -> StackError {
        StackError::AllInUse {
            max_stacks: self.max_stacks,
            stack_bytes: self.stack_bytes,
            quarantined: lists.quarantined,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, index: u32) -> usize {
        self.start + index as usize * self.slot_bytes
    }

    fn usable(&self, index: u32) -> usize {
        self.slot(index) + self.slot_bytes - self.stack_bytes
    }

    fn stack(&'static self, index: u32) -> Stack {
        // Neighbours begin at different cache lines, or the tops of all stacks would fight for
        // the same few sets.
        let colour = index as usize % COLOURS * COLOUR_BYTES;
        let top = self.slot(index) + self.slot_bytes - mem::size_of::<Header>() - colour;
        let top = NonZeroUsize::new(top).expect("a mapping never starts at address 0");
        Stack { slab: self, top, index }
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

/// One guarded stack. Dropping it gives it back to its slab.
#[derive(Debug)]
pub struct Stack {
    slab: &'static Slab,
    /// Where frames begin, and where the [`Header`] sits.
    top: NonZeroUsize,
    index: u32,
}

impl Stack {
    /// The number of this stack in its slab.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Takes the stack out of circulation: never reused, its content readable for ever.
    pub fn quarantine(self) {
        let mut lists = self.slab.lock();
        lists.in_use -= 1;
        lists.quarantined += 1;
        drop(lists);
        mem::forget(self);
    }

    /// Usable bytes, bookkeeping included.
    pub(crate) fn bytes(&self) -> usize {
        self.slab.stack_bytes
    }

    /// The guard: an access inside is an overflow.
    pub(crate) fn guard(&self) -> std::ops::Range<usize> {
        self.slab.slot(self.index)..self.slab.usable(self.index)
    }

    pub(crate) fn guard_kind(&self) -> GuardKind {
        self.slab.guard
    }

    pub(crate) fn header(&self) -> *mut Header {
        self.top.get() as *mut Header
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.slab.free(self.index);
    }
}

// SAFETY:
// - Guarded: `take` hands out a stack only after `memory::install` succeeded for its number.
// - Large enough: `check_shape` asks for 16 KiB, of which `Header` takes less than one page.
// - Aligned: `top` is a page end minus multiples of 64.
unsafe impl corosensei::stack::Stack for Stack {
    #[inline]
    fn base(&self) -> corosensei::stack::StackPointer {
        self.top
    }

    #[inline]
    fn limit(&self) -> corosensei::stack::StackPointer {
        NonZeroUsize::new(self.slab.slot(self.index)).expect("as in `Slab::stack`")
    }
}
