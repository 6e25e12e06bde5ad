//! Models of `src/throttle.rs`.

use super::*;

/// A budget that several workers use, and what tells them that there is more of it. The alarm is a thread.
struct Context {
    left: SpinLock<u32>,
    throttle: Throttle<&'static Worker>,
    counts: Counts,
    line: Line<u32>,
    idle: Idle,
}

/// What a worker is told, and where it sleeps.
struct Worker {
    inbox: &'static Inbox,
    notices: Injector<()>,
}

impl Worker {
    fn new() -> &'static Self {
        leak(Self { inbox: leak(Inbox::for_thread()), notices: Injector::default() })
    }
}

impl Context {
    fn new(left: u32) -> &'static Self {
        leak(Self {
            left: SpinLock::new(left),
            throttle: Throttle::new(1),
            counts: Counts::new(1),
            line: Line::default(),
            idle: Idle::new(),
        })
    }

    fn begin(&self) -> bool {
        self.throttle.begin(&self.counts, [].into_iter())
    }

    /// The alarm went off.
    fn refill(&self, more: u32) {
        *self.left.lock() += more;
        let Some(released) = self.throttle.end(&self.counts, [].into_iter()) else { return };
        for worker in released.waiting {
            worker.notices.push(());
            worker.inbox.notify();
        }
        if released.items > 0 {
            self.idle.published();
        }
    }

    fn use_one(&self) -> bool {
        let mut left = self.left.lock();
        let is_some = *left > 0;
        *left -= u32::from(is_some);
        is_some
    }

    /// Uses a part of the budget as a worker does: if there is none it waits to be told, and sleeps. `alarm` is set if it is the first to find that.
    fn run(&'static self, worker: &'static Worker, alarm: impl Fn()) {
        while !self.use_one() {
            if self.begin() {
                alarm();
            }
            if self.throttle.wait(worker).is_err() {
                continue; // there is more by now
            }
            loop {
                self.idle.fall_asleep(worker.inbox, false, true);
                if worker.notices.is_empty() {
                    worker.inbox.sleep(None);
                }
                if self.idle.stay_awake(worker.inbox) {
                    self.idle.end_search(|| true);
                }
                if worker.notices.pop_batch(0, |_| {}).is_some() {
                    break;
                }
            }
        }
    }
}

/// A worker finds the budget used up while the refill comes.
#[test]
fn what_waits_for_a_refill_is_told() {
    check(|| {
        let (context, worker) = (Context::new(0), Worker::new());
        assert!(context.begin());
        let alarm = thread::spawn(move || context.refill(1));
        context.run(worker, || context.refill(0)); // it was off by then
        alarm.join().unwrap();
        assert!(!context.throttle.is_on() || *context.left.lock() == 0);
    });
}

/// Two workers find the budget used up at once: one of them sets the alarm, the other relies on it.
#[test]
fn one_alarm_is_set_for_all_that_wait() {
    check(|| {
        let (context, worker, alarms) = (Context::new(0), Worker::new(), leak(AtomicU32::new(0)));
        let goes_off = move || {
            alarms.fetch_add(1, Relaxed);
            context.refill(1);
        };
        let other = thread::spawn(move || {
            if context.begin() {
                goes_off();
            }
        });
        context.run(worker, goes_off);
        other.join().unwrap();
        assert!(alarms.load(Relaxed) > 0);
    });
}

#[test]
fn gates_are_open_when_the_throttle_is_off() {
    check(|| {
        let context = Context::new(0);
        context.counts.push(0, [context.throttle.gates()].into_iter(), &context.line, 1);
        assert!(context.begin());
        let other = thread::spawn(move || context.begin());
        context.refill(0);
        let is_on = other.join().unwrap();
        assert_eq!((context.throttle.is_on(), context.counts.of(0)), (is_on, usize::from(!is_on)));
    });
}

/// The line of a worker that does not look is behind the gates: a thief sleeps meanwhile.
#[test]
fn a_refill_wakes_a_thief() {
    check(|| {
        let context = Context::new(0);
        let gates = || [context.throttle.gates()].into_iter();
        context.counts.push(0, gates(), &context.line, 7);
        assert!(context.begin());
        let thief = thread::spawn(move || {
            let inbox = leak(Inbox::for_thread());
            loop {
                let may_take = !context.throttle.is_on();
                if may_take && let Some(item) = context.line.pop_oldest() {
                    context.counts.taken(0, [context.throttle.gates()].into_iter(), 1);
                    return item;
                }
                context.idle.fall_asleep(inbox, false, true);
                if context.counts.any(|_| true) {
                    thread::yield_now(); // it is about to come out
                } else {
                    inbox.sleep(None);
                }
                if context.idle.stay_awake(inbox) {
                    context.idle.end_search(|| true);
                }
            }
        });
        context.refill(1);
        assert_eq!(thief.join().unwrap(), 7);
        assert_eq!(context.counts.of(0), 0);
    });
}

/// Something else than a refill concerns what waits: it is seen by a worker that begins to wait, or that worker is told.
#[test]
fn a_change_is_seen_by_what_begins_to_wait() {
    check(|| {
        let (context, worker) = (Context::new(0), Worker::new());
        let changed = leak(AtomicU32::new(0));
        let other = thread::spawn(move || {
            changed.store(1, Relaxed);
            if context.throttle.holds_back() {
                worker.notices.push(());
                worker.inbox.notify();
            }
        });
        assert!(context.begin());
        assert!(context.throttle.wait(worker).is_ok());
        while changed.load(Relaxed) == 0 {
            worker.inbox.fall_asleep();
            if worker.notices.is_empty() {
                worker.inbox.sleep(None);
            }
            worker.inbox.stay_awake();
            let _told = worker.notices.pop_batch(0, |_| {});
        }
        other.join().unwrap();
    });
}
