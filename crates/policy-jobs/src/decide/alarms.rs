//! What happens by itself when time has passed: the end of a back-off, and of the patience with a pause.
//!
//! # Invariant
//! An alarm rings for the job that set it, as it was then, or not at all: it carries the job's stamp, which changes with whatever makes it void.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use super::graph::PAUSING;
use super::{Core, Retry};
use crate::aging::Time;
use crate::state::State;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    Retry,
    PauseTimeout,
}

impl Core {
    /// When `tick` has something to do next.
    #[inline]
    pub fn next_alarm(&self) -> Option<Time> {
        // A reservation that becomes owed only keeps others from starting: nobody need be woken for it.
        self.alarms.peek().map(|Reverse(alarm)| alarm.0)
    }

    /// Does what is due.
    #[inline]
    pub fn tick(&mut self, now: Time) {
        if self.alarms.peek().is_some_and(|Reverse(alarm)| alarm.0 <= now) {
            self.ring_alarms(now);
        }
    }

    #[cold]
    fn ring_alarms(&mut self, now: Time) {
        let mut woken = Vec::new();
        while let Some(&Reverse((at, id, stamp, alarm))) = self.alarms.peek() {
            if at > now {
                break;
            }
            self.alarms.pop();
            let node = &self.nodes[id as usize];
            if node.stamp != stamp {
                continue;
            }
            match (alarm, node.state) {
                (Alarm::Retry, State::Queued) => woken.push(id),
                (Alarm::Retry, State::Paused) => self.nodes[id as usize].paused_from = State::Ready,
                (Alarm::PauseTimeout, State::Running) if node.is(PAUSING) => self.pause_timed_out(now, id),
                _ => {}
            }
        }
        woken.sort_unstable(); // lanes want the earliest first
        woken.into_iter().for_each(|id| self.make_ready(now, id));
    }
}

/// How long to wait after so many failures: twice as long each time, and up to a quarter more, so that many do not return at once.
pub(super) fn backoff(retry: Retry, failures: u32, seed: u64) -> Duration {
    let doubled = retry.backoff.saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
    let wait = doubled.min(retry.longest);
    let mut x = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    wait.saturating_add(wait / 4000 * ((x >> 32) as u32 % 1000)).min(retry.longest)
}
