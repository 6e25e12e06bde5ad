//! Nodes that route, watch, sample and gather.

use std::time::Duration;

use sched_flow::{
    DeadLetter, Harness, Kind, NodeSpec, Span, batcher, counter, deal, fold, inspect, merger, router, sample_every,
    sample_nth, sample_random, scan, sliding_window, splitter, tumbling_window, validator,
};

use crate::{MS, ms};

fn feed(node: &mut Harness, items: impl IntoIterator<Item = u32>) {
    items.into_iter().for_each(|item| node.send("in", item).unwrap());
}

#[test]
fn a_router_sends_by_place_and_by_name_and_refuses_the_unknown() {
    let mut node = Harness::new(router(["even", "odd"], |x: &u32| *x as usize % 3));
    feed(&mut node, 0..6);
    assert_eq!(node.take::<u32>("even"), [0, 3]);
    assert_eq!(node.take::<u32>("odd"), [1, 4]);
    assert_eq!(node.errors(), ["router has no output 2; its outputs are `even`, `odd`"; 2]);

    let mut node = Harness::new(router(["a"], |x: &u32| if *x == 1 { "a".to_owned() } else { "b".to_owned() }));
    feed(&mut node, [1, 2]);
    assert_eq!(node.take::<u32>("a"), [1]);
    assert_eq!(node.errors(), ["router has no output `b`; its outputs are `a`"]);
}

#[test]
#[should_panic(expected = "a router without outputs sends nothing anywhere; name at least one")]
fn a_router_without_outputs_is_refused() {
    let _ = router(Vec::<String>::new(), |_: &u32| 0);
}

#[test]
fn a_splitter_waits_for_the_output_whose_turn_it_is() {
    let mut node = Harness::new(splitter::<u32>(2)).output_capacity(2);
    feed(&mut node, 0..6);
    assert_eq!(node.take::<u32>("0"), [0, 2]);
    assert_eq!(node.waiting(), 2, "output 1 is full");
    assert_eq!(node.take::<u32>("1"), [1, 3]);
    assert_eq!(node.take::<u32>("0"), [4]);
    assert_eq!(node.take::<u32>("1"), [5]);
}

#[test]
fn a_deal_goes_to_outputs_that_have_room() {
    let mut node = Harness::new(deal::<u32>(2)).output_capacity(2);
    feed(&mut node, 0..3);
    assert_eq!(node.take::<u32>("0"), [0, 2]);
    feed(&mut node, 3..6); // output 1 has one message, and it is not taken
    assert_eq!(node.take::<u32>("0"), [3, 5]);
    feed(&mut node, 6..10);
    assert_eq!(node.waiting(), 2, "both are full: 1 and 4, 6 and 7");
    assert_eq!(node.take::<u32>("0"), [6, 7]);
    assert_eq!(node.take::<u32>("1"), [1, 4]);
    assert_eq!(node.take::<u32>("0"), [8, 9]);
}

#[test]
#[should_panic(expected = "a splitter into 0 outputs")]
fn a_splitter_into_nothing_is_refused() {
    let _ = splitter::<u32>(0);
}

#[test]
fn a_merger_changes_nothing() {
    let mut node = Harness::new(merger::<u32>());
    feed(&mut node, 0..3);
    assert_eq!(node.take::<u32>("out"), [0, 1, 2]);
}

#[test]
fn what_is_invalid_leaves_as_an_error_with_its_reason() {
    let mut node = Harness::new(validator(|x: &u32| if *x < 2 { Ok(()) } else { Err(format!("{x} is too much")) }));
    feed(&mut node, 0..3);
    assert_eq!(node.take::<u32>("out"), [0, 1]);
    let invalid = node.take_messages::<DeadLetter<u32>>("invalid");
    assert_eq!(invalid[0].payload, DeadLetter { payload: 2, error: "2 is too much".into(), tries: 1 });
    assert_eq!(invalid[0].header.kind, Kind::Error);
    assert!(node.errors().is_empty(), "an invalid message is no failure of the node");
}

