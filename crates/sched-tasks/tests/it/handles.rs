//! A handle or a future answers, or says why not, also after it has given its result away.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use sched_tasks::{
    RecvError, Runtime, Select, SendError, block_on, channel, nursery, oneshot, run, sleep_async, unblock_async,
};

/// Polls once.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// What a panic of `body` says.
fn panic_of<R>(body: impl FnOnce() -> R) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).err().expect("it panics");
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string())).expect("with a text")
}

#[test]
fn a_task_that_was_awaited_by_reference_still_knows_who_it_was() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        runtime
            .nursery(|n| {
                for round in 0..100u64 {
                    let mut fiber = n.task().name("answers").spawn(move || vec![round; 8]);
                    let mut future = n.spawn_async(async move { vec![round; 8] });
                    assert_eq!(block_on(&mut fiber)?, [round; 8]);
                    assert_eq!(block_on(&mut future)?, [round; 8]);
                    // Others get the memory of what has ended, if anything can.
                    let others: Vec<_> = (0..8u64).map(|other| n.spawn(move || vec![other; 8])).collect();
                    assert!(fiber.is_done() && future.is_done());
                    assert!(!fiber.is_exhausted() && !future.is_exhausted());
                    assert_eq!(fiber.label().name.as_deref(), Some("answers"));
                    assert_eq!((fiber.label().spawned_at.file(), future.label().name), (file!(), None));
                    assert!(format!("{fiber:?}").contains("answers") && format!("{future:?}").contains("done: true"));
                    for other in others {
                        other.join()?;
                    }
                }
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn a_task_that_has_given_its_result_says_so_when_it_is_asked_again() {
    run(|| {
        nursery(|n| {
            let mut task = n.task().name("once").spawn(|| String::from("all there is"));
            assert_eq!(block_on(&mut task)?, "all there is");
            let said = panic_of(|| poll(pin!(&mut task)));
            assert!(said.contains("`once`") && said.contains("result"), "{said}");
            let error = task.join().unwrap_err();
            assert!(error.to_string().contains("`once`") && error.to_string().contains("result"), "{error}");
            Ok(())
        })
    })
    .unwrap()
    .unwrap();
}

#[test]
fn what_a_task_holds_is_gone_when_its_handle_is() {
    let kept: Weak<()> = nursery(|n| {
        let value = Arc::new(());
        let kept = Arc::downgrade(&value);
        let mut task = n.spawn(move || value);
        let value = block_on(&mut task)?;
        assert_eq!(Arc::strong_count(&value), 1, "the task has none any more");
        drop(value);
        assert_eq!(kept.strong_count(), 0);
        drop(task);
        Ok(kept)
    })
    .unwrap();
    assert_eq!(kept.strong_count(), 0);
}

#[test]
fn a_closure_on_another_thread_gives_its_result_once_and_then_says_so() {
    run(|| {
        let mut unblocked = pin!(unblock_async(|| 42));
        assert_eq!(block_on(unblocked.as_mut()), 42);
        let said = panic_of(|| poll(unblocked.as_mut()).is_pending());
        assert!(said.contains("unblock_async") && said.contains("result"), "{said}");
    })
    .unwrap();
}

#[test]
fn a_future_of_a_channel_does_not_claim_to_have_sent_what_it_gave_back() {
    let (tx, rx) = channel(1);
    drop(rx);
    let mut sending = pin!(tx.send_async("back"));
    assert_eq!(poll(sending.as_mut()), Poll::Ready(Err(SendError("back"))));
    let said = panic_of(|| poll(sending.as_mut()).is_ready());
    assert!(said.contains("send"), "{said}");
}

#[test]
fn a_future_that_is_polled_after_its_end_neither_hangs_nor_loses_a_value() {
    let (tx, rx) = channel(2);
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    let mut receiving = pin!(rx.recv_async());
    assert_eq!(poll(receiving.as_mut()), Poll::Ready(Ok(1)));
    assert_eq!(poll(receiving.as_mut()), Poll::Ready(Ok(2))); // the next, and it is handed over
    let (tx, rx) = oneshot::channel();
    tx.send(1).unwrap();
    let mut one = pin!(rx.recv_async());
    assert_eq!(poll(one.as_mut()), Poll::Ready(Ok(1)));
    assert_eq!(poll(one.as_mut()), Poll::Ready(Err(RecvError)));
    let mut slept = pin!(sleep_async(Duration::ZERO));
    assert_eq!((poll(slept.as_mut()), poll(slept.as_mut())), (Poll::Ready(()), Poll::Ready(())));
}

#[test]
fn a_case_that_was_completed_is_refused_by_the_next_select() {
    let (tx, rx) = channel(1);
    let mut case = tx.case(1);
    assert_eq!(Select::new().with(&mut case).poll(), Some(0));
    let said = panic_of(|| Select::new().with(&mut case).poll());
    assert!(said.contains("completed"), "{said}");
    assert_eq!((case.take(), rx.recv()), (Ok(()), Ok(1)));
    let said = panic_of(|| Select::new().with(&mut case).poll());
    assert!(said.contains("completed"), "{said}");
}

#[test]
fn every_receive_of_one_future_is_paid_for() {
    use sched_tasks::{Budget, NurseryOptions, Reason, nursery_with};
    let options = NurseryOptions::new().budget(Budget::UNLIMITED).task_budget(Budget::UNLIMITED.channel_ops(10));
    let (tx, rx) = channel(100);
    (0..100).for_each(|i| tx.send(i).unwrap());
    let outcome = nursery_with(options, |n| {
        n.spawn(|| {
            let mut receiving = pin!(rx.recv_async());
            (0..50).filter(|_| poll(receiving.as_mut()).is_ready()).count()
        })
        .join()
    });
    assert!(matches!(outcome.unwrap_err().reason(), Reason::BudgetExhausted { .. }));
}
