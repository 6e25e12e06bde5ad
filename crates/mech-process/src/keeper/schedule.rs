//! What a command asks of the system's scheduler, set for the thread that starts it.
//!
//! Room: mechanism. Knows how each thing is asked for, and its next best; knows nothing of how a command starts.
//!
//! # Invariant
//! What is refused is replaced by the next best, and said; the command runs. Only CPUs and a niceness that a user wrote as numbers are errors.
//!
//! # The next best
//! | asked | | then | then |
//! |---|---|---|---|
//! | class | policy, niceness, slice, I/O priority; niceness of the autogroup | the niceness that the thread has | |
//! | weight | a control group | the niceness that comes nearest | as far as permitted |
//! | cpus | a control group and the affinity | the affinity | |
//! | reservation | `SCHED_DEADLINE` | `SCHED_FIFO` | class `latency` |

use std::io;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::class::{Class, nice_of_weight};
use crate::cpu_group::{self, Made};
use crate::in_force::{IoPriority, Refusal, Setting};
use crate::limits::Limits;
use crate::raw::BeforeExec;
use crate::raw::sched::{self, Attributes};
use crate::{autogroup, machine};

/// Above the kernel's threads of priority 1, and below those of 50 that handle interrupts.
const FIFO_PRIORITY: u32 = 10;

/// What was set, and what the child still has to do.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub(super) before_exec: BeforeExec,
    /// The niceness that the autogroup of the command is to have.
    pub(super) autogroup: Option<i32>,
    pub(super) refused: Vec<Refusal>,
}

/// Whether these limits ask for anything.
pub(super) fn is_asked(limits: &Limits) -> bool {
    let Limits { cpus, nice, class, weight, reservation, .. } = limits;
    cpus.is_some() || nice.is_some() || class.is_some() || weight.is_some() || reservation.is_some()
}

/// Whether these limits may need a control group.
pub(super) fn may_have_group(limits: &Limits) -> bool {
    limits.cpus.is_some() || limits.weight.is_some()
}

