//! A task that runs out of stack ends the process, with a line that names it: to skip its frames would break what they borrowed.

use std::{
    collections::BinaryHeap,
    hint::black_box,
    os::unix::process::ExitStatusExt,
    pin::pin,
    process::Output,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    task::{Context, Wake, Waker},
    thread,
};

use sched_tasks::{Nursery, Reason, Runtime, channel, join, nursery};
use test_support::{output_alone, text};

use crate::support::spin_until;

#[allow(unconditional_recursion)]
fn forever(n: u64) -> u64 {
    black_box(forever(black_box(n + 1)) + 1)
}

/// What a process says that ended by an overflow.
fn assert_ended(output: &Output, parts: &[&str]) {
    let told = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{told}");
    let line = told
        .lines()
        .find(|line| line.starts_with("bursar: ") && line.contains("overflowed"))
        .unwrap_or_else(|| panic!("no line: {told}"));
    for part in [&["task ", "spawned at ", "overflow_ends.rs", "overflowed its stack", "`stack_bytes`"], parts].concat()
    {
        assert!(line.contains(part), "{part} is not in: {line}");
    }
}

#[test]
fn an_overflow_ends_the_process_with_a_line_that_names_the_task() {
    let Some(output) = output_alone("overflow_ends::an_overflow_ends_the_process_with_a_line_that_names_the_task")
    else {
        let runtime = Runtime::builder().workers(1).stack_bytes(128 << 10).build().unwrap();
        let _ = runtime.nursery(|n| n.task().name("deep").spawn(|| forever(0)).join());
        return;
    };
    assert_ended(&output, &["`deep`", "`stack_bytes` = 131072", "frames that others may borrow from"]);
}

#[test]
fn a_survivor_that_overflows_in_a_waker_ends_the_process() {
    struct Deep;
    impl Wake for Deep {
        fn wake(self: Arc<Self>) {
            forever(0);
        }
    }
    let test = "overflow_ends::a_survivor_that_overflows_in_a_waker_ends_the_process";
    let Some(output) = output_alone(test) else {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (tx, rx) = channel::<u8>(1);
        let mut waiting = pin!(rx.recv_async());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&Arc::new(Deep).into())).is_pending());
        // To go on would be to forget whom else the operation is to wake.
        let _ = runtime.nursery(|n| n.task().survives_overflow().spawn(move || tx.send(1).is_ok()).join());
        return;
    };
    assert_ended(&output, &["it ran a waker in the middle of an operation"]);
}

// ---- what skipping frames would break: each of these once went on, with a double free or a dangling borrow ----

/// Overflows in the middle of something that has borrowed from the parent's frame.
fn end_in_the_middle(test: &str, program: impl FnOnce() + Send) {
    let Some(output) = output_alone(&format!("overflow_ends::{test}")) else {
        Runtime::builder().workers(1).build().unwrap().run(program).unwrap();
        return;
    };
    assert_ended(&output, &[]);
}

#[test]
fn an_overflow_while_a_parents_vector_is_sorted_ends_the_process() {
    end_in_the_middle("an_overflow_while_a_parents_vector_is_sorted_ends_the_process", || {
        let mut words: Vec<String> = (0..100).map(|i| format!("{}", i * 7919 % 100)).collect();
        let lent = &mut words;
        let calls = AtomicU64::new(0);
        let _ = nursery(|n| {
            n.spawn(move || {
                lent.sort_by(|a, b| if calls.fetch_add(1, SeqCst) == 150 { forever(0).cmp(&0) } else { a.cmp(b) });
            })
            .join()
        });
    });
}

