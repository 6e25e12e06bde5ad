//! Charging, and which thread runs next on a CPU.
//!
//! Room: decisions.

use super::placement::BALANCE_INTERVAL;
use super::{Cpu, Interrupt, Scheduler, key};
use crate::context::{ContextId, Notice, Overrun};
use crate::pool::Pool;
use crate::thread::{Class, Location, Thread, ThreadId};
use crate::time::{Nanos, VirtualTime};
use crate::tree::Hint;

/// Refills that one call looks at. More are due only after a long time without calls; the timer then comes back at once.
const REFILLS_AT_ONCE: u32 = 8;

/// What a CPU does now.
#[must_use = "the CPU runs what was decided, not what it ran before"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    /// The thread to run; none to idle.
    pub thread: Option<ThreadId>,
    /// For how long at most, before [`Scheduler::schedule`] is to be called again. None: until something happens.
    pub at_most: Option<Nanos>,
    /// Whether that is another thread than before.
    pub is_switch: bool,
    /// Other CPUs that should look: a thread was moved there, or waits here that could run there.
    pub interrupt: Interrupt,
}

/// Where a thread that could run belongs now.
enum Standing {
    Runs(Class),
    Throttled { until: Nanos },
    Stopped,
}

impl Scheduler {
    /// Chooses what a CPU runs. To be called when its timer fires, it was interrupted, or its thread blocked.
    pub fn schedule(&mut self, cpu: u32, now: Nanos) -> Dispatch {
        self.settle(cpu, now);
        let mut interrupt = self.give_back_lease(cpu);
        self.refill(cpu, now, &mut interrupt);
        let before = self.cpus[cpu as usize].current;
        if let Some(other) = before.and_then(|thread| self.put_back(thread, cpu, now)) {
            interrupt.0.insert(other);
        }
        self.balance(cpu, now);
        let chosen = self.choose(cpu, now);
        let is_switch = chosen.map(|(thread, _)| thread) != before;
        if let Some((id, class)) = chosen {
            let thread = self.threads.get_mut(id).expect("a thread that waits exists");
            thread.location = Location::Running { cpu, class };
            thread.account.last_start = Some(now);
            thread.last_cpu = cpu;
            if is_switch {
                thread.account.switches += 1;
            }
        }
        let state = &mut self.cpus[cpu as usize];
        state.current = chosen.map(|(thread, _)| thread);
        state.account.switches += u64::from(is_switch);
        if is_switch
            && let Some(before) = before
            && let Ok(thread) = self.threads.get_mut(before)
        {
            thread.account.preemptions += 1;
        }
        self.note(cpu);
        if let Some(other) = self.who_could_help(cpu) {
            interrupt.0.insert(other);
        }
        interrupt.0.set(cpu, false);
        let at_most = self.time_limit(cpu, now);
        Dispatch { thread: chosen.map(|(thread, _)| thread), at_most, is_switch, interrupt }
    }

    /// The thread that runs here waits for an event. The CPU has to be [scheduled](Self::schedule) next.
    pub fn block(&mut self, cpu: u32, now: Nanos) -> Option<ThreadId> {
        let thread = self.cpus[cpu as usize].current?;
        self.take_off(thread, now, Location::Blocked);
        self.threads.get_mut(thread).ok()?.account.voluntary_blocks += 1;
        Some(thread)
    }

    /// The thread that runs here lets others go first. The CPU has to be [scheduled](Self::schedule) next.
    pub fn yield_now(&mut self, cpu: u32, now: Nanos) {
        self.settle(cpu, now);
        if let Some(id) = self.cpus[cpu as usize].current
            && let Ok(thread) = self.threads.get_mut(id)
        {
            thread.fair.ask_again();
        }
    }

