//! What stacks cost the machine. Each test measures a process of its own.

use mech_fiber::{Fiber, GuardKind, Slab, SlabOptions, StackError, Step, suspend};
use test_support::{alone, proc_count, resident_bytes};

/// `count` fibers that have run and wait: each has touched its stack.
fn waiting(slab: &'static Slab, count: usize) -> Vec<Fiber> {
    let start = |_| {
        let mut fiber = Fiber::new(slab.take().unwrap(), suspend);
        assert_eq!(fiber.resume(1), Step::Suspended(1));
        fiber
    };
    (0..count).map(start).collect()
}

#[test]
fn a_hundred_thousand_guarded_stacks_fit_in_64_mappings_and_a_page_each() {
    if !alone("memory::a_hundred_thousand_guarded_stacks_fit_in_64_mappings_and_a_page_each") {
        return;
    }
    const COUNT: usize = 100_000;
    let slab = Slab::reserve(SlabOptions::default()).unwrap();
    if slab.stats().guard != GuardKind::Marker {
        return; // a kernel before 6.13: the mapping limit applies, see the test below
    }
    drop(waiting(slab, 1));
    let before = resident_bytes();
    let fibers = waiting(slab, COUNT);
    let grown = resident_bytes() - before - COUNT * size_of::<Fiber>();
    assert!(proc_count("maps") <= 64, "{} mappings", proc_count("maps"));
    assert!(grown < COUNT * 4400, "{} bytes per stack", grown / COUNT);
    assert!(grown > COUNT * 4000, "the stacks were not touched: {grown}");
    assert_eq!(slab.stats().in_use, COUNT);
    drop(fibers);
}

#[test]
fn after_a_burst_the_memory_goes_back() {
    if !alone("memory::after_a_burst_the_memory_goes_back") {
        return;
    }
    let options = SlabOptions { warm_bytes: 8 << 20, ..Default::default() };
    let slab = Slab::reserve(options).unwrap();
    drop(waiting(slab, 1));
    let before = resident_bytes();
    for _ in 0..2 {
        let fibers = waiting(slab, 50_000);
        assert!(resident_bytes() > before + 50_000 * 4000);
        drop(fibers);
        let kept = resident_bytes().saturating_sub(before);
        let warm = slab.stats().free_warm;
        assert!(kept < (8 << 20) + (3 << 20), "{kept} bytes stayed, {warm} stacks are warm");
        assert!(warm >= 500, "only {warm} stacks stayed warm for the next burst");
    }
    slab.retire();
    let kept = resident_bytes().saturating_sub(before);
    assert!(kept < 3 << 20, "{kept} bytes stayed in a retired slab");
}

#[test]
fn mprotect_guards_end_at_the_mapping_limit_with_a_clear_error() {
    if !alone("memory::mprotect_guards_end_at_the_mapping_limit_with_a_clear_error") {
        return;
    }
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    if limit > 200_000 {
        return; // raised by the administrator: nothing to run into in reasonable time
    }
    let options = SlabOptions { stack_bytes: 16 << 10, ..Default::default() };
    let slab = Slab::reserve_with(options, Some(GuardKind::Mprotect)).unwrap();
    let mut stacks = Vec::with_capacity(limit);
    let error = loop {
        match slab.take() {
            Ok(stack) => stacks.push(stack),
            Err(error) => break error,
        }
    };
    let expected = StackError::Guard { guarded: stacks.len(), errno: libc::ENOMEM };
    assert_eq!(error, expected);
    assert!(error.to_string().contains("vm.max_map_count"), "{error}");
    assert!(stacks.len() > limit / 2 - 1000, "only {} of {limit}", stacks.len());
    assert_eq!(slab.stats().in_use, stacks.len());
    drop(stacks.pop());
    assert!(slab.take().is_ok(), "a stack that has its guard can be taken again");
}

#[test]
fn without_warm_bytes_every_free_stack_is_cold_and_works_again() {
    let options = SlabOptions { stack_bytes: 16 << 10, max_stacks: 3, warm_bytes: 0 };
    let slab = Slab::reserve(options).unwrap();
    drop(waiting(slab, 3));
    assert_eq!((slab.stats().free_warm, slab.stats().free_cold), (0, 3));
    drop(waiting(slab, 3)); // the guards are still there and the stacks still work
    assert_eq!((slab.stats().free_warm, slab.stats().free_cold), (0, 3));
}
