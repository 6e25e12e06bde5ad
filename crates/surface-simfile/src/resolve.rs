//! Sections become a plan: names are looked up, and what belongs together is compared.
//!
//! Room: surface.

use policy_cpu::{ContextSpec, CpuSet, Session};
use proof_sim::RingSpec;
use surface_text::Span;
use surface_text::fields::Spanned;

use crate::draft::{Cpus, Drafts, Name, Named};
use crate::keys::Values;
use crate::plan::{Context, Lease, Plan, Process, Thread};
use crate::program::{Names, program, unknown};

/// Threads of a machine, copies included.
const THREADS_MAX: u32 = 20_000;
/// Rings and leases of a machine.
const FEW_MAX: usize = 64;

/// The process of threads that name none.
const MAIN: &str = "main";

/// The plan. Only to be used if the report stays empty.
pub(crate) fn resolve(drafts: &Drafts, stem: &str, values: &mut Values<'_>) -> Plan {
    let file = &drafts.file;
    let rings: Vec<String> = drafts.rings.iter().map(|ring| ring.name.clone()).collect();
    let contexts: Vec<String> = drafts.contexts.iter().map(|context| context.name.clone()).collect();
    let sessions: Vec<String> = drafts.sessions.iter().map(|session| session.name.clone()).collect();
    let mut processes: Vec<String> = drafts.processes.iter().map(|process| process.name.clone()).collect();
    if !processes.iter().any(|name| name == MAIN) {
        processes.push(MAIN.to_owned());
    }
    let mut plan = Plan {
        name: file.name.clone().unwrap_or_else(|| stem.to_owned()),
        cpus: file.cpus,
        time: file.time,
        seed: file.seed,
        interrupt: file.interrupt,
        sessions: drafts.sessions.iter().map(|session| (session.name.clone(), session.value.ends)).collect(),
        processes: Vec::new(),
        contexts: Vec::new(),
        rings: Vec::new(),
        threads: Vec::new(),
        leases: Vec::new(),
    };
    for (kind, count, at) in [
        ("rings", drafts.rings.len(), drafts.rings.get(FEW_MAX).map(|ring| &ring.at)),
        ("leases", drafts.leases.len(), drafts.leases.get(FEW_MAX).map(|lease| &lease.at)),
    ] {
        if let Some(at) = at {
            values.report.add(at, format!("there are {count} {kind}, and the limit is {FEW_MAX}"), "remove some");
        }
    }
    let session_of = |name: &Name, values: &mut Values<'_>| {
        find("session", name, &sessions, values).map(|number| Session(number as u32))
    };
    for name in &processes {
        let draft = drafts.processes.iter().find(|process| process.name == *name).map(|process| &process.value);
        plan.processes.push(Process {
            name: name.clone(),
            context: draft.and_then(|draft| find("context", &draft.context, &contexts, values)),
            session: draft.and_then(|draft| session_of(&draft.session, values)),
            ends: draft.and_then(|draft| draft.ends),
        });
    }
    for Named { name, at, value } in &drafts.contexts {
        let budget = required("context", name, at, "budget", value.budget, "\"300us\"", values);
        let period = required("context", name, at, "period", value.period, "\"5ms\"", values);
        let (Some(budget), Some(period)) = (budget, period) else { continue };
        let deadline = value.deadline.unwrap_or(period);
        if budget > deadline || deadline > period {
            let message = format!(
                "context `{name}` has a budget of {budget} ns, a deadline of {deadline} ns and a period of {period} ns"
            );
            values.report.add(at, message, "a budget is at most the deadline, and a deadline at most the period");
        }
        let cpus = cpus(&value.cpus, file.cpus, values).unwrap_or(CpuSet::ALL);
        let spec = ContextSpec {
            deadline,
            criticality: value.criticality,
            cpus,
            overrun: value.overrun,
            ..ContextSpec::new(budget, period)
        };
        let session = session_of(&value.session, values);
        plan.contexts.push(Context { name: name.clone(), spec, session, ends: value.ends });
    }
    for Named { name, at, value } in &drafts.rings {
        let every = required("ring", name, at, "every", value.every, "\"1ms\"", values);
        let cost = required("ring", name, at, "cost", value.cost, "\"50us\"", values);
        let (Some(every), Some(cost)) = (every, cost) else { continue };
        if every.0 == 0 {
            values.report.add(
                at,
                format!("requests of ring `{name}` may come at once"),
                "let `every` be at least \"1us\"",
            );
        }
        plan.rings.push(RingSpec {
            name: name.clone(),
            capacity: value.capacity,
            every,
            cost,
            deadline: value.deadline,
            late: value.late,
            poll_interval: value.interval,
        });
    }
    threads(drafts, &contexts, &processes, &rings, &mut plan, values);
    for Named { name, at, value } in &drafts.leases {
        let named = |field: &str, is_there: bool, values: &mut Values<'_>| {
            required("lease", name, at, field, is_there.then_some(()), "…", values);
        };
        named("process", value.process.is_some(), values);
        named("context", value.context.is_some(), values);
        named("cpus", value.cpus.is_some(), values);
        let owner = find("process", &value.process, &processes, values);
        let context = find("context", &value.context, &contexts, values);
        let ring = find("ring", &value.ring, &rings, values);
        let cpus = cpus(&value.cpus, file.cpus, values);
        if let (Some(owner), Some(context), Some(cpus)) = (owner, context, cpus) {
            plan.leases.push(Lease {
                name: name.clone(),
                owner,
                cpus,
                mode: value.mode(),
                ring,
                context,
                revocation: value.revocation,
                starts: value.starts,
                ends: value.ends,
            });
        }
    }
    plan
}

