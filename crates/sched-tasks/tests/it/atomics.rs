//! Atomics in runs that a seed decides.

use sched_tasks::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use sched_tasks::{Explore, explore, nursery, yield_now};

/// A lock of one bit. Broken, it looks first and takes after.
fn spin_lock(broken: bool) {
    let (locked, inside) = (AtomicBool::new(false), AtomicU32::new(0));
    nursery(|n| {
        for _ in 0..3 {
            n.spawn(|| {
                loop {
                    let taken = if broken {
                        let free = !locked.load(Acquire);
                        if free {
                            locked.store(true, Release);
                        }
                        free
                    } else {
                        locked.compare_exchange(false, true, Acquire, Relaxed).is_ok()
                    };
                    if taken {
                        break;
                    }
                    yield_now();
                }
                assert_eq!(inside.fetch_add(1, AcqRel), 0, "two have the lock");
                inside.fetch_sub(1, AcqRel);
                locked.store(false, Release);
            });
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn explore_finds_what_is_wrong_with_a_lock_made_of_atomics() {
    let finding = Explore::new().find(0..500, || spin_lock(true)).expect_err("some seed comes between look and take");
    assert!(finding.message.contains("two have the lock"), "{finding}");
    explore(0..500, || spin_lock(false));
}

/// A counter whose slow path loses an update if another task comes between.
#[test]
fn explore_finds_a_lost_update_and_none_in_fetch_update() {
    let count = |right: bool| {
        let counter = AtomicUsize::new(0);
        nursery(|n| {
            for _ in 0..2 {
                n.spawn(|| {
                    if right {
                        counter.fetch_update(AcqRel, Acquire, |now| Some(now + 1)).unwrap();
                    } else {
                        counter.store(counter.load(Acquire) + 1, Release);
                    }
                });
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(counter.into_inner(), 2, "an update is lost");
    };
    assert!(Explore::new().find(0..500, || count(false)).is_err());
    explore(0..500, || count(true));
}

#[test]
fn outside_such_runs_they_are_those_of_the_standard_library() {
    static TOTAL: AtomicI64 = AtomicI64::new(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..10_000).for_each(|n| _ = TOTAL.fetch_add(if n % 2 == 0 { 3 } else { -2 }, Relaxed)));
        }
    });
    assert_eq!(TOTAL.load(Relaxed), 20_000);
    let mut own = AtomicU32::from(5);
    *own.get_mut() += 1;
    assert_eq!(
        (own.fetch_max(9, Relaxed), own.fetch_and(8, Relaxed), own.swap(1, Relaxed), own.into_inner()),
        (6, 9, 8, 1)
    );
}