    /// Charges what passed on a CPU since the last time.
    pub(super) fn settle(&mut self, cpu: u32, now: Nanos) {
        let state = &mut self.cpus[cpu as usize];
        let Some(ran) = now.checked_sub(state.settled) else {
            state.account.clock_steps_back += 1;
            return;
        };
        if ran == 0 {
            return;
        }
        state.settled = now;
        let Some(id) = state.current else {
            state.account.idle += ran;
            return;
        };
        state.account.busy += ran;
        let thread = self.threads.get_mut(id).expect("a thread that runs exists");
        thread.account.runtime += ran;
        thread.account.last_start = Some(now);
        match thread.location {
            Location::Running { class: Class::Fair, .. } => {
                state.fair.charge(&mut thread.fair, ran);
            }
            Location::Running { class: Class::Idle, .. } => {
                state.idle.charge(&mut thread.fair, ran);
            }
            _ => {
                if let Some(context) = self.authority(id) {
                    self.contexts.get_mut(context).expect("authority is alive").charge(ran);
                }
            }
        }
    }

    /// The context that a thread's time is charged to: one that came with a call, its own, its process's. None that is gone counts.
    pub(super) fn authority(&self, id: ThreadId) -> Option<ContextId> {
        if self.contexts.is_empty() {
            return None; // the usual case of a machine without reserved time, at the cost of one look
        }
        let thread = self.threads.get(id).ok()?;
        let default = self.processes.get(thread.process).ok().and_then(|process| process.default_context);
        let candidates = [thread.donated, thread.context, default];
        candidates.into_iter().flatten().find(|&context| self.contexts.get(context).is_ok())
    }

    fn standing(&mut self, id: ThreadId, now: Nanos) -> Standing {
        let class = self.threads.get(id).expect("the caller has it").class;
        let Some(context) = self.authority(id) else {
            return if class == Class::Reserved { Standing::Stopped } else { Standing::Runs(class) };
        };
        let state = self.contexts.get_mut(context).expect("authority is alive");
        if state.available(now) > 0 {
            return Standing::Runs(Class::Reserved);
        }
        if state.deplete() {
            self.post_notice(context);
        }
        let state = self.contexts.get(context).expect("authority is alive");
        match state.spec().overrun {
            Overrun::Throttle => Standing::Throttled { until: state.refills().next_at() },
            Overrun::Demote if class == Class::Reserved => Standing::Runs(Class::Fair),
            Overrun::Demote => Standing::Runs(class),
            Overrun::Stop => Standing::Stopped,
        }
    }

    /// Puts a runnable thread that is in no queue where it belongs on a CPU.
    pub(super) fn enqueue(&mut self, id: ThreadId, cpu: u32, now: Nanos) {
        let standing = self.standing(id, now);
        let deadline = self.authority(id).map_or(0, |context| {
            let context = self.contexts.get(context).expect("authority is alive");
            // Among equal deadlines the more critical first: a nanosecond for each step, which is below any deadline's precision.
            context.deadline().saturating_add(u64::from(u8::MAX - context.spec().criticality))
        });
        let index = id.index();
        let thread = self.threads.get_mut(id).expect("the caller has it");
        let state = &mut self.cpus[cpu as usize];
        thread.location = match standing {
            Standing::Runs(class) => Location::Queued { cpu, class },
            Standing::Throttled { .. } => Location::Throttled { cpu },
            Standing::Stopped => Location::Stopped,
        };
        match standing {
            Standing::Runs(Class::Reserved) => {
                thread.deadline = deadline;
                state.reserved.insert(&mut self.pool, index, key(deadline), VirtualTime(0));
            }
            Standing::Runs(class) => join_fair(state, &mut self.pool, (cpu, class), index, thread),
            Standing::Throttled { until } => {
                state.throttled.insert(&mut self.pool, index, key(until), VirtualTime(0));
            }
            Standing::Stopped => {}
        }
        self.note(cpu);
    }

