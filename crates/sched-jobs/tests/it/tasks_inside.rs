//! A closure that waits in operations of tasks, or in its own tasks, is interrupted there when its job is cancelled.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use sched_jobs::{Job, Jobs, State};
use sched_tasks::{Runtime, channel, is_cancelled, nursery, shield, sleep, sleep_async};

use crate::on_both;

/// Six seconds would be long.
const LONG: Duration = Duration::from_secs(3600);

/// What is promised, where the machine is not busy with something else.
const SOON: Duration = Duration::from_secs(5);

/// Cancels a job that is where `body` takes it, and says how long that took.
fn cancelled_in(jobs: &Jobs, body: impl Fn(&mpsc::Sender<()>) + Send + 'static) -> Duration {
    let (up, is_up) = mpsc::channel();
    let job = jobs.submit(Job::unnamed().run(move |_| body(&up))).unwrap();
    is_up.recv_timeout(SOON).expect("it gets there");
    let asked = Instant::now();
    jobs.cancel_and_wait(job).unwrap();
    let took = asked.elapsed();
    assert_eq!(jobs.status(job).unwrap().state, State::Cancelled);
    // The worker still works.
    let next = jobs.submit(Job::unnamed().run(|_| sleep(Duration::from_millis(1)))).unwrap();
    let _ = jobs.wait();
    assert_eq!(jobs.status(next).unwrap().state, State::Succeeded);
    took
}

#[test]
fn a_cancelled_job_is_interrupted_in_a_sleep_a_channel_a_nursery_or_a_task_of_its_own() {
    on_both(|jobs| {
        let took = [
            cancelled_in(&jobs, |up| {
                up.send(()).unwrap();
                sleep(LONG);
            }),
            cancelled_in(&jobs, |up| {
                let (_tx, rx) = channel::<()>(1);
                up.send(()).unwrap();
                let _ = rx.recv();
            }),
            cancelled_in(&jobs, |up| {
                let _ = nursery(|n| {
                    n.spawn(|| sleep(LONG));
                    up.send(()).unwrap();
                    Ok(())
                });
            }),
            cancelled_in(&jobs, |up| {
                let _ = nursery(|n| {
                    n.try_spawn(|| nursery(|m| m.spawn(|| sleep(LONG)).join()));
                    n.task().on_thread().try_spawn(|| nursery(|m| m.task().on_thread().spawn(|| sleep(LONG)).join()));
                    up.send(()).unwrap();
                    Ok(())
                });
            }),
        ];
        assert!(took.iter().all(|took| *took < SOON), "{took:?}");
    });
}

#[test]
fn no_other_job_is_stopped_with_a_cancelled_one() {
    for round in 0..50 {
        let jobs = Jobs::builder().cpu_slots(2).build();
        let (up, is_up) = mpsc::channel();
        let waits = jobs.submit(Job::new("waits").run(move |_| {
            up.send(()).unwrap();
            sleep(LONG);
        }));
        let done = Arc::new(AtomicUsize::new(0));
        let many = (0..200).map(|i| {
            let done = done.clone();
            Job::new(format!("{i}")).run(move |_| {
                if i % 3 == 0 {
                    sleep(Duration::from_micros(50));
                }
                done.fetch_add(1, SeqCst);
            })
        });
        let many = jobs.submit_all(many).unwrap();
        is_up.recv_timeout(SOON).unwrap();
        jobs.cancel(waits.unwrap()).unwrap();
        let _ = jobs.wait();
        assert_eq!(done.load(SeqCst), many.len(), "round {round}");
        assert!(many.iter().all(|job| jobs.status(job).unwrap().state == State::Succeeded), "round {round}");
    }
}

#[test]
fn a_shield_holds_and_destructors_run() {
    on_both(|jobs| {
        struct Tells(Arc<AtomicBool>);
        impl Drop for Tells {
            fn drop(&mut self) {
                self.0.store(true, SeqCst);
            }
        }
        let [saved, dropped, went_on] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let seen = [saved.clone(), dropped.clone(), went_on.clone()];
        cancelled_in(&jobs, move |up| {
            let _tells = Tells(dropped.clone());
            shield(|| {
                up.send(()).unwrap();
                while !is_cancelled() {
                    std::thread::yield_now();
                }
                sleep(Duration::from_millis(1));
                saved.store(true, SeqCst);
            });
            sleep(LONG);
            went_on.store(true, SeqCst);
        });
        assert_eq!(seen.map(|flag| flag.load(SeqCst)), [true, true, false]);
    });
}

/// Counts as long as it passes checkpoints.
fn count(rounds: &AtomicUsize) {
    loop {
        rounds.fetch_add(1, SeqCst);
        sleep(Duration::from_micros(100));
    }
}

/// Whether the counter moves: a paused job does nothing.
fn moves(rounds: &AtomicUsize) -> bool {
    let before = rounds.load(SeqCst);
    std::thread::sleep(Duration::from_millis(20));
    rounds.load(SeqCst) != before
}

