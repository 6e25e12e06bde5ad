//! Spawn a million empty tasks from one task, with budgets and capabilities and without. 2 workers.
//!
//! Every task draws its budget from a pool with limits in all five components, and takes a permit of a capability that was derived twice and is limited; what it
//! does not spend it brings back.
//!
//! Bar: 1.25 × without.

use bursar::prelude::*;
use bursar::{
    Budget,
    capability::{CapSpawn, Delegation, Grant, Ledger},
};

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::table::{Bar, Row};

pub const NAME: &str = "budgets";

fn spawn_all(runtime: &Runtime, options: NurseryOptions, count: usize) -> Result<(), Failure> {
    runtime.run(|| {
        nursery_with(options, |n| {
            for _ in 0..count {
                n.spawn(|| ());
            }
            Ok(())
        })
    })??;
    Ok(())
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let count = plan.pick(1_000_000, 200_000);
    let runtime = Runtime::builder().workers(2).build()?;
    let each = Budget::ops(1_000).memory(1 << 20).channel_ops(100).syscalls(10);
    let all = Budget::ops(10_000_000).memory(1 << 40).spawns(count as u64).channel_ops(1 << 20).syscalls(1 << 20);
    let budgets = || NurseryOptions::new().budget(all).task_budget(each);

    let root = Ledger::new().grant(CapSpawn::new().max_tasks(4 * count as u64));
    let team =
        root.attenuate(Grant::new(CapSpawn::new().max_tasks(3 * count as u64)).delegation(Delegation::Allowed))?;
    let tenant = team.attenuate(CapSpawn::new().max_tasks(2 * count as u64).task_budget(each))?;

    let [without, budgeted, both] = plan.best_of(
        count,
        [
            Side::new("without", || spawn_all(&runtime, NurseryOptions::new(), count)),
            Side::new("budgets", || spawn_all(&runtime, budgets(), count)),
            Side::new("budgets and capabilities", || spawn_all(&runtime, budgets().capability(&tenant), count)),
        ],
    )?;
    let unit = "ns/task";
    Ok(vec![
        Row::new(NAME, "a spawn without any", [both, without], unit, Bar::Times(1.25)),
        Row::new(NAME, "the same, budgets alone", [budgeted, without], unit, Bar::Open),
    ])
}
