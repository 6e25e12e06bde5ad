//! What an island asks for.
//!
//! Room: values.

use std::time::Duration;

use policy_admission::cpu::{self, Reservation, is_schedulable};
use policy_cpu::{ContextSpec, Nanos};
use sched_tasks::internals::{context_asked, context_overrun, context_spec};
use sched_tasks::{Context, Overrun};

use crate::error::IslandError;

/// Whether an island needs the realtime policy of the system (`SCHED_FIFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Realtime {
    /// It has it where the system permits; [`InForce`](crate::InForce) says whether it does.
    #[default]
    IfPermitted,
    /// Without it the island does not run.
    Required,
    /// It is not asked for.
    No,
}

/// How long a lease may take to end, unless said otherwise.
const REVOCATION_LATENCY: Duration = Duration::from_millis(50);

/// Above the kernel's threads of priority 1, and below those of 50 that handle interrupts.
const PRIORITY: u8 = 10;

/// The highest priority: one is left for the guard.
const PRIORITY_MAX: u8 = 98;

/// Its guard looks so often at most, and at least.
const GUARD_INTERVAL: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// A task of an island.
#[derive(Debug, Clone)]
pub(crate) struct TaskSpec {
    pub(crate) name: String,
    pub(crate) context: Context,
    pub(crate) after: Option<String>,
}

/// What an island asks for: periodic tasks, CPUs for itself, memory.
///
/// ```
/// use std::time::Duration;
/// use bursar::{Runtime, cpu::{Context, Island, IslandError}};
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let millis = Duration::from_millis;
/// let greedy = Island::new("audio")
///     .task("capture", Context::budget(millis(4)).period(millis(5)))
///     .task("mix", Context::budget(millis(2)).period(millis(5)));
/// let refused = greedy.admit_on(&runtime).unwrap_err();
/// assert_eq!(refused.to_string(), "audio: mix needs 2 ms in every 5 ms; CPU 1 has 1 ms left after capture");
/// # Ok::<(), bursar::RunError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before `admit`"]
pub struct Island {
    pub(crate) name: String,
    pub(crate) tasks: Vec<TaskSpec>,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    pub(crate) realtime: Realtime,
    pub(crate) priority: u8,
    pub(crate) revocation_latency: Duration,
    pub(crate) spin: Duration,
}

