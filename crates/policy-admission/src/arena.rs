//! Which capability was derived from which, and which are alive.
//!
//! Room: state. Knows slots, generations and the tree of derivations; knows nothing of what a capability allows.
//!
//! # Invariant
//! 1. A capability is alive while the word of its slot equals its generation. The word only ever grows.
//! 2. Every live capability that was derived from a live one hangs below it, so a revocation that walks down finds it.
//!
//! # Why it holds
//! 1. Revoking and forgetting add one; nothing else writes the word. A slot whose word reached the largest number is
//!    not used again, so no generation comes back.
//! 2. Entering a child, revoking and forgetting need `&mut Arena`, that is the ledger's lock. A child enters only below
//!    a parent that is alive at that moment. Handles of children keep the handle of their parent, so a capability that
//!    is forgotten has nothing below.
//!
//! Holders read the word without the lock: a use that overlaps a revocation comes before or after it, and one that starts later is refused.
//!
//! Checked by `tests/loom/main.rs`: with either side of the word relaxed
//! `nothing_is_granted_after_a_revocation_is_seen` fails; with a child entered below a parent that may be dead,
//! `what_is_derived_during_a_revocation_does_not_escape`.
//!
//! # Rejected
//! A flag looked up along the chain of ancestors: revoking is then one store, but every spawn pays a load for each ancestor.

use std::sync::{Arc, atomic::Ordering::*};

use crate::{
    CapId, Kind,
    sync::{AtomicU32, or_planted},
    uses::Uses,
};

/// No generation before this: the number of a name is never zero.
const FIRST: u32 = 1;
/// A slot with this word is empty for ever.
const LAST: u32 = u32::MAX;

#[derive(Default)]
pub(crate) struct Arena {
    slots: Vec<Slot>,
    free: Vec<u32>,
    live: usize,
    /// The uses of capabilities that have ended.
    uses_over: u64,
}

struct Slot {
    word: Arc<AtomicU32>,
    occupied: bool,
    /// Of the occupant; meaningless without one.
    links: Links,
    /// What the audit shows of the occupant.
    account: Option<Account>,
}

/// Kind, label and use count of an occupant.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) kind: Kind,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) uses: Arc<Uses>,
}

/// A tree of slot numbers: each slot knows its parent, its first child and its siblings.
#[derive(Default, Clone, Copy)]
struct Links {
    parent: Option<u32>,
    first_child: Option<u32>,
    previous: Option<u32>,
    next: Option<u32>,
}

