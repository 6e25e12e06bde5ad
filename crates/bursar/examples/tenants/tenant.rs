//! What a tenant may do, and what the honest ones do with it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bursar::{
    Budget, budgeted,
    capability::{Cap, CapError, CapSpawn, Grant},
    fs,
    prelude::*,
};

/// Tasks that a tenant may have at one time.
pub(crate) const TASKS_MAX: u64 = 16;
/// What each of them may spend: many times what an honest one needs.
pub(crate) const TASK_BUDGET: Budget = Budget::ops(200_000).memory(2 << 20).spawns(64).channel_ops(1_000).syscalls(50);

/// Units of work in a request.
const UNITS: u64 = 8;

pub(crate) struct Tenant {
    pub(crate) name: Arc<str>,
    pub(crate) trade: Trade,
    /// All the authority it has. It can be made narrower, passed on and revoked, but not widened.
    pub(crate) cap: Cap<CapSpawn>,
    /// Units of work done.
    pub(crate) units: AtomicU64,
}

impl Tenant {
    /// All tenants have the same contract, the hostile one too: the host cannot know beforehand.
    pub(crate) fn admit(root: &Cap<CapSpawn>, index: usize) -> Result<Self, CapError> {
        let name: Arc<str> = format!("tenant-{index:02}").into();
        let terms = CapSpawn::new().max_tasks(TASKS_MAX).task_budget(TASK_BUDGET);
        let cap = root.attenuate(Grant::new(terms).label(&name))?; // the label is for the audit log
        Ok(Self { name, trade: Trade::ALL[index % Trade::ALL.len()], cap, units: AtomicU64::new(0) })
    }

    /// The nursery that is the tenant's world: what runs in it spawns by its capability, or not at all.
    pub(crate) fn nursery(&self) -> NurseryOptions {
        NurseryOptions::new().name(self.name.clone()).capability(&self.cap)
    }

    /// One request after the other, each a task with a budget of its own, until the host closes.
    pub(crate) fn serve(&self) -> Result<(), TaskError> {
        nursery_with(self.nursery(), |n| {
            loop {
                n.try_spawn(|| self.trade.request(&self.units)).join()?;
            }
        })
    }
}

/// What a tenant lives by. A request is the same work in all trades; how it waits differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trade {
    Hash,
    Pipe,
    Split,
    Files,
    Timer,
}

impl Trade {
    pub(crate) const ALL: [Trade; 5] = [Trade::Hash, Trade::Pipe, Trade::Split, Trade::Files, Trade::Timer];

    fn request(self, done: &AtomicU64) -> Result<(), TaskError> {
        let some = |units: u64| {
            for seed in 0..units {
                unit(seed, done);
            }
        };
        match self {
            Trade::Hash => some(UNITS),
            Trade::Pipe => nursery(|n| {
                let (tx, rx) = channel(2);
                n.spawn(move || {
                    // When the host shuts down, either side may be the first to end: a closed channel is no failure.
                    (0..UNITS / 2).take_while(|seed| tx.send(unit(*seed, done)).is_ok()).count()
                });
                for seed in rx {
                    unit(seed, done);
                }
                Ok(())
            })?,
            Trade::Split => nursery(|n| {
                n.spawn(|| some(UNITS / 2));
                n.spawn(|| some(UNITS / 2));
                Ok(())
            })?,
            Trade::Files => {
                fs::metadata(".")?; // waits on a thread kept for that; the worker goes on
                some(UNITS);
            }
            Trade::Timer => {
                sleep(Duration::from_millis(1));
                some(UNITS);
            }
        }
        Ok(())
    }
}

/// A unit of honest work. The attribute puts checkpoints into the loop, which charge the task for its rounds.
#[budgeted]
fn unit(seed: u64, done: &AtomicU64) -> u64 {
    let mut x = seed | 1;
    for _ in 0..1_000 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    done.fetch_add(1, Relaxed);
    std::hint::black_box(x)
}
