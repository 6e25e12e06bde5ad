//! Contexts and leases: grants, changes, ends. Not on the path of dispatch: these may look at every thread and CPU.
//!
//! Room: decisions.

use super::{Interrupt, Refused, Scheduler};
use crate::context::{Context, ContextId, ContextSpec, Session};
use crate::ids::Stale;
use crate::lease::{Evidence, Lease, LeaseError, LeaseId, LeaseSpec, LeaseState};
use crate::thread::{Location, ProcessId, ThreadId};
use crate::time::Nanos;

impl Scheduler {
    /// A new context, full. Whether the machine has so much time is for admission to say, before.
    pub fn add_context(&mut self, spec: ContextSpec, now: Nanos) -> Result<ContextId, Refused> {
        if !spec.is_valid() {
            return Err(Refused::BadContext);
        }
        let limit = self.contexts.capacity();
        self.contexts.insert(Context::new(spec, now)).ok_or(Refused::Full { what: "contexts", limit })
    }

    /// Changes what a context grants. What was used stays used.
    pub fn adjust_context(&mut self, id: ContextId, spec: ContextSpec, now: Nanos) -> Result<Interrupt, Refused> {
        if !spec.is_valid() {
            return Err(Refused::BadContext);
        }
        let interrupt = self.settle_users(id, now);
        self.contexts.get_mut(id)?.adjust(spec, now);
        Ok(interrupt)
    }

    /// Ends a context. Threads that ran by it are charged for themselves from now on, or stop if they need one; so are those that had it with a call.
    pub fn revoke_context(&mut self, id: ContextId, now: Nanos) -> Result<Interrupt, Stale> {
        self.contexts.get(id)?;
        let mut interrupt = self.settle_users(id, now);
        self.drop_notice(id);
        self.contexts.remove(id)?;
        interrupt.0 = interrupt.0.or(self.look_again(now).0);
        Ok(interrupt)
    }

    /// Binds a context to a thread, or none.
    pub fn bind(&mut self, id: ThreadId, context: Option<ContextId>, now: Nanos) -> Result<Interrupt, Stale> {
        if let Some(context) = context {
            self.contexts.get(context)?;
        }
        if let Location::Running { cpu, .. } = self.threads.get(id)?.location {
            self.settle(cpu, now);
        }
        self.threads.get_mut(id)?.context = context;
        self.requeue(id, now)
    }

    /// Binds a context to all threads of a process that have none of their own.
    pub fn bind_process(&mut self, id: ProcessId, context: Option<ContextId>, now: Nanos) -> Result<Interrupt, Stale> {
        if let Some(context) = context {
            self.contexts.get(context)?;
        }
        self.processes.get(id)?;
        for cpu in self.machine.iter() {
            self.settle(cpu, now);
        }
        self.processes.get_mut(id)?.default_context = context;
        let mut interrupt = Interrupt::default();
        for index in 0..self.threads.capacity() {
            if let Some(thread) = self.threads.id_at(index)
                && self.threads.get(thread)?.process == id
            {
                interrupt.0 = interrupt.0.or(self.requeue(thread, now)?.0);
            }
        }
        Ok(interrupt)
    }

    /// Lets a thread run again that its context stopped.
    pub fn resume(&mut self, id: ThreadId, now: Nanos) -> Result<Interrupt, Stale> {
        self.requeue(id, now)
    }

    /// Makes a process part of a session: when that is closed, the process ends.
    pub fn join_session(&mut self, id: ProcessId, session: Session) -> Result<(), Stale> {
        self.processes.get_mut(id)?.session = Some(session);
        Ok(())
    }

    /// Makes a context part of a session: when that is closed, the context is revoked.
    pub fn own_context(&mut self, id: ContextId, session: Session) -> Result<(), Stale> {
        self.contexts.get_mut(id)?.session = Some(session);
        Ok(())
    }

    /// Closes a session: its processes end, with their threads and leases; its contexts are revoked, and so is every lease that they were to pay for.
    pub fn close_session(&mut self, session: Session, now: Nanos) -> Interrupt {
        let mut interrupt = Interrupt::default();
        let mut also = |other: Result<Interrupt, Stale>| interrupt.0 = interrupt.0.or(other.unwrap_or_default().0);
        for index in 0..self.processes.capacity() {
            if let Some(id) = self.processes.id_at(index)
                && self.processes.get(id).is_ok_and(|process| process.session == Some(session))
            {
                also(self.exit_process(id, now));
            }
        }
        for index in 0..self.leases.capacity() {
            if let Some(id) = self.leases.id_at(index)
                && let Ok(lease) = self.leases.get(id)
                && self.contexts.get(lease.spec.accounting).is_ok_and(|context| context.session == Some(session))
            {
                also(self.revoke_lease(id, now));
            }
        }
        for index in 0..self.contexts.capacity() {
            if let Some(id) = self.contexts.id_at(index)
                && self.contexts.get(id).is_ok_and(|context| context.session == Some(session))
            {
                also(self.revoke_context(id, now));
            }
        }
        interrupt
    }

    /// A new lease. Its owner has nothing yet.
    pub fn grant_lease(&mut self, spec: LeaseSpec) -> Result<LeaseId, LeaseError> {
        self.processes.get(spec.owner).map_err(|_| LeaseError::Stale)?;
        self.leases.insert(Lease { spec, state: LeaseState::Granted }).ok_or(LeaseError::Full)
    }

