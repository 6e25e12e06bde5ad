//! Nodes that remember, pair and guard.

use std::cell::Cell;

use sched_flow::{
    DeadLetter, Harness, Kind, NodeError, OnError, Retry, cache, circuit_breaker, correlator, dedup, dedup_up_to, retry,
};
use test_support::Dice;

use crate::MS;

fn feed<T: Clone + Send + 'static>(node: &mut Harness, items: impl IntoIterator<Item = T>) {
    items.into_iter().for_each(|item| node.send("in", item).unwrap());
}

#[test]
fn a_repetition_passes_again_when_the_first_is_forgotten() {
    let mut node = Harness::new(dedup(MS * 10, |x: &i32| *x));
    feed(&mut node, [1, 1, 2]);
    node.advance(MS * 9);
    feed(&mut node, [1, 2]); // does not make it younger
    node.advance(MS);
    feed(&mut node, [1, 3]);
    assert_eq!(node.take::<i32>("out"), [1, 2, 1, 3]);
}

#[test]
fn of_too_many_keys_the_oldest_is_forgotten() {
    let mut node = Harness::new(dedup_up_to(2, MS * 1000, |x: &i32| *x));
    feed(&mut node, [1, 2, 3, 2, 1]);
    assert_eq!(node.take::<i32>("out"), [1, 2, 3, 1]);
}

#[test]
#[should_panic(expected = "a memory for 0 keys remembers nothing; give it at least 1")]
fn a_memory_for_nothing_is_refused() {
    let _ = dedup_up_to(0, MS, |x: &i32| *x);
}

#[test]
fn a_cache_asks_once_until_it_forgets_and_remembers_no_failure() {
    let mut asked = 0;
    let mut node = Harness::new(cache(
        MS * 10,
        2,
        |x: &i32| x % 10,
        move |x: i32| {
            asked += 1;
            if asked == 1 { Err(NodeError::msg("not yet")) } else { Ok((x, asked)) }
        },
    ));
    feed(&mut node, [1, 1, 11]);
    assert_eq!(node.take::<(i32, i32)>("out"), [(1, 2), (1, 2)]);
    assert_eq!(node.errors(), ["not yet"]);
    node.advance(MS * 10);
    feed(&mut node, [1]);
    assert_eq!(node.take::<(i32, i32)>("out"), [(1, 3)]);
    feed(&mut node, [2, 3, 1]); // room for two: 1 had to go
    assert_eq!(node.take::<(i32, i32)>("out"), [(2, 4), (3, 5), (1, 6)]);
}

#[test]
fn a_message_that_is_retried_keeps_its_position_and_a_hopeless_one_is_a_dead_letter() {
    let tries = Cell::new(0);
    let node = retry(Retry::times(2).backoff(MS * 10), move |x: i32| {
        tries.set(tries.get() + 1);
        if x == 7 || tries.get() < 3 { Err(NodeError::msg(format!("no {x}"))) } else { Ok(x) }
    });
    let mut node = Harness::new(node);
    feed(&mut node, [1, 7, 2]);
    node.advance(MS * 30);
    assert_eq!(node.take::<i32>("out"), [1]);
    node.advance(MS * 30);
    assert_eq!(node.take::<i32>("out"), [2]);
    let dead = node.take_messages::<DeadLetter<i32>>("dead");
    assert_eq!(dead[0].payload, DeadLetter { payload: 7, error: "no 7".into(), tries: 3 });
    assert_eq!(dead[0].header.kind, Kind::Error);
}

#[test]
fn a_breaker_opens_tries_one_and_opens_again_or_closes() {
    let node = circuit_breaker(|x: i32| if x < 0 { Err(NodeError::msg("down")) } else { Ok(x * 2) });
    let mut node = Harness::new(node.failures(2).cool_down(MS * 10));
    feed(&mut node, [-1, 1, -1]); // one success between: not in a row
    assert_eq!(node.take::<i32>("out"), [2]);
    feed(&mut node, [-1, 2, 3]);
    assert_eq!(node.take::<i32>("rejected"), [2, 3]);
    node.advance(MS * 9);
    feed(&mut node, [4]);
    assert_eq!(node.take::<i32>("rejected"), [4]);
    node.advance(MS);
    feed(&mut node, [-1, 5]); // the try fails: open again
    assert_eq!(node.take::<i32>("rejected"), [5]);
    node.advance(MS * 10);
    feed(&mut node, [6, -1, 7]); // the try works: closed, and one failure is not enough
    assert_eq!(node.take::<i32>("out"), [12, 14]);
    assert_eq!(node.errors().len(), 5);
}

#[test]
fn a_panic_opens_a_breaker_too() {
    let node = circuit_breaker(|x: i32| if x < 0 { panic!("down") } else { Ok::<_, NodeError>(x) }).failures(1);
    let mut node = Harness::new(node.spec().on_error(OnError::DeadLetter));
    feed(&mut node, [-1, 2]);
    assert_eq!(node.take::<i32>("rejected"), [2]);
    assert_eq!(&*node.take::<DeadLetter<i32>>("dead")[0].error, "panicked: down");
}

#[test]
#[should_panic(expected = "a breaker that opens after 0 failures is never closed; give it at least 1")]
fn a_breaker_that_is_never_closed_is_refused() {
    let _ = circuit_breaker(Ok::<i32, NodeError>).failures(0);
}

