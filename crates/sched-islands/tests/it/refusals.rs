//! What is refused, and what it says.
//!
//! Room: tests.

use super::*;
use std::time::Duration;

use sched_islands::{Ended, Island, IslandError};
use sched_tasks::{Budget, Context, NurseryOptions, Runtime, nursery_with};

#[test]
fn what_does_not_fit_is_refused_with_its_number_and_leaves_nothing() {
    let runtime = Runtime::builder().workers(3).seeded(0).build().unwrap();
    let context = |budget, period| Context::budget(ms(budget)).period(ms(period));
    for (island, says) in [
        (
            Island::new("a").task("x", context(4, 5)).task("y", context(2, 5)),
            "a: y needs 2 ms in every 5 ms; CPU 2 has 1 ms left after x",
        ),
        (
            Island::new("a").lease(3),
            "a wants 3 CPUs for itself; 3 are not leased, and one of them must stay for the system",
        ),
        (Island::new("a").lease(0), "a asks for no CPU; an island needs one, `lease(1)`"),
        (Island::new("a").task("x", context(1, 5)).task("x", context(1, 5)), "a has two tasks called x"),
        (
            Island::new("a").task("x", context(1, 5)).task_after("x", "y", context(1, 10)),
            "a: y comes after x, and has another period; give both the same",
        ),
        (
            Island::new("a").task("x", context(1, 5)).task_after("z", "y", context(1, 5)),
            "a: y comes after z, which is not a task before it",
        ),
        (
            Island::new("a").task("x", context(6, 5)),
            "a: x asks for 6 ms with a deadline of 5 ms in every 5 ms; a context needs 0 < budget <= deadline <= period",
        ),
        (
            Island::new("a").task("quick", context(1, 3)).task("slow", context(4, 100)),
            "a: quick has to be done within 3ms and may have to wait 4ms for slow, which is not interrupted; \
             give slow a smaller budget, or lease one CPU more",
        ),
        (
            Island::new("a").task("x", Context::budget(ms(1)).period(Duration::from_nanos(u64::MAX))),
            "a: x has a period of 18446744073.709551615s; 100 years is the longest",
        ),
        (
            Island::new("a").task("x", Context::budget(Duration::MAX / 2).period(Duration::MAX)),
            "a: x has a period of 18446744073.709551615s; 100 years is the longest",
        ),
        (
            Island::new("a").revocation_latency(us(100)),
            "a wants its CPUs to be given back within 100µs, and it may take 4ms; allow that much",
        ),
    ] {
        let refused = island.admit_on(&runtime).unwrap_err().to_string();
        assert_eq!(refused, says);
        assert_eq!(
            Island::new("all").lease(2).admit_on(&runtime).unwrap().cpus().len(),
            2,
            "nothing is left of {says}"
        );
    }
}

