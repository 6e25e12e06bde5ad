//! The deque against a slow one, and under thieves.

use std::{
    collections::{HashSet, VecDeque},
    ptr,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use mech_sync::{Deque, Steal, Stealer};
use proptest::prelude::*;

/// Items are numbers dressed as pointers; the deque never looks behind them.
fn item(number: usize) -> *mut u8 {
    ptr::without_provenance_mut(number)
}

#[derive(Debug, Clone)]
enum Op {
    Push(usize),
    Pop(usize),
    PopOldest(usize),
    Steal(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    // Now and then more than the first buffer holds.
    let count = || prop_oneof![4 => 1..4_usize, 1 => 1..400_usize];
    let op = prop_oneof![
        count().prop_map(Op::Push),
        count().prop_map(Op::Pop),
        count().prop_map(Op::PopOldest),
        count().prop_map(Op::Steal),
    ];
    prop::collection::vec(op, 1..60)
}

fn first_index() -> impl Strategy<Value = isize> {
    prop_oneof![Just(0), (isize::MAX - 600)..=isize::MAX, Just(isize::MIN), -300_isize..300]
}

fn steal(stealer: &Stealer<u8>) -> Option<*mut u8> {
    match stealer.steal() {
        Steal::Taken(item) => Some(item),
        Steal::Empty => None,
        Steal::Lost => panic!("no other thief is here to lose against"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_a_slow_deque_does(first in first_index(), ops in ops()) {
        let deque = Deque::starting_at(first);
        let stealer = deque.stealer();
        let mut slow = VecDeque::new();
        let mut pushed = 0;
        for op in ops {
            match op {
                Op::Push(times) => for _ in 0..times {
                    pushed += 1;
                    deque.push(item(pushed));
                    slow.push_back(item(pushed));
                },
                Op::Pop(times) => for _ in 0..times { prop_assert_eq!(deque.pop(), slow.pop_back()) },
                Op::PopOldest(times) => for _ in 0..times { prop_assert_eq!(deque.pop_oldest(), slow.pop_front()) },
                Op::Steal(times) => for _ in 0..times { prop_assert_eq!(steal(&stealer), slow.pop_front()) },
            }
            prop_assert_eq!(stealer.len(), slow.len());
            prop_assert_eq!(deque.is_empty(), slow.is_empty());
        }
        while let Some(item) = slow.pop_front() {
            prop_assert_eq!(steal(&stealer), Some(item));
        }
        prop_assert_eq!(deque.pop(), None);
    }

    #[test]
    fn a_mark_is_passed_only_by_all_that_stood_before_it(first in first_index(), before in ops(), after in ops()) {
        let deque = Deque::starting_at(first);
        let stealer = deque.stealer();
        let mut inside = HashSet::new();
        let mut pushed = 0;
        let mut run = |op: &Op, inside: &mut HashSet<*mut u8>| match *op {
            Op::Push(times) => for _ in 0..times {
                pushed += 1;
                deque.push(item(pushed));
                inside.insert(item(pushed));
            },
            Op::Pop(times) => for _ in 0..times { deque.pop().map(|item| inside.remove(&item)); },
            Op::PopOldest(times) => for _ in 0..times { deque.pop_oldest().map(|item| inside.remove(&item)); },
            Op::Steal(times) => for _ in 0..times { steal(&stealer).map(|item| inside.remove(&item)); },
        };
        before.iter().for_each(|op| run(op, &mut inside));
        let mark = deque.mark();
        let marked = inside.clone();
        for op in &after {
            run(op, &mut inside);
            if deque.has_passed(mark) {
                prop_assert!(marked.is_disjoint(&inside), "the mark was passed too early");
            } else {
                prop_assert!(!inside.is_empty(), "an empty deque has passed every mark");
            }
        }
    }
}

#[test]
fn a_mark_is_passed_when_the_oldest_are_gone() {
    let deque = Deque::starting_at(isize::MAX);
    deque.push(item(1));
    deque.push(item(2));
    let mark = deque.mark();
    deque.push(item(3));
    deque.pop_oldest();
    assert!(!deque.has_passed(mark));
    deque.pop_oldest();
    assert!(deque.has_passed(mark), "only the third is left, and it came later");
}

#[test]
fn every_item_of_a_million_is_taken_once() {
    const ITEMS: usize = 1_000_000;
    for (thieves, first) in [(2, 0), (4, isize::MAX - 1000)] {
        let deque: Deque<u8> = Deque::starting_at(first);
        let finished = AtomicBool::new(false);
        let mut taken = thread::scope(|scope| {
            let thieves: Vec<_> = (0..thieves)
                .map(|_| {
                    let (stealer, finished) = (deque.stealer(), &finished);
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        loop {
                            let last_look = finished.load(SeqCst);
                            match stealer.steal() {
                                Steal::Taken(item) => mine.push(item.addr()),
                                Steal::Lost => {}
                                Steal::Empty if last_look => return mine,
                                Steal::Empty => thread::yield_now(),
                            }
                        }
                    })
                })
                .collect();
            let mut mine = Vec::new();
            for number in 1..=ITEMS {
                deque.push(item(number));
                // Mostly in the neighbourhood of empty, where owner and thieves meet; at times far from it.
                let pops = if number / 10_000 % 5 == 0 { 0 } else { number % 3 };
                mine.extend((0..pops).filter_map(|_| deque.pop()).map(|item| item.addr()));
                if number % 1_000 == 0 {
                    mine.extend(deque.pop_oldest().map(|item| item.addr()));
                }
            }
            mine.extend(std::iter::from_fn(|| deque.pop()).map(|item| item.addr()));
            finished.store(true, SeqCst);
            for thief in thieves {
                mine.extend(thief.join().unwrap());
            }
            mine
        });
        taken.sort_unstable();
        assert!(taken.iter().copied().eq(1..=ITEMS), "{} taken of {ITEMS}", taken.len());
    }
}
