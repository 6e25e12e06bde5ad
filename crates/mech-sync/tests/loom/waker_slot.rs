//! Models of `src/waker_slot.rs`.

use super::*;

/// A waker that a model can wait for.
struct NotifyingWaker(Notify);

impl StdWake for NotifyingWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

#[test]
fn a_wake_reaches_the_newest_waker() {
    check(|| {
        let waiter = leak(Waiter::for_future());
        let token = waiter.token();
        let wakers = [Arc::new(NotifyingWaker(Notify::new())), Arc::new(NotifyingWaker(Notify::new()))];
        waiter.keep_waker(&wakers[0].clone().into());
        assert_eq!(token.park(), Park::Parked);
        let payload = leak(Parcel::new(0));
        let waker = thread::spawn(move || {
            payload.put(1);
            assert!(wake(token, 3));
        });
        // The future moves to another task while it waits.
        waiter.change_waker(&wakers[1].clone().into());
        while !token.is_woken() {
            wakers[1].0.wait();
        }
        assert_eq!(payload.take(), 1, "the future was woken before its payload");
        assert_eq!(token.park(), Park::Woken(3));
        if waiter.is_waker_taken() {
            // The next wait: who ended the last one is done with the waiter.
            waiter.clear_waker();
            waiter.keep_waker(&wakers[0].clone().into());
            waker.join().unwrap();
        } else {
            waker.join().unwrap();
            assert!(waiter.is_waker_taken(), "the wait has ended, and the waker was not taken");
        }
        waiter.clear_waker();
        for waker in wakers {
            assert_eq!(Arc::strong_count(&waker), 1, "a waker is dropped once");
        }
    });
}
