//! Authority travels: whatever a task calls, its budget, its capabilities and its profile hold inside.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use sched_tasks::{
    Budget, BuildError, CapBudget, CapChannel, CapError, CapExecutor, CapSpawn, Explore, Ledger, NurseryOptions,
    OnFailure, Profile, Reason, Runtime, Sovereign, TaskError, block_on, charge, checkpoint, current_task, nursery,
    nursery_with, recharge, run, try_channel, unblock, unblock_async,
};

/// Ways to call something from inside a task.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Door {
    Unblock,
    UnblockTwice,
    Run,
    OtherRuntime,
    OtherNursery,
    Seeded,
    SeededNursery,
    Explore,
    BlockOn,
}

const DOORS: [Door; 9] = [
    Door::Unblock,
    Door::UnblockTwice,
    Door::Run,
    Door::OtherRuntime,
    Door::OtherNursery,
    Door::Seeded,
    Door::SeededNursery,
    Door::Explore,
    Door::BlockOn,
];

impl Door {
    /// Calls `body` behind the door; `host` and `seeded` were made outside.
    fn enter(self, others: &Others, body: &(dyn Fn() -> Result<(), TaskError> + Sync)) -> Result<(), TaskError> {
        let flat = |outcome: Result<Result<(), TaskError>, sched_tasks::RunError>| match outcome {
            Ok(inner) => inner,
            Err(sched_tasks::RunError::Task(error)) => Err(error),
            Err(other) => panic!("{other}"),
        };
        match self {
            Door::Unblock => unblock(body),
            Door::UnblockTwice => unblock(|| unblock(body)),
            Door::Run => flat(run(body)),
            Door::OtherRuntime => flat(others.threads.run(body)),
            Door::OtherNursery => others.threads.nursery(|n| n.spawn(body).join()?),
            Door::Seeded => flat(others.seeded.run(body)),
            Door::SeededNursery => others.seeded.nursery(|n| n.spawn(body).join()?),
            Door::Explore => {
                let first = std::sync::Mutex::new(None);
                let found = Explore::new().shrink(false).find(0..1, || {
                    let outcome = body();
                    *first.lock().unwrap() = outcome.clone().err();
                    outcome
                });
                match (first.into_inner().unwrap(), found) {
                    (Some(error), _) => Err(error),
                    (None, Ok(_)) => Ok(()),
                    (None, Err(finding)) => Err(TaskError::msg(finding.message)),
                }
            }
            Door::BlockOn => block_on(async { body() }),
        }
    }
}

/// Runtimes that were there before.
struct Others {
    threads: Runtime,
    seeded: Runtime,
}

impl Others {
    fn new() -> Self {
        Self {
            threads: Runtime::builder().workers(1).build().unwrap(),
            seeded: Runtime::builder().workers(2).seeded(7).build().unwrap(),
        }
    }
}

fn refusal(error: &TaskError) -> CapError {
    match error.reason() {
        Reason::NotAllowed(refusal) => *refusal,
        _ => panic!("not a refusal: {error}"),
    }
}

