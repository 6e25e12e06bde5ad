//! A program that uses everything whose order could differ, for tests of what a seed decides.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use sched_tasks::{
    Condvar, Mutex, NurseryOptions, Priority, Semaphore, TaskError, channel, checkpoint, join, now, nursery,
    nursery_with, oneshot, run, select, sleep, sleep_async, timeout, unblock, unblock_async, unbounded, yield_now,
};

const MS: Duration = Duration::from_millis(1);

/// What happened, in the order it did, as a number.
pub(crate) struct Diary(AtomicU64);

impl Diary {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn note(&self, what: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_mul(31).wrapping_add(what), Relaxed);
    }
}

/// Runs it all, and says in which order things happened.
pub(crate) fn medley() -> u64 {
    let diary = Diary::new();
    let begun = now();
    nursery(|n| {
        n.spawn(|| channels(&diary));
        n.spawn(|| locks(&diary));
        n.spawn(|| timers(&diary));
        n.task().priority(Priority::High).spawn(|| futures(&diary));
        n.task().priority(Priority::Low).spawn(|| failures(&diary));
        n.spawn(|| halves(&diary, 4));
        Ok(())
    })
    .unwrap();
    diary.note(begun.elapsed_virtually());
    diary.0.into_inner()
}

trait Elapsed {
    fn elapsed_virtually(self) -> u64;
}

impl Elapsed for std::time::Instant {
    fn elapsed_virtually(self) -> u64 {
        (now() - self).as_micros() as u64
    }
}

fn channels(diary: &Diary) {
    nursery(|n| {
        let (tx, rx) = channel(2);
        let (zero_tx, zero_rx) = channel(0);
        let (many_tx, many_rx) = unbounded();
        for i in 0..3_u64 {
            let (tx, zero, many) = (tx.clone(), zero_tx.clone(), many_tx.clone());
            n.spawn(move || {
                for j in 0..3 {
                    tx.send(i * 10 + j).unwrap();
                    select! {
                        send(zero, i) => diary.note(8),
                        send(many, j) => diary.note(9),
                    }
                }
            });
        }
        drop((tx, zero_tx, many_tx));
        let (mut open, mut got) = ([true; 3], 0);
        while got < 18 {
            select! {
                v = recv(rx) => if let Ok(v) = v { diary.note(v); got += 1 } else { open[0] = false; yield_now() },
                v = recv(zero_rx) => if let Ok(v) = v { diary.note(100 + v); got += 1 } else { open[1] = false; yield_now() },
                v = recv(many_rx) => if let Ok(v) = v { diary.note(200 + v); got += 1 } else { open[2] = false; yield_now() },
                timeout(MS) => diary.note(7),
            }
        }
        Ok(())
    })
    .unwrap();
}

fn locks(diary: &Diary) {
    let (mutex, changed, permits) = (Mutex::new(0), Condvar::new(), Semaphore::new(2));
    nursery(|n| {
        for i in 0..4 {
            let (mutex, changed, permits) = (&mutex, &changed, &permits);
            n.spawn(move || {
                let _permit = permits.acquire(1);
                let mut count = mutex.lock();
                *count += 1;
                diary.note(300 + i);
                yield_now();
                drop(count);
                changed.notify_all();
            });
        }
        let mut count = mutex.lock();
        changed.wait_while(&mut count, |count| *count < 4);
        let (tx, rx) = oneshot::channel();
        n.spawn(move || tx.send(5));
        diary.note(rx.recv()?);
        Ok(())
    })
    .unwrap();
}

fn timers(diary: &Diary) {
    nursery(|n| {
        for i in 0..4_u64 {
            n.spawn(move || {
                sleep(MS * (5 - i as u32 % 2));
                diary.note(400 + i);
            });
        }
        Ok(())
    })
    .unwrap();
    let late = nursery_with(NurseryOptions::new().timeout(Duration::from_secs(60)), |n| {
        n.spawn(|| sleep(Duration::from_secs(3600))).join()
    });
    assert!(late.is_err());
}

fn futures(diary: &Diary) {
    nursery(|n| {
        let (tx, rx) = channel(1);
        n.spawn_async(async move {
            for i in 0..3 {
                sleep_async(MS).await;
                tx.send_async(i).await.unwrap();
            }
        });
        let sum = n.spawn_async(async move {
            let mut sum = 0;
            while let Ok(i) = rx.recv_async().await {
                diary.note(500 + i);
                sum += i;
            }
            sum + unblock_async(|| 1).await
        });
        let never = n.spawn_async(timeout(Duration::from_secs(9), std::future::pending::<()>()));
        assert_eq!((sum.join()?, never.join()?.is_err()), (4, true));
        Ok(())
    })
    .unwrap();
}

fn failures(diary: &Diary) {
    let failed = nursery(|n| {
        for i in 0..3_u64 {
            n.try_spawn(move || {
                (0..i).for_each(|_| yield_now());
                diary.note(600 + i);
                Err::<(), _>(TaskError::msg("as planned"))
            });
        }
        let (tx, rx) = channel::<()>(1);
        struct Tells<'a>(&'a Diary);
        impl Drop for Tells<'_> {
            fn drop(&mut self) {
                yield_now(); // others run in the middle of this unwinding
                self.0.note(700);
            }
        }
        n.spawn(move || {
            let _tells = Tells(diary);
            rx.recv()
        });
        n.spawn(move || {
            let _keep = tx;
            loop {
                checkpoint();
                yield_now();
            }
        });
        Ok(())
    });
    assert!(failed.is_err());
}

fn halves(diary: &Diary, depth: u64) -> u64 {
    if depth == 0 {
        diary.note(800);
        return unblock(|| 1);
    }
    let (left, right) = join(|| halves(diary, depth - 1), || run(|| halves(diary, depth - 1)).unwrap());
    diary.note(800 + depth);
    left + right
}
