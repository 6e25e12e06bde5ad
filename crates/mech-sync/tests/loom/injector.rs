//! Models of `src/injector.rs`.

use super::*;

#[test]
fn an_injected_item_is_not_overlooked() {
    check(|| {
        let injector: &Injector<u32> = leak(Injector::default());
        injector.push(1);
        let popper = thread::spawn(move || injector.pop_batch(0, |_| {}));
        injector.push(2);
        let mut taken: Vec<_> = popper.join().unwrap().into_iter().collect();
        taken.extend(std::iter::from_fn(|| injector.pop_batch(0, |_| {})));
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn an_injected_item_wakes_a_worker() {
    check(|| {
        let (idle, inbox) = (leak(Idle::new()), leak(Inbox::for_thread()));
        let injector: &Injector<Box<Parcel>> = leak(Injector::default());
        let worker = thread::spawn(move || {
            loop {
                if let Some(parcel) = injector.pop_batch(0, |_| {}) {
                    return parcel.take();
                }
                idle.fall_asleep(inbox, false, true);
                if injector.is_empty() {
                    inbox.sleep(None);
                }
                if idle.stay_awake(inbox) {
                    idle.end_search(|| true);
                }
            }
        });
        let parcel = Box::new(Parcel::new(0));
        parcel.put(5);
        injector.push(parcel);
        idle.published();
        assert_eq!(worker.join().unwrap(), 5);
    });
}
