//! Models of `src/seat.rs`.

use super::*;

#[test]
fn a_wake_or_a_kick_is_never_lost() {
    check(|| {
        let (home, seat) = thread_seat();
        let ticket = seat.ticket();
        let (gift, reason) = (leak(Parcel::new(0)), leak(Parcel::new(0)));
        let waker = thread::spawn(move || {
            gift.put(7);
            assert!(wake(ticket, 7), "nobody else wakes it");
        });
        let kicker = thread::spawn(move || {
            reason.put(1);
            if let Some(delivery) = seat.kick() {
                delivery.send();
            }
        });
        let mut kicked = false;
        thread::yield_now(); // so that loom also tries both before the first look
        loop {
            match ticket.park() {
                Park::Parked => assert_eq!(await_arrivals(home), 1, "a parked seat is delivered once"),
                Park::Kicked => {
                    assert!(!kicked, "one kick was noticed twice");
                    assert_eq!(reason.take(), 1, "the kick came before its reason");
                    kicked = true;
                }
                Park::Woken(code) => {
                    assert_eq!((code, gift.take()), (7, 7));
                    break;
                }
            }
        }
        waker.join().unwrap();
        kicker.join().unwrap();
        assert!(!home.has_arrivals(), "nothing is delivered that did not park");
        // A kick that came late is kept for the next wait.
        assert_ne!(kicked, seat.ticket().park() == Park::Kicked);
    });
}

#[test]
fn of_two_wakers_one_delivers() {
    check(|| {
        let (home, seat) = thread_seat();
        let ticket = seat.ticket();
        let saved = leak(Parcel::new(0));
        let wakers = [1, 2].map(|code| {
            thread::spawn(move || {
                match ticket.wake(code) {
                    Wake::Parked(delivery) => {
                        assert_eq!(saved.take(), 1, "who delivers sees what the owner did before it parked");
                        delivery.send();
                    }
                    Wake::Awake => {}
                    Wake::Stale => return None,
                }
                Some(code)
            })
        });
        saved.put(1);
        let code = await_wake(home, ticket);
        let won: Vec<u16> = wakers.into_iter().filter_map(|waker| waker.join().unwrap()).collect();
        assert_eq!(won, [code], "one wakes, and its code is the one seen");
        assert!(!home.has_arrivals(), "a parked seat is delivered once");
    });
}

#[test]
fn a_late_withdrawal_sees_the_waker() {
    check(|| {
        let (_, seat) = thread_seat();
        let ticket = seat.ticket();
        let gift = leak(Parcel::new(0));
        let waker = thread::spawn(move || {
            gift.put(1);
            wake(ticket, 1)
        });
        thread::yield_now(); // else loom tries no schedule in which the waker is quite done
        let withdrawn = ticket.withdraw();
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
        let (home, seat) = thread_seat();
        let ticket = seat.ticket();
        let waker = thread::spawn(move || wake(ticket, 1));
        let kicker = thread::spawn(move || seat.kick().map(|delivery| delivery.send()));
        if ticket.park() == Park::Parked {
            if !ticket.unpark() {
                assert_eq!(await_arrivals(home), 1);
            }
        } else {
            ticket.withdraw();
        }
        let timed_out = matches!(ticket.park(), Park::Woken(0 | TIMEOUT));
        // Nothing is on its way any more: the next wait gets its own delivery and no other.
        let next = seat.ticket();
        while next.park() != Park::Parked {}
        kicker.join().unwrap();
        assert_ne!(waker.join().unwrap(), timed_out, "one of the two ends the wait");
        let kicked = next.park() == Park::Kicked;
        assert_eq!(home.arrivals().count(), usize::from(kicked));
    });
}
