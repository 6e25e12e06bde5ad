//! Operations that need not wait take turns with others: who is woken on a busy worker goes on after a bounded number of them, and so does a cancellation.
//!
//! What is counted is operations, not time. Every loop ends by itself after [`MOST`] rounds in vain, so a worker that gives no turns fails the test and does not hang it.

use std::{
    future::Future,
    io::{Read, Write},
    pin::Pin,
    sync::{
        Mutex as StdMutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use sched_actors as actor;
use sched_tasks::{
    Condvar, Fuel, Mutex, NurseryOptions, OnFailure, Runtime, Semaphore, block_on, channel, charge, checkpoint, join,
    nursery, nursery_with, oneshot, sleep, sleep_async, timeout, unblock, unbounded, yield_now,
};

use crate::support::{spin_until, until};

/// The limit of rounds of a loop after another task was told to continue and does not.
pub(crate) const MOST: u64 = 200_000;
/// And the limit if no task has been told to continue.
const MOST_UNTOLD: u64 = 50 * MOST;
/// A ready task runs after this many rounds of another: a few turns.
pub(crate) const SOON: u64 = 1024;
/// Something that has not started, too.
pub(crate) const SOME_TIME: u64 = 61 * 5 * 256;

/// What one of two tasks does again and again, and the other waits for.
#[derive(Default)]
pub(crate) struct Rounds {
    pub(crate) done: AtomicU64,
    is_enough: AtomicBool,
    /// When the other one was told to go on, and when it did.
    told: AtomicU64,
    went_on: AtomicU64,
}

impl Rounds {
    /// Counts a round. False if the loop is to end.
    pub(crate) fn another(&self) -> bool {
        // The reporter may be a thread that the system delays, on a busy machine.
        let most = match self.told.load(SeqCst) {
            0 => MOST_UNTOLD,
            told => told + MOST,
        };
        self.done.fetch_add(1, SeqCst) < most && !self.is_enough.load(SeqCst)
    }

    pub(crate) fn count(&self) {
        self.told.store(self.done.load(SeqCst), SeqCst);
    }

    pub(crate) fn go_on(&self) {
        self.went_on.store(self.done.load(SeqCst), SeqCst);
        self.is_enough.store(true, SeqCst);
    }

    /// The other one went on soon after it was told.
    pub(crate) fn check(&self, what: &str, soon: u64) {
        let (told, went_on) = (self.told.load(SeqCst), self.went_on.load(SeqCst));
        assert!(told < MOST_UNTOLD, "{what}: the reporter did not run within {told} rounds");
        assert!(went_on > 0, "{what}: the other one never went on");
        let rounds = went_on.saturating_sub(told);
        assert!(rounds <= soon, "{what}: told after {told} rounds, it went on after {went_on}: {rounds} more");
    }
}

pub(crate) fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().unwrap()
}

/// On one worker `busy` runs, until a fiber goes on that another thread woke.
pub(crate) fn check_woken(what: &str, busy: impl Fn(&Rounds) + Sync) {
    let rounds = &Rounds::default();
    let (wake, woken) = channel::<()>(1);
    let is_up = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            spin_until(|| rounds.done.load(SeqCst) > 300);
            wake.send(()).unwrap();
            rounds.count();
        });
        let outcome = one_worker().run(|| {
            nursery(|n| {
                n.spawn(|| {
                    is_up.store(true, SeqCst);
                    woken.recv().unwrap();
                    rounds.go_on();
                });
                until(|| is_up.load(SeqCst)); // it waits: on one worker it has stopped when this goes on
                busy(rounds);
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
    });
    rounds.check(what, SOON);
}

/// On one worker, with no other task, `busy` runs until it is cancelled.
pub(crate) fn check_cancelled(what: &str, busy: impl Fn(&Rounds) + Sync) {
    let rounds = &Rounds::default();
    let canceller = StdMutex::new(None);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            spin_until(|| rounds.done.load(SeqCst) > 300);
            let canceller: sched_tasks::Canceller = canceller.lock().unwrap().take().unwrap();
            canceller.cancel();
            rounds.count();
        });
        let outcome = one_worker().run(|| {
            nursery(|n| {
                *canceller.lock().unwrap() = Some(n.canceller());
                n.spawn(|| busy(rounds));
                Ok(())
            })
        });
        rounds.went_on.store(rounds.done.load(SeqCst), SeqCst);
        assert!(outcome.unwrap().unwrap_err().is_cancelled());
    });
    rounds.check(what, SOON);
}

