//! What to do with an attempt, given what Slurm says of it.
//!
//! Room: decisions.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! An attempt that has begun is never submitted again, and one that has not begun is reported as failed only if Slurm says that it ended it, or refuses it.
//!
//! # Why one miss is not enough
//! slurmctld answers while it still reads its state after a restart, and a script may write its mark of the end a moment after Slurm lists the job for the last time.

use crate::rows::{Fate, Row};
use crate::state::State;

/// So many answers in a row must not list an attempt before that means anything.
pub const MISSES_MIN: u32 = 2;
/// After so many further ones the question is asked again.
pub const MISSES_AGAIN: u32 = 10;
/// After so many, a command that began is lost though Slurm does not know the job: it may still run on its node, which Slurm tells to end it when it hears of it.
pub const MISSES_LOST: u32 = 20;

/// What Slurm says of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen<'a> {
    /// A job with its key is in the queue.
    Row(&'a Row),
    /// No job with its key is in the queue.
    Absent,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Wait,
    /// This id is its job.
    Adopt(u64),
    /// Ask what became of it: see [`after_fate`].
    AskFate,
}

/// What to do after an answer of Slurm about the whole queue; `misses` counts the answers in a row that did not list it, this one included.
pub fn after_answer(state: State, id: Option<u64>, seen: Seen<'_>, misses: u32) -> Step {
    match (state, seen) {
        (State::Ended | State::Revoked, _) => Step::Wait,
        (_, Seen::Row(row)) if id == Some(row.id) && state != State::Wanted => Step::Wait,
        (_, Seen::Row(row)) => Step::Adopt(row.id),
        (_, Seen::Absent) if misses == MISSES_MIN || (misses > 0 && misses.is_multiple_of(MISSES_AGAIN)) => {
            Step::AskFate
        }
        (_, Seen::Absent) => Step::Wait,
    }
}

/// What to do with an attempt that is gone from the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Slurm has it after all.
    Wait,
    /// Slurm does not have it, and it has not begun: submit it again.
    Submit,
    /// Slurm ended it before it began: if the permit can be taken, it has failed for this reason.
    Fail(String),
    /// It began, and left no mark of its end: it has failed for this reason.
    Lost(String),
}

/// What to do with an attempt that is gone from the queue, given what became of its id. `is_ours` says whether the comment of that job has its key; `misses` is as for [`after_answer`].
pub fn after_fate(state: State, fate: Option<&Fate>, is_ours: bool, misses: u32) -> Verdict {
    match (state, fate.filter(|_| is_ours)) {
        (State::Ended | State::Revoked, _) => Verdict::Wait,
        (_, Some(fate)) if !fate.is_over() => Verdict::Wait,
        (State::Began, Some(fate)) => Verdict::Lost(format!("{} while its command ran", fate.words())),
        (State::Began, None) if misses < MISSES_LOST => Verdict::Wait,
        (State::Began, None) => {
            Verdict::Lost("Slurm does not know it any more, and its script left no mark of its end".to_owned())
        }
        // A node that fails is not the job's fault.
        (_, Some(fate)) if matches!(fate.state.as_str(), "NODE_FAIL" | "BOOT_FAIL" | "PREEMPTED") => Verdict::Submit,
        // Slurm started its script, or tried to. If another start has the permit, the driver learns that when it tries to take it.
        (_, Some(fate)) if matches!(fate.state.as_str(), "COMPLETED" | "FAILED" | "LAUNCH_FAILED") => {
            let words = fate.words();
            let help = "its node must see the folder of the run: set BURSAR_STATE_DIR to one that all nodes share";
            Verdict::Fail(format!("{words} before its command began; {help}"))
        }
        (_, Some(fate)) => Verdict::Fail(format!("{} before its command began", fate.words())),
        _ => Verdict::Submit,
    }
}