/// 1,000 times 100 operations, as far as they go, in tasks of a nursery.
fn spend_in_a_nursery(spent: &AtomicU64) -> Result<(), TaskError> {
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
fn no_door_sheds_the_budget() {
    let others = Others::new();
    for door in DOORS {
        let spent = AtomicU64::new(0);
        let options = NurseryOptions::new().task_budget(Budget::ops(5_000).spawns(50).syscalls(10));
        let outcome =
            nursery_with(options, |n| n.try_spawn(|| door.enter(&others, &|| spend_in_a_nursery(&spent))).join());
        let text = outcome.as_ref().map_err(TaskError::to_string);
        assert!(spent.load(SeqCst) <= 5_000, "{door:?} let {spent:?} operations through: {text:?}");
        assert!(text.unwrap_err().contains("OpsBudgetExhausted"), "{door:?}");
    }
}

#[test]
fn what_is_spent_behind_a_door_is_on_the_callers_account() {
    let others = Others::new();
    for door in DOORS {
        let options = NurseryOptions::new().budget(Budget::ops(50_000).spawns(50).syscalls(20));
        let options = options.task_budget(Budget::ops(20_000).spawns(20).syscalls(10));
        let spent = nursery_with(options, |n| {
            n.try_spawn(|| {
                door.enter(&others, &|| {
                    charge(1_234);
                    Ok(())
                })
            })
            .join()?;
            sched_tasks::yield_now();
            let pool = loop {
                let pool = n.pool().unwrap();
                if pool.out().ops == 0 {
                    break pool;
                }
                std::thread::yield_now();
            };
            Ok(pool.spent().ops)
        })
        .unwrap_or_else(|error| panic!("{door:?}: {error}"));
        assert!((1_234..1_400).contains(&spent), "{door:?}: {spent} were charged");
    }
}

#[test]
fn no_door_sheds_the_right_to_spawn() {
    let others = Others::new();
    for door in DOORS {
        let cap = Ledger::new().grant(CapSpawn::new().max_tasks(4));
        let outcome = nursery_with(NurseryOptions::new().capability(&cap), |n| {
            n.try_spawn(|| {
                door.enter(&others, &|| {
                    nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |m| {
                        let (stop, wait) = sched_tasks::channel::<()>(1);
                        let held: Vec<_> =
                            (0..50).map(|_| wait.clone()).map(|wait| m.spawn(move || wait.recv())).collect();
                        drop(stop);
                        held.into_iter().try_for_each(|task| task.join().map(drop))
                    })
                })
            })
            .join()
        });
        assert_eq!(refusal(&outcome.unwrap_err()), CapError::TaskLimitExceeded { limit: 4, in_use: 4 }, "{door:?}");
        assert_eq!(cap.tasks_in_use(), 0, "{door:?}");
    }
}

#[test]
fn no_door_leads_out_of_a_profile_that_wants_everything_by_name() {
    let others = Others::new();
    let ledger = Ledger::new();
    let executor = ledger.grant(CapExecutor::new());
    let one = ledger.grant(CapSpawn::new().max_tasks(1));
    let profile = Profile::Sovereign(Sovereign::new(Budget::UNLIMITED, Budget::UNLIMITED));
    let runtime = Runtime::builder().workers(1).profile(profile).ledger(&ledger).executor(&executor).build().unwrap();
    for door in DOORS {
        let spawned = nursery_for(&runtime, &one, || door.enter(&others, &|| nursery(|n| n.spawn(|| ()).join())));
        let text = spawned.unwrap_err().to_string();
        assert!(text.contains("TaskLimitExceeded") && text.contains("1 of 1 allowed tasks"), "{door:?}: {text}");
        if matches!(door, Door::Run | Door::OtherRuntime | Door::OtherNursery | Door::Seeded) {
            continue; // they begin with a spawn
        }
        let opened = nursery_for(&runtime, &one, || door.enter(&others, &|| try_channel::<()>(1).map(drop)));
        if !matches!(door, Door::SeededNursery | Door::Explore) {
            assert_eq!(refusal(&opened.unwrap_err()), CapError::NoChannelCapability, "{door:?}");
        }
    }
    assert!(ledger.audit_totals().refusals() > 0);
}

fn nursery_for<T: Send>(
    runtime: &Runtime,
    cap: &sched_tasks::Cap<CapSpawn>,
    body: impl FnOnce() -> Result<T, TaskError> + Send,
) -> Result<T, TaskError> {
    runtime.nursery_with(NurseryOptions::new().capability(cap), |n| n.try_spawn(body).join())
}