pub(crate) type Future_<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The same for a future, beside a fiber.
pub(crate) fn check_async(what: &str, busy: impl for<'a> Fn(&'a Rounds) -> Future_<'a> + Sync) {
    let rounds = &Rounds::default();
    let (wake, woken) = channel::<()>(1);
    std::thread::scope(|threads| {
        let is_up = &AtomicBool::new(false);
        threads.spawn(move || {
            spin_until(|| rounds.done.load(SeqCst) > 300);
            wake.send(()).unwrap();
            rounds.count();
        });
        let outcome = one_worker().run(|| {
            nursery(|n| {
                n.spawn(|| {
                    is_up.store(true, SeqCst);
                    woken.recv().unwrap();
                    rounds.go_on();
                });
                until(|| is_up.load(SeqCst));
                n.spawn_async(busy(rounds));
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
    });
    rounds.check(what, SOON);
    cancel_async(what, &busy);
    beside_a_future(what, &busy);
}

fn cancel_async(what: &str, busy: &(impl for<'a> Fn(&'a Rounds) -> Future_<'a> + Sync)) {
    let rounds = &Rounds::default();
    let canceller = StdMutex::new(None);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            spin_until(|| rounds.done.load(SeqCst) > 300);
            let canceller: sched_tasks::Canceller = canceller.lock().unwrap().take().unwrap();
            canceller.cancel();
            rounds.count();
        });
        let outcome = one_worker().run(|| {
            nursery(|n| {
                *canceller.lock().unwrap() = Some(n.canceller());
                n.spawn_async(busy(rounds));
                Ok(())
            })
        });
        rounds.went_on.store(rounds.done.load(SeqCst), SeqCst);
        assert!(outcome.unwrap().unwrap_err().is_cancelled(), "{what}");
    });
    rounds.check(what, SOON);
}

