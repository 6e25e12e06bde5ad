//! Models of `src/home.rs`.

use super::*;

#[test]
fn a_delivery_is_seen_or_rings() {
    check(|| {
        let home = leak(Home::for_thread());
        let seats = [leak(Seat::new(home)), leak(Seat::new(home))];
        let gifts = [leak(Parcel::new(0)), leak(Parcel::new(0))];
        let tickets = seats.map(Seat::ticket);
        for at in 0..2 {
            seats[at].set_tag(at as u32);
            assert_eq!(tickets[at].park(), Park::Parked);
        }
        let wakers = [0, 1].map(|at| {
            thread::spawn(move || {
                gifts[at].put(1);
                assert!(wake(tickets[at], 0));
            })
        });
        let mut arrived = 0;
        while arrived < 2 {
            for seat in home.arrivals() {
                assert_eq!(gifts[seat.tag() as usize].take(), 1, "a seat arrived before its gift");
                arrived += 1;
            }
            home.fall_asleep();
            if arrived == 2 || home.has_arrivals() {
                home.stay_awake();
            } else {
                home.sleep(None);
            }
        }
        for waker in wakers {
            waker.join().unwrap();
        }
        assert!(!home.has_arrivals());
    });
}

/// A waker that a model can wait for.
struct Bell(Notify);

impl StdWake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

#[test]
fn a_delivery_wakes_the_newest_waker() {
    check(|| {
        let home = leak(Home::for_future());
        let ticket = leak(Seat::new(home)).ticket();
        let bells = [Arc::new(Bell(Notify::new())), Arc::new(Bell(Notify::new()))];
        home.set_waker(&bells[0].clone().into());
        assert_eq!(ticket.park(), Park::Parked);
        let gift = leak(Parcel::new(0));
        let waker = thread::spawn(move || {
            gift.put(1);
            assert!(wake(ticket, 3));
        });
        // The future moves to another task while it waits.
        home.set_waker(&bells[1].clone().into());
        while !ticket.is_woken() {
            bells[1].0.wait();
        }
        assert_eq!(gift.take(), 1, "the future was woken before its gift");
        assert_eq!(ticket.park(), Park::Woken(3));
        waker.join().unwrap();
        assert_eq!(home.arrivals().count(), 1);
        home.clear_waker();
    });
}
