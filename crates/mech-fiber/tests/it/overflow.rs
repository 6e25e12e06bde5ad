//! A fiber that runs out of stack fails alone.

use std::cell::Cell;
use std::hint::black_box;
use std::ptr;
use std::rc::Rc;

use mech_fiber::{Fiber, Step, prepare_thread, suspend};

use crate::slab;

/// Uses some 100 bytes of stack per level, `depth` levels.
#[inline(never)]
pub(crate) fn recurse(depth: usize) -> usize {
    let frame = black_box([depth; 8]);
    if depth == 0 {
        0
    } else {
        recurse(depth - 1) + black_box(frame)[7] / depth
    }
}

/// One frame of 1 MiB: far more than a guard.
#[inline(never)]
fn one_huge_frame(word: usize) -> usize {
    let mut frame = [0u8; 1 << 20];
    black_box(&mut frame)[0] = word as u8;
    usize::from(black_box(&frame)[0])
}

#[test]
fn endless_recursion_fails_its_fiber_and_no_other() {
    prepare_thread().unwrap();
    let slab = slab(64 << 10, 4);
    let mut other = Fiber::new(slab.take().unwrap(), |first| {
        first + suspend(1) + suspend(2)
    });
    assert_eq!(other.resume(10), Step::Suspended(1));
    let mut deep = Fiber::new(slab.take().unwrap(), recurse);
    assert_eq!(deep.resume(usize::MAX), Step::Overflowed);
    assert!(deep.is_done());
    assert!(!mech_fiber::in_fiber());
    assert_eq!(other.resume(20), Step::Suspended(2));
    assert_eq!(other.resume(30), Step::Returned(60));
    assert_eq!((slab.stats().quarantined, slab.stats().in_use), (1, 1));
}

#[test]
fn a_frame_larger_than_the_guard_does_not_jump_it() {
    prepare_thread().unwrap();
    let slab = slab(64 << 10, 4);
    // The neighbour below would be hit by a frame that jumps the guard.
    let mut below = Fiber::new(slab.take().unwrap(), |_| suspend(1));
    assert_eq!(below.resume(0), Step::Suspended(1));
    let mut huge = Fiber::new(slab.take().unwrap(), one_huge_frame);
    assert_eq!(huge.resume(1), Step::Overflowed);
    assert_eq!(below.resume(7), Step::Returned(7));
}

#[test]
fn a_hundred_overflows_in_a_row_on_one_thread() {
    prepare_thread().unwrap();
    let slab = slab(16 << 10, 200);
    for _ in 0..100 {
        let mut fiber = Fiber::new(slab.take().unwrap(), recurse);
        assert_eq!(fiber.resume(usize::MAX), Step::Overflowed);
    }
    assert_eq!(slab.stats().quarantined, 100);
}

#[test]
fn frames_of_an_overflowed_stack_stay_as_they_were() {
    prepare_thread().unwrap();
    let slab = slab(64 << 10, 4);
    let place = Rc::new(Cell::new(ptr::null::<[usize; 64]>()));
    let shared = Rc::clone(&place);
    let mut fiber = Fiber::new(slab.take().unwrap(), move |word| {
        let pattern: [usize; 64] = black_box(std::array::from_fn(|i| i * 0x0101_0101));
        shared.set(&pattern);
        let end = recurse(word);
        black_box(&pattern)[0] + end
    });
    assert_eq!(fiber.resume(usize::MAX), Step::Overflowed);
    drop(fiber);
    // Others run meanwhile, on every stack that is still free.
    for _ in 0..8 {
        let mut other = Fiber::new(slab.take().unwrap(), |_| recurse(50));
        assert!(matches!(other.resume(0), Step::Returned(_)));
    }
    // SAFETY: a quarantined stack is never unmapped, reused or written: the promise under test.
    let pattern = unsafe { place.get().read() };
    assert_eq!(pattern, std::array::from_fn(|i| i * 0x0101_0101));
}

#[test]
fn a_fiber_inside_a_fiber_overflows_into_its_resumer() {
    prepare_thread().unwrap();
    let slab = slab(64 << 10, 4);
    let mut outer = Fiber::new(slab.take().unwrap(), move |_| {
        let mut inner = Fiber::new(slab.take().unwrap(), recurse);
        let overflowed = inner.resume(usize::MAX) == Step::Overflowed;
        suspend(usize::from(overflowed)) + recurse(usize::MAX)
    });
    assert_eq!(outer.resume(0), Step::Suspended(1));
    assert_eq!(outer.resume(0), Step::Overflowed);
    assert!(!mech_fiber::in_fiber());
}

#[test]
fn a_thread_that_ends_leaves_overflow_handling_to_the_others() {
    let overflow = || {
        prepare_thread().unwrap();
        prepare_thread().unwrap();
        let slab = slab(16 << 10, 4);
        let mut fiber = Fiber::new(slab.take().unwrap(), recurse);
        assert_eq!(fiber.resume(usize::MAX), Step::Overflowed);
    };
    for _ in 0..4 {
        std::thread::spawn(overflow).join().unwrap();
    }
    overflow();
}
