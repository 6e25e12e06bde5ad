//! The initial state of each job of a resumed run: whether and how it continues.
//!
//! Room: decisions.
//!
//! # Invariant
//! A job whose success is known to the journal *or* to a keeper does not run again.

use sched_jobs::State;
use surface_journal::JobRow;

/// How a job starts in this process of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InitialState {
    /// It is done.
    Done,
    /// It failed for good, or was cancelled, and `--retry-failed` was not given.
    Failed {
        /// Its error.
        why: String,
        /// Attempts made.
        attempts: u32,
    },
    /// It is still to be done, after some attempts; some of these do not count against its retries.
    Open {
        /// Attempts made.
        attempts: u32,
        /// Attempts that do not count.
        forgiven: u32,
    },
    /// A keeper knows this attempt: it runs, or has ended.
    Found {
        /// Its token in the keeper.
        token: String,
        /// Which attempt it is.
        attempt: u32,
        /// Whether it has ended.
        ended: bool,
        /// Attempts that do not count against its retries, this one included.
        forgiven: u32,
    },
}

/// What a keeper knows about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownAttempt {
    pub(crate) token: String,
    pub(crate) attempt: u32,
    pub(crate) what: KeeperStatus,
}

/// The status of a command, from its keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeeperStatus {
    /// It runs.
    Runs,
    /// It ended by itself.
    Ended,
    /// It was cancelled: it is not done.
    Cancelled,
    /// Its keeper was killed: it is not known whether it is done.
    Lost,
}

impl InitialState {
    /// A job of a new run.
    pub(crate) const NEW: InitialState = InitialState::Open { attempts: 0, forgiven: 0 };

    /// Whether it cannot run in this process of the run.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, InitialState::Done | InitialState::Failed { .. })
    }
}

/// Whether its last attempt was running.
pub(crate) fn has_run(row: &JobRow) -> bool {
    row.state == State::Running || (row.state == State::Paused && row.started_us.is_some())
}

