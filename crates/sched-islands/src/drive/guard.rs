//! The guard of an island: it takes the rank from a cycle that does not end, and the CPUs from an island that does not leave.
//!
//! Room: driver.
//!
//! A thread with `SCHED_FIFO` that loops for ever would keep its CPU for ever. The guard runs on the common CPUs, with a higher priority where the system permits, and looks at
//! every CPU of the island several times in the time that the lease allows for a revocation.
//!
//! # Invariants
//! - A cycle that has run for longer than its budget loses its realtime policy at the guard's next look, and has it again after it has ended.
//! - A lease that was revoked is given back within its revocation latency, whatever its tasks do.
//!
//! # Rejected
//! Waking the guard at the beginning of every cycle, to sleep just until its limit: two system calls more in each cycle. It looks while the island runs, and only then.

use std::time::Duration;

use sched_tasks::internals::sleep_until;

use crate::handle::Shared;

use super::cpu_thread::CpuThread;

/// Threads that members of the island started are moved away from its CPUs so often.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// Looks until it is cancelled.
pub(super) fn watch(shared: &Shared, cpu_threads: &[CpuThread]) {
    let interval = shared.spec.guard_interval();
    let mut swept = sched_tasks::now();
    loop {
        sleep_until(sched_tasks::now() + interval);
        let now = sched_tasks::now();
        cpu_threads.iter().for_each(|cpu_thread| cpu_thread.look(now));
        if shared.revoked_at().is_some_and(|at| now >= at + shared.spec.revocation_latency / 2) {
            shared.lease.release();
        }
        if now >= swept + SWEEP_INTERVAL {
            swept = now;
            let _ = mech_cpu::partition::sweep(); // tried again at the next look
        }
    }
}
