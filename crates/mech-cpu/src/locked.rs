//! Memory that is there before it is used, and stays.
//!
//! Room: mechanism.
//!
//! # Invariants
//! - Every page of an [`Arena`] was touched when it was made. If [`Arena::is_locked`], none is ever swapped out while it lives: reading or writing it causes no page fault.
//! - No two [`Locked`] of an arena share a page, and none outlives it.
//!
//! # Why they hold
//! The pages are a mapping of its own, of which each page is in the list of free ones or in one `Locked`, which gives its pages back when it is dropped and keeps the arena until then.

use std::fs;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// So much of the memory that is available may be taken at once: the rest of the machine needs some, too.
const PART_OF_AVAILABLE: u64 = 2;

fn page_bytes() -> usize {
    // SAFETY: the call takes a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize
}

/// How much memory could be used without swapping, in bytes; none if the system does not say.
fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Pages for [`Locked`] values.
#[derive(Debug)]
pub struct Arena {
    /// None if it is empty.
    start: Option<NonNull<u8>>,
    bytes: usize,
    is_locked: bool,
    /// Free pages: the first byte and how many bytes, in order, no two of them neighbours.
    free: Mutex<Vec<(usize, usize)>>,
}

// SAFETY: the pages are given out by the list, which is behind a lock; the rest does not change.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// So many bytes, in whole pages. Memory that may not be locked (`ulimit -l`) is only touched.
    pub fn new(bytes: u64) -> io::Result<Arc<Self>> {
        let error = |text: String| io::Error::new(io::ErrorKind::OutOfMemory, text);
        if let Some(available) = available_bytes().filter(|available| bytes > available / PART_OF_AVAILABLE) {
            return Err(error(format!("{bytes} bytes are more than half of the {available} that are available")));
        }
        let whole = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_next_multiple_of(page_bytes()));
        let Some(bytes) = whole.filter(|bytes| isize::try_from(*bytes).is_ok()) else {
            return Err(error(format!("{bytes} bytes are more than there are addresses")));
        };
        if bytes == 0 {
            return Ok(Arc::new(Self { start: None, bytes, is_locked: true, free: Mutex::default() }));
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, at an address of the system's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is there, and of that size. That it cannot be locked changes nothing of it.
        let is_locked = unsafe { libc::mlock(start, bytes) } == 0;
        let start = NonNull::new(start.cast::<u8>()).expect("a mapping is not at address 0");
        for page in (0..bytes).step_by(page_bytes()) {
            // SAFETY: within the mapping, which is ours alone. Written as volatile, so that the write is not left out.
            unsafe { start.add(page).write_volatile(0) };
        }
        Ok(Arc::new(Self { start: Some(start), bytes, is_locked, free: Mutex::new(vec![(0, bytes)]) }))
    }

    /// Whether the system keeps it in memory, whatever happens.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// How many bytes are free, in whole pages; they need not be in one piece.
    pub fn free_bytes(&self) -> usize {
        self.list().iter().map(|(_, bytes)| bytes).sum()
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<(usize, usize)>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes so many bytes, whole pages, from the first piece that has them.
    fn take(&self, bytes: usize) -> Option<usize> {
        let mut free = self.list();
        let place = free.iter().position(|(_, there)| *there >= bytes)?;
        let (start, there) = free[place];
        match there - bytes {
            0 => _ = free.remove(place),
            rest => free[place] = (start + bytes, rest),
        }
        Some(start)
    }

    fn give_back(&self, start: usize, bytes: usize) {
        let mut free = self.list();
        let place = free.partition_point(|(other, _)| *other < start);
        free.insert(place, (start, bytes));
        if free.get(place + 1).is_some_and(|(next, _)| start + bytes == *next) {
            free[place].1 += free.remove(place + 1).1;
        }
        if place > 0 && free[place - 1].0 + free[place - 1].1 == start {
            free[place - 1].1 += free.remove(place).1;
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            // SAFETY: the mapping is ours, and no `Locked` is left. To unmap it unlocks it.
            unsafe { libc::munmap(start.as_ptr().cast(), self.bytes) };
        }
    }
}

/// Numbers, or whatever else is plain, in pages of an [`Arena`].
pub struct Locked<T> {
    start: NonNull<T>,
    len: usize,
    /// Where its pages are, and how many bytes.
    pages: (usize, usize),
    arena: Arc<Arena>,
}

// SAFETY: it owns its values as a `Box<[T]>` does.
unsafe impl<T: Send> Send for Locked<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Locked<T> {}

/// Why an arena has no room for a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// Values that have to be aligned to more than a page.
    Alignment {
        /// To so many bytes.
        wanted: usize,
        /// The bytes of a page.
        page: usize,
    },
    /// More than is free in one piece.
    Bytes {
        /// In whole pages; as many as can be counted.
        wanted: usize,
        /// In all.
        free: usize,
    },
}

