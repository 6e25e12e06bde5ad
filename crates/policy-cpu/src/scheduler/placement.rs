//! On which CPU a thread waits: wakes, migration, stealing.
//!
//! Room: decisions.
//!
//! # Invariant
//! A thread leaves one CPU before it is published to another, and takes its lag along. No search looks at more than [`STEAL_LOOKS`] CPUs: the sets of idle and of crowded CPUs say where to look.

use super::{Interrupt, Scheduler};
use crate::context::ContextId;
use crate::cpus::CpuSet;
use crate::ids::Stale;
use crate::thread::{Class, Location, ThreadId};
use crate::time::{Nanos, VirtualTime};

/// How many other CPUs an idle one looks at, and a wake compares.
pub const STEAL_LOOKS: u32 = 4;

/// How often a CPU that is busy compares its load with others.
pub(super) const BALANCE_INTERVAL: Nanos = 4_000_000;

/// What became of a wake.
#[must_use = "a CPU that is not interrupted does not see the thread"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// Where the thread waits now; none if it did not wait for an event, or may not run.
    pub cpu: Option<u32>,
    /// The CPU that should be interrupted, since it idles or runs something that comes after the thread.
    pub interrupt: Option<u32>,
}

impl Wake {
    const NOTHING: Wake = Wake { cpu: None, interrupt: None };
}

impl Scheduler {
    /// The event that a thread waits for has come. `from` is the CPU on which that was found out. Of a thread that does not wait nothing becomes.
    pub fn wake(&mut self, id: ThreadId, now: Nanos, from: Option<u32>) -> Result<Wake, Stale> {
        if self.threads.get(id)?.location != Location::Blocked {
            return Ok(Wake::NOTHING);
        }
        if let Some(context) = self.authority(id) {
            self.contexts.get_mut(context).expect("authority is alive").wake(now);
        }
        Ok(self.place_and_enqueue(id, now, from))
    }

    /// Moves a thread to a CPU, as a policy wishes. Nothing happens if it may not run there.
    pub fn migrate(&mut self, id: ThreadId, to: u32, now: Nanos) -> Result<Interrupt, Stale> {
        let mut interrupt = Interrupt::default();
        let location = self.threads.get(id)?.location;
        if !self.machine.contains(to) || !self.may_run_on(id, to) {
            return Ok(interrupt);
        }
        match location {
            Location::Running { cpu, .. } if cpu != to => interrupt.0.insert(cpu),
            Location::Queued { cpu, .. } if cpu != to => {}
            _ => return Ok(interrupt),
        }
        self.take_off(id, now, Location::Blocked);
        self.arrive(id, to, now);
        if self.has_to_look(id, to, now) {
            interrupt.0.insert(to);
        }
        Ok(interrupt)
    }

    /// Changes where a thread may run. It moves at once if it waits elsewhere, and at the next interrupt if it runs elsewhere.
    pub fn set_cpus(&mut self, id: ThreadId, cpus: CpuSet, now: Nanos) -> Result<Interrupt, Stale> {
        self.threads.get_mut(id)?.cpus = cpus;
        let mut interrupt = Interrupt::default();
        match self.threads.get(id)?.location {
            Location::Running { cpu, .. } if !self.may_run_on(id, cpu) => interrupt.0.insert(cpu),
            Location::Queued { cpu, .. } | Location::Throttled { cpu } if !self.may_run_on(id, cpu) => {
                self.take_off(id, now, Location::Blocked);
                if let Some(cpu) = self.place_and_enqueue(id, now, None).interrupt {
                    interrupt.0.insert(cpu);
                }
            }
            Location::Stopped => {
                self.set_location(id, Location::Blocked);
                if let Some(cpu) = self.place_and_enqueue(id, now, None).interrupt {
                    interrupt.0.insert(cpu);
                }
            }
            _ => {}
        }
        Ok(interrupt)
    }

    /// Whether a thread may run on a CPU, by its mask, its context and leases.
    pub fn allows(&self, id: ThreadId, cpu: u32) -> bool {
        self.may_run_on(id, cpu)
    }

    /// Whether a context is in force for a thread.
    pub fn has_authority(&self, id: ThreadId) -> bool {
        self.authority(id).is_some()
    }

    /// The context that a thread's time is charged to: one that came with a call, its own, its process's.
    pub fn authority_of(&self, id: ThreadId) -> Result<Option<ContextId>, Stale> {
        self.threads.get(id)?;
        Ok(self.authority(id))
    }

