//! A channel that keeps only the newest value.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};

use sched_tasks::{
    CapChannel, Ledger, NurseryOptions, Reason, RecvError, RecvTimeoutError, Runtime, Select, block_on, channel,
    explore, nursery, nursery_with, run, select, sleep, watch, yield_now,
};

use crate::destructors::OnDrop;

const MOMENT: Duration = Duration::from_millis(2);
const AGES: Duration = Duration::from_secs(60);

#[test]
fn the_newest_value_is_seen_once() {
    let check = || {
        let (tx, rx) = watch::channel(0);
        assert!(!rx.has_changed() && *rx.latest() == 0);
        (1..=3).for_each(|value| tx.send(value).unwrap());
        let late = rx.clone();
        assert_eq!(rx.changed().as_deref(), Ok(&3));
        assert_eq!(rx.changed_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
        assert_eq!(late.changed_timeout(AGES).as_deref(), Ok(&3), "a clone has seen what the first had seen then");
        tx.send(4).unwrap();
        assert_eq!((*rx.mark_seen(), rx.has_changed(), late.has_changed()), (4, false, true));
        assert!(!tx.subscribe().has_changed());
    };
    check();
    run(check).unwrap();
    explore(0..20, check);
}

#[test]
fn the_last_value_is_seen_before_the_end() {
    let (tx, rx) = watch::channel(0);
    tx.send(1).unwrap();
    drop(tx);
    assert!(rx.is_closed());
    assert_eq!(rx.changed().as_deref(), Ok(&1));
    assert_eq!((rx.changed(), rx.changed_timeout(AGES)), (Err(RecvError), Err(RecvTimeoutError::Closed)));
    assert_eq!(block_on(rx.changed_async()), Err(RecvError));
    assert_eq!((*rx.latest(), rx.wait_for(|value| *value == 1).as_deref()), (1, Ok(&1)));
    assert_eq!(rx.wait_for(|value| *value == 2), Err(RecvError));
}

#[test]
fn what_is_sent_without_a_receiver_comes_back_and_can_be_kept_all_the_same() {
    let (tx, rx) = watch::channel(String::from("first"));
    drop(rx);
    assert!(tx.is_closed());
    assert_eq!(tx.send("second".into()).unwrap_err().0, "second");
    assert_eq!(*tx.latest(), "first");
    assert_eq!(*tx.send_replace("third".into()), "first");
    tx.send_modify(|text| text.push('!'));
    let rx = tx.subscribe();
    assert_eq!((*rx.latest()).as_str(), "third!");
    assert!(!tx.is_closed() && tx.send("fourth".into()).is_ok() && rx.has_changed());
}

#[test]
fn every_reader_sees_rising_values_and_the_last() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (tx, rx) = watch::channel(0_u64);
        let read = |rx: watch::Receiver<u64>| {
            move || {
                let mut last = 0;
                while let Ok(value) = rx.changed() {
                    assert!(*value > last);
                    last = *value;
                }
                last
            }
        };
        thread::scope(|s| {
            let thread = s.spawn(read(rx.clone()));
            let last = runtime.nursery(|n| {
                let fibers: Vec<_> = (0..3).map(|_| n.spawn(read(rx.clone()))).collect();
                let future = n.spawn_async(async move {
                    let mut last = 0;
                    while let Ok(value) = rx.changed_async().await {
                        assert!(*value > last);
                        last = *value;
                    }
                    last
                });
                for value in 1..=2000 {
                    tx.send(value)?;
                }
                drop(tx);
                let mut last: Vec<u64> = fibers.into_iter().map(|fiber| fiber.join()).collect::<Result<_, _>>()?;
                last.push(future.join()?);
                Ok(last)
            });
            assert_eq!(last.unwrap(), [2000; 4]);
            assert_eq!(thread.join().unwrap(), 2000);
        });
    }
}

