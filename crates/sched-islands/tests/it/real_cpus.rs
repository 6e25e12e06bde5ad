//! Real CPUs. A lease moves every thread of the process, so these tests are processes of their own.
//!
//! Room: tests.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use mech_cpu::{CpuMask, Policy, Tid};
use sched_islands::{Ended, Island, IslandError, Realtime};
use sched_tasks::{Context, NurseryOptions, Reason, Runtime, current_worker, nursery, nursery_with, sleep, yield_now};
use test_support::alone;

#[test]
fn an_island_has_its_cpu_for_itself() {
    if !alone("real_cpus::an_island_has_its_cpu_for_itself") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let all = Tid::current().affinity().unwrap();
    let mut island =
        Island::new("island").task("one", Context::budget(us(500)).period(ms(1))).admit_on(&runtime).unwrap();
    let cpu = island.cpus()[0] as usize;
    assert_eq!(cpu, all.iter().last().unwrap());
    let places = || Tid::all().unwrap().into_iter().filter_map(|tid| Some((tid, tid.affinity().ok()?)));
    assert!(places().all(|(_, mask)| mask == all.without(CpuMask::one(cpu))), "all threads have left it");
    let policies = Mutex::new(Vec::new());
    let stats = island
        .program()
        .on("one", |cycle| {
            let me = Tid::current();
            policies.lock().unwrap().push((me.affinity().unwrap(), me.policy().unwrap()));
            if cycle.number() >= 200 {
                cycle.stop();
            }
        })
        .run()
        .unwrap();
    let policies = policies.into_inner().unwrap();
    let in_force = &stats.in_force.as_ref().unwrap().cpus[0];
    let policy = in_force.realtime.as_ref().map_or(Policy::Fair, |priority| Policy::Fifo(*priority));
    assert!(policies.iter().all(|(mask, has)| *mask == CpuMask::one(cpu) && *has == policy), "{policies:?}");
    let one = &stats.tasks[0];
    assert_eq!(one.cycles + one.skipped + one.bypassed, 201, "{stats}");
    assert!(one.cycles > 20, "{stats}");
    drop(island);
    assert!(places().all(|(_, mask)| mask == all), "all may go there again");
}

#[test]
fn a_worker_that_is_lent_takes_no_tasks() {
    if !alone("real_cpus::a_worker_that_is_lent_takes_no_tasks") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let workers = || {
        let seen = [const { AtomicU64::new(0) }; 2];
        runtime
            .run(|| {
                nursery(|n| {
                    for _ in 0..200 {
                        n.spawn(|| {
                            let begun = Instant::now();
                            while begun.elapsed() < us(200) {
                                std::hint::spin_loop();
                            }
                            seen[current_worker().unwrap()].fetch_add(1, Relaxed);
                        });
                    }
                    Ok(())
                })
            })
            .unwrap()
            .unwrap();
        seen.map(AtomicU64::into_inner)
    };
    let island = Island::new("island").admit_on(&runtime).unwrap();
    for _ in 0..5 {
        assert_eq!(workers(), [200, 0]);
    }
    assert!(runtime.set_stealing(1, true), "that is another matter");
    assert_eq!(workers(), [200, 0]);
    drop(island);
    until("the worker takes tasks again", || workers()[1] > 0);
}

