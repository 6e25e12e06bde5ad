//! A task that runs out of stack fails alone where its code looks first, or where it borrows nothing and asked for it. Else it ends the process: see `overflow_ends.rs`.

use std::{
    cell::RefCell,
    hint::black_box,
    pin::pin,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use sched_tasks::{
    Condvar, NurseryOptions, OnFailure, Reason, RunError, Runtime, Semaphore, TaskError, block_on, channel, join,
    nursery, nursery_with, sleep, unbounded, yield_now,
};
use test_support::{Dice, for_seeds};

use crate::support::{skipping, spin_until, until};

#[allow(unconditional_recursion)]
fn forever(n: u64) -> u64 {
    black_box(forever(black_box(n + 1)) + 1)
}

fn is_overflow(error: &TaskError) -> bool {
    matches!(error.reason(), Reason::StackOverflow { .. })
}

// ---- tasks that borrow nothing, and asked to survive ----

#[test]
fn a_task_that_borrows_nothing_may_survive_its_overflow() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let stack = if cfg!(debug_assertions) { 512 << 10 } else { 256 << 10 };
    let error = runtime.nursery(|n| n.task().name("deep").survives_overflow().spawn(|| forever(0)).join()).unwrap_err();
    assert!(matches!(error.reason(), Reason::StackOverflow { stack_bytes } if *stack_bytes == stack), "{error}");
    for part in ["`deep`", &format!("{stack} bytes"), &format!(".stack_bytes({})", stack * 2), "overflow.rs"] {
        assert!(error.to_string().contains(part), "{part} is not in: {error}");
    }
    assert_eq!(runtime.run(|| 1).unwrap(), 1);
}

#[test]
fn what_a_survivor_was_in_the_middle_of_is_kept_for_ever() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (tx, rx) = async_channel::bounded::<u32>(1);
    let (alive, beat) = mpsc::channel();
    let overflowed = runtime.nursery(|n| {
        n.task()
            .survives_overflow()
            .spawn(move || {
                let mut words: Vec<String> = (0..100).map(|i| format!("{}", i * 7919 % 100)).collect();
                let mut waiting = pin!(rx.recv());
                assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                let local = [7_u64; 64];
                thread::scope(|s| {
                    s.spawn(|| while alive.send(local.iter().sum::<u64>()).is_ok() {});
                    words.sort_by(|a, b| if a == "50" { forever(0).cmp(&0) } else { a.cmp(b) });
                });
            })
            .join()
    });
    assert!(is_overflow(&overflowed.unwrap_err()));
    block_on(tx.send(1)).unwrap(); // wakes a listener that stands on the lost stack
    drop(tx);
    let others = (0..100).map(|i| runtime.run(move || i).unwrap()).sum::<u64>();
    assert_eq!(others, 4950);
    for _ in 0..1000 {
        assert_eq!(beat.recv(), Ok(7 * 64), "the thread still reads the lost stack");
    }
}

/// Calls `leaf` on every level, so that the stack ends in the middle of it, if it can.
fn recurse(n: u64, leaf: &dyn Fn()) -> u64 {
    if black_box(n) == u64::MAX {
        return 0; // never
    }
    black_box([n as u8; 200]); // not too many levels, however well it is compiled
    leaf();
    black_box(recurse(black_box(n + 1), leaf) + 1)
}

/// A task that survives it overflows its stack in the middle of `leaf`, or unwinds in good time.
fn overflow_in(runtime: &Runtime, pad: u64, leaf: impl Fn() + Send + 'static) {
    let recursion = move || shift(pad, &|| _ = recurse(0, &leaf));
    let error = runtime.nursery(|n| n.task().survives_overflow().spawn(recursion).join()).unwrap_err();
    assert!(is_overflow(&error), "{error}");
}

