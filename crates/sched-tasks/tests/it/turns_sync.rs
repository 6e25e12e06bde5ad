//! Operations of locks for readers, of timers, and of channels in which every receiver sees everything, take turns as all others do.

use std::time::Duration;

use sched_tasks::{RwLock, after, ticker};

use crate::turns::{futures_take_turns, operations_take_turns};

operations_take_turns! {
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
}
