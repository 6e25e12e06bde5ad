//! Which task a worker runs next, and from which worker it steals. Pure functions.
//!
//! Room: decisions. Knows ticks, marks and queue lengths; knows nothing of clocks, threads or queues.
//!
//! # Invariants
//! *No task starves.* A ready task runs after a bounded number of choices, whatever else keeps arriving.
//! *A yield goes to the back.* A task that yielded runs again only after everything that was ready before it.
//!
//! # Why they hold
//! Started tasks run in arrival order. One that yielded has a mark in the deque: all unstarted tasks older than the
//! mark go first, oldest first, and so do those of other workers and of the shared queue. Tasks that were woken behind it do not wait as long: of [`AHEAD`] choices one is for
//! the unstarted tasks, the others for them. A worker with only unstarted tasks takes the newest, for its warm caches.
//! High priority goes before, low priority after everything. But every [`GLOBAL_QUEUE_INTERVAL`]th choice belongs to
//! what is otherwise postponed: the shared queue, the oldest unstarted task, the first started one, low priority, and
//! unstarted tasks of other workers take turns to be asked first. The last matters if the other workers compute and
//! this one's tasks only yield. Where only unstarted tasks wait, an oldest one, of its own or of others, goes before newer ones once in [`OLDEST_INTERVAL`]: often enough that none
//! waits for long, and seldom enough that a tree of tasks stays on the worker that opened it.
//!
//! # Rejected
//! Marks for woken tasks as well: a tree of tasks then opens breadth first, and a million stacks wait where six would do. An oldest task at every [`GLOBAL_QUEUE_INTERVAL`]th choice: two workers
//! that divide a tree take each other's branches, and are no quicker than one (a tree of a million tasks: 34 ns each instead of 25).

use std::time::Duration;

/// After this many choices a worker looks at what it otherwise postpones. Prime, so that it does not fall into step
/// with loops.
pub const GLOBAL_QUEUE_INTERVAL: u32 = 61;

/// An oldest unstarted task goes before newer ones at most once in this time. Time, not a number of choices: tasks of a millisecond would make that number seconds.
pub const OLDEST_INTERVAL: Duration = Duration::from_micros(200);

/// While a task that yielded waits for the older unstarted ones, one choice in this many is one of those, and the
/// others go to woken tasks behind it. Not one in two: each unstarted task may need a stack, and tasks that have one
/// should rather come to their end.
pub const AHEAD: u32 = 4;

/// What a worker sees when it must choose. Asked only as far as needed: every question is a load.
pub trait View {
    /// A task of high priority waits for any worker.
    fn high(&self) -> bool;
    /// The first started task in the queue, if any.
    fn ready(&self) -> Option<FirstReady>;
    /// There are unstarted tasks of its own.
    fn unstarted(&self) -> bool;
    /// There are tasks in the shared queue.
    fn injected(&self) -> bool;
    /// A task of low priority waits for any worker.
    fn low(&self) -> bool;
    /// There are tasks in the shared queue, and after those that were last taken from there something else had its turn.
    fn goes_behind_shared(&self, tick: u32) -> bool;
    /// It is time to look whether other workers have unstarted tasks, and they do.
    fn goes_behind_others(&self, tick: u32) -> bool;
    /// Another worker has unstarted tasks, and this one may take them.
    fn elsewhere(&self) -> bool;
    /// An oldest one has not gone before newer ones for [`OLDEST_INTERVAL`]. Asked if there is one: after a yes it does now.
    fn is_due(&self, oldest: Oldest) -> bool;
}

/// Whose oldest unstarted task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oldest {
    /// The worker's own.
    Own,
    /// Another worker's.
    Elsewhere,
}

/// The started task that has waited longest.
#[derive(Debug, Clone, Copy)]
pub struct FirstReady {
    /// All unstarted tasks that were there before it have been taken.
    pub is_next: bool,
    /// It was not woken, but let others go first.
    pub yielded: bool,
}

/// Where the next task comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Choice {
    /// The shared queue of high priority.
    High,
    /// The first started task in the queue.
    Ready,
    /// The first started task in the queue that waits for no unstarted one, past others that do; if there is none, the
    /// oldest unstarted task, which a log shows as `Oldest`.
    Ahead,
    /// The newest unstarted task of its own.
    Newest,
    /// The oldest unstarted task of its own.
    Oldest,
    /// The shared queue.
    Injected,
    /// The shared queue of low priority.
    Low,
    /// Another worker's unstarted tasks.
    Elsewhere,
    /// Nothing here: steal from others, then look at low priority, then sleep.
    Search,
}

