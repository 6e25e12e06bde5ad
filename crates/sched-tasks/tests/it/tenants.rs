//! A tenant: whatever runs under a capability with a weight has one share of CPU time, however many nurseries it opens and wherever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use sched_tasks::{
    Cap, CapSpawn, Confinement, Context, Delegation, Grant, Ledger, NurseryOptions, OwnedNursery, Reason, Runtime,
    Share, TaskError, channel, nursery, nursery_with, yield_now,
};

fn tenant(root: &Cap<CapSpawn>, name: &str, weight: u32) -> Cap<CapSpawn> {
    let grant = Grant::new(CapSpawn::new().weight(weight)).label(name).delegation(Delegation::Allowed);
    root.attenuate(grant).unwrap()
}

fn under(cap: &Cap<CapSpawn>) -> NurseryOptions {
    NurseryOptions::new().capability(cap)
}

/// Nurseries with these options, each with one task that takes turns until all of them together had so many; how many the tasks of each had.
fn turns<const N: usize>(runtime: &Runtime, options: [NurseryOptions; N], total: u64) -> [u64; N] {
    let turns: [AtomicU64; N] = std::array::from_fn(|_| AtomicU64::new(0));
    let (of, all) = (&turns, &AtomicU64::new(0));
    let run = || {
        nursery(|n| {
            for (place, options) in options.into_iter().enumerate() {
                n.try_spawn(move || {
                    nursery_with(options, |n| {
                        n.spawn(move || {
                            while all.fetch_add(1, Relaxed) < total {
                                of[place].fetch_add(1, Relaxed);
                                yield_now();
                            }
                        })
                        .join()
                    })
                });
            }
            Ok(())
        })
    };
    runtime.run(run).unwrap().unwrap();
    turns.map(AtomicU64::into_inner)
}

#[track_caller]
fn assert_shares<const N: usize>(turns: [u64; N], shares: [f64; N]) {
    let total: u64 = turns.iter().sum();
    for (turns, share) in turns.iter().zip(shares) {
        let part = *turns as f64 / total as f64;
        assert!((part - share).abs() < 0.03, "{part:.3} instead of {share:.3}, of {total}");
    }
}

fn seeded(seed: u64) -> Runtime {
    Runtime::builder().workers(1).seeded(seed).build().unwrap()
}

/// What each group is called, and how deep it is.
fn names(shares: &[Share]) -> Vec<(&str, u32)> {
    let mut names: Vec<_> = shares.iter().filter_map(|share| Some((share.name.as_deref()?, share.depth))).collect();
    names.sort_unstable();
    names
}

#[test]
fn two_nurseries_of_one_tenant_have_as_much_as_one_of_another() {
    let root = Ledger::new().grant(CapSpawn::new());
    let [a, b] = [tenant(&root, "a", 1), tenant(&root, "b", 1)];
    for seed in 0..3 {
        let turns = turns(&seeded(seed), [under(&a), under(&a), under(&b)], 60_000);
        assert_shares(turns, [0.25, 0.25, 0.5]);
    }
}

#[test]
fn tenants_share_by_their_weights_whatever_the_number_of_their_nurseries() {
    let root = Ledger::new().grant(CapSpawn::new());
    let [small, large] = [tenant(&root, "small", 1), tenant(&root, "large", 3)];
    let turns = turns(&seeded(1), [under(&small), under(&small), under(&small), under(&large)], 60_000);
    assert_shares(turns, [1.0 / 12.0, 1.0 / 12.0, 1.0 / 12.0, 0.75]);
}

#[test]
fn what_is_derived_has_at_most_the_weight_it_comes_from_and_divides_its_share() {
    let root = Ledger::new().grant(CapSpawn::new());
    let [greedy, honest] = [tenant(&root, "greedy", 2), tenant(&root, "honest", 2)];
    let derived = [1, 2, 3].map(|n| greedy.attenuate(CapSpawn::new().weight(100 * n)).unwrap());
    assert!(derived.iter().all(|cap| cap.terms().get_weight() == Some(2)), "{derived:?}");
    let delegated = greedy.delegate().unwrap();
    let options = [&derived[0], &derived[1], &derived[2], &delegated, &honest].map(under);
    let turns = turns(&seeded(2), options, 80_000);
    assert_shares(turns, [0.125, 0.125, 0.125, 0.125, 0.5]);
}

#[test]
fn a_weight_of_a_nursery_is_inside_that_of_its_tenant() {
    let root = Ledger::new().grant(CapSpawn::new());
    let [a, b] = [tenant(&root, "a", 1), tenant(&root, "b", 1)];
    let turns = turns(&seeded(3), [under(&a).weight(3), under(&a), under(&b)], 60_000);
    assert_shares(turns, [0.375, 0.125, 0.5]);
}

