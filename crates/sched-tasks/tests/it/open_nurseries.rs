//! Nurseries that a call opens and another closes.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use sched_tasks::{
    Budget, CapSpawn, Ledger, NurseryOptions, NurseryState, OnFailure, OpenNursery, Reason, Runtime, Stop, TaskError,
    budget_left, channel, charge, checkpoint, contain, explore, join, nursery, nursery_with, shield, sleep, unblock,
    yield_now,
};

const LONG: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_secs(20);

/// Writes down who ended, in order.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<&'static str>>>);

struct Tells(Ends, &'static str);

impl Ends {
    fn tells(&self, name: &'static str) -> Tells {
        Tells(self.clone(), name)
    }

    fn so_far(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().push(self.1);
    }
}

/// A task that waits until it is cancelled, and then some more.
fn add_sleeper(nursery: &OpenNursery, ends: &Ends, name: &'static str) {
    let tells = ends.tells(name);
    nursery
        .spawn(move || {
            let _tells = tells;
            let slept = contain(|| sleep(LONG));
            assert!(matches!(slept, Err(Stop::Cancelled)));
            shield(yield_now); // it takes its time
        })
        .unwrap();
}

/// On a plain thread, in a task, in a thread task, and in many seeded runs.
fn everywhere(check: impl Fn() + Send + Sync + 'static) {
    check();
    nursery(|n| n.spawn(&check).join()).unwrap();
    nursery(|n| n.task().on_thread().spawn(&check).join()).unwrap();
    explore(0..50, check);
}

#[test]
fn to_wait_for_it_waits_for_all_that_its_tasks_start() {
    everywhere(|| {
        let done = Arc::new(AtomicUsize::new(0));
        let tasks = Arc::new(OpenNursery::open().unwrap());
        for _ in 0..4 {
            let (done, siblings) = (done.clone(), Arc::downgrade(&tasks));
            tasks
                .spawn(move || {
                    yield_now();
                    let more = done.clone();
                    let siblings = siblings.upgrade().expect("its owner waits");
                    siblings.spawn(move || more.fetch_add(1, SeqCst)).unwrap();
                    done.fetch_add(1, SeqCst);
                })
                .unwrap();
        }
        tasks.wait_all().unwrap();
        assert_eq!(done.load(SeqCst), 8);
        assert_eq!((tasks.state(), tasks.tasks()), (NurseryState::Closed, 0));
        tasks.wait_all().unwrap(); // says the same again
        let refused = tasks.spawn(|| ()).unwrap_err();
        assert!(matches!(refused.reason(), Reason::NurseryNotActive { state: NurseryState::Closed }), "{refused}");
    });
}

#[test]
fn the_first_failure_is_its_verdict_and_cancels_siblings_and_what_its_owner_does() {
    everywhere(|| {
        let ends = Ends::default();
        let tasks = OpenNursery::open().unwrap();
        add_sleeper(&tasks, &ends, "sibling");
        let failing = tasks.try_spawn(|| Err::<(), _>(TaskError::msg("no paper"))).unwrap();
        let (_tx, rx) = channel::<()>(1);
        assert!(matches!(contain(|| rx.recv()), Err(Stop::Cancelled))); // no value will come
        let verdict = tasks.wait_all().unwrap_err();
        assert!(verdict.to_string().contains("no paper"), "{verdict}");
        assert_eq!(ends.so_far(), ["sibling"]);
        assert!(failing.join().unwrap_err().to_string().contains("no paper"));
        assert!(tasks.wait_all().unwrap_err().to_string().contains("no paper"));
        drop(tasks);
        checkpoint(); // it is outside again, where nothing was cancelled
    });
}

#[test]
fn a_task_that_returns_ends_what_it_left_open_the_innermost_first() {
    let check = || {
        let ends = Ends::default();
        let inside = ends.clone();
        nursery(move |n| {
            n.spawn(move || {
                let outer = OpenNursery::open().unwrap();
                let inner = OpenNursery::open().unwrap();
                add_sleeper(&outer, &inside, "outer");
                add_sleeper(&inner, &inside, "inner");
                std::mem::forget((outer, inner)); // leaks the handles, not the tasks
            })
            .join()
        })
        .unwrap();
        assert_eq!(ends.so_far(), ["inner", "outer"]);
    };
    check();
    explore(0..100, check);
}

#[test]
fn a_task_that_panics_or_is_cancelled_ends_what_it_left_open() {
    for panics in [true, false] {
        let ends = Ends::default();
        let (inside, (up, is_up)) = (ends.clone(), mpsc::channel());
        let outcome = nursery(|n| {
            let task = n.spawn(move || {
                let tasks = OpenNursery::open().unwrap();
                add_sleeper(&tasks, &inside, "child");
                std::mem::forget(tasks);
                up.send(()).unwrap();
                if panics {
                    panic!("in the middle");
                }
                sleep(LONG);
            });
            is_up.recv_timeout(SOON).unwrap();
            if !panics {
                n.cancel();
            }
            task.join()
        });
        let error = outcome.unwrap_err();
        assert_eq!(error.is_cancelled(), !panics, "{error}");
        assert_eq!(ends.so_far(), ["child"]);
    }
}

#[test]
fn the_body_of_a_nursery_ends_what_was_opened_in_it() {
    everywhere(|| {
        let ends = Ends::default();
        let outer = OpenNursery::open().unwrap();
        let inside = ends.clone();
        nursery(|n| {
            let inner = OpenNursery::open()?;
            add_sleeper(&inner, &inside, "inner");
            std::mem::forget(inner);
            n.spawn(|| ()).join()
        })
        .unwrap();
        assert_eq!(ends.so_far(), ["inner"]);
        let unwound = contain(|| {
            nursery(|_| {
                let inner = OpenNursery::open()?;
                add_sleeper(&inner, &inside, "unwound");
                std::mem::forget(inner);
                std::panic::resume_unwind(Box::new("a panic")) as Result<(), TaskError>
            })
        });
        assert!(matches!(unwound, Err(Stop::Panicked { .. })), "{unwound:?}");
        assert_eq!(ends.so_far(), ["inner", "unwound"]);
        outer.wait_all().unwrap();
    });
}

#[test]
fn an_outer_one_ends_those_inside_it_first_but_not_a_block() {
    everywhere(|| {
        let ends = Ends::default();
        let outer = OpenNursery::open().unwrap();
        let inner = OpenNursery::open().unwrap();
        add_sleeper(&outer, &ends, "outer");
        add_sleeper(&inner, &ends, "inner");
        assert!(outer.close());
        assert_eq!(ends.so_far(), ["inner", "outer"]);
        assert!(inner.has_ended() && inner.wait_all().unwrap_err().is_cancelled());

        let outer = OpenNursery::open().unwrap();
        nursery(|_| {
            let refused = outer.wait_all().unwrap_err();
            assert!(refused.to_string().contains("return from the block first"), "{refused}");
            assert!(!outer.has_ended());
            Ok(())
        })
        .unwrap();
        let cancelled = nursery(|_| Ok(outer.close())).unwrap_err();
        assert!(cancelled.is_cancelled()); // it cannot close there either, but is cancelled, with the block in it
        assert!(!outer.has_ended() && outer.wait_all().unwrap_err().is_cancelled());
    });
}

#[test]
fn others_spawn_into_it_and_cancel_it_and_cannot_wait_for_it() {
    let tasks = Arc::new(OpenNursery::open().unwrap());
    let ends = Ends::default();
    std::thread::scope(|s| {
        for name in ["first", "second", "third", "fourth"] {
            let (tasks, ends) = (tasks.clone(), &ends);
            s.spawn(move || {
                add_sleeper(&tasks, ends, name);
                let refused = tasks.wait_all().unwrap_err();
                assert!(refused.to_string().contains("only what opened"), "{refused}");
            });
        }
    });
    assert!(!tasks.has_ended());
    let inside = Arc::downgrade(&tasks);
    let in_it = tasks.spawn(move || inside.upgrade().unwrap().wait_all().unwrap_err().to_string()).unwrap();
    assert!(in_it.join().unwrap().contains("only what opened"));
    std::thread::spawn({
        let tasks = tasks.clone();
        move || tasks.close()
    })
    .join()
    .unwrap();
    assert!(tasks.wait_all().unwrap_err().is_cancelled());
    assert_eq!(ends.so_far().len(), 4);
}

#[test]
fn spawns_of_others_that_race_with_its_end_run_to_their_end_or_are_refused() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..200 {
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks = Arc::new(runtime.open_nursery(NurseryOptions::new()).unwrap());
        std::thread::scope(|s| {
            for _ in 0..2 {
                let (tasks, begun, ended) = (tasks.clone(), begun.clone(), ended.clone());
                s.spawn(move || {
                    loop {
                        let ended = ended.clone();
                        match tasks.spawn(move || ended.fetch_add(1, SeqCst)) {
                            Ok(_) => begun.fetch_add(1, SeqCst),
                            Err(_) => break,
                        };
                    }
                });
            }
            tasks.wait_all().unwrap();
            let at_end = ended.load(SeqCst);
            std::thread::yield_now();
            assert_eq!(ended.load(SeqCst), at_end, "a task ran after the nursery had ended");
        });
        assert_eq!(begun.load(SeqCst), ended.load(SeqCst));
    }
}

