//! Who sleeps, who was rung, and who watches the clock.
//!
//! Room: drive, but only values: the lock and the bell are in `signals.rs`.
//!
//! # Invariant
//! When something can be done, a worker is awake, or one that sleeps has been rung. When a time is waited for, an idle worker waits for the
//! earliest, or a busy one will look before it sleeps.
//!
//! # Why it holds
//! `idle` is raised in the same hold of the lock in which nothing was found. Whoever changes something looks at `idle` in the same hold, and rings after
//! it. A ring is a token in a channel that outlives the moment, so it cannot come too early. `idle` and `rung` together say how many
//! sleep or are being woken, whichever of them takes the token. Checked by `tests/loom/main.rs`.

use policy_flow::Time;
use vocab::or_planted;

/// How many to ring.
#[must_use = "workers sleep on until they are rung"]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rings(usize);

impl Rings {
    pub(crate) const NONE: Rings = Rings(0);

    pub(crate) fn count(self) -> usize {
        self.0
    }
}

#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// So many workers sleep and have not been rung.
    idle: usize,
    /// So many have been rung and have not looked yet.
    rung: usize,
    /// One that sleeps wakes up at this time.
    keeper: Option<Time>,
}

impl Sleepers {
    /// One worker, if one sleeps and would find something, or the `next` time would be slept through.
    pub(crate) fn ring_one(&mut self, has_ready: bool, next: Option<Time>) -> Rings {
        let late = next.is_some_and(|next| self.keeper.is_none_or(|keeper| next < keeper));
        let one = self.idle > 0 && (late || has_ready);
        self.idle -= usize::from(one);
        self.rung += usize::from(one);
        Rings(usize::from(one))
    }

    /// Everybody who sleeps.
    pub(crate) fn ring_all(&mut self) -> Rings {
        let all = std::mem::take(&mut self.idle);
        self.rung += all;
        Rings(all)
    }

    /// The worker that has the lock goes to sleep.
    pub(crate) fn sleeps(&mut self, until: Option<Time>) -> Option<Time> {
        self.idle += or_planted!(1, "sleeps-uncounted" => 0);
        // One watches the clock, the others need not.
        match until {
            Some(at) if self.keeper.is_none_or(|keeper| at < keeper) => {
                self.keeper = Some(at);
                Some(at)
            }
            _ => None,
        }
    }

    /// It woke up.
    pub(crate) fn woke(&mut self, kept: Option<Time>) {
        if self.rung > 0 {
            self.rung -= 1;
        } else {
            self.idle = self.idle.checked_sub(1).expect("whoever wakes up was asleep");
        }
        if kept.is_some() && self.keeper == kept {
            self.keeper = or_planted!(None, "keeper-stays" => kept);
        }
    }
}