impl Arena {
    /// How many are alive.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// How many slots were ever needed at a time.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Enters one below `parent`, or at the top if there is none; `None` if the parent is not alive.
    pub(crate) fn enter(&mut self, parent: Option<CapId>) -> Option<(CapId, Arc<AtomicU32>)> {
        let is_gone = |parent| !or_planted!(self.is_alive(parent), "enter-without-look" => true);
        if parent.is_some_and(is_gone) {
            return None;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = u32::try_from(self.slots.len()).expect("four billion capabilities at a time");
            let word = Arc::new(AtomicU32::new(FIRST));
            self.slots.push(Slot { word, occupied: false, links: Links::default(), account: None });
            slot
        });
        let parent = parent.map(|id| id.slot);
        let next = parent.and_then(|parent| self.links(parent).first_child.replace(slot));
        if let Some(next) = next {
            self.links(next).previous = Some(slot);
        }
        *self.links(slot) = Links { parent, first_child: None, previous: None, next };
        self.live += 1;
        let Slot { word, occupied, .. } = &mut self.slots[slot as usize];
        *occupied = true;
        let word = word.clone();
        Some((CapId { slot, generation: word.load(Relaxed) }, word))
    }

    /// Sets what the audit shows of one that was just entered.
    pub(crate) fn set_account(&mut self, id: CapId, account: Account) {
        self.slots[id.slot as usize].account = Some(account);
    }

    /// The uses of all capabilities, also of those that have ended.
    pub(crate) fn uses(&self) -> u64 {
        self.accounts().fold(self.uses_over, |sum, (_, account)| sum.saturating_add(account.uses.count()))
    }

    /// What the audit shows of those that are alive.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = (CapId, &Account)> {
        let alive = self.slots.iter().enumerate().filter(|(_, slot)| slot.occupied);
        alive.filter_map(|(index, slot)| {
            let id = CapId { slot: index as u32, generation: slot.word.load(Relaxed) };
            slot.account.as_ref().map(|account| (id, account))
        })
    }

    pub(crate) fn is_alive(&self, id: CapId) -> bool {
        // An empty slot's word is the generation of its next occupant: a guessed name must not find that.
        let slot = self.slots.get(id.slot as usize);
        slot.is_some_and(|slot| slot.occupied && slot.word.load(Relaxed) == id.generation)
    }

    /// Whether `id` hangs below `above`, at any depth. Both are alive.
    pub(crate) fn is_below(&self, id: CapId, above: CapId) -> bool {
        let mut at = self.slots[id.slot as usize].links.parent;
        while let Some(slot) = at {
            if slot == above.slot {
                return true;
            }
            at = self.slots[slot as usize].links.parent;
        }
        false
    }

    /// Ends `id` and everything below it; how many that were, or `None` if it is not alive.
    pub(crate) fn revoke(&mut self, id: CapId) -> Option<usize> {
        if !self.is_alive(id) {
            return None;
        }
        self.unlink(id.slot);
        let mut reached = 0;
        let mut below = vec![id.slot]; // a list, not recursion: chains may be of any depth
        while let Some(slot) = below.pop() {
            let mut child = self.links(slot).first_child;
            while let Some(at) = child {
                below.push(at);
                child = self.links(at).next;
            }
            self.vacate(slot);
            reached += 1;
        }
        Some(reached)
    }

    /// Ends `id`, whose last handle is gone; nothing if it was revoked before.
    pub(crate) fn forget(&mut self, id: CapId) {
        if self.is_alive(id) {
            debug_assert!(self.links(id.slot).first_child.is_none(), "a child outlived the handle it keeps");
            self.unlink(id.slot);
            self.vacate(id.slot);
        }
    }

    fn links(&mut self, slot: u32) -> &mut Links {
        &mut self.slots[slot as usize].links
    }

    fn unlink(&mut self, slot: u32) {
        let Links { parent, previous, next, .. } = *self.links(slot);
        match (previous, parent) {
            (Some(previous), _) => self.links(previous).next = next,
            (None, Some(parent)) => self.links(parent).first_child = next,
            (None, None) => {}
        }
        if let Some(next) = next {
            self.links(next).previous = previous;
        }
    }

    /// Moves the word on and frees the slot.
    fn vacate(&mut self, slot: u32) {
        self.live -= 1;
        self.slots[slot as usize].occupied = false;
        // A user checks whether it is alive before it uses it: there will be no more uses.
        let account = self.slots[slot as usize].account.take();
        self.uses_over = self.uses_over.saturating_add(account.map_or(0, |account| account.uses.count()));
        // Pairs with the Acquire in `Node::is_alive`: a user that is refused sees what was done before the revocation.
        let release = or_planted!(Release, "vacate-relaxed" => Relaxed);
        let next = self.slots[slot as usize].word.fetch_add(1, release) + 1;
        if next != LAST {
            self.free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_whose_generations_are_used_up_is_never_used_again() {
        let mut arena = Arena::default();
        let (first, word) = arena.enter(None).unwrap();
        arena.forget(first);
        word.store(LAST - 1, Relaxed);
        let (last, _) = arena.enter(None).unwrap();
        assert_eq!(last, CapId { slot: first.slot, generation: LAST - 1 });
        assert_eq!(arena.revoke(last), Some(1));
        let (other, _) = arena.enter(None).unwrap();
        assert_ne!(other.slot, first.slot);
        assert!(!arena.is_alive(CapId { slot: first.slot, generation: LAST }));
    }

    #[test]
    fn a_guessed_name_of_the_next_occupant_finds_nothing() {
        let mut arena = Arena::default();
        let (id, _) = arena.enter(None).unwrap();
        arena.forget(id);
        let guess = CapId { generation: id.generation + 1, ..id };
        assert_eq!(arena.revoke(guess), None);
        assert_eq!(arena.enter(Some(guess)).map(|(id, _)| id), None);
        assert_eq!(arena.enter(None).map(|(id, _)| id), Some(guess));
    }

    #[test]
    fn siblings_leave_in_any_order_and_the_rest_stays_reachable() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut arena = Arena::default();
            let (root, _) = arena.enter(None).unwrap();
            let children = [(); 3].map(|()| arena.enter(Some(root)).unwrap().0);
            arena.forget(children[order[0]]);
            arena.forget(children[order[1]]);
            assert_eq!((arena.live(), arena.revoke(root)), (2, Some(2)), "{order:?}");
            assert!(!arena.is_alive(children[order[2]]), "{order:?}");
        }
    }
}
