//! What must hold after every event.
//!
//! Room: decisions.
//!
//! # How it stays quick
//! After an event each CPU that it touched is looked at: who runs there, by what authority, with what lag, and that its runtime did not fall; and of all CPUs
//! whether one idles while a thread waits that could run there. Every thread is looked at after [`Laws::interval`] events: whether it is where its CPU says,
//! and its lag. In debug builds, as in tests, that is every event.

use std::fmt;

use policy_cpu::{Capacity, Class, CpuSet, Latency, Location, Nanos, Policy, Scheduler, Thread, ThreadId};

/// An idle CPU looks round at once when a thread comes to wait. Where only the order of those that wait changed, it finds out when it next compares loads.
const MISSED_MAX: Nanos = 5_000_000;

/// What lag a thread may have: a request of another thread may be served before this one, and this one's own may overrun by the time of an interrupt.
const LAG_MAX: i64 = 2 * Latency::Batch.slice() as i64 + 1_000_000;

/// A law that broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// When, in nanoseconds.
    pub at: Nanos,
    /// The seed with which it breaks again.
    pub seed: u64,
    /// Which, and how.
    pub law: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ns: {}; it breaks again with seed {}", self.at, self.law, self.seed)
    }
}

impl std::error::Error for Broken {}

/// An idle CPU, a thread that waits elsewhere and could run there, and since when that is so.
struct Missed {
    idle: u32,
    cpu: u32,
    id: ThreadId,
    since: Nanos,
}

/// What was seen last, so that what may only grow is seen to grow.
pub(crate) struct Laws {
    /// By number of the scheduler.
    runtimes: Vec<(Option<ThreadId>, Nanos)>,
    missed: Vec<Missed>,
    missed_before: Vec<Missed>,
    /// CPUs that idle although threads wait for them.
    stuck: CpuSet,
    queued: Vec<[u32; 3]>,
    /// Every thread is looked at after so many events.
    interval: u32,
    since: u32,
}

