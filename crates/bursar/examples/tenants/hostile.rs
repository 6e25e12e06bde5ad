//! The tenant that wants everything, and the record of how each attempt ended.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bursar::{
    Budget,
    budget::budget_left,
    budgeted,
    capability::{CapSpawn, Ledger},
    fs,
    prelude::*,
    sync::{Mutex, oneshot},
};

use crate::{tenant::Tenant, work::Work};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    EndlessLoop,
    ForkBomb,
    AllocationBomb,
    ChannelFlood,
    SyscallFlood,
    ForgedCapability,
    AfterRevocation,
}

impl Attack {
    pub(crate) const ALL: [Attack; 7] = {
        use Attack::*;
        [EndlessLoop, ForkBomb, AllocationBomb, ChannelFlood, SyscallFlood, ForgedCapability, AfterRevocation]
    };

    pub(crate) fn name(self) -> &'static str {
        match self {
            Attack::EndlessLoop => "endless loop",
            Attack::ForkBomb => "fork bomb",
            Attack::AllocationBomb => "allocation bomb",
            Attack::ChannelFlood => "channel flood",
            Attack::SyscallFlood => "syscall flood",
            Attack::ForgedCapability => "forged capability",
            Attack::AfterRevocation => "once revoked",
        }
    }

    /// None of these returns `Ok`, if the host keeps its promise.
    fn run(self) -> Result<(), TaskError> {
        match self {
            Attack::EndlessLoop | Attack::AfterRevocation => spin(),
            Attack::ForkBomb => fork(),
            Attack::AllocationBomb => hoard(),
            Attack::ChannelFlood => {
                let (tx, _rx) = unbounded();
                loop {
                    tx.send([0_u64; 8])?;
                }
            }
            Attack::SyscallFlood => loop {
                fs::metadata(".")?;
            },
            Attack::ForgedCapability => {
                // A task can open a ledger and grant itself everything. The runtime honours its own ledger only.
                let everything = Ledger::new().grant(CapSpawn::new());
                nursery_with(NurseryOptions::new().capability(&everything), |n| n.spawn(|| ()).join())
            }
        }
    }
}

#[budgeted]
fn spin() -> ! {
    let mut x = 1_u64;
    loop {
        x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(7));
    }
}

#[budgeted]
fn hoard() -> ! {
    let mut all = Vec::new();
    loop {
        all.push(vec![1_u8; 16 << 10]);
    }
}

/// Leaves its children enough to do the same.
fn fork() -> Result<(), TaskError> {
    let Budget { ops, memory, spawns, .. } = budget_left();
    let third = Budget::ops(ops / 3).memory(memory / 3).spawns(spawns / 3);
    nursery_with(NurseryOptions::new().task_budget(third), |n| {
        n.try_spawn(fork);
        n.try_spawn(fork);
        Ok(())
    })
}

/// How the attempts of one kind went.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) tries: u64,
    /// Names of errors, and how often.
    pub(crate) endings: BTreeMap<&'static str, u64>,
    /// Attempts that came to a good end, for the attacker.
    pub(crate) succeeded: u64,
    pub(crate) longest: Duration,
    /// What the first one was told.
    pub(crate) told: Option<String>,
    /// What the innocents did meanwhile, and in the pauses between.
    pub(crate) beside: Work,
    pub(crate) without: Work,
}

pub(crate) type Records = Mutex<[Record; Attack::ALL.len()]>;

/// To attack again and again, until then.
pub(crate) struct Order {
    pub(crate) attack: Attack,
    pub(crate) until: Instant,
    pub(crate) done: oneshot::Sender<()>,
}

/// The host's part: starts the tenant again whenever it was stopped, at once and without asking.
pub(crate) fn host(tenant: &Tenant, orders: Receiver<Order>, records: &Records) {
    for Order { attack, until, done } in orders {
        loop {
            let begun = Instant::now();
            let outcome = nursery_with(tenant.nursery(), |n| n.try_spawn(move || attack.run()).join());
            let record = &mut records.lock()[attack as usize];
            record.tries += 1;
            record.longest = record.longest.max(begun.elapsed());
            match outcome {
                Ok(()) => record.succeeded += 1,
                Err(error) => {
                    *record.endings.entry(error.reason().name()).or_default() += 1;
                    record.told.get_or_insert_with(|| error.reason().to_string());
                }
            }
            if Instant::now() >= until {
                break;
            }
        }
        let _ = done.send(()); // the host may have closed
    }
}