#[test]
fn a_fiber_on_a_worker_that_is_lent_goes_on() {
    if !alone("real_cpus::a_fiber_on_a_worker_that_is_lent_goes_on") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    // Fibers that spin until each worker has one: there they stay.
    let here = [const { AtomicBool::new(false) }; 2];
    let (goes_on, turns) = (AtomicBool::new(true), AtomicU64::new(0));
    let fiber = || {
        let worker = current_worker().unwrap();
        here[worker].store(true, Relaxed);
        while !here.iter().all(|seen| seen.load(Relaxed)) {
            std::hint::spin_loop();
        }
        if worker == 0 {
            let island = Island::new("island").admit().unwrap();
            let before = turns.load(Relaxed);
            until("the fiber of the lent worker goes on", || {
                yield_now();
                turns.load(Relaxed) > before + 10
            });
            drop(island);
            goes_on.store(false, Relaxed);
        }
        while worker == 1 && goes_on.load(Relaxed) {
            sleep(us(100));
            assert_eq!(current_worker(), Some(1));
            turns.fetch_add(1, Relaxed);
        }
    };
    let outcome = runtime.run(|| {
        nursery(|n| {
            n.spawn(fiber);
            n.spawn(fiber);
            Ok(())
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn a_cycle_that_does_not_end_loses_its_rank_and_a_revoked_lease_is_given_back_in_time() {
    if !alone("real_cpus::a_cycle_that_does_not_end_loses_its_rank_and_a_revoked_lease_is_given_back_in_time") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let all = Tid::current().affinity().unwrap();
    let mut island = Island::new("hog").task("spin", Context::budget(ms(2)).period(ms(10))).admit_on(&runtime).unwrap();
    let handle = island.handle();
    let (tell, told) = mpsc::channel();
    let ends = AtomicBool::new(false);
    let stats = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let spin = |_: &sched_islands::Cycle<'_>| {
                tell.send(Tid::current()).unwrap();
                while !ends.load(Relaxed) {
                    std::hint::spin_loop();
                }
            };
            island.program().on("spin", spin).run()
        });
        let hog = told.recv().unwrap();
        until("the hog has lost its rank", || hog.policy().unwrap() == Policy::Fair);
        assert!(handle.is_leased());
        let begun = Instant::now();
        handle.revoke();
        until("the lease is given back", || !handle.is_leased());
        let took = begun.elapsed();
        assert!(took < ms(50) + ms(450), "{took:?}; 50 ms on a machine that is not busy");
        assert_eq!(hog.affinity().unwrap(), all, "it runs among the others");
        assert_eq!(Tid::current().affinity().unwrap(), all);
        ends.store(true, Relaxed);
        run.join().unwrap()
    });
    assert_eq!(stats.unwrap().ended, Some(Ended::Revoked));
    let error = island.program().on("spin", |_| {}).run().unwrap_err();
    assert!(error.to_string().contains("the lease of hog was revoked"), "{error}");
}

#[test]
fn a_cycle_that_lost_its_rank_has_it_again_afterwards() {
    if !alone("real_cpus::a_cycle_that_lost_its_rank_has_it_again_afterwards") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let mut island = Island::new("late").task("one", Context::budget(ms(1)).period(ms(5))).admit_on(&runtime).unwrap();
    let policies = Mutex::new(Vec::new());
    let stats = island
        .program()
        .on("one", |cycle| {
            let me = Tid::current();
            policies.lock().unwrap().push(me.policy().unwrap());
            if cycle.number() == 0 {
                let had = me.policy().unwrap();
                let began = Instant::now();
                until("the cycle has lost its rank", || me.policy().unwrap() == Policy::Fair || had == Policy::Fair);
                // Two budgets and more: a smaller debt would leave the next cycle some time, and it would run.
                until("the cycle owes all of the next one's time", || began.elapsed() > us(2500));
            } else if policies.lock().unwrap().len() == 3 {
                cycle.stop();
            }
        })
        .run()
        .unwrap();
    let policies = policies.into_inner().unwrap();
    assert!(policies.iter().all(|policy| *policy == policies[0]), "{policies:?}\n{stats}");
    assert!(stats.tasks[0].overruns >= 1 && stats.tasks[0].bypassed >= 1, "{stats}");
}

#[test]
fn between_the_first_cycle_and_the_last_nothing_is_allocated() {
    if !alone("real_cpus::between_the_first_cycle_and_the_last_nothing_is_allocated") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let context = Context::budget(us(300)).period(ms(1));
    let mut island = Island::new("island")
        .task("capture", context)
        .task_after("capture", "mix", context)
        .memory(8192)
        .admit_on(&runtime)
        .unwrap();
    let mut samples = island.buffer::<f32>(480).unwrap();
    let (first, mut last) = (Mutex::new(None), 0);
    let stats = island
        .program()
        .on("capture", |_| {
            samples.fill(0.5);
            first.lock().unwrap().get_or_insert_with(counting::here);
        })
        .on("mix", |cycle| {
            last = counting::here();
            if cycle.number() >= 300 {
                cycle.stop();
            }
        })
        .run()
        .unwrap();
    assert!(stats.tasks[1].cycles > 30, "{stats}");
    assert_eq!(last, first.into_inner().unwrap().unwrap(), "allocations of the leased thread");
}

