//! The machine: events come in, the scheduler decides, threads go on.
//!
//! Room: driver. Knows virtual time only.

use std::collections::VecDeque;

use policy_cpu::{
    CallError, Capacity, Class, Context, ContextId, ContextSpec, CpuSet, Handoff, Id, Interrupt, Latency, Nanos,
    ProcessId, Scheduler, Thread, ThreadId, ThreadSpec, Wake, Weight,
};
use vocab::SplitMix64;

use crate::event::{Event, Events};
use crate::laws::Laws;
use crate::program::{Program, Step};
use crate::report::{CpuReport, Report, ThreadReport};

/// How many steps that take no time a thread may do one after the other.
const STEPS_AT_ONCE_MAX: u32 = 1_000;

pub(crate) struct Simulated {
    pub(crate) name: String,
    pub(crate) process: usize,
    pub(crate) id: ThreadId,
    program: Program,
    at: usize,
    /// What is left of the step that computes.
    left: Nanos,
    /// Threads that wait to call it.
    callers: VecDeque<u32>,
    /// Since when it could run and did not.
    ready_since: Option<Nanos>,
    pub(crate) is_over: bool,
    pub(crate) waits: u64,
    pub(crate) wait_sum: Nanos,
    pub(crate) wait_max: Nanos,
    pub(crate) rounds: u64,
    /// What it had used when it ended.
    pub(crate) final_account: policy_cpu::ThreadCpuAccount,
}

struct Cpu {
    epoch: u32,
    /// Since when its thread computes.
    since: Nanos,
    /// An interrupt is on its way.
    is_interrupted: bool,
}

/// A simulated machine. Built, filled with threads, and run.
pub struct Machine {
    pub(crate) scheduler: Scheduler,
    pub(crate) processes: Vec<(String, ProcessId)>,
    pub(crate) threads: Vec<Simulated>,
    cpus: Vec<Cpu>,
    events: Events,
    pub(crate) now: Nanos,
    dice: SplitMix64,
    interrupt_latency: Nanos,
    laws: Option<Laws>,
    pub(crate) handled: u64,
    pub(crate) interrupts: u64,
    pub(crate) notices: Vec<(Nanos, policy_cpu::Notice)>,
    by_index: Vec<u32>,
}

impl Machine {
    /// A machine of so many CPUs with room for a thousand threads. The seed decides what is random.
    pub fn new(cpus: u32, seed: u64) -> Self {
        Self::with_capacity(Capacity::cpus(cpus), seed)
    }

    /// A machine with room for what is wanted.
    pub fn with_capacity(capacity: Capacity, seed: u64) -> Self {
        Machine {
            scheduler: Scheduler::new(capacity, 0),
            processes: Vec::new(),
            threads: Vec::new(),
            cpus: (0..capacity.cpus).map(|_| Cpu { epoch: 0, since: 0, is_interrupted: false }).collect(),
            events: Events::default(),
            now: 0,
            dice: SplitMix64::new(seed),
            interrupt_latency: 2_000,
            laws: Some(Laws::default()),
            handled: 0,
            interrupts: 0,
            notices: Vec::new(),
            by_index: vec![u32::MAX; capacity.threads as usize],
        }
    }

    /// How long an interrupt from one CPU to another is on its way. 2 µs unless said otherwise.
    pub fn interrupt_latency(&mut self, latency: Nanos) -> &mut Self {
        self.interrupt_latency = latency;
        self
    }

    /// Leaves the laws unchecked, for measuring speed.
    pub fn without_laws(&mut self) -> &mut Self {
        self.laws = None;
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
        self.scheduler.add_context(spec, self.now).unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// A new thread, which is given its program by [`ThreadBuilder::runs`].
    pub fn thread(&mut self, name: &str, process: ProcessId) -> ThreadBuilder<'_> {
        let spec = ThreadSpec::new(process);
        ThreadBuilder { machine: self, name: name.to_owned(), spec, context: None }
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
        for cpu in interrupt.0.iter() {
            self.interrupt(cpu);
        }
    }

