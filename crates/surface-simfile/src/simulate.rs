//! A plan becomes a machine, and the machine runs.
//!
//! Room: driver. Knows virtual time only.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use policy_cpu::{
    Capacity, ContextId, CpuSet, Evidence, LeaseId, LeaseMode, LeaseSpec, Nanos, Policy, ProcessId, Session,
};
use proof_sim::{Broken, Machine, Report};

use crate::plan::Plan;

/// How a plan is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The order of the fair class.
    pub policy: Policy,
    /// CPUs of the machine.
    pub cpus: u32,
    /// What decides what is random.
    pub seed: u64,
    /// For how long.
    pub time: Nanos,
    /// Of which time the report says who ran where.
    pub window: Range<Nanos>,
}

impl Options {
    /// As the file says.
    pub fn of(plan: &Plan) -> Self {
        Options { policy: Policy::Eevdf, cpus: plan.cpus, seed: plan.seed, time: plan.time, window: 0..0 }
    }
}

/// Why a simulation has no report.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failed {
    /// A law broke: an error of the scheduler, or a limit of the file.
    Broken(Broken),
    /// The file wants what the machine refuses.
    Refused {
        /// What: "lease `audio`".
        what: String,
        /// Why.
        why: String,
    },
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        Failed::Broken(broken)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Broken(broken) => broken.fmt(f),
            Failed::Refused { what, why } => write!(f, "{what}: {why}"),
        }
    }
}

impl std::error::Error for Failed {}

/// Something that happens at a time of the file.
#[derive(Clone, Copy)]
enum Change {
    StartLease(usize),
    EndLease(usize),
    EndProcess(usize),
    RevokeContext(usize),
    CloseSession(usize),
}

/// Runs a plan.
///
/// # Errors
/// The law that broke, or what was refused.
///
/// ```
/// let plan = surface_simfile::parse("hogs.toml", "[thread.hog]\ncount = 3\ndoes = ['run 10ms']\n")?;
/// let report = surface_simfile::simulate(&plan, &surface_simfile::Options::of(&plan)).unwrap();
/// assert_eq!(report.threads.len(), 3);
/// # Ok::<(), surface_simfile::Problems>(())
/// ```
pub fn simulate(plan: &Plan, options: &Options) -> Result<Report, Failed> {
    // An assertion of the scheduler is a law that broke, too.
    catch_unwind(AssertUnwindSafe(|| run(plan, options))).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let law = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("an assertion failed");
        Err(Failed::Broken(Broken { at: 0, seed: options.seed, law: law.to_owned() }))
    })
}

fn run(plan: &Plan, options: &Options) -> Result<Report, Failed> {
    let mut built = Built::new(plan, options);
    let mut changes: Vec<(Nanos, Change)> = Vec::new();
    for (number, lease) in plan.leases.iter().enumerate() {
        changes.push((lease.starts, Change::StartLease(number)));
        changes.extend(lease.ends.map(|at| (at, Change::EndLease(number))));
    }
    let processes = plan.processes.iter().map(|process| process.ends).enumerate();
    changes.extend(processes.filter_map(|(number, at)| Some((at?, Change::EndProcess(number)))));
    let contexts = plan.contexts.iter().map(|context| context.ends).enumerate();
    changes.extend(contexts.filter_map(|(number, at)| Some((at?, Change::RevokeContext(number)))));
    let sessions = plan.sessions.iter().map(|(_, ends)| *ends).enumerate();
    changes.extend(sessions.filter_map(|(number, at)| Some((at?, Change::CloseSession(number)))));
    changes.sort_by_key(|(at, _)| *at);
    for (at, change) in changes.into_iter().filter(|(at, _)| *at < options.time) {
        let now = built.machine.now();
        if at > now {
            built.machine.try_run_for(at - now)?;
        }
        built.apply(plan, change)?;
    }
    let left = options.time - built.machine.now();
    Ok(built.machine.try_run_for(left)?)
}

/// A machine, and the handles of what the plan numbers.
struct Built {
    machine: Machine,
    processes: Vec<ProcessId>,
    contexts: Vec<ContextId>,
    leases: Vec<Option<LeaseId>>,
}