#[test]
fn its_pool_comes_out_of_its_owners_budget_and_the_rest_goes_back() {
    let check = || {
        let budget = Budget::ops(1_000).spawns(10);
        let options = NurseryOptions::new().budget(budget.spawns(20)).task_budget(budget);
        nursery_with(options, |n| {
            n.spawn(|| {
                let before = budget_left().ops;
                let tasks = OpenNursery::with(NurseryOptions::new().budget(Budget::ops(400).spawns(2))).unwrap();
                let spender = tasks.spawn(|| charge(250)).unwrap();
                spender.join().unwrap();
                let too_much = tasks.spawn(|| charge(250)).unwrap();
                let refused = shield(|| too_much.join()).unwrap_err();
                assert!(matches!(refused.reason(), Reason::BudgetExhausted { .. }), "{refused}");
                assert!(matches!(tasks.wait_all().unwrap_err().reason(), Reason::BudgetExhausted { .. }));
                let after = budget_left().ops;
                assert!((before - 400..=before - 250).contains(&after), "{before} before, {after} after");
            })
            .join()
        })
        .unwrap();
    };
    check();
    explore(0..50, check);
}

#[test]
fn what_is_left_open_has_given_its_budget_back_when_its_task_has_ended() {
    let budget = Budget::ops(10_000).spawns(10);
    nursery_with(NurseryOptions::new().budget(budget).task_budget(budget), |n| {
        n.spawn(|| {
            let tasks = OpenNursery::open().unwrap();
            std::mem::forget(tasks.spawn(|| sleep(LONG)).unwrap());
            std::mem::forget(tasks);
        })
        .join()?;
        let pool = n.pool().expect("it has a budget");
        assert!(pool.left().ops > 9_900, "{pool:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn its_tasks_may_do_what_its_owner_may() {
    let root = Ledger::new().grant(CapSpawn::new());
    let tenant = root.attenuate(CapSpawn::new().max_tasks(3)).unwrap();
    nursery_with(NurseryOptions::new().capability(&tenant), |n| {
        n.spawn(|| {
            let tasks = OpenNursery::with(NurseryOptions::new().on_failure(OnFailure::WaitAll)).unwrap();
            let waits: Vec<_> = (0..2).map(|_| tasks.spawn(|| sleep(LONG))).collect();
            assert!(waits.iter().all(Result::is_ok));
            let refused = tasks.spawn(|| ()).unwrap_err(); // its owner is the third
            assert!(matches!(refused.reason(), Reason::NotAllowed(_)), "{refused}");
        })
        .join()
    })
    .unwrap();
}

#[test]
fn a_thread_that_ends_ends_what_it_left_open_the_innermost_first() {
    let ends = Ends::default();
    let runtime = Arc::new(Runtime::builder().workers(1).build().unwrap());
    let thread = std::thread::spawn({
        let (runtime, ends) = (runtime.clone(), ends.clone());
        move || {
            let outer = runtime.open_nursery(NurseryOptions::new()).unwrap();
            let inner = runtime.open_nursery(NurseryOptions::new()).unwrap();
            add_sleeper(&outer, &ends, "outer");
            add_sleeper(&inner, &ends, "inner");
            std::mem::forget((outer, inner));
        }
    });
    thread.join().unwrap();
    assert_eq!(ends.so_far(), ["inner", "outer"], "before the thread has ended");
    drop(runtime);
}

#[test]
fn a_thread_that_has_ended_its_own_opens_no_more() {
    struct Late(std::sync::mpsc::Sender<String>);
    impl Drop for Late {
        fn drop(&mut self) {
            let block = nursery(|n| n.spawn(|| 3).join()); // a block ends itself
            let open = OpenNursery::open().map(drop).unwrap_err().to_string();
            self.0.send(format!("{block:?} {open}")).unwrap();
        }
    }
    thread_local!(static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) });
    let (sender, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        LATE.with(|late| late.replace(Some(Late(sender)))); // dropped last: it was made first
        OpenNursery::open().map(drop).unwrap();
    });
    let said = said.recv().unwrap();
    assert!(said.starts_with("Ok(3) ") && said.contains("the thread is ending"), "{said}");
}

