//! Supervisors start children again, in order, and not too often.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use sched_actors::{
    self as actor, Actor, Child, ChildState, Context, Restart, RestartsExceeded, StopReason, Strategy, Supervisor,
    SupervisorError, SupervisorHandle,
};
use sched_tasks::{Runtime, TaskError, is_cancelled, nursery, oneshot, sleep, yield_now};
use test_support::{alone, for_seeds, resident_bytes};

use crate::support::until;

const LONG: Duration = Duration::from_secs(3600);
const WINDOW: Duration = Duration::from_secs(5);

fn on_two_workers<T: Send>(body: impl FnOnce() -> Result<T, TaskError> + Send) -> Result<T, TaskError> {
    Runtime::builder().workers(2).build().unwrap().run(body).unwrap()
}

fn idle() -> Result<(), TaskError> {
    sleep(LONG);
    Ok(())
}

/// Fails when it is told to, and writes down its starts and ends.
struct Member<'a> {
    name: &'static str,
    log: &'a Mutex<Vec<String>>,
}

#[derive(Debug, Clone, Copy)]
enum Order {
    Fail,
    Panic,
    Return,
}

impl Actor for Member<'_> {
    type Message = Order;

    fn started(&mut self, _: &mut Context<Order>) -> Result<(), TaskError> {
        yield_now(); // the next one would overtake it, if it could
        self.log.lock().unwrap().push(format!("+{}", self.name));
        Ok(())
    }

    fn handle(&mut self, order: Order, ctx: &mut Context<Order>) -> Result<(), TaskError> {
        self.log.lock().unwrap().push(format!("{order:?}"));
        match order {
            Order::Fail => Err(TaskError::msg(format!("{} was told to fail", self.name))),
            Order::Panic => panic!("{} was told to panic", self.name),
            Order::Return => {
                ctx.stop();
                Ok(())
            }
        }
    }

    fn stopped(&mut self, reason: &StopReason, _: &mut Context<Order>) {
        if matches!(reason, StopReason::Restart | StopReason::Closed) {
            yield_now();
            self.log.lock().unwrap().push(format!("-{}", self.name));
        }
    }
}

type Log = Mutex<Vec<String>>;

fn member<'a>(name: &'static str, log: &'a Log) -> actor::ActorChild<'a, Order> {
    Child::actor(name, move || Member { name, log })
}

fn send_order(sup: &SupervisorHandle<'_>, name: &str, order: Order) -> Result<(), TaskError> {
    Ok(sup.address::<Order>(name)?.send(order)?)
}

fn is_running(sup: &SupervisorHandle<'_>, name: &str, restarts: u64) -> bool {
    sup.child(name).is_ok_and(|child| child.state == ChildState::Running && child.restarts == restarts)
}

/// What happens when `b` of `a`, `b`, `c` fails, and then all are stopped.
fn story(strategy: Strategy, order: Order) -> String {
    let log = Log::default();
    on_two_workers(|| {
        nursery(|n| {
            let sup = ["a", "b", "c"]
                .into_iter()
                .fold(Supervisor::new(strategy), |sup, name| sup.child(member(name, &log)))
                .start(n)?;
            send_order(&sup, "b", order)?;
            until(|| is_running(&sup, "b", 1) && sup.child("c").unwrap().state == ChildState::Running);
            sup.stop()
        })
    })
    .unwrap();
    log.into_inner().unwrap().join(" ")
}

#[test]
fn children_start_in_order_and_stop_in_reverse_however_one_ended() {
    for order in [Order::Fail, Order::Panic, Order::Return] {
        assert_eq!(
            story(Strategy::OneForAll, order).replace(&format!("{order:?} "), ""),
            "+a +b +c -c -a +a +b +c -c -b -a"
        );
        assert_eq!(
            story(Strategy::RestForOne, order).replace(&format!("{order:?} "), ""),
            "+a +b +c -c +b +c -c -b -a"
        );
    }
    // Here `c` may start before or after `b` gets its order.
    let one = story(Strategy::OneForOne, Order::Fail).replace("+c ", "").replace("Fail ", "");
    assert_eq!(one, "+a +b +b -c -b -a");
}

