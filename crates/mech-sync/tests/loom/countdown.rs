//! Models of `src/countdown.rs`.

use super::*;

fn end(countdown: &Countdown, result: &Parcel) {
    result.put(1);
    if let Some(token) = countdown.done(1) {
        assert!(wake(token, 0), "no other member wakes the owner");
    }
}

#[test]
fn the_last_member_wakes_the_owner() {
    check(|| {
        let (inbox, waiter) = thread_waiter();
        let countdown = leak(Countdown::new());
        let results = [leak(Parcel::new(0)), leak(Parcel::new(0))];
        let members = results.map(|result| thread::spawn(move || end(countdown, result)));
        let token = waiter.token();
        if !countdown.close(2, token) {
            await_wake(inbox, token);
        }
        assert_eq!(results.map(Parcel::take), [1, 1], "the owner goes on before all have ended");
        for member in members {
            member.join().unwrap();
        }
        assert!(!inbox.has_arrivals());
    });
}

#[test]
fn members_may_start_members() {
    check(|| {
        let (inbox, waiter) = thread_waiter();
        let countdown = leak(Countdown::new());
        let results = [leak(Parcel::new(0)), leak(Parcel::new(0))];
        let member = thread::spawn(move || {
            countdown.add(1);
            let another = thread::spawn(move || end(countdown, results[1]));
            end(countdown, results[0]);
            another.join().unwrap();
        });
        let token = waiter.token();
        if !countdown.close(1, token) {
            await_wake(inbox, token);
        }
        assert_eq!(results.map(Parcel::take), [1, 1], "the owner goes on before all have ended");
        member.join().unwrap();
        assert!(!inbox.has_arrivals());
    });
}
