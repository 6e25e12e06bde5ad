//! Supervisors recharge their children from their own pool.

use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use sched_actors::{self as actor, Child, Restart, Strategy, Supervisor, SupervisorError};
use sched_tasks::{
    Answer, Budget, Component, NurseryOptions, Profile, Reason, Runtime, charge, now, nursery, nursery_with, sleep,
};

#[test]
fn a_child_that_has_spent_its_budget_is_recharged_from_the_supervisors_pool() {
    let (spent, starts) = (AtomicU64::new(0), AtomicU64::new(0));
    nursery(|n| {
        let worker = || {
            starts.fetch_add(1, SeqCst);
            for _ in 0..900 {
                charge(1);
                spent.fetch_add(1, SeqCst);
            }
            Ok(())
        };
        Supervisor::new(Strategy::OneForOne)
            .budget(Budget::ops(2_000).spawns(10))
            .child_budget(Budget::ops(100))
            .child(Child::task("worker", worker).restart(Restart::Transient))
            .start(n)?; // no handle is kept: it ends with its last child
        Ok(())
    })
    .unwrap();
    assert_eq!((spent.load(SeqCst), starts.load(SeqCst)), (900, 1));
}

#[test]
fn when_the_supervisors_pool_is_dry_the_child_fails_and_the_usual_rules_apply() {
    let spent = AtomicU64::new(0);
    let error = nursery(|n| {
        let hog = || {
            loop {
                charge(1);
                spent.fetch_add(1, SeqCst);
            }
        };
        Supervisor::new(Strategy::OneForOne)
            .max_restarts(2, Duration::from_secs(60))
            .budget(Budget::ops(1_000).spawns(20))
            .child_budget(Budget::ops(100))
            .child(Child::task("hog", hog).restart(Restart::Permanent))
            .start(n)?; // no handle is kept: it ends with its last child
        Ok(())
    })
    .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("hog") && text.contains("OpsBudgetExhausted"), "{text}");
    assert!(spent.load(SeqCst) <= 1_000);
}

#[test]
fn a_supervisor_may_answer_otherwise() {
    let error = nursery(|n| {
        Supervisor::new(Strategy::OneForOne)
            .budget(Budget::ops(1_000_000).spawns(20))
            .child_budget(Budget::ops(100))
            .on_exhausted(|exhausted| {
                assert_eq!((exhausted.component, exhausted.task.name.as_deref()), (Component::Ops, Some("hog")));
                Answer::Cancel
            })
            .max_restarts(0, Duration::from_secs(60))
            .child(Child::task("hog", || {
                loop {
                    charge(1)
                }
            }))
            .start(n)?; // no handle is kept: it ends with its last child
        Ok(())
    })
    .unwrap_err();
    assert!(error.to_string().contains("100 granted"), "{error}");
}

#[test]
fn an_actor_that_spends_too_much_on_a_message_fails_over_that_message() {
    struct Work(u64, sched_tasks::oneshot::Sender<u64>);
    nursery(|n| {
        let sup = Supervisor::new(Strategy::OneForOne)
            .budget(Budget::ops(100_000).spawns(20).channel_ops(10_000))
            .child_budget(Budget::ops(1_000).channel_ops(1_000))
            .on_exhausted(|_| Answer::Cancel)
            .child(Child::actor("worker", || {
                actor::from_fn(|Work(ops, reply), _| {
                    charge(ops);
                    let _ = reply.send(ops);
                    Ok(())
                })
            }))
            .start(n)?;
        let worker = sup.address("worker")?;
        assert_eq!(worker.ask(|reply| Work(500, reply))?, 500);
        assert!(worker.ask(|reply| Work(5_000, reply)).is_err());
        assert_eq!(worker.ask(|reply| Work(700, reply))?, 700, "a new one has a new budget");
        sup.stop()
    })
    .unwrap();
}

