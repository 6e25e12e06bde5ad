//! What each group of tasks has had of the workers' time, for who looks on.
//!
//! Room: state. Knows groups and their counters; knows nothing of who has the next slice.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use policy_cpu::Weight;

use super::{shared::Shared, shares::ShareGroup};
use crate::context::Context;

/// What a group of tasks has had of the workers' time; see [`NurseryOptions::weight`](crate::NurseryOptions::weight) and [`Runtime::shares`](crate::Runtime::shares).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// The name of its nursery; of a tenant, the label of its capability.
    pub name: Option<String>,
    /// Its weight beside the groups that are inside the same one, in 1024ths of that of a task in no group.
    pub weight: u32,
    /// How many groups it is inside of, itself included; 0 for the tasks that are in none.
    pub depth: u32,
    /// How long its tasks had a worker, in all, with those of groups inside it.
    pub cpu_time: Duration,
    /// The context that limits it: its own, or that of a group around it.
    pub context: Option<Context>,
    /// How often that had no time left: several times in a period if its time comes back in parts, as it was used.
    pub depletions: u64,
    /// Whether its tasks wait for time to come back.
    pub is_throttled: bool,
    /// How many of its tasks have not started.
    pub unstarted: usize,
}

impl ShareGroup {
    fn share(&self) -> Share {
        Share {
            name: self.about.name.as_deref().map(str::to_owned),
            weight: self.about.weight,
            depth: self.level(),
            cpu_time: Duration::from_nanos(self.served_inside.load(Relaxed)),
            context: self.servers.first().map(|server| server.context()),
            depletions: self.servers.first().map_or(0, |server| server.depletions()),
            is_throttled: self.is_throttled(),
            unstarted: self.lines.iter().map(|lines| lines.unstarted.len()).sum(),
        }
    }
}

impl Shared {
    /// What each group has had, that of the tasks in no group first. Empty while there is no group: then nothing is measured.
    pub(crate) fn shares_now(&self) -> Vec<Share> {
        let groups: Vec<Arc<ShareGroup>> = self.shares.all();
        if groups.is_empty() {
            return Vec::new();
        }
        let root = Share {
            name: None,
            weight: Weight::NORMAL.get(),
            depth: 0,
            cpu_time: Duration::from_nanos(self.shares.root_served.load(Relaxed)),
            context: None,
            depletions: 0,
            is_throttled: false,
            unstarted: self.injected.len() + self.workers.iter().map(|worker| worker.stealer.len()).sum::<usize>(),
        };
        std::iter::once(root).chain(groups.iter().map(|group| group.share())).collect()
    }
}