#[test]
fn a_survivor_leaves_no_lock_of_the_runtime_locked() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let condvar: &Condvar = Box::leak(Box::default());
    let semaphore: &Semaphore = Box::leak(Box::new(Semaphore::new(10_000)));
    for pad in 0..40 {
        let (tx, rx) = unbounded::<u8>();
        let (meet, met) = channel::<u8>(0);
        overflow_in(&runtime, pad, {
            let (tx, meet) = (tx.clone(), meet.clone());
            move || _ = black_box(tx.len() + meet.len())
        });
        overflow_in(&runtime, pad, || _ = condvar.notify_all());
        overflow_in(&runtime, pad, || semaphore.add_permits(0));
        let permits = RefCell::new((0..9_000).map(|_| semaphore.try_acquire(1).unwrap()).collect::<Vec<_>>());
        overflow_in(&runtime, pad, move || drop(permits.borrow_mut().pop().expect("enough for every level")));
        // From a thread: no lock is held any more.
        tx.send(1).unwrap();
        assert_eq!((rx.recv().unwrap(), rx.len(), met.len()), (1, 0, 0));
        assert_eq!(condvar.notify_all(), 0);
        semaphore.add_permits(10_000 - semaphore.available());
    }
}

#[test]
fn thread_locals_that_a_survivor_lent_on_outlive_its_runtime() {
    struct Shown(Mutex<Vec<u64>>, RefCell<Option<mpsc::Sender<u64>>>);
    impl Drop for Shown {
        fn drop(&mut self) {
            let _ = self.1.take().map(|tell| tell.send(0)); // the thread has ended
        }
    }
    thread_local!(static LENT: Shown = Shown(Mutex::new(vec![1]), RefCell::default()));
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (tell, told) = mpsc::channel();
    let overflowed = runtime.nursery(|n| {
        n.task()
            .survives_overflow()
            .spawn(move || {
                LENT.with(|lent| {
                    *lent.1.borrow_mut() = Some(tell.clone());
                    let list = &lent.0;
                    thread::scope(|s| {
                        s.spawn(move || while tell.send(list.lock().unwrap()[0]).is_ok() {});
                        forever(0)
                    })
                })
            })
            .join()
    });
    assert!(is_overflow(&overflowed.unwrap_err()));
    drop(runtime);
    for _ in 0..1000 {
        assert_eq!(told.recv(), Ok(1));
    }
}

#[test]
fn a_future_that_survives_its_overflow_stays_where_it_was_pinned() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    for _ in 0..20 {
        let (tx, rx) = async_channel::bounded::<u32>(1);
        let overflowed = runtime.nursery(|n| {
            n.task()
                .survives_overflow()
                .spawn_async(async move {
                    let mut waiting = pin!(rx.recv());
                    std::future::poll_fn(|cx| {
                        assert!(waiting.as_mut().poll(cx).is_pending());
                        Poll::Ready(forever(0))
                    })
                    .await
                })
                .join()
        });
        assert!(is_overflow(&overflowed.unwrap_err()));
        let others = runtime.nursery(|n| {
            (0..50).for_each(|i| drop(n.spawn_async(async move { black_box([i; 40]) })));
            Ok(())
        });
        others.unwrap();
        block_on(tx.send(1)).unwrap(); // the listener is still in its list
    }
}

#[test]
fn a_survivors_locals_are_kept() {
    struct Reported(mpsc::Sender<&'static str>);
    impl Drop for Reported {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    sched_tasks::fiber_local! {
        static LENT: RefCell<Option<Reported>> = RefCell::new(None);
    }
    let (tell, told) = mpsc::channel();
    let overflowed = nursery(|n| {
        n.task()
            .survives_overflow()
            .spawn(move || {
                LENT.with(|lent| {
                    *lent.borrow_mut() = Some(Reported(tell));
                    forever(0)
                })
            })
            .join()
    });
    assert!(is_overflow(&overflowed.unwrap_err()));
    assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty), "neither told nor dropped");
}

// ---- code that looks first ----

/// Recursion through everything a task may call: it fails at one of these calls, and so only itself.
#[test]
fn a_recursion_that_asks_the_runtime_for_something_unwinds_in_good_time() {
    for_seeds("a_recursion_that_asks_the_runtime_for_something_unwinds_in_good_time", 0..12, |seed| {
        let dice = Dice::new(seed);
        let runtime = Runtime::builder().workers(2).stack_bytes(64 << 10).build().unwrap();
        let (others, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
        for _ in 0..10 {
            let kind = dice.below(7);
            let pad = dice.below(64);
            let outcome = runtime.run(|| {
                nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
                    n.spawn(|| shift(pad, &|| descend(kind, 0, &dropped)));
                    for _ in 0..20 {
                        n.spawn(|| {
                            yield_now();
                            others.fetch_add(1, SeqCst);
                        });
                    }
                    Ok(())
                })
            });
            let error = outcome.unwrap().unwrap_err();
            assert!(is_overflow(&error), "seed {seed}, kind {kind}, pad {pad}: {error}");
        }
        assert_eq!(others.load(SeqCst), 200);
        let dropped = dropped.load(SeqCst); // how many fit depends on the size of unoptimised frames
        assert!(dropped > 50, "frames are unwound, not skipped: {dropped}");
        assert_eq!((runtime.stats().total().overflows, runtime.stacks().quarantined), (0, 0));
    });
}