    /// Takes a thread out of whatever queue it is in, or off its CPU, and puts it somewhere else.
    pub(super) fn take_off(&mut self, id: ThreadId, now: Nanos, to: Location) {
        let Ok(thread) = self.threads.get(id) else { return };
        let cpu = match thread.location {
            Location::Running { cpu, .. } => {
                self.settle(cpu, now);
                self.cpus[cpu as usize].current = None;
                cpu
            }
            Location::Queued { cpu, .. } | Location::Throttled { cpu } => cpu,
            Location::Blocked | Location::Calling(_) | Location::Stopped => {
                self.set_location(id, to);
                return;
            }
        };
        let thread = self.threads.get_mut(id).expect("seen above");
        let state = &mut self.cpus[cpu as usize];
        match thread.location {
            Location::Queued { class: Class::Reserved, .. } => {
                state.reserved.remove(&mut self.pool, id.index(), Hint::NONE);
            }
            Location::Throttled { .. } => {
                state.throttled.remove(&mut self.pool, id.index(), Hint::NONE);
            }
            Location::Queued { class: Class::Fair, .. } | Location::Running { class: Class::Fair, .. } => {
                state.fair.leave(&mut self.pool, id.index(), &mut thread.fair);
            }
            Location::Queued { class: Class::Idle, .. } | Location::Running { class: Class::Idle, .. } => {
                state.idle.leave(&mut self.pool, id.index(), &mut thread.fair);
            }
            _ => {} // a thread that runs in the reserved class is in no tree
        }
        thread.account.last_start = None;
        thread.location = to;
        self.note(cpu);
    }

    /// Lets the thread that runs here wait again, here or where it may. Returns another CPU that should look.
    fn put_back(&mut self, id: ThreadId, cpu: u32, now: Nanos) -> Option<u32> {
        let Location::Running { class, .. } = self.threads.get(id).ok()?.location else { return None };
        if !self.may_run_on(id, cpu) {
            self.take_off(id, now, Location::Blocked);
            return self.place_and_enqueue(id, now, None).interrupt;
        }
        // The usual case: it stays in its queue, with its runtime as it is.
        if class != Class::Reserved && self.authority(id).is_none() {
            let state = &mut self.cpus[cpu as usize];
            let thread = self.threads.get_mut(id).expect("seen above");
            let queue = if class == Class::Fair { &mut state.fair } else { &mut state.idle };
            queue.put_back(&mut self.pool, &thread.fair);
            thread.location = Location::Queued { cpu, class };
            state.current = None;
            return None;
        }
        self.take_off(id, now, Location::Blocked);
        self.enqueue(id, cpu, now);
        None
    }

    fn choose(&mut self, cpu: u32, now: Nanos) -> Option<(ThreadId, Class)> {
        loop {
            let state = &mut self.cpus[cpu as usize];
            let (index, class) = if let Some(index) = state.reserved.take_first_within(&mut self.pool, VirtualTime(0)) {
                (index, Class::Reserved)
            } else if let Some(index) = state.fair.pick(&mut self.pool) {
                (index, Class::Fair)
            } else if let Some(index) = state.idle.pick(&mut self.pool) {
                (index, Class::Idle)
            } else if self.steal(cpu, now) {
                continue;
            } else {
                return None;
            };
            let id = self.threads.id_at(index).expect("what is queued exists");
            let is_right = match self.authority(id) {
                None => class != Class::Reserved,
                Some(context) => {
                    let has_time = self.contexts.get_mut(context).expect("authority is alive").available(now) > 0;
                    has_time == (class == Class::Reserved)
                }
            };
            if is_right {
                return Some((id, class));
            }
            // Its context was depleted, refilled, changed or revoked while it waited.
            if class == Class::Reserved {
                self.set_location(id, Location::Blocked);
            } else {
                self.set_location(id, Location::Running { cpu, class });
                self.leave_picked(id, cpu, class);
            }
            self.enqueue(id, cpu, now);
        }
    }

