//! What would run, in which order, and why.
//!
//! Room: surface.

use std::cmp::Reverse;
use std::fmt::Write as _;

use sched_jobs::{Config, Demand, Resource};
use surface_jobfile::Plan;
use surface_journal::Estimate;
use surface_text::cycle::{Edge, order_by};

/// All of it, as text.
pub(crate) fn text(
    plan: &Plan,
    demands: &[Demand],
    estimates: &[Option<Estimate>],
    reasons: &[Option<String>],
    config: &Config,
) -> String {
    let mut text = String::new();
    let order = order(plan, reasons);
    let skipped = plan.jobs.len() - order.len();
    for (number, &at) in order.iter().enumerate() {
        let (job, demand) = (&plan.jobs[at], &demands[at]);
        let ram = Resource::Ram.amount(demand.ram_mb);
        let estimated = if job.ram_mb.is_none() && estimates[at].is_some() { " (from history)" } else { "" };
        let mut vram = String::new();
        if demand.gpus > 0 {
            vram += &format!(", gpus {}", demand.gpus);
        }
        if demand.vram_mb > 0 {
            vram += &format!(", vram {}", Resource::Vram.amount(demand.vram_mb));
        }
        let why = reasons[at].as_deref().filter(|why| !why.is_empty()).map_or(String::new(), |why| format!(": {why}"));
        let (number, slots) = (number + 1, demand.cpu_slots);
        let _ = writeln!(text, "{number:>4}  {}  cpu {slots}, ram {ram}{estimated}{vram}{why}", job.name);
    }
    for (job, _) in plan.jobs.iter().zip(reasons).filter(|(_, reason)| reason.is_none()) {
        let _ = writeln!(text, "   -  {}  is up to date", job.name);
    }
    let limits = &config.limits;
    let amount = |resource: Resource, mb: u64| if mb == 0 { "unlimited".to_owned() } else { resource.amount(mb) };
    let cards: Vec<String> = limits.gpus.iter().map(|gpu| amount(Resource::Vram, gpu.vram_mb)).collect();
    let vram = match cards.len() {
        0 => format!("vram {}", amount(Resource::Vram, limits.vram_mb)),
        1 => format!("1 card with {}", cards[0]),
        count => format!("{count} cards with {}", cards.join(", ")),
    };
    let _ = writeln!(
        text,
        "{} jobs would run, {skipped} are up to date; cpu {}, ram {}, {vram}",
        order.len(),
        limits.cpu_slots,
        amount(Resource::Ram, limits.ram_mb)
    );
    text
}

/// The order in which jobs would start if each ran alone and quickly: by priority, then by how long they have been ready.
fn order(plan: &Plan, reasons: &[Option<String>]) -> Vec<usize> {
    let runs = |at: usize| reasons[at].is_some();
    let edges = plan.jobs.iter().enumerate().flat_map(|(user, job)| {
        let needs = job.needs.iter().filter(move |need| runs(**need) && runs(user));
        needs.map(move |&need| Edge { need, user, loose: false })
    });
    let key = |at: usize, since: usize| (plan.jobs[at].priority, Reverse(since), Reverse(at));
    let mut order = order_by(plan.jobs.len(), &edges.collect::<Vec<_>>(), key);
    order.retain(|at| runs(*at));
    order
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn a_job_comes_after_what_it_needs_and_before_what_has_less_priority() {
        let text = "[job.late]\nrun='x'\n[job.film]\nneeds=['board']\npriority=9\nrun='x'\n[job.board]\npriority=5\nrun='x'\n[job.done]\nrun='x'";
        let plan = surface_jobfile::parse("x.toml", text).unwrap();
        let mut reasons = vec![Some(String::new()); 4];
        assert_eq!(order(&plan, &reasons), [2, 1, 0, 3]);
        reasons[3] = None;
        assert_eq!(order(&plan, &reasons), [2, 1, 0]);
    }
}