/// Moves the end of the stack to another instruction.
fn shift(pad: u64, f: &dyn Fn()) {
    if pad > 0 {
        black_box([pad as u8; 40]);
        shift(black_box(pad - 1), f);
    } else {
        f();
    }
    black_box(pad);
}

struct Counts<'a>(&'a AtomicU64);

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[allow(unconditional_recursion)]
fn descend(kind: u64, depth: u64, dropped: &AtomicU64) {
    let _counts = Counts(dropped);
    match kind {
        0 => yield_now(),
        1 => drop(nursery(|n| {
            n.spawn(|| ());
            Ok(())
        })),
        2 => {
            join(|| black_box(depth), || black_box(depth));
        }
        3 => drop(nursery(|n| n.spawn(yield_now).join())),
        4 => sleep(Duration::from_nanos(1)),
        5 => {
            let (tx, rx) = channel(1);
            tx.send(depth).and_then(|()| rx.recv().map_err(|_| unreachable!())).unwrap();
        }
        _ => drop(join(|| descend(kind, depth + 1, dropped), || black_box(depth))),
    }
    descend(kind, black_box(depth + 1), dropped);
    black_box(depth);
}

#[test]
fn a_task_that_ran_out_of_room_can_catch_it_and_its_stack_is_whole_again() {
    #[expect(unconditional_recursion, reason = "it is to overflow")]
    fn to_the_end() {
        black_box([0u8; 32]);
        yield_now();
        to_the_end();
        black_box([0u8; 32]);
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    for _ in 0..50 {
        let caught = runtime.run(|| std::panic::catch_unwind(to_the_end).is_err()).unwrap();
        assert!(caught);
        // On the same stack: its guard stops it, as before.
        let error = runtime.nursery(|n| n.task().survives_overflow().spawn(|| forever(0)).join()).unwrap_err();
        assert!(is_overflow(&error), "{error}");
    }
}

// ---- more stack ----

fn depth(n: u64) -> u64 {
    black_box([n; 8]);
    if n == 0 { 0 } else { black_box(depth(n - 1)) + 1 }
}

#[test]
fn a_task_gets_the_stack_it_asks_for() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for round in 0..20 {
        let sum = runtime
            .nursery(|n| {
                let tasks: Vec<_> = (0..20)
                    .map(|i| match i % 4 {
                        0 => n.task().stack_bytes(64 << 20).spawn(|| depth(50_000)),
                        1 => n.task().stack_bytes(32 << 20).spawn(|| {
                            yield_now();
                            depth(50_000)
                        }),
                        2 => n.task().stack_bytes(32 << 20).spawn_async(async { depth(50_000) }),
                        _ => n.spawn(|| 50_000),
                    })
                    .collect();
                tasks.into_iter().map(|task| task.join()).sum::<Result<u64, _>>()
            })
            .unwrap();
        assert_eq!(sum, 20 * 50_000, "round {round}");
    }
}

#[test]
fn a_stolen_half_of_a_join_has_as_much_stack_as_its_task() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let stolen = AtomicBool::new(false);
    let halves = || {
        join(
            || spin_until(|| stolen.load(SeqCst)),
            || {
                stolen.store(true, SeqCst);
                depth(50_000)
            },
        )
    };
    let (_, deep) = runtime.nursery(|n| n.task().stack_bytes(32 << 20).spawn(halves).join()).unwrap();
    assert_eq!(deep, 50_000);
}

