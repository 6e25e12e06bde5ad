//! A seed decides everything: the same one gives the same run.

use std::{
    io::ErrorKind,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::{Duration, Instant},
};

use proptest::prelude::*;
use sched_tasks::{
    Mutex, NurseryOptions, OnFailure, Priority, Reason, RunError, Runtime, Sender, TaskError, Trace, What, channel,
    checkpoint, current_task, explore, net::TcpListener, now, nursery, nursery_with, sleep, yield_now,
};
use test_support::{output_alone, text};

use crate::{medley::medley, support::skipping};

pub(crate) fn seeded(workers: usize, seed: u64) -> Runtime {
    Runtime::builder().workers(workers).max_fibers(4096).seeded(seed).build().unwrap()
}

/// What the medley gives, and its trace.
fn play(runtime: &Runtime) -> (u64, Trace) {
    (runtime.run(medley).unwrap(), runtime.trace())
}

#[test]
fn the_same_seed_gives_the_same_run_for_any_number_of_workers() {
    for workers in [1, 2, 3, 8, 64] {
        let (one, other) = (seeded(workers, 0), seeded(workers, 0));
        let run = |runtime: &Runtime, seed| {
            runtime.reseed(seed);
            play(runtime)
        };
        let mut before: Vec<_> = (0..50).map(|seed| run(&one, seed)).collect();
        // In the other order: whatever a run leaves behind would show.
        for seed in (0..50).rev() {
            let (first, second) = (before.pop().unwrap(), run(&other, seed));
            assert_eq!(first.1.hash(), second.1.hash(), "seed {seed}, {workers} workers");
            assert!(first == second, "seed {seed}, {workers} workers: the hash overlooks something");
        }
    }
}

#[test]
fn different_seeds_give_different_runs() {
    for workers in [1, 2, 8] {
        let runtime = seeded(workers, 0);
        let runs = (0..40).map(|seed| {
            runtime.reseed(seed);
            let (order, trace) = play(&runtime);
            (order, trace.hash())
        });
        let (mut orders, mut hashes): (Vec<_>, Vec<_>) = runs.unzip();
        for (what, list) in [("orders", &mut orders), ("traces", &mut hashes)] {
            list.sort();
            list.dedup();
            assert!(list.len() > 36, "40 seeds gave {} {what} on {workers} workers", list.len());
        }
    }
}

fn hashes() -> String {
    let hash = |(workers, seed)| format!("{:016x}", play(&seeded(workers, seed)).1.hash());
    [(1, 1), (2, 2), (4, 4711), (64, 3)].map(hash).join(" ")
}

#[test]
fn the_same_seed_gives_the_same_trace_in_another_process() {
    match output_alone("seeded::the_same_seed_gives_the_same_trace_in_another_process") {
        None => println!("hashes: {}", hashes()),
        Some(output) => {
            assert!(text(&output.stdout).contains(&hashes()), "{}, here {}", text(&output.stdout), hashes())
        }
    }
}

