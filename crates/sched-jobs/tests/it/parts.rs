//! Parts of a graph: their own wait, their own outcome, their own trace.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use sched_jobs::{
    AttemptId, Cause, ControlError, Executor, Job, JobError, Order, Outcome, State, Target, TraceId, What,
};

use crate::{Door, LONG, on_both, on_both_with, stands_at, state, works_until};

fn fails(name: &str) -> Job {
    Job::new(name).run(|_| Err::<(), _>(JobError::msg("no")))
}

#[test]
fn a_part_ends_with_its_own_jobs_whatever_others_do() {
    on_both(|jobs| {
        let part = jobs.part("film");
        let door = Door::default();
        let (other, runs) = stands_at(&door, "other");
        part.submit_all([Job::new("b").needs("a").run(|_| ()), Job::new("a").priority(9).run(|_| ())]).unwrap();
        jobs.submit(other.needs("b")).unwrap();
        runs.recv_timeout(LONG).unwrap();
        let summary = part.wait().unwrap();
        assert_eq!((summary.succeeded, summary.failed, summary.cancelled), (2, 0, 0));
        assert_eq!(part.wait_timeout(Duration::ZERO), Some(Ok(summary)));
        assert_eq!(jobs.wait_timeout(Duration::ZERO), None, "the run goes on");
        door.open();
        assert_eq!(jobs.wait().unwrap().succeeded, 3);
    });
}

#[test]
fn a_wait_for_a_part_returns_at_its_end_while_other_jobs_still_run() {
    on_both(|jobs| {
        let (gate, door) = (Door::default(), Door::default());
        let part = jobs.part("film");
        let (last, runs) = stands_at(&gate, "last");
        part.submit(last).unwrap();
        let (other, others) = stands_at(&door, "other");
        jobs.submit(other.needs("last")).unwrap();
        runs.recv_timeout(LONG).unwrap();
        assert_eq!(part.wait_timeout(Duration::from_millis(5)), None);
        let waits = {
            let part = part.clone();
            std::thread::spawn(move || part.wait().map(|summary| summary.succeeded))
        };
        gate.open();
        assert_eq!(waits.join().unwrap(), Ok(1));
        others.recv_timeout(LONG).unwrap();
        door.open();
        jobs.wait().unwrap();
    });
}

#[test]
fn the_outcome_of_a_part_names_its_own_jobs_and_the_outside_causes_of_their_ends() {
    on_both(|jobs| {
        let (good, bad, below) = (jobs.part("good"), jobs.part("bad"), jobs.part("below"));
        let door = Door::default();
        let (gate, _) = stands_at(&door, "gate");
        jobs.submit(gate).unwrap();
        good.submit(Job::new("a").run(|_| ())).unwrap();
        bad.submit_all([fails("b").needs("gate"), Job::new("c").needs("b")]).unwrap();
        below.submit_all([Job::new("d").needs("c"), Job::new("e").needs("d"), Job::new("f").run(|_| ())]).unwrap();
        door.open();
        assert_eq!(good.wait().unwrap().succeeded, 1);
        let failed = bad.wait().unwrap_err();
        assert_eq!((failed.summary.succeeded, failed.summary.failed, failed.summary.cancelled), (0, 1, 1));
        assert_eq!(failed.first, [("b".to_owned(), Cause::Error("no".to_owned()))]);
        let failed = below.wait().unwrap_err();
        assert_eq!((failed.summary.succeeded, failed.summary.failed, failed.summary.cancelled), (1, 0, 2));
        let names: Vec<&str> = failed.first.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["d", "e"], "no job of this part says why, so these do");
        assert!(matches!(&failed.first[0].1, Cause::Ancestor { name, .. } if name == "b"), "{failed}");
        let count = |part: &sched_jobs::Part, state| part.counts().iter().find(|it| it.0 == state).unwrap().1;
        assert_eq!((count(&below, State::Succeeded), count(&below, State::Cancelled)), (1, 2));
        let statuses = below.statuses();
        assert_eq!(statuses.iter().map(|status| status.name.as_str()).collect::<Vec<_>>(), ["d", "e", "f"]);
    });
}