#[test]
fn a_scope_that_wants_everything_by_name_wants_it_for_runtimes_too() {
    let ledger = Ledger::new();
    let executor = ledger.grant(CapExecutor::new());
    let spawn = ledger.grant(CapSpawn::new());
    let profile = Profile::Sovereign(Sovereign::new(Budget::UNLIMITED, Budget::UNLIMITED));
    let runtime = Runtime::builder().workers(1).profile(profile).ledger(&ledger).executor(&executor).build().unwrap();
    let own = Ledger::new().grant(CapExecutor::new());
    nursery_for(&runtime, &spawn, || {
        let refused = Runtime::builder().workers(1).build().map(drop);
        assert!(matches!(refused, Err(BuildError::NotAllowed(CapError::NoExecutorCapability))), "{refused:?}");
        let refused = Runtime::builder().workers(1).executor(&own).build().map(drop);
        assert!(matches!(refused, Err(BuildError::NotAllowed(CapError::Foreign))), "{refused:?}");
        Runtime::builder().workers(1).executor(&executor).build().map(drop)?;
        Runtime::builder().workers(1).seeded(1).build().map(drop)?; // has no threads
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_task_is_itself_behind_unblock() {
    let same = run(|| {
        let id = |task: Option<sched_tasks::TaskLabel>| task.map(|task| task.id);
        (id(current_task()), unblock(|| id(current_task())), id(current_task()))
    })
    .unwrap();
    assert!(same.0.is_some() && same.0 == same.1 && same.1 == same.2, "{same:?}");
}

#[test]
fn a_panic_behind_a_door_gives_the_budget_back() {
    let options = NurseryOptions::new().task_budget(Budget::ops(1_000).syscalls(5).spawns(5));
    let left = nursery_with(options, |n| {
        n.spawn(|| {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                unblock(|| {
                    charge(100);
                    std::panic::resume_unwind(Box::new("broken"))
                })
            }));
            assert!(caught.is_err());
            sched_tasks::budget_left()
        })
        .join()
    })
    .unwrap();
    assert_eq!((left.ops, left.syscalls), (1_000 - 101, 4));
}

#[test]
fn a_closure_that_is_not_waited_for_has_nothing_to_spend() {
    let spent = std::sync::Arc::new(AtomicU64::new(0));
    let there = spent.clone();
    let options = NurseryOptions::new().task_budget(Budget::ops(1_000).syscalls(5).spawns(5));
    let error = nursery_with(options, |n| {
        n.spawn_async(async move { unblock_async(move || spend_in_a_nursery(&there)).await }).join()?
    })
    .unwrap_err();
    assert!(error.to_string().contains("BudgetExhausted"), "{error}");
    assert_eq!(spent.load(SeqCst), 0);
}

#[test]
fn a_closure_that_is_not_waited_for_has_the_callers_capabilities() {
    let cap = Ledger::new().grant(CapSpawn::new().max_tasks(1));
    let error = nursery_with(NurseryOptions::new().capability(&cap), |n| {
        n.spawn_async(async move { unblock_async(|| nursery(|m| m.spawn(|| ()).join())).await }).join()?
    })
    .unwrap_err();
    assert_eq!(refusal(&error), CapError::TaskLimitExceeded { limit: 1, in_use: 1 });
}

#[test]
fn a_task_cannot_grant_itself_more_operations() {
    let host = Ledger::new();
    let cap = host.grant(CapSpawn::new().task_budget(Budget::ops(1_000).spawns(10)));
    let spent = AtomicU64::new(0);
    let outcome = nursery_with(NurseryOptions::new().capability(&cap), |n| {
        n.try_spawn(|| {
            let own = Ledger::new().grant(CapBudget::new().limit(Budget::ops(100_000)));
            nursery_with(NurseryOptions::new().capability(&own), |m| {
                let refused = recharge(Budget::ops(10_000)).unwrap_err();
                assert_eq!(refusal(&refused), CapError::Foreign);
                m.spawn(|| {
                    loop {
                        charge(1);
                        spent.fetch_add(1, SeqCst);
                    }
                })
                .join()
            })
        })
        .join()
    });
    let outcome: Result<(), _> = outcome;
    assert!(outcome.unwrap_err().to_string().contains("OpsBudgetExhausted"));
    assert!(spent.load(SeqCst) <= 1_000, "{spent:?}");
    assert!(host.audit_totals().refused(sched_tasks::CapErrorKind::Foreign) > 0, "the host's log knows of it");
}

