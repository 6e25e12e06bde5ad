//! A closure that waits in operations of tasks, or in tasks of its own, is reached there when its job is cancelled.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use sched_jobs::{Job, Jobs, State};
use sched_tasks::{channel, is_cancelled, nursery, shield, sleep};

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
    assert_eq!(jobs.status(job).unwrap().state, State::Canceled);
    // The worker is as good as new.
    let next = jobs.submit(Job::unnamed().run(|_| sleep(Duration::from_millis(1)))).unwrap();
    let _ = jobs.wait();
    assert_eq!(jobs.status(next).unwrap().state, State::Succeeded);
    took
}

#[test]
fn a_cancelled_job_does_not_wait_on_in_a_sleep_a_channel_a_nursery_or_a_task_of_its_own() {
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