#[test]
fn no_reader_misses_the_last_value_however_the_sender_goes() {
    explore(0..500, || {
        let (tx, rx) = watch::channel(0);
        nursery(|n| {
            let second = rx.clone();
            let readers = [
                n.spawn(move || {
                    let mut last = 0;
                    while let Ok(value) = rx.changed() {
                        last = *value;
                    }
                    last
                }),
                n.spawn_async(async move {
                    let mut last = 0;
                    while let Ok(value) = second.changed_async().await {
                        last = *value;
                    }
                    last
                }),
            ];
            tx.send(1)?;
            tx.send(2)?;
            drop(tx);
            for reader in readers {
                assert_eq!(reader.join()?, 2);
            }
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn who_is_cancelled_while_it_waits_has_seen_nothing() {
    explore(0..500, || {
        let (tx, rx) = watch::channel(0);
        let seen = AtomicU64::new(0);
        let outcome = nursery(|outer| {
            let stays = outer.spawn(|| rx.clone().wait_for(|value| *value == 2).map(|value| *value));
            outer.spawn(|| {
                yield_now();
                tx.send(1).unwrap();
                tx.send(2).unwrap();
            });
            let cancelled = nursery(|n| {
                n.spawn(|| {
                    loop {
                        seen.fetch_max(*rx.changed().unwrap(), SeqCst);
                    }
                });
                sleep(Duration::from_micros(5)); // some steps
                n.cancel();
                Ok(())
            });
            assert!(cancelled.unwrap_err().is_cancelled());
            assert_eq!(stays.join()??, 2);
            Ok(())
        });
        outcome.unwrap();
        let seen = seen.load(SeqCst);
        assert_eq!(rx.has_changed(), seen < 2, "what was not returned was not seen: {seen}");
    });
}

#[test]
fn no_change_is_lost_among_several_senders() {
    explore(0..200, || {
        let (tx, rx) = watch::channel(0);
        nursery(|n| {
            for _ in 0..3 {
                n.spawn(|| {
                    tx.send_modify(|value| {
                        let before = *value;
                        yield_now(); // it may wait
                        *value = before + 1;
                    });
                });
            }
            n.spawn(|| assert!(!tx.send_if_modified(|value| std::mem::replace(value, 100) > 100)));
            Ok(())
        })
        .unwrap();
        assert_eq!(*rx.latest(), 3);
    });
}

#[test]
fn a_change_that_panics_has_changed_nothing() {
    let (tx, rx) = watch::channel(vec![1]);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        tx.send_modify(|list| {
            list.clear();
            std::panic::resume_unwind(Box::new("on purpose"));
        });
    }));
    assert!(outcome.is_err() && !rx.has_changed());
    tx.send_modify(|list| list.push(2));
    assert_eq!(*rx.latest(), [1, 2]);
}

#[test]
fn what_was_read_blocks_no_sender() {
    explore(0..50, || {
        let (tx, rx) = watch::channel(1);
        let held = rx.latest();
        nursery(|n| {
            n.spawn(|| (2..5).for_each(|value| tx.send(value).unwrap())).join() // while it is held, across a wait
        })
        .unwrap();
        assert_eq!((*held, *rx.latest()), (1, 4));
    });
}

#[test]
fn the_sender_is_told_when_the_last_receiver_is_gone() {
    explore(0..200, || {
        let (tx, rx) = watch::channel(0);
        let gone = AtomicU64::new(0);
        nursery(|n| {
            for _ in 0..2 {
                let (rx, gone) = (rx.clone(), &gone);
                n.spawn(move || {
                    yield_now();
                    gone.fetch_add(1, SeqCst);
                    drop(rx);
                });
            }
            drop(rx);
            let told = n.spawn_async(async {
                tx.closed_async().await;
                gone.load(SeqCst)
            });
            tx.closed();
            assert_eq!((gone.load(SeqCst), told.join()?, tx.receivers()), (2, 2, 0));
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_change_is_a_case_of_a_select() {
    explore(0..200, || {
        let (level, levels) = watch::channel(0);
        let (work, jobs) = channel(1);
        nursery(|n| {
            n.try_spawn(move || {
                work.send(10)?;
                level.send(1)?;
                Ok(())
            });
            let (mut open, mut seen, mut done) = (2, 0, 0);
            while open > 0 {
                select! {
                    level = recv(levels) => match level {
                        Ok(level) => seen = *level,
                        Err(RecvError) => break,
                    },
                    job = recv(jobs) => match job {
                        Ok(job) => done += job,
                        Err(RecvError) => open -= 1,
                    },
                }
                open = open.max(1);
            }
            done += jobs.iter().sum::<u32>();
            assert_eq!((seen, done), (1, 10));
            Ok(())
        })
        .unwrap();
    });
    let (tx, rx) = watch::channel(0);
    let mut case = rx.case();
    assert_eq!(Select::new().with(&mut case).wait_timeout(MOMENT), None);
    tx.send(1).unwrap();
    assert_eq!(Select::new().with(&mut case).wait(), Some(0));
    assert_eq!((case.is_done(), case.take().as_deref()), (true, Ok(&1)));
}

#[test]
fn a_select_that_takes_another_arm_has_seen_nothing() {
    explore(0..300, || {
        let (tx, rx) = watch::channel(0);
        let (other, others) = channel(1);
        nursery(|n| {
            n.spawn(|| tx.send(1).unwrap());
            n.spawn(|| other.send(()).unwrap());
            let seen = select! {
                value = recv(rx) => Some(*value?),
                recv(others) => None,
            };
            match seen {
                Some(seen) => assert_eq!((seen, rx.has_changed()), (1, false)),
                None => assert_eq!(rx.changed().as_deref(), Ok(&1)),
            }
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_future_that_is_dropped_leaves_nothing_behind() {
    let (tx, rx) = watch::channel(0);
    let mut cx = Context::from_waker(Waker::noop());
    for value in 1..=100 {
        {
            let (mut dropped, mut woken) = (pin!(rx.changed_async()), pin!(rx.changed_async()));
            assert!(dropped.as_mut().poll(&mut cx).is_pending());
            if value % 2 == 0 {
                assert!(woken.as_mut().poll(&mut cx).is_pending());
                tx.send(value).unwrap(); // woken, and dropped before it looks
            }
        }
        assert_eq!(rx.has_changed(), value % 2 == 0);
        rx.mark_seen();
    }
}

#[test]
fn a_destructor_runs_when_no_reader_has_the_value_any_more() {
    let dropped = AtomicU64::new(0);
    let value = || OnDrop(|| _ = dropped.fetch_add(1, SeqCst));
    let (tx, rx) = watch::channel(value());
    let held = rx.latest();
    assert!(tx.send(value()).is_ok());
    assert_eq!(dropped.load(SeqCst), 0);
    drop(held);
    assert_eq!(dropped.load(SeqCst), 1);
    drop((tx, rx));
    assert_eq!(dropped.load(SeqCst), 2);
}

#[test]
fn a_capability_counts_it_as_a_channel() {
    let ledger = Ledger::new();
    let cap = ledger.grant(CapChannel::new().max_channels(1));
    let options = || NurseryOptions::new().capability(&cap);
    nursery_with(options(), |n| {
        n.spawn(|| {
            let both = watch::try_channel(1).unwrap();
            assert!(watch::try_channel(1).is_err());
            drop(both);
            assert!(watch::try_channel(1).is_ok());
        })
        .join()
    })
    .unwrap();
    let refused = nursery_with(options(), |n| n.spawn(|| (watch::channel(1), watch::channel(2))).join());
    assert!(matches!(refused.unwrap_err().reason(), Reason::NotAllowed(_)));
}

#[test]
fn ends_are_shown_with_their_value() {
    let (tx, rx) = watch::channel(7);
    assert_eq!(format!("{tx:?} {rx:?}"), "Sender { latest: 7, receivers: 1 } Receiver { latest: 7, closed: false }");
    assert!(Arc::ptr_eq(&tx.latest(), &rx.latest()));
}
