//! Every profile can be used with the budget it documents.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sched_tasks::{
    Budget, Cap, CapChannel, CapExecutor, CapSpawn, Ledger, NurseryOptions, Profile, Runtime, Sovereign, TaskError,
    channel, charge, nursery, nursery_with,
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
struct Site {
    runtime: Runtime,
    spawn: Cap<CapSpawn>,
    channels: Cap<CapChannel>,
    _executor: Cap<CapExecutor>,
}

impl Site {
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
            let place = Site::new(profile, workers);
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