#[test]
fn a_stack_that_is_too_large_is_refused_and_its_captures_are_dropped() {
    let (tell, told) = mpsc::channel::<()>();
    let error = nursery(|n| n.task().stack_bytes(2 << 30).spawn(move || drop(tell)).join()).unwrap_err();
    assert!(matches!(error.reason(), Reason::OutOfStacks { .. }), "{error}");
    assert!(error.to_string().contains("1073741824"), "{error}");
    assert_eq!(told.recv(), Err(mpsc::RecvError));
}

#[test]
fn captures_and_results_larger_than_a_stack_are_counted_like_any_other() {
    // The task that makes them needs the stack for it.
    thread::Builder::new().stack_size(64 << 20).spawn(large_captures_and_results).unwrap().join().unwrap();
}

fn large_captures_and_results() {
    const BYTES: usize = 700 << 10; // more than the usual stack
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let captured = [7_u8; BYTES];
    let sum = runtime.nursery(|n| n.spawn(move || captured.iter().map(|&byte| u64::from(byte)).sum::<u64>()).join());
    assert_eq!(sum.unwrap(), 7 * BYTES as u64);
    let result = runtime.nursery(|n| n.spawn(|| black_box([3_u8; BYTES])).join());
    assert_eq!(result.unwrap()[BYTES - 1], 3);
    let result = runtime.nursery(|n| n.spawn_async(async { black_box([3_u8; BYTES]) }).join());
    assert_eq!(result.unwrap()[BYTES - 1], 3);
    // Never run, and never read.
    let captured = [7_u8; BYTES];
    let cancelled = runtime.nursery(|n| {
        n.cancel();
        n.spawn(move || captured[0]);
        n.spawn(|| black_box([3_u8; BYTES]));
        Ok(())
    });
    assert!(cancelled.unwrap_err().is_cancelled());
    let forgotten = runtime.nursery(|n| {
        n.spawn(|| black_box([3_u8; BYTES]));
        Ok(())
    });
    forgotten.unwrap();
}

#[test]
fn a_panic_whose_payload_panics_when_it_is_dropped_is_counted_like_any_other() {
    struct Bomb(u32);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::panic_any(Bomb(self.0 - 1));
            }
        }
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    for fuse in 1..4 {
        let outcome = runtime.nursery(|n| n.spawn(move || std::panic::panic_any(Bomb(fuse))).join());
        assert!(matches!(outcome.unwrap_err().reason(), Reason::Panicked { .. }));
        let outcome = runtime.nursery(|n| n.spawn_async(async move { std::panic::panic_any(Bomb(fuse)) }).join());
        assert!(matches!(outcome.unwrap_err().reason(), Reason::Panicked { .. }));
    }
    // An error, too, may have a destructor, and may not be wanted.
    #[derive(Debug)]
    struct Fails(#[expect(dead_code, reason = "it is dropped")] Mutex<Option<Droppable>>);
    #[derive(Debug)]
    struct Droppable;
    impl Drop for Droppable {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    impl std::fmt::Display for Fails {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("fails")
        }
    }
    impl std::error::Error for Fails {}
    for _ in 0..100 {
        let outcome = runtime.nursery(|n| {
            n.try_spawn(|| -> Result<(), TaskError> { Err(Fails(Mutex::new(Some(Droppable))).into()) });
            Ok(())
        });
        let error = outcome.unwrap_err();
        std::mem::forget(error);
    }
    assert_eq!(runtime.run(|| 1).unwrap(), 1);
}

// ---- a runtime whose frames are vouched for ----

#[test]
fn fifty_overflows_in_one_runtime_do_no_harm() {
    let runtime = skipping().workers(2).build().unwrap();
    let lost_before = runtime.stacks().quarantined; // by a runtime that had this memory before
    for round in 0..50 {
        let error = runtime.run(|| forever(0)).unwrap_err();
        assert!(matches!(&error, RunError::Task(error) if is_overflow(error)), "{error}");
        assert_eq!(runtime.run(|| round).unwrap(), round);
    }
    assert_eq!(runtime.stats().total().overflows, 50);
    assert_eq!(runtime.stacks().quarantined - lost_before, 50);
}

#[test]
fn overflows_that_use_up_all_stacks_are_errors_and_never_a_hang() {
    let runtime = skipping().workers(2).max_fibers(3).build().unwrap();
    let mut refused = 0;
    for _ in 0..60 {
        match runtime.run(|| forever(0)).unwrap_err() {
            RunError::Task(error) if is_overflow(&error) => {}
            RunError::Task(error) => {
                assert!(matches!(error.reason(), Reason::OutOfStacks { .. }), "{error}");
                refused += 1;
            }
            error => panic!("{error}"),
        }
    }
    assert!(refused > 0, "there are fewer stacks than overflows");
}

