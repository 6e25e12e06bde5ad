//! The machine: what it is made of, and how time passes.
//!
//! Room: driver. Knows virtual time only.
//!
//! Events come in, the scheduler decides, threads go on (`src/steps.rs`), and the laws are looked at (`src/laws.rs`).

use std::ops::Range;

use policy_cpu::{Capacity, ContextId, ContextSpec, CpuSet, Interrupt, Nanos, Policy, ProcessId, Scheduler, ThreadId};
use vocab::SplitMix64;

use crate::event::{Event, Events};
use crate::laws::{Broken, Laws};
use crate::report::{ContextReport, CpuReport, Report, ThreadReport};
use crate::ring::Ring;
use crate::thread::Simulated;
use crate::timeline::Recorder;

/// Rings that a machine may have.
pub(crate) const RINGS_MAX: u32 = 64;

/// A simulated machine. Built, filled with threads, and run.
pub struct Machine {
    pub(crate) scheduler: Scheduler,
    pub(crate) processes: Vec<(String, ProcessId)>,
    pub(crate) contexts: Vec<(String, ContextId)>,
    pub(crate) threads: Vec<Simulated>,
    pub(crate) rings: Vec<Ring>,
    /// By CPU: since when its thread computes.
    pub(crate) since: Vec<Nanos>,
    /// CPUs to which an interrupt is on its way.
    interrupted: CpuSet,
    pub(crate) events: Events,
    pub(crate) now: Nanos,
    seed: u64,
    pub(crate) dice: SplitMix64,
    interrupt_latency: Nanos,
    laws: Option<Laws>,
    /// CPUs that the event changed.
    pub(crate) touched: CpuSet,
    /// A law of a thread that does not hold.
    pub(crate) broken: Option<String>,
    handled: u64,
    interrupts: u64,
    notices: Vec<(Nanos, policy_cpu::Notice)>,
    pub(crate) recorder: Option<Recorder>,
    /// By number of the scheduler: the number here.
    pub(crate) by_index: Vec<u32>,
}

impl Machine {
    /// A machine of so many CPUs with room for a thousand threads. The seed decides what is random.
    pub fn new(cpus: u32, seed: u64) -> Self {
        Self::with_capacity(Capacity::cpus(cpus), seed)
    }

    /// A machine with room for what is wanted.
    pub fn with_capacity(capacity: Capacity, seed: u64) -> Self {
        Self::with_policy(capacity, Policy::Eevdf, seed)
    }

    /// A machine whose fair class has another order.
    pub fn with_policy(capacity: Capacity, policy: Policy, seed: u64) -> Self {
        Machine {
            scheduler: Scheduler::with_policy(capacity, policy, 0),
            processes: Vec::new(),
            contexts: Vec::new(),
            threads: Vec::new(),
            rings: Vec::new(),
            since: vec![0; capacity.cpus as usize],
            interrupted: CpuSet::NONE,
            events: Events::new(capacity.cpus, RINGS_MAX, capacity.threads),
            now: 0,
            seed,
            dice: SplitMix64::new(seed),
            interrupt_latency: 2_000,
            laws: Some(Laws::new(capacity)),
            touched: CpuSet::NONE,
            broken: None,
            handled: 0,
            interrupts: 0,
            notices: Vec::new(),
            recorder: None,
            by_index: vec![u32::MAX; capacity.threads as usize],
        }
    }

    /// How long an interrupt from one CPU to another is on its way. 2 µs unless said otherwise.
    pub fn interrupt_latency(&mut self, latency: Nanos) -> &mut Self {
        self.interrupt_latency = latency;
        self
    }

    /// Looks at every law at every event, also in a release build, where what an event did not touch is looked at from time to time.
    pub fn with_all_laws(&mut self) -> &mut Self {
        if let Some(laws) = &mut self.laws {
            laws.look_at_all();
        }
        self
    }

    /// Leaves the laws unchecked, to measure what they cost.
    pub fn without_laws(&mut self) -> &mut Self {
        self.laws = None;
        self
    }

    /// Notes which thread runs where within a window of time, for [`Report::spans`].
    pub fn record(&mut self, window: Range<Nanos>) -> &mut Self {
        self.recorder = Some(Recorder::new(self.since.len(), window));
        self
    }

    /// A new process.
    pub fn process(&mut self, name: &str) -> ProcessId {
        let id = self.scheduler.add_process().unwrap_or_else(|refused| panic!("process `{name}`: {refused}"));
        self.processes.push((name.to_owned(), id));
        id
    }

    /// A new context.
    pub fn context(&mut self, spec: ContextSpec) -> ContextId {
        self.named_context("", spec)
    }

    /// A new context that the report has by its name.
    pub fn named_context(&mut self, name: &str, spec: ContextSpec) -> ContextId {
        let id = self.scheduler.add_context(spec, self.now).unwrap_or_else(|refused| panic!("{refused}"));
        if !name.is_empty() {
            self.contexts.push((name.to_owned(), id));
        }
        id
    }

