//! Models of `src/arming.rs`.

use super::*;

/// Two workers that wake and sleep, and a clock: it counts timers that are armed and have not fired. The count is relaxed and orders nothing.
struct WorkerPool {
    arming: Arming,
    awake: [Awake; 2],
    timers: AtomicU32,
}

impl WorkerPool {
    fn new() -> &'static Self {
        leak(Self { arming: Arming::new(), awake: [Awake::new(), Awake::new()], timers: AtomicU32::new(0) })
    }

    fn arm_timer(&self) {
        assert_eq!(self.timers.fetch_add(1, Relaxed), 0, "two checks are due at once");
    }

    fn wake(&self, who: usize) {
        if self.arming.mark_awake(&self.awake[who]) {
            self.arm_timer();
        }
    }

    /// The timer fires.
    fn check_all(&self) {
        assert_eq!(self.timers.fetch_sub(1, Relaxed), 1, "only a timer that is armed can fire");
        if self.arming.rearm(&self.awake) {
            self.arm_timer();
        }
    }

    fn timers(&self) -> u32 {
        self.timers.load(Relaxed)
    }
}

#[test]
fn a_check_is_due_while_a_worker_is_awake() {
    // A check is due, and the worker that armed it sleeps again. Meanwhile one worker wakes, or two.
    for wakers in [1, 2] {
        check(move || {
            let pool = WorkerPool::new();
            pool.wake(0);
            pool.awake[0].mark_asleep();
            let others: Vec<_> = (1..wakers).map(|who| thread::spawn(move || pool.wake(who))).collect();
            let waker = thread::spawn(move || pool.wake(0));
            pool.check_all();
            waker.join().unwrap();
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(pool.timers(), 1, "a worker is awake and no check is due");
        });
    }
}

#[test]
fn two_workers_that_wake_arm_one_timer() {
    check(|| {
        let pool = WorkerPool::new();
        let other = thread::spawn(move || pool.wake(1));
        pool.wake(0);
        other.join().unwrap();
        assert_eq!(pool.timers(), 1);
    });
}

#[test]
fn a_check_that_finds_all_asleep_is_the_last() {
    check(|| {
        let pool = WorkerPool::new();
        pool.wake(0);
        let sleeper = thread::spawn(move || {
            pool.awake[0].mark_asleep();
            pool.wake(0);
            pool.awake[0].mark_asleep();
        });
        pool.check_all();
        sleeper.join().unwrap();
        // What was seen late has been seen now.
        if pool.timers() > 0 {
            pool.check_all();
        }
        assert_eq!(pool.timers(), 0, "all sleep and a check is due");
        pool.wake(1);
        assert_eq!(pool.timers(), 1, "the next worker to wake arms the timer again");
    });
}
