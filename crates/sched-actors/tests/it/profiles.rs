//! Supervisors run with the budgets that profiles document, and actors nowhere else.

use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use sched_actors::{Child, Restart, Strategy, Supervisor, from_fn, spawn};
use sched_tasks::{
    Budget, CapChannel, CapExecutor, CapSpawn, Ledger, NurseryOptions, Profile, Runtime, Sovereign, TaskError, nursery,
    nursery_with, oneshot,
};

struct Ask(u64, oneshot::Sender<u64>);

/// A pool of workers under a supervisor, which are asked in turn.
fn supervised_pool(budget: Option<(Budget, Budget)>, workers: u64, questions: u64) -> Result<u64, TaskError> {
    nursery(|n| {
        let mut sup = Supervisor::new(Strategy::OneForOne).max_restarts(3, Duration::from_secs(60));
        if let Some((all, each)) = budget {
            sup = sup.budget(all).child_budget(each);
        }
        for worker in 0..workers {
            sup = sup.child(Child::actor(format!("worker-{worker}"), || {
                from_fn(|Ask(number, reply), _| {
                    assert!(number != 13, "it does not like this one");
                    let _ = reply.send(number * 2);
                    Ok(())
                })
            }));
        }
        let sup = sup.start(n)?;
        let mut sum = 0;
        for question in 0..questions {
            let worker = sup.address(&format!("worker-{}", question % workers))?;
            sum += worker.ask(|reply| Ask(question, reply)).unwrap_or(0);
        }
        sup.stop()?;
        Ok(sum)
    })
}

#[test]
fn a_supervised_pool_runs_in_cluster() {
    let documented = Budget::ops(100_000).memory(10 << 20).spawns(100).channel_ops(2_000).syscalls(10);
    let child = Profile::Cluster.child();
    for budget in [None, Some((documented, child))] {
        for (workers, as_task) in [(1, true), (2, true), (2, false)] {
            let runtime = Runtime::builder().workers(workers).profile(Profile::Cluster).build().unwrap();
            let sum = match as_task {
                true => runtime.run(|| supervised_pool(budget, 4, 200)).unwrap(),
                false => runtime.nursery(|_| supervised_pool(budget, 4, 200)),
            };
            let sum = sum.unwrap_or_else(|error| panic!("{budget:?} on {workers} workers: {error}"));
            assert_eq!(sum, (0..200).sum::<u64>() * 2 - 26);
        }
    }
}

#[test]
fn a_supervisor_may_have_many_children_in_cluster() {
    let runtime = Runtime::builder().workers(2).profile(Profile::Cluster).build().unwrap();
    let sum = runtime.run(|| supervised_pool(None, 100, 200)).unwrap();
    assert_eq!(sum.unwrap(), (0..200).sum::<u64>() * 2 - 26);
}

#[test]
fn the_loop_of_a_supervisor_costs_its_children_nothing() {
    // A supervisor that may spend a hundred channel operations, and hears of a thousand ends.
    let ends = AtomicU64::new(0);
    let options = NurseryOptions::new().budget(Budget::ops(1_000_000).spawns(10_000).channel_ops(100));
    nursery_with(options, |n| {
        let restless = Child::task("restless", || match ends.fetch_add(1, SeqCst) {
            999 => Ok(()),
            _ => Err(TaskError::msg("again")),
        });
        Supervisor::new(Strategy::OneForOne)
            .max_restarts(2_000, Duration::from_secs(600))
            .child(restless.restart(Restart::Transient))
            .start(n)?;
        Ok(())
    })
    .unwrap();
    assert_eq!(ends.into_inner(), 1_000);
}

#[test]
fn there_are_no_actors_where_there_are_no_supervisors() {
    let all = Budget::ops(100_000).memory(10 << 20).spawns(100).channel_ops(1_000).syscalls(100);
    let each = Budget::ops(10_000).memory(1 << 20).channel_ops(100).syscalls(10);
    for profile in [Profile::Service, Profile::Cluster, Profile::Sovereign(Sovereign::new(all, each))] {
        let ledger = Ledger::new();
        // What has to be given by name in the last of them.
        let executor = ledger.grant(CapExecutor::new());
        let (tasks, channels) = (ledger.grant(CapSpawn::new()), ledger.grant(CapChannel::new()));
        let runtime = Runtime::builder().workers(1).profile(profile).ledger(&ledger).executor(&executor);
        let options = NurseryOptions::new().capability(&tasks).capability(&channels);
        let outcome = runtime.build().unwrap().nursery_with(options, |n| {
            let echo = spawn(n, "echo", from_fn(|_: u32, _| Ok(())));
            Ok(echo.send(1).is_ok())
        });
        if profile == Profile::Cluster {
            assert!(outcome.unwrap());
        } else {
            let text = outcome.unwrap_err().to_string();
            assert!(text.contains("Profile::Cluster") && text.contains(profile.name()), "{text}");
        }
    }
}

#[test]
fn no_door_leads_to_actors_where_there_are_none() {
    let runtime = Runtime::builder().workers(1).profile(Profile::Service).build().unwrap();
    let refused = runtime
        .run(|| {
            let started = || nursery(|n| Supervisor::new(Strategy::OneForOne).start(n)?.stop());
            sched_tasks::run(started).map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        })
        .unwrap();
    assert!(refused.unwrap_err().contains(":service"));
}
