//! Who gets which stack.

use mech_fiber::{Fiber, GuardKind, Slab, SlabOptions, StackError, Step};

use crate::slab;

#[test]
fn the_stack_freed_last_is_taken_first() {
    let slab = slab(64 << 10, 8);
    let (a, b) = (slab.take().unwrap(), slab.take().unwrap());
    let (first, second) = (a.index(), b.index());
    drop(a);
    drop(b);
    assert_eq!(slab.stats().free_warm, 2);
    let (again, other) = (slab.take().unwrap(), slab.take().unwrap());
    assert_eq!((again.index(), other.index()), (second, first));
}

#[test]
fn the_last_stack_is_followed_by_an_error_that_names_the_limit() {
    let slab = slab(64 << 10, 3);
    let stacks: Vec<_> = (0..3).map(|_| slab.take().unwrap()).collect();
    let error = slab.take().unwrap_err();
    assert_eq!(error, StackError::AllInUse { max_stacks: 3, stack_bytes: 64 << 10, quarantined: 0 });
    assert!(error.to_string().contains("all 3 stacks"), "{error}");
    drop(stacks);
    assert!(slab.take().is_ok());
}

#[test]
fn a_quarantined_stack_never_comes_back() {
    let slab = slab(64 << 10, 2);
    let lost = slab.take().unwrap();
    let index = lost.index();
    lost.quarantine();
    for _ in 0..100 {
        let (a, b) = (slab.take().unwrap(), slab.take().unwrap());
        assert!(a.index() != index && b.index() != index);
    }
    assert_eq!((slab.stats().in_use, slab.stats().quarantined), (0, 1));
}

#[test]
fn a_retired_slab_is_recycled_with_its_stacks_cold() {
    let shape = SlabOptions { stack_bytes: 48 << 10, max_stacks: 77, warm_bytes: 1 << 20 };
    let first = Slab::reserve(shape).unwrap();
    drop(first.take().unwrap());
    assert_eq!(first.stats().free_warm, 1);
    first.retire();
    first.retire(); // twice is once
    assert_eq!((first.stats().free_warm, first.stats().free_cold), (0, 1));
    let second = Slab::reserve(shape).unwrap();
    assert!(std::ptr::eq(first, second));
    let third = Slab::reserve(shape).unwrap();
    assert!(!std::ptr::eq(first, third), "one slab was handed out twice");
}

#[test]
fn a_retired_slab_with_a_stack_in_use_waits_for_it() {
    let shape = SlabOptions { stack_bytes: 48 << 10, max_stacks: 78, warm_bytes: 1 << 20 };
    let first = Slab::reserve(shape).unwrap();
    let held = first.take().unwrap();
    first.retire();
    assert!(!std::ptr::eq(first, Slab::reserve(shape).unwrap()));
    drop(held);
    assert!(std::ptr::eq(first, Slab::reserve(shape).unwrap()));
}

#[test]
fn stacks_are_taken_and_dropped_by_many_threads_at_once() {
    let slab = slab(16 << 10, 64);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..2_000 {
                    let stacks: Vec<_> = (0..round % 8).map(|_| slab.take().unwrap()).collect();
                    let mut fiber = Fiber::new(slab.take().unwrap(), |word| word + 1);
                    assert_eq!(fiber.resume(round), Step::Returned(round + 1));
                    drop(stacks);
                }
            });
        }
    });
    let stats = slab.stats();
    assert_eq!(stats.in_use, 0);
    assert!(stats.free_warm + stats.free_cold <= 32, "{stats:?}");
}

#[test]
fn mprotect_guards_work_where_the_kernel_knows_no_markers() {
    let options = SlabOptions { max_stacks: 4, ..Default::default() };
    let slab = Slab::reserve_with(options, Some(GuardKind::Mprotect)).unwrap();
    assert_eq!(slab.stats().guard, GuardKind::Mprotect);
    crate::leave_on_overflow();
    let mut fiber = Fiber::new(slab.take().unwrap(), crate::overflow::recurse);
    assert_eq!(fiber.resume(usize::MAX), Step::Overflowed);
}

#[test]
fn stacks_that_are_trimmed_together_keep_their_guards_and_work_again() {
    crate::leave_on_overflow();
    for kind in [GuardKind::Marker, GuardKind::Mprotect] {
        // Two hundred neighbours, for at most a hundred of which there is memory to keep: some stay warm, others do not.
        let options = SlabOptions { stack_bytes: 64 << 10, max_stacks: 200, warm_bytes: 800 << 10 };
        let Ok(slab) = Slab::reserve_with(options, Some(kind)) else { continue }; // a kernel without markers
        let use_all = || {
            let stacks = Vec::from_iter((0..200).map(|_| slab.take().unwrap()));
            let start = |stack| Fiber::new(stack, |word| mech_fiber::suspend(word) + 1);
            let mut fibers = Vec::from_iter(stacks.into_iter().map(start));
            for (word, fiber) in fibers.iter_mut().enumerate() {
                assert_eq!(fiber.resume(word), Step::Suspended(word));
            }
            for (word, fiber) in fibers.iter_mut().enumerate() {
                assert_eq!(fiber.resume(word), Step::Returned(word + 1));
            }
        };
        use_all();
        let stats = slab.stats();
        assert_eq!((stats.in_use, stats.free_warm + stats.free_cold), (0, 200));
        assert!(stats.free_warm >= 50 && stats.free_cold >= 50, "{stats:?}");
        use_all();
        for lost in 0..3 {
            let stacks = Vec::from_iter((0..200 - lost).map(|_| slab.take().unwrap()));
            let middle = stacks.into_iter().nth(100).unwrap();
            assert_eq!(Fiber::new(middle, crate::overflow::recurse).resume(usize::MAX), Step::Overflowed);
        }
    }
}

#[test]
fn as_many_stacks_as_were_asked_for_can_be_taken_while_others_are_trimmed() {
    const EACH: usize = 150;
    let options = SlabOptions { stack_bytes: 16 << 10, max_stacks: 4 * EACH, ..SlabOptions::default() };
    let slab = Slab::reserve(options).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let stacks = Vec::from_iter((0..EACH).map(|_| slab.take().unwrap()));
                    drop(stacks);
                }
            });
        }
    });
    let stats = slab.stats();
    assert_eq!(stats.in_use, 0);
    assert!(stats.free_warm > 0, "{stats:?}");
}
