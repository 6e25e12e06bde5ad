//! Models of `src/members.rs`.

use super::*;

#[test]
fn nothing_that_has_ended_is_joined() {
    check(|| {
        let (members, ends) = (leak(Members::new()), leak(AtomicU32::new(0)));
        let leave = move || {
            if members.leave() {
                assert_eq!(ends.fetch_add(1, Relaxed), 0, "it ended before");
            }
        };
        let other = thread::spawn(move || {
            if members.try_join() {
                leave();
            }
        });
        leave();
        other.join().unwrap();
        assert_eq!(ends.load(Relaxed), 1);
        assert!(!members.try_join());
    });
}

#[test]
fn the_last_to_leave_sees_what_the_others_did() {
    check(|| {
        let members = leak(Members::new());
        let done = leak([Parcel::new(0), Parcel::new(0)]);
        members.join();
        let leave = move |who: usize| {
            done[who].put(1);
            if members.leave() {
                assert_eq!([done[0].peek(), done[1].peek()], [1, 1]);
            }
        };
        let other = thread::spawn(move || leave(1));
        leave(0);
        other.join().unwrap();
    });
}