#[test]
fn what_passes_is_seen_counted_and_added_up() {
    let (seen, passed) = std::sync::mpsc::channel();
    let mut node = Harness::new(inspect(move |x: &u32| seen.send(*x).unwrap()));
    feed(&mut node, 0..3);
    assert_eq!(node.take::<u32>("out"), [0, 1, 2]);
    assert_eq!(passed.try_iter().collect::<Vec<_>>(), [0, 1, 2]);

    let mut node = Harness::new(counter::<u32>().tick(MS * 10));
    feed(&mut node, 0..3);
    node.advance(MS * 20);
    feed(&mut node, 0..1);
    node.end();
    assert_eq!(node.take::<u64>("out"), [3, 3, 4]);

    let mut node = Harness::new(fold(1, |product: &mut u32, x: u32| *product *= x));
    feed(&mut node, 1..=5);
    assert!(node.take::<u32>("out").is_empty());
    node.end();
    assert_eq!(node.take::<u32>("out"), [120]);

    let mut node = Harness::new(scan(0, |sum: &mut u32, x: u32| {
        *sum += x;
        *sum
    }));
    feed(&mut node, 1..=3);
    assert_eq!(node.take::<u32>("out"), [1, 3, 6]);
}

#[test]
fn samplers_choose_by_number_by_time_and_by_chance() {
    let mut node = Harness::new(sample_nth::<u32>(1));
    feed(&mut node, 0..3);
    assert_eq!(node.take::<u32>("out"), [0, 1, 2]);

    let mut node = Harness::new(sample_every::<u32>(MS * 10));
    feed(&mut node, [1, 2]);
    node.advance(MS * 10);
    feed(&mut node, [3, 4]);
    node.advance(MS * 19); // the period begins with what passed, not by the clock
    feed(&mut node, [5]);
    node.advance(MS * 9);
    feed(&mut node, [6]);
    assert_eq!(node.take::<u32>("out"), [1, 3, 5]);

    let draw = |probability, seed| {
        let mut node = Harness::new(sample_random::<u32>(probability, seed));
        feed(&mut node, 0..200);
        node.take::<u32>("out")
    };
    assert_eq!(draw(0.5, 1), draw(0.5, 1));
    assert_ne!(draw(0.5, 1), draw(0.5, 2));
    assert_eq!((draw(0.0, 1).len(), draw(1.0, 1).len()), (0, 200));
}

#[test]
#[should_panic(expected = "1.5 is no probability; give one from 0.0 to 1.0")]
fn a_probability_above_one_is_refused() {
    let _ = sample_random::<u32>(1.5, 0);
}

#[test]
fn a_batch_is_full_or_late_or_the_last() {
    let mut node = Harness::new(batcher::<u32>(3).within(MS * 10));
    feed(&mut node, 0..2);
    node.advance(MS * 5);
    feed(&mut node, 2..4); // 3 begins a batch at 5 ms, so the tick at 10 ms is not its own
    node.advance(MS * 9);
    assert_eq!(node.take::<Vec<u32>>("out"), [[0, 1, 2]]);
    node.advance(MS);
    let late = node.take_messages::<Vec<u32>>("out");
    assert_eq!(late[0].payload, [3]);
    assert_eq!(late[0].header.at, ms(5), "as old as its oldest message");
    feed(&mut node, 4..5);
    node.end();
    assert_eq!(node.take::<Vec<u32>>("out"), [[4]]);
}

#[test]
fn a_batcher_without_messages_emits_nothing_at_the_end() {
    let mut node = Harness::new(batcher::<u32>(3));
    node.end();
    assert!(node.take::<Vec<u32>>("out").is_empty());
}

#[test]
#[should_panic(expected = "a batch of 0 messages is never full; give it at least 1")]
fn a_batch_of_nothing_is_refused() {
    let _ = batcher::<u32>(0);
}

#[test]
fn a_tumbling_window_by_count_holds_each_message_once() {
    let mut node = Harness::new(tumbling_window::<u32>(Span::Count(2)));
    feed(&mut node, 0..5);
    assert_eq!(node.take::<Vec<u32>>("out"), [[0, 1], [2, 3]]);
    node.end();
    assert_eq!(node.take::<Vec<u32>>("out"), [[4]]);
}