impl<T: Copy + Default> Locked<T> {
    /// So many values, all of them the default.
    pub fn new(arena: &Arc<Arena>, len: usize) -> Result<Self, NoRoom> {
        let page = page_bytes();
        if align_of::<T>() > page {
            return Err(NoRoom::Alignment { wanted: align_of::<T>(), page });
        }
        let bytes = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_next_multiple_of(page));
        let no_room = |wanted| NoRoom::Bytes { wanted, free: arena.free_bytes() };
        let bytes = bytes.ok_or_else(|| no_room(usize::MAX))?;
        if bytes == 0 {
            return Ok(Self { start: NonNull::dangling(), len, pages: (0, 0), arena: arena.clone() });
        }
        let first = arena.take(bytes).ok_or_else(|| no_room(bytes))?;
        let base = arena.start.expect("an arena with free pages has a mapping");
        // SAFETY: the pages from `first` on are in the mapping, and now ours alone.
        let start = unsafe { base.add(first) }.cast::<T>();
        for index in 0..len {
            // SAFETY: there is room for `len` values, aligned to a page and so for `T`.
            unsafe { start.add(index).write(T::default()) };
        }
        Ok(Self { start, len, pages: (first, bytes), arena: arena.clone() })
    }
}

impl<T> Locked<T> {
    /// Whether the system keeps it in memory, whatever happens.
    pub fn is_locked(&self) -> bool {
        self.arena.is_locked()
    }
}

impl<T> Deref for Locked<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` wrote `len` values there, if they have a size; they live as long as the arena, which we keep.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and we are borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Locked<T> {
    fn drop(&mut self) {
        // Values that are `Copy` have no destructor.
        let (first, bytes) = self.pages;
        if bytes > 0 {
            self.arena.give_back(first, bytes);
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Locked<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Locked").field("len", &self.len).field("is_locked", &self.is_locked()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_holds_what_was_written_and_the_next_one_begins_anew() {
        let arena = Arena::new(40_000).unwrap();
        for _ in 0..2 {
            let mut buffer = Locked::<u32>::new(&arena, 10_000).unwrap();
            assert!(buffer.iter().all(|value| *value == 0));
            buffer.iter_mut().zip(0..).for_each(|(value, number)| *value = number);
            assert_eq!((buffer[9_999], buffer.len()), (9_999, 10_000));
            assert!(Locked::<u8>::new(&arena, 1).is_err(), "all of it is taken");
        }
    }

    #[test]
    fn pages_that_come_back_are_one_piece_again() {
        let page = page_bytes();
        let arena = Arena::new(4 * page as u64).unwrap();
        let mut all: Vec<_> = (0..4).map(|_| Locked::<u8>::new(&arena, 1).unwrap()).collect();
        assert_eq!(arena.free_bytes(), 0);
        for place in [1, 2, 0, 0] {
            drop(all.remove(place));
        }
        assert_eq!(Locked::<u8>::new(&arena, 4 * page).unwrap().len(), 4 * page);
    }

    #[test]
    fn what_has_no_room_is_refused_with_its_numbers() {
        let arena = Arena::new(1).unwrap();
        let page = page_bytes();
        assert_eq!(arena.free_bytes(), page);
        assert_eq!(Locked::<u8>::new(&arena, page + 1).unwrap_err(), NoRoom::Bytes { wanted: 2 * page, free: page });
        assert_eq!(
            Locked::<u64>::new(&arena, usize::MAX).unwrap_err(),
            NoRoom::Bytes { wanted: usize::MAX, free: page }
        );
        #[derive(Clone, Copy)]
        #[repr(align(65536))]
        struct Wide;
        impl Default for Wide {
            fn default() -> Self {
                Wide
            }
        }
        assert!(matches!(Locked::<Wide>::new(&arena, 1), Err(NoRoom::Alignment { wanted: 65536, .. })));
        assert!(Locked::<()>::new(&arena, 1 << 40).unwrap().len() == 1 << 40);
        assert!(Locked::<u8>::new(&arena, 0).unwrap().is_empty());
    }

    #[test]
    fn more_than_there_is_is_refused_before_it_is_touched() {
        for bytes in [u64::MAX, 1 << 50] {
            let refused = Arena::new(bytes).unwrap_err().to_string();
            assert!(refused.contains(&format!("{bytes} bytes are more than")), "{refused}");
        }
        assert_eq!(Arena::new(0).unwrap().free_bytes(), 0);
    }

    #[test]
    fn what_is_used_causes_no_page_fault() {
        let faults = || {
            let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: the pointer is to a structure of the right type, which the call fills.
            unsafe {
                libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
                usage.assume_init().ru_minflt
            }
        };
        let arena = Arena::new(4 << 20).unwrap();
        let before = faults();
        let mut buffer = Locked::<u8>::new(&arena, 4 << 20).unwrap();
        buffer.iter_mut().step_by(4096).for_each(|byte| *byte += 1);
        assert!(faults() - before < 4, "{} page faults in 1024 pages", faults() - before);
    }
}
