//! Idle workers sleep, and no published work sleeps with them.
//!
//! Room: mechanism. Knows which workers sleep and which search; knows nothing of what they look for.
//!
//! # Invariant
//! Work published with [`Idle::published`] is seen by a worker that is awake and will look, or wakes one that sleeps. Work that is [`offered`](Idle::offered) wakes one that its publisher knows to sleep.
//!
//! # Why it holds
//! A publisher does *push, fence, read `census`*. A worker that gives up does *leave the searchers and join the sleepers in `census`, fence,
//! look again*. Two SeqCst fences have one order. Publisher's first: the second look sees the push. Worker's first: the publisher sees
//! a sleeper and no searcher, and notifies it. If the publisher saw a searcher and did nothing, the searcher had not
//! given up yet, and its second look is still to come. The counts themselves are relaxed: the fences order them, the
//! locks the rest.
//!
//! A searcher that finds work, and is the last one, looks whether there is more, and then notifies a sleeper before it
//! works. So a flood of work wakes all, one after the other, and a single item wakes one. It does *leave the searchers,
//! fence, look*: a publisher that relied on it pushed before that look, and any other sees no searcher. A searcher whose second look finds work is a searcher again,
//! because publishers may have relied on it meanwhile. One that slept is not: its second look found nothing, so nothing
//! was left to it.
//!
//! A worker that may not take all work (it does not steal) is notified only if no other worker sleeps. It passes on at
//! once what it was notified for. So no publisher relies on its search.
//!
//! An offer has no fence: its publisher runs it, if no other worker does. A worker that announces its sleep while the offer is on its way to memory may miss it; until the next publication or
//! offer, which it cannot miss. Of a fork and join in 16 ns the fence took 6.
//!
//! # Rejected
//! Notifying on every push: correct, but threads wake to find the work already taken. So does a last searcher that
//! notifies without a look: a worker that ends waits for its timers, one by one, woke another for each.
//! A publisher without a fence, and a system call (`membarrier`) by a worker that gives up: it saves 7 % of a spawn, and
//! costs an interrupt of the other CPUs whenever a worker sleeps, which a busy service does for every request.
//!
//! Checked by `tests/loom/idle.rs`: removing either fence fails `no_wakeup_is_lost`. A searcher that ends without
//! passing the search on, or without its fence, or that stops being one when its second look finds work, fails `the_search_is_handed_on`. A
//! `pass_on` that notifies no sleeper fails `a_worker_that_cannot_take_it_passes_the_search_on`. Also
//! `two_notifications_wake_one_worker`, `shutdown_reaches_every_sleeper`; and `an_offer_wakes_a_worker_that_is_known_to_sleep`, which fails if it notifies none.

use crate::{
    sync::{
        Mutex,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
            fence,
        },
        lock, or_planted,
    },
    waiter::Inbox,
};

/// In `census`: one searcher, and one sleeper.
const SEARCHER: u64 = 1 << 32;
const SLEEPER: u64 = 1;

/// The workers that sleep, and how many search.
#[derive(Debug, Default)]
pub struct Idle {
    census: AtomicU64,
    sleepers: Mutex<Vec<Sleeper>>,
}

#[derive(Debug)]
struct Sleeper {
    inbox: &'static Inbox,
    /// It searched until it gave up.
    was_searching: bool,
    /// It can take all published work. Workers that cannot are first in the list, and notified last.
    takes_all: bool,
}

impl Idle {
    /// No worker sleeps, and none searches.
    pub fn new() -> Self {
        Self { census: AtomicU64::new(0), sleepers: Mutex::new(Vec::new()) }
    }

    /// Work that any worker may take has been pushed.
    #[inline]
    pub fn published(&self) {
        self.published_with(|| {});
    }

    /// The same; `enter` is called after the fence, and before a worker is notified. See `roster.rs`.
    #[inline]
    pub fn published_with(&self, enter: impl FnOnce()) {
        or_planted!(fence(SeqCst), "publish-without-fence" => ()); // pairs with the fence in `fall_asleep`
        enter();
        let census = self.census.load(Relaxed);
        if census != 0 && census < SEARCHER {
            self.notify_if(|_| true);
        }
    }

    /// Work has been pushed that its publisher takes back and runs if no other worker has taken it. Without a fence: a worker that falls asleep at the same moment may miss it.
    #[inline]
    pub fn offered(&self) {
        let census = or_planted!(self.census.load(Relaxed), "offer-wakes-none" => 0);
        if census != 0 && census < SEARCHER {
            self.notify_if(|_| true);
        }
    }

