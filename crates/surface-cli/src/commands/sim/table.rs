//! Tables of a simulated run, and the same as JSON. Of several policies, the rows of one thread stand below each other.
//!
//! Room: surface.

use console::Style;
use serde::Serialize;
use surface_simfile::{Nanos, Options as Run, Plan, Policy, Report};
use surface_text::amounts::{counted, latency};

use super::rows::{self, ContextRow, CpuRow, RingRow, ThreadRow};
use crate::out;

/// More CPUs are summed up in one row.
const CPU_ROWS: usize = 16;

#[derive(Serialize)]
pub(super) struct All<'a> {
    name: &'a str,
    cpus: u32,
    seed: u64,
    for_ns: Nanos,
    runs: Vec<One>,
}

#[derive(Serialize)]
struct One {
    policy: &'static str,
    threads: Vec<ThreadRow>,
    contexts: Vec<ContextRow>,
    rings: Vec<RingRow>,
    cpus: Vec<CpuRow>,
    events: u64,
    interrupts: u64,
}

pub(super) fn json<'a>(plan: &'a Plan, run: &Run, runs: &[(Policy, Report)]) -> All<'a> {
    let one = |(policy, report): &(Policy, Report)| One {
        policy: policy.name(),
        threads: rows::threads(plan, run, report),
        contexts: rows::contexts(report),
        rings: rows::rings(report),
        cpus: rows::cpus(report),
        events: report.events,
        interrupts: report.interrupts,
    };
    All { name: &plan.name, cpus: run.cpus, seed: run.seed, for_ns: run.time, runs: runs.iter().map(one).collect() }
}

fn span(time: Nanos) -> String {
    if time == 0 { "0".to_owned() } else { latency(time as f64 / 1e3) }
}

fn percent(part: Nanos, whole: Nanos) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// A table whose rows are the same things under each policy.
fn table(titles: &[&str], runs: &[(Policy, Report)], rows_of: impl Fn(&Report) -> Vec<Vec<String>>) -> String {
    let is_one = runs.len() == 1;
    let all: Vec<(Policy, Vec<Vec<String>>)> = runs.iter().map(|(policy, report)| (*policy, rows_of(report))).collect();
    let mut head: Vec<String> = titles.iter().map(|title| title.to_string()).collect();
    if !is_one {
        head.insert(1, "POLICY".to_owned());
    }
    let bold = Style::new().bold();
    let mut lines = vec![head.iter().map(|title| bold.apply_to(title).to_string()).collect::<Vec<_>>()];
    for number in 0..all.first().map_or(0, |(_, rows)| rows.len()) {
        for (nth, (policy, rows)) in all.iter().enumerate() {
            let mut row = rows[number].clone();
            if !is_one {
                row.insert(1, policy.name().to_owned());
            }
            if nth > 0 {
                row[0].clear();
            }
            lines.push(row);
        }
    }
    if lines.len() == 1 { String::new() } else { out::table(&lines) }
}

pub(super) fn text(plan: &Plan, run: &Run, runs: &[(Policy, Report)]) -> String {
    let whole = run.time * u64::from(run.cpus);
    let (cpus, plural) = (run.cpus, if run.cpus == 1 { "" } else { "s" });
    let policies: Vec<&str> = runs.iter().map(|(policy, _)| policy.name()).collect();
    let events: u64 = runs.iter().map(|(_, report)| report.events).sum();
    let mut text = format!(
        "{}: {} on {cpus} CPU{plural}, {}, seed {}; {events} events, no law broke\n\n",
        crate::view::text::clean(&plan.name),
        span(run.time),
        policies.join(", "),
        run.seed
    );
    let titles = ["THREAD", "WEIGHT", "RAN", "SHARE", "WAIT P50", "P99", "MAX", "SWITCHES", "PREEMPTED", "MISSED"];
    text += &table(&titles, runs, |report| {
        let row = |row: ThreadRow| {
            vec![
                if row.count == 1 { row.name } else { format!("{} ×{}", row.name, row.count) },
                row.weight.to_string(),
                span(row.ran_ns),
                percent(row.ran_ns, whole),
                span(row.wait_p50_ns),
                span(row.wait_p99_ns),
                span(row.wait_max_ns),
                row.switches.to_string(),
                row.preemptions.to_string(),
                if row.deadlines == 0 { "-".to_owned() } else { format!("{} of {}", row.misses, row.deadlines) },
            ]
        };
        rows::threads(plan, run, report).into_iter().map(row).collect()
    });
    text += &refused(plan, run, runs);
    for more in [contexts(run, runs), rings(runs), cpus_of(run, runs)] {
        if !more.is_empty() {
            text.push('\n');
            text += &more;
        }
    }
    text
}

