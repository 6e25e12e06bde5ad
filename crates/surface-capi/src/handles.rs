//! Handles: what C holds of a runtime, a nursery, a channel.
//!
//! Room: state. Knows slots and generations; knows nothing of what is in them.
//!
//! ```text
//!   63      56 55            32 31             0
//!   ┌─────────┬────────────────┬────────────────┐
//!   │  kind   │   generation   │     index      │   a handle: a number in the form of a pointer
//!   └─────────┴────────────────┴────────────────┘
//! ```
//!
//! # Invariants
//! 1. A handle is never dereferenced. One that was destroyed is never valid again.
//! 2. What a call has looked up stays until the call returns, also if another destroys it meanwhile.
//!
//! # Why they hold
//! 1. A slot is given out once for each generation, and retired after the last. The kind is never 0, so no pointer to memory of a program looks like a handle.
//! 2. A look-up clones an `Arc`.

use std::{
    any::Any,
    ptr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use crate::codes::{JANUS_INVALID_HANDLE, JANUS_OUT_OF_RESOURCES, Refusal};

/// What a handle can stand for.
pub(crate) trait Held: Any + Send + Sync {
    /// What C calls a pointer to it.
    type Opaque;
    /// The topmost byte of its handles.
    const KIND: u8;
    /// What messages call it, and what makes one.
    const NAME: &'static str;
    const MADE_BY: &'static str;
}

type Object = Arc<dyn Any + Send + Sync>;

#[derive(Default)]
struct Slot {
    generation: u32,
    object: Option<Object>,
}

/// Slots, in chunks that are never moved or freed: each has twice as many as the one before.
struct Table {
    chunks: [OnceLock<Box<[Mutex<Slot>]>>; CHUNKS],
    vacant: Mutex<Vacant>,
}

struct Vacant {
    indices: Vec<u32>,
    /// The first index that was never used.
    next: u32,
}

const CHUNKS: usize = 20;
const FIRST_CHUNK: u32 = 64;
/// So many handles there can be at a time: 67 million.
const SLOTS_MAX: u32 = FIRST_CHUNK * ((1 << CHUNKS) - 1);
const GENERATION_MAX: u32 = (1 << 24) - 1;

static TABLE: Table =
    Table { chunks: [const { OnceLock::new() }; CHUNKS], vacant: Mutex::new(Vacant { indices: Vec::new(), next: 0 }) };

/// A handle, taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Parts {
    kind: u8,
    generation: u32,
    index: u32,
}

impl Parts {
    fn of(handle: usize) -> Self {
        Self { kind: (handle >> 56) as u8, generation: (handle >> 32) as u32 & GENERATION_MAX, index: handle as u32 }
    }

    fn handle(self) -> usize {
        (self.kind as usize) << 56 | (self.generation as usize) << 32 | self.index as usize
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// The slot of an index, if there was one ever.
    fn slot(&self, index: u32) -> Option<&Mutex<Slot>> {
        if index >= SLOTS_MAX {
            return None;
        }
        let (chunk, offset) = place(index);
        self.chunks[chunk].get().map(|slots| &slots[offset])
    }

    fn take_vacant(&self) -> Option<u32> {
        let mut vacant = lock(&self.vacant);
        if let Some(index) = vacant.indices.pop() {
            return Some(index);
        }
        let index = vacant.next;
        if index == SLOTS_MAX {
            return None;
        }
        let (chunk, _) = place(index);
        self.chunks[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| Mutex::default()).collect());
        vacant.next += 1;
        Some(index)
    }
}

/// In which chunk, and where in it.
fn place(index: u32) -> (usize, usize) {
    let position = index + FIRST_CHUNK;
    let chunk = position.ilog2() - FIRST_CHUNK.ilog2();
    (chunk as usize, (position - (FIRST_CHUNK << chunk)) as usize)
}

/// Gives out a handle.
pub(crate) fn insert<T: Held>(object: Arc<T>) -> Result<*mut T::Opaque, Refusal> {
    let Some(index) = TABLE.take_vacant() else {
        return Err(Refusal::new(
            JANUS_OUT_OF_RESOURCES,
            format!("there are {SLOTS_MAX} handles, which is the limit; destroy some that are not used any more"),
        ));
    };
    let mut slot = lock(TABLE.slot(index).expect("its chunk was made"));
    slot.object = Some(object);
    let parts = Parts { kind: T::KIND, generation: slot.generation, index };
    Ok(ptr::without_provenance_mut(parts.handle()))
}

