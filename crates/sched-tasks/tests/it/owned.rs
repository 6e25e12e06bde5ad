//! Nurseries that a value owns.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use sched_tasks::{
    Budget, Explore, NurseryOptions, NurseryState, OnFailure, OwnedNursery, Reason, Runtime, channel, explore, nursery,
    nursery_with, shield, sleep, yield_now,
};

const LONG: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_secs(20);

/// Counts what was dropped.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicUsize>);

struct Tells(Arc<AtomicUsize>);

impl Dropped {
    fn tells(&self) -> Tells {
        Tells(self.0.clone())
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn when_it_is_dropped_fibers_and_threads_have_ended_wherever_that_is() {
    let check = || {
        let dropped = Dropped::default();
        let owned = OwnedNursery::new().unwrap();
        for i in 0..8 {
            let tells = dropped.tells();
            let body = move || {
                let _tells = tells;
                sleep(LONG);
            };
            if i % 2 == 0 { owned.spawn(body) } else { owned.spawn_thread("sleeper", body) }.unwrap();
        }
        let begun = Instant::now();
        drop(owned);
        assert!(begun.elapsed() < SOON);
        assert_eq!(dropped.count(), 8);
    };
    check(); // on a plain thread
    nursery(|n| n.spawn(check).join()).unwrap();
    explore(0..30, check);
}

#[test]
fn a_shield_in_it_holds_up_the_drop() {
    let (up, is_up) = mpsc::channel();
    let saved = Arc::new(AtomicUsize::new(0));
    let owned = OwnedNursery::new().unwrap();
    let saves = saved.clone();
    owned
        .spawn(move || {
            shield(|| {
                up.send(()).unwrap();
                sleep(Duration::from_millis(20));
                saves.store(1, SeqCst);
            });
            sleep(LONG);
            saves.store(2, SeqCst);
        })
        .unwrap();
    is_up.recv_timeout(SOON).unwrap();
    drop(owned);
    assert_eq!(saved.load(SeqCst), 1);
}

#[test]
fn to_wait_for_it_gives_the_first_failure() {
    let owned = OwnedNursery::new().unwrap();
    let (up, is_up) = mpsc::channel();
    owned
        .spawn(move || {
            up.send(()).unwrap();
            sleep(LONG); // is cancelled by its sibling
        })
        .unwrap();
    is_up.recv_timeout(SOON).unwrap();
    owned.spawn(|| panic!("first")).unwrap();
    let error = owned.wait().unwrap_err();
    assert!(matches!(error.reason(), Reason::Panicked { message, .. } if &**message == "first"), "{error}");

    let owned = OwnedNursery::with(NurseryOptions::new().on_failure(OnFailure::WaitAll)).unwrap();
    owned.spawn(yield_now).unwrap();
    assert_eq!(owned.state(), NurseryState::Open);
    owned.wait().unwrap();
}

#[test]
fn a_task_that_is_cancelled_while_it_waits_cancels_what_it_waits_for() {
    let dropped = Dropped::default();
    let (tells, begun) = (dropped.tells(), Instant::now());
    let outcome = nursery(|n| {
        n.try_spawn(move || {
            let owned = OwnedNursery::new()?;
            owned.spawn(move || {
                let _tells = tells;
                sleep(LONG);
            })?;
            owned.wait()
        });
        n.timeout(Duration::from_millis(5));
        Ok(())
    });
    assert!(outcome.is_err());
    assert_eq!(dropped.count(), 1);
    assert!(begun.elapsed() < SOON);
}

#[test]
fn a_task_of_it_that_drops_it_does_not_wait_for_itself() {
    let (done, is_done) = mpsc::channel();
    let owned = Arc::new(OwnedNursery::new().unwrap());
    let held = owned.clone();
    let (go, gone) = channel::<()>(1);
    owned
        .spawn(move || {
            let _ = gone.recv();
            assert!(held.is_inside());
            let inside = nursery(|n| n.spawn(move || drop(held)).join()); // from a task inside, too
            done.send(inside.is_ok()).unwrap();
        })
        .unwrap();
    assert!(!owned.is_inside());
    drop(owned);
    go.send(()).unwrap();
    is_done.recv_timeout(SOON).expect("it went on");
    OwnedNursery::new().unwrap().wait().unwrap(); // what was left is swept up
}

#[test]
fn a_runtime_that_is_dropped_ends_those_that_are_forgotten() {
    let dropped = Dropped::default();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let spawner = runtime
        .run(|| {
            let owned = OwnedNursery::new().unwrap();
            for _ in 0..10 {
                let tells = dropped.tells();
                owned
                    .spawn(move || {
                        let _tells = tells;
                        sleep(LONG);
                    })
                    .unwrap();
            }
            let spawner = owned.spawner();
            std::mem::forget(owned);
            spawner
        })
        .unwrap();
    let begun = Instant::now();
    drop(runtime);
    assert!(begun.elapsed() < SOON);
    assert_eq!(dropped.count(), 10);
    let refused = spawner.spawn(|| ()).unwrap_err();
    assert!(matches!(refused.reason(), Reason::NurseryNotActive { .. }), "{refused}");
}

#[test]
fn spawns_race_with_the_end() {
    for round in 0..200 {
        let begun = Dropped::default();
        let ended = Dropped::default();
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let owned = runtime.run(|| OwnedNursery::new().unwrap()).unwrap();
        std::thread::scope(|s| {
            for _ in 0..2 {
                let (spawner, begun, ended) = (owned.spawner(), begun.clone(), ended.clone());
                s.spawn(move || {
                    loop {
                        let tells = ended.tells();
                        begun.0.fetch_add(1, SeqCst);
                        if spawner.spawn(move || drop(tells)).is_err() {
                            return;
                        }
                    }
                });
            }
            if round % 2 == 0 {
                drop(owned);
                drop(runtime);
            } else {
                drop(runtime);
                drop(owned);
            }
        });
        assert_eq!(begun.count(), ended.count(), "every closure was run or dropped");
    }
}

#[test]
fn a_task_with_a_budget_cannot_open_one() {
    let refused = nursery_with(NurseryOptions::new().budget(Budget::ops(1_000).spawns(1)), |n| {
        n.spawn(|| OwnedNursery::new().map(drop)).join()
    });
    let message = refused.unwrap().unwrap_err().to_string();
    assert!(message.contains("budget"), "{message}");
}

#[test]
fn a_runtime_whose_last_handle_its_own_task_drops_ends_and_hangs_nothing() {
    for on_thread in [false, true] {
        let runtime = Arc::new(Runtime::builder().workers(2).build().unwrap());
        let (kept, dropped) = (runtime.clone(), Dropped::default());
        let owned = runtime.run(|| OwnedNursery::new().unwrap()).unwrap();
        let (go, gone) = channel::<()>(1);
        let (told, tells) = mpsc::channel();
        let captured = dropped.tells();
        let body = move || {
            let _captured = captured;
            let _ = gone.recv();
            drop(kept);
            told.send(()).unwrap();
            sleep(LONG);
        };
        if on_thread { owned.spawn_thread("last", body) } else { owned.spawn(body) }.unwrap();
        drop(runtime);
        go.send(()).unwrap();
        tells.recv_timeout(SOON).expect("the drop returned");
        drop(owned); // its task is cancelled
        assert_eq!(dropped.count(), 1);
    }
}

#[test]
fn a_seeded_run_that_drops_one_of_other_threads_fails_and_does_not_end_the_process() {
    let owned = OwnedNursery::new().unwrap();
    owned.spawn(|| sleep(LONG)).unwrap();
    let failed = Runtime::builder().seeded(1).build().unwrap().run(move || drop(owned));
    assert!(failed.unwrap_err().to_string().contains("cannot wait for another runtime"));
}

#[test]
fn a_deadlock_of_locks_that_nothing_interrupts_is_reported_by_a_seeded_run() {
    let twice = Runtime::builder().seeded(1).build().unwrap().run(|| {
        let lock = sched_tasks::Mutex::new(0);
        let _first = lock.lock_uninterrupted();
        let _second = lock.lock_uninterrupted();
    });
    assert!(twice.unwrap_err().to_string().contains("deadlock"));
    let found = Explore::new().find(0..200, || {
        let (a, b) = (sched_tasks::Mutex::new(0), sched_tasks::Mutex::new(0));
        nursery(|n| {
            n.spawn(|| *a.lock_uninterrupted() + *b.lock_uninterrupted());
            n.spawn(|| *b.lock_uninterrupted() + *a.lock_uninterrupted());
            Ok(())
        })
        .unwrap();
    });
    assert!(found.is_err());
}

#[test]
fn a_spawn_that_is_refused_drops_its_closure_and_a_panic_there_goes_no_further() {
    struct Throws;
    impl Drop for Throws {
        fn drop(&mut self) {
            panic!("when dropped");
        }
    }
    let owned = OwnedNursery::new().unwrap();
    owned.cancel();
    let throws = Throws;
    assert!(owned.spawn(move || drop(throws)).is_err());
}