#[test]
fn a_part_is_paused_resumed_and_cancelled_apart_from_others() {
    on_both(|jobs| {
        let (gate, door) = (Door::default(), Door::default());
        let (one, two) = (jobs.part("one"), jobs.part("two"));
        let (first, runs) = works_until(&gate, "first");
        one.submit(first).unwrap();
        runs.recv_timeout(LONG).unwrap();
        two.submit_all([Job::new("a").needs("first").run(|_| ()), Job::new("b").needs("a").run(|_| ())]).unwrap();
        one.submit(Job::new("c").needs("first").run(|_| ())).unwrap();
        two.pause().unwrap();
        assert_eq!(
            (state(&jobs, "a"), state(&jobs, "first"), state(&jobs, "c")),
            (State::Paused, State::Running, State::Queued)
        );
        one.pause().unwrap();
        assert_eq!(
            (state(&jobs, "first"), jobs.status("first").unwrap().paused_from),
            (State::Paused, Some(State::Running))
        );
        assert_eq!(jobs.status("b").unwrap().paused_from, Some(State::Queued));
        one.resume();
        gate.open();
        assert_eq!(one.wait().unwrap().succeeded, 2);
        assert_eq!(two.wait_timeout(Duration::ZERO), None);
        assert_eq!(jobs.status("a").unwrap().paused_from, Some(State::Ready), "what it waited for has happened");
        let (last, _) = works_until(&door, "last");
        one.submit(last).unwrap();
        two.cancel_and_wait();
        assert_eq!(two.wait().unwrap_err().summary.cancelled, 2);
        assert_ne!(state(&jobs, "last"), State::Cancelled);
        jobs.pause(Target::Part("one".to_owned())).unwrap();
        assert_eq!(state(&jobs, "last"), State::Paused);
        jobs.resume(Target::Part("one".to_owned())).unwrap();
        jobs.cancel_and_wait(Target::Part("one".to_owned())).unwrap();
        assert_eq!(state(&jobs, "last"), State::Cancelled);
        let error = jobs.cancel(Target::Part("three".to_owned())).unwrap_err();
        assert_eq!(error, ControlError::UnknownPart { name: "three".to_owned() });
        assert!(error.to_string().contains("three"), "{error}");
    });
}

#[test]
fn an_empty_part_has_ended_and_a_retried_one_has_not() {
    on_both(|jobs| {
        let part = jobs.part("film");
        assert_eq!(part.wait().unwrap(), sched_jobs::Summary::default());
        let door = Door::default();
        part.submit(Job::new("done").already_done()).unwrap();
        assert_eq!(part.wait().unwrap().succeeded, 1);
        let at = door.clone();
        let twice = move |ctx: &sched_jobs::Ctx<'_>| {
            if ctx.attempt() == 1 {
                return Err(JobError::msg("the first time"));
            }
            at.pass();
            Ok(())
        };
        part.submit(Job::new("twice").run(twice)).unwrap();
        part.wait().unwrap_err();
        jobs.retry("twice").unwrap();
        assert_eq!(part.wait_timeout(Duration::from_millis(1)), None, "it has another life");
        door.open();
        assert_eq!(part.wait().unwrap().succeeded, 2);
    });
}

#[test]
fn two_handles_of_one_name_are_the_same_part_and_its_first_trace_stays() {
    on_both(|jobs| {
        let trace: TraceId = "4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap();
        let first = jobs.part_traced("film", trace);
        let second = jobs.part("film");
        assert_eq!((first.trace_id(), second.trace_id(), second.name()), (trace, trace, "film"));
        assert_ne!(jobs.part("other").trace_id(), jobs.part("another").trace_id());
        first.submit(Job::new("a").run(|_| ())).unwrap();
        assert_eq!(second.wait().unwrap().succeeded, 1);
    });
}

#[test]
fn a_text_that_is_not_a_trace_id_is_refused_with_the_expected_form() {
    let zeros = "0".repeat(32);
    for text in ["", "film-7", "4bf92f3577b34da6a3ce929d0e0e473", "+bf92f3577b34da6a3ce929d0e0e4736", zeros.as_str()] {
        let error = text.parse::<TraceId>().unwrap_err().to_string();
        assert!(error.contains("32 hexadecimal digits"), "{error}");
    }
    let small: TraceId = "0000000000000000000000000000002A".parse().unwrap();
    assert_eq!((small.as_u128(), small.to_string()), (42, "0000000000000000000000000000002a".to_owned()));
    assert_eq!(TraceId::from_u128(0), None);
}