#[test]
fn a_runtime_that_ends_closes_what_the_thread_that_drops_it_has_open() {
    let ends = Ends::default();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let outer = runtime.open_nursery(NurseryOptions::new()).unwrap();
    let inner = OpenNursery::open().unwrap(); // on the same runtime: it is inside
    add_sleeper(&outer, &ends, "outer");
    add_sleeper(&inner, &ends, "inner");
    drop(runtime);
    assert_eq!(ends.so_far(), ["inner", "outer"]);
    assert!(outer.wait_all().unwrap_err().is_cancelled());
    assert!(inner.spawn(|| ()).is_err());
}

#[test]
fn a_runtime_that_ends_elsewhere_waits_for_blocks_inside_what_a_thread_has_open() {
    let runtime = Arc::new(Runtime::builder().workers(1).build().unwrap());
    let ends = Ends::default();
    let (up, is_up) = mpsc::channel();
    let thread = std::thread::spawn({
        let (runtime, ends) = (runtime.clone(), ends.clone());
        move || {
            let tasks = runtime.open_nursery(NurseryOptions::new()).unwrap();
            drop(runtime); // the other thread has the last one
            let tells = ends.tells("in a block");
            let outcome = nursery(|n| {
                n.spawn(move || {
                    let _tells = tells;
                    up.send(()).unwrap();
                    sleep(LONG);
                })
                .join()
            });
            assert!(outcome.unwrap_err().is_cancelled());
            assert!(tasks.wait_all().unwrap_err().is_cancelled());
        }
    });
    is_up.recv_timeout(SOON).unwrap();
    drop(runtime);
    assert_eq!(ends.so_far(), ["in a block"]);
    thread.join().unwrap();
}