/// Chooses where a worker's next task comes from. `tick` counts its choices.
#[inline(always)]
pub fn choose(tick: u32, view: &impl View) -> Choice {
    if tick.is_multiple_of(GLOBAL_QUEUE_INTERVAL)
        && let Some(choice) = postponed(tick / GLOBAL_QUEUE_INTERVAL, view)
    {
        return choice;
    }
    if view.high() {
        return Choice::High;
    }
    match view.ready() {
        Some(FirstReady { is_next: true, yielded: true }) if view.goes_behind_shared(tick) => Choice::Injected,
        Some(FirstReady { is_next: true, yielded: true }) if view.goes_behind_others(tick) => Choice::Elsewhere,
        Some(FirstReady { is_next: true, .. }) => Choice::Ready,
        Some(FirstReady { is_next: false, .. }) if tick.is_multiple_of(AHEAD) => Choice::Oldest,
        Some(FirstReady { is_next: false, .. }) => Choice::Ahead,
        None if view.unstarted() => Choice::Newest,
        None if view.injected() => Choice::Injected,
        None => Choice::Search,
    }
}

/// What is otherwise postponed, if there is any: five kinds, asked in turn, so that none keeps another waiting for
/// ever.
#[cold]
fn postponed(turn: u32, view: &impl View) -> Option<Choice> {
    (0..5).find_map(|later| match turn.wrapping_add(later) % 5 {
        1 => view.injected().then_some(Choice::Injected),
        2 => (view.unstarted() && view.is_due(Oldest::Own)).then_some(Choice::Oldest),
        3 => view.ready().map(|first| if first.is_next { Choice::Ready } else { Choice::Oldest }),
        4 => view.low().then_some(Choice::Low),
        _ => (view.elsewhere() && view.is_due(Oldest::Elsewhere)).then_some(Choice::Elsewhere),
    })
}

/// How a thief picks its victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum VictimStrategy {
    /// By a seeded random number: spreads thieves, and a seed gives the same choices again.
    #[default]
    Random,
    /// One after the other, beginning with the next worker after the thief.
    RoundRobin,
    /// The worker with the longest queue.
    LeastLoaded,
}

/// The limit of victims a thief tries before it looks elsewhere.
pub const MAX_STEAL_ATTEMPTS: usize = 4;

/// The worker that `thief` tries on its `attempt`th try, of `workers` workers; never itself. `loads` is asked only by
/// [`VictimStrategy::LeastLoaded`].
pub fn victim(
    strategy: VictimStrategy,
    thief: usize,
    workers: usize,
    attempt: usize,
    random: u64,
    loads: impl Fn(usize) -> usize,
) -> usize {
    debug_assert!(workers > 1, "a lone worker has no victim");
    let behind = |steps: usize| (thief + 1 + steps % (workers - 1)) % workers;
    match strategy {
        // Successive attempts go round from a random start, so that they do not try the same victim twice.
        VictimStrategy::Random => behind((random % (workers as u64 - 1)) as usize + attempt),
        VictimStrategy::RoundRobin => behind(attempt),
        VictimStrategy::LeastLoaded => {
            (0..workers - 1).map(behind).max_by_key(|&worker| loads(worker)).unwrap_or(thief)
        }
    }
}

