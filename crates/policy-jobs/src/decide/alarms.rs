//! Timers: the end of a back-off, and the timeout of a pause.
//!
//! Room: decisions.
//!
//! # Invariant
//! An alarm fires only if nothing has made it void since it was set: it carries the job's stamp, and every event that makes it void changes the stamp.

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
        // A reservation that becomes owed only keeps other jobs from starting, so it needs no alarm.
        self.alarms.peek().map(|Reverse(alarm)| alarm.0)
    }

    /// Does what is due.
    #[inline]
    pub fn tick(&mut self, now: Time) {
        if self.alarms.peek().is_some_and(|Reverse(alarm)| alarm.0 <= now) {
            self.fire_alarms(now);
        }
    }

    #[cold]
    fn fire_alarms(&mut self, now: Time) {
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
        woken.sort_unstable(); // lanes need the earliest first
        woken.into_iter().for_each(|id| self.make_ready(now, id));
    }
}

/// The back-off after so many failures: it doubles each time, plus a jitter of up to a quarter, so that many jobs do not retry at once.
pub(super) fn backoff(retry: Retry, failures: u32, seed: u64) -> Duration {
    let doubled = retry.backoff.saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
    let wait = doubled.min(retry.longest);
    let mut x = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    wait.saturating_add(wait / 4000 * ((x >> 32) as u32 % 1000)).min(retry.longest)
}