#[test]
fn no_step_is_in_vain() {
    for workers in [1, 2, 8] {
        let runtime =
            Runtime::builder().workers(workers).without_stealing(1).max_fibers(4096).seeded(workers as u64).build();
        let runtime = runtime.unwrap();
        let low = || nursery(|n| n.task().priority(Priority::Low).spawn(|| 1).join());
        assert_eq!(runtime.run(low).unwrap().unwrap(), 1);
        assert!(runtime.trace().steps() <= 4, "{}", runtime.trace());
        let trace = play(&runtime).1;
        let begun = trace.events().iter().filter(|event| matches!(event.what, What::Started | What::Resumed));
        assert_eq!(begun.count() as u64, trace.steps(), "{workers} workers");
        let stolen = trace.events().iter().filter(|event| matches!(event.what, What::Stole { .. }));
        assert!(stolen.clone().all(|event| event.worker != Some(1)), "worker 1 may not steal");
        assert!(workers < 8 || stolen.count() > 0, "{workers} workers");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_on_every_machine() {
    assert_eq!(hashes(), GOLDEN);
}

/// Changes only if the runtime makes other choices than before: then traces that were kept cannot be replayed, and the changelog should say so.
const GOLDEN: &str = "a8f7458fcdda1bc8 67ad10503f45a6ff 1d0c27a568a71a28 90ecde72b6217330";

#[test]
fn an_hour_of_sleep_takes_no_time() {
    let begun = Instant::now();
    let slept = seeded(2, 1).run(|| {
        let begun = now();
        nursery(|n| {
            for minutes in 1..=60 {
                n.spawn(move || sleep(Duration::from_secs(60 * minutes)));
            }
            Ok(())
        })
        .unwrap();
        now() - begun
    });
    let slept = slept.unwrap();
    assert!(slept >= Duration::from_secs(3600) && slept < Duration::from_secs(3601), "{slept:?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn alarms_for_the_same_time_go_off_in_the_order_they_were_set() {
    for seed in 0..20 {
        let order = Mutex::new(Vec::new());
        let runtime = Runtime::builder().workers(1).max_fibers(64).preempt_one_in(0).seeded(seed).build().unwrap();
        let at = runtime.run(|| {
            let at = now() + Duration::from_secs(1);
            nursery(|n| {
                for i in 0..5 {
                    let order = &order;
                    n.spawn(move || {
                        let late = i == 2;
                        sleep(at - now() + Duration::from_nanos(u64::from(late)));
                        order.lock().push(i);
                    });
                }
                Ok(())
            })
        });
        at.unwrap().unwrap();
        let order = order.into_inner();
        assert_eq!(order.iter().position(|i| *i == 2), Some(4), "{order:?}");
    }
}

#[test]
fn who_asks_for_the_time_again_and_again_sees_it_pass() {
    let cancelled = seeded(2, 1).run(|| {
        let until = now() + Duration::from_micros(500);
        while now() < until {
            yield_now();
        }
        nursery_with(NurseryOptions::new().timeout(Duration::from_millis(1)), |n| {
            n.spawn(|| {
                loop {
                    yield_now();
                }
            });
            Ok(())
        })
    });
    assert!(matches!(cancelled.unwrap().unwrap_err().reason(), Reason::DeadlineExceeded { .. }));
}

#[test]
fn a_deadlock_is_an_error_that_names_the_waiting_tasks() {
    let dropped = AtomicU32::new(0);
    struct Counts<'a>(&'a AtomicU32);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let (runtime, counts) = (seeded(3, 99), Counts(&dropped));
    let outcome = runtime.run(|| {
        nursery(|n| {
            let (tx, rx) = channel::<()>(1);
            n.task().name("waits for ever").spawn(move || {
                let (_counts, _keeps_it_open) = (counts, tx);
                rx.recv()
            });
            n.spawn_async(std::future::pending::<()>());
            Ok(())
        })
    });
    let Err(RunError::Task(error)) = outcome else { panic!("{outcome:?}") };
    let Reason::Deadlock { waiting, seed: 99 } = error.reason() else { panic!("{error}") };
    assert_eq!(waiting.len(), 2, "{error}");
    assert!(error.to_string().contains("`waits for ever`"), "{error}");
    assert_eq!(dropped.load(SeqCst), 1);
    assert_eq!(runtime.run(|| 1).unwrap(), 1); // and it can be used again
}

#[test]
fn without_a_number_of_workers_there_are_as_many_on_every_machine() {
    assert_eq!(Runtime::builder().max_fibers(64).seeded(1).build().unwrap().workers(), 4);
}

#[test]
fn a_body_on_the_callers_thread_is_driven_and_interrupted_like_a_task() {
    let runtime = seeded(2, 0);
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..50 {
        runtime.reseed(seed);
        let order = Mutex::new(String::new());
        let sum = runtime.nursery(|n| {
            let task = n.spawn(|| {
                order.lock().push('t');
                20
            });
            checkpoint();
            order.lock().push('b');
            sleep(Duration::from_secs(1));
            Ok(task.join()? + nursery(|m| m.spawn(|| 22).join())?)
        });
        assert_eq!(sum.unwrap(), 42);
        orders.insert(order.into_inner());
    }
    assert_eq!(orders.len(), 2, "{orders:?}");
    let (_tx, rx) = channel::<()>(1);
    let stuck = runtime.nursery(|_| Ok(rx.recv().is_ok()));
    assert!(matches!(stuck.unwrap_err().reason(), Reason::Deadlock { .. }));
}

#[test]
fn a_trace_that_was_kept_is_replayed_to_the_letter() {
    for workers in [1, 3, 8] {
        let (order, trace) = play(&seeded(workers, 5));
        let kept: Trace = trace.encode().parse().unwrap();
        assert_eq!(kept, trace);
        let again = Runtime::builder().max_fibers(4096).replay(kept).build().unwrap();
        assert_eq!(again.workers(), workers);
        assert_eq!(play(&again), (order, trace.clone()));
        assert_eq!(play(&again), (order, trace));
    }
}

#[test]
fn a_replay_of_another_program_says_where_it_diverged() {
    let tasks = |count: u32| {
        move || {
            nursery(|n| {
                (0..count).for_each(|_| drop(n.spawn(yield_now)));
                Ok(())
            })
        }
    };
    let runtime = seeded(3, 8);
    runtime.run(tasks(4)).unwrap().unwrap();
    let trace = runtime.trace();
    let again = || Runtime::builder().max_fibers(64).replay(trace.clone()).build().unwrap();
    assert!(again().run(tasks(4)).is_ok());
    for count in [1, 3, 5] {
        let outcome = again().run(tasks(count));
        let Err(RunError::Diverged { at, expected, found }) = &outcome else { panic!("{count} tasks: {outcome:?}") };
        assert!(*at <= trace.decisions().len() && expected != found, "{at}: {expected}, {found}");
    }
}

#[test]
fn a_run_without_end_is_stopped_at_its_limit() {
    let runtime = Runtime::builder().workers(2).max_fibers(64).max_steps(500).seeded(1).build().unwrap();
    let outcome = runtime.run(|| {
        loop {
            yield_now();
        }
    });
    let Err(RunError::Task(error)) = outcome else { panic!("{outcome:?}") };
    assert!(matches!(error.reason(), Reason::StepLimit { steps: 500, seed: 1 }), "{error}");
}

#[test]
fn a_trace_keeps_the_last_events_and_the_hash_of_all() {
    let full = play(&seeded(4, 1)).1;
    let runtime = Runtime::builder().workers(4).max_fibers(4096).trace_events(10).seeded(1).build().unwrap();
    let short = play(&runtime).1;
    assert_eq!((short.hash(), short.events().len()), (full.hash(), 10));
    assert_eq!(short.events(), &full.events()[full.events().len() - 10..]);
    assert_eq!(short.dropped() as usize, full.events().len() - 10);
}

#[test]
fn sockets_are_refused_with_a_reason() {
    let error = seeded(1, 1).run(|| TcpListener::bind("127.0.0.1:0").unwrap_err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("channel"), "{error}");
}

#[test]
fn a_stack_overflow_fails_its_task_and_the_runtime_goes_on() {
    overflow_thrice();
    let outer = Runtime::builder().workers(1).stack_bytes(1 << 20).max_fibers(64).build().unwrap();
    outer.run(overflow_thrice).unwrap(); // on a stack that is itself a fiber's
}

fn overflow_thrice() {
    fn deep(n: u64) -> u64 {
        let frame = std::hint::black_box([n; 64]);
        if n == 0 { 0 } else { deep(n - 1) + frame[63] }
    }
    let runtime = skipping().workers(2).max_fibers(4096).seeded(3).build().unwrap();
    let overflow = || nursery(|n| n.spawn(|| deep(1 << 30)).join());
    let traces = [(); 3].map(|()| {
        let error = runtime.run(overflow).unwrap().unwrap_err();
        assert!(matches!(error.reason(), Reason::StackOverflow { .. }), "{error}");
        runtime.trace()
    });
    assert!(traces[0] == traces[1] && traces[1] == traces[2]);
    let moved = std::thread::scope(|s| s.spawn(|| runtime.run(|| 7).unwrap()).join().unwrap());
    assert_eq!(moved, 7);
}

#[test]
fn a_task_that_gets_no_stack_is_refused_and_its_destructor_may_wait() {
    struct Waits(sched_tasks::Receiver<u32>);
    impl Drop for Waits {
        fn drop(&mut self) {
            sleep(Duration::from_secs(5));
            assert_eq!(self.0.recv(), Ok(7));
        }
    }
    for seed in 0..20 {
        let runtime = Runtime::builder().workers(2).max_fibers(3).seeded(seed).build().unwrap();
        let outcome = runtime.run(|| {
            nursery(|n| {
                for _ in 0..4 {
                    let (tx, rx) = channel(1);
                    let waits = Waits(rx);
                    n.spawn(move || drop(waits));
                    tx.send(7)?;
                }
                Ok(())
            })
        });
        outcome.unwrap().unwrap_or_else(|error| assert!(error.to_string().contains("max_fibers"), "{error}"));
    }
}

#[test]
fn runs_of_two_threads_take_turns() {
    let runtime = seeded(2, 7);
    let alone = play(&runtime);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..5).for_each(|_| assert_eq!(runtime.run(medley).unwrap(), alone.0)));
        }
    });
}

