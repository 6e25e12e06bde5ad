//! Models of `src/poller_role.rs`.

use super::*;

#[test]
fn a_free_role_is_watched() {
    check(|| {
        let role = leak(PollerRole::new());
        assert!(role.watch(), "the first is told to the monitor");
        assert_eq!(role.take(), Taken::Yes);
        let worker = thread::spawn(move || role.give_up());
        let polls = role.look();
        let told = worker.join().unwrap();
        // It polls, or it looks again.
        assert!(polls || told, "the role is free, and the monitor does not look");
        assert!(!(polls && told) || role.take() == Taken::ByMonitor);
    });
}

#[test]
fn one_thread_has_the_role() {
    check(|| {
        let role = leak(PollerRole::new());
        let parcel = leak(Parcel::new(0));
        let poll = move || {
            if role.take() == Taken::Yes {
                parcel.put(1);
                let _ = role.give_up();
            }
        };
        let other = thread::spawn(poll);
        poll();
        other.join().unwrap();
        if role.look() {
            parcel.put(2);
        }
    });
}
