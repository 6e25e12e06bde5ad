//! A fiber that runs out of stack, and that may be left as it is, fails alone.

use std::cell::Cell;
use std::hint::black_box;
use std::ptr;
use std::rc::Rc;

use mech_fiber::{Fiber, Step, has_room, lend_guard, remaining_bytes, suspend, take_guard_back};
use test_support::alone;

use crate::{leave_on_overflow, slab};

/// Uses some 100 bytes of stack per level, `depth` levels.
#[inline(never)]
pub(crate) fn recurse(depth: usize) -> usize {
    let frame = black_box([depth; 8]);
    if depth == 0 { 0 } else { recurse(depth - 1) + black_box(frame)[7] / depth }
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
    leave_on_overflow();
    let slab = slab(64 << 10, 4);
    let mut other = Fiber::new(slab.take().unwrap(), |first| first + suspend(1) + suspend(2));
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
    leave_on_overflow();
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
    leave_on_overflow();
    let slab = slab(16 << 10, 200);
    for _ in 0..100 {
        let mut fiber = Fiber::new(slab.take().unwrap(), recurse);
        assert_eq!(fiber.resume(usize::MAX), Step::Overflowed);
    }
    assert_eq!(slab.stats().quarantined, 100);
}

#[test]
fn frames_of_an_overflowed_stack_stay_as_they_were() {
    leave_on_overflow();
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
    leave_on_overflow();
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
        leave_on_overflow();
        leave_on_overflow();
        let slab = slab(16 << 10, 4);
        let mut fiber = Fiber::new(slab.take().unwrap(), recurse);
        assert_eq!(fiber.resume(usize::MAX), Step::Overflowed);
    };
    for _ in 0..4 {
        std::thread::spawn(overflow).join().unwrap();
    }
    overflow();
}

/// Allocates and frees at every level, in sizes beyond the thread's own cache: the allocator
/// takes its lock.
#[inline(never)]
pub(crate) fn recurse_allocating(depth: usize) -> usize {
    let block = black_box(vec![0u8; 2000 + depth % 5000]);
    if depth == 0 { block.len() } else { recurse_allocating(depth - 1) + black_box(&block).len() }
}

#[test]
fn an_overflow_inside_malloc_leaves_the_allocator_usable() {
    if !alone("overflow::an_overflow_inside_malloc_leaves_the_allocator_usable") {
        return; // a deadlock would take the other tests along
    }
    // SAFETY: no memory involved; ends a child that hangs.
    unsafe { libc::alarm(30) };
    leave_on_overflow();
    let slab = slab(16 << 10, 400);
    for round in 0..300 {
        // Start a few bytes deeper each time, so that the end falls on every part of `malloc`.
        let mut fiber =
            Fiber::new(slab.take().unwrap(), move |depth| shifted(round % 64, &mut || recurse_allocating(depth)));
        assert_eq!(fiber.resume(usize::MAX), Step::Overflowed);
        let blocks: Vec<Vec<u8>> = (0..20).map(|i| vec![7u8; 1500 + i * 700]).collect();
        assert!(black_box(&blocks).iter().all(|block| block.iter().all(|byte| *byte == 7)));
    }
    let elsewhere = std::thread::spawn(|| recurse_allocating(100));
    assert!(elsewhere.join().unwrap() > 0);
}

/// Calls `f` with about 16 bytes more on the stack per `steps`.
#[inline(never)]
fn shifted(steps: usize, f: &mut dyn FnMut() -> usize) -> usize {
    macro_rules! pad {
        ($bytes:expr) => {{
            let room = black_box([0u8; $bytes]);
            f() + usize::from(black_box(&room)[0])
        }};
    }
    match steps % 8 {
        0 => f(),
        1 => pad!(16),
        2 => pad!(48),
        3 => pad!(80),
        4 => pad!(112),
        5 => pad!(144),
        6 => pad!(176),
        _ => pad!(208),
    }
}

#[test]
fn room_is_known_before_the_work() {
    assert!(has_room(usize::MAX / 2), "outside fibers nothing is known");
    let slab = slab(64 << 10, 4);
    let mut fiber = Fiber::new(slab.take().unwrap(), |_| {
        assert_eq!(mech_fiber::stack_bytes(), Some(64 << 10));
        usize::from(has_room(32 << 10)) + 2 * usize::from(has_room(64 << 10))
    });
    assert_eq!(fiber.resume(0), Step::Returned(1));
}

/// Goes down until less than `bytes` are left, and calls `f` there.
#[inline(never)]
fn with_little_room(bytes: usize, f: &mut dyn FnMut() -> usize) -> usize {
    let pad = black_box([0u8; 64]);
    let value = if has_room(bytes) { with_little_room(bytes, f) } else { f() };
    value + usize::from(black_box(pad)[0])
}

/// Enough to ask for the guard, and far too little to unwind.
const LITTLE: usize = if cfg!(debug_assertions) { 1500 } else { 400 };

#[test]
fn a_fiber_at_its_end_unwinds_on_half_of_its_guard_and_gives_it_back() {
    leave_on_overflow();
    let slab = slab(64 << 10, 4);
    let mut fiber = Fiber::new(slab.take().unwrap(), |depth| {
        let caught = std::panic::catch_unwind(|| {
            with_little_room(LITTLE, &mut || {
                assert!(lend_guard());
                assert!(remaining_bytes().unwrap() < LITTLE);
                std::panic::resume_unwind(Box::new(7usize)) // needs more than that
            })
        });
        assert_eq!(*caught.unwrap_err().downcast::<usize>().unwrap(), 7);
        take_guard_back().unwrap();
        suspend(1);
        recurse(depth) // the guard is whole again
    });
    assert_eq!(fiber.resume(usize::MAX), Step::Suspended(1));
    assert_eq!(fiber.resume(0), Step::Overflowed);
}
