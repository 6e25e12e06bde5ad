//! Supervisors under every order of things: children fail and spend too much, and no message is lost but the one that was being handled.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use sched_actors::{self as actor, Child, DeadLetter, Restart, Strategy, Supervisor};
use sched_tasks::{Answer, Budget, Explore, Runtime, TaskError, charge, nursery, shield, sleep, yield_now};
use test_support::Dice;

/// Where messages have been.
#[derive(Default)]
struct Letters {
    sent: BTreeSet<u64>,
    taken: BTreeSet<u64>,
    handled: BTreeSet<u64>,
    dead: BTreeSet<u64>,
    lost: usize,
}

type Log = Arc<Mutex<Letters>>;

/// Two actors and a task that fail and overspend, under a supervisor that is asked to stop and start them meanwhile.
fn office(shape: u64) -> Result<(), TaskError> {
    let dice = Arc::new(Dice::new(shape));
    let logs: [Log; 2] = Default::default();
    const NAMES: [&str; 2] = ["first", "second"];
    let strategy = [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne][dice.below(3) as usize];
    let actor = |which: usize| {
        let (log, dead) = (logs[which].clone(), logs[which].clone());
        let dice = dice.clone();
        let make = move || {
            let (log, dice) = (log.clone(), dice.clone());
            actor::from_fn(move |letter: u64, _| {
                assert!(log.lock().unwrap().taken.insert(letter), "handled twice: {letter}");
                match dice.below(10) {
                    0 => return Err(TaskError::msg("on purpose")),
                    1 => charge(300),
                    2 => panic!("on purpose"),
                    3 => sleep(Duration::from_millis(1)),
                    4 => yield_now(),
                    _ => charge(dice.below(20)),
                }
                assert!(log.lock().unwrap().handled.insert(letter));
                Ok(())
            })
        };
        let restart = if which == 0 { Restart::Permanent } else { Restart::Transient };
        let hook = move |letter: DeadLetter<u64>| match letter {
            DeadLetter::Unhandled(letter) => drop(dead.lock().unwrap().dead.insert(letter)),
            _ => dead.lock().unwrap().lost += 1,
        };
        Child::actor(NAMES[which], make).restart(restart).mailbox(2).dead_letters(hook)
    };
    let task = {
        let dice = dice.clone();
        move || {
            for _ in 0..dice.below(6) {
                charge(dice.below(60));
                yield_now();
            }
            if dice.below(2) == 0 { Err(TaskError::msg("on purpose")) } else { Ok(()) }
        }
    };
    let answers = dice.clone();
    let outcome = nursery(|n| {
        let mut sup = Supervisor::new(strategy)
            .max_restarts(dice.below(20) as u32, Duration::from_secs(3600))
            .budget(Budget::ops(10_000).spawns(100).channel_ops(1_000))
            .child_budget(Budget::ops(100 + dice.below(400)).channel_ops(10))
            .child(actor(0))
            .child(actor(1))
            .child(Child::task("task", task).restart(Restart::Transient));
        if dice.below(2) == 0 {
            sup = sup.on_exhausted(move |exhausted| match answers.below(4) {
                0 => Answer::Cancel,
                1 => Answer::Ignore,
                _ => Answer::Recharge(Budget::ops(exhausted.missing).channel_ops(5)),
            });
        }
        let sup = sup.start(n)?;
        nursery(|senders| {
            for which in 0..2_usize {
                let (sup, dice, log) = (&sup, &dice, &logs[which]);
                senders.spawn(move || {
                    let Ok(address) = sup.address::<u64>(NAMES[which]) else { return };
                    for letter in 0..8 {
                        // Before it is sent: it may be handled before the sender goes on.
                        log.lock().unwrap().sent.insert(letter);
                        if shield(|| address.send(letter)).is_err() {
                            log.lock().unwrap().sent.remove(&letter);
                        }
                        if dice.below(8) == 0 {
                            let _ = sup.restart_child(NAMES[which]); // it may be over
                        }
                    }
                });
            }
            Ok(())
        })?;
        // It may have given up: that is reported, and is no failure of this test.
        let _ = sup.stop();
        Ok(())
    });
    if let Err(error) = outcome {
        let text = error.to_string();
        assert!(text.contains("on purpose") || text.contains("BudgetExhausted"), "{text}");
    }
    for (which, log) in logs.iter().enumerate() {
        let log = log.lock().unwrap();
        let found: BTreeSet<u64> = log.taken.union(&log.dead).copied().collect();
        assert_eq!(log.sent, found, "letters to {}", NAMES[which]);
        assert!(log.taken.intersection(&log.dead).next().is_none(), "handled, and dead");
        assert_eq!(log.taken.len() - log.handled.len(), log.lost, "letters that {} ended over", NAMES[which]);
    }
    Ok(())
}

#[test]
fn no_letter_is_lost_but_the_one_that_was_being_handled() {
    let times = std::env::var("SHAPES").map_or(1, |times| times.parse().expect("SHAPES is a number"));
    for workers in [1, 2, 5] {
        for one_in in [8, 2] {
            let explore = Explore::new().workers(workers).preempt_one_in(one_in).max_steps(200_000);
            for shape in 0..15 * times {
                let explored = explore.find(0..10, || office(shape));
                explored.unwrap_or_else(|finding| panic!("shape {shape}: {finding}"));
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_with_supervisors() {
    for workers in [1, 2, 8] {
        let build = || Runtime::builder().workers(workers).max_fibers(4096).seeded(0).build().unwrap();
        let (one, other) = (build(), build());
        let run = |runtime: &Runtime, seed| {
            runtime.reseed(seed);
            runtime.run(|| office(seed % 5)).unwrap().unwrap();
            runtime.trace().hash()
        };
        let mut before: Vec<_> = (0..20).map(|seed| run(&one, seed)).collect();
        for seed in (0..20).rev() {
            assert_eq!(before.pop().unwrap(), run(&other, seed), "seed {seed}, {workers} workers");
        }
    }
}

#[test]
fn a_hog_whose_supervisor_has_nothing_left_ends_in_any_order() {
    let program = || {
        let error = nursery(|n| {
            let hog = || {
                loop {
                    charge(1);
                }
            };
            Supervisor::new(Strategy::OneForOne)
                .max_restarts(2, Duration::from_secs(60))
                .budget(Budget::ops(200).spawns(20))
                .child_budget(Budget::ops(50))
                .child(Child::task("hog", hog).restart(Restart::Permanent))
                .start(n)?; // no handle is kept: it ends with its last child
            Ok(())
        });
        let text = error.expect_err("it gives up").to_string();
        assert!(text.contains("OpsBudgetExhausted"), "{text}");
    };
    for workers in [1, 2, 3] {
        Explore::new().workers(workers).run(0..60, program);
        Explore::new().workers(workers).preempt_one_in(2).run(0..60, program);
    }
}
