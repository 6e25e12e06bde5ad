//! Models of `src/inbox.rs`.

use super::*;

#[test]
fn a_delivery_is_seen_or_notifies() {
    check(|| {
        let inbox = leak(Inbox::for_thread());
        let waiters = [leak(Waiter::new(inbox)), leak(Waiter::new(inbox))];
        let payloads = [leak(Parcel::new(0)), leak(Parcel::new(0))];
        let tokens = waiters.map(Waiter::token);
        for at in 0..2 {
            waiters[at].set_tag(at as u32);
            assert_eq!(tokens[at].park(), Park::Parked);
        }
        let wakers = [0, 1].map(|at| {
            thread::spawn(move || {
                payloads[at].put(1);
                assert!(wake(tokens[at], 0));
            })
        });
        let mut arrived = 0;
        while arrived < 2 {
            for waiter in inbox.arrivals() {
                assert_eq!(payloads[waiter.tag() as usize].take(), 1, "a waiter arrived before its payload");
                arrived += 1;
            }
            inbox.fall_asleep();
            if arrived == 2 || inbox.has_arrivals() {
                inbox.stay_awake();
            } else {
                inbox.sleep(None);
            }
        }
        for waker in wakers {
            waker.join().unwrap();
        }
        assert!(!inbox.has_arrivals());
    });
}

/// Something that a thread waits in, with a notifier.
#[derive(Debug)]
struct Elsewhere {
    is_notified: Mutex<bool>,
    changed: Condvar,
}

impl inboxes::Notify for Elsewhere {
    fn notify(&self) {
        *self.is_notified.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

impl Elsewhere {
    fn wait(&self) {
        let mut notified = self.is_notified.lock().unwrap();
        while !std::mem::take(&mut *notified) {
            notified = self.changed.wait(notified).unwrap();
        }
    }
}

#[test]
fn a_delivery_ends_a_sleep_elsewhere() {
    check(|| {
        let (inbox, waiter) = thread_waiter();
        let elsewhere = leak(Elsewhere { is_notified: Mutex::new(false), changed: Condvar::new() });
        let token = waiter.token();
        assert_eq!(token.park(), Park::Parked);
        let waker = thread::spawn(move || assert!(wake(token, 0)));
        while inbox.arrivals().count() == 0 {
            inbox.fall_asleep();
            if inbox.has_arrivals() {
                inbox.stay_awake();
            } else {
                inbox.sleep_elsewhere(elsewhere, || elsewhere.wait());
                inbox.stay_awake();
            }
        }
        waker.join().unwrap();
    });
}