    /// Lets so much time pass.
    pub fn run_for(&mut self, time: Nanos) -> Report {
        let until = self.now + time;
        while let Some((at, event)) = self.events.next(until) {
            self.now = at;
            self.handled += 1;
            self.handle(event);
            self.take_notices();
            if let Some(laws) = &mut self.laws {
                let is_interrupted = |cpu: u32| self.cpus[cpu as usize].is_interrupted;
                laws.check(&self.scheduler, self.now, is_interrupted);
            }
        }
        self.now = until;
        for cpu in 0..self.cpus.len() as u32 {
            self.compute(cpu);
            self.go_on(cpu);
        }
        let report = self.report();
        report.check_sums(self.now);
        report
    }

    /// What it came to so far.
    fn report(&self) -> Report {
        let threads = self.threads.iter().map(|thread| ThreadReport {
            name: thread.name.clone(),
            process: self.processes.get(thread.process).map(|(name, _)| name.clone()).unwrap_or_default(),
            account: match self.scheduler.thread(thread.id) {
                Ok(state) => *state.account(),
                Err(_) => thread.final_account,
            },
            waits: thread.waits,
            wait_sum: thread.wait_sum,
            wait_max: thread.wait_max,
            rounds: thread.rounds,
        });
        let cpus = self.scheduler.machine().iter();
        Report {
            threads: threads.collect(),
            cpus: cpus.map(|cpu| CpuReport { account: *self.scheduler.cpu(cpu) }).collect(),
            events: self.handled,
            interrupts: self.interrupts,
            notices: self.notices.clone(),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Timer { cpu, epoch } => {
                if self.cpus[cpu as usize].epoch == epoch {
                    self.compute(cpu);
                    self.go_on(cpu);
                }
            }
            Event::Interrupt { cpu } => {
                self.cpus[cpu as usize].is_interrupted = false;
                self.interrupts += 1;
                self.compute(cpu);
                self.go_on(cpu);
            }
            Event::Wake { thread } => self.wake(thread),
        }
    }

    fn wake(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if state.is_over {
            return;
        }
        let woken = self.scheduler.wake(state.id, self.now, None);
        let Ok(Wake { cpu, interrupt }) = woken else { return };
        if cpu.is_some() {
            state.ready_since = Some(self.now);
        }
        if let Some(cpu) = interrupt {
            self.interrupt(cpu);
        }
    }

    fn interrupt(&mut self, cpu: u32) {
        if !std::mem::replace(&mut self.cpus[cpu as usize].is_interrupted, true) {
            self.events.add(self.now + self.interrupt_latency, Event::Interrupt { cpu });
        }
    }

    /// Counts what the thread of a CPU computed since it was last looked at.
    fn compute(&mut self, cpu: u32) {
        let since = std::mem::replace(&mut self.cpus[cpu as usize].since, self.now);
        if let Some(current) = self.scheduler.current(cpu) {
            let thread = self.number_of(current);
            let state = &mut self.threads[thread as usize];
            state.left = state.left.saturating_sub(self.now - since);
        }
    }

    /// Chooses a thread, does its steps that take no time, and sets the timer.
    fn go_on(&mut self, cpu: u32) {
        let mut steps = 0;
        let mut dispatch = self.scheduler.schedule(cpu, self.now);
        let mut is_chosen = true;
        loop {
            self.send(std::mem::take(&mut dispatch.interrupt));
            let Some(current) = self.scheduler.current(cpu) else { break };
            let thread = self.number_of(current);
            self.note_start(thread);
            if self.threads[thread as usize].left > 0 {
                break;
            }
            steps += 1;
            assert!(steps < STEPS_AT_ONCE_MAX, "`{}` takes no time", self.threads[thread as usize].name);
            match self.step(cpu, thread) {
                After::Computes => {}
                After::Chooses => dispatch = self.scheduler.schedule(cpu, self.now),
                After::HandedOver => is_chosen = false,
            }
        }
        let limit = if is_chosen { dispatch.at_most } else { self.scheduler.time_limit(cpu, self.now) };
        let left = self.scheduler.current(cpu).map(|thread| self.threads[self.number_of(thread) as usize].left);
        let state = &mut self.cpus[cpu as usize];
        state.epoch = state.epoch.wrapping_add(1);
        state.since = self.now;
        if let Some(time) = left.into_iter().chain(limit).min() {
            self.events.add(self.now + time.max(1), Event::Timer { cpu, epoch: state.epoch });
        }
    }

