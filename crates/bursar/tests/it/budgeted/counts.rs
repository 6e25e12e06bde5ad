//! What is counted: an entry a call, a tick an iteration, a check an await.

use std::{convert::Infallible, future::ready};

use bursar::budgeted;
use futures_lite::future::block_on;

use super::ledger::{self, Entry, counts_of};

#[budgeted(crate = super::ledger)]
fn nothing() {}

#[budgeted(crate = super::ledger)]
fn count_to(n: u32) -> u32 {
    let mut sum = 0;
    for i in 0..n {
        sum += i;
    }
    sum
}

#[test]
fn a_call_is_one_entry_and_an_iteration_one_tick() {
    assert_eq!(counts_of(nothing), [1, 0, 0, 1]);
    assert_eq!(counts_of(|| count_to(7)), [1, 7, 0, 1]);
}

#[budgeted(interval = 512, crate = crate::budgeted::ledger)]
fn with_interval() {}

#[test]
fn the_interval_is_passed_on() {
    assert_eq!(ledger::of(with_interval), [Entry::Enter(Some(512)), Entry::Leave]);
    assert_eq!(ledger::of(nothing), [Entry::Enter(None), Entry::Leave]);
}

#[budgeted(crate = super::ledger)]
fn every_kind_of_loop() {
    let mut stack = vec![1, 2, 3];
    while let Some(top) = stack.pop() {
        if top == 2 {
            continue;
        }
    }
    let mut left = 2;
    while left > 0 {
        left -= 1;
    }
    let mut turns = 0;
    loop {
        turns += 1;
        if turns == 4 {
            break;
        }
    }
    'outer: for a in 0..3 {
        for b in 0..3 {
            if b == 1 {
                continue 'outer;
            }
            if a == 2 {
                break 'outer;
            }
        }
    }
}

#[test]
fn every_kind_of_loop_ticks_and_continue_skips_none() {
    let inner = 2 + 2 + 1; // a = 0 and 1: b = 0 and 1; a = 2: b = 0
    assert_eq!(counts_of(every_kind_of_loop), [1, 3 + 2 + 4 + 3 + inner, 0, 1]);
}

#[budgeted(crate = super::ledger)]
fn fails_in_the_third_turn(text: &str) -> Result<u32, std::num::ParseIntError> {
    let mut sum = 0;
    for word in text.split(' ') {
        sum += word.parse::<u32>()?;
    }
    Ok(sum)
}

#[test]
fn a_function_that_returns_by_a_question_mark_returns() {
    assert_eq!(counts_of(|| fails_in_the_third_turn("1 2 x 4")), [1, 3, 0, 1]);
}

#[budgeted(crate = super::ledger)]
fn closures() {
    let looping = |n: u32| {
        (0..n)
            .map(|i| {
                let mut left = i;
                while left > 0 {
                    left -= 1;
                }
                left
            })
            .sum::<u32>()
    };
    let plain = |n: u32| n + 1;
    assert_eq!(looping(plain(2)), 0); // three calls of the innermost: 0, 1 and 2 turns
}

#[test]
fn a_closure_that_loops_has_its_own_counter_and_its_call_is_one() {
    assert_eq!(counts_of(closures), [1 + 3, 3, 0, 1 + 3]);
}

#[budgeted(crate = super::ledger)]
async fn awaits(n: u32) -> u32 {
    let mut sum = ready(ready(1).await).await;
    for _ in 0..n {
        sum += ready(1).await;
    }
    let block = async {
        for _ in 0..2 {
            ready(()).await;
        }
    };
    block.await;
    sum
}

#[test]
fn an_await_is_a_check_and_an_async_block_has_its_own_counter() {
    assert_eq!(counts_of(|| block_on(awaits(3))), [2, 3 + 2, 2 + 3 + 2 + 1, 2]);
    assert_eq!(counts_of(|| drop(awaits(3))), [0; 4], "a future that never ran was never called");
}

#[budgeted(crate = super::ledger)]
fn around_inner_items() {
    fn left_alone() {
        for _ in 0..5 {}
    }
    #[budgeted(crate = super::ledger)]
    fn annotated() {
        for _ in 0..5 {}
    }
    left_alone();
    annotated();
}

#[test]
fn inner_functions_are_left_alone_unless_annotated() {
    assert_eq!(counts_of(around_inner_items), [2, 5, 0, 2]);
}

struct Counter;

#[budgeted(crate = super::ledger)]
impl Counter {
    const TURNS: u32 = 2;

    #[budgeted(skip)]
    const fn skipped() -> u32 {
        let mut turns = 0;
        while turns < Self::TURNS {
            turns += 1;
        }
        turns
    }

    fn looping(&self) {
        for _ in 0..Self::skipped() {}
    }

    #[budgeted(interval = 9, crate = super::ledger)]
    fn by_itself(&mut self) {}
}

#[test]
fn an_impl_means_its_functions_but_for_those_that_say_otherwise() {
    assert_eq!(counts_of(|| Counter.looping()), [1, 2, 0, 1]);
    assert_eq!(ledger::of(|| Counter.by_itself()), [Entry::Enter(Some(9)), Entry::Leave], "and not twice");
}

#[budgeted(crate = crate::budgeted::ledger)]
mod whole {
    pub(super) fn free() {
        for _ in 0..2 {}
    }

    pub(super) trait Walk {
        fn steps(&self) -> u32;

        fn walk(&self) {
            for _ in 0..self.steps() {}
        }
    }

    impl Walk for u32 {
        fn steps(&self) -> u32 {
            *self
        }
    }

    pub(super) mod inner {
        pub(in super::super) fn deep() {
            for _ in 0..3 {}
        }

        #[crate::budgeted::counts::budgeted(skip)]
        pub(in super::super) fn exempt() {
            for _ in 0..3 {}
        }
    }
}

#[test]
fn a_mod_means_everything_in_it() {
    use whole::Walk;
    assert_eq!(counts_of(whole::free), [1, 2, 0, 1]);
    assert_eq!(counts_of(|| 4.walk()), [2, 4, 0, 2]);
    assert_eq!(counts_of(whole::inner::deep), [1, 3, 0, 1]);
    assert_eq!(counts_of(whole::inner::exempt), [0; 4]);
}

#[budgeted(crate = super::ledger)]
fn what_the_compiler_runs() -> usize {
    const TURNS: usize = {
        let mut turns = 0;
        while turns < 3 {
            turns += 1;
        }
        turns
    };
    let array = [0_u8; {
        let mut n = 0;
        while n < 2 {
            n += 1;
        }
        n
    }];
    let inline = const {
        let mut n = 0;
        while n < 2 {
            n += 1;
        }
        n
    };
    TURNS + array.len() + inline
}

#[test]
fn constants_are_left_alone() {
    assert_eq!(counts_of(what_the_compiler_runs), [1, 0, 0, 1]);
}

#[budgeted(crate = super::ledger)]
#[allow(clippy::never_loop)]
fn unwinds() -> Infallible {
    loop {
        std::panic::resume_unwind(Box::new(()));
    }
}

#[test]
fn a_function_that_unwinds_returns() {
    assert_eq!(counts_of(|| std::panic::catch_unwind(unwinds).is_err()), [1, 1, 0, 1]);
}
