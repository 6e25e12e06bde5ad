//! A task that overflowed its stack, and whose frames may be skipped, is ended. See `raw::overflow` for whose may be skipped.
//!
//! Room: driver. Knows lost stacks; which may be lost without harm is `raw/overflow.rs`.
//!
//! # Invariant
//! A lost task is counted as ended only after everything that its lost frames waited for has ended. So whatever borrows from those frames, or from frames around them, is
//! gone first.
//!
//! # Why it holds
//! The stack is quarantined with its content as it was, and its strand knows the open nurseries and joins on it, innermost first. A cleanup, on another
//! stack, waits for each in turn.

use std::rc::Rc;

use crate::{
    error::{Reason, TaskError},
    kernel::{
        current::{self, StrandRef},
        scope::{self, Unfinished},
        thread,
        worker::Worker,
    },
    stats,
    strand::{Strand, Woken},
};

impl Worker {
    /// A task overflowed its stack. The stack is quarantined; but frames on it may have started tasks that borrow from it and from
    /// frames around. A cleanup waits for those in the frames' place, and then ends the task.
    #[cold]
    pub(super) fn clean_up_overflow(self: &Rc<Self>, key: u32, strand: StrandRef, worker_strand: &Strand) {
        stats::add(&self.counters.overflows, 1);
        self.vacant.borrow_mut().push(key);
        // Its place is taken by whichever fiber is made next; its waiter is never used again, so late wakes do nothing.
        let stack_bytes = strand.stack_bytes;
        self.lost_stacks.set(true);
        if scope::unfinished(&strand).next().is_none() && strand.open_scopes.borrow().is_empty() {
            // Nothing to wait for, so no stack is needed: there may be none left.
            let here = thread::for_thread_here();
            current::enter(&here, || end_lost(&strand, stack_bytes, &here));
            return thread::retire_thread(&here);
        }
        self.cleanups.borrow_mut().push_back(Box::new(move |cleaner| {
            let open = strand.open_scopes.take(); // kept to the end: a nursery of a frame may be inside one of them
            open.iter().rev().for_each(|scope| scope.group().end(true));
            for frame in scope::unfinished(&strand) {
                match frame {
                    Unfinished::Nursery(nursery) => {
                        nursery.cancel();
                        nursery.wait(cleaner);
                    }
                    Unfinished::Join(completion) => {
                        let token = cleaner.waiter.token();
                        if completion.wait(token) {
                            while cleaner.wait(token) == Woken::Interrupted {}
                        }
                    }
                }
            }
            end_lost(&strand, stack_bytes, cleaner);
            drop(open);
        }));
        self.start_cleanups(worker_strand);
    }

    /// Finds a fiber for the cleanups that wait for one.
    pub(super) fn start_cleanups(self: &Rc<Self>, worker_strand: &Strand) {
        if !self.cleanups.borrow().is_empty()
            && let Ok(key) = self.idle_fibers.pop_back().map_or_else(|| self.new_fiber(0), Ok)
        {
            self.resume(key, worker_strand);
        } // else no stack for it now: when one of our fibers is idle again, or one is resumed
    }
}

/// Ends a task whose stack was lost, when nothing borrows from it any more.
fn end_lost(lost: &Strand, stack_bytes: usize, strand: &Strand) {
    let running = lost.running.get().expect("only a task can overflow a fiber's stack");
    let error = TaskError::new(Reason::StackOverflow { stack_bytes }, Some(running.task().label()));
    lost.forfeit_meter();
    lost.leak_locals();
    lost.end();
    running.fail(error, strand);
}