#[test]
fn a_seeded_run_inside_a_task_of_another_runtime_is_the_same_run() {
    let alone = play(&seeded(3, 7));
    let outer = Runtime::builder().workers(2).stack_bytes(1 << 20).max_fibers(64).build().unwrap();
    assert!(outer.run(|| play(&seeded(3, 7))).unwrap() == alone);
    let outer = Runtime::builder().workers(2).stack_bytes(1 << 20).max_fibers(64).seeded(1).build().unwrap();
    assert!(outer.run(|| play(&seeded(3, 7))).unwrap() == alone);
    let back = outer.run(|| seeded(1, 1).run(|| outer.run(|| 1).is_err()).unwrap());
    assert!(back.unwrap(), "the outer runtime is in the middle of a run");
}

#[test]
fn a_panic_of_the_body_goes_on_and_the_runtime_can_be_used_again() {
    let runtime = seeded(2, 1);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        runtime.nursery(|n| -> Result<(), TaskError> {
            n.spawn(|| sleep(Duration::from_secs(1)));
            panic!("of the body")
        })
    }));
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"of the body"));
    assert_eq!(runtime.run(|| current_task().unwrap().id.0).unwrap(), 1);
}

#[test]
fn panics_and_what_their_destructors_do_are_part_of_the_run() {
    struct Yields<'a>(&'a Mutex<Vec<u32>>, u32);
    impl Drop for Yields<'_> {
        fn drop(&mut self) {
            yield_now(); // others run in the middle of this unwinding, and panic too
            self.0.lock().push(self.1);
        }
    }
    let (one, other) = (seeded(3, 0), seeded(3, 0));
    let run = |runtime: &Runtime, seed| {
        runtime.reseed(seed);
        let order = Mutex::new(Vec::new());
        let outcome = runtime.run(|| {
            nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
                for i in 0..3 {
                    let order = &order;
                    n.spawn(move || {
                        let _yields = Yields(order, i);
                        checkpoint();
                        panic!("of task {i}");
                    });
                }
                Ok(())
            })
        });
        let error = outcome.unwrap().unwrap_err();
        assert_eq!(error.others().len(), 2);
        (order.into_inner(), error.to_string(), runtime.trace())
    };
    for seed in 0..5 {
        assert!(run(&one, seed) == run(&other, seed), "seed {seed}");
    }
}

