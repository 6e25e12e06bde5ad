//! Budgets under every order of things: whatever a tree of nurseries does, its root pays exactly what its tasks spent.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use sched_tasks::{
    Answer, Budget, Cap, CapBudget, CapSpawn, Explore, Ledger, Nursery, NurseryOptions, NurseryState, OnFailure,
    Recharge, Runtime, TaskError, channel, charge, join, nursery_with, recharge, shield, sleep, sleep_async, yield_now,
};
use test_support::Dice;

use crate::support::until;

const MS: Duration = Duration::from_millis(1);

/// What was paid for certain, and what may have been: a charge that is cut short by a cancellation does not say.
#[derive(Default)]
struct Tally {
    ops: AtomicU64,
    channel_ops: AtomicU64,
    perhaps_ops: AtomicI64,
    perhaps_channel_ops: AtomicI64,
    drawn_by_capability: AtomicU64,
    /// Unplanned panics.
    surprises: Mutex<Vec<String>>,
}

const PLANNED: [&str; 2] = ["a handler without an idea", "as it happens"];

impl Tally {
    /// Does something that costs `ops` operations and `channel_ops` of channels, once or not at all.
    fn count<R>(&self, ops: u64, channel_ops: u64, what: impl FnOnce() -> R) -> R {
        self.perhaps_ops.fetch_add(ops as i64, SeqCst);
        self.perhaps_channel_ops.fetch_add(channel_ops as i64, SeqCst);
        let done = what();
        self.perhaps_ops.fetch_sub(ops as i64, SeqCst);
        self.perhaps_channel_ops.fetch_sub(channel_ops as i64, SeqCst);
        self.ops.fetch_add(ops, SeqCst);
        self.channel_ops.fetch_add(channel_ops, SeqCst);
        done
    }

    /// Pays, and cannot be cut short: who unwinds here has not paid.
    fn pay_shielded(&self, ops: u64) {
        shield(|| charge(ops));
        self.ops.fetch_add(ops, SeqCst);
    }

    /// Spawns something; only while the nursery takes tasks is it known to have cost an operation.
    fn spawn<R>(&self, n: &Nursery<'_, '_>, spawn: impl FnOnce() -> R) -> R {
        self.perhaps_ops.fetch_add(1, SeqCst);
        let task = spawn();
        if n.state() == NurseryState::Open {
            self.perhaps_ops.fetch_sub(1, SeqCst);
            self.ops.fetch_add(1, SeqCst);
        }
        task
    }
}

/// What all tasks of a tree have.
struct Tree {
    dice: Arc<Dice>,
    tally: Tally,
    spawner: Cap<CapSpawn>,
    reserve: Cap<CapBudget>,
}

impl Tree {
    fn new(shape: u64) -> Self {
        let ledger = Ledger::new();
        Self {
            dice: Arc::new(Dice::new(shape)),
            tally: Tally::default(),
            spawner: ledger.grant(CapSpawn::new().max_tasks(60)),
            reserve: ledger.grant(CapBudget::new().limit(Budget::ops(2_000))),
        }
    }

    fn one_in(&self, sides: u64) -> bool {
        self.dice.below(sides) == 0
    }

    fn options(&self) -> (NurseryOptions, Option<Cap<CapSpawn>>) {
        let dice = &self.dice;
        let mut options = NurseryOptions::new();
        if !self.one_in(4) {
            options = options.on_failure(OnFailure::WaitAll);
        }
        if self.one_in(3) {
            options = options.budget(Budget::ops(dice.below(9_000)).spawns(dice.below(30)).channel_ops(dice.below(30)));
        }
        if !self.one_in(6) {
            // By default children may not spawn.
            options =
                options.task_budget(Budget::ops(dice.below(3_000)).spawns(dice.below(40)).channel_ops(dice.below(9)));
        }
        if self.one_in(2) {
            options = options.recharge(if self.one_in(3) { Recharge::Never } else { Recharge::FromPool });
        }
        if self.one_in(4) {
            options = options.period(MS * dice.below(5) as u32);
        }
        if self.one_in(6) {
            options = options.spawn_limit(dice.below(8));
        }
        if self.one_in(8) {
            options = options.timeout(MS * dice.below(20) as u32);
        }
        if self.one_in(4) {
            let dice = dice.clone();
            options = options.on_exhausted(move |exhausted| match dice.below(8) {
                0 => panic!("a handler without an idea"),
                1 => Answer::Cancel,
                2..5 => Answer::Ignore,
                _ => Answer::Recharge(Budget::ops(exhausted.missing + dice.below(100)).spawns(dice.below(3))),
            });
        }
        if self.one_in(4) {
            options = options.capability(&self.reserve);
        }
        let spawner = self.one_in(4).then(|| {
            let terms = CapSpawn::new().max_tasks(1 + dice.below(12));
            let terms = if self.one_in(2) { terms } else { terms.task_budget(Budget::ops(dice.below(500)).spawns(3)) };
            self.spawner.attenuate(terms).expect("less is always allowed")
        });
        if let Some(spawner) = &spawner {
            options = options.capability(spawner);
        }
        (options, spawner)
    }

