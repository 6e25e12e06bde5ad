//! Every receiver gets every value, or is told how many it has missed.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};

use proptest::prelude::*;
use sched_tasks::{
    CapChannel, Ledger, NurseryOptions, Runtime, Select,
    broadcast::{self, RecvError, RecvTimeoutError, TryRecvError},
    channel, explore, nursery, nursery_with, run, select, sleep, yield_now,
};

use crate::destructors::OnDrop;

const MOMENT: Duration = Duration::from_millis(2);
const AGES: Duration = Duration::from_secs(60);

/// Reads to the end: what came, and how many were missed.
fn read(rx: &broadcast::Receiver<u64>) -> (Vec<u64>, u64) {
    let (mut got, mut missed) = (Vec::new(), 0);
    loop {
        match rx.recv() {
            Ok(value) => got.push(value),
            Err(RecvError::Lagged(count)) => missed += count,
            Err(RecvError::Closed) => return (got, missed),
        }
    }
}

#[test]
fn every_receiver_gets_every_value_in_order() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (tx, rx) = broadcast::channel(1000);
        let (second, third) = (tx.subscribe(), tx.subscribe());
        let got = thread::scope(|s| {
            let thread = s.spawn(move || read(&rx));
            let mut got = runtime
                .nursery(|n| {
                    let fiber = n.spawn(move || read(&second));
                    let future = n.spawn_async(async move {
                        let mut got = Vec::new();
                        while let Ok(value) = third.recv_async().await {
                            got.push(value);
                        }
                        (got, 0)
                    });
                    for value in 0..1000 {
                        assert_eq!(tx.send(value)?, 3);
                    }
                    drop(tx);
                    Ok(vec![fiber.join()?, future.join()?])
                })
                .unwrap();
            got.push(thread.join().unwrap());
            got
        });
        assert!(got.into_iter().all(|(got, missed)| missed == 0 && got.into_iter().eq(0..1000)));
    }
}

