//! What a block says about its end is the same on a thread and in a task, and nothing that failed is forgotten.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::{Duration, Instant},
};

use sched_tasks::{
    Budget, CapChannel, CapError, Confinement, Ledger, NurseryOptions, OnFailure, Reason, RunError, Runtime, TaskError,
    channel, charge, current_worker, is_cancelled, join, now, nursery, nursery_with, run, shield, sleep, unbounded,
    yield_now,
};
use test_support::{output_alone, text};

use crate::support::{spin_until, until};

/// Runs `body` on a plain thread, and in a task.
fn on_both(body: impl Fn() -> Result<(), TaskError> + Send + Sync) -> [Result<(), TaskError>; 2] {
    let in_task = run(&body).unwrap_or_else(|error| match error {
        RunError::Task(error) => Err(error),
        error => panic!("{error}"),
    });
    [body(), in_task]
}

#[test]
fn join_in_a_cancelled_body_ends_the_body_on_a_thread_as_in_a_task() {
    for outcome in on_both(|| {
        nursery(|n| {
            n.cancel();
            join(yield_now, yield_now);
            yield_now();
            Ok(())
        })
    }) {
        assert!(outcome.unwrap_err().is_cancelled());
    }
}

#[test]
fn a_half_that_is_out_of_budget_is_an_error_of_the_body_on_a_thread() {
    let outcome = nursery_with(NurseryOptions::new().budget(Budget::ops(100).spawns(10)), |_| {
        join(|| charge(1_000), || ());
        Ok(())
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error.reason(), Reason::BudgetExhausted { .. }), "{error}");
}

#[test]
fn a_panic_of_a_half_is_the_same_panic_on_a_thread_as_in_a_task() {
    let caught = || {
        let payload = catch_unwind(|| join(|| (), || std::panic::panic_any(42u8))).unwrap_err();
        payload.downcast_ref::<u8>().copied()
    };
    assert_eq!((caught(), run(caught).unwrap()), (Some(42), Some(42)));
}

#[test]
fn a_refused_channel_is_an_error_of_the_body_that_wanted_it() {
    for outcome in on_both(|| {
        let none = Ledger::new().grant(CapChannel::new().max_channels(0));
        nursery_with(NurseryOptions::new().name("tenant").capability(&none), |_| {
            let (_tx, _rx) = channel::<u8>(1);
            Ok(())
        })?;
        nursery_with(NurseryOptions::new().name("tenant").capability(&none), |_| {
            let (_tx, _rx) = unbounded::<u8>();
            Ok(())
        })
    }) {
        let error = outcome.unwrap_err();
        assert!(matches!(error.reason(), Reason::NotAllowed(CapError::ChannelLimitExceeded { .. })), "{error}");
    }
}

#[test]
fn a_refused_channel_is_a_panic_where_there_is_no_task_to_end_with_it() {
    let none = Ledger::new().grant(CapChannel::new().max_channels(0));
    let limits = nursery_with(NurseryOptions::new().capability(&none), |_| Ok(Confinement::here())).unwrap();
    let limits = limits.expect("a tenant is limited");
    for open in [|| drop(channel::<u8>(1)), || drop(unbounded::<u8>())] {
        let thrown = std::thread::scope(|s| s.spawn(|| limits.enter(open)).join()).unwrap_err();
        let said = thrown.downcast::<String>().unwrap();
        assert!(said.starts_with("ChannelLimitExceeded: ") && said.contains("max_channels"), "{said}");
    }
    // No capability, no refusal.
    let (tx, rx) = channel(1 << 10);
    tx.send(1).unwrap();
    assert_eq!(rx.recv(), Ok(1));
}

#[test]
fn a_program_that_ends_by_a_refused_channel_says_so() {
    match output_alone("verdicts::a_program_that_ends_by_a_refused_channel_says_so") {
        None => {
            let none = Ledger::new().grant(CapChannel::new().max_channels(0));
            nursery_with(NurseryOptions::new().name("tenant").capability(&none), |_| {
                let (_tx, _rx) = channel::<u8>(1);
                Ok(())
            })
            .unwrap();
        }
        Some(output) => {
            let said = text(&output.stderr) + &text(&output.stdout);
            assert!(!output.status.success());
            assert!(said.contains("nursery `tenant`") || said.contains("0 of 0 allowed channels"), "{said}");
        }
    }
}

#[test]
fn a_body_that_is_out_of_budget_fails_its_nursery_on_a_thread_as_in_a_task() {
    let [thread, task] = on_both(|| {
        nursery_with(NurseryOptions::new().budget(Budget::ops(100)), |_| {
            (0..1_000).for_each(|_| charge(1));
            Ok(())
        })
    });
    assert_eq!(thread.is_ok(), task.is_ok(), "{thread:?} {task:?}");
}

#[test]
fn an_error_of_a_child_is_kept_when_the_body_panics_after_it() {
    for policy in [OnFailure::CancelSiblings, OnFailure::WaitAll] {
        for outcome in on_both(|| {
            nursery_with(NurseryOptions::new().on_failure(policy), |n| {
                let child = n.try_spawn(|| Err::<(), _>(TaskError::msg("the disk is full")));
                shield(|| child.join()).unwrap(); // else the failure may cancel the body before it is told
                Ok(())
            })
        }) {
            let error = outcome.unwrap_err();
            assert!(error.to_string().contains("the disk is full"), "{error}");
            let [panic] = error.others() else { panic!("{error}") };
            assert!(panic.is_panic() && panic.to_string().contains("unwrap"), "{panic}");
        }
    }
}

