//! What to do with an attempt, given what Slurm says of it.
//!
//! Room: decisions.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! An attempt that has begun is never submitted again, and one that has not begun is reported as failed only if a person cancelled it in Slurm, if Slurm refuses it, or if
//! Slurm started and ended it several times without its script taking the permit.
//!
//! # Why one miss is not enough
//! slurmctld answers while it still reads its state after a restart, and a script may write its mark of the end a moment after Slurm lists the job for the last time.
//!
//! # Why an end before the command is not believed at once
//! A slurmctld that was killed gives ids of forgotten jobs to others, while scripts of the forgotten ones still run on the nodes. A node refuses to start a second job with
//! an id that it runs, and then Slurm calls that job cancelled; or the end of the old script is taken for that of the new job. Both had a node. What a person cancels while
//! it waits never had one.

use core::time::Duration;

use crate::id::SlurmId;
use crate::rows::{Fate, Row};
use crate::state::State;

/// So many answers in a row must not list an attempt before that means anything.
pub const MISSES_MIN: u32 = 2;
/// After so many further ones the question is asked again.
pub const MISSES_AGAIN: u32 = 10;
/// After so many, a command that began is lost though Slurm does not know the job: it may still run on its node, which Slurm tells to end it when it hears of it.
pub const MISSES_LOST: u32 = 20;

/// So many times Slurm may end a job of an attempt after it had given it a node, and before the command began. Then the attempt has failed.
pub const LAUNCHES_MAX: u32 = 5;

/// So long Slurm may say that a job runs while its script has not taken the permit; then the attempt is submitted again, which is harmless. Each further time it is twice as long.
pub const LAUNCH_TIME: Duration = Duration::from_secs(15);

/// Whether an attempt whose job has been running for so long, as Slurm says, and whose permit is still there, is to be submitted again. After a crash slurmctld may list jobs
/// that no node has, for minutes.
pub fn is_ghost(running: Duration, launches: u32) -> bool {
    launches < LAUNCHES_MAX && running >= LAUNCH_TIME * (1 << launches)
}

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
    Adopt(SlurmId),
    /// Ask what became of it: see [`after_fate`].
    AskFate,
}

/// What to do after an answer of Slurm about the whole queue; `misses` counts the answers in a row that did not list it, this one included.
pub fn after_answer(state: State, id: Option<SlurmId>, seen: Seen<'_>, misses: u32) -> Step {
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
    /// Slurm ended it on a node before it began, and no person asked for that: submit it again, and count that.
    SubmitOnceMore,
    /// Slurm ended it before it began: if the permit can be taken, it has failed for this reason.
    Fail(String),
    /// It began, and left no mark of its end: it has failed for this reason.
    Lost(String),
}

/// What became of the id of an attempt that is gone from the queue.
#[derive(Debug, Clone, Copy)]
pub struct Gone<'a> {
    /// What Slurm says of the id; `None` if it does not know it.
    pub fate: Option<&'a Fate>,
    /// Whether the comment of that job has the key of the attempt.
    pub is_ours: bool,
    /// As for [`after_answer`].
    pub misses: u32,
    /// Whether its prologue has begun, and has not come to its last line.
    pub in_prologue: bool,
    /// How often Slurm ended a job of the attempt on a node before it began, this time not included.
    pub launches: u32,
}

/// What is said of a prologue that ended with this code, as a shell has it, and its script with it.
pub fn prologue_ended(code: i32) -> String {
    format!(
        "the prologue of [slurm] ended with code {code} before its command began; a prologue must go on to its last line, and its log says what it printed"
    )
}

/// What to do with an attempt that is gone from the queue.
pub fn after_fate(state: State, gone: Gone<'_>) -> Verdict {
    match (state, gone.fate.filter(|_| gone.is_ours)) {
        (State::Ended | State::Revoked, _) => Verdict::Wait,
        (_, Some(fate)) if !fate.is_over() => Verdict::Wait,
        (State::Began, Some(fate)) if gone.in_prologue => Verdict::Lost(match (fate.state.as_str(), fate.code) {
            ("FAILED" | "COMPLETED", Some(code)) => prologue_ended(code),
            _ => format!("{} while the prologue of [slurm] ran, before its command began", fate.words()),
        }),
        (State::Began, Some(fate)) => Verdict::Lost(format!("{} while its command ran", fate.words())),
        (State::Began, None) if gone.misses < MISSES_LOST => Verdict::Wait,
        (State::Began, None) => {
            Verdict::Lost("Slurm does not know it any more, and its script left no mark of its end".to_owned())
        }
        (_, None) => Verdict::Submit,
        // A node that fails is not the job's fault.
        (_, Some(fate)) if matches!(fate.state.as_str(), "NODE_FAIL" | "BOOT_FAIL" | "PREEMPTED") => Verdict::Submit,
        // A person cancelled what waited, or Slurm did, for a reason that it names.
        (_, Some(fate)) if fate.node.is_none() && matches!(fate.state.as_str(), "CANCELLED" | "DEADLINE") => {
            Verdict::Fail(format!("{} before its command began", fate.words()))
        }
        // A start that failed, or not of this job. If another start has the permit, the driver learns that when it tries to take it.
        (_, Some(_)) if gone.launches + 1 < LAUNCHES_MAX => Verdict::SubmitOnceMore,
        (_, Some(fate)) => Verdict::Fail(format!(
            "Slurm started it {LAUNCHES_MAX} times, and each time it {} before its command began; its node must see the folder of the run: set BURSAR_STATE_DIR to one that all nodes share",
            fate.words()
        )),
    }
}
