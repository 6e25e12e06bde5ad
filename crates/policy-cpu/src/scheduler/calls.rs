//! Synchronous calls: the caller's context travels with the call, and returns with the reply.
//!
//! Room: decisions.
//!
//! # Invariants
//! - A thread serves one call at a time. So contexts return in the opposite order in which they were lent.
//! - No chain of calls is a circle, or longer than [`CALL_DEPTH_MAX`].
//! - A context is never kept by a callee: when it replies or ends, when the caller ends, or when the context is revoked, the callee is charged for itself again.

use core::fmt;

use super::dispatch::join_fair;
use super::{Interrupt, Scheduler};
use crate::ids::Stale;
use crate::thread::{Class, Location, ThreadId};
use crate::time::Nanos;

/// The longest chain of calls that wait for each other.
pub const CALL_DEPTH_MAX: u32 = 16;

/// Why a call is refused. Nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// A handle names something that is gone.
    Stale,
    /// No thread runs on the CPU that calls.
    NoCaller,
    /// The callee does not wait for a call.
    Busy,
    /// The callee waits, over others, for the caller.
    Circle,
    /// Too many calls wait for each other.
    TooDeep,
    /// The thread that replies serves no call.
    NoCall,
}

impl From<Stale> for CallError {
    fn from(_: Stale) -> Self {
        CallError::Stale
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CallError::Stale => "the handle is stale: what it named is gone",
            CallError::NoCaller => "no thread runs on this CPU",
            CallError::Busy => "the callee does not wait for a call",
            CallError::Circle => "the callee waits, over others, for the caller",
            CallError::TooDeep => "more than 16 calls would wait for each other",
            CallError::NoCall => "the thread that replies serves no call",
        })
    }
}

impl core::error::Error for CallError {}

/// Where the other side of a call goes on.
#[must_use = "the CPU runs the other side of the call now, or another CPU has to look"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handoff {
    /// Here, at once: the CPU runs it without choosing.
    Here(ThreadId),
    /// On another CPU, or later. This CPU has to be [scheduled](Scheduler::schedule).
    Elsewhere {
        /// The CPU that should be interrupted.
        interrupt: Option<u32>,
    },
}

impl Scheduler {
    /// The thread that runs on `cpu` calls another and waits for its reply. The callee goes on at once, with the caller's context.
    pub fn call(&mut self, cpu: u32, callee: ThreadId, now: Nanos) -> Result<Handoff, CallError> {
        let caller = self.cpus[cpu as usize].current.ok_or(CallError::NoCaller)?;
        let target = self.threads.get(callee)?;
        let (mut depth, mut link) = (1, Some(caller));
        while let Some(waiting) = link {
            if waiting == callee {
                return Err(CallError::Circle);
            }
            depth += 1;
            if depth > CALL_DEPTH_MAX {
                return Err(CallError::TooDeep);
            }
            link = self.threads.get(waiting).ok().and_then(|thread| thread.caller);
        }
        if target.location != Location::Blocked || target.caller.is_some() {
            return Err(CallError::Busy);
        }
        let lent = self.authority(caller);
        self.take_off(caller, now, Location::Calling(callee));
        self.threads.get_mut(caller)?.account.voluntary_blocks += 1;
        let target = self.threads.get_mut(callee)?;
        target.caller = Some(caller);
        target.donated = lent;
        Ok(self.hand_over(callee, cpu, now))
    }

    /// The thread that runs on `cpu` replies to its caller, which goes on at once, and waits for the next call.
    pub fn reply(&mut self, cpu: u32, now: Nanos) -> Result<Handoff, CallError> {
        let callee = self.cpus[cpu as usize].current.ok_or(CallError::NoCaller)?;
        let Some(caller) = self.threads.get(callee)?.caller else { return Err(CallError::NoCall) };
        self.take_off(callee, now, Location::Blocked);
        let thread = self.threads.get_mut(callee)?;
        thread.account.voluntary_blocks += 1;
        thread.caller = None;
        thread.donated = None;
        if self.threads.get(caller).map(|thread| thread.location) != Ok(Location::Calling(callee)) {
            return Ok(Handoff::Elsewhere { interrupt: None }); // it ended, or waits no longer
        }
        self.set_location(caller, Location::Blocked);
        Ok(self.hand_over(caller, cpu, now))
    }

    /// A caller gives up waiting, as on a timeout. The callee goes on without its context.
    pub fn abandon_call(&mut self, caller: ThreadId, now: Nanos) -> Result<Interrupt, Stale> {
        let Location::Calling(callee) = self.threads.get(caller)?.location else { return Ok(Interrupt::default()) };
        let mut interrupt = self.forget_caller(callee, now);
        self.set_location(caller, Location::Blocked);
        if let Some(cpu) = self.wake(caller, now, None)?.interrupt {
            interrupt.0.insert(cpu);
        }
        Ok(interrupt)
    }

    /// Takes the context of a call back from the thread that serves it.
    pub(super) fn forget_caller(&mut self, callee: ThreadId, now: Nanos) -> Interrupt {
        let mut interrupt = Interrupt::default();
        if let Ok(Location::Running { cpu, .. }) = self.threads.get(callee).map(|thread| thread.location) {
            self.settle(cpu, now); // what ran until now was the caller's
            interrupt.0.insert(cpu);
        }
        if let Ok(thread) = self.threads.get_mut(callee) {
            thread.caller = None;
            thread.donated = None;
        }
        interrupt
    }

    /// Lets a blocked thread run here without choosing, if it may and has time; else wakes it.
    fn hand_over(&mut self, id: ThreadId, cpu: u32, now: Nanos) -> Handoff {
        if !self.may_run_on(id, cpu) {
            let wake = self.wake(id, now, Some(cpu));
            return Handoff::Elsewhere { interrupt: wake.ok().and_then(|wake| wake.interrupt) };
        }
        let context = self.authority(id);
        let class = match context {
            Some(context) => {
                let state = self.contexts.get_mut(context).expect("authority is alive");
                (state.available(now) > 0).then_some(Class::Reserved)
            }
            None => self.threads.get(id).ok().map(|thread| thread.class).filter(|&class| class != Class::Reserved),
        };
        let Some(class) = class else {
            // Depleted, or without authority: as if it were woken.
            let wake = self.wake(id, now, Some(cpu));
            return Handoff::Elsewhere { interrupt: wake.ok().and_then(|wake| wake.interrupt) };
        };
        let thread = self.threads.get_mut(id).expect("the caller has it");
        let state = &mut self.cpus[cpu as usize];
        match class {
            Class::Reserved => {
                let context = context.and_then(|context| self.contexts.get(context).ok());
                thread.deadline = context.map_or(0, |context| context.deadline());
            }
            class => {
                join_fair(state, &mut self.pool, (cpu, class), id.index(), thread);
                let queue = if class == Class::Fair { &mut state.fair } else { &mut state.idle };
                queue.run_next(id.index());
            }
        }
        state.account.arrivals += u64::from(thread.last_cpu != cpu);
        state.account.switches += 1;
        thread.last_cpu = cpu;
        thread.location = Location::Running { cpu, class };
        thread.account.last_start = Some(now);
        thread.account.switches += 1;
        state.current = Some(id);
        self.note(cpu);
        Handoff::Here(id)
    }
}
