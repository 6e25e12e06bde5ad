//! Ring, injector and lock.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use mech_sync::{Injector, Ring, SpinLock};
use proptest::prelude::*;

/// A value that counts its drops.
struct Counted<'a> {
    producer: usize,
    number: usize,
    drops: &'a AtomicUsize,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Relaxed);
    }
}

fn pass_through(capacity: usize, producers: usize, consumers: usize, each: usize) {
    let drops = AtomicUsize::new(0);
    let ring = Ring::new(capacity);
    let popped = AtomicUsize::new(0);
    let total = producers * each;
    let mut taken: Vec<(usize, usize)> = thread::scope(|scope| {
        let (ring, drops, popped) = (&ring, &drops, &popped);
        for producer in 0..producers {
            scope.spawn(move || {
                for number in 0..each {
                    let mut value = Counted { producer, number, drops };
                    while let Err(back) = ring.push(value) {
                        value = back;
                        thread::yield_now();
                    }
                }
            });
        }
        let consumers: Vec<_> = (0..consumers)
            .map(|_| {
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    while popped.load(Relaxed) < total {
                        if let Some(value) = ring.pop() {
                            popped.fetch_add(1, Relaxed);
                            mine.push((value.producer, value.number));
                        } else {
                            thread::yield_now();
                        }
                        assert!(ring.len() <= capacity);
                    }
                    for producer in 0..producers {
                        let of_it = mine.iter().filter(|(from, _)| *from == producer).map(|(_, number)| number);
                        assert!(of_it.is_sorted(), "a producer's values come out in its order");
                    }
                    mine
                })
            })
            .collect();
        consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect()
    });
    taken.sort_unstable();
    let all = (0..producers).flat_map(|producer| (0..each).map(move |number| (producer, number)));
    assert!(taken.iter().copied().eq(all), "every value comes out once");
    assert_eq!(drops.load(Relaxed), total, "every value is dropped once");
    assert!(ring.is_empty());
}

#[test]
fn every_value_passes_the_ring_once_and_in_order() {
    for capacity in [1, 2, 3, 1024] {
        // A small ring makes its threads take turns, which on a busy machine is slow.
        let each = if capacity < 8 { 3_000 } else { 50_000 };
        pass_through(capacity, 1, 1, each);
        pass_through(capacity, 3, 2, each);
    }
}

#[test]
fn a_dropped_ring_drops_what_is_in_it() {
    let drops = AtomicUsize::new(0);
    let ring = Ring::new(3);
    for number in 0..5 {
        if number >= 3 {
            drop(ring.pop());
        }
        assert!(ring.push(Counted { producer: 0, number, drops: &drops }).is_ok());
    }
    assert_eq!(drops.load(Relaxed), 2);
    drop(ring.push(Counted { producer: 0, number: 5, drops: &drops }));
    assert_eq!(drops.load(Relaxed), 3, "a full ring gives the value back");
    drop(ring);
    assert_eq!(drops.load(Relaxed), 6);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ring_does_what_a_slow_queue_does(capacity in 1..9_usize, pushes in prop::collection::vec(any::<bool>(), 0..200)) {
        let ring = Ring::new(capacity);
        let mut slow = VecDeque::new();
        prop_assert_eq!(ring.capacity(), capacity);
        for (number, push) in pushes.into_iter().enumerate() {
            if !push {
                prop_assert_eq!(ring.pop(), slow.pop_front());
            } else if slow.len() == capacity {
                prop_assert_eq!(ring.push(number), Err(number));
            } else {
                slow.push_back(number);
                prop_assert_eq!(ring.push(number), Ok(()));
            }
            prop_assert_eq!(ring.len(), slow.len());
            prop_assert_eq!(ring.is_empty(), slow.is_empty());
        }
    }
}

#[test]
#[should_panic(expected = "a ring holds at least one value")]
fn a_ring_of_nothing_is_refused() {
    let _ = Ring::<u8>::new(0);
}

#[test]
fn the_injector_keeps_the_order() {
    let injector = Injector::default();
    (0..10).for_each(|number| injector.push(number));
    assert_eq!(injector.pop_batch(0, |_| unreachable!("none asked for")), Some(0));
    let mut kept = Vec::new();
    assert_eq!(injector.pop_batch(3, |number| kept.push(number)), Some(1));
    assert_eq!((kept.as_slice(), injector.len()), (&[2, 3, 4][..], 5));
    kept.clear();
    assert_eq!(injector.pop_batch(99, |number| kept.push(number)), Some(5));
    assert_eq!(kept, [6, 7, 8, 9]);
    assert!(injector.is_empty());
    assert_eq!(injector.pop_batch(99, |_| unreachable!("it is empty")), None);
}

#[test]
fn the_injector_gives_each_item_once() {
    const EACH: usize = 20_000;
    let injector = Injector::default();
    let popped = AtomicUsize::new(0);
    let mut taken: Vec<usize> = thread::scope(|scope| {
        let (injector, popped) = (&injector, &popped);
        for half in 0..2 {
            scope.spawn(move || (0..EACH).for_each(|number| injector.push(2 * number + half)));
        }
        let poppers = [0, 7].map(|more| {
            scope.spawn(move || {
                let mut mine = Vec::new();
                while popped.load(Relaxed) < 2 * EACH {
                    let had = mine.len();
                    match injector.pop_batch(more, |number| mine.push(number)) {
                        Some(first) => mine.insert(had, first),
                        None => thread::yield_now(),
                    }
                    popped.fetch_add(mine.len() - had, Relaxed);
                }
                for half in 0..2 {
                    assert!(mine.iter().filter(|&number| number % 2 == half).is_sorted());
                }
                mine
            })
        });
        poppers.into_iter().flat_map(|popper| popper.join().unwrap()).collect()
    });
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..2 * EACH));
}

#[test]
fn the_lock_loses_no_count() {
    let lock = SpinLock::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50_000).for_each(|_| *lock.lock() += 1));
        }
    });
    assert_eq!(*lock.lock(), 200_000);
}
