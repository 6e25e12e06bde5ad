//! `std::thread::panicking` for one stack at a time.
//!
//! Room: mechanism. Knows how the standard library counts panics; knows nothing of whose panic it is.
//!
//! The standard library counts the panics under way per *thread*. A fiber that stops in the
//! middle of an unwinding, in a destructor, leaves its count behind, and the next fiber on the
//! thread would take it for its own: a `std::sync::Mutex` that is unlocked then is poisoned,
//! though its holder did not panic.
//!
//! # Invariant
//! Between [`PanicsAside::take`] and [`PanicsAside::put_back`] the thread does not count the panic
//! of the caller; before and after it does.
//!
//! # Why it holds
//! The count cannot be set, but it can be moved: it rises where an unwinding begins and falls
//! where one is caught, each time on the thread that runs at that moment. A *ladder* is a fiber
//! with nested unwindings that stopped halfway. Each was counted where it began, and is
//! subtracted where the ladder is resumed. So climbing down a level takes one off this thread's
//! count, and climbing up adds one. The first levels are climbed on a thread that ends: its count
//! ends with it. The sum over all threads is right at any time.
//!
//! A ladder moves between threads, as no other fiber may. It runs this file and the unwinder:
//! no value of a user is on it, and what reads thread-locals is called, not inlined.
//!
//! # Cost
//! A microsecond for each of the two, and a thread for every 64 fibers that are stopped like
//! that at one time. From the first on, `panicking` looks at a thread-local in every thread.

use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::fiber::{Fiber, Step, has_room, suspend};
use crate::slab::{Slab, SlabOptions};

/// How many levels a ladder has. They are climbed by one thread.
const LEVELS: usize = 64;

/// For all levels, also without optimisation.
const STACK_BYTES: usize = 512 << 10;

/// What a new thread takes of the caller's stack; a caller with less does without.
const ROOM_BYTES: usize = 32 << 10;

const UP: usize = 0;
const DOWN: usize = 1;

struct Ladder {
    fiber: Fiber,
    levels: usize,
}

// SAFETY: the module says what is on its stack: nothing that belongs to a thread.
unsafe impl Send for Ladder {}

static LADDERS: Mutex<Vec<Ladder>> = Mutex::new(Vec::new());

fn ladders() -> MutexGuard<'static, Vec<Ladder>> {
    LADDERS.lock().unwrap_or_else(PoisonError::into_inner) // climbing under it, it counts as poisoned
}

impl Ladder {
    fn new() -> Option<Ladder> {
        static SLAB: Mutex<Option<&'static Slab>> = Mutex::new(None);
        let mut slab = SLAB.lock().unwrap_or_else(PoisonError::into_inner);
        if slab.is_none() {
            *slab = Slab::reserve(SlabOptions { stack_bytes: STACK_BYTES, max_stacks: 1 << 12, warm_bytes: 0 }).ok();
        }
        let stack = slab.as_ref()?.take().ok()?;
        let mut fiber = Fiber::new(stack, |_| {
            loop {
                stand(0);
            }
        });
        (fiber.resume(UP) == Step::Suspended(0)).then_some(Ladder { fiber, levels: 0 })
    }

    fn climb(&mut self, way: usize) {
        self.levels = if way == UP { self.levels + 1 } else { self.levels - 1 };
        let step = self.fiber.resume(way);
        assert_eq!(step, Step::Suspended(self.levels), "a ladder stops at the next level");
    }
}

/// Waits on level `level`, and climbs up from there and back, until the next move is down.
#[inline(never)]
fn stand(level: usize) {
    struct Level(usize);
    impl Drop for Level {
        fn drop(&mut self) {
            stand(self.0);
        }
    }
    while next_move(level) == UP {
        let landed = catch_unwind(|| {
            let _level = Level(level + 1);
            resume_unwind(Box::new(()));
        });
        drop(landed);
    }
}

/// Stops; the next thing it reads of a thread may be another thread's, so nothing of that is kept beyond this call.
#[inline(never)]
fn next_move(level: usize) -> usize {
    suspend(level)
}

/// A panic of the caller that its thread does not count for now.
#[derive(Debug)]
#[must_use = "what was taken must be put back before the caller goes on"]
pub struct PanicsAside(());

impl PanicsAside {
    /// Takes the one panic under way on this thread aside. None if there is none or there are several, whose owners cannot be told apart; or if the system
    /// gives no thread, or no memory, for it.
    ///
    /// The caller is in the middle of that panic: it belongs to no other fiber of the thread.
    #[cold]
    pub fn take() -> Option<Self> {
        if !thread::panicking() || !climb_down() {
            return None;
        }
        let aside = Self(());
        if thread::panicking() {
            aside.put_back();
            return None;
        }
        Some(aside)
    }

    /// Counts it again.
    #[cold]
    pub fn put_back(self) {
        let mut ladders = ladders();
        let free = ladders.iter_mut().find(|ladder| ladder.levels < LEVELS);
        free.expect("a climb down took it").climb(UP);
    }
}

/// Takes one off this thread's count. False if the system gives no thread or no memory for it.
fn climb_down() -> bool {
    if let Some(ladder) = ladders().iter_mut().find(|ladder| ladder.levels > 0) {
        ladder.climb(DOWN);
        return true;
    }
    let Some(mut ladder) = has_room(ROOM_BYTES).then(put_up).flatten() else { return false };
    ladder.climb(DOWN); // before others can
    ladders().push(ladder);
    true
}

/// Puts up a ladder, from a thread that takes its count with it.
fn put_up() -> Option<Ladder> {
    let climbs = || {
        let mut ladder = Ladder::new()?;
        (0..LEVELS).for_each(|_| ladder.climb(UP));
        Some(ladder)
    };
    thread::Builder::new().name("bursar-panics".into()).spawn(climbs).ok()?.join().ok()?
}
