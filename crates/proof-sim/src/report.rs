//! What a simulated run came to.
//!
//! Room: surface.

use std::fmt;

use policy_cpu::{CpuAccount, Nanos, Notice, ThreadCpuAccount};

use crate::histogram::Histogram;
use crate::ring::RingReport;
use crate::timeline::Span;

/// One thread.
#[derive(Debug, Clone)]
pub struct ThreadReport {
    /// Its name.
    pub name: String,
    /// The name of its process.
    pub process: String,
    /// What it used.
    pub account: ThreadCpuAccount,
    /// How long it waited for a CPU after each event; a wait that lasts counts up to now.
    pub waits: Histogram,
    /// How long, at most.
    pub wait_max: Nanos,
    /// How often it went through its program.
    pub rounds: u64,
    /// How often it did, with a deadline, what it was woken for.
    pub deadlines: u64,
    /// How often it did so too late.
    pub misses: u64,
    /// Calls and polls that were refused.
    pub refused: u64,
}

/// One context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextReport {
    /// Its name.
    pub name: String,
    /// What was charged to it; none if it was revoked.
    pub charged: Option<Nanos>,
    /// How often it was depleted.
    pub depletions: u64,
}

/// One CPU.
#[derive(Debug, Clone, Copy)]
pub struct CpuReport {
    /// What it did.
    pub account: CpuAccount,
}

/// What a simulated run came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// Threads, in the order in which they were made.
    pub threads: Vec<ThreadReport>,
    /// Contexts that have names, in the order in which they were made.
    pub contexts: Vec<ContextReport>,
    /// Rings, in the order in which they were made.
    pub rings: Vec<RingReport>,
    /// CPUs.
    pub cpus: Vec<CpuReport>,
    /// Which thread ran where, if that was [recorded](crate::Machine::record).
    pub spans: Vec<Span>,
    /// The time that passed.
    pub time: Nanos,
    /// Events that were handled.
    pub events: u64,
    /// Interrupts between CPUs that arrived.
    pub interrupts: u64,
    /// Depletions that were told, and when.
    pub notices: Vec<(Nanos, Notice)>,
}

impl Report {
    /// The thread of that name.
    pub fn thread(&self, name: &str) -> &ThreadReport {
        self.threads.iter().find(|thread| thread.name == name).unwrap_or_else(|| panic!("no thread `{name}`"))
    }

    /// What threads whose names begin so used together.
    pub fn used_by(&self, prefix: &str) -> Nanos {
        let of = self.threads.iter().filter(|thread| thread.name.starts_with(prefix));
        of.map(|thread| thread.account.runtime).sum()
    }

    /// Every interval of every CPU was charged once.
    pub(crate) fn check_sums(&self, now: Nanos) -> Result<(), String> {
        for (cpu, report) in self.cpus.iter().enumerate() {
            let charged = report.account.busy + report.account.idle;
            if charged != now {
                return Err(format!("CPU {cpu} was charged for {charged} ns, and {now} ns passed"));
            }
        }
        let used: Nanos = self.threads.iter().map(|thread| thread.account.runtime).sum();
        let busy: Nanos = self.cpus.iter().map(|cpu| cpu.account.busy).sum();
        if used != busy {
            return Err(format!("threads used {used} ns, and CPUs were busy for {busy} ns"));
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Nanos| time as f64 / 1e6;
        writeln!(
            f,
            "{:<20} {:>10} {:>8} {:>8} {:>10} {:>10}",
            "thread", "ran ms", "switches", "preempt", "wait ms", "max ms"
        )?;
        for thread in &self.threads {
            writeln!(
                f,
                "{:<20} {:>10.3} {:>8} {:>8} {:>10.3} {:>10.3}",
                thread.name,
                ms(thread.account.runtime),
                thread.account.switches,
                thread.account.preemptions,
                ms(thread.waits.mean()),
                ms(thread.wait_max)
            )?;
        }
        for (cpu, report) in self.cpus.iter().enumerate() {
            let CpuAccount { busy, idle, switches, steals, .. } = report.account;
            writeln!(
                f,
                "CPU {cpu}: busy {:.3} ms, idle {:.3} ms, {switches} switches, {steals} steals",
                ms(busy),
                ms(idle)
            )?;
        }
        Ok(())
    }
}