/// The next number of a thief's sequence (SplitMix64): one addition of state, well mixed.
pub const fn next_random(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (state, z ^ (z >> 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Seen {
        high: bool,
        ready: Option<FirstReady>,
        unstarted: bool,
        injected: bool,
        low: bool,
        elsewhere: bool,
        due: bool,
    }

    impl View for Seen {
        fn high(&self) -> bool {
            self.high
        }
        fn ready(&self) -> Option<FirstReady> {
            self.ready
        }
        fn unstarted(&self) -> bool {
            self.unstarted
        }
        fn injected(&self) -> bool {
            self.injected
        }
        fn low(&self) -> bool {
            self.low
        }
        fn goes_behind_shared(&self, _: u32) -> bool {
            self.injected
        }
        fn goes_behind_others(&self, _: u32) -> bool {
            self.elsewhere
        }
        fn elsewhere(&self) -> bool {
            self.elsewhere
        }
        fn is_due(&self, _: Oldest) -> bool {
            self.due
        }
    }

    const NOTHING: Seen =
        Seen { high: false, ready: None, unstarted: false, injected: false, low: false, elsewhere: false, due: true };
    const FIRST: Option<FirstReady> = Some(FirstReady { is_next: true, yielded: false });
    const BEHIND_OLDER: Option<FirstReady> = Some(FirstReady { is_next: false, yielded: true });

    #[test]
    fn a_task_that_yielded_waits_for_the_older_unstarted_ones() {
        let chosen = |tick| choose(tick, &Seen { ready: BEHIND_OLDER, unstarted: true, ..NOTHING });
        assert!((1..GLOBAL_QUEUE_INTERVAL).all(|tick| matches!(chosen(tick), Choice::Oldest | Choice::Ahead)));
        assert!((1..GLOBAL_QUEUE_INTERVAL).any(|tick| chosen(tick) == Choice::Oldest));
        assert_eq!(choose(1, &Seen { ready: FIRST, unstarted: true, ..NOTHING }), Choice::Ready);
    }

    #[test]
    fn a_task_that_yielded_goes_behind_what_was_published_elsewhere_and_a_woken_one_does_not() {
        let yielded = Some(FirstReady { is_next: true, yielded: true });
        assert_eq!(choose(1, &Seen { ready: yielded, elsewhere: true, ..NOTHING }), Choice::Elsewhere);
        assert_eq!(choose(1, &Seen { ready: yielded, injected: true, ..NOTHING }), Choice::Injected);
        assert_eq!(choose(1, &Seen { ready: yielded, ..NOTHING }), Choice::Ready);
        assert_eq!(choose(1, &Seen { ready: FIRST, elsewhere: true, injected: true, ..NOTHING }), Choice::Ready);
    }

    #[test]
    fn only_unstarted_tasks_means_the_newest_but_sometimes_the_oldest() {
        assert_eq!(choose(1, &Seen { unstarted: true, ..NOTHING }), Choice::Newest);
        assert_eq!(choose(GLOBAL_QUEUE_INTERVAL, &Seen { unstarted: true, ..NOTHING }), Choice::Oldest);
    }

    #[test]
    fn a_tree_of_tasks_stays_where_it_is_until_an_oldest_task_is_due() {
        let chosen = |due, tick| choose(tick, &Seen { unstarted: true, elsewhere: true, due, ..NOTHING });
        let turns = || (0..5).map(|turn| turn * GLOBAL_QUEUE_INTERVAL);
        assert!(turns().all(|tick| chosen(false, tick) == Choice::Newest));
        assert!(turns().all(|tick| matches!(chosen(true, tick), Choice::Oldest | Choice::Elsewhere)));
    }

    #[test]
    fn a_busy_worker_forgets_neither_the_shared_queue_nor_its_oldest_task() {
        let turns =
            |view: Seen, wanted| (1..=GLOBAL_QUEUE_INTERVAL).filter(|tick| choose(*tick, &view) == wanted).count();
        let busy = Seen { ready: FIRST, unstarted: true, ..NOTHING };
        assert_eq!(turns(Seen { injected: true, ..busy }, Choice::Injected), 1);
        assert_eq!(turns(busy, Choice::Oldest), 1);
    }

    const ALL: Seen =
        Seen { high: true, ready: FIRST, unstarted: true, injected: true, low: true, elsewhere: true, due: true };

    #[test]
    fn high_priority_goes_before_everything_but_what_was_put_off() {
        assert!((1..GLOBAL_QUEUE_INTERVAL).all(|tick| choose(tick, &ALL) == Choice::High));
    }

    #[test]
    fn whatever_keeps_arriving_everything_gets_its_turn() {
        let chosen: Vec<_> = (0..GLOBAL_QUEUE_INTERVAL * 5).map(|tick| choose(tick, &ALL)).collect();
        for wanted in [Choice::High, Choice::Ready, Choice::Oldest, Choice::Injected, Choice::Low, Choice::Elsewhere] {
            assert!(chosen.contains(&wanted), "{wanted:?} starves");
        }
    }

    #[test]
    fn every_strategy_steals_from_others_only_and_reaches_all() {
        for strategy in [VictimStrategy::Random, VictimStrategy::RoundRobin, VictimStrategy::LeastLoaded] {
            for workers in 2..=9 {
                for thief in 0..workers {
                    let tried: std::collections::BTreeSet<_> =
                        (0..workers - 1).map(|n| victim(strategy, thief, workers, n, 12345, |w| w)).collect();
                    assert!(!tried.contains(&thief), "{strategy:?}: worker {thief} of {workers} stole from itself");
                    if strategy != VictimStrategy::LeastLoaded {
                        assert_eq!(
                            tried.len(),
                            workers - 1,
                            "{strategy:?}: worker {thief} of {workers} tried {tried:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn least_loaded_steals_from_the_longest_queue() {
        assert_eq!(victim(VictimStrategy::LeastLoaded, 0, 4, 0, 7, |w| [9, 1, 5, 2][w]), 2);
    }
}