    fn step(&mut self, cpu: u32, thread: u32) -> After {
        let state = &mut self.threads[thread as usize];
        let step = state.program.step(state.at);
        let mut between = |from: Nanos, to: Nanos| from + self.dice.next_u64() % (to - from + 1);
        let length = match step {
            Step::Run(time) | Step::Sleep(time) => time,
            Step::RunBetween(from, to) | Step::SleepBetween(from, to) => between(from, to),
            _ => 0,
        };
        state.at += 1;
        if state.program.again && state.at == state.program.steps.len() {
            state.at = 0;
            state.rounds += 1;
        }
        match step {
            Step::Run(_) | Step::RunBetween(..) => {
                state.left = length;
                After::Computes
            }
            Step::Sleep(_) | Step::SleepBetween(..) => {
                self.scheduler.block(cpu, self.now);
                self.events.add(self.now + length, Event::Wake { thread });
                After::Chooses
            }
            Step::Yield => {
                self.scheduler.yield_now(cpu, self.now);
                After::Chooses
            }
            Step::Receive => {
                self.scheduler.block(cpu, self.now);
                self.next_caller(thread);
                After::Chooses
            }
            Step::Exit => {
                self.end(thread);
                After::Chooses
            }
            Step::Call(callee) => self.call(cpu, thread, callee),
            Step::Reply => {
                let handoff = self.scheduler.reply(cpu, self.now);
                if self.threads[thread as usize].program.step(self.threads[thread as usize].at) == Step::Receive {
                    self.threads[thread as usize].at += 1; // a reply waits for the next call itself
                    let state = &mut self.threads[thread as usize];
                    if state.program.again {
                        state.at %= state.program.steps.len();
                    }
                }
                let after = match handoff {
                    Ok(handoff) => self.after_handoff(handoff),
                    Err(CallError::NoCall) => {
                        self.scheduler.block(cpu, self.now); // its caller is gone
                        After::Chooses
                    }
                    Err(error) => panic!("`{}`: {error}", self.threads[thread as usize].name),
                };
                self.next_caller(thread);
                after
            }
        }
    }

    fn call(&mut self, cpu: u32, thread: u32, callee: u32) -> After {
        let target = self.threads[callee as usize].id;
        match self.scheduler.call(cpu, target, self.now) {
            Ok(handoff) => self.after_handoff(handoff),
            Err(CallError::Busy) => {
                // It waits its turn and calls again.
                let state = &mut self.threads[thread as usize];
                state.at = if state.at == 0 { state.program.steps.len() - 1 } else { state.at - 1 };
                self.scheduler.block(cpu, self.now);
                self.threads[callee as usize].callers.push_back(thread);
                After::Chooses
            }
            Err(CallError::Stale) => After::Computes, // a call to what has ended fails at once
            Err(error) => panic!("`{}`: {error}", self.threads[thread as usize].name),
        }
    }

    fn after_handoff(&mut self, handoff: Handoff) -> After {
        match handoff {
            Handoff::Here(_) => After::HandedOver,
            Handoff::Elsewhere { interrupt } => {
                if let Some(cpu) = interrupt {
                    self.interrupt(cpu);
                }
                After::Chooses
            }
        }
    }

    /// A server waits for calls: the next thread that wanted to call it tries again.
    fn next_caller(&mut self, server: u32) {
        if let Some(caller) = self.threads[server as usize].callers.pop_front() {
            self.wake(caller);
        }
    }

