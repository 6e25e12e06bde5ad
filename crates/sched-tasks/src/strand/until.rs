//! Stopping until a token is claimed, a time has come, or the task is cancelled. What waits for something uses `wait.rs`, which adds pauses.
//!
//! Room: driver. Knows tokens and alarms; knows nothing of what is waited for.
//!
//! # Invariant
//! A wait ends once, in one of three ways: the token is claimed, time is up, or the task is cancelled. In the last two the token was not claimed and never will be.
//!
//! # Why it holds
//! All three move the token's epoch on, by the same CAS. An alarm does it with the code `TIMEOUT`; a cancelled strand does it itself.
//!
//! A claim may come while the strand is being cancelled. Then the claim counts: the caller finishes what it was claimed for, and the
//! cancellation is seen at the next checkpoint. So nothing that was handed over is lost.

use std::time::Instant;

use mech_sync::{TIMEOUT, WaitToken};

use super::{Strand, Woken};

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a token that was not claimed is to be taken off the lists it is on"]
pub(crate) enum End {
    /// The token was claimed, with this code.
    Claimed(u16),
    /// Time was up.
    TimedOut,
    /// The task is to unwind, after it has tidied up.
    Cancelled,
}

/// Stops the strand until `token` is claimed, `deadline` has passed, or it is cancelled. Goes on also if it is paused: for tasks that others would wait for, as for one that is woken to take a lock.
#[inline(always)]
pub(crate) fn wait_through_pauses(strand: &Strand, token: WaitToken, deadline: Option<Instant>) -> End {
    if deadline.is_some() {
        return wait_with_deadline(strand, token, deadline);
    }
    until(strand, token, None)
}

/// The same for a thread, whose own timer ends it: no alarm of the clock.
pub(crate) fn wait_by_itself(strand: &Strand, token: WaitToken, deadline: Instant) -> End {
    until(strand, token, Some(deadline))
}

#[cold]
fn wait_with_deadline(strand: &Strand, token: WaitToken, deadline: Option<Instant>) -> End {
    let (Some(at), Some(shared)) = (deadline, strand.shared()) else {
        return until(strand, token, deadline);
    };
    if strand.is_cancelled() && token.withdraw() {
        return End::Cancelled; // before the alarm, which might be quicker: what was refused its budget sleeps no more
    }
    let clock = &shared.clock;
    let alarm = clock.set_wake(at, token, TIMEOUT);
    let end = until(strand, token, None);
    if end != End::TimedOut {
        clock.clear(alarm);
    }
    end
}

#[inline(always)]
fn until(strand: &Strand, token: WaitToken, thread_deadline: Option<Instant>) -> End {
    loop {
        // Before every stop, not only after an interrupt: an earlier wait may have used the interrupt up.
        if strand.is_cancelled() && token.withdraw() {
            return End::Cancelled;
        }
        match strand.wait_until(token, thread_deadline) {
            None | Some(Woken::By(TIMEOUT)) => return End::TimedOut,
            Some(Woken::By(code)) => return End::Claimed(code),
            Some(Woken::Interrupted) => {}
        }
    }
}
