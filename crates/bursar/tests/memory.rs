//! Memory is charged to the task that holds it: no way to allocate gets round the budget.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bursar::{
    Budget, NurseryOptions, Reason, Runtime, TaskError,
    budget::{BudgetedAlloc, Component, charge},
    join, nursery, nursery_with,
};

#[global_allocator]
static MEMORY: BudgetedAlloc = BudgetedAlloc::system();

const KIB: u64 = 1 << 10;
const MIB: usize = 1 << 20;

fn budget() -> Budget {
    Budget::ops(1_000_000).memory(MIB as u64).spawns(1_000)
}

/// How it ended that was to spend too much memory.
fn is_over_its_memory(outcome: Result<(), TaskError>) {
    let error = outcome.expect_err("it is stopped");
    let memory = matches!(error.reason(), Reason::BudgetExhausted { component: Component::Memory, .. });
    assert!(memory, "it ended otherwise: {error}");
}

#[test]
fn what_is_overdrawn_inside_a_nursery_is_not_forgotten_with_it() {
    let held = AtomicUsize::new(0);
    is_over_its_memory(nursery_with(NurseryOptions::new().task_budget(budget()), |n| {
        n.spawn(|| {
            let mut hoard = Vec::new();
            for _ in 0..100 {
                let _ = nursery(|_| {
                    hoard.push(vec![1_u8; MIB]);
                    Ok(())
                });
                held.store(hoard.len(), SeqCst);
            }
        })
        .join()
    }));
    assert!(held.into_inner() <= 3);
}

#[test]
fn a_task_cannot_return_what_it_could_not_pay() {
    is_over_its_memory(nursery_with(NurseryOptions::new().task_budget(budget()), |n| {
        n.spawn(|| vec![1_u8; 2 * MIB]).join().map(drop)
    }));
    is_over_its_memory(nursery_with(NurseryOptions::new().task_budget(budget()), |n| {
        n.spawn_async(async { vec![1_u8; 2 * MIB] }).join().map(drop)
    }));
}

#[test]
fn a_half_of_a_join_pays_for_what_it_returns() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let outcome = runtime.run(|| {
        nursery_with(NurseryOptions::new().budget(budget()), |n| {
            n.spawn(|| {
                let both = join(|| vec![1_u8; MIB], || vec![1_u8; MIB]);
                charge(1);
                drop(both);
            })
            .join()
        })
    });
    is_over_its_memory(outcome.unwrap());
}

#[test]
fn a_future_gets_no_credit_for_being_polled() {
    let options = NurseryOptions::new().task_budget(budget().memory(64 * KIB));
    is_over_its_memory(nursery_with(options, |n| {
        n.spawn_async(async {
            let mut hoard = Vec::with_capacity(2_000);
            for _ in 0..2_000 {
                hoard.push(Box::new([1_u8; 64]));
                charge(1);
                let mut yielded = false;
                std::future::poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if std::mem::replace(&mut yielded, true) {
                        std::task::Poll::Ready(())
                    } else {
                        std::task::Poll::Pending
                    }
                })
                .await;
            }
        })
        .join()
    }));
}

#[test]
fn what_is_freed_can_be_allocated_again_for_ever() {
    nursery_with(NurseryOptions::new().task_budget(budget()), |n| {
        n.spawn(|| {
            for _ in 0..1_000 {
                let block = vec![1_u8; MIB / 2];
                charge(1);
                drop(block);
            }
        })
        .join()
    })
    .unwrap();
}

#[test]
fn threads_that_end_and_their_locals_may_allocate() {
    struct Late(Vec<u8>);
    impl Drop for Late {
        fn drop(&mut self) {
            let again = self.0.clone(); // the strand of this thread may be gone
            assert_eq!(again.len(), 100);
            bursar::yield_now(); // and now there is another
            drop(vec![1_u8; MIB]);
        }
    }
    thread_local!(static LATE: Late = Late(vec![7; 100]));
    for order in 0..2 {
        let thread = std::thread::spawn(move || {
            if order == 0 {
                LATE.with(|late| assert_eq!(late.0.len(), 100));
            }
            nursery(|n| n.spawn(|| 1).join()).unwrap();
            LATE.with(|late| assert_eq!(late.0.len(), 100));
        });
        thread.join().unwrap();
    }
}
