//! Virtual CPUs and virtual time.
//!
//! Room: tests.

use super::*;
use std::sync::Mutex;

use sched_islands::{Ended, Island, IslandStats};
use sched_tasks::{Context, Overrun, Reason, Runtime, TaskError, sleep};

#[test]
fn a_task_runs_once_in_every_period() {
    let stats = on_virtual_cpus(|| {
        let mut island = one_task(Context::budget(ms(1)).period(ms(5))).admit()?;
        let begun = sched_tasks::now();
        let stats = island
            .program()
            .on("one", |cycle| {
                if cycle.number() == 9 {
                    cycle.stop()
                }
            })
            .run()?;
        let took = sched_tasks::now() - begun;
        assert!((ms(45)..ms(50)).contains(&took), "{took:?}");
        Ok(stats)
    })
    .unwrap();
    assert_eq!((stats.tasks[0].cycles, stats.missed()), (10, 0));
    assert_eq!(stats.ended, Some(Ended::Stopped));
}

#[test]
fn a_task_that_comes_after_another_runs_behind_it_in_every_period() {
    let log = Mutex::new(Vec::new());
    on_virtual_cpus(|| {
        let context = Context::budget(ms(1)).period(ms(5));
        let mut island = Island::new("audio").task("capture", context).task_after("capture", "mix", context).admit()?;
        island
            .program()
            .on("capture", |cycle| log.lock().unwrap().push(("capture", cycle.number())))
            .on("mix", |cycle| {
                log.lock().unwrap().push(("mix", cycle.number()));
                if cycle.number() == 2 {
                    cycle.stop();
                }
            })
            .run()
    })
    .unwrap();
    let order: Vec<_> = (0..3).flat_map(|number| [("capture", number), ("mix", number)]).collect();
    assert_eq!(log.into_inner().unwrap(), order);
}

/// A task of 1 ms in every 5 ms that takes 3 ms in cycle 0 and stops the island at 50 ms.
fn overrun(overrun: Overrun) -> Result<(IslandStats, Vec<(u64, bool)>), TaskError> {
    let log = Mutex::new(Vec::new());
    let stats = on_virtual_cpus(|| {
        let mut island = one_task(Context::budget(ms(1)).period(ms(5)).on_overrun(overrun)).admit()?;
        island
            .program()
            .on("one", |cycle| {
                log.lock().unwrap().push((cycle.number(), cycle.is_demoted()));
                if cycle.number() == 0 {
                    sleep(ms(3));
                }
                if cycle.number() == 9 {
                    cycle.stop();
                }
            })
            .run()
    })?;
    Ok((stats, log.into_inner().unwrap()))
}

#[test]
fn an_overrun_is_paid_with_cycles_that_do_not_run() {
    let (stats, log) = overrun(Overrun::Throttle).unwrap();
    assert_eq!(log[..2], [(0, false), (3, false)]);
    let one = &stats.tasks[0];
    assert_eq!((one.cycles, one.overruns, one.bypassed, one.missed), (8, 1, 2, 2));
    assert_eq!(one.ran_max, ms(3));
}

#[test]
fn a_demoted_task_goes_on_without_its_rank() {
    let (stats, log) = overrun(Overrun::Demote).unwrap();
    assert_eq!(log[..4], [(0, false), (1, true), (2, true), (3, false)]);
    assert_eq!((stats.tasks[0].cycles, stats.missed()), (10, 0));
}

#[test]
fn a_task_that_is_to_end_the_island_ends_it() {
    let error = overrun(Overrun::Cancel).unwrap_err();
    let Reason::CpuTimeSpent { budget, period } = error.reason() else { panic!("{error}") };
    assert_eq!((*budget, *period), (ms(1), ms(5)));
}

#[test]
fn a_late_cycle_is_counted_and_the_phase_is_kept() {
    let stats = on_virtual_cpus(|| {
        let mut island = one_task(Context::budget(ms(5)).period(ms(5)).on_overrun(Overrun::Demote)).admit()?;
        island
            .program()
            .on("one", |cycle| match cycle.number() {
                0 => sleep(ms(12)),
                2 => assert_eq!((cycle.left_out(), cycle.late()), (1, ms(2))),
                5 => cycle.stop(),
                _ => assert_eq!(cycle.late(), ms(0)),
            })
            .run()
    })
    .unwrap();
    let one = &stats.tasks[0];
    assert_eq!((one.cycles, one.skipped, one.missed, one.overruns, one.late_max), (5, 1, 2, 1, ms(2)));
}

#[test]
fn an_island_on_virtual_cpus_runs_the_same_for_the_same_seed() {
    let run = |seed| {
        let runtime = Runtime::builder().workers(4).seeded(seed).build().unwrap();
        let log = Mutex::new(Vec::new());
        runtime
            .run(|| {
                let mut island = Island::new("two")
                    .task("a", Context::budget(ms(1)).period(ms(2)))
                    .task("b", Context::budget(ms(1)).period(ms(2)))
                    .lease(2)
                    .admit()?;
                island
                    .program()
                    .on("a", |cycle| log.lock().unwrap().push(("a", cycle.number())))
                    .on("b", |cycle| {
                        log.lock().unwrap().push(("b", cycle.number()));
                        if cycle.number() == 20 {
                            cycle.stop();
                        }
                    })
                    .run()
            })
            .unwrap()
            .unwrap();
        (log.into_inner().unwrap(), runtime.trace().hash())
    };
    assert_eq!(run(5), run(5));
    assert!((0..20).any(|seed| run(seed).0 != run(5).0), "two CPUs interleave by the seed");
}