#[test]
fn futures_and_closures_on_other_threads_do_not_open_one() {
    let refused = nursery(|n| n.spawn_async(async { OpenNursery::open().map(drop) }).join()).unwrap();
    assert!(refused.unwrap_err().to_string().contains("a fiber"));
    let refused = nursery(|n| n.spawn(|| unblock(|| OpenNursery::open().map(drop))).join()).unwrap();
    assert!(refused.unwrap_err().to_string().contains("open it in the task"));
}

#[test]
fn a_half_of_a_join_ends_what_it_opened_or_its_task_does() {
    let check = || {
        let ends = Ends::default();
        let inside = ends.clone();
        nursery(move |n| {
            n.spawn(move || {
                let open = |name| {
                    let tasks = OpenNursery::open().unwrap();
                    add_sleeper(&tasks, &inside, name);
                    std::mem::forget(tasks);
                };
                join(|| open("first"), || open("second"));
            })
            .join()
        })
        .unwrap();
        assert_eq!(ends.so_far().len(), 2);
    };
    for _ in 0..100 {
        check();
    }
    explore(0..100, check);
}

#[test]
fn a_task_that_overflows_its_stack_and_survives_that_ends_what_it_left_open() {
    #[expect(unconditional_recursion, reason = "it is to overflow")]
    fn endless() -> u64 {
        std::hint::black_box(endless()) + 1
    }
    let ends = Ends::default();
    let inside = ends.clone();
    let outcome = nursery(move |n| {
        n.task()
            .survives_overflow()
            .spawn(move || {
                let outer = OpenNursery::open().unwrap();
                add_sleeper(&outer, &inside, "outer");
                let inner = OpenNursery::open().unwrap();
                add_sleeper(&inner, &inside, "inner");
                let depth = endless();
                drop((outer, inner));
                depth
            })
            .join()
    });
    assert!(matches!(outcome.unwrap_err().reason(), Reason::StackOverflow { .. }));
    assert_eq!(ends.so_far(), ["inner", "outer"]);
}