/// Waits in the middle of an unwinding, until told.
struct WaitsInDrop(sched_tasks::Receiver<()>);

impl Drop for WaitsInDrop {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

/// Spins until it is cancelled, and then says so.
fn spin_until_cancelled(tell: Sender<()>) {
    let _tell = tell; // dropped, it closes the channel
    loop {
        yield_now();
    }
}

#[test]
fn a_task_that_stops_in_an_unwinding_keeps_no_other_on_its_thread_from_being_cancelled() {
    for seed in 0..30 {
        let runtime = Runtime::builder().workers(3).max_fibers(64).max_steps(5000).seeded(seed).build().unwrap();
        // A task unwinds, and waits for one that must be cancelled meanwhile.
        let failed = runtime.run(|| {
            nursery(|n| {
                let (tx, rx) = channel(1);
                n.spawn(move || spin_until_cancelled(tx));
                n.spawn(move || {
                    let _waits = WaitsInDrop(rx);
                    std::panic::resume_unwind(Box::new("as planned"));
                });
                sleep(Duration::from_millis(1));
                n.cancel();
                Ok(())
            })
        });
        assert!(failed.unwrap().unwrap_err().is_panic(), "seed {seed}");
        // The same on the caller's thread.
        let (tx, rx) = channel(1);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            runtime.nursery(|n| -> Result<(), TaskError> {
                n.spawn(move || spin_until_cancelled(tx));
                let (canceller, _waits) = (n.canceller(), WaitsInDrop(rx));
                n.spawn(move || {
                    sleep(Duration::from_millis(1));
                    canceller.cancel();
                });
                std::panic::resume_unwind(Box::new("as planned"))
            })
        }));
        assert!(failed.is_err(), "seed {seed}: {failed:?}");
        // And if the caller is in the middle of one from the beginning.
        struct RunsInDrop<'a>(&'a Runtime);
        impl Drop for RunsInDrop<'_> {
            fn drop(&mut self) {
                let (tx, rx) = channel::<()>(1);
                let run = || {
                    nursery(|n| {
                        n.spawn(move || spin_until_cancelled(tx));
                        yield_now();
                        n.cancel();
                        Ok(())
                    })
                };
                assert!(self.0.run(run).unwrap().unwrap_err().is_cancelled());
                drop(rx);
                let (_tx, rx) = channel::<()>(1);
                let stuck = self.0.nursery(|_| Ok(rx.recv().is_ok())).unwrap_err();
                assert!(matches!(stuck.reason(), Reason::Deadlock { .. }), "{stuck}");
            }
        }
        let unwinds = catch_unwind(AssertUnwindSafe(|| {
            let _runs = RunsInDrop(&runtime);
            std::panic::resume_unwind(Box::new("as planned"));
        }));
        assert!(unwinds.is_err());
    }
}