/// And the other one is a future, too, which another thread wakes.
fn beside_a_future(what: &str, busy: &(impl for<'a> Fn(&'a Rounds) -> Future_<'a> + Sync)) {
    let rounds = &Rounds::default();
    let (wake, woken) = channel::<()>(1);
    std::thread::scope(|threads| {
        let is_up = &AtomicBool::new(false);
        threads.spawn(move || {
            spin_until(|| rounds.done.load(SeqCst) > 300);
            wake.send(()).unwrap();
            rounds.count();
        });
        let outcome = one_worker().run(|| {
            nursery(|n| {
                n.spawn_async(async {
                    is_up.store(true, SeqCst);
                    woken.recv_async().await.unwrap();
                    rounds.go_on();
                });
                until(|| is_up.load(SeqCst));
                n.spawn_async(busy(rounds));
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
    });
    rounds.check(what, SOME_TIME);
}

/// A test for each kind of operation: beside a loop of it a woken fiber goes on, and the loop itself is cancelled.
macro_rules! operations_take_turns {
    ($($name:ident: $busy:expr;)+) => {$(
        #[test]
        fn $name() {
            $crate::turns::check_woken(stringify!($name), $busy);
            $crate::turns::check_cancelled(stringify!($name), $busy);
        }
    )+};
}

macro_rules! futures_take_turns {
    ($($name:ident: |$rounds:ident| $busy:block;)+) => {$(
        #[test]
        fn $name() {
            $crate::turns::check_async(stringify!($name), |$rounds| Box::pin(async move $busy));
        }
    )+};
}

pub(crate) use {futures_take_turns, operations_take_turns};

operations_take_turns! {
    a_loop_of_send_and_recv_takes_turns: |rounds| {
        let (tx, rx) = channel(2);
        while rounds.another() {
            tx.send(1).unwrap();
            assert_eq!(rx.recv(), Ok(1));
        }
    };
    a_loop_of_send_and_recv_on_an_unbounded_channel_takes_turns: |rounds| {
        let (tx, rx) = unbounded();
        while rounds.another() {
            tx.send(1).unwrap();
            assert_eq!(rx.recv(), Ok(1));
        }
    };
    a_loop_of_only_send_on_an_unbounded_channel_takes_turns: |rounds| {
        let (tx, _rx) = unbounded();
        while rounds.another() {
            tx.send(()).unwrap();
        }
    };
    a_loop_of_send_and_recv_with_a_timeout_takes_turns: |rounds| {
        let (tx, rx) = channel(2);
        while rounds.another() {
            tx.send_timeout(1, Duration::from_secs(60)).unwrap();
            assert_eq!(rx.recv_timeout(Duration::from_secs(60)), Ok(1));
        }
    };
    a_loop_of_recv_on_a_closed_channel_takes_turns: |rounds| {
        let (_, rx) = channel::<()>(2);
        while rounds.another() {
            assert!(rx.recv().is_err());
        }
    };
    a_loop_of_try_recv_takes_turns: |rounds| {
        let (_tx, rx) = channel::<()>(2);
        while rounds.another() {
            assert!(rx.try_recv().is_err());
        }
    };
    a_loop_of_try_recv_at_a_rendezvous_takes_turns: |rounds| {
        let (_tx, rx) = channel::<()>(0);
        while rounds.another() {
            assert!(rx.try_recv().is_err());
        }
    };
    a_loop_of_try_send_takes_turns: |rounds| {
        let (tx, _rx) = channel(0);
        while rounds.another() {
            assert!(tx.try_send(1).is_err());
        }
    };
    a_loop_of_select_with_a_default_takes_turns: |rounds| {
        let (_tx, rx) = channel::<()>(1);
        while rounds.another() {
            sched_tasks::select! {
                recv(rx) => unreachable!(),
                default => {}
            }
        }
    };
    a_loop_of_select_that_is_ready_takes_turns: |rounds| {
        let (tx, rx) = channel(1);
        while rounds.another() {
            sched_tasks::select! {
                recv(rx) => {}
                send(tx, ()) => {}
            }
        }
    };
    a_loop_of_biased_selects_takes_turns: |rounds| {
        let (tx, rx) = channel(1);
        while rounds.another() {
            sched_tasks::select! {
                biased;
                recv(rx) => {}
                send(tx, ()) => {}
            }
        }
    };
    a_loop_of_oneshots_takes_turns: |rounds| {
        while rounds.another() {
            let (tx, rx) = oneshot::channel();
            tx.send(1).unwrap();
            assert_eq!(rx.recv(), Ok(1));
        }
    };
    a_loop_of_try_recv_of_a_oneshot_takes_turns: |rounds| {
        let (_tx, mut rx) = oneshot::channel::<()>();
        while rounds.another() {
            assert!(rx.try_recv().is_err());
        }
    };
    a_loop_of_locks_takes_turns: |rounds| {
        let mutex = Mutex::new(0);
        while rounds.another() {
            *mutex.lock() += 1;
        }
    };
    a_loop_of_try_lock_takes_turns: |rounds| {
        let mutex = Mutex::new(0);
        while rounds.another() {
            *mutex.try_lock().unwrap() += 1;
        }
    };
    a_loop_of_lock_and_notify_takes_turns: |rounds| {
        let (mutex, changed) = (Mutex::new(0), Condvar::new());
        while rounds.another() {
            *mutex.lock_timeout(Duration::from_secs(60)).unwrap() += 1;
            changed.notify_all();
        }
    };
    a_loop_of_acquire_takes_turns: |rounds| {
        let semaphore = Semaphore::new(1);
        while rounds.another() {
            drop(semaphore.acquire(1));
        }
    };
    a_loop_of_try_acquire_takes_turns: |rounds| {
        let semaphore = Semaphore::new(0);
        while rounds.another() {
            assert!(semaphore.try_acquire(1).is_none());
        }
    };
    a_loop_of_checkpoints_takes_turns: |rounds| {
        while rounds.another() {
            checkpoint();
        }
    };
    a_loop_of_charges_takes_turns: |rounds| {
        while rounds.another() {
            charge(3);
        }
    };
    a_loop_of_yields_takes_turns: |rounds| {
        while rounds.another() {
            yield_now();
        }
    };
    calls_of_budgeted_functions_take_turns: |rounds| {
        while rounds.another() {
            drop(Fuel::enter());
        }
    };
    a_loop_of_block_on_takes_turns: |rounds| {
        while rounds.another() {
            block_on(std::future::ready(()));
        }
    };
    a_future_that_is_always_ready_takes_turns_in_block_on: |rounds| {
        let (tx, rx) = channel(2);
        block_on(async {
            while rounds.another() {
                tx.send_async(1).await.unwrap();
                assert_eq!(rx.recv_async().await, Ok(1));
            }
        });
    };
    a_loop_of_spawns_that_are_refused_takes_turns: |rounds| {
        let options = NurseryOptions::new().on_failure(OnFailure::WaitAll);
        let _ = nursery_with(options, |n| {
            n.close();
            while rounds.another() {
                let _ = n.spawn(|| ()).join();
            }
            Ok(())
        });
        checkpoint();
    };
    a_loop_of_empty_nurseries_takes_turns: |rounds| {
        while rounds.another() {
            let _ = nursery(|_| Ok(())); // `Err` in a cancelled task
        }
    };
    a_loop_of_two_halves_takes_turns: |rounds| {
        while rounds.another() {
            assert_eq!(join(|| 1, || 2), (1, 2));
        }
    };
    a_loop_of_messages_to_an_actor_that_is_full_takes_turns: |rounds| {
        let outcome = nursery(|n| {
            let slow = actor::spawn_bounded(n, "slow", 1, actor::from_fn(|_: u32, _| {
                sleep(Duration::from_secs(3600));
                Ok(())
            }));
            while rounds.another() {
                let _ = slow.try_send(1);
            }
            n.dismiss();
            Ok(())
        });
        if outcome.is_err() {
            checkpoint();
        }
    };
    an_actor_that_always_has_a_message_takes_turns: |rounds| {
        let outcome = nursery(|n| {
            let mut itself = None;
            let address = actor::spawn(n, "to itself", actor::from_fn(move |_: u32, ctx: &mut actor::Context<u32>| {
                if rounds.another() {
                    itself.get_or_insert_with(|| ctx.address()).try_send(1)?;
                } else {
                    ctx.stop();
                }
                Ok(())
            }));
            address.send(1)?;
            until(|| rounds.done.load(SeqCst) > 0); // it has its own address now
            Ok(())
        });
        if outcome.is_err() {
            checkpoint();
        }
    };
    a_loop_of_unblock_takes_turns: |rounds| {
        while rounds.another() {
            unblock(|| ());
        }
    };
    bytes_that_are_always_there_take_turns: |rounds| {
        let listener = sched_tasks::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = sched_tasks::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        let mut byte = [7];
        while rounds.another() {
            near.write_all(&byte).unwrap();
            far.read_exact(&mut byte).unwrap(); // on loopback it is there
        }
    };
}

futures_take_turns! {
    a_future_that_can_always_send_and_receive_takes_turns: |rounds| {
        let (tx, rx) = channel(2);
        while rounds.another() {
            tx.send_async(1).await.unwrap();
            assert_eq!(rx.recv_async().await, Ok(1));
        }
    };
    a_future_that_meets_only_closed_channels_takes_turns: |rounds| {
        let (_, rx) = unbounded::<()>();
        while rounds.another() {
            assert!(rx.recv_async().await.is_err());
        }
    };
    a_future_that_tries_pays_at_its_next_await: |rounds| {
        let (tx, rx) = channel(2);
        while rounds.another() {
            tx.try_send(1).unwrap();
            let _ = rx.try_recv();
            drop(Semaphore::new(1).acquire_async(1).await);
        }
    };
    a_future_that_awaits_oneshots_takes_turns: |rounds| {
        while rounds.another() {
            let (tx, rx) = oneshot::channel();
            tx.send(1).unwrap();
            assert_eq!(rx.await, Ok(1));
        }
    };
    a_future_that_always_gets_its_permit_takes_turns: |rounds| {
        let semaphore = Semaphore::new(1);
        while rounds.another() {
            drop(semaphore.acquire_async(1).await);
        }
    };
    a_future_whose_timers_are_due_takes_turns: |rounds| {
        while rounds.another() {
            sleep_async(Duration::ZERO).await;
        }
    };
    a_future_within_a_timeout_takes_turns: |rounds| {
        let (tx, rx) = channel(2);
        while rounds.another() {
            tx.send_async(1).await.unwrap();
            assert_eq!(timeout(Duration::from_secs(60), rx.recv_async()).await, Ok(Ok(1)));
        }
    };
}
