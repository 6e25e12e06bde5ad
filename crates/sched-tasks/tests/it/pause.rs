//! Nurseries that stand still.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use sched_tasks::{
    Condvar, Mutex, Pauser, Receiver, RwLock, Semaphore, after, broadcast, channel, checkpoint, explore, join, nursery,
    shield, sleep, sleep_async, unblock, watch, yield_now,
};

/// Runs `body` in a nursery inside a pausable one, and `steer` beside it, under many seeds.
fn explored(body: impl Fn(&AtomicUsize) + Sync, steer: impl Fn(&Pauser, &AtomicUsize) + Sync) {
    explore(0..100, || {
        let rounds = AtomicUsize::new(0);
        nursery(|outer| {
            nursery(|n| {
                let pauser = n.pauser();
                let (rounds, body, steer) = (&rounds, &body, &steer);
                outer.spawn(move || steer(&pauser, rounds));
                n.try_spawn(|| nursery(|inner| inner.spawn(|| body(rounds)).join()));
                Ok(())
            })
        })
        .unwrap();
    });
}

/// Pauses, sees that nothing moves for an hour, and resumes.
fn pause_and_look(pauser: &Pauser, rounds: &AtomicUsize) {
    pauser.pause();
    sleep(Duration::from_secs(1)); // whatever waited comes to its checkpoint
    let seen = rounds.load(SeqCst);
    sleep(Duration::from_secs(3600));
    assert_eq!(rounds.load(SeqCst), seen, "it stands still");
    pauser.resume();
}

#[test]
fn a_fiber_in_a_nested_nursery_stands_still_at_whatever_it_does() {
    let again = |operation: &(dyn Fn() + Sync)| {
        explored(
            |rounds| {
                for _ in 0..20 {
                    rounds.fetch_add(1, SeqCst);
                    operation();
                }
            },
            pause_and_look,
        );
    };
    let (tx, rx) = channel::<()>(1);
    let (lock, permits) = (Mutex::new(()), Semaphore::new(1));
    again(&checkpoint);
    again(&yield_now);
    again(&|| sleep(Duration::from_millis(100)));
    again(&|| {
        tx.send(()).unwrap();
        rx.recv().unwrap();
    });
    again(&|| drop(lock.lock()));
    again(&|| drop(permits.acquire(1)));
    let shared = RwLock::new(());
    again(&|| drop(shared.read()));
    again(&|| drop(shared.write()));
    let ((watch, watched), (broadcast, news)) = (watch::channel(0), broadcast::channel(1));
    again(&|| {
        watch.send_modify(|value| *value += 1);
        watched.changed().unwrap();
    });
    again(&|| {
        broadcast.send(()).unwrap();
        news.recv().unwrap();
    });
    again(&|| _ = after(Duration::from_millis(100)).recv());
    again(&|| nursery(|n| n.spawn(|| ()).join()).unwrap());
    again(&|| unblock(|| ()));
}

#[test]
fn a_future_stands_still() {
    explored(
        |rounds| {
            nursery(|n| {
                n.spawn_async(async {
                    for _ in 0..20 {
                        rounds.fetch_add(1, SeqCst);
                        sleep_async(Duration::from_millis(1)).await;
                    }
                });
                Ok(())
            })
            .unwrap();
        },
        pause_and_look,
    );
}

#[test]
fn who_is_shielded_goes_on() {
    explored(
        |rounds| {
            shield(|| {
                for _ in 0..5 {
                    rounds.fetch_add(1, SeqCst);
                    sleep(Duration::from_secs(1));
                }
                nursery(|n| {
                    n.spawn(|| rounds.fetch_add(1, SeqCst)); // one that was opened inside, too
                    Ok(())
                })
                .unwrap();
            });
            checkpoint();
            rounds.fetch_add(1, SeqCst);
        },
        |pauser, rounds| {
            while rounds.load(SeqCst) == 0 {
                yield_now();
            }
            pauser.pause();
            sleep(Duration::from_secs(60));
            assert_eq!(rounds.load(SeqCst), 6, "all that is shielded, and nothing else");
            pauser.resume();
        },
    );
}

#[test]
fn who_stands_still_is_cancelled_there_and_what_never_began_is_dropped() {
    explore(0..100, || {
        let rounds = AtomicUsize::new(0);
        let cancelled = nursery(|outer| {
            nursery(|n| {
                let (pauser, canceller, rounds) = (n.pauser(), n.canceller(), &rounds);
                pauser.pause();
                for _ in 0..3 {
                    n.spawn(|| rounds.fetch_add(1, SeqCst));
                    n.spawn_async(async { rounds.fetch_add(1, SeqCst) });
                    n.task().on_thread().spawn(|| rounds.fetch_add(1, SeqCst));
                }
                outer.spawn(move || {
                    sleep(Duration::from_secs(1));
                    canceller.cancel();
                });
                checkpoint(); // stands still
                rounds.fetch_add(1, SeqCst);
                Ok(())
            })
        });
        assert!(cancelled.is_err());
        assert_eq!(rounds.load(SeqCst), 0);
    });
}