#[test]
fn a_tumbling_window_by_time_closes_at_multiples_of_its_length() {
    let mut node = Harness::new(tumbling_window::<u32>(Span::Time(MS * 10)));
    node.advance(MS * 7);
    feed(&mut node, [1]);
    node.advance(MS * 2);
    feed(&mut node, [2]);
    node.advance(MS); // now 10: the window is over
    assert_eq!(node.take::<Vec<u32>>("out"), [[1, 2]]);
    feed(&mut node, [3]); // at its beginning, so it is in the next
    node.advance(MS * 50);
    assert_eq!(node.take::<Vec<u32>>("out"), [[3]], "empty windows are not emitted");
}

#[test]
fn a_tumbling_window_that_is_full_goes_before_its_time() {
    let mut node = Harness::new(tumbling_window::<u32>(Span::Time(MS * 10)).at_most(2));
    feed(&mut node, 0..3);
    assert_eq!(node.take::<Vec<u32>>("out"), [[0, 1]]);
    node.advance(MS * 10);
    assert_eq!(node.take::<Vec<u32>>("out"), [[2]]);
}

#[test]
fn a_sliding_window_by_count_moves_by_its_step() {
    let mut node = Harness::new(sliding_window::<u32>(Span::Count(3), Span::Count(2)));
    feed(&mut node, 0..7);
    let expected: [&[u32]; 3] = [&[0, 1], &[1, 2, 3], &[3, 4, 5]];
    assert_eq!(node.take::<Vec<u32>>("out"), expected);
    node.end();
    assert_eq!(node.take::<Vec<u32>>("out"), [[4, 5, 6]]);
}

#[test]
fn a_sliding_window_by_time_forgets_what_is_too_old() {
    let mut node = Harness::new(sliding_window::<u32>(Span::Time(MS * 20), Span::Time(MS * 10)));
    for x in 0..4 {
        feed(&mut node, [x]); // at 0, 8, 16, 24 ms
        node.advance(MS * 8);
    }
    node.advance(MS * 100);
    let expected: [&[u32]; 4] = [&[0, 1], &[0, 1, 2], &[2, 3], &[3]];
    assert_eq!(node.take::<Vec<u32>>("out"), expected);
}

#[test]
fn a_window_of_the_last_messages_at_times_is_not_repeated() {
    let mut node = Harness::new(sliding_window::<u32>(Span::Count(2), Span::Time(MS * 10)));
    feed(&mut node, 0..5);
    node.advance(MS * 100);
    assert_eq!(node.take::<Vec<u32>>("out"), [[3, 4]]);
    feed(&mut node, 5..6);
    node.advance(MS * 10);
    assert_eq!(node.take::<Vec<u32>>("out"), [[4, 5]]);
}

#[test]
fn a_sliding_window_forgets_its_oldest_when_it_is_full() {
    let mut node = Harness::new(sliding_window::<u32>(Span::Time(MS * 10), Span::Time(MS * 10)).at_most(2));
    feed(&mut node, 0..5);
    node.advance(MS * 10);
    assert_eq!(node.take::<Vec<u32>>("out"), [[3, 4]]);
}

#[test]
fn a_sliding_window_as_long_as_its_step_is_a_tumbling_one() {
    let run = |node: NodeSpec| {
        let mut node = Harness::new(node);
        for x in 0..50 {
            feed(&mut node, [x]);
            node.advance(MS * (x * 7 % 5));
        }
        node.end();
        node.take::<Vec<u32>>("out")
    };
    let tumbling = run(tumbling_window::<u32>(Span::Time(MS * 10)).spec());
    assert_eq!(tumbling.concat(), (0..50).collect::<Vec<_>>());
    assert_eq!(run(sliding_window::<u32>(Span::Time(MS * 10), Span::Time(MS * 10)).spec()), tumbling);
}

#[test]
fn a_window_is_folded() {
    let mut node = Harness::new(tumbling_window::<u32>(Span::Count(2)).fold(10, |sum: u32, x| sum + x));
    feed(&mut node, 0..4);
    assert_eq!(node.take::<u32>("out"), [11, 15]);
}

#[test]
#[should_panic(expected = "a window that moves by Time(0ns) stands still; let it move")]
fn a_window_that_stands_still_is_refused() {
    let _ = sliding_window::<u32>(Span::Count(1), Span::Time(Duration::ZERO));
}