#[test]
fn inside_a_group_a_tenant_divides_what_that_group_has() {
    let root = Ledger::new().grant(CapSpawn::new());
    let [a, b] = [tenant(&root, "a", 1000), tenant(&root, "b", 1000)];
    let [inside, outside, all] = &[const { AtomicU64::new(0) }; 3];
    let work = |turns: &AtomicU64| {
        while all.fetch_add(1, Relaxed) < 60_000 {
            turns.fetch_add(1, Relaxed);
            yield_now();
        }
    };
    let work = &work;
    let run = || {
        nursery(|n| {
            n.try_spawn(|| {
                nursery_with(NurseryOptions::new().weight(1), |n| {
                    for cap in [&a, &b] {
                        n.try_spawn(move || nursery_with(under(cap), |n| n.spawn(|| work(inside)).join()));
                    }
                    Ok(())
                })
            });
            n.try_spawn(|| nursery_with(NurseryOptions::new().weight(1), |n| n.spawn(|| work(outside)).join()));
            Ok(())
        })
    };
    seeded(4).run(run).unwrap().unwrap();
    assert_shares([inside.load(Relaxed), outside.load(Relaxed)], [0.5, 0.5]);
}

#[test]
fn a_tenant_is_one_group_by_name_as_long_as_a_nursery_of_it_is_open() {
    let runtime = &Runtime::builder().workers(2).build().unwrap();
    let root = Ledger::new().grant(CapSpawn::new());
    let team = tenant(&root, "team", 2);
    let member = team.attenuate(Grant::new(CapSpawn::new().weight(1)).label("member")).unwrap();
    let nameless = root.attenuate(CapSpawn::new().weight(1)).unwrap();
    let seen = runtime.nursery_with(under(&team), |n| {
        let shares = runtime.nursery_with(under(&team), |_| Ok(runtime.shares()))?;
        assert_eq!(names(&shares), [("team", 1)]);
        assert_eq!(shares[1].weight, 2 * 1024);
        // Inside it, by a task of it: a derived capability is a tenant inside, the same is the same.
        let run = || {
            let again = nursery_with(under(&team), |_| Ok(runtime.shares()))?;
            assert_eq!(names(&again), [("team", 1)]);
            nursery_with(under(&member), |n| {
                n.try_spawn(|| nursery_with(under(&team), |_| Ok(runtime.shares()))).join() // that it is inside of already
            })
        };
        let deeper = n.try_spawn(run).join()?;
        assert_eq!(names(&deeper), [("member", 2), ("team", 1)]);
        assert_eq!(names(&runtime.shares()), [("team", 1)], "that of the member is over");
        Ok(())
    });
    seen.unwrap();
    assert_eq!(runtime.shares(), []);
    // From outside: as deep as it was derived.
    let shares = runtime.nursery_with(under(&member), |_| Ok(runtime.shares())).unwrap();
    assert_eq!(names(&shares), [("member", 2), ("team", 1)]);
    let shares = runtime.nursery_with(under(&nameless), |_| Ok(runtime.shares())).unwrap();
    assert_eq!(names(&shares), [(format!("capability {}", nameless.id()).as_str(), 1)]);
}

#[test]
fn chains_of_derivations_may_be_longer_than_groups_are_deep() {
    let runtime = &Runtime::builder().workers(2).build().unwrap();
    let root = Ledger::new().grant(CapSpawn::new());
    let mut caps = vec![tenant(&root, "level", 5)];
    for _ in 0..50 {
        let last = caps.last().unwrap();
        let next = last.attenuate(Grant::new(CapSpawn::new()).delegation(Delegation::Allowed)).unwrap();
        caps.push(next);
    }
    let open = || {
        nursery_with(under(caps.last().unwrap()), |n| {
            n.try_spawn(|| nursery_with(under(&caps[30]).weight(7), |n| n.spawn(|| runtime.shares()).join())).join()
        })
    };
    let shares = runtime.run(open).unwrap().unwrap();
    assert_eq!(shares.iter().map(|share| share.depth).max(), Some(7));
    assert_eq!(shares.len(), 8);
}

#[test]
fn the_time_of_a_context_under_a_tenant_is_a_limit_and_no_reservation() {
    let runtime = Runtime::builder().workers(1).preempt_one_in(0).seeded(5).build().unwrap();
    let root = Ledger::new().grant(CapSpawn::new());
    let [a, b] = [tenant(&root, "a", 1), tenant(&root, "b", 1)];
    let ms = Duration::from_millis;
    let turns = turns(&runtime, [under(&a).context(Context::budget(ms(90)).period(ms(100))), under(&b)], 60_000);
    assert_shares(turns, [0.5, 0.5]);
}