    /// Makes the CPUs of a lease its owner's alone. Threads of others that wait there move away now, those that run there at the interrupt.
    pub fn activate_lease(&mut self, id: LeaseId, evidence: &Evidence, now: Nanos) -> Result<Interrupt, LeaseError> {
        let lease = self.leases.get(id).map_err(|_| LeaseError::Stale)?;
        if lease.state != LeaseState::Granted {
            return Err(LeaseError::NotGranted);
        }
        let context = self.contexts.get(lease.spec.accounting).map_err(|_| LeaseError::NotChargeable)?;
        if !lease.spec.cpus.without(context.spec().cpus).is_empty() {
            return Err(LeaseError::NotChargeable);
        }
        lease.check(evidence, self.leased, self.machine)?;
        let cpus = lease.spec.cpus;
        for cpu in cpus.iter() {
            self.cpus[cpu as usize].lease = Some(id);
        }
        self.leased = self.leased.or(cpus);
        self.leases.get_mut(id).map_err(|_| LeaseError::Stale)?.state = LeaseState::Active;
        let mut interrupt = Interrupt(cpus);
        for index in 0..self.threads.capacity() {
            let Some(thread) = self.threads.id_at(index) else { continue };
            let location = self.threads.get(thread).map_err(|_| LeaseError::Stale)?.location;
            if let Location::Queued { cpu, .. } | Location::Throttled { cpu } = location
                && cpus.contains(cpu)
                && !self.may_run_on(thread, cpu)
            {
                self.take_off(thread, now, Location::Blocked);
                if let Some(cpu) = self.place_and_enqueue(thread, now, None).interrupt {
                    interrupt.0.insert(cpu);
                }
            }
        }
        Ok(interrupt)
    }

    /// Takes a lease back. Each of its CPUs is everybody's again from its next [`schedule`](Self::schedule) on, for which the caller has the time that the lease grants.
    pub fn revoke_lease(&mut self, id: LeaseId, now: Nanos) -> Result<Interrupt, Stale> {
        let lease = self.leases.get_mut(id)?;
        match lease.state {
            LeaseState::Granted => {
                self.leases.remove(id)?;
                Ok(Interrupt::default())
            }
            LeaseState::Active => {
                let cpus = lease.spec.cpus;
                lease.state = LeaseState::Revoking { until: now.saturating_add(lease.spec.revocation_latency_max) };
                Ok(Interrupt(cpus))
            }
            LeaseState::Revoking { .. } => Ok(Interrupt(lease.spec.cpus)),
        }
    }

    /// Gives a CPU back if its lease is being revoked.
    pub(super) fn give_back_lease(&mut self, cpu: u32) -> Interrupt {
        let Some(id) = self.cpus[cpu as usize].lease else { return Interrupt::default() };
        let is_over = match self.leases.get(id) {
            Ok(lease) => matches!(lease.state, LeaseState::Revoking { .. }),
            Err(Stale) => true,
        };
        if is_over {
            self.cpus[cpu as usize].lease = None;
            self.leased.set(cpu, false);
            if self.cpus.iter().all(|cpu| cpu.lease != Some(id)) {
                let _ = self.leases.remove(id);
                return self.look_again(self.cpus[cpu as usize].settled);
            }
        }
        Interrupt::default()
    }

    /// Charges every CPU on which time of a context is used, and returns those CPUs.
    fn settle_users(&mut self, id: ContextId, now: Nanos) -> Interrupt {
        let mut interrupt = Interrupt::default();
        for cpu in self.machine.iter() {
            if let Some(thread) = self.cpus[cpu as usize].current
                && self.authority(thread) == Some(id)
            {
                self.settle(cpu, now);
                interrupt.0.insert(cpu);
            }
        }
        interrupt
    }

    /// Queues a thread anew if it waits for a CPU or may not run. One that runs is looked at when its CPU is interrupted.
    fn requeue(&mut self, id: ThreadId, now: Nanos) -> Result<Interrupt, Stale> {
        let mut interrupt = Interrupt::default();
        match self.threads.get(id)?.location {
            Location::Queued { .. } | Location::Throttled { .. } | Location::Stopped => {
                self.take_off(id, now, Location::Blocked);
                if let Some(cpu) = self.place_and_enqueue(id, now, None).interrupt {
                    interrupt.0.insert(cpu);
                }
            }
            Location::Running { cpu, .. } => interrupt.0.insert(cpu),
            Location::Blocked | Location::Calling(_) => {}
        }
        Ok(interrupt)
    }

    /// Queues anew whatever may run by now: threads that were throttled by a context that is gone, or stopped by a lease that is.
    fn look_again(&mut self, now: Nanos) -> Interrupt {
        let mut interrupt = Interrupt::default();
        for index in 0..self.threads.capacity() {
            let Some(thread) = self.threads.id_at(index) else { continue };
            if let Ok(Location::Throttled { .. } | Location::Stopped) =
                self.threads.get(thread).map(|thread| thread.location)
                && let Ok(other) = self.requeue(thread, now)
            {
                interrupt.0 = interrupt.0.or(other.0);
            }
        }
        interrupt
    }

    /// Takes a context out of the list of those whose notices wait.
    fn drop_notice(&mut self, id: ContextId) {
        let Some((first, last)) = self.notices else { return };
        let next = match self.contexts.get_mut(id) {
            Ok(context) if context.notice != crate::context::Notice::None => context.notice.take(),
            _ => return,
        };
        if first == id.index() {
            self.notices = next.map(|next| (next, last));
            return;
        }
        for index in 0..self.contexts.capacity() {
            if let Some(other) = self.contexts.id_at(index)
                && let Ok(other) = self.contexts.get_mut(other)
                && other.notice == (crate::context::Notice::Waiting { next: Some(id.index()) })
            {
                other.notice = crate::context::Notice::Waiting { next };
                let last = if last == id.index() { index } else { last };
                self.notices = Some((first, last));
                return;
            }
        }
    }
}
