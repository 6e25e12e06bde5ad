//! What a worker of a seeded runtime chooses: nothing by itself, since its driver says when it takes a step; and chance says from whom it steals.
//!
//! Room: driver. Knows one virtual worker; knows nothing of how it takes a step (`drive/stepwise.rs`).

use mech_sync::Steal;

use crate::{
    chance::Decision,
    decide::VictimStrategy,
    kernel::{
        task::RunnableRef,
        worker::{Next, STOP, Worker},
    },
    stats,
    trace::What,
};

impl Worker {
    /// What a fiber finds to go on with: nothing, if its worker goes step by step.
    #[cold]
    pub(crate) fn next_watched(&self) -> Option<Next> {
        self.counters.timing.enter_scheduler();
        match self.stepwise {
            Some(_) => None,
            None if self.shared.has_groups() => self.next_shared::<true>(),
            None => self.next_unwatched::<true>(),
        }
    }

    /// What a worker of a seeded runtime does next, when it takes a step.
    pub(crate) fn next_step(&self) -> Option<Next> {
        if self.shared.has_groups() { self.next_shared::<true>() } else { self.next_unwatched::<true>() }
    }

    /// A fiber of a seeded runtime yields: to the other workers as well.
    #[cold]
    pub(crate) fn yield_step(&self) -> usize {
        self.own().yielded.set(true);
        STOP
    }

    /// Steals from one of the workers that have something.
    #[cold]
    pub(crate) fn steal_step(&self) -> Option<RunnableRef> {
        let workers = &self.shared.workers;
        let behind = (1..workers.len()).map(|steps| (self.index + steps) % workers.len());
        self.looked_at(self.other_count());
        let loaded: Vec<usize> = behind.filter(|&index| !workers[index].stealer.is_empty()).collect();
        let &first = loaded.first()?;
        let victim = match self.shared.strategy {
            VictimStrategy::Random => loaded[self.own().seeded.choose(loaded.len(), Decision::Victim)],
            VictimStrategy::RoundRobin => first,
            VictimStrategy::LeastLoaded => {
                // The first of those with most: `max_by_key` would give the last.
                loaded.into_iter().rev().max_by_key(|&index| workers[index].stealer.len()).unwrap_or(first)
            }
        };
        let Steal::Taken(item) = workers[victim].stealer.steal() else { return None };
        stats::add(&self.counters.stolen, 1);
        let stolen = RunnableRef::from_item(item);
        self.note(What::Stole { victim: victim as u32 }, Some(stolen.id()));
        Some(stolen)
    }
}