impl Island {
    /// An island with one CPU for itself, and no task yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tasks: Vec::new(),
            cpus: 1,
            memory: 0,
            realtime: Realtime::default(),
            priority: PRIORITY,
            revocation_latency: REVOCATION_LATENCY,
            spin: Duration::ZERO,
        }
    }

    /// A task that runs once in every period of `context`, for as long as its budget says, and is done by its deadline. What happens if it takes longer is
    /// [`Context::on_overrun`]: its next cycles are left out until it has time again ([`Overrun::Throttle`]), it runs as an ordinary thread until then ([`Overrun::Demote`]), or
    /// the island ends ([`Overrun::Cancel`]).
    pub fn task(mut self, name: impl Into<String>, context: Context) -> Self {
        self.tasks.push(TaskSpec { name: name.into(), context, after: None });
        self
    }

    /// A task that runs in every period when `after` has run in it, on the same CPU. Both have the same period.
    pub fn task_after(mut self, after: impl Into<String>, name: impl Into<String>, context: Context) -> Self {
        self.tasks.push(TaskSpec { name: name.into(), context, after: Some(after.into()) });
        self
    }

    /// So many CPUs for itself. Default: 1.
    pub fn lease(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// So many bytes of memory for [buffers](crate::AdmittedIsland::buffer), in whole pages each.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Whether it needs the system's realtime policy. Default: where the system permits.
    pub fn realtime(mut self, realtime: Realtime) -> Self {
        self.realtime = realtime;
        self
    }

    /// Its priority among realtime threads of the system, 1 to 98. Default: 10.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority.clamp(1, PRIORITY_MAX);
        self
    }

    /// Within what time its CPUs are given back when the lease is [revoked](crate::IslandHandle::revoke), whatever its tasks do. Default: 50 ms.
    pub fn revocation_latency(mut self, limit: Duration) -> Self {
        self.revocation_latency = limit;
        self
    }

    /// Its threads are awake so long before a release, and spin until then: a timer and a wake take a system 50 µs, and some virtual machines ten times as long. It burns the CPUs of the
    /// island, and no others. Default: zero.
    pub fn spin(mut self, ahead: Duration) -> Self {
        self.spin = ahead;
        self
    }

    /// What is asked of admission.
    pub(crate) fn asked(&self) -> cpu::Island {
        let mut asked = cpu::Island::new(&*self.name).memory(self.memory).lease(self.cpus);
        for TaskSpec { name, context, after } in &self.tasks {
            let spec = context_asked(context); // one that is out of order is refused there, by name
            asked = match after {
                None => asked.task(name, spec),
                Some(after) => asked.task_after(name, spec, after),
            };
        }
        asked
    }

    /// What is wrong with it, whatever the machine, beyond what admission looks at.
    pub(crate) fn check(&self) -> Result<(), IslandError> {
        let island = || self.name.clone();
        if self.cpus == 0 {
            return Err(IslandError::NoCpu { island: island() });
        }
        for (index, task) in self.tasks.iter().enumerate() {
            if self.tasks[..index].iter().any(|other| other.name == task.name) {
                return Err(IslandError::TwoOfOneName { island: island(), task: task.name.clone() });
            }
            let asked = context_asked(&task.context);
            if asked.is_valid() && spec_of(&task.context).is_none() {
                let (task, period) = (task.name.clone(), Duration::from_nanos(asked.period));
                return Err(IslandError::PeriodTooLong { island: island(), task, period });
            }
            let before = task.after.as_ref().and_then(|after| self.tasks.iter().find(|other| other.name == *after));
            if let (Some(before), Some(spec)) = (before, spec_of(&task.context))
                && spec_of(&before.context).is_some_and(|before| before.period != spec.period)
            {
                let [task, after] = [task, before].map(|one| one.name.clone());
                return Err(IslandError::OtherPeriod { island: island(), task, after });
            }
        }
        let latency = self.revocation_takes();
        if latency > self.revocation_latency {
            let limit = self.revocation_latency;
            return Err(IslandError::RevocationTooSlow { island: island(), latency, limit });
        }
        Ok(())
    }

    /// Tasks of one CPU run one after the other: none is interrupted. So one with an early deadline may have to wait for one with a later, for as long as that one's budget.
    pub(crate) fn check_blocking(&self, is_here: impl Fn(&str) -> bool) -> Result<(), IslandError> {
        let here: Vec<(&str, Reservation)> = self
            .tasks
            .iter()
            .filter(|task| is_here(&task.name))
            .filter_map(|task| Some((&*task.name, Reservation::of(&spec_of(&task.context)?))))
            .collect();
        let mut all: Vec<Reservation> = here.iter().map(|(_, one)| *one).collect();
        for (index, (task, one)) in here.iter().enumerate() {
            let later = here.iter().filter(|(_, other)| other.deadline > one.deadline);
            let Some((by, longest)) = later.max_by_key(|(_, other)| other.budget) else { continue };
            all[index].deadline = one.deadline.saturating_sub(longest.budget);
            if !is_schedulable(&all, 0) {
                return Err(IslandError::Blocked {
                    island: self.name.clone(),
                    task: (*task).to_owned(),
                    deadline: Duration::from_nanos(one.deadline),
                    by: (*by).to_owned(),
                    budget: Duration::from_nanos(longest.budget),
                });
            }
        }
        Ok(())
    }

    /// How often its guard looks: once in the smallest budget.
    pub(crate) fn guard_interval(&self) -> Duration {
        let budgets = self.tasks.iter().filter_map(|task| spec_of(&task.context)).map(|spec| spec.budget);
        let smallest = budgets.min().map_or(GUARD_INTERVAL[1], Duration::from_nanos);
        smallest.min(self.revocation_latency / 4).clamp(GUARD_INTERVAL[0], GUARD_INTERVAL[1])
    }

    /// How long a revocation takes at most: it is carried out at the first look of the guard after half of the time that is allowed.
    fn revocation_takes(&self) -> Duration {
        4 * self.guard_interval()
    }

    pub(crate) fn overrun_of(&self, task: usize) -> Overrun {
        context_overrun(&self.tasks[task].context)
    }
}

/// The same as `policy-cpu` has it; none if budget, deadline and period are not in order.
pub(crate) fn spec_of(context: &Context) -> Option<ContextSpec> {
    context_spec(context)
}

/// Nanoseconds, as far as they can be counted.
pub(crate) fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}