#[test]
fn errors_of_children_are_kept_when_the_body_panicked_before_them() {
    let begun = AtomicBool::new(false);
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let outcome: Result<(), RunError> = runtime.run(|| {
        nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll).grace(Duration::from_secs(3600)), |n| {
            n.try_spawn(|| {
                begun.store(true, SeqCst);
                spin_until(is_cancelled); // because the body panicked
                Err::<(), _>(TaskError::msg("the disk is full"))
            });
            spin_until(|| begun.load(SeqCst)); // stolen: its own worker is ours
            panic!("first");
            #[allow(unreachable_code)]
            Ok(())
        })
        .unwrap()
    });
    let Err(RunError::Task(error)) = outcome else { panic!("{outcome:?}") };
    assert!(error.is_panic() && error.to_string().contains("first"), "{error}");
    assert!(error.others().iter().any(|other| other.to_string().contains("the disk is full")), "{error}");
    // It is said once: the next panic has nothing to do with it.
    let next = run(|| -> () { panic!("second") }).unwrap_err();
    assert!(!next.to_string().contains("disk"), "{next}");
}

#[test]
fn a_deadline_is_only_ever_moved_forward() {
    let runtime = Runtime::builder().workers(2).seeded(7).build().unwrap();
    let time = |options: NurseryOptions, then: &[u64]| {
        runtime
            .run(|| {
                let begun = now();
                let outcome = nursery_with(options, |n| {
                    then.iter().for_each(|&seconds| n.timeout(Duration::from_secs(seconds)));
                    n.spawn(|| sleep(Duration::from_secs(3600))).join()
                });
                let error = outcome.unwrap_err();
                let Reason::DeadlineExceeded { after } = error.reason() else { panic!("{error}") };
                ((now() - begun).as_secs(), after.as_secs())
            })
            .unwrap()
    };
    let within = |seconds| NurseryOptions::new().timeout(Duration::from_secs(seconds));
    assert_eq!(time(NurseryOptions::new(), &[5, 50]), (5, 5));
    assert_eq!(time(NurseryOptions::new(), &[50, 5]), (5, 5));
    assert_eq!(time(within(5), &[50]), (5, 5));
    assert_eq!(time(within(5).timeout(Duration::from_secs(50)), &[]), (5, 5));
    assert_eq!(time(within(50).timeout(Duration::from_secs(5)), &[100, 7]), (5, 5));
}

#[test]
fn a_deadline_at_a_time_goes_by_the_clock_of_the_run() {
    let runtime = Runtime::builder().workers(2).seeded(7).build().unwrap();
    let time = |open: &(dyn Fn(Instant) -> Result<(), TaskError> + Sync)| {
        runtime
            .run(|| {
                let begun = now();
                let error = open(begun + Duration::from_secs(3600)).unwrap_err();
                assert!(matches!(error.reason(), Reason::DeadlineExceeded { .. }), "{error}");
                (now() - begun).as_secs()
            })
            .unwrap()
    };
    let day = Duration::from_secs(24 * 3600);
    let rests = || {
        sleep(day);
        Ok(())
    };
    let said_before = |at| nursery_with(NurseryOptions::new().deadline(at), |_| rests());
    let said_inside = |at| {
        nursery(|n| {
            n.deadline(at);
            rests()
        })
    };
    let the_earliest = |at| {
        nursery_with(NurseryOptions::new().deadline(at + day).deadline(at).timeout(day), |n| {
            n.deadline(at + day);
            rests()
        })
    };
    assert_eq!((time(&said_before), time(&said_inside), time(&the_earliest)), (3600, 3600, 3600));
    let passed = |at: Instant| {
        nursery(|n| {
            n.deadline(at - Duration::from_secs(3600));
            rests()
        })
    };
    assert_eq!(time(&passed), 0);
}

#[test]
fn a_deadline_inside_another_does_not_outlast_it() {
    let runtime = Runtime::builder().workers(2).seeded(7).build().unwrap();
    let took = runtime.run(|| {
        let begun: Instant = now();
        let outcome = nursery_with(NurseryOptions::new().timeout(Duration::from_secs(5)), |_| {
            nursery_with(NurseryOptions::new().timeout(Duration::from_secs(50)), |n| {
                n.spawn(|| sleep(Duration::from_secs(3600))).join()
            })
        });
        assert!(matches!(outcome.unwrap_err().reason(), Reason::DeadlineExceeded { .. }));
        (now() - begun).as_secs()
    });
    assert_eq!(took.unwrap(), 5);
}

#[test]
fn run_inside_a_task_stays_in_the_runtime_of_the_task() {
    let runtime = Runtime::builder().workers(1).name("inner").build().unwrap();
    let thread = || std::thread::current().name().map(str::to_owned);
    let names = runtime.run(|| (thread(), run(thread).unwrap(), run(current_worker).unwrap())).unwrap();
    assert_eq!(names, (Some("inner-0".into()), Some("inner-0".into()), Some(0)));
    // And it is inside the nursery of the task: what cancels the one cancels the other.
    let begun = AtomicBool::new(false);
    let outcome = runtime.nursery(|n| {
        n.spawn(|| {
            run(|| {
                begun.store(true, SeqCst);
                sleep(Duration::from_secs(3600));
            })
        });
        until(|| begun.load(SeqCst));
        n.cancel();
        Ok(())
    });
    assert!(outcome.unwrap_err().is_cancelled());
    let caught = catch_unwind(AssertUnwindSafe(|| runtime.run(|| run(|| 1).unwrap()).unwrap()));
    assert_eq!(caught.unwrap(), 1);
}
