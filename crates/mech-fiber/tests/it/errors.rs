//! Bad options give errors that name the value, the limit and the way out.

use mech_fiber::{Slab, SlabOptions, StackError};

#[track_caller]
fn refused(options: SlabOptions, named: &[&str]) -> StackError {
    let error = Slab::reserve(options).expect_err("these options must be refused");
    let text = error.to_string();
    for word in named {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    error
}

#[test]
fn a_stack_too_small_for_a_panic_is_refused() {
    let options = SlabOptions { stack_bytes: 8 << 10, ..Default::default() };
    let error = refused(options, &["8192", "16384", "raise `stack_bytes`"]);
    assert!(matches!(error, StackError::TooSmall { .. }));
}

#[test]
fn a_stack_above_a_gibibyte_is_refused() {
    let options = SlabOptions { stack_bytes: (1 << 30) + 4096, ..Default::default() };
    let error = refused(options, &["1073745920", "1073741824", "lower `stack_bytes`"]);
    assert!(matches!(error, StackError::TooLarge { .. }));
}

#[test]
fn half_a_page_is_refused_and_the_next_size_named() {
    let options = SlabOptions { stack_bytes: 20_000, ..Default::default() };
    let error = refused(options, &["20000", "page size 4096", "`stack_bytes` = 20480"]);
    assert!(matches!(error, StackError::NotWholePages { .. }));
}

#[test]
fn no_stacks_and_too_many_stacks_are_refused() {
    for max_stacks in [0, usize::MAX] {
        let options = SlabOptions { max_stacks, ..Default::default() };
        let error = refused(options, &[&max_stacks.to_string(), "1073741824"]);
        assert!(matches!(error, StackError::StackCount { .. }));
    }
}

#[test]
fn more_addresses_than_the_machine_has_are_refused_with_the_way_out() {
    let options = SlabOptions { stack_bytes: 1 << 30, max_stacks: 1 << 30, ..Default::default() };
    let error = refused(options, &["lower `max_stacks`", "vm.overcommit_memory", "ulimit -v"]);
    assert!(matches!(error, StackError::Reserve { .. }));
}
