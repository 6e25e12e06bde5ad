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

struct House {
    idle: Idle,
    work: Work,
    running: Mutex<u32>,
    changed: Condvar,
}

impl House {
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
            self.idle.end_search();
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
            let (house, inbox) = (House::new(), leak(Inbox::for_thread()));
            let worker = thread::spawn(move || {
                house.find_work(inbox, searching && house.idle.begin_search(1));
            });
            house.publish();
            worker.join().unwrap();
            assert!(!house.idle.any_sleeper());
            assert!(house.idle.begin_search(1), "nobody is left over as a searcher");
        });
    }
}

#[test]
fn the_search_is_handed_on() {
    // Two items that are done only together, two workers, of which at most one searches.
    check(|| {
        let house = House::new();
        let workers = [false, true].map(|searching| {
            thread::spawn(move || {
                let inbox = leak(Inbox::for_thread());
                house.find_work(inbox, searching && house.idle.begin_search(1));
                house.run_until(2);
            })
        });
        house.publish();
        house.publish();
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(!house.idle.any_sleeper());
        assert!(house.idle.begin_search(1), "nobody is left over as a searcher");
    });
}

/// A worker is rung for work and for its inbox at once.
#[test]
fn two_bells_wake_one_worker() {
    check(|| {
        let house = House::new();
        let (inbox, waiter) = thread_waiter();
        let token = waiter.token();
        assert_eq!(token.park(), Park::Parked);
        let waker = thread::spawn(move || assert!(wake(token, 0)));
        let publisher = thread::spawn(move || house.publish());
        let (mut arrived, mut worked, mut searching) = (0, false, false);
        while arrived == 0 || !worked {
            arrived += inbox.arrivals().count();
            worked |= house.work.take();
            if searching {
                house.idle.end_search();
            }
            house.idle.fall_asleep(inbox, false, true);
            if (arrived == 0 || !worked) && !inbox.has_arrivals() && !house.work.any() {
                inbox.sleep(None);
            }
            searching = house.idle.stay_awake(inbox);
        }
        if searching {
            house.idle.end_search();
        }
        waker.join().unwrap();
        publisher.join().unwrap();
        assert_eq!(arrived, 1);
        assert!(!house.idle.any_sleeper());
        assert!(house.idle.begin_search(1), "nobody is left over as a searcher");
    });
}

#[test]
fn the_end_reaches_every_sleeper() {
    check(|| {
        let house = House::new();
        let workers = [(); 2].map(|()| thread::spawn(move || house.find_work(leak(Inbox::for_thread()), false)));
        house.work.push();
        house.work.push();
        loom::sync::atomic::fence(SeqCst);
        house.idle.ring_all();
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(!house.idle.any_sleeper());
        assert!(house.idle.begin_search(1), "nobody is left over as a searcher");
    });
}

/// One worker takes everything, the other nothing: what the other is rung for, and what publishers leave to its search, reaches the first.
#[test]
fn a_worker_that_cannot_take_it_passes_the_search_on() {
    check(|| {
        let (house, over) = (House::new(), leak(AtomicU32::new(0)));
        let (picky, able) = (leak(Inbox::for_thread()), leak(Inbox::for_thread()));
        house.idle.fall_asleep(picky, false, false);
        let picky = thread::spawn(move || {
            loop {
                if over.load(Relaxed) == 0 {
                    picky.sleep(None);
                }
                if house.idle.stay_awake(picky) {
                    house.idle.pass_on();
                }
                if over.load(Relaxed) != 0 {
                    return;
                }
                house.idle.fall_asleep(picky, false, false);
            }
        });
        let able = thread::spawn(move || (0..2).for_each(|_| house.find_work(able, false)));
        house.publish(); // to the picky one, if the other does not sleep yet
        house.publish(); // to whoever searches
        able.join().unwrap();
        over.store(1, Relaxed);
        loom::sync::atomic::fence(SeqCst);
        house.idle.ring_all();
        picky.join().unwrap();
        assert!(!house.idle.any_sleeper());
        assert!(house.idle.begin_search(1), "nobody is left over as a searcher");
    });
}
