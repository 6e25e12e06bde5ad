//! Every error says what happened, what the limit is, and the way out.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use sched_tasks::{
    Builder, Component, NurseryOptions, NurseryState, OnFailure, Reason, RunError, Runtime, TaskError, channel, join,
    nursery, nursery_with, run, sleep, yield_now,
};
use test_support::test_timeout;

use crate::support::{spin_until, until};

fn says(error: &impl std::fmt::Display, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn a_runtime_that_cannot_be_is_refused_with_value_limit_and_way_out() {
    let refused: [(Builder, &[&str]); 8] = [
        (Runtime::builder().workers(0), &["0 workers", "1 to 256", "`.workers()`"]),
        (Runtime::builder().workers(257), &["257 workers", "1 to 256", "`.workers()`"]),
        (Runtime::builder().stack_bytes(70_000), &["70000 bytes", "4096", "`stack_bytes` = 73728"]),
        (Runtime::builder().stack_bytes(4096), &["4096 bytes", "minimum of 65536", "raise `stack_bytes`"]),
        (Runtime::builder().stack_bytes(0), &["0 bytes", "minimum of 65536", "raise `stack_bytes`"]),
        (
            Runtime::builder().stack_bytes(2 << 30),
            &["2147483648 bytes", "maximum of 1073741824", "lower `stack_bytes`"],
        ),
        (Runtime::builder().max_fibers(0), &["`max_fibers` is 0", "between 1 and"]),
        (Runtime::builder().max_fibers(usize::MAX), &["`max_fibers` is 18446744073709551615", "between 1 and"]),
    ];
    for (builder, parts) in refused {
        says(&builder.build().unwrap_err(), parts);
    }
}

#[test]
fn a_spawn_over_the_limit_fails_and_names_the_limit() {
    let ran = AtomicU64::new(0);
    let options = NurseryOptions::new().spawn_limit(3).on_failure(OnFailure::WaitAll);
    let error = nursery_with(options, |n| {
        for _ in 0..3 {
            n.spawn(|| ran.fetch_add(1, SeqCst));
        }
        let refused = n.spawn(|| ran.fetch_add(100, SeqCst)).join().unwrap_err();
        assert!(
            matches!(refused.reason(), Reason::BudgetExhausted { component: Component::Spawns, granted: 3, .. }),
            "{refused}"
        );
        says(&refused, &["the 3 tasks it may", "spawn_limit", "errors.rs"]);
        Ok(())
    })
    .unwrap_err();
    assert!(
        matches!(error.reason(), Reason::BudgetExhausted { component: Component::Spawns, granted: 3, .. }),
        "{error}"
    );
    assert_eq!(ran.load(SeqCst), 3);
}

#[test]
fn more_blocked_fibers_than_stacks_is_an_error_of_those_that_got_none() {
    let runtime = Runtime::builder().workers(2).max_fibers(4).build().unwrap();
    let (wake, woken) = channel::<()>(0);
    let finished = AtomicU64::new(0);
    let outcome = runtime.run(|| {
        nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
            let tasks: Vec<_> = (0..20)
                .map(|_| {
                    n.spawn(|| {
                        let _ = woken.recv();
                        finished.fetch_add(1, SeqCst);
                    })
                })
                .collect();
            until(|| tasks.iter().filter(|task| task.is_done()).count() >= 17); // 3 have a stack, the root the fourth
            drop(wake);
            Ok(())
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert!(matches!(error.reason(), Reason::OutOfStacks { .. }), "{error}");
    says(&error, &["4 stacks", "raise `max_fibers`"]);
    assert_eq!((finished.load(SeqCst), error.others().len()), (3, 16));
    spin_until(|| runtime.stacks().in_use == 0); // no worker keeps what the other might need
    assert_eq!(runtime.run(|| 5).unwrap(), 5, "stacks are free again");
}

#[test]
fn a_task_refused_for_want_of_a_stack_may_have_a_destructor_that_yields() {
    struct Yields<'a>(&'a AtomicU64);
    impl Drop for Yields<'_> {
        fn drop(&mut self) {
            yield_now();
            self.0.fetch_add(1, SeqCst);
        }
    }
    let runtime = Runtime::builder().workers(1).max_fibers(2).build().unwrap();
    let (dropped, finished) = (AtomicU64::new(0), AtomicU64::new(0));
    let outcome = runtime.run(|| {
        nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
            for _ in 0..10 {
                let guard = Yields(&dropped);
                n.spawn(|| {
                    let _guard = guard;
                    sleep(Duration::from_millis(1));
                    finished.fetch_add(1, SeqCst);
                });
            }
            Ok(())
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert_eq!(dropped.load(SeqCst), 10);
    assert_eq!(finished.load(SeqCst) + 1 + error.others().len() as u64, 10);
}

#[test]
fn a_spawn_after_close_names_the_state_and_is_the_nurserys_error() {
    let outcome = nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
        assert_eq!(n.state(), NurseryState::Open);
        n.close();
        assert_eq!(n.state(), NurseryState::Closing);
        let refused = n.spawn(|| ()).join().unwrap_err();
        let closing = Reason::NurseryNotActive { state: NurseryState::Closing };
        assert_eq!(format!("{:?}", refused.reason()), format!("{closing:?}"));
        let refused = n.spawn_async(async {}).join().unwrap_err();
        says(&refused, &["the nursery is closing", "before it is closed"]);
        Ok(())
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error.reason(), Reason::NurseryNotActive { state: NurseryState::Closing }), "{error}");
    assert_eq!(error.others().len(), 1);
}

#[test]
fn a_worker_that_panics_is_restarted_and_nothing_is_lost() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (started, go_on, done) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let threads = Mutex::new(std::collections::HashSet::new());
    runtime
        .nursery(|n| {
            for _ in 0..100 {
                n.spawn(|| {
                    let before = thread::current().id();
                    started.fetch_add(1, SeqCst);
                    until(|| go_on.load(SeqCst));
                    assert_eq!(before, thread::current().id(), "a started fiber left its thread");
                    threads.lock().unwrap().insert(before);
                    done.fetch_add(1, SeqCst);
                });
            }
            spin_until(|| started.load(SeqCst) == 100);
            (0..2).for_each(|worker| runtime.fail_worker(worker));
            go_on.store(true, SeqCst);
            spin_until(|| done.load(SeqCst) == 100);
            Ok(())
        })
        .unwrap();
    // A worker that slept fails at its next turn: give both one.
    spin_until(|| {
        join_on(&runtime);
        runtime.stats().workers.iter().all(|worker| worker.restarts == 1)
    });
    assert_eq!(runtime.run(|| 1).unwrap(), 1);
}

