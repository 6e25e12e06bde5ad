//! Models of `src/idle.rs`.

use super::*;

/// Items to be done, seen only by relaxed loads: nothing but the fences of `Idle` orders them.
struct Work(AtomicU32);

impl Work {
    fn push(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn take(&self) -> bool {
        self.any() && self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn any(&self) -> bool {
        self.0.load(Relaxed) != 0
    }
}

struct WorkerPool {
    idle: Idle,
    work: Work,
    running: Mutex<u32>,
    changed: Condvar,
}

impl WorkerPool {
    fn new() -> &'static Self {
        leak(Self { idle: Idle::new(), work: Work(AtomicU32::new(0)), running: Mutex::new(0), changed: Condvar::new() })
    }

    fn publish(&self) {
        self.work.push();
        self.idle.published();
    }

    /// Looks for one item as a worker does, and returns when it has one.
    fn find_work(&self, inbox: &'static Inbox, mut searching: bool) {
        while !self.work.take() {
            self.idle.fall_asleep(inbox, searching, true);
            if !self.work.any() {
                inbox.sleep(None);
            }
            searching = self.idle.stay_awake(inbox);
        }
        if searching {
            self.idle.end_search(|| self.work.any());
        }
    }

    /// Does one item, which takes until `all` are being done at once.
    fn run_until(&self, all: u32) {
        let mut running = self.running.lock().unwrap();
        *running += 1;
        self.changed.notify_all();
        while *running < all {
            running = self.changed.wait(running).unwrap();
        }
    }
}

#[test]
fn no_wakeup_is_lost() {
    for searching in [false, true] {
        check(move || {
            let (pool, inbox) = (WorkerPool::new(), leak(Inbox::for_thread()));
            let worker = thread::spawn(move || {
                pool.find_work(inbox, searching && pool.idle.begin_search(1));
            });
            pool.publish();
            worker.join().unwrap();
            assert!(!pool.idle.any_sleeper());
            assert!(pool.idle.begin_search(1), "no searcher is left over");
        });
    }
}

#[test]
fn an_offer_wakes_a_worker_that_is_known_to_sleep() {
    check(|| {
        let (pool, inbox) = (WorkerPool::new(), leak(Inbox::for_thread()));
        pool.idle.fall_asleep(inbox, false, true);
        let worker = thread::spawn(move || {
            if !pool.work.any() {
                inbox.sleep(None);
            }
            if pool.idle.stay_awake(inbox) {
                pool.idle.end_search(|| pool.work.any());
            }
            pool.work.take()
        });
        pool.work.push();
        pool.idle.offered();
        let by_publisher = pool.work.take();
        let by_worker = worker.join().unwrap();
        assert!(by_publisher ^ by_worker, "it is taken once, by {by_publisher} and {by_worker}");
        assert!(!pool.idle.any_sleeper());
        assert!(pool.idle.begin_search(1), "no searcher is left over");
    });
}

#[test]
fn the_search_is_handed_on() {
    // Two items that are done only together, two workers, of which at most one searches.
    check(|| {
        let pool = WorkerPool::new();
        let workers = [false, true].map(|searching| {
            thread::spawn(move || {
                let inbox = leak(Inbox::for_thread());
                pool.find_work(inbox, searching && pool.idle.begin_search(1));
                pool.run_until(2);
            })
        });
        pool.publish();
        pool.publish();
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(!pool.idle.any_sleeper());
        assert!(pool.idle.begin_search(1), "no searcher is left over");
    });
}

/// A worker is notified of work and for its inbox at once.
#[test]
fn two_notifications_wake_one_worker() {
    check(|| {
        let pool = WorkerPool::new();
        let (inbox, waiter) = thread_waiter();
        let token = waiter.token();
        assert_eq!(token.park(), Park::Parked);
        let waker = thread::spawn(move || assert!(wake(token, 0)));
        let publisher = thread::spawn(move || pool.publish());
        let (mut arrived, mut worked, mut searching) = (0, false, false);
        while arrived == 0 || !worked {
            arrived += inbox.arrivals().count();
            worked |= pool.work.take();
            if searching {
                pool.idle.end_search(|| pool.work.any());
            }
            pool.idle.fall_asleep(inbox, false, true);
            if (arrived == 0 || !worked) && !inbox.has_arrivals() && !pool.work.any() {
                inbox.sleep(None);
            }
            searching = pool.idle.stay_awake(inbox);
        }
        if searching {
            pool.idle.end_search(|| pool.work.any());
        }
        waker.join().unwrap();
        publisher.join().unwrap();
        assert_eq!(arrived, 1);
        assert!(!pool.idle.any_sleeper());
        assert!(pool.idle.begin_search(1), "no searcher is left over");
    });
}

#[test]
fn shutdown_reaches_every_sleeper() {
    check(|| {
        let pool = WorkerPool::new();
        let workers = [(); 2].map(|()| thread::spawn(move || pool.find_work(leak(Inbox::for_thread()), false)));
        pool.work.push();
        pool.work.push();
        loom::sync::atomic::fence(SeqCst);
        pool.idle.notify_all();
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(!pool.idle.any_sleeper());
        assert!(pool.idle.begin_search(1), "no searcher is left over");
    });
}

/// One worker takes everything, the other nothing: what the other is notified of, and what publishers leave to its search, reaches the first.
#[test]
fn a_worker_that_cannot_take_it_passes_the_search_on() {
    check(|| {
        let (pool, over) = (WorkerPool::new(), leak(AtomicU32::new(0)));
        let (picky, able) = (leak(Inbox::for_thread()), leak(Inbox::for_thread()));
        pool.idle.fall_asleep(picky, false, false);
        let picky = thread::spawn(move || {
            loop {
                if over.load(Relaxed) == 0 {
                    picky.sleep(None);
                }
                if pool.idle.stay_awake(picky) {
                    pool.idle.pass_on();
                }
                if over.load(Relaxed) != 0 {
                    return;
                }
                pool.idle.fall_asleep(picky, false, false);
            }
        });
        let able = thread::spawn(move || (0..2).for_each(|_| pool.find_work(able, false)));
        pool.publish(); // to the picky one, if the other does not sleep yet
        pool.publish(); // to the worker that searches
        able.join().unwrap();
        over.store(1, Relaxed);
        loom::sync::atomic::fence(SeqCst);
        pool.idle.notify_all();
        picky.join().unwrap();
        assert!(!pool.idle.any_sleeper());
        assert!(pool.idle.begin_search(1), "no searcher is left over");
    });
}