#[test]
fn a_failing_child_disturbs_no_other_and_its_last_error_is_kept() {
    let log = Log::default();
    on_two_workers(|| {
        nursery(|n| {
            let sup = Supervisor::new(Strategy::OneForOne)
                .child(member("calm", &log))
                .child(member("wild", &log))
                .start(n)?;
            send_order(&sup, "wild", Order::Panic)?;
            until(|| is_running(&sup, "wild", 1));
            assert!(is_running(&sup, "calm", 0));
            let error = sup.child("wild")?.last_error.unwrap();
            assert!(error.is_panic());
            let text = error.to_string();
            for part in ["wild was told to panic", "supervisors.rs", "task `wild`"] {
                assert!(text.contains(part), "{text}");
            }
            sup.stop()
        })
    })
    .unwrap();
}

#[test]
fn who_is_started_again_depends_on_how_it_ended() {
    let log = Log::default();
    on_two_workers(|| {
        nursery(|n| {
            let sup = Supervisor::new(Strategy::OneForOne)
                .max_restarts(9, WINDOW)
                .child(member("permanent", &log))
                .child(member("transient", &log).restart(Restart::Transient))
                .child(member("temporary", &log).restart(Restart::Temporary))
                .start(n)?;
            send_order(&sup, "permanent", Order::Return)?;
            until(|| is_running(&sup, "permanent", 1));
            send_order(&sup, "transient", Order::Fail)?;
            until(|| is_running(&sup, "transient", 1));
            send_order(&sup, "transient", Order::Return)?;
            until(|| sup.child("transient").unwrap().state == ChildState::Stopped);
            send_order(&sup, "temporary", Order::Fail)?;
            until(|| sup.child("temporary").unwrap().state == ChildState::Failed);
            assert_eq!((sup.child("transient")?.restarts, sup.child("temporary")?.restarts), (1, 0));
            sup.stop()
        })
    })
    .unwrap();
}