    /// The scheduler, to change things while the machine stands still.
    pub fn scheduler(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The thread of that name.
    pub fn id_of(&self, name: &str) -> ThreadId {
        self.threads.iter().find(|thread| thread.name == name).unwrap_or_else(|| panic!("no thread `{name}`")).id
    }

    /// Sends the interrupts that a change of the scheduler asks for.
    pub fn send(&mut self, interrupt: Interrupt) {
        if interrupt.0.is_empty() {
            return;
        }
        for cpu in interrupt.0.iter() {
            self.interrupt(cpu);
        }
    }

    pub(crate) fn interrupt(&mut self, cpu: u32) {
        if !self.interrupted.contains(cpu) {
            self.interrupted.insert(cpu);
            self.events.set(self.now + self.interrupt_latency, Event::Interrupt { cpu });
        }
    }

    /// Lets so much time pass.
    ///
    /// # Panics
    /// If a law breaks.
    pub fn run_for(&mut self, time: Nanos) -> Report {
        self.try_run_for(time).unwrap_or_else(|broken| panic!("{broken}"))
    }

    /// Lets so much time pass.
    ///
    /// # Errors
    /// The law that broke, with the seed that breaks it again. The machine is of no further use.
    pub fn try_run_for(&mut self, time: Nanos) -> Result<Report, Broken> {
        let until = self.now + time;
        while let Some((at, event)) = self.events.next(until) {
            self.now = at;
            self.handled += 1;
            self.handle(event);
            self.take_notices();
            self.check()?;
        }
        self.now = until;
        for cpu in 0..self.since.len() as u32 {
            self.compute(cpu);
            self.go_on(cpu);
        }
        self.note_long_waits();
        self.check()?;
        let report = self.report();
        report.check_sums(self.now).map_err(|law| self.break_law(law))?;
        Ok(report)
    }

    fn check(&mut self) -> Result<(), Broken> {
        let touched = std::mem::take(&mut self.touched);
        if let Some(law) = self.broken.take() {
            return Err(self.break_law(law));
        }
        let Some(laws) = &mut self.laws else { return Ok(()) };
        laws.check(&self.scheduler, self.now, &touched, &self.interrupted).map_err(|law| self.break_law(law))
    }

    fn break_law(&self, law: String) -> Broken {
        Broken { at: self.now, seed: self.seed, law }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Interrupt { cpu } => {
                self.interrupted.set(cpu, false);
                self.interrupts += 1;
                self.compute(cpu);
                self.go_on(cpu);
            }
            Event::Timer { cpu } => {
                self.compute(cpu);
                self.go_on(cpu);
            }
            Event::Submit { ring } => self.submit(ring),
            Event::Wake { thread } => self.wake(thread),
        }
    }

    /// Ends the thread of that name, from outside.
    pub fn kill(&mut self, name: &str) {
        let thread = self.threads.iter().position(|thread| thread.name == name);
        let thread = thread.unwrap_or_else(|| panic!("no thread `{name}`"));
        self.stand_still();
        let on = (0..self.since.len() as u32).find(|&cpu| self.scheduler.current(cpu) == Some(self.threads[thread].id));
        self.end(thread as u32);
        if let Some(cpu) = on {
            self.go_on(cpu);
        }
    }

    /// Ends a process, with its threads and leases.
    pub fn end_process(&mut self, process: ProcessId) {
        let ends = |machine: &mut Self| machine.scheduler.exit_process(process, machine.now);
        self.end_many(ends);
    }

    /// Closes a session: its processes, their threads and leases, and its contexts end.
    pub fn close_session(&mut self, session: policy_cpu::Session) {
        self.end_many(|machine| Ok(machine.scheduler.close_session(session, machine.now)));
    }

    /// Lets the scheduler end threads, and notes which.
    fn end_many(&mut self, ends: impl FnOnce(&mut Self) -> Result<Interrupt, policy_cpu::Stale>) {
        self.stand_still();
        for cpu in 0..self.since.len() as u32 {
            let _ = self.scheduler.schedule(cpu, self.now); // charged up to now
        }
        let accounts: Vec<_> = self
            .threads
            .iter()
            .map(|thread| self.scheduler.thread(thread.id).ok().map(|thread| *thread.account()))
            .collect();
        let Ok(interrupt) = ends(self) else { return };
        for (thread, account) in accounts.into_iter().enumerate() {
            if let Some(account) = account
                && self.scheduler.thread(self.threads[thread].id).is_err()
            {
                self.threads[thread].is_over = true;
                self.threads[thread].final_account = account;
                self.release_callers(thread as u32);
            }
        }
        self.send(interrupt);
        for cpu in 0..self.since.len() as u32 {
            self.go_on(cpu);
        }
    }

    /// Counts what every thread computed up to now.
    fn stand_still(&mut self) {
        for cpu in 0..self.since.len() as u32 {
            self.compute(cpu);
        }
    }

    fn take_notices(&mut self) {
        while let Some(notice) = self.scheduler.take_notice() {
            self.notices.push((self.now, notice));
        }
    }

    /// What it came to so far.
    fn report(&self) -> Report {
        let threads = self.threads.iter().map(|thread| ThreadReport {
            waits: thread.waits_until(self.now),
            name: thread.name.clone(),
            process: self.processes.get(thread.process).map(|(name, _)| name.clone()).unwrap_or_default(),
            account: match self.scheduler.thread(thread.id) {
                Ok(state) => *state.account(),
                Err(_) => thread.final_account,
            },
            wait_max: thread.waits_until(self.now).max(),
            rounds: thread.rounds,
            deadlines: thread.deadlines,
            misses: thread.misses,
            refused: thread.refused,
        });
        let contexts = self.contexts.iter().map(|(name, id)| {
            let context = self.scheduler.context(*id).ok();
            ContextReport {
                name: name.clone(),
                charged: context.map(|context| context.charged()),
                depletions: context.map_or(0, |context| context.depletions()),
            }
        });
        let cpus = self.scheduler.machine().iter();
        Report {
            threads: threads.collect(),
            contexts: contexts.collect(),
            rings: self.rings.iter().map(|ring| ring.report.clone()).collect(),
            cpus: cpus.map(|cpu| CpuReport { account: *self.scheduler.cpu(cpu) }).collect(),
            spans: self.recorder.as_ref().map(|recorder| recorder.spans(self.now)).unwrap_or_default(),
            time: self.now,
            events: self.handled,
            interrupts: self.interrupts,
            notices: self.notices.clone(),
        }
    }
}
