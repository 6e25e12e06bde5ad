//! How many items wait for each worker, as far as they may be taken now. Items behind a closed gate are counted there, and come out when it opens.
//!
//! Room: mechanism. Knows numbers; knows nothing of the items, nor of why a gate closes.
//!
//! ```text
//!   an item ──► inner gates ──► outer gates ──► counts        one of each for every worker
//! ```
//!
//! # Invariant
//! An item is counted before it can be taken. When no operation is under way, a worker's count is the number of its items that are behind no closed gate; and what a gate has is the number of items that are behind it and behind no
//! closed gate further inside. A count is never too small but while an operation that adds is under way.
//!
//! # Why it holds
//! Each gate has a lock for each worker. An operation goes outwards, and holds the locks of the gates that it came through until the count outside has changed: so
//! a change of a gate and its effect further outside are one step for all that come through that gate. All go in the same direction, so none waits for another in a circle.
//!
//! Who adds, or opens a gate, publishes afterwards (see `idle.rs`): its fence orders the counts, which are relaxed.
//!
//! # Rejected
//! To look at all items that a worker could take, and leave out those behind closed gates: idle workers do that all the time, and there may be a hundred thousand gates.
//!
//! Checked by `tests/loom/counts.rs`: with the lock of a gate released before the count outside changes, `what_is_behind_no_closed_gate_is_counted_exactly` fails; with an item that is
//! counted after it was pushed, `an_item_that_is_counted_is_taken_once`. With `idle.rs`, `a_counted_item_wakes_a_worker`.

use crate::{
    line::Line,
    spin::SpinLock,
    sync::{
        Padded,
        atomic::{AtomicUsize, Ordering::Relaxed},
        or_planted,
    },
};

/// How many items each worker has that may be taken.
#[derive(Debug)]
pub struct Counts(Box<[Padded<AtomicUsize>]>);

/// A gate for the items of every worker; open at first.
#[derive(Debug)]
pub struct Gates(Box<[SpinLock<Gate>]>);

#[derive(Debug)]
struct Gate {
    is_open: bool,
    /// How many items came here.
    behind: usize,
}

/// Up or down.
#[derive(Debug, Clone, Copy)]
enum Change {
    Add(usize),
    Sub(usize),
}

impl Change {
    fn of(self, count: usize) -> usize {
        match self {
            Change::Add(more) => count + more,
            Change::Sub(fewer) => count.checked_sub(fewer).expect("what is taken was counted before"),
        }
    }
}

impl Counts {
    /// For so many workers: nothing waits for any of them.
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Padded(AtomicUsize::new(0))).collect())
    }

    /// How many items `worker` has that may be taken.
    #[inline]
    pub fn of(&self, worker: usize) -> usize {
        self.0[worker].load(Relaxed)
    }

    /// Whether a worker that is `wanted` has items that may be taken.
    #[inline]
    pub fn any(&self, wanted: impl Fn(usize) -> bool) -> bool {
        self.0.iter().enumerate().any(|(worker, count)| wanted(worker) && count.load(Relaxed) > 0)
    }

    /// Adds an item to a line of `worker` that is behind these gates, the innermost first. The caller publishes it (see `idle.rs`).
    #[inline]
    pub fn push<'a, T>(&self, worker: usize, gates: impl Iterator<Item = &'a Gates> + Clone, line: &Line<T>, item: T) {
        or_planted!(self.change(worker, Change::Add(1), &mut gates.clone()), "counted-late" => ());
        line.push(item);
        #[cfg(loom)]
        or_planted!((), "counted-late" => self.change(worker, Change::Add(1), &mut gates.clone()));
    }

    /// `items` were taken from lines of `worker` that are behind these gates.
    #[inline]
    pub fn taken<'a>(&self, worker: usize, mut gates: impl Iterator<Item = &'a Gates>, items: usize) {
        self.change(worker, Change::Sub(items), &mut gates);
    }

    /// As deep as gates are inside each other: the locks of those that it came through are held until it returns.
    #[inline]
    fn change<'a>(&self, worker: usize, change: Change, gates: &mut impl Iterator<Item = &'a Gates>) {
        let Some(gate) = gates.next() else {
            return match change {
                Change::Add(more) => _ = self.0[worker].fetch_add(more, Relaxed),
                Change::Sub(fewer) => {
                    let before = self.0[worker].fetch_sub(fewer, Relaxed);
                    debug_assert!(before >= fewer, "what is taken was counted before");
                }
            };
        };
        let mut gate = gate.0[worker].lock();
        gate.behind = change.of(gate.behind);
        if gate.is_open {
            #[cfg(loom)]
            or_planted!((), "gate-let-go-early" => drop(gate));
            self.change(worker, change, gates);
        }
    }
}

impl Gates {
    /// One for each of so many workers, all of them open.
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| SpinLock::new(Gate { is_open: true, behind: 0 })).collect())
    }

    /// Closes them: what is behind them is not counted any more. `outer` are those around, the innermost first. Nothing happens if they are closed.
    pub fn close<'a>(&self, counts: &Counts, outer: impl Iterator<Item = &'a Gates> + Clone) {
        for (worker, gate) in self.0.iter().enumerate() {
            let mut gate = gate.lock();
            if std::mem::replace(&mut gate.is_open, false) {
                counts.change(worker, Change::Sub(gate.behind), &mut outer.clone());
            }
        }
    }

    /// Opens them, and says how much came out. Nothing happens if they are open.
    pub fn open<'a>(&self, counts: &Counts, outer: impl Iterator<Item = &'a Gates> + Clone) -> usize {
        let mut out = 0;
        for (worker, gate) in self.0.iter().enumerate() {
            let mut gate = gate.lock();
            if !std::mem::replace(&mut gate.is_open, true) {
                counts.change(worker, Change::Add(gate.behind), &mut outer.clone());
                out += gate.behind;
            }
        }
        out
    }
}
