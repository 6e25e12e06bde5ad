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
            for token in readiness.ready() {
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
        let poller =
            thread::spawn(move || readiness.ready().map(|token| wake(token, 0)).filter(|woken| *woken).count());
        let has_left = readiness.leave(|token| token.is_same(gone)).is_some();
        assert_eq!(await_wake(inbox, token), 0);
        let woken = poller.join().unwrap();
        assert_eq!(woken, if has_left { 1 } else { 2 });
    });
}
