//! What a supervisor does when a child ended: pure functions of values. The time arrives as a value, so a simulator can
//! replay any run.
//!
//! Room: decisions. Knows rules and a history of restarts; knows nothing of clocks, threads or channels.
//!
//! # Invariant
//! A supervisor starts again at most `max_restarts` times within any window of `within`; the next failure inside the window makes it give up.
//!
//! # Why it holds
//! Every restart is noted in the [`History`] with its time, before it is allowed. What is older than the window is forgotten, and nothing else is.
//!
//! Checked against a slow reference by `decisions_are_those_of_the_slow_reference` in `tests/it/supervisors_model.rs`.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Which other children are restarted with one that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// None: they do not depend on it.
    #[default]
    OneForOne,
    /// All: each depends on every other.
    OneForAll,
    /// Those that were started after it: each depends on those before.
    RestForOne,
}

/// When a child that ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Restart {
    /// Always: it is not meant to end.
    #[default]
    Permanent,
    /// If it failed. If it returned, its work is done.
    Transient,
    /// Never.
    Temporary,
}

/// How a child ended that was not asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It returned, and has done what it was to do.
    Returned,
    /// It failed: an error, a panic, an overflow.
    Failed,
}

/// The limit of restarts within a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intensity {
    /// The limit of restarts.
    pub max_restarts: u32,
    /// Within this time.
    pub within: Duration,
}

impl Default for Intensity {
    /// Three restarts within five seconds.
    fn default() -> Self {
        Self { max_restarts: 3, within: Duration::from_secs(5) }
    }
}

/// The rules a supervisor was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// Which children are restarted together.
    pub strategy: Strategy,
    /// The limit of restarts within a time.
    pub intensity: Intensity,
}

/// The restarts that still count, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History(VecDeque<Instant>);

impl History {
    /// How many restarts still counted when it was last asked.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no restart counted when it was last asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The restarts that count at `now`: those not older than the window.
    fn at(mut self, now: Instant, within: Duration) -> Self {
        while self.0.front().is_some_and(|&then| now.saturating_duration_since(then) > within) {
            self.0.pop_front();
        }
        self
    }
}

/// A child as a decision sees it. Children are named by numbers that grow in the order in which they are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sibling {
    /// Its number.
    pub id: u64,
    /// When it is started again.
    pub restart: Restart,
    /// Whether it runs, or is about to.
    pub alive: bool,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an ignored decision leaves a child dead"]
pub enum Decision {
    /// Nothing: the child is gone for good.
    Leave,
    /// Stop some and start some.
    Again {
        /// The children to stop, in this order: the last started first.
        stop: Vec<u64>,
        /// The children to start after that, in this order; the child that ended is among them.
        start: Vec<u64>,
    },
    /// It happens too often: stop everything and fail.
    GiveUp {
        /// Restarts within the window, this one not counted.
        restarts: u32,
    },
}

/// What to do when `child` ended by itself.
/// `siblings` are all children in the order in which they were started, `child` among them. A sibling that is stopped
/// because of `child` is started again, unless it is [`Restart::Temporary`]; a sibling that had ended before is left
/// alone. However many are started again, it counts as one restart.
/// it is [`Restart::Temporary`]; a child that had ended before is left alone. However many are started again, it counts as one restart.
///
/// ```
/// use std::time::Instant;
/// use sched_actors::decide::{Decision, Ending, History, Restart, Rules, Sibling, Strategy, decide};
///
/// let rules = Rules { strategy: Strategy::RestForOne, ..Rules::default() };
/// let children = [0, 1, 2].map(|id| Sibling { id, restart: Restart::Permanent, alive: id != 1 });
/// let (history, decision) = decide(&rules, History::default(), &children, 1, Ending::Failed, Instant::now());
/// assert_eq!(decision, Decision::Again { stop: vec![2], start: vec![1, 2] });
/// assert_eq!(history.len(), 1);
/// ```
pub fn decide(
    rules: &Rules,
    history: History,
    siblings: &[Sibling],
    child: u64,
    ending: Ending,
    now: Instant,
) -> (History, Decision) {
    let mut history = history.at(now, rules.intensity.within);
    let Some(ended) = siblings.iter().find(|sibling| sibling.id == child) else { return (history, Decision::Leave) };
    let again = match ended.restart {
        Restart::Permanent => true,
        Restart::Transient => ending == Ending::Failed,
        Restart::Temporary => false,
    };
    if !again {
        return (history, Decision::Leave);
    }
    let restarts = u32::try_from(history.len()).unwrap_or(u32::MAX);
    if restarts >= rules.intensity.max_restarts {
        return (history, Decision::GiveUp { restarts });
    }
    history.0.push_back(now);
    let shares_fate = |sibling: &&Sibling| {
        sibling.id != child
            && sibling.alive
            && match rules.strategy {
                Strategy::OneForOne => false,
                Strategy::OneForAll => true,
                Strategy::RestForOne => sibling.id > child,
            }
    };
    let stop = siblings.iter().rev().filter(shares_fate).map(|sibling| sibling.id).collect();
    let comes_back =
        |sibling: &&Sibling| sibling.id == child || (shares_fate(sibling) && sibling.restart != Restart::Temporary);
    let start = siblings.iter().filter(comes_back).map(|sibling| sibling.id).collect();
    (history, Decision::Again { stop, start })
}
