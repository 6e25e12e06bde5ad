//! One CPU of an island while it runs: the thread there, its policy, and what the guard does to it.
//!
//! Room: driver. Knows a thread and its policy; knows nothing of tasks.
//!
//! # Invariant
//! Between two cycles the thread has the policy that was in force at the beginning; within one that is demoted or was caught by the guard, that of an ordinary thread.
//!
//! # Why it holds
//! The guard acts on the cycle that runs and on no other (`mech_sync::CycleWatch`); what it did is undone by the thread itself after the cycle.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mech_cpu::{Policy, Tid};
use mech_sync::CycleWatch;

use crate::in_force::CpuInForce;
use crate::lease::Lease;
use crate::spec::Realtime;

/// A CPU, and the thread on it.
pub(super) struct CpuThread {
    pub(super) cpu: u32,
    origin: Instant,
    watch: CycleWatch,
    /// The thread, and the priority that it has between cycles; none for an ordinary thread.
    thread: OnceLock<(Tid, Option<u8>)>,
}

impl CpuThread {
    pub(super) fn new(cpu: u32, origin: Instant) -> Self {
        Self { cpu, origin, watch: CycleWatch::new(), thread: OnceLock::new() }
    }

    /// The calling thread is the one of this CPU. Says what the system granted.
    pub(super) fn start(&self, realtime: Realtime, priority: u8, is_virtual: bool) -> CpuInForce {
        let me = Tid::current();
        let granted = match realtime {
            _ if is_virtual => Err("a virtual CPU".to_owned()),
            Realtime::No => Err("not asked for".to_owned()),
            Realtime::IfPermitted | Realtime::Required => {
                let set = me.set_fifo(priority).and_then(|()| me.policy()).map_err(|error| error.to_string());
                set.and_then(|policy| match policy {
                    Policy::Fifo(priority) => Ok(priority),
                    other => Err(format!("the system made it {other:?}")),
                })
            }
        };
        let _ = self.thread.set((me, granted.clone().ok()));
        CpuInForce { cpu: self.cpu, realtime: granted }
    }

    fn priority(&self) -> Option<u8> {
        self.thread.get().and_then(|(_, priority)| *priority)
    }

    /// A cycle begins that may run until `limit`, counted from the origin; none: it runs without rank. It ends when what is returned is dropped, also by a panic.
    pub(super) fn begin<'a>(&'a self, limit: Option<Duration>, lease: &'a Lease) -> InCycle<'a> {
        if limit.is_none() && self.priority().is_some() {
            let _ = Tid::current().set_fair(); // always permitted
        }
        let nanos = limit.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
        self.watch.begin(nanos.unwrap_or(u64::MAX));
        InCycle { cpu_thread: self, was_demoted: limit.is_none(), lease }
    }

    /// Takes the rank from a cycle that is past its limit.
    pub(super) fn look(&self, now: Instant) {
        let now = u64::try_from(now.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX);
        self.watch.catch(now, || {
            if let Some((thread, Some(_))) = self.thread.get() {
                let _ = thread.set_fair(); // always permitted; the thread is there, since its cycle has not ended
            }
        });
    }
}

/// A cycle that runs.
pub(super) struct InCycle<'a> {
    cpu_thread: &'a CpuThread,
    was_demoted: bool,
    lease: &'a Lease,
}

impl Drop for InCycle<'_> {
    fn drop(&mut self) {
        let was_caught = self.cpu_thread.watch.end();
        if let Some(priority) = self.cpu_thread.priority()
            && (was_caught || self.was_demoted)
            && self.lease.is_held()
        {
            let _ = Tid::current().set_fifo(priority); // it was permitted before
        }
    }
}