#[test]
fn ten_thousand_seeds_leave_nothing_behind() {
    if !test_support::alone("seeded::ten_thousand_seeds_leave_nothing_behind") {
        return;
    }
    let program = || {
        nursery(|n| {
            let (tx, rx) = channel(1);
            n.spawn(move || tx.send(1));
            n.spawn(|| sleep(Duration::from_secs(1)));
            Ok(rx.recv()?)
        })
        .map(drop)
    };
    explore(0..500, program);
    let count = || ["fd", "task", "maps"].map(test_support::proc_count);
    let (before, memory) = (count(), test_support::resident_bytes());
    let begun = Instant::now();
    let explored = explore(0..10_000, program);
    println!("{:.0} seeds a second, {} different", 10_000.0 / begun.elapsed().as_secs_f64(), explored.distinct);
    let (after, grown) = (count(), test_support::resident_bytes().saturating_sub(memory));
    assert!(after.iter().zip(before).all(|(after, before)| *after <= before + 4), "{before:?} became {after:?}");
    assert!(grown < 4 << 20, "{grown} bytes more");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_seed_and_any_number_of_workers_replay(
        workers in 1_usize..=256,
        seed: u64,
        one_in in 0_u32..20,
        yields in proptest::collection::vec(0_u32..4, 1..12),
    ) {
        let build = || Runtime::builder().workers(workers).max_fibers(4096).preempt_one_in(one_in);
        let program = || {
            let order = Mutex::new(Vec::new());
            nursery(|n| {
                for (i, &yields) in yields.iter().enumerate() {
                    let order = &order;
                    n.spawn(move || {
                        (0..yields).for_each(|_| yield_now());
                        order.lock().push(i);
                    });
                }
                Ok(())
            })
            .unwrap();
            order.into_inner()
        };
        let runtime = build().seeded(seed).build().unwrap();
        let order = runtime.run(program).unwrap();
        let again = build().replay(runtime.trace()).build().unwrap();
        prop_assert_eq!(again.run(program).unwrap(), order);
        prop_assert_eq!(again.trace(), runtime.trace());
    }
}

#[test]
fn a_recursion_gets_equally_deep_in_every_run_of_a_seed() {
    #[expect(unconditional_recursion, reason = "it is to run out of stack")]
    fn down(depth: &AtomicU32) {
        depth.fetch_add(1, SeqCst);
        checkpoint();
        down(depth);
        std::hint::black_box(depth);
    }
    let depths = [(); 6].map(|()| {
        let depth = AtomicU32::new(0);
        let runtime = Runtime::builder().workers(2).max_fibers(64).seeded(7).build().unwrap();
        let ended = runtime.run(|| {
            nursery(|n| {
                n.spawn(yield_now);
                n.spawn(|| down(&depth)).join()
            })
        });
        assert!(matches!(ended.unwrap().unwrap_err().reason(), Reason::StackOverflow { .. }));
        (depth.into_inner(), runtime.trace().hash())
    });
    assert!(depths.iter().all(|run| *run == depths[0]), "{depths:?}");
}

#[test]
fn virtual_time_does_not_begin_anew_when_no_more_of_it_fits() {
    let runtime = Runtime::builder().workers(2).seeded(1).build().unwrap();
    let times = runtime.run(|| {
        let begun = now();
        [18_446_744_073_709, 1_000, u64::MAX, 0].map(|millis| {
            sleep(Duration::from_millis(millis));
            (0..3).for_each(|_| yield_now()); // each step takes a microsecond
            now() - begun
        })
    });
    let times = times.unwrap();
    assert!(times[0] >= Duration::from_millis(18_446_744_073_709), "{times:?}");
    assert!(times.is_sorted(), "{times:?}");
}
