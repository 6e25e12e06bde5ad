//! The workers of a flow, each on a worker of the runtime of its own, as far as the runtime has so many.
//!
//! Room: drive.
//!
//! # Invariant
//! While a turn is given and there are fewer workers than were asked for, one more lies ready to be started by any thread that is idle: a node that keeps its fiber, or even its thread, waiting keeps no
//! other from its turn. Two workers that could go on do not share a place: they would only take turns, each with half of what is ready.
//!
//! # Why it holds
//! Whoever begins a turn calls one more. A fiber that was not started is taken by whoever looks first, and once started it stays there. That may be the place of the one who called it; so whoever is called looks first
//! who else is here. If that one is in the midst of a turn, it waits for something inside a node, and the new one is needed. If it is between two turns, the new one leaves, and is called again with
//! the next turn. Where no thread ever comes, calling is tried more and more seldom.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{
        AtomicBool, AtomicU32, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use sched_tasks::Nursery;

use super::{Shared, work::Worker};

/// So many may leave in vain before they are called less often.
const PATIENCE: u32 = 8;
/// They are called with every 64th turn at least.
const SELDOM: u32 = 6;

/// Who works for a flow, and where.
pub(super) struct Crew {
    most: usize,
    size: AtomicUsize,
    /// One was called and has not said yet whether it stays.
    called: AtomicBool,
    hands: Mutex<Vec<Hand>>,
    /// How many in a row have left in vain.
    left: AtomicU32,
}

/// One of the crew.
struct Hand {
    /// The worker of the runtime where it is.
    place: Option<usize>,
    in_turn: Arc<AtomicBool>,
}

/// One of the crew, as it knows itself.
pub(super) struct Member<'scope, 'env> {
    crew: &'scope Crew,
    nursery: &'scope Nursery<'scope, 'env>,
    /// Read by others of its place only, so while it is suspended.
    in_turn: Arc<AtomicBool>,
    turns: u32,
    /// It has left time for one that was called.
    waited: bool,
}

impl Crew {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            size: AtomicUsize::new(0),
            called: AtomicBool::new(false),
            hands: Mutex::new(Vec::new()),
            left: AtomicU32::new(0),
        }
    }

    fn hands(&self) -> MutexGuard<'_, Vec<Hand>> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls one more, if there may be more and none is on its way.
    pub(super) fn call<'scope>(&'scope self, shared: &'scope Shared, nursery: &'scope Nursery<'scope, '_>) {
        if self.size.load(Acquire) < self.most && !self.called.swap(true, AcqRel) {
            nursery.task().name(shared.name.as_str()).spawn(move || {
                let joined = self.join();
                self.called.store(false, Release);
                if let Some(in_turn) = joined {
                    let member = Member { crew: self, nursery, in_turn, turns: 0, waited: false };
                    shared.work(Worker::Member(member));
                }
            });
        }
    }

    /// None if there is one here already that could go on.
    fn join(&self) -> Option<Arc<AtomicBool>> {
        let mut hands = self.hands();
        let place = sched_tasks::current_worker();
        if hands.iter().any(|hand| hand.place == place && !hand.in_turn.load(Relaxed)) {
            self.left.fetch_add(1, Relaxed);
            return None;
        }
        self.left.store(0, Relaxed);
        let in_turn = Arc::new(AtomicBool::new(false));
        hands.push(Hand { place, in_turn: Arc::clone(&in_turn) });
        self.size.store(hands.len(), Release);
        Some(in_turn)
    }
}

impl<'scope> Member<'scope, '_> {
    /// A turn begins, in which this one may come to wait.
    pub(super) fn begins_turn(&mut self, shared: &'scope Shared) {
        self.in_turn.store(true, Relaxed);
        if self.crew.size.load(Relaxed) < self.crew.most {
            self.turns = self.turns.wrapping_add(1);
            let seldom = self.crew.left.load(Relaxed).saturating_sub(PATIENCE).min(SELDOM);
            if self.turns.is_multiple_of(1 << seldom) {
                self.crew.call(shared, self.nursery);
            }
        }
    }

    pub(super) fn ends_turn(&self) {
        self.in_turn.store(false, Relaxed);
    }

    /// Whether to give way to others of this thread; once not, after one was called, so that idle threads have the time to come.
    pub(super) fn gives_way(&mut self) -> bool {
        self.waited = !self.waited && self.crew.called.load(Relaxed);
        !self.waited
    }

    /// True if there is another here that could go on: then this one is no longer of the crew.
    pub(super) fn leaves(&self) -> bool {
        let here = sched_tasks::current_worker();
        let mut hands = self.crew.hands();
        let is_me = |hand: &Hand| Arc::ptr_eq(&hand.in_turn, &self.in_turn);
        let crowded = hands.iter().any(|hand| !is_me(hand) && hand.place == here && !hand.in_turn.load(Relaxed));
        if crowded {
            hands.retain(|hand| !is_me(hand));
            self.crew.size.store(hands.len(), Release);
        }
        crowded
    }
}