#[test]
fn an_overflow_while_a_parents_heap_is_changed_ends_the_process() {
    struct Deep(Box<u64>);
    impl PartialEq for Deep {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Deep {}
    impl PartialOrd for Deep {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Deep {
        fn cmp(&self, other: &Self) -> std::cmp::Ordering {
            if *self.0 == 100 { forever(0).cmp(&0) } else { self.0.cmp(&other.0) }
        }
    }
    end_in_the_middle("an_overflow_while_a_parents_heap_is_changed_ends_the_process", || {
        let mut heap = BinaryHeap::new();
        let lent = &mut heap;
        let _ = nursery(|n| n.spawn(move || (0..=100).for_each(|i| lent.push(Deep(Box::new(i))))).join());
    });
}

#[test]
fn an_overflow_while_a_parents_vector_is_thinned_ends_the_process() {
    end_in_the_middle("an_overflow_while_a_parents_vector_is_thinned_ends_the_process", || {
        let mut words: Vec<String> = (0..100).map(|i| format!("{i}")).collect();
        let lent = &mut words;
        let _ = nursery(|n| {
            n.spawn(move || lent.retain(|word| if word == "50" { forever(0) > 0 } else { word.len() > 1 })).join()
        });
    });
}

#[test]
fn an_overflow_beside_a_scoped_thread_ends_the_process() {
    end_in_the_middle("an_overflow_beside_a_scoped_thread_ends_the_process", || {
        let mut lent = vec![String::from("lent")];
        let lent = &mut lent;
        let _ = nursery(|n| {
            n.spawn(move || {
                thread::scope(|s| {
                    s.spawn(|| {
                        loop {
                            lent.push(String::from("for ever"));
                            lent.clear();
                        }
                    });
                    forever(0)
                })
            })
            .join()
        });
    });
}

#[test]
fn an_overflow_beside_a_pinned_future_ends_the_process() {
    end_in_the_middle("an_overflow_beside_a_pinned_future_ends_the_process", || {
        let (_tx, rx) = async_channel::bounded::<u32>(1);
        let _ = nursery(|n| {
            n.spawn(|| {
                let mut waiting = pin!(rx.recv()); // stands in the channel's list of waiters
                assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                forever(0)
            })
            .join()
        });
    });
}

#[test]
fn an_overflow_that_prints_ends_the_process_and_hangs_nothing() {
    #[expect(unconditional_recursion, reason = "it is to overflow")]
    fn print(depth: u64) -> u64 {
        println!("{:>40}", format!("{depth}"));
        print(depth + 1) + 1
    }
    end_in_the_middle("an_overflow_that_prints_ends_the_process_and_hangs_nothing", || {
        let _ = nursery(|n| n.spawn(|| print(0)).join());
    });
}

#[test]
fn an_overflow_in_a_stolen_half_of_a_join_ends_the_process() {
    end_in_the_middle("an_overflow_in_a_stolen_half_of_a_join_ends_the_process", || {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let stolen = Arc::new(AtomicBool::new(false));
        let half = move || {
            let seen = || spin_until(|| stolen.load(SeqCst));
            let overflow = || {
                stolen.store(true, SeqCst);
                forever(0)
            };
            join(seen, overflow)
        };
        // It borrows nothing itself; but the half borrows from it.
        let _ = runtime.nursery(|n| n.task().survives_overflow().spawn(half).join());
    });
}

#[test]
fn an_overflow_of_a_destructor_that_unwinds_ends_the_process() {
    struct Deep;
    impl Drop for Deep {
        fn drop(&mut self) {
            forever(0);
        }
    }
    let Some(output) = output_alone("overflow_ends::an_overflow_of_a_destructor_that_unwinds_ends_the_process") else {
        let _ = nursery(|n| {
            n.task()
                .survives_overflow()
                .spawn(|| {
                    let _deep = Deep;
                    panic!("on purpose")
                })
                .join()
        });
        return;
    };
    assert_ended(&output, &["it was unwinding"]);
}

/// What a task drops in its own memory cannot be kept: here even a survivor does not survive.
fn end_in_a_destructor(test: &str, leave: impl FnOnce(Lends) + Send) {
    let Some(output) = output_alone(&format!("overflow_ends::{test}")) else {
        Runtime::builder().workers(1).build().unwrap().run(|| leave(Lends([7; 1024]))).unwrap();
        return;
    };
    assert_ended(&output, &["a value that cannot be kept"]);
}

/// Overflows in the middle of its destructor, while a thread borrows it.
#[derive(Debug)]
struct Lends([u8; 1024]);

impl Drop for Lends {
    fn drop(&mut self) {
        let lent = &*self;
        thread::scope(|s| {
            s.spawn(|| while black_box(lent.0[512]) == 7 {});
            forever(0)
        });
    }
}

#[test]
fn an_overflow_while_a_survivors_result_is_dropped_ends_the_process() {
    end_in_a_destructor("an_overflow_while_a_survivors_result_is_dropped_ends_the_process", |lends| {
        let _ = nursery(|n| {
            n.task().survives_overflow().spawn(move || lends);
            Ok(())
        });
    });
}

#[test]
fn an_overflow_while_a_survivors_future_gives_its_output_away_ends_the_process() {
    let name = "an_overflow_while_a_survivors_future_gives_its_output_away_ends_the_process";
    end_in_a_destructor(name, |lends| {
        let _ = nursery(|n| {
            n.task().survives_overflow().spawn_async(async move { lends });
            Ok(())
        });
    });
}

#[test]
fn an_overflow_while_the_captures_of_a_survivor_that_never_ran_are_dropped_ends_the_process() {
    let name = "an_overflow_while_the_captures_of_a_survivor_that_never_ran_are_dropped_ends_the_process";
    end_in_a_destructor(name, |lends| {
        let _ = nursery(|n| {
            n.task().survives_overflow().spawn(move || drop(lends)); // stands in the queue of this very worker
            n.cancel();
            Ok(())
        });
    });
}

/// A body that needs more stack than it has from its first line on.
#[inline(always)]
fn large_frame() -> u8 {
    let mut frame = [1_u8; 2 << 20];
    black_box(&mut frame);
    frame[black_box(7)]
}

/// The process ends by an overflow of the task `broad`, which `program` starts.
fn ends_by_broad<P>(test: &str, program: P)
where
    P: for<'scope> FnOnce(&'scope Nursery<'scope, 'static>),
{
    let Some(output) = output_alone(&format!("overflow_ends::{test}")) else {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let _ = runtime.nursery(|n| {
            program(n);
            Ok(())
        });
        return;
    };
    assert_ended(&output, &["`broad`"]);
}

#[test]
fn a_body_whose_own_frame_is_too_large_is_named_like_any_other() {
    ends_by_broad("a_body_whose_own_frame_is_too_large_is_named_like_any_other", |n| {
        n.task().name("broad").spawn(large_frame);
    });
}

#[test]
fn a_future_whose_poll_has_too_large_a_frame_is_named_like_any_other() {
    ends_by_broad("a_future_whose_poll_has_too_large_a_frame_is_named_like_any_other", |n| {
        n.task().name("broad").spawn_async(async { large_frame() });
    });
}

#[test]
fn a_capture_whose_destructor_has_too_large_a_frame_is_named_like_any_other() {
    struct Broad;
    impl Drop for Broad {
        #[inline(always)]
        fn drop(&mut self) {
            black_box(large_frame());
        }
    }
    ends_by_broad("a_capture_whose_destructor_has_too_large_a_frame_is_named_like_any_other", |n| {
        let (closure, future) = (Broad, Broad);
        n.task().name("broad").spawn(move || _ = &closure);
        n.task().name("broad").spawn_async(async move { _ = &future });
        n.cancel(); // whether they have begun or not
    });
}

#[test]
fn a_survivor_whose_own_frame_is_too_large_fails_alone() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let outcome = runtime.nursery(|n| Ok(n.task().survives_overflow().spawn(large_frame).join()));
    let error = outcome.unwrap_err();
    assert!(matches!(error.reason(), Reason::StackOverflow { .. }), "{error}");
    assert_eq!(runtime.run(|| 1).unwrap(), 1);
}
