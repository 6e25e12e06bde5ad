//! A directory: what there is at the moment, by number and some of it by key, and whether there is anything at all.
//!
//! Room: mechanism. Knows numbers and keys; knows nothing of what is entered.
//!
//! # Invariants
//! - An entry is found by its key as long as it has members; when its last member has left, the next one to ask makes another. Who looks at all of them sees one for a key.
//! - What is called with *is there anything* is called in the order in which the answer changed.
//! - A number is used by one entry at a time. When nothing is left they begin anew, with another [generation](Directory::generation): what is known of an entry by its number is void if that
//!   has changed. Who has an entry reads its generation, or a later one.
//!
//! # Why they hold
//! One lock for all of it; the calls and the new generation come before it is released. An entry that is found is joined under it, by [`Members::try_join`], which fails once the last has left: that one
//! comes here later, and takes away the key only if it still leads to itself.
//!
//! Checked by `tests/loom/directories.rs`: with the call outside the lock, `a_flag_says_whether_there_is_anything` fails; with a generation that comes after the entry, `who_has_an_entry_knows_its_generation`; with a
//! key that is taken away whatever it leads to, or if what has ended is seen, `an_entry_is_found_by_its_key_while_it_has_members`.

use std::collections::BTreeMap;

use crate::{
    members::Members,
    spin::SpinLock,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        or_planted,
    },
};

/// What there is.
#[derive(Debug)]
pub struct Directory<K, T> {
    entries: SpinLock<Entries<K, T>>,
    generation: AtomicU64,
}

#[derive(Debug)]
struct Entries<K, T> {
    places: Vec<Option<T>>,
    vacant: Vec<u32>,
    by_key: BTreeMap<K, u32>,
    len: usize,
    /// How many were ever entered.
    serial: u64,
}

/// What can be entered: it has members, and ends with the last of them.
pub trait Entry: Clone {
    /// Its members.
    fn members(&self) -> &Members;
}

/// What a new entry is told.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    /// Used again when it has ended.
    pub number: u32,
    /// Never used again.
    pub serial: u64,
}

impl<K, T> Default for Directory<K, T> {
    fn default() -> Self {
        let entries = Entries { places: Vec::new(), vacant: Vec::new(), by_key: BTreeMap::new(), len: 0, serial: 0 };
        Self { entries: SpinLock::new(entries), generation: AtomicU64::new(0) }
    }
}

impl<K: Ord, T: Entry> Directory<K, T> {
    /// How often there was a first entry.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Joins the entry that has this key, if there is one that has not ended.
    pub fn join(&self, key: &K) -> Option<T> {
        let entries = self.entries.lock();
        let number = *entries.by_key.get(key)?;
        let known = entries.places[number as usize].as_ref()?;
        known.members().try_join().then(|| known.clone())
    }

    /// Joins the entry that has this key, or makes one, with the caller as its first member. `first` is called if there was none at all.
    pub fn join_or_enter(&self, key: Option<K>, make: impl FnOnce(Numbers) -> T, first: impl FnOnce()) -> T {
        let mut entries = self.entries.lock();
        let known = key.as_ref().and_then(|key| entries.by_key.get(key));
        if let Some(known) = known.and_then(|&number| entries.places[number as usize].as_ref())
            && known.members().try_join()
        {
            return known.clone();
        }
        let number = entries.vacant.pop().unwrap_or_else(|| {
            entries.places.push(None);
            u32::try_from(entries.places.len() - 1).expect("fewer than 2^32 entries at a time")
        });
        entries.serial += 1;
        let entry = make(Numbers { number, serial: entries.serial });
        entries.places[number as usize] = Some(entry.clone());
        entries.len += 1;
        if let Some(key) = key {
            entries.by_key.insert(key, number);
        }
        if entries.len == 1 {
            or_planted!(self.begin(first), "generation-after-entry" => { drop(entries); self.begin(first) });
        }
        entry
    }

    fn begin(&self, first: impl FnOnce()) {
        self.generation.fetch_add(1, Relaxed);
        first();
    }

    /// The last member of an entry has left. `last` is called if nothing is left at all.
    pub fn remove(&self, number: u32, key: Option<&K>, last: impl FnOnce()) {
        let gone = self.take(number, key, last);
        drop(gone); // not under the lock
    }

    fn take(&self, number: u32, key: Option<&K>, last: impl FnOnce()) -> Option<T> {
        let mut entries = self.entries.lock();
        let gone = entries.places[number as usize].take();
        entries.vacant.push(number);
        entries.len -= 1;
        let leads_here = |key: &&K| or_planted!(entries.by_key.get(*key) == Some(&number), "key-goes-anyway" => true);
        if let Some(key) = key.filter(leads_here) {
            entries.by_key.remove(key);
        }
        if entries.len == 0 {
            entries.places.clear();
            entries.vacant.clear();
            #[cfg(loom)]
            or_planted!((), "last-outside-lock" => drop(entries));
            last();
        }
        gone
    }

    /// All that there is, by number: not what has ended, though its last member may be about to take it away.
    pub fn all(&self) -> Vec<T> {
        let entries = self.entries.lock();
        let has_members = |entry: &&T| or_planted!(!entry.members().have_left(), "all-with-ended" => true);
        entries.places.iter().flatten().filter(has_members).cloned().collect()
    }
}
