//! A plan as boxes and arrows.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.
//!
//! # Invariant
//! An arrow goes from a need to its user; each is there once. Boxes are in the order of the file.

use std::collections::{HashMap, HashSet};

use surface_text::amounts::exact_megabytes;
use surface_text::cycle;
use surface_text::picture::{Picture, PictureNode};

use crate::plan::{Job, Plan};

/// A box for each job.
pub(super) fn of_jobs(plan: &Plan) -> Picture {
    let nodes = plan.jobs.iter().map(|job| PictureNode::new(job.name.clone(), detail(job)));
    let needs = plan.jobs.iter().map(|job| job.needs.clone()).collect();
    Picture::of_needs(&plan.name, nodes.collect(), needs)
}

/// A box for each group.
pub(super) fn folded(plan: &Plan) -> Picture {
    let mut indices: HashMap<&str, usize> = HashMap::new();
    let mut groups: Vec<(&Job, usize)> = Vec::new();
    let group_of: Vec<usize> = plan
        .jobs
        .iter()
        .map(|job| {
            let index = *indices.entry(&job.group).or_insert(groups.len());
            match groups.get_mut(index) {
                Some((_, count)) => *count += 1,
                None => groups.push((job, 1)),
            }
            index
        })
        .collect();
    let mut needs = vec![Vec::new(); groups.len()];
    let mut seen = HashSet::new();
    for (job, &user) in plan.jobs.iter().zip(&group_of) {
        let mut last = usize::MAX;
        for &need in &job.needs {
            let Some(&need) = group_of.get(need) else { continue };
            // Instances are next to each other, so most edges repeat the one before.
            if need != last && need != user && seen.insert((need, user)) {
                needs[user].push(need);
            }
            last = need;
        }
    }
    let node_of = |(job, count): (&Job, usize)| {
        let label = if job.values.is_empty() { job.group.clone() } else { format!("{} ×{count}", job.group) };
        PictureNode::new(label, detail(job))
    };
    Picture::of_needs(&plan.name, groups.into_iter().map(node_of).collect(), needs)
}

/// `cpu 2 · vram 6 GB · licence 1 · retries 2`, as far as it is set.
fn detail(job: &Job) -> String {
    let mut parts = Vec::new();
    parts.extend(job.cpu.map(|cpu| format!("cpu {cpu}")));
    parts.extend(job.ram_mb.map(|mb| format!("ram {}", exact_megabytes(mb))));
    parts.extend(job.gpus.map(|gpus| format!("gpus {gpus}")));
    parts.extend(job.vram_mb.map(|mb| format!("vram {}", exact_megabytes(mb))));
    parts.extend(job.named.iter().map(|(name, count)| format!("{name} {count}")));
    parts.extend((job.priority != 0).then(|| format!("priority {}", job.priority)));
    parts.extend((job.retries != 0).then(|| format!("retries {}", job.retries)));
    parts.join(" · ")
}

/// Jobs of a longest chain of needs, first to last; the earliest in the file where there is a choice.
pub(super) fn longest_chain(plan: &Plan) -> Vec<usize> {
    let needs: Vec<&[usize]> = plan.jobs.iter().map(|job| job.needs.as_slice()).collect();
    let mut length = vec![0_usize; needs.len()];
    let mut from = vec![usize::MAX; needs.len()];
    for node in cycle::order(&needs) {
        length[node] = 1;
        for &need in needs[node] {
            if length[need] + 1 > length[node] {
                length[node] = length[need] + 1;
                from[node] = need;
            }
        }
    }
    let mut chain = Vec::new();
    let longest = length.iter().copied().max().unwrap_or(0);
    let mut next = length.iter().position(|&length| length == longest && length > 0);
    while let Some(node) = next {
        chain.push(node);
        next = (from[node] != usize::MAX).then(|| from[node]);
    }
    chain.reverse();
    chain
}
