//! What a program without `unsafe` can do to the process it runs in: end it, leak, wait for ever, and mislead a crate that takes a thread for
//! a stack. The list is in ARCHITECTURE.md; an overflow is tested in `sched-tasks`.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    os::unix::process::ExitStatusExt,
    rc::Rc,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use bursar::{Reason, Runtime, channel, nursery, sync::Mutex, unblock, yield_now};
use test_support::{output_alone, text};

/// A thread-local with stack discipline, as `scoped-tls` has it: `set` lends a value to everything that `f` calls, and puts the former one back
/// afterwards. That crate keeps a pointer here, and reads through it. This one keeps what the pointer would point to: the number of a frame.
mod scoped {
    use std::cell::Cell;

    thread_local! {
        static FRAME: Cell<u32> = const { Cell::new(0) };
    }

    pub(crate) fn set<R>(frame: u32, f: impl FnOnce() -> R) -> R {
        struct Reset(u32);
        impl Drop for Reset {
            fn drop(&mut self) {
                FRAME.set(self.0);
            }
        }
        let _reset = Reset(FRAME.replace(frame));
        f()
    }

    /// The frame whose value `with` would read; 0 if nothing is set.
    pub(crate) fn frame() -> u32 {
        FRAME.get()
    }
}

/// The program that the guide warns of. It is here to show that it goes wrong, not that it works: on the day this test fails, the warning can go.
#[test]
fn two_fibers_of_a_worker_disturb_a_scoped_thread_local_and_leave_it_dangling() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let told = &AtomicU32::new(0);
    let (inside, seen, after) = runtime
        .run(move || {
            let outcome = nursery(|n| {
                let (first_set, wait_for_first) = channel::<()>(1);
                let (second_set, wait_for_second) = channel::<()>(1);
                let first = n.spawn(move || {
                    scoped::set(1, || {
                        first_set.send(()).unwrap();
                        wait_for_second.recv().unwrap(); // the second sets its own meanwhile
                        told.store(scoped::frame(), SeqCst);
                    });
                });
                let second = n.spawn(move || {
                    wait_for_first.recv().unwrap();
                    scoped::set(2, || {
                        second_set.send(()).unwrap();
                        first.join().unwrap(); // the first leaves first: not as on a stack
                        scoped::frame()
                    })
                });
                let seen = second.join()?;
                Ok((told.load(SeqCst), seen))
            });
            let (inside, seen) = outcome.unwrap();
            (inside, seen, scoped::frame())
        })
        .unwrap();
    assert_eq!(inside, 2, "within its own scope the first fiber finds the value of the second");
    assert_eq!(seen, 0, "the second finds nothing: the first put back what was there before it");
    assert_eq!(after, 1, "and for ever after the thread has a pointer into the frame of the first, which is gone");
}

#[test]
fn a_scoped_thread_local_holds_on_threads_and_between_the_awaits_of_a_future() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let frames = runtime.run(|| {
        nursery(|n| {
            let tasks: Vec<_> =
                (1..=4).map(|i| n.spawn(move || unblock(move || scoped::set(i, scoped::frame)))).collect();
            let futures: Vec<_> = (5..=8)
                .map(|i| {
                    n.spawn_async(async move {
                        let before = scoped::set(i, scoped::frame); // a closure: no `await` fits inside
                        bursar::sleep_async(Duration::from_millis(1)).await;
                        assert_eq!(before, scoped::set(i, scoped::frame));
                        before
                    })
                })
                .collect();
            let all = tasks.into_iter().chain(futures).map(|task| task.join()).collect::<Result<Vec<_>, _>>()?;
            Ok((all, scoped::frame()))
        })
        .unwrap()
    });
    assert_eq!(frames.unwrap(), (vec![1, 2, 3, 4, 5, 6, 7, 8], 0));
}

/// What does not have stack discipline does stay valid while a fiber waits.
#[test]
fn an_rc_and_a_thread_local_of_a_worker_are_the_same_after_a_wait() {
    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let counted = runtime.run(|| {
        nursery(|n| {
            let tasks: Vec<_> = (0..20)
                .map(|_| {
                    n.spawn(|| {
                        let mine = COUNT.with(|count| std::ptr::from_ref(count).addr());
                        let shared = Rc::new(());
                        let other = shared.clone();
                        yield_now();
                        COUNT.set(COUNT.get() + 1);
                        COUNT.with(|count| std::ptr::from_ref(count).addr()) == mine && Rc::ptr_eq(&shared, &other)
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join()).collect::<Result<Vec<_>, _>>()
        })
        .unwrap()
    });
    assert!(counted.unwrap().into_iter().all(|same| same));
}

/// The language does that, and no library can contain it.
#[test]
fn a_destructor_that_panics_while_its_task_unwinds_ends_the_process() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the second panic, on purpose");
        }
    }
    let Some(output) = output_alone("a_destructor_that_panics_while_its_task_unwinds_ends_the_process") else {
        let _ = nursery(|n| {
            n.spawn(|| {
                let _bomb = Bomb;
                panic!("the first panic, on purpose");
            })
            .join()
        });
        return;
    };
    assert_eq!(output.status.signal(), Some(6), "{}", text(&output.stderr));
}

#[test]
fn what_is_forgotten_leaks_and_is_waited_for_all_the_same() {
    struct Counted<'a>(&'a AtomicU32);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let (ran, dropped) = (&AtomicU32::new(0), &AtomicU32::new(0));
    nursery(|n| {
        for i in 0..10 {
            let counted = Counted(dropped);
            let task = n.spawn(move || {
                yield_now();
                ran.fetch_add(1, SeqCst);
                if i % 2 == 0 {
                    std::mem::forget(counted);
                }
            });
            std::mem::forget(task);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!((ran.load(SeqCst), dropped.load(SeqCst)), (10, 5));
}

#[test]
fn tasks_that_wait_for_each_other_wait_until_they_are_cancelled() {
    let (left, right) = (Mutex::new(()), Mutex::new(()));
    let outcome = nursery(|n| {
        n.timeout(Duration::from_millis(50));
        let (tx, rx) = channel(2);
        let (go_left, wait_left) = channel::<()>(1);
        let (go_right, wait_right) = channel::<()>(1);
        let first = tx.clone();
        let (left, right) = (&left, &right);
        n.spawn(move || {
            let _left = left.lock();
            first.send(()).unwrap();
            wait_left.recv().unwrap();
            let _right = right.lock(); // for ever
        });
        n.spawn(move || {
            let _right = right.lock();
            tx.send(()).unwrap();
            wait_right.recv().unwrap();
            let _left = left.lock(); // for ever
        });
        rx.recv()?;
        rx.recv()?;
        go_left.send(())?;
        go_right.send(())?;
        Ok(())
    });
    assert!(matches!(outcome.unwrap_err().reason(), Reason::DeadlineExceeded { .. }));
    drop((left.lock(), right.lock())); // both are free again
}