    /// A few things that cost something.
    fn work(&self) {
        let (dice, tally) = (&self.dice, &self.tally);
        for _ in 0..dice.below(4) {
            match dice.below(9) {
                0 => yield_now(),
                1 => sleep(MS * dice.below(3) as u32),
                2 => {
                    let ops = dice.below(60);
                    tally.count(ops, 0, || charge(ops));
                }
                3 if self.one_in(4) => {
                    if let Ok(drawn) = recharge(Budget::ops(dice.below(200))) {
                        tally.drawn_by_capability.fetch_add(drawn.ops, SeqCst);
                    }
                }
                4 if self.one_in(12) => panic!("as it happens"),
                5 => {
                    // What it cannot have it does without.
                    let caught = catch_unwind(AssertUnwindSafe(|| tally.pay_shielded(dice.below(2_000))));
                    caught.unwrap_or_else(|payload| resume_unwind(payload));
                }
                _ => tally.pay_shielded(dice.below(60)),
            }
        }
    }

    /// A nursery with tasks of all kinds.
    fn grow(&self, depth: u64) {
        self.work();
        if depth == 0 {
            return;
        }
        let (options, spawner) = self.options();
        let opened = AssertUnwindSafe(|| self.open(options, spawner.as_ref(), depth));
        let outcome = catch_unwind(opened).unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string()));
            self.note_panic(text);
            resume_unwind(payload)
        });
        if let Err(error) = outcome {
            self.note_panic(error.is_panic().then(|| error.to_string()));
            if self.one_in(4) {
                resume_unwind(Box::new(error)); // its end is ours
            }
        }
    }

    fn note_panic(&self, text: Option<String>) {
        let surprise = text.filter(|text| !PLANNED.iter().any(|planned| text.contains(planned)));
        self.tally.surprises.lock().unwrap().extend(surprise);
    }

    fn open(&self, options: NurseryOptions, spawner: Option<&Cap<CapSpawn>>, depth: u64) -> Result<(), TaskError> {
        let (dice, tally) = (&self.dice, &self.tally);
        nursery_with(options, |n| {
            let supervisor = (self.one_in(4) && n.pool().is_some()).then(|| n.budget_supervisor());
            let (tx, rx) = channel(1);
            for _ in 0..1 + dice.below(6) {
                match dice.below(11) {
                    0 => tally.spawn(n, || {
                        n.spawn_async(async {
                            tally.pay_shielded(dice.below(100));
                            sleep_async(MS * dice.below(2) as u32).await;
                            tally.pay_shielded(dice.below(100));
                        });
                    }),
                    1 => tally.spawn(n, || {
                        n.spawn(|| join(|| self.work(), || self.work()));
                    }),
                    2 => {
                        let (tx, rx) = (tx.clone(), rx.clone());
                        tally.spawn(n, || {
                            n.spawn(move || {
                                let _ = tally.count(1, 1, || tx.try_send(()));
                                let _ = tally.count(1, 1, || rx.try_recv());
                            });
                        });
                    }
                    3 => tally.spawn(n, || {
                        // A guest: it spawns into the nursery of another.
                        n.spawn(|| tally.spawn(n, || drop(n.spawn(|| self.work()))));
                    }),
                    4 => self.work(),
                    _ => tally.spawn(n, || {
                        n.spawn(|| self.grow(depth - 1));
                    }),
                }
                match dice.below(40) {
                    0 => n.cancel(),
                    1 => drop(spawner.map(|spawner| spawner.revoke())),
                    2 => n.dismiss(),
                    3 => n.close(),
                    _ => {}
                }
            }
            if let Some(supervisor) = supervisor {
                for _ in 0..dice.below(5) {
                    let Some(exhausted) = supervisor.next_timeout(MS) else { break };
                    let answer = match dice.below(4) {
                        0 => Answer::Cancel,
                        1 => Answer::Ignore,
                        _ => Answer::Recharge(Budget::ops(dice.below(400)).spawns(1).channel_ops(2)),
                    };
                    supervisor.answer(exhausted.task.id, answer);
                }
            }
            Ok(())
        })
    }

    /// All of it, in a task with a budget; then the books are looked at.
    fn live(&self) -> Result<(), TaskError> {
        let budget = Budget::ops(20_000).spawns(200).channel_ops(200);
        let options = NurseryOptions::new().budget(budget.spawns(201)).task_budget(budget);
        let mut books_are_right = false;
        let outcome = nursery_with(options.on_failure(OnFailure::WaitAll), |n| {
            let _ = n.spawn(|| self.grow(4)).join();
            until(|| n.pool().is_some_and(|pool| pool.out() == Budget::ZERO));
            let (pool, tally) = (n.pool().expect("it has a budget"), &self.tally);
            let number = |count: &AtomicU64| count.load(SeqCst);
            assert_eq!(pool.granted().spawns, 201);
            assert!(pool.granted().ops >= 20_000 + number(&tally.drawn_by_capability), "{pool:?}");
            assert!(pool.granted().ops <= 20_000 + 2_000, "{pool:?}");
            let exact = |what: &str, spent: u64, counted: u64, perhaps: &AtomicI64| {
                let most = counted + perhaps.load(SeqCst) as u64;
                assert!((counted..=most).contains(&spent), "{spent} {what} were paid, {counted} to {most} counted");
            };
            exact("ops", pool.spent().ops, number(&tally.ops), &tally.perhaps_ops);
            exact("channel ops", pool.spent().channel_ops, number(&tally.channel_ops), &tally.perhaps_channel_ops);
            let surprises = tally.surprises.lock().unwrap();
            assert!(surprises.is_empty(), "{surprises:?}");
            books_are_right = true;
            Ok(())
        });
        assert!(books_are_right, "{outcome:?}");
        if let Err(error) = outcome {
            self.note_panic(error.is_panic().then(|| error.to_string()));
            assert!(self.tally.surprises.lock().unwrap().is_empty(), "{error}");
        }
        assert_eq!(self.spawner.tasks_in_use(), 0, "permits that were not given back");
        Ok(())
    }
}