    /// CPUs that have nothing to do, or only threads of the idle class.
    pub const fn idle_cpus(&self) -> CpuSet {
        self.idle
    }

    /// CPUs on which threads of the reserved or fair class wait.
    pub const fn crowded_cpus(&self) -> CpuSet {
        self.crowded
    }

    /// Where a thread may run: its mask, its context's, and what no lease of others has.
    pub(super) fn allowed(&self, id: ThreadId) -> CpuSet {
        let Ok(thread) = self.threads.get(id) else { return CpuSet::NONE };
        let mut allowed = thread.cpus.and(self.machine);
        if let Some(context) = self.authority(id)
            && let Ok(context) = self.contexts.get(context)
        {
            allowed = allowed.and(context.spec().cpus);
        }
        if self.leased.is_empty() {
            return allowed;
        }
        let mut foreign = self.leased;
        for (_, lease) in self.leases.iter().filter(|(_, lease)| lease.spec.owner == thread.process) {
            foreign = foreign.without(lease.spec.cpus);
        }
        allowed.without(foreign)
    }

    pub(super) fn may_run_on(&self, id: ThreadId, cpu: u32) -> bool {
        let Ok(thread) = self.threads.get(id) else { return false };
        let leased_to_others = self.cpus[cpu as usize]
            .lease
            .and_then(|lease| self.leases.get(lease).ok())
            .is_some_and(|lease| lease.spec.owner != thread.process);
        let context = self.authority(id).and_then(|context| self.contexts.get(context).ok());
        !leased_to_others
            && thread.cpus.contains(cpu)
            && context.is_none_or(|context| context.spec().cpus.contains(cpu))
    }

    /// Chooses a CPU for a runnable thread that is in no queue, and queues it there.
    pub(super) fn place_and_enqueue(&mut self, id: ThreadId, now: Nanos, from: Option<u32>) -> Wake {
        let Some(cpu) = self.place(id, from) else {
            self.set_location(id, Location::Stopped); // every CPU it may use is leased to others
            return Wake::NOTHING;
        };
        self.arrive(id, cpu, now);
        if !matches!(self.threads.get(id).map(|thread| thread.location), Ok(Location::Queued { .. })) {
            // It is throttled, and the CPU has to set its timer; or it is stopped.
            return Wake { cpu: None, interrupt: Some(cpu) };
        }
        let interrupt = self.has_to_look(id, cpu, now).then_some(cpu);
        Wake { cpu: Some(cpu), interrupt }
    }

    /// Its last CPU, if that idles; else one that idles; else of some the one with the least weight.
    fn place(&self, id: ThreadId, from: Option<u32>) -> Option<u32> {
        let last = self.threads.get(id).ok()?.last_cpu;
        if self.idle.contains(last) && self.may_run_on(id, last) {
            return Some(last); // without looking at all that is allowed
        }
        let allowed = self.allowed(id);
        if let Some(cpu) = self.idle.and(allowed).next_from(last) {
            return Some(cpu);
        }
        let load = |cpu: &u32| {
            let state = &self.cpus[*cpu as usize];
            (state.reserved.len(), state.fair.weight(), *cpu != last)
        };
        let mut best = allowed.next_from(last)?;
        let mut at = best;
        if let Some(from) = from
            && allowed.contains(from)
            && load(&from) < load(&best)
        {
            best = from;
        }
        for _ in 1..STEAL_LOOKS {
            at = allowed.next_from(at + 1)?;
            if load(&at) < load(&best) {
                best = at;
            }
        }
        Some(best)
    }

    /// The thread that waits on a CPU and would run next there; what other CPUs may take.
    pub fn first_waiting(&self, cpu: u32) -> Option<ThreadId> {
        let state = &self.cpus[cpu as usize];
        let reserved = state.reserved.first_within(&self.pool, VirtualTime(0)).map(|(index, _)| index);
        let index = reserved.or_else(|| state.fair.peek(&self.pool))?;
        self.threads.id_at(index)
    }

    /// An idle CPU on which the first thread that waits here could run.
    pub(super) fn who_could_help(&self, cpu: u32) -> Option<u32> {
        if self.idle.is_empty() || !self.crowded.contains(cpu) {
            return None;
        }
        let id = self.first_waiting(cpu)?;
        self.idle.and(self.allowed(id)).next_from(cpu)
    }