impl Built {
    fn new(plan: &Plan, options: &Options) -> Self {
        let capacity = Capacity {
            cpus: options.cpus,
            threads: plan.thread_count().max(1),
            processes: plan.processes.len() as u32,
            contexts: plan.contexts.len() as u32,
            leases: plan.leases.len() as u32,
        };
        let mut machine = Machine::with_policy(capacity, options.policy, options.seed);
        machine.interrupt_latency(plan.interrupt);
        if !options.window.is_empty() {
            machine.record(options.window.clone());
        }
        let processes: Vec<_> = plan.processes.iter().map(|process| machine.process(&process.name)).collect();
        let contexts: Vec<_> =
            plan.contexts.iter().map(|context| machine.named_context(&context.name, context.spec)).collect();
        for (context, id) in plan.contexts.iter().zip(&contexts) {
            if let Some(session) = context.session {
                machine.scheduler().own_context(*id, session).expect("it was just made");
            }
        }
        for (process, id) in plan.processes.iter().zip(&processes) {
            if let Some(session) = process.session {
                machine.scheduler().join_session(*id, session).expect("it was just made");
            }
            if let Some(context) = process.context {
                let bound = machine.scheduler().bind_process(*id, Some(contexts[context]), 0);
                machine.send(bound.expect("it was just made"));
            }
        }
        for ring in &plan.rings {
            machine.add_ring(ring.clone());
        }
        for thread in &plan.threads {
            for copy in 1..=thread.count {
                let name = if thread.count == 1 { thread.name.clone() } else { format!("{}.{copy}", thread.name) };
                let mut builder = machine
                    .thread(&name, processes[thread.process])
                    .weight(thread.weight)
                    .class(thread.class)
                    .latency(thread.latency)
                    .cpus(thread.cpus)
                    .starts_in(thread.starts);
                if let Some(context) = thread.context {
                    builder = builder.context(contexts[context]);
                }
                if let Some(deadline) = thread.deadline {
                    builder = builder.deadline(deadline);
                }
                if let Some(limit) = thread.wait_limit {
                    builder = builder.wait_limit(limit);
                }
                builder.runs(thread.program.clone());
            }
        }
        Built { machine, processes, contexts, leases: vec![None; plan.leases.len()] }
    }

    fn apply(&mut self, plan: &Plan, change: Change) -> Result<(), Failed> {
        let now = self.machine.now();
        match change {
            Change::StartLease(number) => self.start_lease(plan, number)?,
            Change::EndLease(number) => {
                // One whose owner has ended is gone.
                if let Some(lease) = self.leases[number].take()
                    && let Ok(interrupt) = self.machine.scheduler().revoke_lease(lease, now)
                {
                    self.machine.send(interrupt);
                }
            }
            Change::EndProcess(number) => self.machine.end_process(self.processes[number]),
            Change::RevokeContext(number) => {
                if let Ok(interrupt) = self.machine.scheduler().revoke_context(self.contexts[number], now) {
                    self.machine.send(interrupt);
                }
            }
            Change::CloseSession(number) => self.machine.close_session(Session(number as u32)),
        }
        Ok(())
    }

    fn start_lease(&mut self, plan: &Plan, number: usize) -> Result<(), Failed> {
        let lease = &plan.leases[number];
        let spec = LeaseSpec {
            owner: self.processes[lease.owner],
            cpus: lease.cpus,
            mode: lease.mode,
            tolerated: [false; 4],
            accounting: self.contexts[lease.context],
            revocation_latency_max: lease.revocation,
            endpoint: None,
        };
        let refused = |why: String| Failed::Refused { what: format!("lease `{}`", lease.name), why };
        let id = match (lease.mode, lease.ring) {
            (LeaseMode::Polling, Some(ring)) => {
                self.machine.poll_ring(ring as u32, spec).map_err(|error| refused(error.to_string()))?
            }
            _ => {
                let evidence = Evidence { pinned: [CpuSet::NONE; 4], ring_consumers: 0, revocation_latency: 0 };
                let now = self.machine.now();
                let scheduler = self.machine.scheduler();
                let id = scheduler.grant_lease(spec).map_err(|error| refused(error.to_string()))?;
                let interrupt = scheduler.activate_lease(id, &evidence, now);
                self.machine.send(interrupt.map_err(|error| refused(error.to_string()))?);
                id
            }
        };
        self.leases[number] = Some(id);
        Ok(())
    }
}
