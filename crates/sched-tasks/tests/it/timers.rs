//! Channels that time sends into.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use sched_tasks::{
    Reason, RecvError, RecvTimeoutError, Runtime, TryRecvError, after, block_on, channel, explore, now, nursery, run,
    select, sleep, ticker, timeout, yield_now,
};

const MOMENT: Duration = Duration::from_millis(2);
const SECOND: Duration = Duration::from_secs(1);

fn seeded(program: impl Fn() + Send + Sync) {
    Runtime::builder().workers(2).seeded(3).build().unwrap().run(program).unwrap();
}

/// Whole seconds of a time, counted from `begun`.
fn seconds(begun: Instant, at: Result<Instant, RecvError>) -> u64 {
    (at.unwrap() - begun).as_secs()
}

#[test]
fn an_after_has_one_value_in_time_and_is_closed_then() {
    let check = || {
        let begun = now();
        let timer = after(MOMENT);
        assert_eq!((timer.try_recv(), timer.len(), timer.capacity()), (Err(TryRecvError::Empty), 0, Some(1)));
        let due = timer.recv().unwrap();
        assert!(due >= begun + MOMENT && now() >= due);
        assert_eq!((timer.recv(), timer.try_recv()), (Err(RecvError), Err(TryRecvError::Closed)));
        assert!(timer.is_closed() && timer.iter().next().is_none());
        let timer = after(MOMENT);
        sleep(2 * MOMENT);
        assert_eq!(timer.len(), 1);
        assert!(timer.try_recv().is_ok());
        assert!(block_on(after(MOMENT).recv_async()).is_ok());
        assert!(after(Duration::ZERO).recv().is_ok());
        assert_eq!(after(Duration::MAX).recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
    };
    check();
    run(check).unwrap();
    explore(0..20, check);
}

#[test]
fn ticks_come_in_every_period() {
    let check = || {
        let begun = now();
        let ticks = ticker(MOMENT);
        for round in 1..=5 {
            let due = ticks.recv().unwrap();
            assert!(now() >= due && due >= begun + round * MOMENT);
        }
    };
    check();
    run(check).unwrap();
    explore(0..20, check);
}

#[test]
fn a_slow_reader_gets_no_burst_and_the_ticks_keep_their_times() {
    seeded(|| {
        let begun = now();
        let ticks = ticker(10 * SECOND);
        assert_eq!(seconds(begun, ticks.recv()), 10);
        sleep(37 * SECOND);
        assert_eq!((seconds(begun, ticks.recv()), now() - begun >= 47 * SECOND), (20, true));
        assert_eq!(ticks.try_recv(), Err(TryRecvError::Empty), "30 and 40 are skipped");
        assert_eq!(seconds(begun, ticks.recv()), 50);
        assert_eq!(seconds(begun, block_on(ticks.recv_async())), 60);
        let many: Vec<u64> = ticks.iter().take(3).map(|at| seconds(begun, Ok(at))).collect();
        assert_eq!(many, [70, 80, 90]);
    });
}

#[test]
fn timers_are_cases_of_a_select() {
    seeded(|| {
        let begun = now();
        let (tx, rx) = channel(1);
        let (ticks, end) = (ticker(2 * SECOND), after(9 * SECOND));
        let (mut ticked, mut got) = (0, 0);
        nursery(|n| {
            n.try_spawn(move || {
                for value in 0..3 {
                    sleep(SECOND);
                    tx.send(value)?;
                }
                sleep(60 * SECOND);
                Ok(())
            });
            loop {
                select! {
                    _value = recv(rx) => got += 1,
                    recv(ticks) => ticked += 1,
                    at = recv(end) => break assert_eq!(seconds(begun, at), 9),
                }
            }
            n.cancel();
            Ok(())
        })
        .unwrap_err();
        assert_eq!((ticked, got), (4, 3));
        let on_time = select! {
            biased;
            recv(end) => false,
            recv(ticks) => true,
        };
        assert!(!on_time, "an `after` that is over is closed");
    });
}

#[test]
fn a_timer_does_not_hide_a_deadlock() {
    let runtime = Runtime::builder().workers(2).seeded(3).build().unwrap();
    let outcome = runtime.nursery(|n| {
        let (_ticks, _timer) = (ticker(SECOND), after(SECOND));
        let (_tx, rx) = channel::<()>(1);
        Ok(n.spawn(move || rx.recv()).join()??)
    });
    assert!(matches!(outcome.unwrap_err().reason(), Reason::Deadlock { .. }));
}

#[test]
fn each_tick_goes_to_one_receiver_and_each_after_too() {
    explore(0..100, || {
        let (ticks, timer) = (ticker(SECOND), after(SECOND));
        nursery(|n| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let (ticks, timer) = (ticks.clone(), timer.clone());
                    n.spawn(move || (ticks.recv().unwrap(), timer.recv().is_ok()))
                })
                .collect();
            let (mut ticked, mut timed) = (Vec::new(), 0);
            for reader in readers {
                let (tick, has_it) = reader.join()?;
                ticked.push(tick);
                timed += u32::from(has_it);
            }
            ticked.sort();
            assert!(ticked.windows(2).all(|two| two[1] - two[0] == SECOND), "{ticked:?}");
            assert_eq!(timed, 1);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_closed_timer_wakes_who_waits_for_it() {
    explore(0..100, || {
        let ticks = ticker(3600 * SECOND);
        let begun = now();
        nursery(|n| {
            let waits = n.spawn(|| ticks.recv());
            let polls = n.spawn_async(async { ticks.recv_async().await });
            yield_now();
            assert!(ticks.close() && !ticks.close());
            assert_eq!((waits.join()?, polls.join()?), (Err(RecvError), Err(RecvError)));
            Ok(())
        })
        .unwrap();
        assert!(ticks.is_closed() && now() - begun < SECOND);
    });
}

#[test]
fn who_is_cancelled_or_dropped_while_it_waits_takes_no_tick() {
    explore(0..200, || {
        let (begun, ticks) = (now(), ticker(SECOND));
        let outcome = nursery(|n| {
            n.spawn(|| ticks.recv());
            n.spawn_async(async { timeout(SECOND / 2, ticks.recv_async()).await });
            sleep(SECOND - Duration::from_micros(10)); // some steps before the first tick
            n.cancel();
            Ok(())
        });
        let mut cx = Context::from_waker(Waker::noop());
        {
            let mut dropped = pin!(ticks.recv_async());
            let _ = dropped.as_mut().poll(&mut cx);
        }
        if outcome.is_err() {
            let next = seconds(begun, ticks.recv());
            assert!([1, 2, 3].contains(&next), "{next}");
        }
    });
}

#[test]
fn a_timer_of_one_thread_may_be_waited_for_by_another() {
    let timer = after(MOMENT);
    let ticks = ticker(MOMENT);
    thread::scope(|s| {
        assert!(s.spawn(|| timer.recv()).join().unwrap().is_ok());
        assert!(run(|| ticks.recv()).unwrap().is_ok());
    });
}

#[test]
#[should_panic(expected = "a ticker has a period")]
fn a_ticker_without_a_period_is_refused() {
    drop(ticker(Duration::ZERO));
}

#[test]
fn a_timer_is_shown_as_a_receiver() {
    assert_eq!(format!("{:?}", ticker(SECOND)), "Receiver { len: 0, capacity: Some(1), closed: false }");
}
