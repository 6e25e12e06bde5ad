//! What a simulated run came to.
//!
//! Room: surface.

use std::fmt;

use policy_cpu::{CpuAccount, Nanos, Notice, ThreadCpuAccount};

/// One thread.
#[derive(Debug, Clone)]
pub struct ThreadReport {
    /// Its name.
    pub name: String,
    /// The name of its process.
    pub process: String,
    /// What it used.
    pub account: ThreadCpuAccount,
    /// How often it waited for a CPU after an event.
    pub waits: u64,
    /// How long, in all.
    pub wait_sum: Nanos,
    /// How long, at most.
    pub wait_max: Nanos,
    /// How often it went through its program.
    pub rounds: u64,
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
    /// CPUs.
    pub cpus: Vec<CpuReport>,
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
    pub(crate) fn check_sums(&self, now: Nanos) {
        for (cpu, report) in self.cpus.iter().enumerate() {
            let account = report.account;
            assert_eq!(account.busy + account.idle, now, "CPU {cpu} was charged for another time than passed");
        }
        let used: Nanos = self.threads.iter().map(|thread| thread.account.runtime).sum();
        let busy: Nanos = self.cpus.iter().map(|cpu| cpu.account.busy).sum();
        assert_eq!(used, busy, "threads used another time than CPUs were busy");
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
            let mean = if thread.waits == 0 { 0.0 } else { ms(thread.wait_sum) / thread.waits as f64 };
            writeln!(
                f,
                "{:<20} {:>10.3} {:>8} {:>8} {:>10.3} {:>10.3}",
                thread.name,
                ms(thread.account.runtime),
                thread.account.switches,
                thread.account.preemptions,
                mean,
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
