//! The workers of a flow, each on a worker of the runtime of its own, if the runtime has so many.
//!
//! Room: drive.
//!
//! # Invariant
//! There are as many as were asked for, or the one that is missing is called: a turn never waits for one of them that waits inside a node. Two of them do not stay at one place while there
//! is more to do and a thread is idle: they would only take turns, each with half of what is ready.
//!
//! # Why it holds
//! Each one that begins calls the next. A fiber that was not started is taken by whoever looks first, which may be the place of the one that called it, and once started it stays there. So a busy one
//! looks from time to time who else is here. If there is another, it leaves and calls one in its stead; and whoever is busy does not give way at once while one is called, so that idle threads have the time
//! to take it. Where that does not help, since no thread is idle, it is tried more and more seldom.

use std::sync::{
    Mutex, PoisonError,
    atomic::{
        AtomicBool, AtomicU32, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use sched_tasks::Nursery;

use super::Shared;

/// Who works for a flow, and where.
pub(super) struct Crew {
    most: usize,
    size: AtomicUsize,
    /// One was called and has not begun.
    called: AtomicBool,
    hands: Mutex<Vec<Hand>>,
    /// How often somebody has left in vain, and how often one has looked since.
    moves: AtomicU32,
    looks: AtomicU32,
}

/// One of the crew.
struct Hand {
    number: usize,
    /// The worker of the runtime where it is.
    place: Option<usize>,
}

/// One of the crew, as it knows itself.
pub(super) struct Member<'scope, 'env> {
    crew: &'scope Crew,
    nursery: &'scope Nursery<'scope, 'env>,
    number: usize,
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
            moves: AtomicU32::new(0),
            looks: AtomicU32::new(0),
        }
    }

    fn hands(&self) -> std::sync::MutexGuard<'_, Vec<Hand>> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls one more, if there may be more and none is on its way.
    pub(super) fn call<'scope>(&'scope self, shared: &'scope Shared, nursery: &'scope Nursery<'scope, '_>) {
        if self.size.load(Acquire) < self.most && !self.called.swap(true, AcqRel) {
            nursery.task().name(shared.name.as_str()).spawn(move || {
                let member = self.join(nursery);
                self.called.store(false, Release);
                self.call(shared, nursery);
                shared.work(Some(member));
            });
        }
    }

    fn join<'scope, 'env>(&'scope self, nursery: &'scope Nursery<'scope, 'env>) -> Member<'scope, 'env> {
        let mut hands = self.hands();
        let place = sched_tasks::current_worker();
        if hands.iter().all(|hand| hand.place != place) {
            self.moves.store(0, Relaxed);
        }
        let number = (0..).find(|number| hands.iter().all(|hand| hand.number != *number)).expect("numbers do not end");
        hands.push(Hand { number, place });
        self.size.store(hands.len(), Release);
        Member { crew: self, nursery, number, waited: false }
    }
}

impl<'scope> Member<'scope, '_> {
    /// Whether to give way to others of this thread; once not, after one was called, so that idle threads have the time to come.
    pub(super) fn gives_way(&mut self) -> bool {
        self.waited = !self.waited && self.crew.called.load(Relaxed);
        !self.waited
    }

    /// True if there was another here: then this one is no longer of the crew, and one more is called.
    pub(super) fn leaves(&self, shared: &'scope Shared) -> bool {
        let crew = self.crew;
        let patience = 1 << crew.moves.load(Relaxed).min(10);
        if crew.looks.fetch_add(1, Relaxed) < patience {
            return false;
        }
        crew.looks.store(0, Relaxed);
        let mut hands = crew.hands();
        let here = sched_tasks::current_worker();
        let crowded = hands.iter().any(|hand| hand.number != self.number && hand.place == here);
        if crowded {
            hands.retain(|hand| hand.number != self.number);
            crew.size.store(hands.len(), Release);
            crew.moves.fetch_add(1, Relaxed);
            drop(hands);
            crew.call(shared, self.nursery);
        }
        crowded
    }
}
