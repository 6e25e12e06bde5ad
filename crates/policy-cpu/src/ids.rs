//! Handles that know when what they name is gone, and the table behind them.
//!
//! Room: values. Knows nothing of what it holds.
//!
//! # Invariant
//! No handle ever names something else than what it was made for: a slot that is used again has another generation. A slot whose generations are used up is not
//! used again.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// Names one thing of a table. Of a thing that is gone it is *stale*, and refused.
pub struct Id<T> {
    index: u32,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// Its number among those that exist now: small, and used again by a later one.
    pub const fn index(self) -> u32 {
        self.index
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.generation) == (other.index, other.generation)
    }
}

impl<T> Eq for Id<T> {}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.index, self.generation).hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

/// A handle names something that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale;

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the handle is stale: what it named is gone")
    }
}

impl core::error::Error for Stale {}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
    next_free: Option<u32>,
}

/// Things with handles. Of a fixed capacity, which is allocated at the beginning.
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Option<u32>,
    len: u32,
}

impl<T> Table<T> {
    pub(crate) fn with_capacity(capacity: u32) -> Self {
        let slot = |index| Slot { generation: 0, value: None, next_free: (index + 1 < capacity).then_some(index + 1) };
        Table { slots: (0..capacity).map(slot).collect(), free: (capacity > 0).then_some(0), len: 0 }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a thing; none if the table is full.
    pub(crate) fn insert(&mut self, value: T) -> Option<Id<T>> {
        let index = self.free?;
        let slot = &mut self.slots[index as usize];
        self.free = slot.next_free.take();
        slot.value = Some(value);
        self.len += 1;
        Some(Id { index, generation: slot.generation, of: PhantomData })
    }

    /// Takes a thing out. Its handles are stale from now on.
    pub(crate) fn remove(&mut self, id: Id<T>) -> Result<T, Stale> {
        self.get(id)?;
        let slot = &mut self.slots[id.index as usize];
        let value = slot.value.take().ok_or(Stale)?;
        self.len -= 1;
        if let Some(generation) = slot.generation.checked_add(1) {
            slot.generation = generation;
            slot.next_free = self.free.replace(id.index);
        }
        Ok(value)
    }

    pub(crate) fn get(&self, id: Id<T>) -> Result<&T, Stale> {
        let slot = self.slots.get(id.index as usize).ok_or(Stale)?;
        slot.value.as_ref().filter(|_| slot.generation == id.generation).ok_or(Stale)
    }

    pub(crate) fn get_mut(&mut self, id: Id<T>) -> Result<&mut T, Stale> {
        let slot = self.slots.get_mut(id.index as usize).ok_or(Stale)?;
        slot.value.as_mut().filter(|_| slot.generation == id.generation).ok_or(Stale)
    }

    /// The handle of what is in a slot.
    pub(crate) fn id_at(&self, index: u32) -> Option<Id<T>> {
        let slot = self.slots.get(index as usize)?;
        slot.value.as_ref().map(|_| Id { index, generation: slot.generation, of: PhantomData })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| {
            let id = Id { index: index as u32, generation: slot.generation, of: PhantomData };
            slot.value.as_ref().map(|value| (id, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_stale_when_its_slot_is_used_again() {
        let mut table = Table::with_capacity(1);
        let first = table.insert('a').unwrap();
        assert_eq!(table.insert('b'), None, "a full table refuses");
        assert_eq!(table.remove(first), Ok('a'));
        let second = table.insert('c').unwrap();
        assert_eq!((first.index(), second.index()), (0, 0));
        assert_eq!((table.get(first), table.get(second)), (Err(Stale), Ok(&'c')));
        assert_eq!(table.remove(first), Err(Stale));
    }

    #[test]
    fn a_slot_without_generations_left_is_not_used_again() {
        let mut table = Table::with_capacity(1);
        table.slots[0].generation = u32::MAX;
        let last = table.insert(()).unwrap();
        table.remove(last).unwrap();
        assert_eq!(table.insert(()), None);
        assert_eq!(table.get(last), Err(Stale));
    }
}
