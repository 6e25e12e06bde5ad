//! Models of `src/waiter.rs`.

use super::*;

#[test]
fn a_wake_or_an_interrupt_is_never_lost() {
    check(|| {
        let (inbox, waiter) = thread_waiter();
        let token = waiter.token();
        let (gift, reason) = (leak(Parcel::new(0)), leak(Parcel::new(0)));
        let waker = thread::spawn(move || {
            gift.put(7);
            assert!(wake(token, 7), "no other thread wakes it");
        });
        let kicker = thread::spawn(move || {
            reason.put(1);
            if let Some(delivery) = waiter.interrupt() {
                delivery.send();
            }
        });
        let mut interrupted = false;
        thread::yield_now(); // so that loom also tries both before the first look
        loop {
            match token.park() {
                Park::Parked => assert_eq!(await_arrivals(inbox), 1, "a parked waiter is delivered once"),
                Park::Interrupted => {
                    assert!(!interrupted, "one interrupt was noticed twice");
                    assert_eq!(reason.take(), 1, "the interrupt came before its reason");
                    interrupted = true;
                }
                Park::Woken(code) => {
                    assert_eq!((code, gift.take()), (7, 7));
                    break;
                }
            }
        }
        waker.join().unwrap();
        kicker.join().unwrap();
        assert!(!inbox.has_arrivals(), "nothing is delivered that did not park");
        // An interrupt that came late is kept for the next wait.
        assert_ne!(interrupted, waiter.token().park() == Park::Interrupted);
    });
}

#[test]
fn of_two_wakers_one_delivers() {
    check(|| {
        let (inbox, waiter) = thread_waiter();
        let token = waiter.token();
        let saved = leak(Parcel::new(0));
        let wakers = [1, 2].map(|code| {
            thread::spawn(move || {
                match token.wake(code) {
                    Wake::Parked(delivery) => {
                        assert_eq!(saved.take(), 1, "the deliverer sees what the owner did before it parked");
                        delivery.send();
                    }
                    Wake::Awake => {}
                    Wake::Stale => return None,
                }
                Some(code)
            })
        });
        saved.put(1);
        let code = await_wake(inbox, token);
        let won: Vec<u16> = wakers.into_iter().filter_map(|waker| waker.join().unwrap()).collect();
        assert_eq!(won, [code], "one wakes, and its code is the one seen");
        assert!(!inbox.has_arrivals(), "a parked waiter is delivered once");
    });
}

#[test]
fn a_late_withdrawal_sees_the_waker() {
    check(|| {
        let (_, waiter) = thread_waiter();
        let token = waiter.token();
        let gift = leak(Parcel::new(0));
        let waker = thread::spawn(move || {
            gift.put(1);
            wake(token, 1)
        });
        thread::yield_now(); // else loom tries no schedule in which the waker is quite done
        let withdrawn = token.withdraw();
        if !withdrawn {
            assert_eq!(gift.take(), 1);
        }
        assert_ne!(waker.join().unwrap(), withdrawn, "one of the two ends the wait");
    });
}

/// A thread whose sleep timed out must know whether a delivery is on its way.
#[test]
fn a_sleeper_whose_time_is_up_knows_what_will_arrive() {
    check(|| {
        let (inbox, waiter) = thread_waiter();
        let token = waiter.token();
        let waker = thread::spawn(move || wake(token, 1));
        let kicker = thread::spawn(move || waiter.interrupt().map(|delivery| delivery.send()));
        if token.park() == Park::Parked {
            if !token.unpark() {
                assert_eq!(await_arrivals(inbox), 1);
            }
        } else {
            token.withdraw();
        }
        let timed_out = matches!(token.park(), Park::Woken(0 | TIMEOUT));
        // Nothing is on its way any more: the next wait gets its own delivery and no other.
        let next = waiter.token();
        while next.park() != Park::Parked {}
        kicker.join().unwrap();
        assert_ne!(waker.join().unwrap(), timed_out, "one of the two ends the wait");
        let interrupted = next.park() == Park::Interrupted;
        assert_eq!(inbox.arrivals().count(), usize::from(interrupted));
    });
}