    /// Takes a thread that was just picked out of its fair queue again.
    fn leave_picked(&mut self, id: ThreadId, cpu: u32, class: Class) {
        let state = &mut self.cpus[cpu as usize];
        let thread = self.threads.get_mut(id).expect("it was just picked");
        let queue = if class == Class::Fair { &mut state.fair } else { &mut state.idle };
        queue.leave(&mut self.pool, id.index(), &mut thread.fair);
        thread.location = Location::Blocked;
    }

    /// Lets threads whose contexts have time again wait for the CPU.
    fn refill(&mut self, cpu: u32, now: Nanos, interrupt: &mut Interrupt) {
        for _ in 0..REFILLS_AT_ONCE {
            let throttled = &self.cpus[cpu as usize].throttled;
            if throttled.first_deadline(&self.pool).is_none_or(|due| key(now).is_before(due)) {
                return;
            }
            let (index, _) = throttled.first_within(&self.pool, VirtualTime(0)).expect("it has a first");
            let id = self.threads.id_at(index).expect("what is throttled exists");
            self.take_off(id, now, Location::Blocked);
            if let Some(context) = self.authority(id) {
                self.contexts.get_mut(context).expect("authority is alive").wake(now);
            }
            if let Some(other) = self.place_and_enqueue(id, now, Some(cpu)).interrupt {
                interrupt.0.insert(other);
            }
        }
    }

    /// For how long what runs here may run without being looked at.
    pub fn time_limit(&self, cpu: u32, now: Nanos) -> Option<Nanos> {
        let state = &self.cpus[cpu as usize];
        let mut limit = Nanos::MAX;
        if let Some(refill) = state.throttled.first_deadline(&self.pool) {
            limit = refill.since(key(now)).max(0) as Nanos;
        }
        if let Some(id) = state.current
            && let Ok(thread) = self.threads.get(id)
        {
            let own = match thread.location {
                Location::Running { class: Class::Reserved, .. } => {
                    let context = self.authority(id).and_then(|context| self.contexts.get(context).ok());
                    context.map_or(Nanos::MAX, |context| context.refills().available(now).max(1))
                }
                Location::Running { class: Class::Fair, .. } if state.fair.waiting() > 0 => {
                    thread.fair.left_of_slice().max(1)
                }
                Location::Running { class: Class::Idle, .. } if state.idle.waiting() > 0 => {
                    thread.fair.left_of_slice().max(1)
                }
                _ => Nanos::MAX,
            };
            limit = limit.min(own);
        }
        if self.crowded.has_others_than(cpu) {
            limit = limit.min((state.balanced + BALANCE_INTERVAL).saturating_sub(now).max(1));
        }
        (limit < Nanos::MAX).then_some(limit)
    }

    fn post_notice(&mut self, context: ContextId) {
        let Ok(state) = self.contexts.get_mut(context) else { return };
        if state.notice != Notice::None {
            return; // the last one was not taken yet; it says the same
        }
        state.notice = Notice::Waiting { next: None };
        self.notices = match self.notices {
            None => Some((context.index(), context.index())),
            Some((first, last)) => {
                if let Some(last) = self.contexts.id_at(last)
                    && let Ok(last) = self.contexts.get_mut(last)
                {
                    last.notice = Notice::Waiting { next: Some(context.index()) };
                }
                Some((first, context.index()))
            }
        };
    }
}

/// Lets a thread join a fair queue of a CPU: the one it left last, or another.
pub(super) fn join_fair(state: &mut Cpu, pool: &mut Pool, (cpu, class): (u32, Class), index: u32, thread: &mut Thread) {
    let queue = if class == Class::Fair { &mut state.fair } else { &mut state.idle };
    if thread.fair_cpu.replace(cpu) == Some(cpu) {
        queue.rejoin(pool, index, &mut thread.fair);
    } else {
        queue.join(pool, index, &mut thread.fair);
    }
}
