//! What a tenant hands to jobs and to flows runs within the tenant's limits.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use bursar::{
    Budget, NurseryOptions, TaskError,
    budget::charge,
    capability::{CapSpawn, Confinement, Ledger},
    jobs::{Job, Jobs},
    nursery, nursery_with,
};

fn spend(spent: &AtomicU64) -> Result<(), TaskError> {
    nursery(|n| {
        n.spawn(|| {
            for _ in 0..1_000 {
                charge(100);
                spent.fetch_add(100, SeqCst);
            }
        })
        .join()
    })
}

#[test]
fn a_job_of_a_task_has_nothing_to_spend() {
    let spent = Arc::new(AtomicU64::new(0));
    let host = Jobs::builder().cpu_slots(1).build();
    nursery_with(NurseryOptions::new().task_budget(Budget::ops(1_000).spawns(10)), |n| {
        n.spawn(|| {
            let own = Jobs::builder().cpu_slots(1).build();
            for (number, jobs) in [&host, &own].into_iter().enumerate() {
                let (once, again) = (spent.clone(), spent.clone());
                let again =
                    Job::new(format!("again-{number}")).run(move |_| spend(&again).map_err(|error| error.to_string()));
                let once = Job::new(format!("once-{number}")).run_once(move |_| {
                    charge(1);
                    once.fetch_add(1, SeqCst);
                });
                jobs.submit(again).unwrap();
                jobs.submit(once).unwrap();
                let failed = jobs.wait().unwrap_err().to_string();
                assert!(failed.contains("BudgetExhausted"), "{failed}");
            }
        })
        .join()
    })
    .unwrap();
    assert_eq!(spent.load(SeqCst), 0);
}

#[test]
fn a_job_of_a_task_has_the_capabilities_of_the_task() {
    let jobs = Jobs::builder().cpu_slots(1).build();
    let cap = Ledger::new().grant(CapSpawn::new().max_tasks(1));
    nursery_with(NurseryOptions::new().capability(&cap), |n| {
        n.spawn(|| {
            let work =
                |_: &bursar::jobs::Ctx<'_>| nursery(|m| m.spawn(|| ()).join()).map_err(|error| error.to_string());
            jobs.submit(Job::new("greedy").run(work)).unwrap();
            let failed = jobs.wait().unwrap_err().to_string();
            assert!(failed.contains("TaskLimitExceeded"), "{failed}");
        })
        .join()
    })
    .unwrap();
}

#[test]
fn a_job_of_the_host_has_no_limits_and_leaves_none_behind() {
    let jobs = Jobs::builder().cpu_slots(1).build();
    let limited = NurseryOptions::new().task_budget(Budget::ops(1_000).spawns(10));
    nursery_with(limited, |n| {
        n.spawn(|| jobs.submit(Job::new("tenant's").run(|_| charge(1))).map(|_| ()).unwrap()).join()
    })
    .unwrap();
    jobs.submit(Job::new("host's").run(|_| nursery(|n| n.spawn(|| charge(1 << 40)).join()).unwrap())).unwrap();
    let failed = jobs.wait().unwrap_err().to_string();
    assert!(failed.contains("tenant's") && !failed.contains("host's"), "{failed}");
}

#[test]
fn a_thread_can_be_confined_and_is_free_again() {
    assert!(Confinement::here().is_none());
    let cap = Ledger::new().grant(CapSpawn::new().max_tasks(1));
    let confinement = nursery_with(NurseryOptions::new().capability(&cap), |n| {
        n.spawn(|| Confinement::here().expect("it has a capability")).join()
    })
    .unwrap();
    let two = || nursery(|n| n.try_spawn(|| nursery(|m| m.spawn(|| ()).join())).join());
    assert!(confinement.enter(two).unwrap_err().to_string().contains("TaskLimitExceeded"));
    two().unwrap();
}