/// Something for two workers at a time.
fn join_on(runtime: &Runtime) {
    let begun = Instant::now();
    let both = AtomicU64::new(0);
    let meet = || {
        both.fetch_add(1, SeqCst);
        spin_until(|| both.load(SeqCst) == 2 || begun.elapsed() > Duration::from_millis(20));
    };
    runtime.run(|| join(meet, meet)).unwrap();
}

#[test]
fn a_panic_in_a_stolen_half_says_where_it_was() {
    let stolen = AtomicBool::new(false);
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let outcome = runtime.run(|| {
        join(
            || spin_until(|| stolen.load(SeqCst)),
            || {
                stolen.store(true, SeqCst);
                panic!("in the second half")
            },
        )
    });
    says(&outcome.unwrap_err(), &["in the second half", "errors.rs:"]);
}

#[test]
fn with_wait_all_every_failure_is_reported_once_and_in_order() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let outcome: Result<(), TaskError> = runtime
        .run(|| {
            nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
                for number in 0..5 {
                    let failed = n.try_spawn(move || Err::<(), _>(TaskError::msg(format!("failure {number}"))));
                    let error = failed.join().unwrap_err();
                    if number == 4 {
                        return Err(error); // not the first: known all the same
                    }
                }
                Ok(())
            })
        })
        .unwrap();
    let error = outcome.unwrap_err();
    let told: Vec<_> = std::iter::once(&error).chain(error.others()).map(|e| e.reason().to_string()).collect();
    assert_eq!(told, (0..5).map(|number| format!("failed: failure {number}")).collect::<Vec<_>>());
    says(&error, &["failure 0", "and 4 more"]);
}

#[test]
fn a_task_on_one_runtime_may_run_something_on_another_or_on_its_own() {
    let [ours, theirs] = [(); 2].map(|()| Runtime::builder().workers(1).build().unwrap());
    let sum = ours.run(|| {
        let here = ours.run(|| 1).unwrap();
        let there = theirs.run(|| theirs.nursery(|n| n.spawn(|| run(|| 10).unwrap()).join()).unwrap()).unwrap();
        let both = nursery(|n| {
            let a = n.spawn(|| theirs.nursery(|m| m.spawn(|| 100).join()));
            a.join()?
        });
        here + there + both.unwrap()
    });
    assert_eq!(sum.unwrap(), 111);
    let nested = nursery(|outer| nursery(|inner| inner.spawn(|| 1).join()).map(|one| (one, outer.spawn(|| 2).join())));
    assert!(matches!(nested, Ok((1, Ok(2)))));
}

/// Waits for a forked child for a while; its status, or None if it hangs.
fn reap(child: libc::pid_t) -> Option<i32> {
    let begun = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: `child` is ours, and `status` is written to.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return Some(status);
        }
        if begun.elapsed() > test_timeout() {
            // SAFETY: as above.
            unsafe { libc::kill(child, libc::SIGKILL) };
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_fork_gets_an_error_because_it_has_no_workers() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| ()).unwrap();
    let doors: [&dyn Fn() -> bool; 3] = [
        &|| matches!(runtime.run(|| ()), Err(RunError::Forked { .. })),
        &|| runtime.nursery(|n| n.spawn(|| ()).join()).is_err_and(|error| error.to_string().contains("fork")),
        &|| {
            // Dropped in the fork: there is no thread to join.
            // SAFETY: read once, in a process that ends without dropping the original.
            drop(unsafe { std::ptr::read(&runtime) });
            true
        },
    ];
    for (number, door) in doors.iter().enumerate() {
        // SAFETY: the child calls only `door`, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let told = door();
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(if told { 0 } else { 1 }) };
        }
        assert_eq!(reap(child), Some(0), "door {number}");
    }
    assert_eq!(runtime.run(|| 3).unwrap(), 3, "the parent goes on");
}

#[test]
fn a_nursery_with_a_name_says_it() {
    let options = NurseryOptions::new().name("plugin-7").spawn_limit(0);
    let error = nursery_with(options, |n| n.spawn(|| ()).join()).unwrap_err();
    assert!(error.to_string().contains("`plugin-7`"), "{error}");
    let options = NurseryOptions::new().name("plugin-8").timeout(Duration::from_millis(1));
    let error = nursery_with(options, |_| {
        sleep(Duration::from_secs(3600));
        Ok(())
    });
    assert!(error.unwrap_err().to_string().contains("`plugin-8`"));
}

#[test]
fn a_body_that_hands_on_a_cancellation_leaves_no_child_behind() {
    let outcome: Result<(), _> = run(|| {
        nursery(|n| {
            n.spawn(|| sleep(Duration::from_secs(3600)));
            nursery(|inner| {
                inner.cancel();
                Ok(())
            })
        })
    })
    .unwrap();
    assert!(outcome.unwrap_err().is_cancelled());
}