#[test]
fn every_event_of_a_part_carries_its_trace_and_no_other_does() {
    let (sender, receiver) = mpsc::channel();
    let (sender, receiver) = (Arc::new(std::sync::Mutex::new(sender)), std::sync::Mutex::new(receiver));
    on_both_with(
        move |builder| {
            let sender = sender.lock().unwrap().clone();
            builder.cpu_slots(2).observe(move |event, facts| {
                let about = (facts.name(event.job).into_owned(), facts.part(event.job).map(str::to_owned));
                let _ = sender.send((about, event.trace_id(), facts.trace_id(event.job)));
            })
        },
        move |jobs| {
            let mut events = jobs.events();
            let part = jobs.part("film");
            let trace = Some(part.trace_id());
            // So many that some run in a chain without the lock.
            jobs.submit_all((0..100).map(|_| Job::unnamed().run(|_| ()))).unwrap();
            part.submit_all((0..100).map(|_| Job::unnamed().run(|_| ()))).unwrap();
            let check = move |ctx: &sched_jobs::Ctx<'_>| {
                assert_eq!((ctx.trace_id(), ctx.part().as_deref()), (trace, Some("film")));
                ctx.progress(0.5)?;
                Err::<(), _>(JobError::msg("no"))
            };
            part.submit(Job::new("bad").run(check)).unwrap();
            jobs.submit(Job::new("plain").run(|ctx| assert_eq!((ctx.trace_id(), ctx.part()), (None, None)))).unwrap();
            jobs.wait().unwrap_err();
            assert_eq!(part.wait().unwrap_err().first, [("bad".to_owned(), Cause::Error("no".to_owned()))]);
            let all: Vec<_> = std::iter::from_fn(|| events.try_recv()).collect();
            assert_eq!(all.len(), 4 * 202 + 1);
            let of_film = |id: usize| (100..201).contains(&id);
            for event in &all {
                let wanted = trace.filter(|_| of_film(event.job.index()));
                assert_eq!(event.trace_id(), wanted, "{event:?}");
            }
            let received: Vec<_> = receiver.lock().unwrap().try_iter().collect();
            assert_eq!(received.len(), all.len());
            for ((name, part), of_event, of_job) in received {
                assert_eq!((of_event, part.is_some()), (of_job, of_job.is_some()), "{name}");
            }
            let status = jobs.status("bad").unwrap();
            assert_eq!((status.trace_id, status.part.as_deref()), (trace, Some("film")));
            assert_eq!(jobs.status("plain").unwrap().trace_id, None);
            assert!(all.iter().any(|event| event.what == What::Progress(0.5) && event.trace_id() == trace));
        },
    );
}

/// Ends every attempt at once, and passes its trace id on.
struct Tells(std::sync::Mutex<mpsc::Sender<Option<TraceId>>>);

impl Executor for Tells {
    fn start(&self, order: Order) {
        self.0.lock().unwrap().send(order.trace_id).unwrap();
        order.report.ended(Outcome::Succeeded);
    }

    fn pause(&self, _: AttemptId) {}

    fn resume(&self, _: AttemptId) {}

    fn cancel(&self, _: AttemptId) {}
}

#[test]
fn an_executor_gets_the_trace_id() {
    on_both(|jobs| {
        let (sent, received) = mpsc::channel();
        let executor = Arc::new(Tells(std::sync::Mutex::new(sent)));
        let part = jobs.part("film");
        part.submit(Job::new("a").execute(executor.clone(), Arc::new(()))).unwrap();
        jobs.wait().unwrap();
        jobs.submit(Job::new("b").execute(executor, Arc::new(()))).unwrap();
        jobs.wait().unwrap();
        assert_eq!(received.try_iter().collect::<Vec<_>>(), [Some(part.trace_id()), None]);
    });
}

#[test]
fn a_part_keeps_the_scheduler_and_may_be_submitted_to_from_its_own_jobs() {
    on_both(|jobs| {
        let part = jobs.part("film");
        drop(jobs);
        let own = part.clone();
        part.submit(Job::new("parent").run_once(move |_| {
            own.submit(Job::new("child").run(|_| ()))?;
            Ok::<_, JobError>(())
        }))
        .unwrap();
        assert_eq!(part.wait().unwrap().succeeded, 2);
        assert_eq!(part.jobs().wait().unwrap().succeeded, 2);
    });
}

#[test]
fn a_refused_batch_leaves_a_part_as_it_was() {
    on_both(|jobs| {
        let part = jobs.part("film");
        part.submit(Job::new("a").run(|_| ())).unwrap();
        part.submit_all([Job::new("b"), Job::new("c").needs("nothing")]).unwrap_err();
        jobs.submit(Job::new("d").run(|_| ())).unwrap();
        part.submit(Job::new("e").run(|_| ())).unwrap();
        assert_eq!(part.wait().unwrap().succeeded, 2);
        jobs.wait().unwrap();
        let names = part.statuses().into_iter().map(|status| status.name).collect::<Vec<_>>();
        assert_eq!(names, ["a", "e"]);
    });
}