#[test]
fn threads_that_a_cycle_starts_may_go_everywhere_afterwards() {
    if !alone("real_cpus::threads_that_a_cycle_starts_may_go_everywhere_afterwards") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let all = Tid::current().affinity().unwrap();
    for name in ["first", "a name with a zero byte\0"] {
        let mut island =
            Island::new(name).task("one", Context::budget(us(500)).period(ms(2))).admit_on(&runtime).unwrap();
        let body = |cycle: &sched_islands::Cycle<'_>| {
            sched_tasks::unblock(|| ()); // by a thread that stays
            cycle.stop();
        };
        island.program().on("one", body).run().unwrap();
        drop(island);
        let mut places = Tid::all().unwrap().into_iter().filter_map(|tid| tid.affinity().ok());
        assert!(places.all(|mask| mask == all));
    }
}

#[test]
fn a_panic_of_a_task_is_the_error_of_the_run_and_the_cpus_come_back() {
    if !alone("real_cpus::a_panic_of_a_task_is_the_error_of_the_run_and_the_cpus_come_back") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let all = Tid::current().affinity().unwrap();
    let mut island = one_task(Context::budget(us(500)).period(ms(2))).admit_on(&runtime).unwrap();
    let error = island.program().on("one", |cycle| assert!(cycle.number() < 3, "planted")).run().unwrap_err();
    assert!(matches!(error.reason(), Reason::Panicked { .. }) && error.to_string().contains("planted"), "{error}");
    assert_eq!(island.stats().tasks[0].cycles, 3);
    // The lease is still there: it can run again.
    let stats = island.program().on("one", |cycle| cycle.stop()).run().unwrap();
    assert_eq!(stats.tasks[0].cycles, 1);
    drop(island);
    assert_eq!(Tid::current().affinity().unwrap(), all);
}

#[test]
fn a_cancelled_caller_does_not_wait_for_the_next_period() {
    if !alone("real_cpus::a_cancelled_caller_does_not_wait_for_the_next_period") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let begun = Instant::now();
    let outcome = runtime.run(|| {
        nursery_with(NurseryOptions::new().timeout(ms(50)), |_| {
            let mut island = one_task(Context::budget(ms(1)).period(Duration::from_secs(3600))).admit()?;
            island.program().on("one", |_| {}).run()
        })
    });
    assert!(outcome.unwrap().is_err());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn a_handle_stops_an_island_that_waits_for_its_next_period() {
    if !alone("real_cpus::a_handle_stops_an_island_that_waits_for_its_next_period") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let mut island = one_task(Context::budget(ms(1)).period(Duration::from_secs(3600))).admit_on(&runtime).unwrap();
    let handle = island.handle();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| island.program().on("one", |_| {}).run());
        until("the first cycle has run", || handle.stats().tasks.first().is_some_and(|one| one.cycles == 1));
        handle.stop();
        assert_eq!(run.join().unwrap().unwrap().ended, Some(Ended::Stopped));
    });
}

#[test]
fn a_thread_that_can_run_nowhere_else_keeps_its_cpu() {
    if !alone("real_cpus::a_thread_that_can_run_nowhere_else_keeps_its_cpu") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let last = Tid::current().affinity().unwrap().iter().last().unwrap();
    Tid::current().set_affinity(CpuMask::one(last)).unwrap();
    let refused = Island::new("island").admit_on(&runtime).unwrap_err();
    assert!(matches!(refused, IslandError::NotIsolated { .. }), "{refused}");
    assert!(refused.to_string().contains("is pinned to CPUs"), "{refused}");
}

#[test]
fn an_island_that_requires_what_is_not_permitted_does_not_run() {
    if !alone("real_cpus::an_island_that_requires_what_is_not_permitted_does_not_run") {
        return;
    }
    let Some(runtime) = runtime() else { return };
    let ran = AtomicBool::new(false);
    let mut island =
        one_task(Context::budget(ms(1)).period(ms(5))).realtime(Realtime::Required).admit_on(&runtime).unwrap();
    let outcome = island
        .program()
        .on("one", |cycle| {
            ran.store(true, Relaxed);
            cycle.stop();
        })
        .run();
    match outcome {
        Ok(stats) => assert!(stats.in_force.unwrap().cpus[0].realtime.is_ok()),
        Err(error) => {
            assert!(!ran.load(Relaxed));
            assert!(error.to_string().contains("requires SCHED_FIFO"), "{error}");
        }
    }
}

#[test]
fn a_machine_without_a_cpu_to_spare_refuses() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let refused = Island::new("island").admit_on(&runtime).unwrap_err();
    let says = "island wants 1 CPUs for itself; 1 are not leased, and one of them must stay for the system";
    assert_eq!(refused.to_string(), says);
}
