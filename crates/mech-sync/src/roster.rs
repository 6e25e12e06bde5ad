//! A roster: which of very many sources have something to be taken, for one worker. A thief finds one without looking at the others.
//!
//! Room: mechanism. Knows numbers; knows nothing of what is in a source.
//!
//! # Invariant
//! A source that has something is on the roster, or a thread that knows of it is about to put it there, or it is held back by who took it off with [`Roster::hold`].
//!
//! # Why it holds
//! Each source has a [`Listing`], which says whether it is on the roster or held back. A publisher does *push, fence, read the listing*, and enters the source if it is clear. A thief that
//! found nothing does *clear the listing, fence, look again*, and takes the source off if there is still nothing. Two SeqCst fences have one order. Publisher's first: the
//! second look sees the push. Thief's first: the publisher finds the listing clear. Entering and taking off are done under the roster's lock, so one is over before the other begins.
//!
//! A source that is used up stays on the roster until a thief looks: so a source that is filled and emptied all the time is entered once. Every look that finds nothing takes one off.
//!
//! Numbers are never used again, so what is done late concerns no other source.
//!
//! # Rejected
//! A walk over all sources: idle workers would pay for a hundred thousand that have nothing.
//!
//! Checked by `tests/loom/roster.rs`: without the fence of the thief, or without its second look, `a_source_with_something_in_it_is_on_the_roster` fails.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    spin::SpinLock,
    sync::{
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
            fence,
        },
        or_planted,
    },
};

/// The sources that have something for one worker, by number.
#[derive(Debug)]
pub struct Roster<T>(SpinLock<BTreeMap<u64, Arc<T>>>);

/// Whether a source is on the roster, or held back.
#[derive(Debug, Default)]
pub struct Listing(AtomicBool);

impl<T> Default for Roster<T> {
    fn default() -> Self {
        Self(SpinLock::new(BTreeMap::new()))
    }
}

impl<T> Roster<T> {
    /// Something was put into a source, and a SeqCst fence followed. One load, if it is known.
    #[inline]
    pub fn note(&self, listing: &Listing, number: u64, source: &Arc<T>) {
        if !listing.0.load(Relaxed) {
            self.enter(listing, number, source);
        }
    }

    #[cold]
    fn enter(&self, listing: &Listing, number: u64, source: &Arc<T>) {
        let mut sources = self.0.lock();
        listing.0.store(true, Relaxed);
        sources.insert(number, source.clone());
    }

    /// The next source after `number`, in turn, and its number.
    pub fn after(&self, number: u64) -> Option<(u64, Arc<T>)> {
        let sources = self.0.lock();
        let next = sources.range(number.saturating_add(1)..).next().or_else(|| sources.iter().next());
        next.map(|(number, source)| (*number, source.clone()))
    }

    /// Nothing was found in a source: it comes off, unless it is found not to be empty now.
    pub fn take_off(&self, listing: &Listing, number: u64, is_empty: impl FnOnce() -> bool) {
        let gone = {
            let mut sources = self.0.lock();
            listing.0.store(false, Relaxed);
            or_planted!(fence(SeqCst), "take-off-without-fence" => ()); // pairs with the fence of a publisher
            if or_planted!(is_empty(), "take-off-without-look" => true) {
                sources.remove(&number)
            } else {
                listing.0.store(true, Relaxed);
                None
            }
        };
        drop(gone); // not under the lock
    }

    /// Takes a source off that may not be used now. The caller sees to it that it is [put back](Self::put_back) when it may.
    pub fn hold(&self, number: u64) {
        let held = self.0.lock().remove(&number);
        drop(held);
    }

    /// Puts a source back that was held.
    pub fn put_back(&self, number: u64, source: Arc<T>) {
        let _same = self.0.lock().insert(number, source);
    }

    /// A source is gone for ever.
    pub fn forget(&self, number: u64) {
        self.hold(number);
    }

    /// How many sources are on it.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
