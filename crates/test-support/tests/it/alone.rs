use test_support::{alone, alone_with, is_alone};

use crate::said;

#[test]
fn a_test_continues_in_a_process_of_its_own() {
    let before = std::process::id().to_string();
    if alone_with("alone::a_test_continues_in_a_process_of_its_own", &[("PARENT", &before)]) {
        assert!(is_alone());
        assert_ne!(std::env::var("PARENT").unwrap(), before);
        return;
    }
    assert!(!is_alone());
}

#[test]
fn a_failure_in_that_process_is_one_here() {
    let name = "alone::a_failure_in_that_process_is_one_here";
    if is_alone() {
        panic!("wrong, on purpose");
    }
    let printed = said(|| _ = alone(name));
    assert!(printed.contains("wrong, on purpose"), "{printed}");
}

#[test]
fn a_name_that_no_test_has_is_a_failure() {
    let printed = said(|| _ = alone("alone::no_such_test"));
    assert!(printed.contains("0 passed"), "{printed}");
}
