//! Waiting: until woken, until a time, until cancelled. Everything that blocks and has no better reason to do otherwise waits here.
//!
//! Room: driver. Knows when it pays to look again before a strand stops; how one stops is `strand/until.rs`.

use std::{hint, rc::Rc, time::Instant};

use mech_sync::WaitToken;

pub(crate) use crate::strand::until::{End, wait_through_pauses};
use crate::{
    kernel::worker::Worker,
    strand::{Strand, Woken, give_way},
};

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

/// Lets the fibers that are ready run once, before it is worth to stop for something: on one worker, the fiber that brings it is often among them, and a turn
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

/// Rounds of spinning; each takes twice as long as the one before, in all about 1 µs. Then some rounds of giving the CPU away: the thread that could make it ready
/// may be waiting for this one.
const SPIN_ROUNDS: u32 = 7;
const YIELD_ROUNDS: u32 = 4;

/// Watches for `ready` a little while before it is worth to stop: only if there is nothing else to do here, and another worker that could make it so. Nor while that one
/// has tasks to take: else a worker that takes tasks which wait at once would take one every 2 µs, and leave most of them to the one that spawned them.
#[inline]
pub(crate) fn spin_until(strand: &Strand, ready: impl Fn() -> bool) -> bool {
    if strand.shared().is_some_and(|shared| !shared.spins) {
        return false;
    }
    for round in 0..SPIN_ROUNDS + YIELD_ROUNDS {
        let is_busy =
            |worker: &Rc<Worker>| worker.has_other_work() || round == 0 && worker.shared.has_stealable(worker.index);
        if strand.worker.as_ref().is_some_and(is_busy) {
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