#[test]
fn many_pauses_and_resumptions_lose_no_task() {
    let rounds = AtomicUsize::new(0);
    nursery(|outer| {
        nursery(|n| {
            let pauser = n.pauser();
            for _ in 0..50 {
                n.spawn(|| {
                    for _ in 0..100 {
                        checkpoint();
                        rounds.fetch_add(1, SeqCst);
                        yield_now();
                    }
                });
                n.spawn_async(async {
                    for _ in 0..10 {
                        rounds.fetch_add(1, SeqCst);
                        sleep_async(Duration::from_micros(50)).await;
                    }
                });
            }
            outer.task().on_thread().spawn(move || {
                for _ in 0..500 {
                    pauser.pause();
                    yield_now();
                    pauser.resume();
                }
            });
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(rounds.load(SeqCst), 50 * 110);
}

#[test]
fn who_is_woken_while_it_is_paused_stands_still_before_it_goes_on() {
    type Wait = fn(&Receiver<()>, &Mutex<bool>, &Condvar, &Semaphore);
    let waits: [Wait; 4] = [
        |rx, _, _, _| _ = rx.recv(),
        |rx, _, _, _| _ = rx.recv_timeout(Duration::from_secs(7200)),
        |_, lock, changed, _| changed.wait_while(&mut lock.lock(), |ready| !*ready),
        |_, _, _, permits| drop(permits.acquire(1)),
    ];
    for wait in waits {
        explore(0..50, || {
            let (tx, rx) = channel::<()>(1);
            let (lock, changed, permits) = (Mutex::new(false), Condvar::new(), Semaphore::new(1));
            let came_back = AtomicUsize::new(0);
            nursery(|outer| {
                nursery(|n| {
                    let pauser = n.pauser();
                    let (came_back, lock, changed, permits) = (&came_back, &lock, &changed, &permits);
                    let held = permits.acquire(1);
                    outer.spawn(move || {
                        sleep(Duration::from_secs(1)); // it waits
                        pauser.pause();
                        tx.send(()).unwrap();
                        *lock.lock() = true;
                        changed.notify_all();
                        drop(held);
                        sleep(Duration::from_secs(1));
                        assert_eq!(came_back.load(SeqCst), 0, "it stands still");
                        assert!(lock.lock_timeout(Duration::from_secs(1)).is_some(), "and holds no lock meanwhile");
                        pauser.resume();
                    });
                    let rx = rx.clone();
                    n.spawn(move || {
                        wait(&rx, lock, changed, permits);
                        came_back.fetch_add(1, SeqCst);
                    });
                    Ok(())
                })
            })
            .unwrap();
            assert_eq!(came_back.load(SeqCst), 1);
        });
    }
}

#[test]
fn operations_that_never_wait_stand_still_at_the_end_of_a_turn() {
    let (tx, rx) = channel::<()>(1);
    let again = |operation: &(dyn Fn() + Sync)| {
        explored(
            |rounds| {
                for _ in 0..1_000 {
                    rounds.fetch_add(1, SeqCst);
                    operation();
                }
            },
            pause_and_look,
        );
    };
    again(&|| _ = join(|| (), || ()));
    again(&|| nursery(|_| Ok(())).unwrap());
    again(&|| {
        _ = tx.try_send(());
        _ = rx.try_recv();
    });
}

#[test]
fn a_nursery_is_still_when_nothing_in_it_runs() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    nursery(|outer| {
        let (tell, told) = channel(1);
        let wait = &wait;
        outer.spawn(move || {
            nursery(|n| {
                let begun = tell.clone();
                let pauser = n.pauser();
                n.task().on_thread().spawn(move || {
                    begun.send(pauser).unwrap();
                    wait.lock().unwrap().recv() // computes, as far as we know
                });
                n.spawn(|| sleep(Duration::from_secs(3600)));
                Ok(())
            })
        });
        let pauser = told.recv()?;
        pauser.pause();
        for _ in 0..20 {
            assert!(!pauser.is_still(), "one of its tasks runs");
            sleep(Duration::from_millis(1));
        }
        go.send(()).unwrap();
        while !pauser.is_still() {
            yield_now();
        }
        outer.dismiss();
        Ok(())
    })
    .unwrap();
}