/// The initial state of one job.
pub(crate) fn of(
    row: &JobRow,
    retries: u32,
    known: Option<&KnownAttempt>,
    retry_failed: bool,
    fails_if_lost: bool,
) -> InitialState {
    if row.state == State::Succeeded {
        return InitialState::Done;
    }
    // A keeper that knows of a later attempt, or of the end of this one, knows more than the journal.
    let settled = row.state.is_terminal() && !(row.state == State::Failed && row.attempt <= retries);
    if let Some(known) = known
        && (known.attempt > row.attempt || (known.attempt == row.attempt && !row.state.is_terminal()))
    {
        return match known.what {
            KeeperStatus::Cancelled => InitialState::Open { attempts: known.attempt, forgiven: 1 },
            KeeperStatus::Lost if !fails_if_lost => InitialState::Open { attempts: known.attempt, forgiven: 1 },
            what => InitialState::Found {
                token: known.token.clone(),
                attempt: known.attempt,
                ended: what != KeeperStatus::Runs,
                // The journal does not know yet how it ended. If it failed, it is to be retried as any other that failed.
                forgiven: if retry_failed && what != KeeperStatus::Runs { known.attempt } else { 0 },
            },
        };
    }
    match row.state {
        State::Failed | State::Cancelled if settled && !retry_failed => {
            let why = row.detail.error.clone().or_else(|| row.detail.how.clone());
            let did = if row.state == State::Failed { "failed" } else { "was cancelled" };
            let why = why.unwrap_or_else(|| format!("it {did} before the run was resumed"));
            InitialState::Failed { why, attempts: row.attempt }
        }
        State::Failed | State::Cancelled if settled => {
            InitialState::Open { attempts: row.attempt, forgiven: row.attempt }
        }
        State::Failed => InitialState::Open { attempts: row.attempt, forgiven: 0 },
        // What leads to an attempt is recorded under its number. A job may be paused before it started.
        State::Queued | State::Ready | State::Paused if !has_run(row) => {
            InitialState::Open { attempts: row.attempt.saturating_sub(1), forgiven: 0 }
        }
        // It ran, and no keeper knows it: lost with its keeper, by a power loss or a SIGKILL. The job is not to blame.
        _ if fails_if_lost && !retry_failed => {
            let token = row.detail.token.clone().unwrap_or_else(|| format!("{}/{}/lost", row.job, row.attempt));
            InitialState::Found { token, attempt: row.attempt, ended: true, forgiven: 0 }
        }
        _ => InitialState::Open { attempts: row.attempt, forgiven: 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surface_journal::{Demand, Detail};

    fn row(state: State, attempt: u32) -> JobRow {
        JobRow {
            job: 0,
            name: "a".into(),
            group: "a".into(),
            command: "true".into(),
            fingerprint: 1,
            demand: Demand::default(),
            state,
            attempt,
            ready_us: None,
            started_us: None,
            ended_us: None,
            progress: None,
            detail: Detail { how: Some("exited with 3".into()), ..Detail::default() },
        }
    }

    fn of(row: &JobRow, retries: u32, known: Option<&KnownAttempt>, retry_failed: bool) -> InitialState {
        super::of(row, retries, known, retry_failed, false)
    }

    #[test]
    fn what_was_lost_fails_if_its_job_says_so() {
        let lost = known(1, KeeperStatus::Lost);
        assert_eq!(super::of(&row(State::Running, 1), 0, Some(&lost), false, true), found(1, true));
        assert_eq!(super::of(&row(State::Queued, 0), 0, Some(&lost), false, true), found(1, true));
        let by_journal = InitialState::Found { token: "0/1/lost".into(), attempt: 1, ended: true, forgiven: 0 };
        assert_eq!(super::of(&row(State::Running, 1), 0, None, false, true), by_journal);
        assert_eq!(
            super::of(&row(State::Running, 1), 0, Some(&lost), false, false),
            InitialState::Open { attempts: 1, forgiven: 1 }
        );
    }

    fn known(attempt: u32, what: KeeperStatus) -> KnownAttempt {
        KnownAttempt { token: format!("0/{attempt}/x"), attempt, what }
    }

    fn found(attempt: u32, ended: bool) -> InitialState {
        InitialState::Found { token: format!("0/{attempt}/x"), attempt, ended, forgiven: 0 }
    }

    #[test]
    fn an_end_that_only_a_keeper_knows_is_retried_at_once_if_the_user_asks() {
        let ended = known(2, KeeperStatus::Ended);
        let forgiven = InitialState::Found { token: "0/2/x".into(), attempt: 2, ended: true, forgiven: 2 };
        assert_eq!(of(&row(State::Running, 2), 0, Some(&ended), true), forgiven);
        assert_eq!(of(&row(State::Running, 2), 0, Some(&ended), false), found(2, true));
        assert_eq!(of(&row(State::Running, 1), 0, Some(&known(1, KeeperStatus::Runs)), true), found(1, false));
    }

    fn failed_for_good() -> InitialState {
        InitialState::Failed { why: "exited with 3".into(), attempts: 2 }
    }

    #[test]
    fn what_has_succeeded_is_done_whatever_else_is_known() {
        for what in [KeeperStatus::Runs, KeeperStatus::Ended, KeeperStatus::Cancelled] {
            assert_eq!(of(&row(State::Succeeded, 1), 0, Some(&known(1, what)), true), InitialState::Done);
        }
    }

    #[test]
    fn a_keeper_that_knows_more_than_the_journal_is_believed() {
        let runs = known(1, KeeperStatus::Runs);
        let ended = known(1, KeeperStatus::Ended);
        assert_eq!(of(&row(State::Running, 1), 0, Some(&runs), false), found(1, false));
        assert_eq!(of(&row(State::Running, 1), 0, Some(&ended), false), found(1, true));
        assert_eq!(of(&row(State::Queued, 0), 0, Some(&ended), false), found(1, true), "the journal came too late");
        assert_eq!(of(&row(State::Ready, 1), 0, Some(&runs), false), found(1, false));
        let again = known(2, KeeperStatus::Runs);
        assert_eq!(of(&row(State::Failed, 1), 1, Some(&again), false), found(2, false));
        assert_eq!(of(&row(State::Queued, 2), 1, Some(&again), false), found(2, false));
    }

    #[test]
    fn what_a_user_ended_is_not_done() {
        let cancelled = known(1, KeeperStatus::Cancelled);
        let open = InitialState::Open { attempts: 1, forgiven: 1 };
        assert_eq!(of(&row(State::Running, 1), 0, Some(&cancelled), false), open);
        assert_eq!(
            of(&row(State::Queued, 2), 0, Some(&cancelled), false),
            InitialState::Open { attempts: 1, forgiven: 0 }
        );
    }

    #[test]
    fn a_failure_stays_unless_it_has_retries_or_the_user_asks() {
        let failed = row(State::Failed, 2);
        assert_eq!(of(&failed, 1, None, false), failed_for_good());
        assert_eq!(of(&failed, 2, None, false), InitialState::Open { attempts: 2, forgiven: 0 });
        assert_eq!(of(&failed, 1, None, true), InitialState::Open { attempts: 2, forgiven: 2 });
        assert_eq!(of(&failed, 1, Some(&known(2, KeeperStatus::Ended)), false), failed_for_good());
        assert!(of(&row(State::Cancelled, 0), 0, None, false).is_over());
        assert_eq!(of(&row(State::Cancelled, 0), 0, None, true), InitialState::NEW);
    }

    #[test]
    fn what_was_paused_before_it_began_was_not_lost() {
        for fails_if_lost in [false, true] {
            assert_eq!(super::of(&row(State::Paused, 1), 0, None, false, fails_if_lost), InitialState::NEW);
        }
        let tried_before = super::of(&row(State::Paused, 3), 5, None, false, true);
        assert_eq!(tried_before, InitialState::Open { attempts: 2, forgiven: 0 });
    }

    #[test]
    fn what_was_lost_is_done_again_and_does_not_count() {
        assert_eq!(of(&row(State::Running, 1), 0, None, false), InitialState::Open { attempts: 1, forgiven: 1 });
        let frozen = JobRow { started_us: Some(7), ..row(State::Paused, 3) };
        assert_eq!(of(&frozen, 5, None, false), InitialState::Open { attempts: 3, forgiven: 1 });
        assert_eq!(of(&row(State::Ready, 1), 0, None, false), InitialState::NEW);
        assert_eq!(of(&row(State::Queued, 0), 0, None, false), InitialState::NEW);
    }
}
