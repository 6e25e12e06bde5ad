//! Models of `src/readiness.rs`.

use super::*;

#[test]
fn an_edge_is_seen_or_ends_the_wait() {
    check(|| {
        let (inbox, waiter) = thread_waiter();
        let readiness = leak(Readiness::<WaitToken>::new());
        // The system's side of the socket: its data is there before its edge is told.
        let data = leak(AtomicU32::new(0));
        let poller = thread::spawn(move || {
            data.store(1, SeqCst);
            for token in readiness.ready(Lasts::UntilEmptied) {
                assert!(wake(token, 0));
            }
        });
        loop {
            let seen = readiness.edge();
            if data.load(SeqCst) == 1 {
                break;
            }
            let token = waiter.token();
            match readiness.wait(seen, token) {
                Ok(()) => assert_eq!(await_wake(inbox, token), 0),
                Err(token) => assert!(token.withdraw()),
            }
        }
        poller.join().unwrap();
    });
}

#[test]
fn two_that_wait_are_both_woken_and_one_that_leaves_is_not() {
    check(|| {
        let (inbox, waiter) = thread_waiter();
        let (_, other) = thread_waiter();
        let readiness = leak(Readiness::<WaitToken>::new());
        let seen = readiness.edge();
        let (token, gone) = (waiter.token(), other.token());
        readiness.wait(seen, token).unwrap();
        readiness.wait(seen, gone).unwrap();
        let poller = thread::spawn(move || {
            readiness.ready(Lasts::UntilEmptied).map(|token| wake(token, 0)).filter(|woken| *woken).count()
        });
        let has_left = readiness.leave(|token| token.is_same(gone)).is_some();
        assert_eq!(await_wake(inbox, token), 0);
        let woken = poller.join().unwrap();
        assert_eq!(woken, if has_left { 1 } else { 2 });
    });
}

#[test]
fn what_comes_after_a_short_read_is_read() {
    check(|| {
        let readiness = leak(Readiness::<WaitToken>::new());
        let data = leak(AtomicU32::new(1));
        let poller = thread::spawn(move || {
            data.fetch_add(1, SeqCst);
            assert_eq!(readiness.ready(Lasts::UntilEmptied).count(), 0);
        });
        let read = || {
            let count = data.swap(0, SeqCst);
            thread::yield_now(); // here the edge comes
            count
        };
        readiness.read(read, |count| *count == 1);
        poller.join().unwrap();
        let is_left = data.load(SeqCst) > 0;
        assert!(!is_left || !readiness.is_emptied(readiness.edge()), "who reads would wait for an edge that has been");
    });
}

#[test]
fn the_end_of_a_stream_is_read() {
    check(|| {
        let (inbox, waiter) = thread_waiter();
        let readiness = leak(Readiness::<WaitToken>::new());
        // One edge tells of the data and of the end behind it. Another, of out-of-band data for instance, may follow, and tells nothing of the end.
        let poller = thread::spawn(move || {
            for lasts in [Lasts::ForEver, Lasts::UntilEmptied] {
                for token in readiness.ready(lasts) {
                    assert!(wake(token, 0));
                }
            }
        });
        poller.join().unwrap();
        readiness.read(|| (), |()| true);
        let seen = readiness.edge();
        if readiness.is_emptied(seen) {
            let token = waiter.token();
            readiness.wait(seen, token).unwrap();
            await_wake(inbox, token); // no edge comes
        }
    });
}