#[test]
fn an_overflow_waits_for_the_children_that_borrow_from_its_stack() {
    let runtime = skipping().workers(2).build().unwrap();
    let (seen, cancelled) = (AtomicU64::new(0), AtomicU64::new(0));
    for _ in 0..20 {
        let error = runtime
            .run(|| {
                let local = [7_u64; 64]; // on the stack that is lost
                nursery(|n| {
                    let started = AtomicBool::new(false);
                    let started = &*Box::leak(Box::new(started));
                    n.spawn(|| {
                        struct Count<'a>(&'a AtomicU64, &'a AtomicU64, &'a [u64; 64]);
                        impl Drop for Count<'_> {
                            fn drop(&mut self) {
                                self.0.fetch_add(self.2.iter().sum(), SeqCst);
                                self.1.fetch_add(1, SeqCst);
                            }
                        }
                        let _count = Count(&seen, &cancelled, &local);
                        started.store(true, SeqCst);
                        sleep(Duration::from_secs(3600));
                    });
                    until(|| started.load(SeqCst));
                    Ok(forever(0))
                })
            })
            .unwrap_err();
        assert!(matches!(&error, RunError::Task(error) if is_overflow(error)), "{error}");
    }
    assert_eq!((seen.load(SeqCst), cancelled.load(SeqCst)), (20 * 7 * 64, 20));
}

#[test]
fn an_overflow_in_either_half_of_a_join_is_the_tasks_failure() {
    let runtime = skipping().workers(2).build().unwrap();
    for round in 0..40 {
        let (stolen, ran) = (AtomicBool::new(false), AtomicU64::new(0));
        let count = || ran.fetch_add(1, SeqCst);
        let outcome = match round % 4 {
            0 => runtime.run(|| join(|| forever(0), count)), // the second half is in the deque, unstarted
            1 => runtime.run(|| join(count, || forever(0))), // run inline
            2 => runtime.run(|| {
                join(
                    || {
                        spin_until(|| stolen.load(SeqCst));
                        count()
                    },
                    || {
                        stolen.store(true, SeqCst);
                        forever(0)
                    },
                )
            }),
            _ => runtime.run(|| {
                join(
                    || {
                        spin_until(|| stolen.load(SeqCst));
                        forever(0)
                    },
                    || {
                        stolen.store(true, SeqCst);
                        yield_now();
                        count()
                    },
                )
            }),
        };
        let error = outcome.unwrap_err();
        assert!(matches!(&error, RunError::Task(error) if is_overflow(error)), "round {round}: {error}");
        assert_eq!(ran.load(SeqCst), 1, "round {round}: the other half ran");
    }
}

#[test]
fn an_overflow_beside_a_destructor_that_waits_does_not_abort() {
    let (ready, over) = (AtomicBool::new(false), AtomicBool::new(false));
    struct Waits<'a>(&'a AtomicBool, &'a AtomicBool);
    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
            until(|| self.1.load(SeqCst)); // unwinding, and stopped
        }
    }
    let runtime = skipping().workers(1).build().unwrap();
    let outcome = runtime.run(|| {
        nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
            n.spawn(|| {
                let _waits = Waits(&ready, &over);
                panic!("on purpose");
            });
            until(|| ready.load(SeqCst));
            let overflowed = n.spawn(|| forever(0)).join();
            over.store(true, SeqCst);
            overflowed
        })
    });
    let error = outcome.unwrap().unwrap_err();
    assert!(is_overflow(&error) || error.others().iter().any(is_overflow), "{error}");
}

#[test]
fn join_too_deep_on_a_plain_thread_says_so() {
    fn deep(n: u64) -> u64 {
        if n == 0 { 0 } else { join(|| deep(n - 1), || 1).0 + 1 }
    }
    let caught = std::panic::catch_unwind(|| deep(1_000_000)).unwrap_err();
    let text = caught.downcast_ref::<String>().expect("a panic with words");
    assert!(text.contains("overflowed its stack"), "{text}");
}
