//! When a writer commits, and when it syncs.
//!
//! Room: decisions.
//!
//! Pure: ages arrive as values.
//!
//! Two things are at stake. A *commit* hands events to the system, so they survive the death of this process; it costs some
//! processor time, so those of a few milliseconds share one. A *sync* waits for the disk, so they survive a power loss; it costs
//! disk time, so many events share one.
//!
//! # Rejected
//! Only synced commits: either each job waits for the disk, or a `kill -9` loses 50 ms of finished jobs, which then run again.

use std::time::Duration;

use super::Options;

/// The work that waits for the writer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backlog {
    /// Events not committed, and the age of the oldest.
    pub(crate) waiting: usize,
    pub(crate) waiting_age: Duration,
    /// Events committed but not synced.
    pub(crate) unsynced: usize,
    /// The age of the oldest event that is not synced, committed or not.
    pub(crate) unsafe_age: Duration,
    /// A caller waits for a commit; for a sync.
    pub(crate) commit_asked: bool,
    pub(crate) sync_asked: bool,
    pub(crate) closing: bool,
}

/// What the writer does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an ignored step leaves events in memory"]
pub(crate) enum Step {
    /// Sleep until something comes.
    Idle,
    /// Sleep this long, or until something comes that changes the step.
    Wait(Duration),
    /// Commit what waits.
    Commit,
    /// Commit what waits, and sync.
    Sync,
    /// Nothing is left to do, ever.
    Stop,
}

/// The next step.
pub(crate) fn next(backlog: Backlog, options: &Options) -> Step {
    let all = backlog.waiting + backlog.unsynced;
    if all == 0 {
        return if backlog.closing { Step::Stop } else { Step::Idle };
    }
    let due = all >= options.sync_events || backlog.unsafe_age >= options.sync_every;
    if due || backlog.closing || backlog.sync_asked {
        return Step::Sync;
    }
    let until_sync = options.sync_every.saturating_sub(backlog.unsafe_age);
    if backlog.waiting == 0 {
        return Step::Wait(until_sync);
    }
    if backlog.commit_asked || backlog.waiting_age >= options.linger {
        return Step::Commit;
    }
    Step::Wait(until_sync.min(options.linger.saturating_sub(backlog.waiting_age)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{Backlog, Step, next};
    use crate::Options;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_lone_event_is_committed_after_the_linger_and_synced_after_fifty_milliseconds() {
        let options = Options::default();
        let one = Backlog { waiting: 1, ..Backlog::default() };
        assert_eq!(next(one, &options), Step::Wait(options.linger));
        let lingered = Backlog { waiting_age: options.linger, unsafe_age: options.linger, ..one };
        assert_eq!(next(lingered, &options), Step::Commit);
        let committed = Backlog { unsynced: 1, unsafe_age: ms(10), ..Backlog::default() };
        assert_eq!(next(committed, &options), Step::Wait(ms(40)));
        assert_eq!(next(Backlog { unsafe_age: ms(50), ..committed }, &options), Step::Sync);
    }

    #[test]
    fn many_events_are_synced_without_waiting() {
        let many = Backlog { waiting: 6, unsynced: 250, ..Backlog::default() };
        assert_eq!(next(many, &Options::default()), Step::Sync);
    }

    proptest! {
        #[test]
        fn no_caller_waits_for_ever_and_nothing_is_left_behind(
            waiting in 0_usize..400, unsynced in 0_usize..400, age in 0_u64..100, more in 0_u64..100,
            commit_asked: bool, sync_asked: bool, closing: bool,
        ) {
            let options = Options::default();
            let backlog = Backlog {
                waiting, unsynced, waiting_age: ms(age), unsafe_age: ms(age + more), commit_asked, sync_asked, closing,
            };
            let step = next(backlog, &options);
            let something = waiting + unsynced > 0;
            prop_assert_eq!(matches!(step, Step::Idle | Step::Stop), !something);
            if something && (sync_asked || closing) {
                prop_assert_eq!(step, Step::Sync);
            }
            if waiting > 0 && commit_asked {
                prop_assert!(matches!(step, Step::Commit | Step::Sync));
            }
            if let Step::Wait(time) = step {
                prop_assert!(!time.is_zero() && time <= options.sync_every, "{:?}", time);
            }
        }
    }
}
