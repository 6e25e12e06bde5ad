//! Nothing is lost and nothing doubled, however tasks are cancelled, time out, or drop their futures.

use std::{
    collections::HashSet,
    future::Future,
    pin::pin,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use sched_tasks::{Receiver, Runtime, Sender, channel, nursery, unbounded, yield_now};
use test_support::Dice;

fn kind<T: Send>(number: u64) -> (Sender<T>, Receiver<T>) {
    match number {
        0 => channel(0),
        1 => channel(1),
        2 => channel(4),
        _ => unbounded(),
    }
}

#[test]
fn values_of_one_sender_arrive_in_its_order() {
    for kind_number in 0..4 {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (tx, rx) = kind(kind_number);
        runtime
            .nursery(|n| {
                for producer in 0..4u32 {
                    let tx = tx.clone();
                    n.spawn(move || (0..2000u32).for_each(|i| tx.send((producer, i)).unwrap()));
                }
                drop(tx);
                for _ in 0..3 {
                    let rx = rx.clone();
                    n.spawn(move || {
                        let mut last = [None; 4];
                        for (producer, i) in rx {
                            assert!(last[producer as usize] < Some(i), "kind {kind_number}: {i} after {last:?}");
                            last[producer as usize] = Some(i);
                        }
                    });
                }
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn nothing_is_lost_or_doubled_when_tasks_are_cancelled() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        for seed in 0..200 {
            cancelled_round(&runtime, seed);
        }
    }
}

/// Senders and receivers of all sorts; after a while all are cancelled. What went in came out, or is still in the channel.
fn cancelled_round(runtime: &Runtime, seed: u64) {
    let dice = Dice::new(seed);
    let (tx, rx) = kind(seed % 4);
    let next = AtomicU64::new(0);
    let (sent, received) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let by_futures = Mutex::new(HashSet::new());
    let turns = dice.below(60);
    let outcome = runtime.run(|| {
        nursery(|n| {
            for task in 0..4 {
                let (tx, rx) = (&tx, &rx);
                let (next, sent, received, by_futures) = (&next, &sent, &received, &by_futures);
                // A value counts as sent when `send` said so, and as received when `recv` did. A cancelled operation says nothing, so it must have done nothing.
                match (task + seed) % 3 {
                    0 => drop(n.spawn(move || {
                        loop {
                            let value = next.fetch_add(1, SeqCst);
                            if tx.send(value).is_ok() {
                                sent.lock().unwrap().push(value);
                            }
                            if tx.capacity().is_none() {
                                yield_now(); // sending never waits here
                            }
                        }
                    })),
                    1 => drop(n.spawn_async(async move {
                        loop {
                            let value = next.fetch_add(1, SeqCst);
                            by_futures.lock().unwrap().insert(value);
                            if tx.send_async(value).await.is_ok() {
                                sent.lock().unwrap().push(value);
                            }
                            yield_once().await;
                        }
                    })),
                    _ => drop(n.spawn(move || {
                        loop {
                            let value = next.fetch_add(1, SeqCst);
                            if tx.send_timeout(value, Duration::from_micros(50)).is_ok() {
                                sent.lock().unwrap().push(value);
                            }
                            yield_now();
                        }
                    })),
                };
                match task % 3 {
                    0 => drop(n.spawn(move || {
                        loop {
                            let value = rx.recv().unwrap();
                            received.lock().unwrap().push(value);
                        }
                    })),
                    1 => drop(n.spawn_async(async move {
                        loop {
                            let value = rx.recv_async().await.unwrap();
                            received.lock().unwrap().push(value);
                            yield_once().await;
                        }
                    })),
                    _ => drop(n.spawn(move || {
                        loop {
                            if let Ok(value) = rx.recv_timeout(Duration::from_micros(50)) {
                                received.lock().unwrap().push(value);
                            }
                            yield_now();
                        }
                    })),
                };
            }
            for _ in 0..turns {
                yield_now();
            }
            n.cancel();
            Ok(())
        })
    });
    assert!(outcome.unwrap().unwrap_err().is_cancelled());
    let mut out = received.into_inner().unwrap();
    out.extend(rx.try_iter());
    let distinct: HashSet<u64> = out.iter().copied().collect();
    assert_eq!(distinct.len(), out.len(), "seed {seed}: something came out twice");
    let sent = sent.into_inner().unwrap();
    let sent: HashSet<u64> = sent.into_iter().collect();
    let lost: Vec<_> = sent.difference(&distinct).collect();
    assert!(lost.is_empty(), "seed {seed}: {lost:?} were sent and not received");
    // A future that offered its value without a buffer may be dropped after a receiver took it: then it cannot tell.
    let untold = if seed.is_multiple_of(4) { by_futures.into_inner().unwrap() } else { HashSet::new() };
    let invented: Vec<_> = distinct.difference(&sent).filter(|value| !untold.contains(value)).collect();
    assert!(invented.is_empty(), "seed {seed}: {invented:?} were received though no send succeeded");
}

async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn a_claim_that_is_dropped_is_passed_on() {
    // Futures are enlisted, a value comes for one of them, and that one is dropped unpolled: the next must get it.
    for kind_number in 0..4 {
        let (tx, rx) = kind::<u32>(kind_number);
        let mut cx = Context::from_waker(Waker::noop());
        let mut second = pin!(rx.recv_async());
        {
            let mut first = pin!(rx.recv_async());
            assert!(first.as_mut().poll(&mut cx).is_pending());
            assert!(second.as_mut().poll(&mut cx).is_pending());
            tx.try_send(7).unwrap(); // claims the first
        }
        assert_eq!(second.as_mut().poll(&mut cx), Poll::Ready(Ok(7)), "kind {kind_number}");
    }
    // With no other waiter the value stays in the channel, even in one without a buffer.
    let (tx, rx) = channel::<u32>(0);
    {
        let mut only = pin!(rx.recv_async());
        assert!(only.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        tx.try_send(8).unwrap();
    }
    assert_eq!((rx.len(), rx.try_recv()), (1, Ok(8)));
}

#[test]
fn room_that_a_dropped_sender_was_promised_goes_to_the_next() {
    let (tx, rx) = channel::<u32>(1);
    tx.send(0).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut second = pin!(tx.send_async(2));
    {
        let mut first = pin!(tx.send_async(1));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert_eq!(rx.try_recv(), Ok(0)); // claims the first
    }
    assert_eq!(second.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
    assert_eq!((rx.try_recv(), rx.try_recv().is_err()), (Ok(2), true));
}

#[test]
fn many_short_rounds_between_threads_lose_no_wakeup() {
    // Each round is over in microseconds; a lost wakeup would hang it.
    for round in 0..1500u64 {
        let (tx, rx) = kind::<u64>(round % 4);
        thread::scope(|s| {
            let sum = s.spawn(move || rx.into_iter().sum::<u64>());
            for _ in 0..2 {
                let tx = tx.clone();
                s.spawn(move || (0..3).for_each(|i| tx.send(i).unwrap()));
            }
            drop(tx);
            assert_eq!(sum.join().unwrap(), 6, "round {round}");
        });
    }
}

#[test]
fn many_short_rounds_between_fibers_lose_no_wakeup() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for round in 0..3000u64 {
        let (tx, rx) = kind::<u64>(round % 4);
        let sum = AtomicU64::new(0);
        runtime
            .nursery(|n| {
                for _ in 0..3 {
                    let (tx, rx, sum) = (tx.clone(), rx.clone(), &sum);
                    n.spawn(move || (1..=4).for_each(|i| tx.send(i).unwrap()));
                    n.spawn(move || rx.into_iter().for_each(|i| _ = sum.fetch_add(i, SeqCst)));
                }
                drop((tx, rx));
                Ok(())
            })
            .unwrap();
        assert_eq!(sum.into_inner(), 30, "round {round}");
    }
}