/// Removes the control groups of keeper `id`. The kernel may need a moment to release the last process.
pub(super) fn remove_groups(id: &str) {
    for _ in 0..100 {
        if cpu_group::remove(id) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Schedule {
    /// Sets what can be set for the calling thread, for the command of keeper `id` to inherit.
    pub(super) fn enter(limits: &Limits, id: &str) -> Result<Schedule, String> {
        let mut schedule = Schedule::default();
        if let Some(cpus) = &limits.cpus {
            schedule.join(Setting::Cpus, "a cpuset", cpu_group::with_cpus(id, cpus));
            restrict(cpus)?;
        }
        let mut shift = 0;
        if let Some(weight) = limits.weight
            && !schedule.join(Setting::Weight, "a control group", cpu_group::with_weight(id, weight))
        {
            shift = nice_of_weight(weight);
        }
        if let Some(one) = limits.reservation {
            let deadline = Attributes::deadline([one.budget, one.deadline, one.period]);
            schedule.before_exec.attributes = [Some(deadline), Some(Attributes::fifo(FIFO_PRIORITY))];
        } else {
            let is_weighted = limits.weight.is_some() && shift == 0;
            schedule.fair(limits.class, limits.nice, shift, is_weighted)?;
        }
        Ok(schedule)
    }

    /// Takes the next best of a reservation, after attempt `at` was refused. `false`: the error is another one.
    pub(super) fn next_best(&mut self, at: usize, error: &io::Error) -> bool {
        let is_refusal = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EBUSY | libc::EINVAL));
        let what = ["SCHED_DEADLINE", "SCHED_FIFO"].get(at).filter(|_| is_refusal);
        if let Some(what) = what {
            self.refused.push(Refusal::new(Setting::Reservation, what, &name(error)));
            if *what == "SCHED_FIFO" {
                let _ = self.fair(Some(Class::Latency), None, 0, false); // an error only for a niceness that a user wrote
                self.autogroup = None; // the command stays in the session of its keeper
            }
        }
        what.is_some()
    }

    /// Moves this thread into a group. `false`: there is none.
    fn join(&mut self, setting: Setting, what: &str, made: Result<Made, String>) -> bool {
        match made.and_then(|made| made.enter().map_err(|error| name(&error))) {
            Ok(file) => {
                self.before_exec.group = self.before_exec.group.take().or(file); // in version 2 both are one group
                true
            }
            Err(why) => {
                self.refused.push(Refusal::new(setting, what, &why));
                false
            }
        }
    }

    /// Policy, niceness, slice and I/O priority of a class.
    fn fair(&mut self, class: Option<Class>, wanted: Option<i32>, shift: i32, is_weighted: bool) -> Result<(), String> {
        let now = sched::get(0).map_err(|error| format!("cannot read the niceness of its keeper: {error}"))?;
        let by_class = match class.and_then(Class::nice) {
            Some(nice) if nice < 0 => nice.min(now.nice),
            Some(nice) => nice.max(now.nice),
            None => now.nice,
        };
        let nice = wanted.unwrap_or_else(|| (by_class + shift).clamp(-20, 19));
        let policy = match class {
            Some(Class::Batch) => sched::BATCH,
            Some(Class::Idle) => sched::IDLE,
            Some(Class::Latency) => sched::OTHER,
            Some(Class::Normal) | None => now.policy,
        };
        let slice = class.and_then(Class::slice);
        let mut has = nice;
        let set = |nice| {
            sched::set(&Attributes::fair(policy, nice, slice))?;
            // With `SCHED_IDLE` the kernel leaves the niceness as it was.
            rustix::process::setpriority_process(None, nice).map_err(io::Error::from)
        };
        if let Err(error) = set(nice) {
            if let Some(nice) = wanted {
                return Err(format!(
                    "cannot set niceness {nice}: {error}; only root may go below {}, or who has a limit for it (`ulimit -e`)",
                    now.nice
                ));
            }
            let setting = if class.is_some() { Setting::Class } else { Setting::Weight };
            self.refused.push(Refusal::new(setting, &format!("nice {nice}"), &name(&error)));
            has = now.nice;
            if let Err(error) = set(has) {
                self.refused.push(Refusal::new(setting, "the policy", &name(&error)));
            }
        }
        let io = match class {
            Some(Class::Batch) => Some(IoPriority::BestEffort(7)),
            Some(Class::Idle) => Some(IoPriority::Idle),
            Some(Class::Latency) => Some(IoPriority::BestEffort(0)),
            Some(Class::Normal) | None => None,
        };
        if let Some(io) = io
            && let Err(error) = sched::set_io(io.number())
        {
            self.refused.push(Refusal::new(Setting::Class, &io.to_string(), &name(&error)));
        }
        // A weight of its own group takes the place of the autogroup's.
        if has != now.nice && !is_weighted && autogroup::is_on() {
            self.before_exec.leads_session = true;
            self.autogroup = Some(has);
        }
        Ok(())
    }
}

/// Sets the affinity of this thread.
fn restrict(cpus: &[usize]) -> Result<(), String> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(format!("CPU {cpu} cannot be asked for: the highest number is {}", CpuSet::MAX_CPU - 1));
        }
        set.set(cpu);
    }
    sched_setaffinity(None, &set).map_err(|error| {
        let (wanted, has) = (machine::cpu_list(cpus), machine::cpu_list(&machine::online_cpus()));
        format!("cannot run on CPUs {wanted}: {error}; this machine has {has}")
    })
}

/// The name of an error, as manual pages have it.
fn name(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => "EPERM: not permitted".to_owned(),
        Some(libc::EACCES) => "EACCES: not permitted".to_owned(),
        Some(libc::EBUSY) => "EBUSY: more than the system has left to reserve".to_owned(),
        Some(libc::EINVAL) => "EINVAL: not possible on this system".to_owned(),
        _ => error.to_string(),
    }
}