fn threads(
    drafts: &Drafts,
    contexts: &[String],
    processes: &[String],
    rings: &[String],
    plan: &mut Plan,
    values: &mut Values<'_>,
) {
    let mut numbers = Vec::with_capacity(drafts.threads.len());
    let mut count = 0;
    for thread in &drafts.threads {
        numbers.push((thread.name.clone(), count));
        count += thread.value.count;
        if count > THREADS_MAX {
            let message = format!("there are more than {THREADS_MAX} threads, which is the limit");
            values.report.add(&thread.at, message, "lower a `count`");
            return;
        }
    }
    let names = Names { threads: &numbers, rings };
    let main = processes.iter().position(|name| name == MAIN).unwrap_or(0);
    for Named { name, at, value } in &drafts.threads {
        let process = match &value.process {
            Some(_) => find("process", &value.process, processes, values),
            None => Some(main),
        };
        let context = find("context", &value.context, contexts, values);
        let cpus = cpus(&value.cpus, drafts.file.cpus, values).unwrap_or(CpuSet::ALL);
        let does = required("thread", name, at, "does", value.does.as_ref(), "[\"run 10ms\"]", values);
        let program = does.and_then(|does| program(does, value.once, at, &names, values));
        if let (Some(process), Some(program)) = (process, program) {
            plan.threads.push(Thread {
                name: name.clone(),
                count: value.count,
                process,
                program,
                weight: value.weight,
                class: value.class,
                latency: value.latency,
                cpus,
                context,
                starts: value.starts,
                deadline: value.deadline,
                wait_limit: value.wait_limit,
            });
        }
    }
}

/// The number of what has that name.
fn find(kind: &str, name: &Name, known: &[String], values: &mut Values<'_>) -> Option<usize> {
    let Spanned { at, value } = name.as_ref()?;
    let found = known.iter().position(|known| known == value);
    if found.is_none() {
        let (message, help) = unknown(kind, value, known.iter().map(String::as_str));
        values.report.add(at, message, help);
    }
    found
}

fn required<T>(
    kind: &str,
    name: &str,
    at: &Span,
    field: &str,
    value: Option<T>,
    example: &str,
    values: &mut Values<'_>,
) -> Option<T> {
    if value.is_none() && values.report.is_empty() {
        values.report.add(at, format!("{kind} `{name}` has no `{field}`"), format!("write `{field} = {example}`"));
    }
    value
}

fn cpus(written: &Cpus, machine: u32, values: &mut Values<'_>) -> Option<CpuSet> {
    let Spanned { at, value } = written.as_ref()?;
    if let Some(cpu) = value.iter().find(|cpu| **cpu >= machine) {
        let message = format!("CPU {cpu} does not exist: the machine has {machine}, numbered from 0");
        values.report.add(at, message, format!("write `cpus = {}` at the top, or name another CPU", cpu + 1));
        return None;
    }
    Some(value.iter().copied().collect())
}
