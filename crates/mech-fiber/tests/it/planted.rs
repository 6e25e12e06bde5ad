//! Bugs put in on purpose: `cargo xtask test asan` and `tsan` begin with them, and fail if no sanitizer reports them.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;

use mech_fiber::{Fiber, Step, suspend};

use crate::stack;

#[test]
#[ignore = "a bug, to be found by AddressSanitizer"]
fn a_use_after_free_on_a_fiber() {
    let mut fiber = Fiber::new(stack(), |_| {
        let boxed = Box::into_raw(Box::new(7_usize));
        suspend(boxed as usize);
        // SAFETY: none: the resumer has freed it, on purpose.
        unsafe { black_box(boxed).read_volatile() }
    });
    let Step::Suspended(boxed) = fiber.resume(0) else { unreachable!("it suspends first") };
    // SAFETY: from `Box::into_raw`.
    drop(unsafe { Box::from_raw(boxed as *mut usize) });
    let _ = fiber.resume(0);
}

#[test]
#[ignore = "a bug, to be found by ThreadSanitizer"]
fn a_race_of_two_fibers() {
    struct Shared(*mut u64);
    // SAFETY: none: two threads write through it, on purpose.
    unsafe impl Send for Shared {}
    let number = Box::into_raw(Box::new(0_u64));
    let together = Arc::new(Barrier::new(2));
    let count = |shared: Shared| {
        let together = together.clone();
        thread::spawn(move || {
            let shared = shared; // the whole of it, not its pointer
            let mut fiber = Fiber::new(stack(), move |_| {
                let shared = &shared;
                together.wait();
                for _ in 0..1000 {
                    // SAFETY: none, as above.
                    unsafe { *black_box(shared.0) += 1 };
                    suspend(0);
                }
                1
            });
            while fiber.resume(0) == Step::Suspended(0) {}
        })
    };
    let both = [count(Shared(number)), count(Shared(number))];
    both.into_iter().for_each(|thread| thread.join().unwrap());
}
