//! What unwinds runs its destructors, and nothing unwinds twice at one time.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use sched_tasks::{Runtime, join, nursery, yield_now};

/// Stops at a checkpoint while it is dropped: in a cancelled task that would unwind, if nothing did yet.
struct Waits;

impl Drop for Waits {
    fn drop(&mut self) {
        yield_now();
    }
}

#[test]
fn a_panic_of_a_stolen_half_goes_on_in_a_cancelled_task() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let stolen = AtomicBool::new(false);
    let outcome = runtime.nursery(|n| {
        let canceller = n.canceller();
        let stolen = &stolen;
        n.spawn(move || {
            let _waits = Waits;
            join(
                || while !stolen.load(SeqCst) {},
                || {
                    stolen.store(true, SeqCst);
                    canceller.cancel();
                    panic!("on purpose");
                },
            );
        });
        Ok(())
    });
    assert!(outcome.unwrap_err().is_panic());
}

#[test]
fn a_panic_of_a_body_goes_on_in_a_cancelled_task() {
    let outcome = nursery(|n| {
        let canceller = n.canceller();
        n.try_spawn(move || {
            let _waits = Waits;
            nursery(|_| {
                canceller.cancel();
                panic!("on purpose");
                #[allow(unreachable_code)]
                Ok(())
            })
        });
        Ok(())
    });
    assert!(outcome.unwrap_err().is_panic());
}
