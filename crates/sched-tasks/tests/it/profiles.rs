//! Every profile can be used with the budget it documents.

use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use sched_tasks::{
    Budget, Cap, CapChannel, CapExecutor, CapSpawn, Ledger, NurseryOptions, Profile, Runtime, Sovereign, TaskError,
    actor::{self, Child, Strategy, Supervisor},
    channel, charge, nursery, nursery_with, oneshot,
};

const PROFILES: [Profile; 3] = [
    Profile::Service,
    Profile::Cluster,
    Profile::Sovereign(Sovereign::new(
        Budget::ops(100_000).memory(10 << 20).spawns(100).channel_ops(1_000).syscalls(100),
        Budget::ops(10_000).memory(1 << 20).channel_ops(100).syscalls(10),
    )),
];

/// A runtime with a profile, and what has to be given by name there.
struct Place {
    runtime: Runtime,
    spawn: Cap<CapSpawn>,
    channels: Cap<CapChannel>,
    _executor: Cap<CapExecutor>,
}

impl Place {
    fn new(profile: Profile, workers: usize) -> Self {
        let ledger = Ledger::new();
        let executor = ledger.grant(CapExecutor::new());
        let runtime = Runtime::builder().workers(workers).profile(profile).ledger(&ledger).executor(&executor);
        Self {
            runtime: runtime.build().unwrap(),
            spawn: ledger.grant(CapSpawn::new()),
            channels: ledger.grant(CapChannel::new()),
            _executor: executor,
        }
    }

    fn options(&self) -> NurseryOptions {
        NurseryOptions::new().capability(&self.spawn).capability(&self.channels)
    }
}

/// So many children that all wait at the same time, and then send.
fn children_that_wait(options: NurseryOptions, children: usize) -> Result<usize, TaskError> {
    nursery_with(options, |n| {
        let (go, wait) = channel::<()>(0);
        let waiting = AtomicU64::new(0);
        let waiting = &waiting;
        let (tell, told) = channel(children);
        nursery(|n| {
            for _ in 0..children {
                let (wait, tell) = (wait.clone(), tell.clone());
                n.try_spawn(move || {
                    waiting.fetch_add(1, SeqCst);
                    let _ = wait.recv();
                    Ok(tell.send(())?)
                });
            }
            crate::support::until(|| waiting.load(SeqCst) == children as u64);
            drop(go);
            Ok(())
        })?;
        let _ = n;
        Ok(told.len())
    })
}

#[test]
fn a_hundred_children_wait_at_the_same_time_in_each_profile() {
    for profile in PROFILES {
        for workers in [1, 2, 4] {
            let place = Place::new(profile, workers);
            let told = place.runtime.run_with(place.options(), || children_that_wait(NurseryOptions::new(), 90));
            assert!(told.is_ok(), "{profile} on {workers} workers, as a task: {told:?}");
            let shared = place.runtime.nursery_with(place.options(), |n| {
                let waiting = AtomicU64::new(0);
                let waiting = &waiting;
                nursery(|m| {
                    let (go, wait) = channel::<()>(0);
                    for _ in 0..100 {
                        let wait = wait.clone();
                        m.spawn(move || {
                            waiting.fetch_add(1, SeqCst);
                            let _ = wait.recv();
                        });
                    }
                    crate::support::until(|| waiting.load(SeqCst) == 100);
                    drop(go);
                    Ok(())
                })?;
                let _ = n;
                Ok(waiting.load(SeqCst))
            });
            assert_eq!(shared.unwrap_or_else(|error| panic!("{profile} on {workers} workers: {error}")), 100);
        }
    }
}

#[test]
fn a_root_task_has_a_hundred_children_that_wait_in_service_and_cluster() {
    for profile in [Profile::Service, Profile::Cluster] {
        let runtime = Runtime::builder().workers(2).profile(profile).build().unwrap();
        let told = runtime.run(|| children_that_wait(NurseryOptions::new(), 100)).unwrap();
        assert_eq!(told.unwrap_or_else(|error| panic!("{profile}: {error}")), 100);
    }
}

#[test]
fn a_child_may_spend_what_the_profile_documents() {
    for profile in [Profile::Service, Profile::Cluster] {
        let runtime = Runtime::builder().workers(2).profile(profile).build().unwrap();
        let child = profile.child();
        runtime
            .run(|| {
                nursery(|n| {
                    let (tx, rx) = channel(1);
                    n.try_spawn(move || {
                        charge(child.ops - child.channel_ops - child.syscalls);
                        for _ in 0..child.channel_ops / 2 {
                            tx.send(())?;
                            rx.recv()?;
                        }
                        for _ in 0..child.syscalls {
                            sched_tasks::unblock(|| ());
                        }
                        Ok(())
                    })
                    .join()
                })
            })
            .unwrap()
            .unwrap_or_else(|error| panic!("{profile}: {error}"));
    }
}

#[test]
fn the_whole_pool_can_be_spent_in_service_and_cluster() {
    for profile in [Profile::Service, Profile::Cluster] {
        let runtime = Runtime::builder().workers(2).profile(profile).build().unwrap();
        let spent = AtomicU64::new(0);
        let _ = runtime.run(|| {
            nursery(|n| {
                n.spawn(|| {
                    loop {
                        charge(1);
                        spent.fetch_add(1, SeqCst);
                    }
                });
                Ok(())
            })
        });
        let (spent, pool) = (spent.into_inner(), profile.pool().ops);
        assert!(spent <= pool && spent > pool - pool / 50, "{profile}: {spent} of {pool}");
    }
}

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
                actor::from_fn(|Ask(number, reply), _| {
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
            .child(restless.restart(actor::Restart::Transient))
            .start(n)?;
        Ok(())
    })
    .unwrap();
    assert_eq!(ends.into_inner(), 1_000);
}

#[test]
fn there_are_no_actors_where_there_are_no_supervisors() {
    for profile in PROFILES {
        let place = Place::new(profile, 1);
        let outcome = place.runtime.nursery_with(place.options(), |n| {
            let echo = actor::spawn(n, "echo", actor::from_fn(|_: u32, _| Ok(())));
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
