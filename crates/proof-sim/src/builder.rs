//! What a thread of the machine is made with.
//!
//! Room: interface.

use policy_cpu::{Class, ContextId, CpuSet, Latency, Nanos, ProcessId, ThreadSpec, Weight};

use crate::event::Event;
use crate::machine::Machine;
use crate::program::{Program, Step};
use crate::thread::Simulated;

/// Describes a thread.
pub struct ThreadBuilder<'a> {
    machine: &'a mut Machine,
    name: String,
    spec: ThreadSpec,
    context: Option<ContextId>,
    starts: Nanos,
    deadline: Option<Nanos>,
    wait_limit: Option<Nanos>,
}

impl Machine {
    /// A new thread, which is given its program by [`ThreadBuilder::runs`].
    pub fn thread(&mut self, name: &str, process: ProcessId) -> ThreadBuilder<'_> {
        ThreadBuilder {
            machine: self,
            name: name.to_owned(),
            spec: ThreadSpec::new(process),
            context: None,
            starts: 0,
            deadline: None,
            wait_limit: None,
        }
    }
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

    /// It begins so much later.
    #[must_use]
    pub fn starts_in(mut self, time: Nanos) -> Self {
        self.starts = time;
        self
    }

    /// Within what time of a wake it should sleep, receive or end again. Counted, nothing else: a deadline grants no time.
    #[must_use]
    pub fn deadline(mut self, deadline: Nanos) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// That it waits longer for a CPU after an event breaks a law.
    #[must_use]
    pub fn wait_limit(mut self, limit: Nanos) -> Self {
        self.wait_limit = Some(limit);
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
        let mut thread = Simulated::new(self.name, process, id, program);
        (thread.deadline, thread.wait_limit) = (self.deadline, self.wait_limit);
        machine.threads.push(thread);
        machine.by_index[id.index() as usize] = number;
        if let Some(context) = self.context {
            let bound = machine.scheduler.bind(id, Some(context), machine.now).expect("the context exists");
            machine.send(bound);
        }
        if !waits_for_calls {
            machine.events.set(machine.now + self.starts, Event::Wake { thread: number });
        }
        number
    }
}
