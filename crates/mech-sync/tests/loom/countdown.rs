//! Models of `src/countdown.rs`.

use super::*;

fn end(countdown: &Countdown, result: &Parcel) {
    result.put(1);
    if let Some(ticket) = countdown.done(1) {
        assert!(wake(ticket, 0), "nobody else wakes the owner");
    }
}

#[test]
fn the_last_member_wakes_the_owner() {
    check(|| {
        let (home, seat) = thread_seat();
        let countdown = leak(Countdown::new());
        let results = [leak(Parcel::new(0)), leak(Parcel::new(0))];
        let members = results.map(|result| thread::spawn(move || end(countdown, result)));
        let ticket = seat.ticket();
        if !countdown.close(2, ticket) {
            await_wake(home, ticket);
        }
        assert_eq!(results.map(Parcel::take), [1, 1], "the owner goes on before all have ended");
        for member in members {
            member.join().unwrap();
        }
        assert!(!home.has_arrivals());
    });
}

#[test]
fn members_may_start_members() {
    check(|| {
        let (home, seat) = thread_seat();
        let countdown = leak(Countdown::new());
        let results = [leak(Parcel::new(0)), leak(Parcel::new(0))];
        let member = thread::spawn(move || {
            countdown.add(1);
            let another = thread::spawn(move || end(countdown, results[1]));
            end(countdown, results[0]);
            another.join().unwrap();
        });
        let ticket = seat.ticket();
        if !countdown.close(1, ticket) {
            await_wake(home, ticket);
        }
        assert_eq!(results.map(Parcel::take), [1, 1], "the owner goes on before all have ended");
        member.join().unwrap();
        assert!(!home.has_arrivals());
    });
}
