//! Channels: each method, each kind, for fibers, threads and futures.

use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use sched_tasks::{
    Receiver, RecvError, RecvTimeoutError, Runtime, SendError, SendTimeoutError, Sender, TaskError, TryRecvError,
    TrySendError, channel, nursery, oneshot, run, unbounded, yield_now,
};

const MOMENT: Duration = Duration::from_millis(2);
const AGES: Duration = Duration::from_secs(60);

/// A channel of every kind.
fn kinds() -> Vec<(Sender<u32>, Receiver<u32>)> {
    vec![channel(0), channel(1), channel(3), channel(1024), unbounded()]
}

fn is_send_and_sync<T: Send + Sync>(_: &T) {}

#[test]
fn both_ends_may_go_anywhere() {
    let (tx, rx) = channel::<std::cell::Cell<u8>>(1); // `Send`, but not `Sync`
    is_send_and_sync(&tx);
    is_send_and_sync(&rx);
}

#[test]
fn what_is_sent_comes_out_in_order() {
    for (tx, rx) in kinds() {
        nursery(|n| {
            n.try_spawn(move || {
                for i in 0..1000 {
                    tx.send(i)?;
                }
                Ok(())
            });
            let got: Vec<u32> = n.spawn(move || rx.into_iter().collect()).join()?;
            assert_eq!(got, (0..1000).collect::<Vec<_>>());
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn fibers_threads_and_futures_meet_in_any_combination() {
    for (tx, rx) in kinds() {
        let sum = AtomicU64::new(0);
        let add = |i: u32| sum.fetch_add(u64::from(i), SeqCst);
        nursery(|n| {
            thread::scope(|s| {
                for sender in 0..3 {
                    let (tx, rx) = (tx.clone(), rx.clone());
                    match sender {
                        0 => drop(n.spawn(move || (0..300).for_each(|i| tx.send(i).unwrap()))),
                        1 => drop(s.spawn(move || (0..300).for_each(|i| tx.send(i).unwrap()))),
                        _ => drop(n.spawn_async(async move {
                            for i in 0..300 {
                                tx.send_async(i).await.unwrap();
                            }
                        })),
                    }
                    match sender {
                        0 => drop(n.spawn(move || rx.iter().for_each(|i| _ = add(i)))),
                        1 => drop(s.spawn(move || rx.iter().for_each(|i| _ = add(i)))),
                        _ => drop(n.spawn_async(async move {
                            while let Ok(i) = rx.recv_async().await {
                                add(i);
                            }
                        })),
                    }
                }
                drop((tx, rx));
            });
            Ok(())
        })
        .unwrap();
        assert_eq!(sum.load(SeqCst), 3 * (0..300).sum::<u64>());
    }
}

#[test]
fn trying_never_waits() {
    let (tx, rx) = channel(2);
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    assert_eq!((tx.try_send(1), tx.try_send(2), tx.try_send(3)), (Ok(()), Ok(()), Err(TrySendError::Full(3))));
    assert_eq!((tx.len(), rx.len(), tx.capacity(), rx.is_empty()), (2, 2, Some(2), false));
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), [1, 2]);
    let (tx, rx) = channel(0);
    assert_eq!(tx.try_send(1), Err(TrySendError::Full(1)));
    assert_eq!((rx.try_recv(), tx.capacity()), (Err(TryRecvError::Empty), Some(0)));
    let (tx, rx) = unbounded();
    assert_eq!((tx.try_send(1), rx.try_recv(), rx.capacity()), (Ok(()), Ok(1), None));
}

#[test]
fn a_closed_channel_gives_what_it_has_and_takes_nothing() {
    for (tx, rx) in kinds() {
        let has_room = tx.try_send(1).is_ok();
        assert!(tx.close() && !rx.close());
        assert!(tx.is_closed() && rx.is_closed());
        assert_eq!(tx.send(2), Err(SendError(2)));
        assert_eq!(tx.try_send(2), Err(TrySendError::Closed(2)));
        assert_eq!(tx.send_timeout(2, AGES), Err(SendTimeoutError::Closed(2)));
        if has_room {
            assert_eq!(rx.recv(), Ok(1));
        }
        assert_eq!(rx.recv(), Err(RecvError));
        assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(rx.recv_timeout(AGES), Err(RecvTimeoutError::Closed));
    }
}

#[test]
fn the_last_sender_closes_and_so_does_the_last_receiver() {
    for (tx, rx) in kinds() {
        let second = tx.clone();
        drop(tx);
        assert!(!rx.is_closed());
        drop(second);
        assert_eq!(rx.recv(), Err(RecvError));
    }
    for (tx, rx) in kinds() {
        drop(rx.clone());
        assert!(!tx.is_closed());
        drop(rx);
        assert_eq!(tx.send(1), Err(SendError(1)));
    }
}

#[test]
fn values_that_will_not_be_received_are_dropped_with_the_last_receiver() {
    let witness = std::sync::Arc::new(());
    for (tx, rx) in [channel(4), unbounded()] {
        tx.send(witness.clone()).unwrap();
        tx.send(witness.clone()).unwrap();
        drop(rx);
        assert_eq!(std::sync::Arc::strong_count(&witness), 1);
        drop(tx);
    }
}

#[test]
fn closing_wakes_all_waiters() {
    for (tx, rx) in kinds() {
        let full = channel(1);
        full.0.send(0).unwrap();
        nursery(|n| {
            let receivers: Vec<_> = (0..3).map(|_| n.spawn(|| rx.recv())).collect();
            let future = n.spawn_async(async { rx.recv_async().await });
            let senders: Vec<_> = (0..3)
                .map(|i| {
                    n.spawn({
                        let tx = &full.0;
                        move || tx.send(i)
                    })
                })
                .collect();
            yield_until(|| false, 50);
            tx.close();
            full.1.close();
            for receiver in receivers {
                assert_eq!(receiver.join()?, Err(RecvError));
            }
            assert_eq!(future.join()?, Err(RecvError));
            for (i, sender) in senders.into_iter().enumerate() {
                assert_eq!(sender.join()?, Err(SendError(i as u32)));
            }
            Ok(())
        })
        .unwrap();
    }
}

/// Gives others up to `turns` turns, or until `done`.
fn yield_until(done: impl Fn() -> bool, turns: u32) {
    for _ in 0..turns {
        if done() {
            return;
        }
        yield_now();
        thread::yield_now();
    }
}

#[test]
fn time_limits_hold_for_fibers_and_threads() {
    let check = || {
        for (tx, rx) in kinds() {
            let begun = Instant::now();
            assert_eq!(rx.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
            assert!(begun.elapsed() >= MOMENT);
            while tx.try_send(0).is_ok() && tx.capacity().is_some() {}
            if tx.capacity().is_some() {
                assert_eq!(tx.send_timeout(7, MOMENT), Err(SendTimeoutError::Timeout(7)));
            }
        }
    };
    check();
    run(check).unwrap();
}

#[test]
fn what_comes_in_time_is_received_in_time() {
    for (tx, rx) in kinds() {
        nursery(|n| {
            let receiver = n.spawn(|| rx.recv_timeout(AGES));
            tx.send_timeout(1, AGES)?;
            assert_eq!(receiver.join()?, Ok(1));
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn many_short_timeouts_leave_nothing_behind() {
    let (tx, rx) = channel(1);
    for _ in 0..200 {
        assert!(rx.recv_timeout(Duration::from_micros(1)).is_err());
    }
    nursery(|n| {
        n.try_spawn(|| Ok(tx.send(1)?));
        assert_eq!(rx.recv()?, 1);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_sender_without_buffer_waits_for_its_receiver() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (tx, rx) = channel(0);
    let sent = AtomicU64::new(0);
    runtime
        .run(|| {
            nursery(|n| {
                n.try_spawn(|| {
                    tx.send(1)?;
                    sent.store(1, SeqCst);
                    Ok(())
                });
                yield_until(|| false, 10);
                assert_eq!(sent.load(SeqCst), 0);
                assert_eq!(rx.recv()?, 1);
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
    assert_eq!(sent.load(SeqCst), 1);
}

#[test]
fn errors_become_task_errors() {
    let body = || -> Result<u32, TaskError> {
        let (tx, rx) = channel(1);
        tx.send(1u32)?;
        tx.try_send(2).or(Ok::<_, TaskError>(()))?;
        Ok(rx.recv()? + rx.recv_timeout(MOMENT)?)
    };
    let error = body().unwrap_err();
    assert!(error.downcast_ref::<RecvTimeoutError>().is_some(), "{error}");
    let (tx, rx) = channel(1);
    drop(rx);
    let error = TaskError::from(tx.send("unsent").unwrap_err());
    assert_eq!(error.downcast_ref::<SendError<&str>>().unwrap().0, "unsent");
    assert!(error.to_string().contains("closed"), "{error}");
}

#[test]
fn a_million_messages_pass() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (tx, rx) = channel(256);
        let sum: u64 = runtime
            .nursery(|n| {
                n.try_spawn(move || {
                    for i in 0..1_000_000u64 {
                        tx.send(i)?;
                    }
                    Ok(())
                });
                n.spawn(move || rx.into_iter().sum()).join()
            })
            .unwrap();
        assert_eq!(sum, 499_999_500_000);
    }
}

#[test]
fn a_cancelled_wait_ends() {
    for (tx, rx) in kinds() {
        let full = channel(1);
        full.0.send(0).unwrap();
        let outcome = nursery(|n| {
            n.spawn(|| rx.recv());
            n.spawn(|| full.0.send(1));
            n.spawn_async(async { rx.recv_async().await });
            n.spawn_async(async { full.0.send_async(1).await });
            yield_until(|| false, 20);
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!((full.1.try_recv(), full.1.try_recv()), (Ok(0), Err(TryRecvError::Empty)));
        assert!(!tx.is_closed());
    }
}

#[test]
fn a_oneshot_brings_one_value() {
    nursery(|n| {
        for _ in 0..200 {
            let (tx, rx) = oneshot::channel();
            n.spawn(move || tx.send(5));
            assert_eq!(rx.recv(), Ok(5));
            let (tx, rx) = oneshot::channel();
            let waits = n.spawn_async(async move { rx.await });
            n.spawn(move || tx.send(6));
            assert_eq!(waits.join()?, Ok(6));
            let (tx, rx) = oneshot::channel::<u8>();
            let waits = n.spawn(move || rx.recv());
            drop(tx);
            assert_eq!(waits.join()?, Err(RecvError));
        }
        Ok(())
    })
    .unwrap();
    let (tx, mut rx) = oneshot::channel();
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(rx.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
    assert!(!tx.is_closed());
    tx.send(1).unwrap();
    assert_eq!((rx.try_recv(), rx.try_recv()), (Ok(1), Err(TryRecvError::Closed)));
    let (tx, rx) = oneshot::channel();
    drop(rx);
    assert!(tx.is_closed());
    assert_eq!(tx.send(1), Err(SendError(1)));
}
