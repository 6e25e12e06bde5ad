//! Waiting: until woken, until a time, until cancelled. Everything that blocks and has no better reason to do otherwise waits here.
//!
//! # Invariant
//! A wait ends once, by one of three: somebody claimed the token, or time was up, or the task was cancelled. In the last two nobody claimed the token and
//! nobody ever will.
//!
//! # Why it holds
//! All three move the token's epoch on, by the same CAS. An alarm does it with the code `TIMEOUT`; a cancelled strand does it itself.
//!
//! A claim may come while the strand is being cancelled. Then the claim counts: the caller finishes what it was claimed for, and the
//! cancellation is seen at the next checkpoint. So nothing that was handed over is lost.

use std::{hint, time::Instant};

use mech_sync::{TIMEOUT, WaitToken};

use crate::{
    drive::{clock::Alarm, give_way},
    strand::{Strand, Woken},
};

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a token that nobody claimed is to be taken off the lists it is on"]
pub(crate) enum End {
    /// Somebody claimed the token, with this code.
    Claimed(u16),
    /// Time was up.
    TimedOut,
    /// The task is to unwind, after it has tidied up.
    Cancelled,
}

/// Stops the strand until `token` is claimed, `deadline` has passed, or it is cancelled. Inlined as far as [`Strand::wait`] is, for the same reason.
///
/// A task that is paused meanwhile stands still before it goes on with what it was claimed for.
#[inline(always)]
pub(crate) fn wait(strand: &Strand, token: WaitToken, deadline: Option<Instant>) -> End {
    let end = wait_through_pauses(strand, token, deadline);
    if strand.needs_attention() && end != End::Cancelled {
        strand.rest_while_paused();
    }
    end
}

/// The same, but goes on also if it is paused: for those whom others would wait for, as for who is woken to take a lock.
#[inline(always)]
pub(crate) fn wait_through_pauses(strand: &Strand, token: WaitToken, deadline: Option<Instant>) -> End {
    if deadline.is_some() {
        return wait_with_deadline(strand, token, deadline);
    }
    until(strand, token, None)
}

#[cold]
fn wait_with_deadline(strand: &Strand, token: WaitToken, deadline: Option<Instant>) -> End {
    let (Some(at), Some(shared)) = (deadline, strand.shared()) else {
        return until(strand, token, deadline);
    };
    let clock = &shared.clock;
    let alarm = clock.set_at(at, Alarm::Wake(token));
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

/// Stops the strand until `token` is claimed, behind a shield that only the deadlock of a seeded run breaks.
pub(crate) fn wait_shielded(strand: &Strand, token: WaitToken) -> End {
    loop {
        if strand.breaks_shields() && !strand.is_unwinding() && token.withdraw() {
            return End::Cancelled;
        }
        match strand.wait(token) {
            Woken::By(code) => return End::Claimed(code),
            Woken::Interrupted => {}
        }
    }
}

/// Stops the strand until `token` is claimed, come what may. For what must be finished before a cancellation may go on.
pub(crate) fn wait_regardless(strand: &Strand, token: WaitToken) -> u16 {
    loop {
        match strand.wait(token) {
            Woken::By(code) => return code,
            Woken::Interrupted => {}
        }
    }
}

/// Lets the fibers that are ready run once, before it is worth to stop for something: on one worker, whoever is to bring it is often among them, and a turn
/// costs a fifth of a stop and a wake. False if there are none, or if it has been in vain too often; then the caller should not even look.
///
/// The caller says with [`lingered`] whether it helped.
#[inline(always)]
pub(crate) fn linger(strand: &Strand) -> bool {
    let credit = strand.linger_credit.get();
    if credit <= 0 {
        strand.linger_credit.set(credit + 1); // some day it is worth another try
        return false;
    }
    give_way::yield_to_ready(strand)
}

/// Notes whether lingering helped.
#[inline(always)]
pub(crate) fn lingered(strand: &Strand, helped: bool) {
    const CREDIT: i8 = 4;
    const REST: i8 = -64;
    let credit = strand.linger_credit.get();
    strand.linger_credit.set(match (helped, credit) {
        (true, _) => CREDIT,
        (false, 1) => REST,
        (false, _) => credit - 1,
    });
}

/// Rounds of spinning; each takes twice as long as the one before, in all about 1 µs. Then some rounds of giving the CPU away: whoever could make it ready
/// may be waiting for just this one.
const SPIN_ROUNDS: u32 = 7;
const YIELD_ROUNDS: u32 = 4;

/// Watches for `ready` a little while before it is worth to stop: only if there is nothing else to do here, and somebody else who could make it so.
#[inline]
pub(crate) fn spin_until(strand: &Strand, ready: impl Fn() -> bool) -> bool {
    if strand.shared().is_some_and(|shared| !shared.spins) {
        return false;
    }
    for round in 0..SPIN_ROUNDS + YIELD_ROUNDS {
        if strand.worker.as_ref().is_some_and(|worker| worker.has_other_work()) {
            return false;
        }
        if round < SPIN_ROUNDS {
            for _ in 0..1 << round {
                hint::spin_loop();
            }
        } else {
            std::thread::yield_now();
        }
        if ready() {
            return true;
        }
    }
    false
}