impl Laws {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Laws {
            runtimes: vec![(None, 0); capacity.threads as usize],
            missed: Vec::new(),
            missed_before: Vec::new(),
            stuck: CpuSet::NONE,
            queued: vec![[0; 3]; capacity.cpus as usize],
            interval: if cfg!(debug_assertions) { 1 } else { 8 * capacity.threads.max(64) },
            since: 0,
        }
    }

    pub(crate) fn look_at_all(&mut self) {
        self.interval = 1;
    }

    /// The first law that does not hold, in words.
    pub(crate) fn check(
        &mut self,
        scheduler: &Scheduler,
        now: Nanos,
        touched: &CpuSet,
        interrupted: &CpuSet,
    ) -> Result<(), String> {
        self.since += 1;
        let is_due = self.since >= self.interval;
        if is_due {
            self.since = 0;
            self.check_all(scheduler, interrupted)?;
        }
        let touched = if is_due { &scheduler.machine() } else { touched };
        let mut free = CpuSet::NONE;
        for cpu in touched.iter() {
            let Some(id) = scheduler.current(cpu) else {
                free.insert(cpu);
                continue;
            };
            let Ok(thread) = scheduler.thread(id) else {
                return Err(format!("CPU {cpu} runs {id:?}, which has ended"));
            };
            match thread.location() {
                Location::Running { cpu: on, class } if on == cpu => free.set(cpu, class == Class::Idle),
                elsewhere => return Err(format!("CPU {cpu} runs {id:?}, which is {elsewhere:?}")),
            }
            if !is_due {
                self.check_thread(scheduler, id, thread, interrupted)?;
            }
        }
        self.check_work_is_conserved(scheduler, now, (touched, &free), interrupted)
    }

    #[inline(never)]
    fn check_all(&mut self, scheduler: &Scheduler, interrupted: &CpuSet) -> Result<(), String> {
        let mut queued = std::mem::take(&mut self.queued);
        queued.fill([0; 3]);
        for (id, thread) in scheduler.threads() {
            if let Location::Queued { cpu, class } = thread.location() {
                queued[cpu as usize][rank(class)] += 1;
            }
            self.check_thread(scheduler, id, thread, interrupted)?;
        }
        for (cpu, counted) in queued.iter().enumerate() {
            let waiting = scheduler.waiting(cpu as u32);
            if waiting != *counted {
                return Err(format!(
                    "a runnable thread is in exactly one queue, but CPU {cpu} has {waiting:?} and {counted:?} say they are there"
                ));
            }
        }
        self.queued = queued;
        Ok(())
    }

    fn check_thread(
        &mut self,
        scheduler: &Scheduler,
        id: ThreadId,
        thread: &Thread,
        interrupted: &CpuSet,
    ) -> Result<(), String> {
        if let Location::Running { cpu, class } = thread.location() {
            if scheduler.current(cpu) != Some(id) {
                return Err(format!("{id:?} runs on CPU {cpu}, which runs {:?}", scheduler.current(cpu)));
            }
            // Its context had time when it was chosen; what is left by now is for the timer.
            if class == Class::Reserved && !scheduler.has_authority(id) && !interrupted.contains(cpu) {
                return Err(format!("{id:?} runs on CPU {cpu} without authority"));
            }
        }
        // Only this policy promises that.
        if scheduler.policy() == Policy::Eevdf
            && let Some(lag) = scheduler.lag_ns_of(thread)
            && lag.abs() > LAG_MAX
        {
            return Err(format!("{id:?} has a lag of {lag} ns, more than {LAG_MAX}"));
        }
        let runtime = thread.account().runtime;
        let (known, before) = std::mem::replace(&mut self.runtimes[id.index() as usize], (Some(id), runtime));
        if known == Some(id) && runtime < before {
            return Err(format!("the runtime of {id:?} fell from {before} to {runtime} ns"));
        }
        Ok(())
    }

    /// No CPU idles for long while a thread waits that could run there. `free` are those of the touched CPUs that run nothing, or a thread of the idle class.
    fn check_work_is_conserved(
        &mut self,
        scheduler: &Scheduler,
        now: Nanos,
        (touched, free): (&CpuSet, &CpuSet),
        interrupted: &CpuSet,
    ) -> Result<(), String> {
        let crowded = scheduler.crowded_cpus();
        // A CPU that idles although threads wait for itself, too.
        let before = self.stuck.without(*touched);
        self.stuck = free.and(crowded);
        before.and(crowded).iter().filter(|&cpu| is_free(scheduler, cpu)).for_each(|cpu| self.stuck.insert(cpu));
        // One that is interrupted is about to look.
        let idle = scheduler.idle_cpus().or(self.stuck).without(*interrupted);
        let crowded = crowded.without(*interrupted);
        if idle.is_empty() || crowded.is_empty() {
            self.missed.clear();
            return Ok(());
        }
        // Such a pair comes to be only by an event that touches one of the two. Those that were there before are looked at again.
        let fresh = idle.and(*touched);
        if self.missed.is_empty() && fresh.is_empty() && crowded.and(*touched).is_empty() {
            return Ok(());
        }
        let known: CpuSet = self.missed.iter().map(|missed| missed.cpu).collect();
        let looked_at = if fresh.is_empty() { crowded.and(known.or(*touched)) } else { crowded };
        self.check_pairs(scheduler, now, touched, (idle, looked_at))
    }

    /// No CPU of the first set idles for long while a thread waits for one of the second that could run there. Few events come to this.
    #[cold]
    fn check_pairs(
        &mut self,
        scheduler: &Scheduler,
        now: Nanos,
        touched: &CpuSet,
        (idle, crowded): (CpuSet, CpuSet),
    ) -> Result<(), String> {
        std::mem::swap(&mut self.missed, &mut self.missed_before);
        self.missed.clear();
        for cpu in crowded.iter() {
            let Some(id) = scheduler.first_waiting(cpu) else { continue };
            let before = |idle: u32| self.missed_before.iter().find(|missed| (missed.idle, missed.id) == (idle, id));
            for idle in idle.iter() {
                let known = before(idle);
                let is_new = touched.contains(cpu) || touched.contains(idle);
                if (!is_new && known.is_none()) || !scheduler.allows(id, idle) {
                    continue;
                }
                let since = known.map_or(now, |missed| missed.since);
                if now - since > MISSED_MAX {
                    return Err(format!("CPU {idle} idles since {since} while {id:?} waits for CPU {cpu}"));
                }
                self.missed.push(Missed { idle, cpu, id, since });
            }
        }
        Ok(())
    }
}

/// Whether a CPU runs nothing, or a thread of the idle class.
fn is_free(scheduler: &Scheduler, cpu: u32) -> bool {
    let current = scheduler.current(cpu).and_then(|id| scheduler.thread(id).ok());
    matches!(current.map(Thread::location), None | Some(Location::Running { class: Class::Idle, .. }))
}

fn rank(class: Class) -> usize {
    match class {
        Class::Reserved => 0,
        Class::Fair => 1,
        Class::Idle => 2,
    }
}
