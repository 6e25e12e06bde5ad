//! The plan for a terminal.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! A line for each group, below one it needs; the longest chain is named, of a long one the ends.

use std::fmt::Write;

use surface_text::amounts::exact_megabytes;
use surface_text::picture::{Picture, shown};

use super::picture::longest_chain;
use crate::plan::Plan;

/// Names of a chain that are written out.
const NAMES: usize = 8;

pub(super) fn draw(plan: &Plan, picture: &Picture) -> String {
    let mut out = headline(plan, picture);
    out.push_str(&picture.rows("needs"));
    let chain = longest_chain(plan);
    if !chain.is_empty() {
        let mut names: Vec<String> = chain.iter().map(|&job| shown(&plan.jobs[job].group)).collect();
        let count = names.len();
        if count > NAMES {
            names.splice(NAMES / 2..count - NAMES / 2, ["…".to_owned()]);
        }
        let jobs = if count == 1 { "job" } else { "jobs" };
        let _ = writeln!(out, "\nlongest chain: {count} {jobs}, {}", names.join(" → "));
    }
    out
}

fn headline(plan: &Plan, picture: &Picture) -> String {
    let (jobs, groups) = (plan.jobs.len(), picture.len());
    let mut out = format!("{}: {jobs} {}", shown(&plan.name), if jobs == 1 { "job" } else { "jobs" });
    if groups < jobs {
        let _ = write!(out, " in {groups} {}", if groups == 1 { "group" } else { "groups" });
    }
    let resources = &plan.resources;
    let amount = |mb: u64| if mb == 0 { "unlimited".to_owned() } else { exact_megabytes(mb) };
    let mut parts = Vec::new();
    parts.extend(resources.cpu.map(|cpu| format!("cpu {cpu}")));
    parts.extend(resources.ram_mb.map(|mb| format!("ram {}", amount(mb))));
    parts.extend(resources.gpus.map(|gpus| format!("gpus {gpus}")));
    parts.extend(resources.vram_mb.map(|mb| format!("vram {}", amount(mb))));
    parts.extend(resources.named.iter().map(|(name, count)| format!("{} {count}", shown(name))));
    for part in parts {
        let _ = write!(out, " · {part}");
    }
    out.push_str("\n\n");
    out
}