/// What a handle stands for.
#[inline]
pub(crate) fn get<T: Held>(handle: *const T::Opaque) -> Result<Arc<T>, Refusal> {
    let parts = Parts::of(handle.addr());
    let found = TABLE.slot(parts.index).filter(|_| parts.kind == T::KIND).and_then(|slot| {
        let slot = lock(slot);
        slot.object.clone().filter(|_| slot.generation == parts.generation)
    });
    let found = found.and_then(|object| object.downcast::<T>().ok());
    found.ok_or_else(|| refusal::<T>(handle.addr()))
}

/// The same, and from now on it stands for nothing.
pub(crate) fn remove<T: Held>(handle: *const T::Opaque) -> Result<Arc<T>, Refusal> {
    let parts = Parts::of(handle.addr());
    let removed = TABLE.slot(parts.index).filter(|_| parts.kind == T::KIND).and_then(|slot| {
        let mut slot = lock(slot);
        if slot.generation != parts.generation {
            return None;
        }
        let object = slot.object.take()?;
        slot.generation += 1;
        if slot.generation < GENERATION_MAX {
            lock(&TABLE.vacant).indices.push(parts.index);
        } // else the slot is retired: its next generation would be an old one again
        Some(object)
    });
    let removed = removed.and_then(|object| object.downcast::<T>().ok());
    removed.ok_or_else(|| refusal::<T>(handle.addr()))
}

/// Says what is wrong with a handle.
#[cold]
fn refusal<T: Held>(handle: usize) -> Refusal {
    let (name, made_by) = (T::NAME, T::MADE_BY);
    let text = if handle == 0 {
        format!("NULL is not a {name}; pass what `{made_by}` returned, and look whether that is NULL")
    } else if Parts::of(handle).kind != T::KIND {
        format!("{handle:#x} is not a {name}; pass what `{made_by}` returned")
    } else {
        format!("the {name} {handle:#x} was destroyed, or its owner has ended; use no handle after that")
    };
    Refusal::new(JANUS_INVALID_HANDLE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Thing(u32);
    enum Opaque {}

    impl Held for Thing {
        type Opaque = Opaque;
        const KIND: u8 = b'?';
        const NAME: &'static str = "thing";
        const MADE_BY: &'static str = "make";
    }

    #[test]
    fn a_handle_finds_its_object_until_it_is_removed_and_never_after() {
        let first = insert(Arc::new(Thing(1))).unwrap();
        assert_eq!(get::<Thing>(first).unwrap().0, 1);
        remove::<Thing>(first).unwrap();
        let second = insert(Arc::new(Thing(2))).unwrap();
        assert_ne!(first, second);
        assert_eq!(get::<Thing>(first).unwrap_err().code, i64::from(JANUS_INVALID_HANDLE));
        assert!(remove::<Thing>(first).unwrap_err().text.contains("was destroyed"));
        remove::<Thing>(second).unwrap();
    }

    #[test]
    fn what_is_not_a_handle_is_refused() {
        let on_the_stack = 0_u64;
        for wrong in [0, 1, usize::MAX, ptr::from_ref(&on_the_stack).addr(), usize::from(b'?') << 56 | 0xffff_ffff] {
            assert!(get::<Thing>(ptr::without_provenance(wrong)).is_err(), "{wrong:#x}");
            assert!(remove::<Thing>(ptr::without_provenance(wrong)).is_err(), "{wrong:#x}");
        }
    }

    #[test]
    fn places_are_all_different_and_within_their_chunks() {
        let mut seen = std::collections::HashSet::new();
        for index in (0..10_000).chain(SLOTS_MAX - 10..SLOTS_MAX) {
            let (chunk, offset) = place(index);
            assert!(chunk < CHUNKS && offset < (FIRST_CHUNK as usize) << chunk);
            assert!(seen.insert((chunk, offset)));
        }
    }

    #[test]
    fn a_slot_is_retired_before_a_generation_comes_again() {
        let handle = insert(Arc::new(Thing(3))).unwrap();
        let parts = Parts::of(handle.addr());
        lock(TABLE.slot(parts.index).unwrap()).generation = GENERATION_MAX - 1;
        let last = Parts { generation: GENERATION_MAX - 1, ..parts }.handle();
        remove::<Thing>(ptr::without_provenance(last)).unwrap();
        assert!(!lock(&TABLE.vacant).indices.contains(&parts.index));
    }
}