#[test]
fn a_child_that_fails_too_often_fails_its_supervisor_with_all_the_facts() {
    let log = Log::default();
    let error = on_two_workers(|| {
        nursery(|n| {
            let sup = Supervisor::new(Strategy::OneForOne)
                .name("top")
                .max_restarts(2, LONG)
                .child(member("calm", &log))
                .child(member("wild", &log))
                .start(n)?;
            let wild = sup.address("wild")?;
            for _ in 0..3 {
                wild.send(Order::Fail)?;
            }
            let error = sup.wait().unwrap_err();
            assert!(error.downcast_ref::<RestartsExceeded>().is_some());
            assert!(wild.send(Order::Fail).is_err() && sup.start_child(member("late", &log)).is_err());
            assert!(sup.children().iter().all(|child| !child.state.is_alive()));
            Ok(())
        })
    })
    .unwrap_err();
    let facts = error.downcast_ref::<RestartsExceeded>().unwrap();
    assert_eq!((&*facts.supervisor, &*facts.child, facts.restarts, facts.within), ("top", "wild", 2, LONG));
    for part in ["`top`", "`wild`", "2 restarts within 3600s", "wild was told to fail", "max_restarts"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(log.into_inner().unwrap().last().unwrap(), "-calm");
}

#[test]
fn giving_up_goes_from_supervisor_to_supervisor_up_to_the_nursery() {
    let starts = AtomicU64::new(0);
    let error = on_two_workers(|| {
        nursery(|n| {
            let doomed = Child::task("doomed", || {
                starts.fetch_add(1, SeqCst);
                Err(TaskError::msg("cannot"))
            });
            let low = Supervisor::new(Strategy::OneForOne).name("low").max_restarts(2, LONG).child(doomed);
            let mid = Supervisor::new(Strategy::OneForAll).name("mid").max_restarts(1, LONG);
            Supervisor::new(Strategy::RestForOne)
                .name("top")
                .max_restarts(1, LONG)
                .child(Child::supervisor(mid.child(Child::supervisor(low))))
                .start(n)?;
            n.spawn(|| sleep(LONG)); // the nursery cancels it in the end
            Ok(())
        })
    })
    .unwrap_err();
    assert_eq!(starts.load(SeqCst), 3 * 2 * 2);
    let text = error.to_string();
    let places: Vec<_> =
        ["`top` gave up on child `mid`", "`mid` gave up on child `low`", "`low` gave up on child `doomed`", "cannot"]
            .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}")))
            .into();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn addresses_below_a_restarted_supervisor_stay_good() {
    let log = Log::default();
    on_two_workers(|| {
        nursery(|n| {
            let low =
                Supervisor::new(Strategy::OneForOne).name("low").max_restarts(0, LONG).child(member("leaf", &log));
            let sup = Supervisor::new(Strategy::OneForOne).child(Child::supervisor(low)).start(n)?;
            let below = sup.supervisor("low")?;
            let leaf = below.address("leaf")?;
            leaf.send(Order::Fail)?;
            until(|| is_running(&sup, "low", 1) && is_running(&below, "leaf", 1));
            leaf.send(Order::Panic)?;
            until(|| is_running(&sup, "low", 2) && is_running(&below, "leaf", 2));
            below.start_child(member("extra", &log))?;
            until(|| is_running(&below, "extra", 0));
            assert_eq!(sup.children()[0].children.len(), 2);
            leaf.send(Order::Fail)?;
            until(|| is_running(&sup, "low", 3) && is_running(&below, "leaf", 3));
            assert_eq!(below.children().len(), 1); // it begins with what it was made with
            sup.stop()?;
            assert!(leaf.send(Order::Fail).unwrap_err().is_gone());
            assert!(matches!(below.stop_child("leaf"), Err(SupervisorError::Over { .. })));
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn one_that_does_not_stop_in_time_is_cancelled() {
    let (dropped, later) = (AtomicBool::new(false), AtomicBool::new(false));
    struct Mark<'a>(&'a AtomicBool);
    impl Drop for Mark<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    on_two_workers(|| {
        nursery(|n| {
            let stubborn = Child::actor("stubborn", || {
                let (mark, later) = (Mark(&dropped), &later);
                actor::from_fn(move |(): (), _| {
                    let _ = &mark;
                    sleep(LONG);
                    later.store(true, SeqCst);
                    Ok(())
                })
            });
            let sup =
                Supervisor::new(Strategy::OneForOne).child(stubborn.shutdown(Duration::from_millis(20))).start(n)?;
            let stubborn = sup.address("stubborn")?;
            stubborn.send(())?;
            until(|| sup.child("stubborn").unwrap().state == ChildState::Running && stubborn.is_empty());
            let begun = Instant::now();
            sup.stop()?;
            assert!(begun.elapsed() >= Duration::from_millis(20));
            let info = sup.child("stubborn")?;
            assert_eq!((info.state, info.mailbox.unwrap().lost), (ChildState::Stopped, 1));
            Ok(())
        })
    })
    .unwrap();
    assert!(dropped.load(SeqCst) && !later.load(SeqCst));
}

#[test]
fn a_task_with_time_to_stop_is_told_first_and_one_without_is_cancelled_at_once() {
    let polite = AtomicBool::new(false);
    on_two_workers(|| {
        nursery(|n| {
            let sup = Supervisor::new(Strategy::OneForOne)
                .child(
                    Child::task("polite", || {
                        until(is_cancelled);
                        sleep(Duration::from_millis(1)); // still works
                        polite.store(true, SeqCst);
                        Ok(())
                    })
                    .shutdown(LONG),
                )
                .child(Child::task("rude", idle))
                .child(Child::task("deaf", idle).shutdown(Duration::from_millis(5)))
                .start(n)?;
            until(|| ["polite", "rude", "deaf"].iter().all(|name| is_running(&sup, name, 0)));
            sup.stop()?;
            assert!(sup.children().iter().all(|child| child.last_error.is_none()));
            Ok(())
        })
    })
    .unwrap();
    assert!(polite.load(SeqCst));
}

#[test]
fn cancelling_the_nursery_around_ends_everything_also_during_a_restart() {
    for_seeds("cancelling_the_nursery_around_ends_everything_also_during_a_restart", 0..100, |seed| {
        let outcome = on_two_workers(|| {
            nursery(|n| {
                let frail = || Child::task("frail", || Err(TaskError::msg("again")));
                let slow = Child::actor("slow", || Member { name: "slow", log: Box::leak(Box::default()) });
                let low = Supervisor::new(Strategy::OneForAll).name("low").max_restarts(u32::MAX, LONG).child(frail());
                let sup = Supervisor::new(Strategy::OneForAll)
                    .max_restarts(u32::MAX, LONG)
                    .child(slow)
                    .child(Child::supervisor(low))
                    .child(frail())
                    .start(n)?;
                until(|| sup.child("frail").unwrap().restarts > seed % 7);
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
    });
}

#[test]
fn children_come_and_go_while_the_supervisor_runs() {
    let log = Log::default();
    on_two_workers(|| {
        nursery(|n| {
            let sup = Supervisor::new(Strategy::OneForOne).name("top").child(member("first", &log)).start(n)?;
            sup.start_child(member("second", &log))?;
            sup.start_child(member("brief", &log).restart(Restart::Temporary))?;
            let twice = sup.start_child(member("second", &log)).unwrap_err();
            assert_eq!(
                twice.to_string(),
                "supervisor `top` has a child `second` already; give the second another name"
            );

            let second = sup.address("second")?;
            sup.stop_child("second")?;
            assert_eq!(sup.child("second")?.state, ChildState::Stopped);
            assert!(second.send(Order::Fail).unwrap_err().is_gone());
            sup.stop_child("second")?; // once more does no harm
            sup.restart_child("second")?;
            assert!(is_running(&sup, "second", 1) && second.send(Order::Fail).is_err());
            send_order(&sup, "second", Order::Fail)?; // the new address
            until(|| is_running(&sup, "second", 2));

            send_order(&sup, "brief", Order::Return)?;
            until(|| sup.child("brief").is_err()); // forgotten
            sup.restart_child("first")?;
            assert!(is_running(&sup, "first", 1));
            let names: Vec<_> = sup.children().into_iter().map(|child| child.name).collect();
            assert_eq!(names, ["first".into(), "second".into()]);
            let unknown = sup.stop_child("third").unwrap_err();
            assert_eq!(unknown.to_string(), "supervisor `top` has no child `third`; it has first, second");
            sup.stop()
        })
    })
    .unwrap();
}

#[test]
fn mistakes_are_named_before_anything_starts() {
    let log = Log::default();
    nursery(|n| {
        let low = Supervisor::new(Strategy::OneForOne).name("low").child(member("x", &log)).child(member("x", &log));
        let error = Supervisor::new(Strategy::OneForOne).child(Child::supervisor(low)).start(n).unwrap_err();
        assert_eq!(error, SupervisorError::DuplicateChild { name: "x".into(), supervisor: "low".into() });
        let sup = Supervisor::new(Strategy::OneForOne)
            .child(member("x", &log))
            .child(Child::task("y", || Ok(())).restart(Restart::Temporary))
            .start(n)?;
        let wrong = sup.address::<String>("x").unwrap_err().to_string();
        assert!(wrong.contains("Order") && wrong.contains("String"), "{wrong}");
        assert!(sup.address::<String>("y").unwrap_err().to_string().contains("no actor"));
        assert!(matches!(sup.supervisor("x"), Err(SupervisorError::NotASupervisor { .. })));
        sup.stop()
    })
    .unwrap();
    assert!(!log.into_inner().unwrap().contains(&"+low".into()));
}

#[test]
fn a_supervisor_without_handles_ends_with_its_last_child() {
    let done = AtomicU64::new(0);
    let work = || {
        yield_now();
        done.fetch_add(1, SeqCst);
        Ok(())
    };
    on_two_workers(|| {
        nursery(|n| {
            Supervisor::new(Strategy::OneForOne)
                .child(Child::task("a", work).restart(Restart::Transient))
                .child(Child::task("b", work).restart(Restart::Temporary))
                .start(n)?;
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(done.load(SeqCst), 2);
}

#[test]
fn a_child_that_cannot_start_is_stopped_like_any_other() {
    struct Stuck;
    impl Actor for Stuck {
        type Message = ();
        fn started(&mut self, _: &mut Context<()>) -> Result<(), TaskError> {
            idle()
        }
        fn handle(&mut self, (): (), _: &mut Context<()>) -> Result<(), TaskError> {
            Ok(())
        }
    }
    let log = Log::default();
    on_two_workers(|| {
        nursery(|n| {
            let sup = Supervisor::new(Strategy::OneForOne)
                .child(Child::actor("stuck", || Stuck).shutdown(Duration::from_millis(5)))
                .child(member("never", &log))
                .start(n)?;
            until(|| sup.child("stuck").unwrap().state == ChildState::Starting);
            assert_eq!(sup.child("never")?.state, ChildState::Waiting);
            sup.stop()
        })
    })
    .unwrap();
    assert!(log.into_inner().unwrap().is_empty());
}

#[test]
fn ten_thousand_restarts_do_not_grow_memory() {
    if !alone("supervisors::ten_thousand_restarts_do_not_grow_memory") {
        return;
    }
    on_two_workers(|| {
        nursery(|n| {
            let frail =
                Child::actor("frail", || actor::from_fn(|_reply: oneshot::Sender<()>, _| Err(TaskError::msg("again"))));
            let sup = Supervisor::new(Strategy::OneForOne)
                .max_restarts(u32::MAX, Duration::from_millis(1))
                .child(frail)
                .start(n)?;
            let frail = sup.address::<oneshot::Sender<()>>("frail")?;
            let fail = |times| (0..times).for_each(|_| assert!(frail.ask(|reply| reply).is_err()));
            fail(1000);
            let before = resident_bytes();
            fail(10_000);
            let grown = resident_bytes().saturating_sub(before);
            assert!(grown < 1 << 20, "{grown} bytes more after 10,000 restarts");
            until(|| is_running(&sup, "frail", 11_000));
            assert_eq!(sup.child("frail")?.mailbox.unwrap().lost, 11_000);
            sup.stop()
        })
    })
    .unwrap();
}

#[test]
fn a_supervisor_that_was_cancelled_leaves_no_mailbox_open_even_if_it_never_began() {
    for begins in [false, true] {
        let kept = Mutex::new(None);
        let outcome = on_two_workers(|| {
            nursery(|n| {
                if !begins {
                    n.cancel();
                }
                let busy = Child::actor("busy", || {
                    actor::from_fn(|_: oneshot::Sender<()>, _| {
                        sleep(LONG);
                        Ok(())
                    })
                });
                let sup = Supervisor::new(Strategy::OneForOne).child(busy).start(n)?;
                let busy = sup.address::<oneshot::Sender<()>>("busy")?;
                let answers = [(); 2].map(|()| {
                    let (reply, answer) = oneshot::channel();
                    busy.try_send(reply).ok(); // if it never began, it may be closed already
                    answer
                });
                until(|| !begins || busy.len() == 1);
                *kept.lock().unwrap() = Some((sup, busy, answers));
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
        let (sup, busy, answers) = kept.into_inner().unwrap().unwrap();
        let (reply, _answer) = oneshot::channel();
        assert!(busy.try_send(reply).unwrap_err().is_gone());
        answers.into_iter().for_each(|answer| assert!(answer.recv().is_err())); // no caller waits for an actor that is gone
        assert!(sup.wait().unwrap_err().is_cancelled());
        assert_eq!(sup.child("busy").unwrap().state, ChildState::Stopped);
        assert!(matches!(sup.restart_child("busy"), Err(SupervisorError::Over { .. })));
    }
}

#[test]
fn a_child_that_is_stopped_before_it_ran_is_cancelled_when_it_does() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let outcome = runtime.run(|| {
        nursery(|n| {
            // On one worker the request is in the inbox before the child has a turn.
            Supervisor::new(Strategy::OneForOne).child(Child::task("late", idle)).start(n)?.stop()
        })
    });
    outcome.unwrap().unwrap();
}

#[test]
fn a_wait_for_a_supervisor_ends_when_its_last_child_has_ended() {
    let ran = AtomicU64::new(0);
    let count = || {
        yield_now();
        ran.fetch_add(1, SeqCst);
        Ok(())
    };
    let (go, wait) = sched_tasks::channel::<()>(1);
    let slow = || Ok(wait.recv()?);
    on_two_workers(|| {
        nursery(|n| {
            let sup = Supervisor::new(Strategy::OneForOne)
                .child(Child::task("first", count).restart(Restart::Temporary))
                .child(Child::task("second", count).restart(Restart::Transient))
                .child(Child::task("slow", slow).restart(Restart::Temporary))
                .start(n)?;
            let kept = sup.clone(); // a handle that is held, and not waited with
            let waits = sup.clone();
            let waiting = n.spawn(move || waits.wait());
            until(|| ran.load(SeqCst) == 2);
            assert!(!waiting.is_done(), "one of them still runs");
            go.send(())?;
            waiting.join()??;
            assert!(matches!(kept.start_child(Child::task("late", idle)), Err(SupervisorError::Over { .. })));
            // One that has no children is over at once; and one that is waited for no more goes on.
            Supervisor::new(Strategy::OneForOne).start(n)?.wait()?;
            let idles = Supervisor::new(Strategy::OneForOne).child(Child::task("idle", idle)).start(n)?;
            let outcome = nursery(|n| {
                n.timeout(Duration::from_millis(5));
                idles.wait()
            });
            assert!(outcome.is_err());
            idles.stop_child("idle")?;
            idles.start_child(Child::task("another", idle))?;
            idles.stop()
        })
    })
    .unwrap();
}
