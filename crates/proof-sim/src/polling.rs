//! Rings at work: who submits, who takes, and when a ring is polled.
//!
//! Room: driver.
//!
//! A ring is *polled* while it has an active lease for polling, that lease has a context to charge, and exactly one thread takes from the ring, by that context. Its
//! consumer then looks again and again, and pays for every look. Otherwise the ring is quiet: its consumer sleeps until a request comes, and runs by whatever time it has.
//! So a lease that is revoked, or whose owner ends, leaves a ring that works, on the CPUs of everybody.

use policy_cpu::{CpuSet, Evidence, LeaseId, LeaseMode, LeaseSpec, LeaseState, Nanos};

use crate::event::Event;
use crate::machine::{Machine, RINGS_MAX};
use crate::program::{Step, between};
use crate::ring::{Request, Ring, RingError, RingSpec};
use crate::steps::After;

/// How long a revocation of a lease takes on this machine: an interrupt, and some.
const REVOCATION_LATENCY: Nanos = 10_000;

impl Machine {
    /// A new ring, into which requests come from now on. Returns its number, for [`Step::Poll`].
    pub fn add_ring(&mut self, spec: RingSpec) -> u32 {
        let number = self.rings.len() as u32;
        assert!(number < RINGS_MAX, "`{}` is one more than the {RINGS_MAX} rings of a machine", spec.name);
        assert!(spec.every.0 > 0, "`{}`: requests that come at once never let time pass", spec.name);
        let first = between(spec.every, &mut self.dice);
        self.rings.push(Ring::new(spec));
        self.events.set(self.now + first, Event::Submit { ring: number });
        number
    }

    /// Grants and activates a lease under which a ring is polled.
    ///
    /// # Errors
    /// The condition that does not hold. Nothing has changed then.
    pub fn poll_ring(&mut self, ring: u32, spec: LeaseSpec) -> Result<LeaseId, RingError> {
        if spec.mode != LeaseMode::Polling {
            return Err(RingError::NotForPolling);
        }
        let ring_consumers = self.consumers(ring).count() as u32;
        let is_charged =
            |thread: u32| self.scheduler.authority_of(self.threads[thread as usize].id) == Ok(Some(spec.accounting));
        if self.scheduler.context(spec.accounting).is_ok() && !self.consumers(ring).all(is_charged) {
            return Err(RingError::NotCharged);
        }
        let evidence = Evidence { pinned: [CpuSet::NONE; 4], ring_consumers, revocation_latency: REVOCATION_LATENCY };
        let lease = self.scheduler.grant_lease(spec)?;
        match self.scheduler.activate_lease(lease, &evidence, self.now) {
            Ok(interrupt) => self.send(interrupt),
            Err(error) => {
                let _ = self.scheduler.revoke_lease(lease, self.now);
                return Err(error.into());
            }
        }
        self.rings[ring as usize].lease = Some(lease);
        if let Some(thread) = self.rings[ring as usize].sleeper.take() {
            self.wake(thread);
        }
        Ok(lease)
    }

    /// The threads that take from a ring.
    fn consumers(&self, ring: u32) -> impl Iterator<Item = u32> {
        let of = move |program: &[Step]| program.contains(&Step::Poll(ring));
        let threads = self.threads.iter().enumerate();
        threads.filter(move |(_, thread)| !thread.is_over && of(&thread.program.steps)).map(|(number, _)| number as u32)
    }

    /// Whether a thread polls a ring: all that a polled ring needs is there.
    fn is_polled(&self, ring: u32, thread: u32) -> bool {
        let Some(lease) = self.rings[ring as usize].lease.and_then(|lease| self.scheduler.lease(lease).ok()) else {
            return false;
        };
        let accounting = lease.spec().accounting;
        lease.state() == LeaseState::Active
            && self.scheduler.authority_of(self.threads[thread as usize].id) == Ok(Some(accounting))
            && self.consumers(ring).eq([thread])
    }

    /// A thread takes a request, looks again soon, or waits.
    pub(crate) fn poll(&mut self, cpu: u32, thread: u32, ring: u32) -> After {
        if let Some(request) = self.rings[ring as usize].take(self.now) {
            let state = &mut self.threads[thread as usize];
            state.left = request.cost.max(1);
            state.serves = Some(ring);
            return After::Computes;
        }
        if self.is_polled(ring, thread) {
            let ring = &mut self.rings[ring as usize];
            ring.report.empty_polls += 1;
            self.threads[thread as usize].left = ring.spec.poll_interval.max(1);
            return After::Computes;
        }
        let state = &mut self.threads[thread as usize];
        state.is_done(self.now);
        if self.rings[ring as usize]
            .sleeper
            .is_some_and(|other| other != thread && !self.threads[other as usize].is_over)
        {
            // A ring has one consumer; a second one gets nothing.
            self.threads[thread as usize].refused += 1;
        } else {
            self.rings[ring as usize].sleeper = Some(thread);
        }
        self.scheduler.block(cpu, self.now);
        After::Chooses
    }

    /// The request that a thread served is over.
    pub(crate) fn complete(&mut self, thread: u32) {
        if let Some(ring) = self.threads[thread as usize].serves.take() {
            self.rings[ring as usize].complete(self.now);
        }
    }

    /// A request comes, and the next is on its way.
    pub(crate) fn submit(&mut self, ring: u32) {
        let state = &mut self.rings[ring as usize];
        let cost = between(state.spec.cost, &mut self.dice);
        state.submit(Request { submitted: self.now, cost });
        let next = between(state.spec.every, &mut self.dice);
        let sleeper = state.sleeper.take();
        self.events.set(self.now + next, Event::Submit { ring });
        if let Some(thread) = sleeper {
            self.wake(thread);
        }
    }
}