#[test]
fn a_pause_reaches_a_nursery_a_nested_nursery_a_thread_task_a_future_and_a_fiber_inside_a_job() {
    on_both(|jobs| {
        let rounds: [Arc<AtomicUsize>; 5] = Default::default();
        let [fiber, nested, thread, future, body] = rounds.clone();
        let job = jobs.submit(Job::new("busy").run(move |_| {
            nursery(|n| {
                n.spawn(|| count(&fiber));
                n.try_spawn(|| nursery(|m| m.spawn(|| count(&nested)).join()));
                n.task().on_thread().spawn(|| count(&thread));
                n.spawn_async(async {
                    loop {
                        future.fetch_add(1, SeqCst);
                        sleep_async(Duration::from_micros(100)).await;
                    }
                });
                count(&body);
                Ok(())
            })
        }));
        let job = job.unwrap();
        while rounds.iter().any(|rounds| rounds.load(SeqCst) < 3) {
            std::thread::yield_now();
        }
        for _ in 0..3 {
            let asked = Instant::now();
            jobs.pause(job).unwrap();
            let took = asked.elapsed();
            assert!(took < SOON, "{took:?}");
            assert_eq!(jobs.status(job).unwrap().state, State::Paused);
            std::thread::sleep(Duration::from_millis(5)); // those that waited come to their checkpoints
            assert_eq!(rounds.iter().map(|rounds| moves(rounds)).collect::<Vec<_>>(), [false; 5]);
            jobs.resume(job).unwrap();
            for rounds in &rounds {
                let before = rounds.load(SeqCst);
                while rounds.load(SeqCst) == before {
                    std::thread::yield_now();
                }
            }
        }
        jobs.pause(job).unwrap();
        let asked = Instant::now();
        jobs.cancel_and_wait(job).unwrap(); // also while it is paused
        assert!(asked.elapsed() < SOON);
        assert_eq!(jobs.status(job).unwrap().state, State::Cancelled);
        jobs.submit(Job::new("next").run(|_| sleep(Duration::from_millis(1)))).unwrap();
        let _ = jobs.wait();
        assert_eq!(jobs.status("next").unwrap().state, State::Succeeded);
    });
}

#[test]
fn a_fiber_waits_for_jobs_without_holding_its_worker_and_a_cancellation_ends_the_wait() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let took = runtime.run(|| {
        let jobs = Jobs::builder().cpu_slots(1).build();
        let (go, gone) = channel::<()>(1);
        jobs.submit(Job::new("waits").run(move |_| _ = gone.recv())).unwrap();
        let asked = Instant::now();
        nursery(|n| {
            let waits = n.spawn(|| jobs.wait());
            n.spawn(move || go.send(())).join()??; // on the only worker
            assert!(waits.join()?.is_ok());
            Ok(())
        })
        .unwrap();
        jobs.submit(Job::new("for ever").run(|_| sleep(LONG))).unwrap();
        let cancelled = nursery(|n| {
            n.spawn(|| jobs.wait());
            n.timeout(Duration::from_millis(5));
            Ok(())
        });
        assert!(cancelled.is_err());
        drop(jobs); // ends what sleeps
        asked.elapsed()
    });
    assert!(took.unwrap() < SOON);
}

#[test]
fn a_paused_job_that_waits_for_its_own_scheduler_holds_nothing_up() {
    on_both(|jobs| {
        let inner = jobs.clone();
        jobs.submit(Job::new("parent").cpu_slots(1).run(move |ctx| {
            let mut events = inner.events();
            while !ctx.is_cancelled() {
                let _ = inner.wait_timeout(Duration::from_micros(100));
                let _ = events.recv_timeout(Duration::from_micros(100));
            }
        }))
        .unwrap();
        for _ in 0..20 {
            while jobs.status("parent").unwrap().state != State::Running {
                std::thread::yield_now();
            }
            jobs.pause("parent").unwrap();
            assert_eq!(jobs.status("parent").unwrap().state, State::Paused); // its lock is free
            jobs.resume("parent").unwrap();
        }
        jobs.pause("parent").unwrap();
        jobs.cancel_and_wait("parent").unwrap();
        assert_eq!(jobs.status("parent").unwrap().state, State::Cancelled);
    });
}

#[test]
fn a_job_is_paused_when_nothing_it_started_runs_and_cancelled_if_that_takes_too_long() {
    let jobs = Jobs::builder().cpu_slots(1).pause_timeout(Duration::from_millis(100)).build();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    jobs.submit(Job::new("computes").run(move |_| {
        nursery(|n| {
            n.spawn(|| {
                while !stopped.load(SeqCst) {
                    std::thread::yield_now(); // no checkpoint
                }
            });
            Ok(())
        })
    }))
    .unwrap();
    while jobs.status("computes").unwrap().state != State::Running {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(5)); // its task has begun
    let refused = jobs.pause("computes").unwrap_err();
    stop.store(true, SeqCst);
    assert!(refused.to_string().contains("computes"), "{refused}");
    let _ = jobs.wait();
    assert_eq!(jobs.status("computes").unwrap().state, State::Cancelled);
}
