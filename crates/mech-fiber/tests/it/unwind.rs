//! Panics and destructors on a stack of their own.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::rc::Rc;

use mech_fiber::{Fiber, PanicsAside, Step, in_fiber, suspend};

use crate::{slab, stack};

/// Counts its drops.
struct Guard(Rc<Cell<usize>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_panic_caught_inside_stays_inside() {
    let mut fiber = Fiber::new(stack(), |_| {
        let caught = catch_unwind(|| {
            suspend(1);
            panic_any(7usize)
        });
        suspend(2);
        *caught.unwrap_err().downcast::<usize>().unwrap()
    });
    assert_eq!(fiber.resume(0), Step::Suspended(1));
    assert_eq!(fiber.resume(0), Step::Suspended(2));
    assert_eq!(fiber.resume(0), Step::Returned(7));
    assert!(!std::thread::panicking());
}

#[test]
fn a_panic_that_leaves_main_goes_on_in_the_resumer_after_the_destructors() {
    let drops = Rc::new(Cell::new(0));
    let guard = Guard(Rc::clone(&drops));
    let slab = slab(64 << 10, 1);
    let mut fiber = Fiber::new(slab.take().unwrap(), move |_| {
        let _guard = guard;
        suspend(1);
        panic_any("from the fiber")
    });
    assert_eq!(fiber.resume(0), Step::Suspended(1));
    let panic = catch_unwind(AssertUnwindSafe(|| fiber.resume(0))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"from the fiber"));
    assert_eq!(drops.get(), 1);
    assert!(fiber.is_done() && !in_fiber());
    drop(fiber);
    assert_eq!(slab.stats().free_warm, 1, "its stack is free again");
}

#[test]
fn a_dropped_fiber_runs_the_destructors_of_its_frames() {
    let drops = Rc::new(Cell::new(0));
    let slab = slab(64 << 10, 1);
    for _ in 0..3 {
        let guard = Guard(Rc::clone(&drops));
        let mut fiber = Fiber::new(slab.take().unwrap(), move |_| {
            let _guard = guard;
            suspend(1)
        });
        assert_eq!(fiber.resume(0), Step::Suspended(1));
        drop(fiber);
    }
    assert_eq!(drops.get(), 3);
    assert_eq!((slab.stats().in_use, slab.stats().quarantined), (0, 0));
}

#[test]
fn a_fiber_dropped_before_it_ran_drops_what_main_captured() {
    let drops = Rc::new(Cell::new(0));
    let guard = Guard(Rc::clone(&drops));
    drop(Fiber::new(stack(), move |word| word + guard.0.get()));
    assert_eq!(drops.get(), 1);
}

#[test]
fn a_dropped_fiber_that_catches_the_unwinding_is_unwound_again() {
    let drops = Rc::new(Cell::new(0));
    let guard = Guard(Rc::clone(&drops));
    let mut fiber = Fiber::new(stack(), move |_| {
        let _guard = guard;
        for _ in 0..3 {
            let _ = catch_unwind(|| suspend(1));
        }
        0
    });
    assert_eq!(fiber.resume(0), Step::Suspended(1));
    drop(fiber);
    assert_eq!(drops.get(), 1);
}

#[test]
fn a_fiber_dropped_by_a_panicking_resumer_is_unwound_too() {
    let drops = Rc::new(Cell::new(0));
    let guard = Guard(Rc::clone(&drops));
    let result = catch_unwind(AssertUnwindSafe(move || {
        let mut fiber = Fiber::new(stack(), move |_| {
            let _guard = guard;
            suspend(1)
        });
        assert_eq!(fiber.resume(0), Step::Suspended(1));
        panic_any(1usize);
    }));
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&1usize));
    assert_eq!(drops.get(), 1);
}

#[test]
fn a_main_that_captures_too_much_is_refused() {
    let large = [0u8; 20 << 10];
    let stack = slab(64 << 10, 2).take().unwrap();
    let made = catch_unwind(AssertUnwindSafe(|| Fiber::new(stack, move |i| large[i].into())));
    assert!(made.unwrap_err().downcast_ref::<String>().unwrap().contains("20480 bytes"));
}

/// Stops while it is dropped, and takes the panic that drops it along if it is to.
struct Stops(bool);

impl Drop for Stops {
    fn drop(&mut self) {
        let aside = if self.0 { PanicsAside::take() } else { None };
        suspend(usize::from(std::thread::panicking()));
        aside.into_iter().for_each(PanicsAside::put_back);
        suspend(usize::from(std::thread::panicking()));
    }
}

/// A fiber that stops in the middle of an unwinding.
fn stops(stack: mech_fiber::Stack) -> Fiber {
    Fiber::new(stack, |_| {
        let caught = catch_unwind(|| {
            let _stops = Stops(true);
            std::panic::resume_unwind(Box::new(1));
        });
        usize::from(caught.is_err()) + 10
    })
}

#[test]
fn a_panic_that_is_taken_aside_is_counted_where_its_stack_runs() {
    // More than one ladder is for, and on several threads, which use the same ladders.
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                let fibers = slab(64 << 10, 256);
                for _ in 0..3 {
                    let innocent = std::sync::Mutex::new(());
                    let held = innocent.lock().unwrap();
                    let mut stopped: Vec<Fiber> = (0..200).map(|_| stops(fibers.take().unwrap())).collect();
                    for fiber in &mut stopped {
                        assert_eq!(fiber.resume(0), Step::Suspended(0), "it counts none while it is stopped");
                        assert!(!std::thread::panicking());
                    }
                    drop(held);
                    assert!(!innocent.is_poisoned());
                    for fiber in &mut stopped {
                        assert_eq!(fiber.resume(0), Step::Suspended(1), "it counts its own when it goes on");
                        assert_eq!(fiber.resume(0), Step::Returned(11));
                        assert!(!std::thread::panicking());
                    }
                }
            });
        }
    });
}

#[test]
fn of_several_panics_none_is_taken_aside() {
    struct Inner;
    impl Drop for Inner {
        fn drop(&mut self) {
            let _ = catch_unwind(|| {
                let _stops = Stops(true);
                std::panic::resume_unwind(Box::new(1))
            });
            let aside = PanicsAside::take();
            assert!(aside.is_some(), "one is left");
            assert!(!std::thread::panicking() && PanicsAside::take().is_none());
            aside.into_iter().for_each(PanicsAside::put_back);
        }
    }
    let mut fiber = Fiber::new(stack(), |_| {
        let _ = catch_unwind(|| {
            let _inner = Inner;
            std::panic::resume_unwind(Box::new(2))
        });
        7
    });
    assert_eq!(fiber.resume(0), Step::Suspended(1));
    assert_eq!(fiber.resume(0), Step::Suspended(1));
    assert_eq!(fiber.resume(0), Step::Returned(7));
    assert!(!std::thread::panicking());
}

#[test]
fn without_it_the_next_fiber_seems_to_panic() {
    let mut fiber = Fiber::new(stack(), |_| {
        let _ = catch_unwind(|| {
            let _stops = Stops(false);
            std::panic::resume_unwind(Box::new(1))
        });
        0
    });
    assert_eq!(fiber.resume(0), Step::Suspended(1));
    assert!(std::thread::panicking());
    assert_eq!(fiber.resume(0), Step::Suspended(1));
    assert_eq!(fiber.resume(0), Step::Returned(0));
    assert!(!std::thread::panicking());
}