    /// Ends a thread, wherever it is.
    pub(crate) fn end(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if std::mem::replace(&mut state.is_over, true) {
            return;
        }
        let id = state.id;
        for cpu in 0..self.cpus.len() as u32 {
            if self.scheduler.current(cpu) == Some(id) {
                self.scheduler.block(cpu, self.now); // charged up to now
            }
        }
        let state = &mut self.threads[thread as usize];
        state.final_account = *self.scheduler.thread(id).expect("it has not ended before").account();
        let interrupt = self.scheduler.exit(id, self.now).expect("it has not ended before");
        self.send(interrupt);
        while !self.threads[thread as usize].callers.is_empty() {
            self.next_caller(thread);
        }
    }

    /// Ends the thread of that name, from outside.
    pub fn kill(&mut self, name: &str) {
        let thread = self.threads.iter().position(|thread| thread.name == name);
        let thread = thread.unwrap_or_else(|| panic!("no thread `{name}`"));
        for cpu in 0..self.cpus.len() as u32 {
            self.compute(cpu);
        }
        let on = (0..self.cpus.len() as u32).find(|&cpu| self.scheduler.current(cpu) == Some(self.threads[thread].id));
        self.end(thread as u32);
        if let Some(cpu) = on {
            self.go_on(cpu);
        }
    }

    fn note_start(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if let Some(since) = state.ready_since.take() {
            let waited = self.now - since;
            state.waits += 1;
            state.wait_sum += waited;
            state.wait_max = state.wait_max.max(waited);
        }
    }

    fn take_notices(&mut self) {
        while let Some(notice) = self.scheduler.take_notice() {
            self.notices.push((self.now, notice));
        }
    }

    fn number_of(&self, id: Id<Thread>) -> u32 {
        self.by_index[id.index() as usize]
    }
}

/// How a CPU goes on after a step.
enum After {
    Computes,
    Chooses,
    HandedOver,
}

/// Describes a thread.
pub struct ThreadBuilder<'a> {
    machine: &'a mut Machine,
    name: String,
    spec: ThreadSpec,
    context: Option<Id<Context>>,
}

impl ThreadBuilder<'_> {
    /// Its weight; 1024 unless said otherwise.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.spec.weight = Weight::new(weight).unwrap_or_else(|| panic!("a weight of {weight}"));
        self
    }

    /// Its class.
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.spec.class = class;
        self
    }

    /// How soon it would like to be served.
    #[must_use]
    pub fn latency(mut self, latency: Latency) -> Self {
        self.spec.latency = latency;
        self
    }

    /// Where it may run.
    #[must_use]
    pub fn cpus(mut self, cpus: CpuSet) -> Self {
        self.spec.cpus = cpus;
        self
    }

    /// The context it runs by.
    #[must_use]
    pub fn context(mut self, context: ContextId) -> Self {
        self.context = Some(context);
        self
    }

    /// What it does, from now on. Returns its number, for [`Step::Call`].
    pub fn runs(self, program: Program) -> u32 {
        let machine = self.machine;
        let id =
            machine.scheduler.add_thread(&self.spec).unwrap_or_else(|refused| panic!("`{}`: {refused}", self.name));
        let process = machine.processes.iter().position(|(_, process)| *process == self.spec.process).unwrap_or(0);
        let number = machine.threads.len() as u32;
        let waits_for_calls = program.steps.first() == Some(&Step::Receive);
        machine.threads.push(Simulated {
            name: self.name,
            process,
            id,
            program,
            at: usize::from(waits_for_calls),
            left: 0,
            callers: VecDeque::new(),
            ready_since: None,
            is_over: false,
            waits: 0,
            wait_sum: 0,
            wait_max: 0,
            rounds: 0,
            final_account: policy_cpu::ThreadCpuAccount::default(),
        });
        machine.by_index[id.index() as usize] = number;
        if let Some(context) = self.context {
            let bound = machine.scheduler.bind(id, Some(context), machine.now).expect("the context exists");
            machine.send(bound);
        }
        if !waits_for_calls {
            machine.events.add(machine.now, Event::Wake { thread: number });
        }
        number
    }
}
