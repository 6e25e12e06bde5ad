//! Which workers sleep, which were notified, and which one waits for the next timer.
//!
//! Room: decisions. Knows counts of workers; knows nothing of the lock and the channel in `signals.rs`.
//!
//! # Invariant
//! When a turn is ready, a worker is awake, or one that sleeps has been notified. When there is a timer, an idle worker waits for the
//! earliest one, or a busy worker will check it before it sleeps.
//!
//! # Why it holds
//! A worker that finds nothing raises `idle` before it releases the lock. A thread that makes a change reads `idle` under the same lock, and notifies after
//! it. A notification is a token in a channel, so it cannot come too early. `idle` and `notified` together count the workers that
//! sleep or are being woken, whichever of them takes the token. Checked by `tests/loom/main.rs`.

use policy_flow::Time;
use vocab::or_planted;

/// How many workers to wake.
#[must_use = "workers sleep until they are notified"]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wakeups(usize);

impl Wakeups {
    pub(crate) const NONE: Wakeups = Wakeups(0);

    pub(crate) fn count(self) -> usize {
        self.0
    }
}

#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// Workers that sleep and were not notified.
    idle: usize,
    /// Workers that were notified and have not woken up yet.
    notified: usize,
    /// The time at which the one worker that waits for a timer wakes up.
    wakeup_at: Option<Time>,
}

impl Sleepers {
    /// Wakes one worker, if one sleeps and would find a turn, or if no worker would wake up by the `next` time.
    pub(crate) fn wake_one(&mut self, has_ready: bool, next: Option<Time>) -> Wakeups {
        let late = next.is_some_and(|next| self.wakeup_at.is_none_or(|wakeup_at| next < wakeup_at));
        let one = self.idle > 0 && (late || has_ready);
        self.idle -= usize::from(one);
        self.notified += usize::from(one);
        Wakeups(usize::from(one))
    }

    /// Wakes all workers that sleep.
    pub(crate) fn wake_all(&mut self) -> Wakeups {
        let all = std::mem::take(&mut self.idle);
        self.notified += all;
        Wakeups(all)
    }

    /// The worker that has the lock goes to sleep. Returns the time at which it must wake up, if it is the one that waits for the timer.
    pub(crate) fn sleeps(&mut self, until: Option<Time>) -> Option<Time> {
        self.idle += or_planted!(1, "sleeps-uncounted" => 0);
        // One worker waits for the timer; the others need not.
        match until {
            Some(at) if self.wakeup_at.is_none_or(|wakeup_at| at < wakeup_at) => {
                self.wakeup_at = Some(at);
                Some(at)
            }
            _ => None,
        }
    }

    /// A worker woke up. `kept`: what `sleeps` returned.
    pub(crate) fn woke(&mut self, kept: Option<Time>) {
        if self.notified > 0 {
            self.notified -= 1;
        } else {
            self.idle = self.idle.checked_sub(1).expect("a worker that wakes up was asleep");
        }
        if kept.is_some() && self.wakeup_at == kept {
            self.wakeup_at = or_planted!(None, "wakeup-time-stays" => kept);
        }
    }
}
