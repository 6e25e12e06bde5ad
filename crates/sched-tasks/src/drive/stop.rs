//! The end of a runtime: everything that runs on it ends, then its threads do.
//!
//! Room: driver.
//!
//! # Invariant
//! When a runtime is dropped, none of its tasks runs any more; unless one of them drops it: that cannot wait for itself.

use std::{sync::atomic::Ordering::Release, thread::JoinHandle};

use super::runtime::Runtime;
use crate::{kernel::shared::Shared, places, strand};

impl Shared {
    /// Ends everything that runs here, then the threads.
    fn stop(&'static self, threads: Vec<JoinHandle<()>>) {
        self.end_groups(); // while there are workers
        self.stopping.store(true, Release);
        self.idle.notify_all();
        self.workers.iter().for_each(|worker| worker.inbox.notify());
        for (thread, worker) in threads.into_iter().zip(&self.workers) {
            let may_end = worker.ended.wait();
            if may_end && thread.join().is_err() {
                eprintln!("bursar: a worker ended by a panic that could not be contained");
            }
        }
        if let Some(seeded) = &self.seeded {
            seeded.set_worker_set(None);
        }
        self.clock.stop();
        self.pool.stop();
        self.workers.iter().for_each(|worker| places::give_inbox(worker.inbox));
        self.stacks.retire();
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.shared.check_process().is_err() {
            return std::mem::forget(std::mem::take(&mut self.threads)); // a fork: there is no thread to be joined
        }
        let (shared, threads) = (self.shared, std::mem::take(&mut self.threads));
        strand::with(|strand| strand.end_open_nurseries_of(shared));
        // A task that has the last handle cannot wait for itself: it is cancelled like the others, and a thread sees to the rest.
        let is_inside = strand::with(|strand| strand.runtime().is_some_and(|own| std::ptr::eq(own, shared)));
        if !is_inside {
            return shared.stop(threads);
        }
        let permit = self.permit.take();
        let stops = std::thread::Builder::new().name("bursar-end".into()).spawn(move || {
            shared.stop(threads);
            drop(permit);
        });
        if let Err(error) = stops {
            eprintln!("bursar: a runtime that was dropped by its own task stays, for no thread could end it: {error}");
        }
    }
}