/// A line for each thread that was refused something. One line says it for several policies: that of the most.
fn refused(plan: &Plan, run: &Run, runs: &[(Policy, Report)]) -> String {
    let mut text = String::new();
    for section in 0..plan.threads.len() {
        let rows = runs.iter().map(|(_, report)| rows::threads(plan, run, report).swap_remove(section));
        if let Some(row) = rows.max_by_key(|row| row.refused).filter(|row| row.refused > 0) {
            let (name, count) = (row.name, counted(row.refused as usize, "time"));
            text += &format!(
                "{name} was refused {count}: what it called had ended or waits for it (a cycle of calls), or its ring has another consumer\n"
            );
        }
    }
    text
}

fn contexts(run: &Run, runs: &[(Policy, Report)]) -> String {
    table(&["CONTEXT", "CHARGED", "SHARE OF ONE CPU", "DEPLETED"], runs, |report| {
        let row = |row: ContextRow| match row.charged_ns {
            Some(charged) => vec![row.name, span(charged), percent(charged, run.time), format!("{}×", row.depletions)],
            None => vec![row.name, "revoked".to_owned()],
        };
        rows::contexts(report).into_iter().map(row).collect()
    })
}

fn rings(runs: &[(Policy, Report)]) -> String {
    let titles = ["RING", "SUBMITTED", "SERVED", "MISSED", "DROPPED LATE", "DROPPED FULL", "LATENCY P50", "P99", "MAX"];
    table(&titles, runs, |report| {
        let row = |row: RingRow| {
            let counts = [row.submitted, row.served, row.missed, row.dropped_late, row.dropped_full];
            let times = [row.latency_p50_ns, row.latency_p99_ns, row.latency_max_ns];
            let cells = counts.into_iter().map(|count| count.to_string()).chain(times.into_iter().map(span));
            std::iter::once(row.name).chain(cells).collect()
        };
        rows::rings(report).into_iter().map(row).collect()
    })
}

fn cpus_of(run: &Run, runs: &[(Policy, Report)]) -> String {
    table(&["CPU", "BUSY", "IDLE", "SWITCHES", "STEALS"], runs, |report| {
        let all = rows::cpus(report);
        let row = |name: String, row: &CpuRow, whole: Nanos| {
            let [busy, idle] = [row.busy_ns, row.idle_ns].map(|part| percent(part, whole));
            vec![name, busy, idle, row.switches.to_string(), row.steals.to_string()]
        };
        if all.len() <= CPU_ROWS {
            return all.iter().map(|one| row(one.cpu.to_string(), one, run.time)).collect();
        }
        let sum = |of: fn(&CpuRow) -> u64| all.iter().map(of).sum();
        let sum = CpuRow {
            cpu: 0,
            busy_ns: sum(|row| row.busy_ns),
            idle_ns: sum(|row| row.idle_ns),
            switches: sum(|row| row.switches),
            steals: sum(|row| row.steals),
        };
        vec![row(format!("all {}", all.len()), &sum, run.time * all.len() as u64)]
    })
}