#[test]
fn a_tenant_that_is_revoked_keeps_its_share_until_its_tasks_have_ended_and_gets_no_more() {
    let runtime = &Runtime::builder().workers(2).build().unwrap();
    let root = Ledger::new().grant(CapSpawn::new());
    let cap = tenant(&root, "gone", 2);
    let outcome = runtime.nursery_with(under(&cap), |n| {
        let (tell, told) = channel::<()>(1);
        let task = n.spawn(move || told.recv().is_err());
        cap.revoke();
        assert_eq!(names(&runtime.shares()), [("gone", 1)]);
        let refused = runtime.nursery_with(under(&cap), |n| n.spawn(|| ()).join()).unwrap_err();
        assert!(matches!(refused.reason(), Reason::NotAllowed(_)), "{refused}");
        drop(tell);
        assert!(task.join()?);
        Ok(())
    });
    outcome.unwrap();
    assert_eq!(runtime.shares(), []);
}

#[test]
fn each_runtime_has_a_group_for_a_tenant_and_no_task_leaves_it_by_entering_another() {
    let [one, other] = [(); 2].map(|()| Runtime::builder().workers(2).build().unwrap());
    let root = Ledger::new().grant(CapSpawn::new());
    let cap = tenant(&root, "both", 3);
    let seen = one.nursery_with(under(&cap), |n| {
        n.try_spawn(|| {
            let there = other.run(|| nursery(|n| n.spawn(|| other.shares()).join()))??;
            Ok((one.shares(), there))
        })
        .join()
    });
    let (here, there) = seen.unwrap();
    assert_eq!((names(&here), names(&there)), (vec![("both", 1)], vec![("both", 1)]));
    assert_eq!((one.shares(), other.shares()), (vec![], vec![]));
}

#[test]
fn a_tenant_stays_one_on_a_thread_of_its_own_and_in_a_nursery_that_a_value_owns() {
    let runtime = Arc::new(Runtime::builder().workers(2).build().unwrap());
    let root = Ledger::new().grant(CapSpawn::new());
    let cap = tenant(&root, "plug-in", 1);
    let seen: Result<_, TaskError> = runtime.nursery_with(under(&cap), |n| {
        let inside = runtime.clone();
        n.try_spawn(move || {
            let confinement = Confinement::here().expect("it has a capability");
            let on_thread = {
                let runtime = inside.clone();
                std::thread::spawn(move || {
                    confinement.enter(|| runtime.nursery_with(NurseryOptions::new(), |_| Ok(runtime.shares())))
                })
            };
            let on_thread = on_thread.join().expect("it does not panic")?;
            let owned = OwnedNursery::with(NurseryOptions::new().name("owned").weight(2))?;
            let shares = inside.shares();
            drop(owned);
            Ok((on_thread, shares))
        })
        .join()
    });
    let (on_thread, owned) = seen.unwrap();
    assert_eq!(names(&on_thread), [("plug-in", 1)]);
    assert_eq!(names(&owned), [("owned", 2), ("plug-in", 1)]);
}

#[test]
fn a_tenant_that_opens_and_ends_on_many_threads_is_one_group_at_any_time() {
    let runtime = &Runtime::builder().workers(2).build().unwrap();
    let root = Ledger::new().grant(CapSpawn::new());
    let cap = &tenant(&root, "busy", 2);
    let (is_over, ended) = (&AtomicBool::new(false), &AtomicU64::new(0));
    std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            while !is_over.load(Relaxed) {
                let shares = runtime.shares();
                assert!(names(&shares).len() <= 1, "{shares:?}");
                std::thread::yield_now();
            }
        });
        let openers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    for _ in 0..200 {
                        let run = runtime.nursery_with(under(cap), |n| {
                            n.spawn(|| ended.fetch_add(1, Relaxed));
                            n.spawn(|| {
                                yield_now();
                                ended.fetch_add(1, Relaxed);
                            });
                            Ok(())
                        });
                        run.unwrap();
                    }
                })
            })
            .collect();
        openers.into_iter().for_each(|opener| opener.join().unwrap());
        is_over.store(true, Relaxed);
        watch.join().unwrap();
    });
    assert_eq!((ended.load(Relaxed), runtime.shares()), (4 * 200 * 2, vec![]));
}

#[test]
fn the_same_seed_gives_the_same_run_with_tenants_too() {
    let runtime = Runtime::builder().workers(3).seeded(11).build().unwrap();
    let root = Ledger::new().grant(CapSpawn::new());
    let [a, b] = [tenant(&root, "a", 1), tenant(&root, "b", 3)];
    let run = || {
        let options = [under(&a), under(&a), under(&b), under(&b).weight(2)];
        (turns(&runtime, options, 5_000), runtime.trace().hash())
    };
    let first = run();
    runtime.reseed(12);
    let _another = run();
    runtime.reseed(11);
    assert_eq!(run(), first);
    // Another ledger: other numbers, the same run.
    let root = Ledger::new().grant(CapSpawn::new());
    let [a, b] = [tenant(&root, "a", 1), tenant(&root, "b", 3)];
    runtime.reseed(11);
    let again = turns(&runtime, [under(&a), under(&a), under(&b), under(&b).weight(2)], 5_000);
    assert_eq!((again, runtime.trace().hash()), first);
}
