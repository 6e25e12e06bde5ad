//! Graphics cards, as closures and executors see them.

use std::sync::{Arc, Mutex, mpsc};

use sched_jobs::{AttemptId, Executor, Gpu, Job, Order, Outcome, State};

use crate::{Door, LONG, on_both_with, state};

fn two_cards() -> [Gpu; 2] {
    [Gpu::new("GPU-a", 8_000), Gpu::new("GPU-b", 8_000)]
}

#[test]
fn a_closure_has_a_card_with_enough_memory_or_waits() {
    on_both_with(
        |builder| builder.cpu_slots(4).gpus(two_cards()),
        |jobs| {
            let (sender, received) = mpsc::channel();
            let door = Door::default();
            for name in ["a", "b", "c"] {
                let (sender, door) = (sender.clone(), door.clone());
                let job = Job::new(name).vram_mb(6_000).run(move |ctx| {
                    let ids: Vec<String> = ctx.gpus().into_iter().map(|gpu| gpu.id).collect();
                    sender.send((ctx.name(), ids)).unwrap();
                    door.pass();
                });
                jobs.submit(job).unwrap();
            }
            received.recv_timeout(LONG).unwrap();
            assert_eq!(
                state(&jobs, "c"),
                State::Ready,
                "6 GB are free on no card, though 4 GB are free on each of two"
            );
            door.open();
            jobs.wait().unwrap();
            assert!(received.try_iter().all(|(_, on)| on.len() == 1));
        },
    );
}

#[test]
fn a_job_that_asks_for_no_card_has_none_and_whole_cards_are_named_in_order() {
    on_both_with(
        |builder| builder.cpu_slots(4).gpus(two_cards()),
        |jobs| {
            let (sender, received) = mpsc::channel();
            for (name, gpus) in [("none", 0), ("both", 2)] {
                let sender = sender.clone();
                let job = Job::new(name).gpus(gpus).run(move |ctx| sender.send((ctx.name(), ctx.gpus())).unwrap());
                jobs.submit(job).unwrap();
            }
            jobs.wait().unwrap();
            let mut received: Vec<_> = received.try_iter().collect();
            received.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(received, [("both".to_owned(), two_cards().to_vec()), ("none".to_owned(), Vec::new())]);
        },
    );
}

/// Says at once that all is done, and remembers on which cards.
#[derive(Default)]
struct Notes(Mutex<Vec<(String, Vec<String>)>>);

impl Executor for Notes {
    fn start(&self, order: Order) {
        let ids = order.gpus.iter().map(|gpu| gpu.id.clone()).collect();
        self.0.lock().unwrap().push((order.name, ids));
        order.report.ended(Outcome::Succeeded);
    }

    fn pause(&self, _: AttemptId) {}
    fn resume(&self, _: AttemptId) {}
    fn cancel(&self, _: AttemptId) {}
}

#[test]
fn an_executor_gets_the_cards_of_every_attempt() {
    on_both_with(
        |builder| builder.cpu_slots(4).gpus(two_cards()),
        |jobs| {
            let notes = Arc::new(Notes::default());
            let job = Job::new("train").gpus(2).vram_mb(4_000).execute(notes.clone(), Arc::new(()));
            jobs.submit(job).unwrap();
            jobs.wait().unwrap();
            let cards = ["GPU-a", "GPU-b"].map(str::to_owned).to_vec();
            assert_eq!(*notes.0.lock().unwrap(), [("train".to_owned(), cards)]);
        },
    );
}