#[test]
fn what_a_supervisor_gives_comes_out_of_what_it_has_itself() {
    let spent = AtomicU64::new(0);
    let own = Budget::ops(5_000).spawns(50).channel_ops(1_000);
    let options = NurseryOptions::new().task_budget(own);
    let outcome = nursery_with(options, |n| {
        let hog = || {
            loop {
                charge(1);
                spent.fetch_add(1, SeqCst);
            }
        };
        Supervisor::new(Strategy::OneForOne)
            .max_restarts(0, Duration::from_secs(60))
            .budget(Budget::UNLIMITED)
            .child_budget(Budget::ops(100))
            .child(Child::task("hog", hog))
            .start(n)?; // no handle is kept: it ends with its last child
        Ok(())
    });
    assert!(outcome.is_err());
    let spent = spent.load(SeqCst);
    assert!((100..=5_000).contains(&spent), "{spent}");
}

#[test]
fn a_supervisor_that_may_start_nothing_says_so() {
    let error = nursery_with(NurseryOptions::new().budget(Budget::ops(5_000).spawns(1).channel_ops(1_000)), |n| {
        let worker = Child::task("worker", || Ok(()));
        Supervisor::new(Strategy::OneForOne).budget(Budget::UNLIMITED).child(worker).start(n)?;
        Ok(())
    })
    .unwrap_err();
    assert!(error.to_string().contains("SpawnBudgetExhausted"), "{error}");
}

#[test]
fn only_cluster_has_supervisors() {
    for (profile, allowed) in [(Profile::Service, false), (Profile::Cluster, true)] {
        let runtime = Runtime::builder().workers(1).profile(profile).build().unwrap();
        let started = runtime.run(|| {
            nursery(|n| match Supervisor::new(Strategy::OneForOne).start(n) {
                Ok(sup) => sup.stop().map(|()| Ok(())),
                Err(refused) => Ok(Err(refused)),
            })
        });
        let started = started.unwrap().unwrap();
        assert_eq!(started.is_ok(), allowed, "{profile}");
        if let Err(refused) = started {
            assert_eq!(refused, SupervisorError::NoActors { profile });
            assert!(refused.to_string().contains("Profile::Cluster"));
        }
    }
}

#[test]
fn a_budget_supervisor_answers_in_its_own_time() {
    let options = NurseryOptions::new().budget(Budget::ops(1_000).spawns(1)).task_budget(Budget::ops(10));
    let error = nursery_with(options, |n| {
        let supervisor = n.budget_supervisor();
        let task = n.spawn(|| charge(2_000));
        let asks = supervisor.next();
        let given = supervisor.answer(asks.task.id, Answer::Recharge(Budget::ZERO.memory(1)));
        assert_eq!(given, Some(Budget::ZERO), "the pool has none of that, and it would not help");
        assert!(task.is_exhausted(), "so it still waits");
        supervisor.let_go(asks.task.id);
        task.join()
    })
    .unwrap_err();
    assert!(matches!(error.reason(), Reason::BudgetExhausted { granted: 10, .. }), "{error}");
}

#[test]
fn a_child_for_whose_watcher_there_is_no_spawn_left_does_not_stay_behind() {
    for spawns in 1..6 {
        let runtime = Runtime::builder().workers(2).seeded(spawns).build().unwrap();
        let outcome = runtime.run(|| {
            let begun = now();
            let outcome = nursery(|n| {
                Supervisor::new(Strategy::OneForOne)
                    .budget(Budget::ops(10_000).spawns(spawns))
                    .child_budget(Budget::ops(1_000))
                    .max_restarts(3, Duration::from_secs(60))
                    .child(Child::task("sleeper", || {
                        sleep(Duration::from_secs(3600 * 24));
                        Ok(())
                    }))
                    .child(Child::task("brief", || Err(sched_tasks::TaskError::msg("over"))))
                    .start(n)?;
                Ok(())
            });
            (outcome, now() - begun)
        });
        let (outcome, took) = outcome.expect("no deadlock");
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("SpawnBudgetExhausted"), "{spawns} spawns: {error}");
        assert!(took < Duration::from_secs(3600), "{spawns} spawns: a task slept for {took:?}");
    }
}
