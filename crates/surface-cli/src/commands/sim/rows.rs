//! What a run came to, by section of the file: threads that are alike are one row.
//!
//! Room: surface.

use serde::Serialize;
use surface_simfile::{Histogram, Nanos, Options as Run, Plan, Report};

/// Threads of one section.
#[derive(Debug, Serialize)]
pub(super) struct ThreadRow {
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) weight: u32,
    pub(super) ran_ns: Nanos,
    /// Of the time of all CPUs.
    pub(super) share: f64,
    pub(super) waits: u64,
    pub(super) wait_p50_ns: Nanos,
    pub(super) wait_p99_ns: Nanos,
    pub(super) wait_max_ns: Nanos,
    pub(super) switches: u64,
    pub(super) preemptions: u64,
    pub(super) deadlines: u64,
    pub(super) misses: u64,
    /// Calls and polls that failed at once.
    pub(super) refused: u64,
}

/// One CPU, or all of them.
#[derive(Debug, Serialize)]
pub(super) struct CpuRow {
    pub(super) cpu: u32,
    pub(super) busy_ns: Nanos,
    pub(super) idle_ns: Nanos,
    pub(super) switches: u64,
    pub(super) steals: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct ContextRow {
    pub(super) name: String,
    /// None if it was revoked.
    pub(super) charged_ns: Option<Nanos>,
    pub(super) depletions: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct RingRow {
    pub(super) name: String,
    pub(super) submitted: u64,
    pub(super) served: u64,
    pub(super) missed: u64,
    pub(super) dropped_late: u64,
    pub(super) dropped_full: u64,
    pub(super) latency_p50_ns: Nanos,
    pub(super) latency_p99_ns: Nanos,
    pub(super) latency_max_ns: Nanos,
}

/// By number of a thread in the report: the number of its section.
pub(super) fn sections(plan: &Plan) -> Vec<usize> {
    let copies = plan.threads.iter().enumerate();
    copies.flat_map(|(section, thread)| std::iter::repeat_n(section, thread.count as usize)).collect()
}

pub(super) fn threads(plan: &Plan, run: &Run, report: &Report) -> Vec<ThreadRow> {
    let mut left = report.threads.iter();
    let rows = plan.threads.iter().map(|section| {
        let mut waits = Histogram::default();
        let mut row = ThreadRow {
            name: section.name.clone(),
            count: section.count,
            weight: section.weight,
            ran_ns: 0,
            share: 0.0,
            waits: 0,
            wait_p50_ns: 0,
            wait_p99_ns: 0,
            wait_max_ns: 0,
            switches: 0,
            preemptions: 0,
            deadlines: 0,
            misses: 0,
            refused: 0,
        };
        for thread in left.by_ref().take(section.count as usize) {
            row.ran_ns += thread.account.runtime;
            row.switches += thread.account.switches;
            row.preemptions += thread.account.preemptions;
            row.deadlines += thread.deadlines;
            row.misses += thread.misses;
            row.refused += thread.refused;
            waits.merge(&thread.waits);
        }
        row.share = row.ran_ns as f64 / (run.time as f64 * f64::from(run.cpus));
        (row.waits, row.wait_max_ns) = (waits.count(), waits.max());
        (row.wait_p50_ns, row.wait_p99_ns) = (waits.per_mille(500), waits.per_mille(990));
        row
    });
    rows.collect()
}

pub(super) fn cpus(report: &Report) -> Vec<CpuRow> {
    let rows = report.cpus.iter().enumerate().map(|(cpu, report)| CpuRow {
        cpu: cpu as u32,
        busy_ns: report.account.busy,
        idle_ns: report.account.idle,
        switches: report.account.switches,
        steals: report.account.steals,
    });
    rows.collect()
}

pub(super) fn contexts(report: &Report) -> Vec<ContextRow> {
    let rows = report.contexts.iter().map(|context| ContextRow {
        name: context.name.clone(),
        charged_ns: context.charged,
        depletions: context.depletions,
    });
    rows.collect()
}

pub(super) fn rings(report: &Report) -> Vec<RingRow> {
    let rows = report.rings.iter().map(|ring| RingRow {
        name: ring.name.clone(),
        submitted: ring.submitted,
        served: ring.served,
        missed: ring.missed,
        dropped_late: ring.dropped_late,
        dropped_full: ring.dropped_full,
        latency_p50_ns: ring.latency.per_mille(500),
        latency_p99_ns: ring.latency.per_mille(990),
        latency_max_ns: ring.latency.max(),
    });
    rows.collect()
}
