//! Actors handle one message at a time, and mailboxes outlive them.

use std::{
    cell::Cell,
    collections::BTreeMap,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use sched_actors::{
    self as actor, Actor, AskError, Child, Context, DeadLetter, Refusal, Restart, StopReason, Strategy, Supervisor,
};
use sched_tasks::{Runtime, TaskError, channel, checkpoint, nursery, oneshot, sleep, yield_now};
use test_support::{Dice, for_seeds};

use crate::support::until;

const LONG: Duration = Duration::from_secs(3600);

fn on_two_workers<T: Send>(body: impl FnOnce() -> Result<T, TaskError> + Send) -> T {
    Runtime::builder().workers(2).build().unwrap().run(body).unwrap().unwrap()
}

#[test]
fn one_message_is_handled_at_a_time() {
    let (busy, handled) = (AtomicBool::new(false), AtomicU64::new(0));
    on_two_workers(|| {
        nursery(|n| {
            let sole = actor::spawn_bounded(
                n,
                "sole",
                4,
                actor::from_fn(|pause: bool, _| {
                    assert!(!busy.swap(true, SeqCst), "two messages at a time");
                    if pause {
                        yield_now();
                    }
                    busy.store(false, SeqCst);
                    handled.fetch_add(1, SeqCst);
                    Ok(())
                }),
            );
            for sender in 0..16 {
                let sole = sole.clone();
                n.try_spawn(move || Ok((0..200).try_for_each(|i| sole.send((i + sender) % 3 == 0))?));
            }
            Ok(())
        })
    });
    assert_eq!(handled.load(SeqCst), 16 * 200);
}

#[test]
fn messages_of_one_sender_are_handled_in_the_order_they_were_sent() {
    let last = Mutex::new(BTreeMap::<u64, u64>::new());
    on_two_workers(|| {
        nursery(|n| {
            let reader = actor::spawn_bounded(
                n,
                "reader",
                3,
                actor::from_fn(|(sender, number): (u64, u64), _| {
                    let before = last.lock().unwrap().insert(sender, number);
                    assert_eq!(before, number.checked_sub(1), "sender {sender}");
                    Ok(())
                }),
            );
            for sender in 0..8 {
                let reader = reader.clone();
                n.try_spawn(move || Ok((0..300).try_for_each(|number| reader.send((sender, number)))?));
            }
            Ok(())
        })
    });
    assert!(last.lock().unwrap().values().all(|&number| number == 299));
}

#[test]
fn a_full_mailbox_makes_only_the_sender_wait() {
    on_two_workers(|| {
        nursery(|n| {
            let (go, gate) = channel::<()>(16);
            let slow = actor::spawn_bounded(n, "slow", 2, actor::from_fn(move |_: u32, _| Ok(gate.recv()?)));
            let sent = Arc::new(AtomicU64::new(0));
            let sender = n.try_spawn({
                let (slow, sent) = (slow.clone(), sent.clone());
                move || {
                    for i in 0..10 {
                        slow.send(i)?;
                        sent.fetch_add(1, SeqCst);
                    }
                    Ok(())
                }
            });
            until(|| sent.load(SeqCst) == 3); // one in hand, two in the mailbox
            let refused = slow.try_send(99).unwrap_err();
            assert_eq!((refused.why(), refused.into_message()), (Refusal::Full { capacity: 2 }, 99));
            let time = Duration::from_millis(5);
            let refused = slow.send_timeout(98, time).unwrap_err();
            assert_eq!((refused.why(), refused.into_message()), (Refusal::TimedOut { after: time }, 98));
            assert_eq!(sent.load(SeqCst), 3);
            for _ in 0..10 {
                go.send(())?;
            }
            sender.join()?;
            assert_eq!(sent.load(SeqCst), 10);
            Ok(())
        })
    });
}

enum Question {
    Double(u32, oneshot::Sender<u32>),
    Panic(oneshot::Sender<u32>),
    Fail(oneshot::Sender<u32>),
    Wait(oneshot::Receiver<()>),
}

struct Answerer;

impl Actor for Answerer {
    type Message = Question;

    fn handle(&mut self, question: Question, _: &mut Context<Question>) -> Result<(), TaskError> {
        match question {
            Question::Double(x, reply) => {
                let _ = reply.send(2 * x); // the caller may have timed out
                Ok(())
            }
            Question::Panic(_reply) => panic!("on purpose"),
            Question::Fail(_reply) => Err(TaskError::msg("on purpose")),
            Question::Wait(gate) => Ok(gate.recv()?),
        }
    }
}

#[test]
fn a_question_to_an_actor_that_fails_over_it_is_an_error_and_the_next_is_answered() {
    on_two_workers(|| {
        nursery(|n| {
            let sup = Supervisor::new(Strategy::OneForOne).child(Child::actor("answerer", || Answerer)).start(n)?;
            let answerer = sup.address("answerer")?;
            let no_answer = Err(AskError::NoAnswer { actor: "answerer".into() });
            assert_eq!(answerer.ask(Question::Panic), no_answer);
            assert_eq!(answerer.ask(|reply| Question::Double(4, reply)), Ok(8));
            assert_eq!(answerer.ask(Question::Fail), no_answer);
            assert_eq!(answerer.ask_timeout(|reply| Question::Double(5, reply), LONG), Ok(10));
            let other = answerer.clone();
            let asked = n.spawn_async(async move { other.ask_async(|reply| Question::Double(6, reply)).await });
            assert_eq!(asked.join()?, Ok(12));
            let info = sup.child("answerer")?;
            assert_eq!((info.restarts, info.mailbox.unwrap().lost), (2, 2));
            sup.stop()
        })
    });
}

#[test]
fn a_question_that_waits_when_the_actor_is_gone_for_good_is_an_error() {
    on_two_workers(|| {
        nursery(|n| {
            let child = Child::actor("answerer", || Answerer).restart(Restart::Temporary);
            let sup = Supervisor::new(Strategy::OneForOne).child(child).start(n)?;
            let answerer = sup.address("answerer")?;
            let (open, gate) = oneshot::channel();
            answerer.send(Question::Wait(gate))?;
            until(|| answerer.is_empty()); // the actor has taken it
            let asked = answerer.clone();
            let behind = n.spawn(move || asked.ask(|reply| Question::Double(1, reply)));
            until(|| answerer.len() == 1); // the question is in, the gate is being waited at
            drop(open); // the actor fails, and is temporary
            assert_eq!(behind.join()?, Err(AskError::NoAnswer { actor: "answerer".into() }));
            until(|| answerer.is_closed());
            assert_eq!(answerer.ask(Question::Fail), Err(AskError::Gone { actor: "answerer".into() }));
            assert_eq!(sup.child("answerer")?.mailbox.unwrap().unhandled, 1);
            sup.stop()
        })
    });
}

#[test]
fn a_question_that_is_not_answered_in_time_is_an_error() {
    nursery(|n| {
        let answerer = actor::spawn(n, "answerer", Answerer);
        let (open, gate) = oneshot::channel();
        answerer.send(Question::Wait(gate))?;
        let after = Duration::from_millis(5);
        let answer = answerer.ask_timeout(|reply| Question::Double(1, reply), after);
        assert_eq!(answer, Err(AskError::TimedOut { actor: "answerer".into(), after }));
        open.send(()).unwrap();
        assert_eq!(answerer.ask(|reply| Question::Double(2, reply)), Ok(4)); // the answer that came late did no harm
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_unsupervised_actors_failure_is_its_nurserys() {
    let outcome = nursery(|n| {
        let answerer = actor::spawn(n, "answerer", Answerer);
        n.spawn(|| sleep(LONG)); // is cancelled
        assert!(answerer.ask(Question::Panic).is_err());
        until(|| answerer.is_closed());
        assert!(answerer.ask(Question::Fail).is_err());
        Ok(())
    });
    let error = outcome.unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("actors.rs"), "{error}");
    assert_eq!(error.task().unwrap().name.as_deref(), Some("answerer"));
}

/// Writes down what happens to it.
struct Diary<'a> {
    log: &'a Mutex<Vec<String>>,
    count: Rc<Cell<u32>>, // is not `Send`
}

impl Actor for Diary<'_> {
    type Message = &'static str;

    fn started(&mut self, ctx: &mut Context<&'static str>) -> Result<(), TaskError> {
        self.log.lock().unwrap().push(format!("started {}", ctx.restarts()));
        Ok(())
    }

    fn handle(&mut self, message: &'static str, ctx: &mut Context<&'static str>) -> Result<(), TaskError> {
        self.count.set(self.count.get() + 1);
        self.log.lock().unwrap().push(format!("{message} {}", self.count.get()));
        match message {
            "fail" => Err(TaskError::msg("told to")),
            "panic" => panic!("told to"),
            "stop" => {
                ctx.stop();
                Ok(())
            }
            "spread" => {
                let log = self.log; // borrows across a nursery of its own
                nursery(|n| n.spawn(|| log.lock().unwrap().push("inside".into())).join())
            }
            _ => Ok(()),
        }
    }

    fn stopped(&mut self, reason: &StopReason, _: &mut Context<&'static str>) {
        let reason = match reason {
            StopReason::Failed(error) => error.to_string(),
            other => format!("{other:?}"),
        };
        self.log.lock().unwrap().push(format!("stopped: {reason}"));
    }
}

#[test]
fn an_actor_is_told_of_its_start_and_of_its_end() {
    let log = Mutex::new(Vec::new());
    on_two_workers(|| {
        nursery(|n| {
            let sup = Supervisor::new(Strategy::OneForOne)
                .max_restarts(9, LONG)
                .child(Child::actor("diary", || Diary { log: &log, count: Rc::default() }))
                .start(n)?;
            let diary = sup.address("diary")?;
            for message in ["a", "spread", "fail", "b", "panic", "stop", "c"] {
                diary.send(message)?;
            }
            until(|| diary.is_empty() && log.lock().unwrap().last().is_some_and(|line| line == "c 1"));
            sup.restart_child("diary")?;
            diary.send("d")?;
            sup.stop()
        })
    });
    #[rustfmt::skip] // one incarnation a line
    let expected = [
        "started 0", "a 1", "spread 2", "inside", "fail 3", "stopped: failed: told to",
        "started 1", "b 1", "panic 2", // only its destructor runs
        "started 2", "stop 1", "stopped: Itself",
        "started 3", "c 1", "stopped: Restart",
        "started 4", "d 1", "stopped: Closed",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

#[test]
fn messages_that_wait_survive_the_restart() {
    let handled = Mutex::new(Vec::new());
    on_two_workers(|| {
        let (go, gate) = channel::<()>(0);
        nursery(|n| {
            let sup = Supervisor::new(Strategy::OneForOne)
                .child(Child::actor("heir", || {
                    actor::from_fn(|number: u32, _| {
                        if number == 0 {
                            gate.recv()?;
                            panic!("on purpose");
                        }
                        handled.lock().unwrap().push(number);
                        Ok(())
                    })
                }))
                .start(n)?;
            let heir = sup.address::<u32>("heir")?;
            (0..10).try_for_each(|number| heir.send(number))?;
            go.send(())?;
            until(|| handled.lock().unwrap().len() == 9);
            sup.stop()
        })
    });
    assert_eq!(*handled.lock().unwrap(), (1..10).collect::<Vec<_>>());
}

#[test]
fn nothing_is_handled_twice_and_only_what_was_being_handled_is_lost() {
    const SENDERS: u64 = 4;
    const MESSAGES: u64 = 50;
    for_seeds("nothing_is_handled_twice_and_only_what_was_being_handled_is_lost", 0..100, |seed| {
        let dice = Dice::new(seed);
        let handled = Mutex::new(BTreeMap::<u64, u32>::new());
        let (failed, letters) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
        let stats = on_two_workers(|| {
            nursery(|n| {
                let told = letters.clone();
                let sup = Supervisor::new(Strategy::OneForOne)
                    .max_restarts(u32::MAX, LONG)
                    .child(
                        Child::actor("frail", || {
                            actor::from_fn(|message: u64, _| {
                                match dice.below(12) {
                                    0 => {
                                        failed.fetch_add(1, SeqCst);
                                        std::panic::resume_unwind(Box::new("on purpose")); // without a word on stderr
                                    }
                                    1 => {
                                        failed.fetch_add(1, SeqCst);
                                        return Err(TaskError::msg("on purpose"));
                                    }
                                    2 | 3 => yield_now(),
                                    _ => {}
                                }
                                *handled.lock().unwrap().entry(message).or_default() += 1;
                                Ok(())
                            })
                        })
                        .mailbox(1 + dice.below(8) as usize)
                        .dead_letters(move |letter| {
                            told.fetch_add(matches!(letter, DeadLetter::Lost { error: Some(_) }).into(), SeqCst);
                        }),
                    )
                    .start(n)?;
                let frail = sup.address("frail")?;
                nursery(|n| {
                    for sender in 0..SENDERS {
                        let frail = frail.clone();
                        n.try_spawn(move || Ok((0..MESSAGES).try_for_each(|i| frail.send(sender * MESSAGES + i))?));
                    }
                    Ok(())
                })?;
                if seed % 2 == 0 {
                    until(|| frail.is_empty()); // else one that fails while it empties its mailbox is not started again
                }
                sup.stop()?;
                Ok(sup.child("frail")?.mailbox.unwrap())
            })
        });
        let (handled, failed) = (handled.into_inner().unwrap(), failed.load(SeqCst));
        assert!(handled.values().all(|&times| times == 1), "handled twice");
        let known = handled.len() as u64 + failed + stats.unhandled;
        assert_eq!(known, SENDERS * MESSAGES, "lost more than what was being handled: {stats:?}");
        assert_eq!((stats.lost, letters.load(SeqCst)), (failed, failed));
        assert_eq!((stats.handled, stats.waiting), (handled.len() as u64, 0));
        assert!(seed % 2 == 1 || stats.unhandled == 0, "{stats:?}");
    });
}

#[test]
fn messages_that_will_not_be_handled_become_dead_letters() {
    let letters = Arc::new(Mutex::new(Vec::new()));
    on_two_workers(|| {
        let (go, gate) = channel::<()>(0);
        nursery(|n| {
            let told = letters.clone();
            let child = Child::actor("brief", || {
                actor::from_fn(|_: u32, ctx| {
                    ctx.stop();
                    Ok(gate.recv()?)
                })
            });
            let sup = Supervisor::new(Strategy::OneForOne)
                .child(child.restart(Restart::Transient).dead_letters(move |letter| {
                    told.lock().unwrap().push(match letter {
                        DeadLetter::Unhandled(message) => message,
                        _ => u32::MAX,
                    });
                }))
                .start(n)?;
            let brief = sup.address::<u32>("brief")?;
            (0..4).try_for_each(|message| brief.send(message))?;
            go.send(())?;
            until(|| brief.is_closed());
            assert_eq!(brief.send(7).unwrap_err().into_message(), 7);
            sup.stop()
        })
    });
    assert_eq!(*letters.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn a_busy_actor_lets_others_run_and_can_be_cancelled() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let ran = AtomicBool::new(false);
    let outcome = runtime.run(|| {
        nursery(|n| {
            let own = actor::spawn(n, "busy", actor::from_fn(|(), ctx| Ok(ctx.address().try_send(())?)));
            own.send(())?;
            n.spawn(|| ran.store(true, Relaxed)).join()?;
            n.dismiss();
            Ok(())
        })
    });
    assert!(ran.load(Relaxed) && outcome.unwrap().is_ok());
}

#[test]
fn an_actor_that_runs_out_of_stack_at_a_checkpoint_is_a_failure_like_any_other() {
    fn sum_to(n: u64) -> u64 {
        checkpoint();
        if n == 0 { 0 } else { std::hint::black_box(n) + sum_to(n - 1) }
    }
    on_two_workers(|| {
        nursery(|n| {
            let child = Child::actor("deep", || {
                actor::from_fn(|(depth, reply): (u64, Option<oneshot::Sender<u64>>), _| {
                    let sum = sum_to(depth);
                    Ok(reply.map_or(Ok(()), |reply| reply.send(sum))?)
                })
            });
            let sup = Supervisor::new(Strategy::OneForOne).child(child).start(n)?;
            let deep = sup.address::<(u64, Option<oneshot::Sender<u64>>)>("deep")?;
            deep.send((100_000_000, None))?;
            assert_eq!(deep.ask(|reply| (100, Some(reply)))?, 5050);
            let info = sup.child("deep")?;
            assert_eq!((info.restarts, info.mailbox.unwrap().lost), (1, 1));
            assert!(info.last_error.unwrap().to_string().contains("overflowed its stack"));
            sup.stop()
        })
    });
}