    /// Notifies the last sleeper in the list, if it is `wanted`.
    #[cold]
    fn notify_if(&self, wanted: impl Fn(&Sleeper) -> bool) {
        let inbox = {
            let mut sleepers = lock(&self.sleepers);
            let Some(Sleeper { inbox, .. }) = sleepers.pop_if(|sleeper| wanted(sleeper)) else { return };
            self.census.fetch_add(SEARCHER - SLEEPER, Relaxed); // it wakes as a searcher
            inbox
        };
        inbox.notify();
    }

    /// Whether some worker sleeps.
    #[inline]
    pub fn any_sleeper(&self) -> bool {
        !self.census.load(Relaxed).is_multiple_of(SEARCHER)
    }

    /// A worker begins to search. False if `most` search already: then it should go to sleep.
    pub fn begin_search(&self, most: u32) -> bool {
        self.census
            .fetch_update(Relaxed, Relaxed, |census| (census / SEARCHER < u64::from(most)).then_some(census + SEARCHER))
            .is_ok()
    }

    /// A searcher found work. `is_more` looks whether there is more, at everything that any worker may take.
    pub fn end_search(&self, is_more: impl FnOnce() -> bool) {
        let before = self.census.fetch_sub(SEARCHER, Relaxed);
        debug_assert!(before >= SEARCHER, "only a searcher can stop searching");
        if before / SEARCHER != or_planted!(1, "search-ends-quietly" => 0) {
            return;
        }
        // The last searcher passes the search on.
        or_planted!(fence(SeqCst), "search-ends-without-fence" => ()); // pairs with the fence in `published`
        if is_more() {
            let census = self.census.load(Relaxed);
            if census != 0 && census < SEARCHER {
                self.notify_if(|_| true);
            }
        }
    }

    /// A searcher that cannot take everything stops searching, in favour of a sleeper that can.
    pub fn pass_on(&self) {
        self.census.fetch_sub(SEARCHER, Relaxed);
        fence(SeqCst); // as in `published`
        let census = or_planted!(self.census.load(Relaxed), "pass-on-to-none" => 0);
        if census != 0 && census < SEARCHER {
            self.notify_if(|sleeper| sleeper.takes_all);
        }
    }

    /// A worker gives up; `takes_all` says whether it can take all published work. It must now look at everything once
    /// more, then `Inbox::sleep` or [`Idle::stay_awake`].
    pub fn fall_asleep(&self, inbox: &'static Inbox, was_searching: bool, takes_all: bool) {
        inbox.fall_asleep(); // first: a publisher that finds us in the list must be able to notify us
        {
            let mut sleepers = lock(&self.sleepers);
            let at = if takes_all { sleepers.len() } else { 0 };
            sleepers.insert(at, Sleeper { inbox, was_searching, takes_all });
            self.census.fetch_add(SLEEPER.wrapping_sub(if was_searching { SEARCHER } else { 0 }), Relaxed);
        }
        or_planted!(fence(SeqCst), "give-up-without-fence" => ()); // pairs with the fence in `published`
    }

    /// A worker that had announced sleep is awake again. True if it counts as a searcher: it was notified of work, or
    /// it was searching and its second look kept it from sleeping. Then it must search, or call [`Idle::end_search`]
    /// before it works.
    pub fn stay_awake(&self, inbox: &'static Inbox) -> bool {
        inbox.stay_awake();
        let mut sleepers = lock(&self.sleepers);
        let Some(at) = sleepers.iter().position(|sleeper| std::ptr::eq(sleeper.inbox, inbox)) else { return true };
        let still_searching =
            sleepers.remove(at).was_searching && !or_planted!(inbox.has_slept(), "second-look-ends-search" => true);
        self.census.fetch_add(if still_searching { SEARCHER - SLEEPER } else { SLEEPER.wrapping_neg() }, Relaxed);
        still_searching
    }

    /// Notifies every sleeper, for shutdown.
    pub fn notify_all(&self) {
        let inboxes = {
            let mut sleepers = lock(&self.sleepers);
            let notified = u64::try_from(sleepers.len()).expect("a count fits");
            self.census.fetch_add(notified.wrapping_mul(SEARCHER - SLEEPER), Relaxed);
            std::mem::take(&mut *sleepers)
        };
        for sleeper in inboxes {
            sleeper.inbox.notify();
        }
    }
}
