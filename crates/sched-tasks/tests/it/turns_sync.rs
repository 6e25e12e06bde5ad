//! Operations of locks for readers, of timers, and of channels in which every receiver sees everything, take turns as all others do.

use std::time::Duration;

use sched_tasks::{RwLock, after, broadcast, ticker, watch};

use crate::turns::{futures_take_turns, operations_take_turns};

operations_take_turns! {
    a_loop_of_watched_changes_takes_turns: |rounds| {
        let (tx, rx) = watch::channel(0);
        while rounds.another() {
            tx.send_modify(|value| *value += 1);
            assert!(rx.changed().is_ok() && rx.wait_for(|value| *value > 0).is_ok());
        }
    };
    a_loop_of_only_send_on_a_watch_channel_takes_turns: |rounds| {
        let (tx, _rx) = watch::channel(0);
        while rounds.another() {
            tx.send(1).unwrap();
        }
    };
    a_loop_of_looks_at_a_closed_watch_channel_takes_turns: |rounds| {
        let (tx, rx) = watch::channel(0);
        drop(tx.subscribe());
        drop(tx);
        while rounds.another() {
            assert!(rx.changed().is_err());
        }
    };
    a_loop_of_looks_at_the_newest_value_takes_turns: |rounds| {
        let (_tx, rx) = watch::channel(0);
        while rounds.another() {
            assert!(*rx.latest() == 0 && !rx.has_changed());
        }
    };
    a_loop_of_conditions_that_hold_takes_turns: |rounds| {
        let (_tx, rx) = watch::channel(0);
        while rounds.another() {
            assert!(rx.wait_for(|value| *value == 0).is_ok());
        }
    };
    a_loop_of_closed_takes_turns: |rounds| {
        let (tx, _) = watch::channel(0);
        while rounds.another() {
            tx.closed();
        }
    };
    a_loop_of_broadcasts_takes_turns: |rounds| {
        let (tx, rx) = broadcast::channel(2);
        while rounds.another() {
            tx.send(1).unwrap();
            assert_eq!(rx.recv(), Ok(1));
        }
    };
    a_loop_of_only_send_on_a_broadcast_channel_takes_turns: |rounds| {
        let (tx, _rx) = broadcast::channel(2);
        while rounds.another() {
            tx.send(1).unwrap();
        }
    };
    a_loop_of_try_recv_of_a_broadcast_takes_turns: |rounds| {
        let (_tx, rx) = broadcast::channel::<u8>(2);
        while rounds.another() {
            assert!(rx.try_recv().is_err());
        }
    };
    a_loop_of_timers_that_are_due_takes_turns: |rounds| {
        let ticks = ticker(Duration::from_secs(3600));
        while rounds.another() {
            assert!(after(Duration::ZERO).recv().is_ok());
            assert!(ticks.try_recv().is_err());
        }
    };
    a_loop_of_reads_and_writes_takes_turns: |rounds| {
        let lock = RwLock::new(0);
        while rounds.another() {
            assert!(*lock.read() < u64::MAX);
            *lock.write() += 1;
        }
    };
    a_loop_of_try_read_and_try_write_takes_turns: |rounds| {
        let lock = RwLock::new(0);
        while rounds.another() {
            assert!(lock.try_read().is_some());
            *lock.try_write().unwrap() += 1;
        }
    };
}

futures_take_turns! {
    a_future_that_always_may_read_and_write_takes_turns: |rounds| {
        let lock = RwLock::new(0);
        while rounds.another() {
            drop(lock.read_async().await);
            *lock.write_async().await += 1;
        }
    };
    a_future_whose_timer_channels_are_due_takes_turns: |rounds| {
        while rounds.another() {
            assert!(after(Duration::ZERO).recv_async().await.is_ok());
        }
    };
    a_future_that_always_sees_a_change_takes_turns: |rounds| {
        let (tx, rx) = watch::channel(0);
        while rounds.another() {
            tx.send_replace(1);
            assert!(rx.changed_async().await.is_ok());
        }
    };
    a_future_that_always_finds_its_condition_takes_turns: |rounds| {
        let (_tx, rx) = watch::channel(0);
        while rounds.another() {
            assert!(rx.wait_for_async(|value| *value == 0).await.is_ok());
        }
    };
    a_future_that_always_finds_a_watch_channel_closed_takes_turns: |rounds| {
        let (tx, _) = watch::channel(0);
        while rounds.another() {
            tx.closed_async().await;
        }
    };
    a_future_that_always_gets_a_broadcast_takes_turns: |rounds| {
        let (tx, rx) = broadcast::channel(2);
        while rounds.another() {
            tx.send(1).unwrap();
            assert_eq!(rx.recv_async().await, Ok(1));
        }
    };
}
