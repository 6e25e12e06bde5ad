//! Tests of internals: the number of threads.
//!
//! Room: tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::{Job, JobError, Jobs, Target};

#[test]
fn there_are_as_many_threads_as_workers_again_after_pauses_and_cancels() {
    let jobs = Jobs::builder().cpu_slots(2).ram_mb(0).build();
    for round in 0..20 {
        let open = Arc::new(AtomicBool::new(false));
        for i in 0..6 {
            let ((sent, runs), open) = (mpsc::channel(), open.clone());
            let name = format!("{round}-{i}");
            let work = Job::new(&name).run(move |ctx| {
                let _ = sent.send(());
                while !open.load(Ordering::Relaxed) {
                    ctx.checkpoint()?;
                    std::thread::yield_now();
                }
                Ok::<_, JobError>(())
            });
            jobs.submit(work).unwrap();
            runs.recv().unwrap();
            jobs.pause(name.as_str()).unwrap();
            if i % 3 == 0 {
                jobs.cancel_and_wait(name.as_str()).unwrap();
            }
        }
        open.store(true, Ordering::Relaxed);
        jobs.resume(Target::Run).unwrap();
        let _ = jobs.wait();
    }
    // Surplus threads exit by themselves, soon.
    let (shared, start) = (&jobs.owner.shared, Instant::now());
    loop {
        let inner = shared.lock();
        if inner.threads == 2 && inner.parked == 0 {
            assert_eq!(inner.slots.len() - inner.free_slots.len(), 2);
            break;
        }
        let (threads, parked) = (inner.threads, inner.parked);
        assert!(start.elapsed() < Duration::from_secs(20), "{threads} threads, {parked} of them parked");
        drop(inner);
        std::thread::yield_now();
    }
}
