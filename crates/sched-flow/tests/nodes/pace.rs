//! Nodes that change when a message goes on.

use std::time::Duration;

use sched_flow::{Harness, debounce, delay, delay_up_to, throttle};

use crate::{MS, ms};

#[test]
fn a_throttle_is_exact_and_loses_nothing() {
    let mut node = Harness::new(throttle::<i32>(3.0, 2)); // a third of a second is no whole number of nanoseconds
    for x in 0..3_002 {
        node.send("in", x).unwrap();
    }
    assert_eq!(node.take::<i32>("out"), [0, 1], "the burst");
    assert!(!node.accepts());
    for second in 0..1000 {
        node.advance(MS * 1000);
        let got = node.take::<i32>("out");
        // A token is never early, so it may be a nanosecond late at the border of a second.
        assert!((2..=4).contains(&got.len()), "second {second}: {got:?}");
    }
    node.advance(MS);
    node.take::<i32>("out");
    assert_eq!(node.waiting(), 0, "3,000 came in 1,000 seconds");
}

#[test]
fn a_throttle_saves_no_more_than_its_burst() {
    let mut node = Harness::new(throttle::<i32>(100.0, 3));
    node.advance(MS * 60_000);
    for x in 0..9 {
        node.send("in", x).unwrap();
    }
    assert_eq!(node.take::<i32>("out"), [0, 1, 2]);
    node.advance(MS * 9);
    assert!(node.take::<i32>("out").is_empty());
    node.advance(MS);
    assert_eq!(node.take::<i32>("out"), [3]);
    node.advance(MS * 20);
    assert_eq!(node.take::<i32>("out"), [4, 5]);
}

#[test]
fn a_throttle_ends_after_what_waits() {
    let mut node = Harness::new(throttle::<i32>(100.0, 1));
    node.send("in", 1).unwrap();
    node.send("in", 2).unwrap();
    node.end();
    assert!(!node.is_ended());
    node.advance(MS * 10);
    assert!(node.is_ended());
    assert_eq!(node.take::<i32>("out"), [1, 2]);
}

#[test]
#[should_panic(expected = "a throttle of 0 a second lets nothing pass; give a positive rate")]
fn a_rate_of_nothing_is_refused() {
    let _ = throttle::<i32>(0.0, 1);
}

#[test]
#[should_panic(expected = "a throttle with a burst of 0 lets nothing pass; give at least 1")]
fn a_burst_of_nothing_is_refused() {
    let _ = throttle::<i32>(1.0, 0);
}

#[test]
fn a_debounce_waits_for_silence() {
    let mut node = Harness::new(debounce::<i32>(MS * 10));
    for x in 0..5 {
        node.send("in", x).unwrap();
        node.advance(MS * 9);
    }
    assert!(node.take::<i32>("out").is_empty());
    node.advance(MS);
    let got = node.take_messages::<i32>("out");
    assert_eq!((got[0].payload, got[0].header.at), (4, ms(36)));
    node.send("in", 7).unwrap();
    node.end();
    assert_eq!(node.take::<i32>("out"), [7], "the end is silence");
}

#[test]
fn a_debounce_that_was_ticked_too_early_waits_on() {
    let mut node = Harness::new(debounce::<i32>(MS * 10));
    node.send("in", 1).unwrap();
    node.advance(MS * 5);
    node.send("in", 2).unwrap(); // the first asked for a tick at 10 ms
    node.advance(MS * 9);
    assert!(node.take::<i32>("out").is_empty());
    node.advance(MS);
    assert_eq!(node.take::<i32>("out"), [2]);
}

#[test]
fn a_delay_keeps_the_order_and_the_distance() {
    let mut node = Harness::new(delay::<i32>(MS * 10));
    node.send("in", 0).unwrap();
    node.advance(MS * 4);
    node.send("in", 1).unwrap();
    node.end();
    node.advance(MS * 6);
    assert_eq!(node.take::<i32>("out"), [0]);
    assert!(!node.is_ended(), "one is still held");
    node.advance(MS * 4);
    assert_eq!(node.take::<i32>("out"), [1]);
    assert!(node.is_ended());
}

#[test]
fn a_delay_that_is_full_takes_no_more() {
    let mut node = Harness::new(delay_up_to::<i32>(MS * 10, 2));
    for x in 0..3 {
        node.send("in", x).unwrap();
    }
    assert_eq!(node.waiting(), 1);
    node.advance(MS * 10);
    assert_eq!(node.take::<i32>("out"), [0, 1]);
    assert_eq!(node.waiting(), 0);
}

#[test]
fn a_delay_of_nothing_passes_at_once() {
    let mut node = Harness::new(delay::<i32>(Duration::ZERO));
    node.send("in", 0).unwrap();
    assert_eq!(node.take::<i32>("out"), [0]);
}