#[test]
fn a_task_cannot_grant_itself_more_tasks() {
    let cap = Ledger::new().grant(CapSpawn::new().max_tasks(3));
    let outcome = nursery_with(NurseryOptions::new().capability(&cap), |n| {
        n.try_spawn(|| {
            let own = Ledger::new().grant(CapSpawn::new().max_tasks(50));
            nursery_with(NurseryOptions::new().capability(&own).on_failure(OnFailure::WaitAll), |m| {
                let (stop, wait) = sched_tasks::channel::<()>(1);
                let held: Vec<_> = (0..50).map(|_| wait.clone()).map(|wait| m.spawn(move || wait.recv())).collect();
                assert_eq!((cap.tasks_in_use(), own.tasks_in_use()), (3, 2), "both count");
                drop(stop);
                held.into_iter().try_for_each(|task| task.join().map(drop))
            })
        })
        .join()
    });
    assert_eq!(refusal(&outcome.unwrap_err()), CapError::TaskLimitExceeded { limit: 3, in_use: 3 });
    assert_eq!(cap.tasks_in_use(), 0);
}

#[test]
fn a_task_cannot_grant_its_children_a_larger_budget() {
    let cap = Ledger::new().grant(CapSpawn::new().task_budget(Budget::ops(500).spawns(9)));
    let got = nursery_with(NurseryOptions::new().capability(&cap), |n| {
        n.try_spawn(|| {
            let own = Ledger::new().grant(CapSpawn::new());
            let options = NurseryOptions::new().capability(&own).task_budget(Budget::ops(400).spawns(1));
            nursery_with(options, |m| m.spawn(sched_tasks::budget_left).join())
        })
        .join()
    })
    .unwrap();
    assert!(got.ops <= 400, "{got:?}");
}

#[test]
fn a_task_cannot_grant_itself_more_channels() {
    let cap = Ledger::new().grant(CapChannel::new().max_channels(2).max_buffer(8));
    nursery_with(NurseryOptions::new().capability(&cap), |n| {
        n.try_spawn(|| {
            let own = Ledger::new().grant(CapChannel::new());
            nursery_with(NurseryOptions::new().capability(&own), |_| {
                let _two = (try_channel::<()>(1)?, try_channel::<()>(1)?);
                let third = try_channel::<()>(1).unwrap_err();
                assert!(matches!(refusal(&third), CapError::ChannelLimitExceeded { limit: 2, .. }), "{third}");
                drop(_two);
                let large = try_channel::<()>(9).unwrap_err();
                assert!(matches!(refusal(&large), CapError::ChannelLimitExceeded { limit: 8, .. }), "{large}");
                Ok(())
            })
        })
        .join()
    })
    .unwrap();
}

#[test]
fn what_the_scope_itself_derived_still_narrows_and_recharges() {
    let host = Ledger::new();
    let spawn = host.grant(CapSpawn::new().max_tasks(10).task_budget(Budget::ops(1_000).spawns(10)));
    let reserve = host.grant(CapBudget::new().limit(Budget::ops(700)));
    let options = NurseryOptions::new().capability(&spawn).capability(&reserve);
    nursery_with(options, |n| {
        n.try_spawn(|| {
            let fewer = spawn.attenuate(CapSpawn::new().max_tasks(2))?;
            let less = reserve.attenuate(CapBudget::new().limit(Budget::ops(300)))?;
            nursery_with(NurseryOptions::new().capability(&fewer).capability(&less), |m| {
                m.try_spawn(|| {
                    assert_eq!(recharge(Budget::ops(1_000))?, Budget::ops(300));
                    checkpoint();
                    Ok(())
                })
                .join()
            })
        })
        .join()
    })
    .unwrap();
    assert_eq!(reserve.left().ops, 400);
}