#[test]
fn a_slow_receiver_is_told_once_and_goes_on_with_the_oldest_that_is_kept() {
    let check = || {
        let (tx, slow) = broadcast::channel(3);
        let quick = tx.subscribe();
        for value in 0..10 {
            tx.send(value).unwrap();
            assert_eq!(quick.try_recv(), Ok(value));
        }
        assert_eq!((slow.len(), quick.len()), (3, 0));
        assert_eq!(slow.try_recv(), Err(TryRecvError::Lagged(7)));
        assert_eq!((slow.recv(), slow.recv()), (Ok(7), Ok(8)));
        (10..20).for_each(|value| _ = tx.send(value));
        assert_eq!(slow.recv_timeout(AGES), Err(RecvTimeoutError::Lagged(8)), "9 to 16");
        assert_eq!(slow.recv_timeout(AGES), Ok(17));
        drop(tx);
        assert_eq!((slow.recv(), slow.recv(), slow.recv()), (Ok(18), Ok(19), Err(RecvError::Closed)));
        assert_eq!(slow.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(slow.recv_timeout(MOMENT), Err(RecvTimeoutError::Closed));
    };
    check();
    run(check).unwrap();
    explore(0..20, check);
}

#[test]
fn who_comes_late_gets_what_is_sent_from_then_on() {
    let (tx, rx) = broadcast::channel(4);
    tx.send(1).unwrap();
    let (late, later) = (tx.subscribe(), rx.resubscribe());
    assert_eq!(late.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
    tx.send(2).unwrap();
    assert_eq!((late.try_recv(), later.try_recv()), (Ok(2), Ok(2)));
    assert_eq!((rx.recv(), rx.recv(), rx.try_recv()), (Ok(1), Ok(2), Err(TryRecvError::Empty)));
}

#[test]
fn what_is_sent_without_a_receiver_comes_back() {
    let (tx, rx) = broadcast::channel(4);
    tx.send(1).unwrap();
    drop(rx);
    assert_eq!((tx.send(2).unwrap_err().0, tx.receivers()), (2, 0));
    let rx = tx.subscribe();
    assert_eq!((tx.send(3), rx.recv()), (Ok(1), Ok(3)));
}

#[test]
fn it_is_open_until_the_last_sender_is_gone() {
    let (tx, rx) = broadcast::channel(4);
    let second = tx.clone();
    drop(tx);
    assert!(!rx.is_closed());
    second.send(1).unwrap();
    drop(second);
    assert!(rx.is_closed());
    assert_eq!((rx.recv(), rx.recv()), (Ok(1), Err(RecvError::Closed)));
}

#[test]
fn whatever_order_a_seed_gives_what_came_and_what_was_missed_is_everything() {
    for capacity in [1, 2, 8] {
        explore(0..200, || {
            let (tx, rx) = broadcast::channel(capacity);
            nursery(|n| {
                let second = tx.subscribe();
                let readers = [n.spawn(move || read(&rx)), n.spawn(move || read(&second))];
                let other = tx.clone();
                n.spawn(move || (0..4).for_each(|value| _ = tx.send(value)));
                n.spawn(move || (100..104).for_each(|value| _ = other.send(value)));
                for reader in readers {
                    let (got, missed) = reader.join()?;
                    assert_eq!(got.len() as u64 + missed, 8, "{got:?}");
                    for range in [0..100_u64, 100..200] {
                        let of_one: Vec<_> = got.iter().filter(|value| range.contains(*value)).collect();
                        assert!(of_one.is_sorted(), "{got:?}");
                    }
                }
                Ok(())
            })
            .unwrap();
        });
    }
}

#[test]
fn no_value_is_lost_to_cancellation() {
    explore(0..500, || {
        let (tx, rx) = broadcast::channel(16);
        let got = Mutex::new(Vec::new());
        nursery(|outer| {
            outer.spawn(move || (0..4).for_each(|value| _ = tx.send(value)));
            let cancelled = nursery(|n| {
                n.spawn(|| {
                    loop {
                        let value = rx.recv().unwrap_or(9);
                        got.lock().unwrap().push(value);
                        if value == 9 {
                            break;
                        }
                    }
                });
                sleep(Duration::from_micros(8)); // some steps
                n.cancel();
                Ok(())
            });
            assert!(cancelled.is_err_and(|error| error.is_cancelled()));
            Ok(())
        })
        .unwrap();
        let mut got = got.into_inner().unwrap();
        got.extend(rx.iter());
        got.retain(|value| *value != 9);
        assert_eq!(got, [0, 1, 2, 3]);
    });
}

#[test]
fn the_end_of_the_last_sender_wakes_who_waits() {
    explore(0..300, || {
        let (tx, rx) = broadcast::channel::<u64>(2);
        nursery(|n| {
            let second = rx.resubscribe();
            let waits = n.spawn(move || rx.recv());
            let polls = n.spawn_async(async move { second.recv_async().await });
            n.spawn(move || {
                let other = tx.clone();
                drop(tx);
                yield_now();
                drop(other);
            });
            assert_eq!((waits.join()?, polls.join()?), (Err(RecvError::Closed), Err(RecvError::Closed)));
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_shared_receiver_gives_each_value_to_one() {
    explore(0..200, || {
        let (tx, rx) = broadcast::channel(16);
        nursery(|n| {
            let readers = [n.spawn(|| rx.iter().collect::<Vec<_>>()), n.spawn(|| rx.iter().collect())];
            (0..6).try_for_each(|value| tx.send(value).map(drop))?;
            drop(tx);
            let mut all: Vec<u64> = Vec::new();
            for reader in readers {
                let got = reader.join()?;
                assert!(got.is_sorted());
                all.extend(got);
            }
            all.sort_unstable();
            assert!(all.into_iter().eq(0..6));
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_receiver_is_a_case_of_a_select() {
    explore(0..300, || {
        let (tx, rx) = broadcast::channel(8);
        let (other, others) = channel(8);
        nursery(|n| {
            n.spawn(move || (0..4).for_each(|value| _ = tx.send(value)));
            n.spawn(move || (0..4).for_each(|value| other.send(value).unwrap()));
            let (mut news, mut values) = (Vec::new(), Vec::new());
            loop {
                select! {
                    value = recv(rx) => match value {
                        Ok(value) => news.push(value),
                        Err(_) => break values.extend(others.iter()),
                    },
                    value = recv(others) => match value {
                        Ok(value) => values.push(value),
                        Err(_) => break news.extend(rx.iter()),
                    },
                }
            }
            assert!(news.into_iter().eq(0..4) && values.into_iter().eq(0..4));
            Ok(())
        })
        .unwrap();
    });
    let (tx, rx) = broadcast::channel(1);
    let mut case = rx.case();
    assert_eq!(Select::new().with(&mut case).wait_timeout(MOMENT), None);
    (1..=3).for_each(|value| _ = tx.send(value));
    assert_eq!(Select::new().with(&mut case).wait(), Some(0));
    assert_eq!((case.is_done(), case.take()), (true, Err(RecvError::Lagged(2))));
}

#[test]
fn a_value_goes_with_the_last_receiver_that_has_not_read_it() {
    let value = Arc::new(());
    let (tx, first) = broadcast::channel(4);
    let second = tx.subscribe();
    (0..3).for_each(|_| drop(tx.send(value.clone())));
    let kept = || Arc::strong_count(&value) - 1;
    assert_eq!(kept(), 3);
    drop(first.recv());
    assert_eq!(kept(), 3);
    drop(second.recv());
    assert_eq!(kept(), 2, "both have read it");
    drop(first);
    assert_eq!((kept(), second.len()), (2, 2));
    (0..10).for_each(|_| drop(tx.send(value.clone())));
    assert_eq!(kept(), 4, "the capacity");
    drop(second);
    assert_eq!(kept(), 0);
}

#[test]
fn a_destructor_that_panics_does_not_keep_others_from_running() {
    let dropped = AtomicU64::new(0);
    let value = || {
        Arc::new(OnDrop(|| {
            if dropped.fetch_add(1, SeqCst) == 1 {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
        }))
    };
    let (tx, rx) = broadcast::channel(4);
    (0..3).for_each(|_| drop(tx.send(value())));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(rx))).is_err());
    assert_eq!(dropped.load(SeqCst), 3);
}

#[test]
fn a_future_that_is_dropped_has_taken_nothing() {
    let (tx, rx) = broadcast::channel(4);
    let mut cx = Context::from_waker(Waker::noop());
    for value in 0..100 {
        {
            let mut dropped = pin!(rx.recv_async());
            assert!(dropped.as_mut().poll(&mut cx).is_pending());
            if value % 2 == 0 {
                tx.send(value).unwrap(); // woken, and dropped before it looks
            }
        }
        assert_eq!(rx.try_recv().ok(), (value % 2 == 0).then_some(value));
    }
}

#[test]
fn a_capability_limits_how_many_there_are_and_how_large() {
    let ledger = Ledger::new();
    let cap = ledger.grant(CapChannel::new().max_channels(1).max_buffer(8));
    nursery_with(NurseryOptions::new().capability(&cap), |n| {
        n.spawn(|| {
            assert!(broadcast::try_channel::<u8>(9).is_err());
            let both = broadcast::try_channel::<u8>(8).unwrap();
            assert!(broadcast::try_channel::<u8>(1).is_err());
            drop(both);
        })
        .join()
    })
    .unwrap();
}

#[test]
#[should_panic(expected = "at least one value")]
fn one_that_keeps_nothing_is_refused() {
    drop(broadcast::channel::<u8>(0));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Send,
    Recv(usize),
    Subscribe,
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => Just(Step::Send),
        8 => (0usize..4).prop_map(Step::Recv),
        1 => Just(Step::Subscribe),
        1 => (0usize..4).prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The model keeps all values for ever, and the number that each receiver reads next.
    #[test]
    fn it_is_a_list_with_a_cursor_for_each_receiver(capacity in 1usize..5, steps in steps()) {
        let (tx, rx) = broadcast::channel(capacity);
        let mut sent: Vec<usize> = Vec::new();
        let mut receivers = vec![(rx, 0)];
        for step in steps {
            match step {
                Step::Send => {
                    let outcome = tx.send(sent.len());
                    prop_assert_eq!(outcome.ok(), Some(receivers.len()).filter(|count| *count > 0));
                    if !receivers.is_empty() {
                        sent.push(sent.len());
                    }
                }
                Step::Recv(which) if which < receivers.len() => {
                    let (rx, next) = &mut receivers[which];
                    let oldest = sent.len().saturating_sub(capacity);
                    let expected = if *next < oldest {
                        let missed = oldest - *next;
                        *next = oldest;
                        Err(TryRecvError::Lagged(missed as u64))
                    } else {
                        let value = sent.get(*next).copied().ok_or(TryRecvError::Empty);
                        *next += usize::from(value.is_ok());
                        value
                    };
                    prop_assert_eq!(rx.try_recv(), expected);
                }
                Step::Subscribe => receivers.push((tx.subscribe(), sent.len())),
                Step::Drop(which) if which < receivers.len() => drop(receivers.swap_remove(which)),
                Step::Recv(_) | Step::Drop(_) => {}
            }
        }
    }
}
