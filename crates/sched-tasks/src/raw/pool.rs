//! Memory for tasks: a few recently freed blocks per thread, by size.
//!
//! Room: mechanism. Knows sizes; knows nothing of tasks.
//!
//! # Invariant
//! A block in a list is free, was allocated with its class's layout, and belongs to this thread's list alone.
//!
//! # Why it holds
//! Blocks enter by `give`, whose caller gives up the block, and leave by `take`. Lists are thread-local, so no other thread sees them; a block may well be given
//! back on another thread than it was taken on.
//!
//! A thread that frees more than it spawns hands whole chains to the depot, from which a thread that spawns more takes them. A chain in the depot belongs to
//! no thread; the depot's lock hands it over.
//!
//! # Why at all
//! A task that is spawned, run and forgotten costs some 60 ns, of which the general allocator takes half. Its own cache holds 7 blocks of a size, and
//! a block freed by a thief goes back through a lock.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    cell::{Cell, UnsafeCell},
    ptr::{self, NonNull},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use mech_sync::SpinLock;

/// Sizes of blocks are `GRAIN` apart, and `TAIL` more than a multiple of it: a block of the general allocator has a word of its own, and with that is such a multiple.
const GRAIN: usize = 16;
const TAIL: usize = size_of::<usize>();
const CLASSES: usize = 32;
const ALIGN: usize = 16;
/// Blocks a thread keeps per class, and how many it hands over when it has more.
const KEEP: u32 = 128;
const CHAIN: u32 = KEEP / 2;
/// All depots together keep at most so many bytes: what a burst of a million small tasks leaves for the next one. The general allocator merges what it gets back, and splits it again, which takes as long
/// as all the rest of a task.
const DEPOTS_BYTES_MAX: usize = 64 << 20;

struct Pool {
    lists: [Cell<*mut Free>; CLASSES],
    counts: [Cell<u32>; CLASSES],
}

/// What a free block holds.
struct Free {
    next: *mut Free,
}

/// Free blocks, linked, `CHAIN` of them.
struct Chain(*mut Free);

// SAFETY: free memory, which any thread may use; the pointer has one owner.
unsafe impl Send for Chain {}

static DEPOTS: [Depot; CLASSES] =
    [const { Depot { chains: SpinLock::new(Vec::new()), count: AtomicUsize::new(0) } }; CLASSES];

/// How many bytes the depots keep.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Depot {
    chains: SpinLock<Vec<Chain>>,
    /// How many chains there are, or were a moment ago: a thread that needs memory takes no lock to find nothing.
    count: AtomicUsize,
}

/// A chain out of the depot of `class`.
fn take_chain(class: usize) -> Option<Chain> {
    let depot = &DEPOTS[class];
    let mut chains = depot.chains.lock();
    let chain = chains.pop()?;
    depot.count.store(chains.len(), Relaxed);
    KEPT_BYTES.fetch_sub(chain_bytes(class), Relaxed);
    Some(chain)
}

/// Puts a chain into the depot of `class`; gives it back if the depots are full.
fn give_chain(class: usize, chain: Chain) -> Result<(), Chain> {
    let bytes = chain_bytes(class);
    if KEPT_BYTES.fetch_add(bytes, Relaxed) + bytes > DEPOTS_BYTES_MAX {
        KEPT_BYTES.fetch_sub(bytes, Relaxed);
        return Err(chain);
    }
    let depot = &DEPOTS[class];
    let mut chains = depot.chains.lock();
    chains.push(chain);
    depot.count.store(chains.len(), Relaxed);
    Ok(())
}

const fn chain_bytes(class: usize) -> usize {
    CHAIN as usize * layout_of(class).size()
}

thread_local! {
    static POOL: UnsafeCell<Pool> = const {
        UnsafeCell::new(Pool {
            lists: [const { Cell::new(ptr::null_mut()) }; CLASSES],
            counts: [const { Cell::new(0) }; CLASSES],
        })
    };
    static CLEANER: Cleaner = const { Cleaner };
}

/// Frees the thread's blocks when it ends.
struct Cleaner;

impl Drop for Cleaner {
    fn drop(&mut self) {
        with_pool(|pool| {
            for (class, list) in pool.lists.iter().enumerate() {
                let blocks = list.replace(ptr::null_mut());
                pool.counts[class].set(0);
                free_all(blocks, class);
            }
        });
    }
}

#[inline(always)]
fn with_pool<R>(f: impl FnOnce(&Pool) -> R) -> R {
    // SAFETY: only ever borrowed shared; the cells do the rest. `Pool` needs no drop, so it is there until the thread is gone.
    POOL.with(|pool| f(unsafe { &*pool.get() }))
}

#[inline(always)]
const fn class_of(layout: Layout) -> Option<usize> {
    let class = layout.size().saturating_sub(TAIL).div_ceil(GRAIN);
    if class < CLASSES && layout.align() <= ALIGN { Some(class) } else { None }
}