    fn arrive(&mut self, id: ThreadId, cpu: u32, now: Nanos) {
        self.settle(cpu, now); // it joins at the virtual time of now, not of when the CPU was last looked at
        let thread = self.threads.get_mut(id).expect("the caller has it");
        self.cpus[cpu as usize].account.arrivals += u64::from(thread.last_cpu != cpu);
        thread.last_cpu = cpu;
        self.enqueue(id, cpu, now);
    }

    /// Whether a CPU has to look at a thread that was just queued there: it goes before what runs, or it is the first that waits, and what runs has no time limit yet.
    pub(super) fn has_to_look(&mut self, id: ThreadId, cpu: u32, now: Nanos) -> bool {
        self.settle(cpu, now);
        let Some(current) = self.cpus[cpu as usize].current else { return true };
        let [new, old] = [id, current].map(|id| self.threads.get(id).expect("both are here"));
        let (Location::Queued { class: new_class, .. }, Location::Running { class: old_class, .. }) =
            (new.location, old.location)
        else {
            return false;
        };
        let rank = |class| match class {
            Class::Reserved => 0,
            Class::Fair => 1,
            Class::Idle => 2,
        };
        let state = &self.cpus[cpu as usize];
        rank(new_class) < rank(old_class)
            || new_class == old_class
                && match new_class {
                    Class::Reserved => new.deadline < old.deadline,
                    Class::Fair => state.fair.waiting() == 1 || state.fair.preempts(&new.fair, &old.fair),
                    Class::Idle => state.idle.waiting() == 1 || state.idle.preempts(&new.fair, &old.fair),
                }
    }

    /// A few crowded CPUs, from the one behind this one on; not itself, which counts as one of them.
    fn victims(&self, cpu: u32) -> impl Iterator<Item = u32> + use<> {
        let crowded = self.crowded;
        let (mut at, mut first) = (cpu, None);
        (0..STEAL_LOOKS)
            .map_while(move |_| {
                let next = crowded.next_from(at + 1).filter(|&next| first != Some(next))?; // once round at most
                first.get_or_insert(next);
                at = next;
                Some(next)
            })
            .filter(move |&victim| victim != cpu)
    }

    /// From time to time: takes a thread of the most loaded of a few crowded CPUs, if both are nearer to each other then.
    pub(super) fn balance(&mut self, cpu: u32, now: Nanos) {
        if now.saturating_sub(self.cpus[cpu as usize].balanced) < BALANCE_INTERVAL {
            return;
        }
        self.cpus[cpu as usize].balanced = now;
        let own = self.cpus[cpu as usize].fair.weight();
        let mut best: Option<(ThreadId, u64)> = None;
        for victim in self.victims(cpu) {
            let state = &self.cpus[victim as usize];
            let Some(index) = state.fair.peek(&self.pool) else { continue };
            self.cpus[cpu as usize].account.steal_looks += 1;
            let id = self.threads.id_at(index).expect("what is queued exists");
            let weight = u64::from(self.threads.get(id).expect("seen above").fair.weight().get());
            let load = self.cpus[victim as usize].fair.weight();
            if load >= own + 2 * weight && best.is_none_or(|(_, most)| load > most) && self.may_run_on(id, cpu) {
                best = Some((id, load));
            }
        }
        if let Some((id, _)) = best {
            self.take_off(id, now, Location::Blocked);
            self.cpus[cpu as usize].account.steals += 1;
            self.arrive(id, cpu, now);
        }
    }

    /// Takes the most overdue thread of a few crowded CPUs. Returns whether there was one.
    pub(super) fn steal(&mut self, cpu: u32, now: Nanos) -> bool {
        let mut best: Option<(ThreadId, (bool, i64))> = None;
        for victim in self.victims(cpu) {
            self.cpus[cpu as usize].account.steal_looks += 1;
            let Some(id) = self.first_waiting(victim) else { continue };
            if !self.may_run_on(id, cpu) {
                continue;
            }
            let thread = self.threads.get(id).expect("seen above");
            let is_reserved = matches!(thread.location, Location::Queued { class: Class::Reserved, .. });
            let overdue = match is_reserved {
                true => (now as i64).wrapping_sub(thread.deadline as i64),
                false => self.cpus[victim as usize].fair.lag_ns(&thread.fair),
            };
            let rank = (is_reserved, overdue);
            if best.is_none_or(|(_, other)| rank > other) {
                best = Some((id, rank));
            }
        }
        let Some((id, _)) = best else { return false };
        self.take_off(id, now, Location::Blocked);
        self.cpus[cpu as usize].account.steals += 1;
        self.arrive(id, cpu, now);
        true
    }
}
