//! Models of `src/ring.rs`.

use super::*;

type Values = Ring<(u32, Box<Parcel>)>;

fn parcel(value: u32) -> (u32, Box<Parcel>) {
    let parcel = Box::new(Parcel::new(0));
    parcel.put(value);
    (value, parcel)
}

fn open((value, parcel): (u32, Box<Parcel>)) -> u32 {
    assert_eq!(parcel.take(), value);
    value
}

fn push(ring: &Values, value: u32) {
    let mut parcel = parcel(value);
    while let Err(back) = ring.push(parcel) {
        parcel = back;
        thread::yield_now();
    }
}

fn pop(ring: &Values) -> u32 {
    loop {
        match ring.pop() {
            Some(parcel) => return open(parcel),
            None => thread::yield_now(),
        }
    }
}

#[test]
fn values_pass_through_the_ring_once() {
    // One on each side, more laps than slots.
    for capacity in [1, 2] {
        check(move || {
            let ring: &Values = leak(Ring::new(capacity));
            let pusher = thread::spawn(move || (1..=3).for_each(|value| push(ring, value)));
            assert_eq!([(); 3].map(|()| pop(ring)), [1, 2, 3]);
            pusher.join().unwrap();
            assert!(ring.is_empty());
        });
    }
    // Two pushers.
    check(|| {
        let ring: &Values = leak(Ring::new(2));
        let pushers = [1, 2].map(|value| thread::spawn(move || push(ring, value)));
        let mut popped = [pop(ring), pop(ring)];
        popped.sort_unstable();
        assert_eq!(popped, [1, 2]);
        for pusher in pushers {
            pusher.join().unwrap();
        }
    });
    // Two poppers, and a pusher that needs the slot they empty.
    check(|| {
        let ring: &Values = leak(Ring::new(2));
        push(ring, 1);
        push(ring, 2);
        let poppers = [(); 2].map(|()| thread::spawn(move || open(ring.pop().expect("one for each"))));
        push(ring, 3);
        let mut popped = poppers.map(|popper| popper.join().unwrap());
        popped.sort_unstable();
        assert_eq!(popped, [1, 2]);
        assert_eq!(pop(ring), 3);
    });
}

#[test]
fn the_ring_is_full_or_empty_only_if_it_is() {
    // One in two: there is always something to pop, and always room for one.
    check(|| {
        let ring: &Values = leak(Ring::new(2));
        push(ring, 1);
        let pusher = thread::spawn(move || ring.push(parcel(2)).expect("there is room for one more"));
        assert_eq!(ring.pop().map(open), Some(1));
        pusher.join().unwrap();
        let popper = thread::spawn(move || ring.pop().map(open).expect("there is one to pop"));
        ring.push(parcel(3)).expect("there is room for one more");
        assert_eq!(popper.join().unwrap(), 2);
        assert_eq!(ring.len(), 1);
    });
}

/// The waiting that `ring.rs` describes: announce by a SeqCst RMW, look again, sleep.
#[test]
fn a_waiter_sees_the_ring_change_or_is_seen() {
    check(|| {
        let ring: &Values = leak(Ring::new(1));
        let (waiters, room) = (leak(AtomicU32::new(0)), leak(AtomicU32::new(0)));
        let notifiers: &[Notify; 2] = leak([Notify::new(), Notify::new()]);
        let pusher = thread::spawn(move || {
            for value in [1, 2] {
                let mut parcel = parcel(value);
                while let Err(back) = ring.push(parcel) {
                    room.fetch_add(1, SeqCst);
                    match ring.push(back) {
                        Ok(()) => break,
                        Err(back) => parcel = back,
                    }
                    notifiers[1].wait();
                }
                if waiters.load(SeqCst) != 0 {
                    notifiers[0].notify();
                }
            }
        });
        for value in [1, 2] {
            let popped = loop {
                if let Some(parcel) = ring.pop() {
                    break parcel;
                }
                waiters.fetch_add(1, SeqCst);
                if let Some(parcel) = ring.pop() {
                    break parcel;
                }
                notifiers[0].wait();
            };
            if room.load(SeqCst) != 0 {
                notifiers[1].notify();
            }
            assert_eq!(open(popped), value);
        }
        pusher.join().unwrap();
    });
}

#[test]
fn a_value_not_found_after_close_never_comes() {
    // A pusher against a thread that closes and empties the ring; and against one that only sees it closed.
    for closes_itself in [true, false] {
        check(move || {
            let ring: &Values = leak(Ring::new(2));
            let pusher = thread::spawn(move || (1..=2).take_while(|&value| ring.push(parcel(value)).is_ok()).count());
            if closes_itself {
                assert!(ring.close());
            } else {
                let closer = thread::spawn(move || assert!(ring.close()));
                while !ring.is_closed() {
                    thread::yield_now();
                }
                closer.join().unwrap();
            }
            let popped: Vec<u32> = std::iter::from_fn(|| ring.pop()).map(open).collect();
            let pushed = pusher.join().unwrap();
            assert_eq!(popped, [1, 2][..pushed], "what was pushed before the end comes, and nothing after");
            assert!(ring.is_empty() && ring.push(parcel(3)).is_err() && !ring.close());
        });
    }
}

#[test]
fn one_of_several_closers_wins() {
    check(|| {
        let ring: &Values = leak(Ring::new(1));
        let other = thread::spawn(move || ring.close());
        assert_ne!(ring.close(), other.join().unwrap());
    });
}