const fn layout_of(class: usize) -> Layout {
    match Layout::from_size_align(class * GRAIN + TAIL, ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("a class is a multiple of its alignment"),
    }
}

/// Puts `value` into a block of memory.
pub(super) fn boxed<T>(value: T) -> NonNull<T> {
    let block = take::<T>();
    // SAFETY: large enough, aligned, and ours.
    unsafe { block.write(value) };
    block
}

/// A block of memory for a `T`, uninitialised.
#[inline(always)]
pub(super) fn take<T>() -> NonNull<T> {
    let layout = Layout::new::<T>();
    let block = match const { class_of(Layout::new::<T>()) } {
        Some(class) => take_of(class),
        None => fresh(layout),
    };
    // SAFETY: neither a list nor the allocator gives null.
    unsafe { NonNull::new_unchecked(block.cast()) }
}

/// A block of `class`. Not generic: in the crate of a caller the thread's lists would be reached by a call through a pointer.
#[inline(never)]
fn take_of(class: usize) -> *mut u8 {
    with_pool(|pool| {
        let list = &pool.lists[class];
        let mut first = list.get();
        if first.is_null() {
            first = restock(pool, class);
            if first.is_null() {
                return fresh(layout_of(class));
            }
        }
        // SAFETY: a block in a list is free and holds its link.
        list.set(unsafe { (*first).next });
        pool.counts[class].set(pool.counts[class].get() - 1);
        first.cast()
    })
}

/// Drops the value and gives its block back.
///
/// # Safety
/// `block` came from [`boxed`] with the same `T`, and is not used again.
#[inline]
pub(super) unsafe fn unbox<T>(block: NonNull<T>) {
    // SAFETY: the caller gives it up.
    unsafe { block.drop_in_place() };
    match const { class_of(Layout::new::<T>()) } {
        // SAFETY: large enough for a link, as every block of a class, and ours.
        Some(class) => unsafe { give(block.as_ptr().cast(), class) },
        // SAFETY: allocated with this layout by `boxed`.
        None => unsafe { dealloc(block.as_ptr().cast(), Layout::new::<T>()) },
    }
}

/// Gives a block of `class` back. Not generic, as `take_of`.
///
/// # Safety
/// It is a block of that class, and the caller gives it up.
#[inline(never)]
unsafe fn give(block: *mut Free, class: usize) {
    with_pool(|pool| {
        let count = pool.counts[class].get();
        if count.wrapping_sub(1) >= KEEP - 1 {
            make_room(pool, class, count);
        }
        let list = &pool.lists[class];
        // SAFETY: as the caller promised.
        unsafe { block.write(Free { next: list.get() }) };
        list.set(block);
        pool.counts[class].set(pool.counts[class].get() + 1);
    });
}

/// The list of `class` has none, or as many as a thread keeps.
#[cold]
fn make_room(pool: &Pool, class: usize, count: u32) {
    if count == 0 {
        let _ = CLEANER.try_with(|_| ()); // makes sure that it will run
    } else {
        hand_over(pool, class);
    }
}

/// Takes a chain from the depot into the empty list of `class`. Null if there is none.
#[cold]
fn restock(pool: &Pool, class: usize) -> *mut Free {
    if DEPOTS[class].count.load(Relaxed) == 0 {
        return ptr::null_mut();
    }
    let Some(Chain(first)) = take_chain(class) else { return ptr::null_mut() };
    pool.lists[class].set(first);
    pool.counts[class].set(CHAIN);
    first
}

/// Gives `CHAIN` blocks of the list to the depot, or back to the allocator if the depots are full.
#[cold]
fn hand_over(pool: &Pool, class: usize) {
    let first = pool.lists[class].get();
    let mut last = first;
    for _ in 1..CHAIN {
        // SAFETY: the list has `KEEP` blocks, which hold their links.
        last = unsafe { (*last).next };
    }
    // SAFETY: as above.
    let rest = unsafe { std::mem::replace(&mut (*last).next, ptr::null_mut()) };
    pool.lists[class].set(rest);
    pool.counts[class].set(KEEP - CHAIN);
    if let Err(Chain(first)) = give_chain(class, Chain(first)) {
        free_all(first, class);
    }
}

/// Frees linked blocks.
fn free_all(mut next: *mut Free, class: usize) {
    while let Some(block) = NonNull::new(next) {
        // SAFETY: a free block holds its link.
        next = unsafe { block.as_ref().next };
        // SAFETY: allocated with this layout, and in no list any more.
        unsafe { dealloc(block.as_ptr().cast(), layout_of(class)) };
    }
}

#[cold]
fn fresh(layout: Layout) -> *mut u8 {
    // SAFETY: no layout here has size zero.
    let block = unsafe { alloc(layout) };
    if block.is_null() {
        handle_alloc_error(layout);
    }
    block
}