#[test]
fn a_program_names_every_task_once() {
    on_virtual_cpus(|| {
        let mut island = one_task(Context::budget(ms(1)).period(ms(5))).admit()?;
        let error = island.program().run().unwrap_err();
        assert_eq!(
            error.downcast_ref::<IslandError>().unwrap().to_string(),
            "island: task one has no closure; give it one with `on`"
        );
        let error = island.program().on("two", |_| {}).run().unwrap_err();
        assert!(error.to_string().contains("island has no task two without a closure"), "{error}");
        let error = island.program().on("one", |_| {}).on("one", |_| {}).run().unwrap_err();
        assert!(error.to_string().contains("island has no task one without a closure"), "{error}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn buffers_take_no_more_than_was_admitted() {
    on_virtual_cpus(|| {
        let island = Island::new("island").memory(8192).admit()?;
        let mut buffer = island.buffer::<f32>(2048)?;
        buffer[2047] = 1.0;
        let refused = island.buffer::<u8>(1).unwrap_err();
        assert!(matches!(refused, IslandError::NoMemory { wanted: 4096, left: 0, .. }), "{refused}");
        drop(buffer);
        assert_eq!(island.buffer::<u8>(1)?.len(), 1);
        Ok(())
    })
    .unwrap();
}

#[test]
fn memory_that_is_not_there_is_refused_when_the_island_is_admitted() {
    on_virtual_cpus(|| {
        let refused = Island::new("island").memory(u64::MAX).admit().unwrap_err().to_string();
        assert!(
            refused.starts_with("island: the system gives no memory: 18446744073709551615 bytes are more"),
            "{refused}"
        );
        #[derive(Debug, Clone, Copy)]
        #[repr(align(65536))]
        struct Wide;
        impl Default for Wide {
            fn default() -> Self {
                Wide
            }
        }
        let refused = Island::new("island").memory(4096).admit()?.buffer::<Wide>(1).unwrap_err().to_string();
        assert!(refused.contains("aligned to 65536 bytes"), "{refused}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_period_of_days_takes_no_time_on_virtual_cpus() {
    let runtime = Runtime::builder().workers(2).seeded(1).max_steps(10_000).build().unwrap();
    let stats = runtime.run(|| {
        let mut island = one_task(Context::budget(us(1)).period(Duration::from_secs(240 * 3600))).admit()?;
        island
            .program()
            .on("one", |cycle| {
                if cycle.number() == 3 {
                    cycle.stop()
                }
            })
            .run()
    });
    assert_eq!(stats.unwrap().unwrap().tasks[0].cycles, 4);
}

#[test]
fn why_an_island_ended_is_said_whenever_that_was() {
    on_virtual_cpus(|| {
        let mut island = one_task(Context::budget(us(1)).period(ms(1))).admit()?;
        let handle = island.handle();
        assert_eq!(handle.stats().ended, None);
        handle.stop();
        let stats = island.program().on("one", |_| unreachable!("it was stopped before")).run()?;
        assert_eq!((stats.ended, stats.tasks[0].cycles), (Some(Ended::Stopped), 0));
        let error = island.program().on("one", |_| panic!("planted")).run().unwrap_err();
        assert!(error.to_string().contains("planted"), "{error}");
        assert_eq!(handle.stats().ended, Some(Ended::Failed));
        let stats = island
            .program()
            .on("one", |cycle| {
                if cycle.number() == 2 {
                    cycle.stop()
                }
            })
            .run()?;
        assert_eq!((stats.ended, stats.tasks[0].cycles), (Some(Ended::Stopped), 3));
        handle.revoke();
        assert_eq!((handle.stats().ended, handle.is_leased()), (Some(Ended::Revoked), false));
        handle.stop();
        assert_eq!(handle.stats().ended, Some(Ended::Revoked));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_task_that_is_limited_takes_no_cpu_through_a_runtime_of_its_own() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let refused = runtime.run(|| {
        nursery_with(NurseryOptions::new().weight(3), |n| {
            n.spawn(|| {
                let own = Runtime::builder().workers(2).build().unwrap();
                own.run(|| Island::new("mine").admit().map(drop).unwrap_err().to_string()).unwrap()
            })
            .join()
        })
    });
    assert!(refused.unwrap().unwrap().contains("has a share of CPU time"));
}

#[test]
fn a_task_that_is_limited_takes_no_cpu_from_others() {
    let refused = |options: NurseryOptions| {
        let runtime = Runtime::builder().workers(2).seeded(0).build().unwrap();
        let outcome = runtime.run(move || {
            nursery_with(options, |n| n.spawn(|| Island::new("mine").admit().map(drop).unwrap_err().to_string()).join())
        });
        outcome.unwrap().unwrap()
    };
    assert!(refused(NurseryOptions::new().weight(3)).contains("has a share of CPU time"));
    assert!(refused(NurseryOptions::new().budget(Budget::ops(1000).spawns(1))).contains("has a budget"));
}

#[test]
fn names_that_command_a_terminal_do_not_reach_it() {
    let error = IslandError::TwoOfOneName { island: "a\u{1b}[2J".into(), task: "b\nc".into() };
    assert_eq!(error.to_string(), "a\u{fffd}[2J has two tasks called b\u{fffd}c");
}