type Left = (u8, char);
type Right = (u8, bool);

fn pairs(within: u32, capacity: usize) -> Harness {
    let node = correlator(|left: &Left| left.0, |right: &Right| right.0, MS * within);
    Harness::new(node.capacity(capacity))
}

#[test]
fn the_oldest_of_a_key_is_paired_first_from_either_side() {
    let mut node = pairs(10, 100);
    node.send("left", (1u8, 'a')).unwrap();
    node.send("left", (1u8, 'b')).unwrap();
    node.send("right", (2u8, false)).unwrap();
    node.send("right", (1u8, true)).unwrap();
    node.send("left", (2u8, 'c')).unwrap();
    let out = node.take::<(Left, Right)>("out");
    assert_eq!(out, [((1, 'a'), (1, true)), ((2, 'c'), (2, false))]);
    node.end();
    assert_eq!(node.take::<Left>("left"), [(1, 'b')], "at the end no message waits");
}

#[test]
fn a_message_that_waits_too_long_leaves_unmatched_at_its_time() {
    let mut node = pairs(10, 100);
    node.send("left", (1u8, 'a')).unwrap();
    node.advance(MS * 5);
    node.send("right", (2u8, true)).unwrap();
    node.advance(MS * 5);
    assert_eq!(node.take::<Left>("left"), [(1, 'a')]);
    assert!(node.take::<Right>("right").is_empty());
    node.send("right", (1u8, true)).unwrap(); // too late
    node.advance(MS * 5);
    assert_eq!(node.take::<Right>("right"), [(2, true)]);
    assert!(node.take::<(Left, Right)>("out").is_empty());
}

#[test]
fn of_too_many_that_wait_the_oldest_leaves() {
    let mut node = pairs(10, 2);
    for (key, name) in [(1u8, 'a'), (2, 'b'), (3, 'c')] {
        node.send("left", (key, name)).unwrap();
    }
    assert_eq!(node.take::<Left>("left"), [(1, 'a')]);
    for key in 1..=3u8 {
        node.send("right", (key, true)).unwrap();
    }
    assert_eq!(node.take::<(Left, Right)>("out").len(), 2);
}

#[test]
fn every_message_leaves_a_correlator_once() {
    for seed in 0..200u64 {
        let dice = Dice::new(seed);
        let mut node = pairs(1 + dice.below(20) as u32, 1 + dice.below(8) as usize);
        let (mut sent, mut left) = ([0, 0], [0, 0]);
        for _ in 0..200 {
            let key = dice.below(6) as u8;
            match dice.below(3) {
                0 => node.send("left", (key, 'x')).unwrap(),
                1 => node.send("right", (key, true)).unwrap(),
                _ => {
                    node.advance(MS * dice.below(5) as u32);
                    continue;
                }
            }
            sent[usize::from(node.waiting() > 0)] += 1;
        }
        node.end();
        let paired = node.take::<(Left, Right)>("out");
        assert!(paired.iter().all(|(l, r)| l.0 == r.0), "seed {seed}: {paired:?}");
        left[0] = paired.len() * 2 + node.take::<Left>("left").len() + node.take::<Right>("right").len();
        assert_eq!(left, sent, "seed {seed}");
    }
}

#[test]
fn windows_by_key_have_a_value_for_each_key_in_the_order_they_came() {
    use sched_flow::{Span, keyed_window};
    let second = MS * 1_000;
    let sums = || keyed_window(Span::Time(second), |n: &u64| n % 3).fold(0u64, |sum, n| *sum += n);
    let mut node = Harness::new(sums());
    (1..=6u64).for_each(|n| node.send("in", n).unwrap());
    assert!(node.take::<(u64, u64)>("out").is_empty());
    node.advance(second);
    assert_eq!(node.take::<(u64, u64)>("out"), [(1, 5), (2, 7), (0, 9)]);
    node.advance(second * 3);
    assert!(node.take::<(u64, u64)>("out").is_empty(), "nothing comes of windows that hold nothing");
    node.send("in", 4u64).unwrap();
    node.end();
    assert_eq!(node.take::<(u64, u64)>("out"), [(1, 4)], "windows that are open at the end are emitted");

    let pairs = keyed_window(Span::Count(2), |n: &u64| n % 3).fold(0u64, |sum, n| *sum += n);
    let mut node = Harness::new(pairs);
    [1u64, 2, 4, 5, 7].into_iter().for_each(|n| node.send("in", n).unwrap());
    assert_eq!(node.take::<(u64, u64)>("out"), [(1, 5), (2, 7)]);
    node.end();
    assert_eq!(node.take::<(u64, u64)>("out"), [(1, 7)]);

    let few = keyed_window(Span::Time(second), |n: &u64| *n).keys(2).fold(0u64, |count, _| *count += 1);
    let mut node = Harness::new(few);
    [1u64, 2, 1, 3].into_iter().for_each(|n| node.send("in", n).unwrap());
    assert_eq!(node.take::<(u64, u64)>("out"), [(1, 2)], "the oldest makes room, and its value is not lost");
    node.advance(second);
    assert_eq!(node.take::<(u64, u64)>("out"), [(2, 1), (3, 1)]);
}
