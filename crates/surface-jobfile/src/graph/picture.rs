//! What all drawings share: boxes, arrows between them, and the layer of each box.
//!
//! Room: surface, pure.
//!
//! # Invariant
//! An arrow goes from a need to its user, into a later layer; each is there once. Boxes are in the order of the file.

use std::collections::{HashMap, HashSet};

use crate::cycle;
use crate::plan::{Job, Plan};
use crate::units::size;

pub(super) struct Card {
    pub(super) label: String,
    /// Demands and settings, short.
    pub(super) detail: String,
    pub(super) layer: usize,
    /// Boxes it needs, in the order of the file.
    pub(super) needs: Vec<usize>,
}

pub(super) struct Picture {
    pub(super) cards: Vec<Card>,
    pub(super) layers: usize,
}

impl Picture {
    /// A box for each job.
    pub(super) fn of_jobs(plan: &Plan) -> Self {
        let cards = plan.jobs.iter().map(|job| card(job.name.clone(), job));
        let needs = plan.jobs.iter().map(|job| job.needs.clone()).collect();
        Self::new(cards.collect(), needs)
    }

    /// A box for each group.
    pub(super) fn folded(plan: &Plan) -> Self {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut groups: Vec<(&Job, usize)> = Vec::new();
        let group_of: Vec<usize> = plan
            .jobs
            .iter()
            .map(|job| {
                let place = *places.entry(&job.group).or_insert(groups.len());
                match groups.get_mut(place) {
                    Some((_, count)) => *count += 1,
                    None => groups.push((job, 1)),
                }
                place
            })
            .collect();
        let mut needs = vec![Vec::new(); groups.len()];
        let mut seen = HashSet::new();
        for (job, &user) in plan.jobs.iter().zip(&group_of) {
            let mut last = usize::MAX;
            for &need in &job.needs {
                let Some(&need) = group_of.get(need) else { continue };
                // Instances stand together, so most edges repeat the one before.
                if need != last && need != user && seen.insert((need, user)) {
                    needs[user].push(need);
                }
                last = need;
            }
        }
        let label = |(job, count): (&Job, usize)| {
            let label = if job.values.is_empty() { job.group.clone() } else { format!("{} ×{count}", job.group) };
            card(label, job)
        };
        Self::new(groups.into_iter().map(label).collect(), needs)
    }

    fn new(mut cards: Vec<Card>, mut needs: Vec<Vec<usize>>) -> Self {
        let count = cards.len();
        for list in &mut needs {
            list.retain(|&need| need < count);
            list.sort_unstable();
            list.dedup();
        }
        let order = cycle::order(&needs.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut layers = usize::from(count > 0);
        // What is in a circle stays in layer 0: wrong, but drawn.
        for node in order {
            cards[node].layer = needs[node].iter().map(|&need| cards[need].layer + 1).max().unwrap_or(0);
            layers = layers.max(cards[node].layer + 1);
        }
        for (card, needs) in cards.iter_mut().zip(needs) {
            card.needs = needs;
        }
        Self { cards, layers }
    }
}

fn card(label: String, job: &Job) -> Card {
    Card { label, detail: detail(job), layer: 0, needs: Vec::new() }
}

/// `cpu 2 · vram 6 GB · licence 1 · retries 2`, as far as it was said.
fn detail(job: &Job) -> String {
    let mut parts = Vec::new();
    parts.extend(job.cpu.map(|cpu| format!("cpu {cpu}")));
    parts.extend(job.ram_mb.map(|mb| format!("ram {}", size(mb))));
    parts.extend(job.vram_mb.map(|mb| format!("vram {}", size(mb))));
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