/// `SHAPES=<n>` looks at so many times as many trees.
fn explore_trees(explore: &Explore, shapes: std::ops::Range<u64>, seeds: u64) {
    let times = std::env::var("SHAPES").map_or(1, |times| times.parse().expect("SHAPES is a number"));
    let mut steps = 0;
    for shape in shapes.start..shapes.start + (shapes.end - shapes.start) * times {
        let explored = explore.find(0..seeds, || Tree::new(shape).live());
        steps += explored.unwrap_or_else(|finding| panic!("shape {shape}: {finding}")).steps;
    }
    assert!(steps > 10 * seeds * (shapes.end - shapes.start), "the trees are too small: {steps} steps");
}

#[test]
fn the_root_pays_exactly_what_was_spent_in_any_order() {
    for workers in [1, 2, 3, 8] {
        explore_trees(&Explore::new().workers(workers).max_steps(200_000), 0..60, 8);
    }
}

#[test]
fn the_root_pays_exactly_what_was_spent_however_often_it_is_interrupted() {
    for workers in [1, 2, 4] {
        explore_trees(&Explore::new().workers(workers).preempt_one_in(2).max_steps(200_000), 100..160, 8);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_with_budgets() {
    for workers in [1, 2, 8] {
        let build = || Runtime::builder().workers(workers).max_fibers(4096).seeded(0).build().unwrap();
        let (one, other) = (build(), build());
        let run = |runtime: &Runtime, seed| {
            runtime.reseed(seed);
            runtime.run(|| Tree::new(seed % 5).live()).unwrap().unwrap();
            runtime.trace().hash()
        };
        let mut before: Vec<_> = (0..30).map(|seed| run(&one, seed)).collect();
        for seed in (0..30).rev() {
            assert_eq!(before.pop().unwrap(), run(&other, seed), "seed {seed}, {workers} workers");
        }
    }
}