#[test]
fn one_that_is_dropped_elsewhere_is_cancelled_and_its_owner_waits() {
    let check = || {
        let ends = Ends::default();
        let inside = ends.clone();
        nursery(move |n| {
            n.spawn(move || {
                let tasks = OpenNursery::open().unwrap();
                add_sleeper(&tasks, &inside, "child");
                let (tx, rx) = channel(1);
                tx.send(tasks).unwrap();
                nursery(|m| {
                    m.spawn(move || drop(rx.recv()));
                    Ok(())
                })
                .unwrap_err(); // what the owner does meanwhile is cancelled with it
            })
            .join()
        })
        .unwrap();
        assert_eq!(ends.so_far(), ["child"]);
    };
    check();
    explore(0..100, check);
}

#[test]
fn a_budget_supervisor_may_outlive_its_nursery_and_those_around_it() {
    let (of_open, of_block) = nursery_with(NurseryOptions::new().budget(Budget::ops(1_000).spawns(9)), |_| {
        let tasks = OpenNursery::open()?; // one account for both
        let of_open = tasks.budget_supervisor().expect("it is open, and has a budget");
        tasks.wait_all()?;
        assert!(tasks.budget_supervisor().is_none(), "it has ended");
        Ok((of_open, nursery(|inner| Ok(inner.budget_supervisor()))?))
    })
    .unwrap();
    assert_eq!(of_open.pool().granted().ops, 1_000);
    assert_eq!(of_block.pool().granted().ops, 1_000);
}

/// Opens, spawns, closes and forgets by chance, in tasks that do the same further inside.
fn grow(mut chance: u64, depth: u32, live: &Arc<AtomicUsize>) {
    let mut open = Vec::new();
    for _ in 0..6 {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match (chance >> 33) % 5 {
            0 => open.push(OpenNursery::open().unwrap()),
            1 | 2 if !open.is_empty() => {
                let nursery: &OpenNursery = &open[(chance >> 40) as usize % open.len()];
                live.fetch_add(1, SeqCst);
                let inside = live.clone();
                let counted = Counted(live.clone());
                let _ = nursery.spawn(move || {
                    let _counted = counted;
                    if depth > 0 {
                        grow(chance ^ 0x9e37_79b9, depth - 1, &inside);
                    }
                    yield_now();
                });
            }
            3 if !open.is_empty() => {
                let nursery = open.swap_remove((chance >> 40) as usize % open.len());
                if (chance >> 50).is_multiple_of(2) { _ = nursery.wait_all() } else { drop(nursery) }
            }
            4 if !open.is_empty() => std::mem::forget(open.pop()),
            _ => {}
        }
    }
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn whatever_is_opened_closed_and_forgotten_no_task_outlives_its_owner() {
    explore(0..300, || {
        let live = Arc::new(AtomicUsize::new(0));
        for seed in 0..4 {
            let inside = live.clone();
            nursery(|n| n.spawn(move || grow(seed * 77 + 5, 2, &inside)).join()).unwrap();
            assert_eq!(live.load(SeqCst), 0);
        }
    });
}
