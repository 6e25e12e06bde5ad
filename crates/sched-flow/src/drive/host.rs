//! The nursery of a node: tasks that the node starts end with it.
//!
//! Room: driver. Knows nurseries and threads; knows nothing of turns and messages.
//!
//! # Invariant
//! When [`NurseryHost::end`] has returned, no task runs that was started here. A task that panics ends only itself.
//!
//! # Why it holds
//! All tasks of a node live in one nursery. A task of its own, the *nursery task*, owns that nursery; it is started with the first of them, as a fiber or on a thread.
//! It takes bodies from a channel. When the only sender of that channel is dropped, it cancels its nursery, waits for it, and drops `alive`. That closes the channel on which
//! `end` waits. A panic is caught inside the task, so the nursery never sees it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sched_tasks::{Nursery, NurseryOptions, OnFailure, OwnedNursery, Receiver, Sender, TaskError};

use crate::node::{NodeError, cx::Host, inlet::panicked};

/// What a task runs.
type Body = Box<dyn FnOnce() + Send>;
/// Called with the error of a task that panicked or could not be started, on any thread.
pub(crate) type OnTaskError = Arc<dyn Fn(NodeError) + Send + Sync>;
/// Starts a nursery task, as a fiber or on a thread. That task blocks until the node has ended.
pub(crate) type Start = Box<dyn FnMut(Body) -> Result<(), NodeError> + Send>;

/// Starts the tasks of one node in a nursery of their own.
pub(crate) struct NurseryHost {
    name: Arc<str>,
    on_error: OnTaskError,
    start: Start,
    task: Option<NurseryTask>,
}

/// The task that owns the nursery of a node.
struct NurseryTask {
    bodies: Sender<Body>,
    /// Closed when the nursery is over. Nothing is ever sent.
    over: Receiver<()>,
}

impl NurseryHost {
    /// Its nursery task has a thread to itself.
    pub(crate) fn on_thread(name: Arc<str>, on_error: OnTaskError) -> Self {
        let start = NurseryTasks::default().starter(&name);
        Self::with(name, on_error, start)
    }

    /// Its nursery task is started by `start`.
    pub(crate) fn with(name: Arc<str>, on_error: OnTaskError, start: Start) -> Self {
        Self { name, on_error, start, task: None }
    }

    /// The nursery task, which is started if there is none.
    fn nursery_task(&mut self) -> Result<&NurseryTask, NodeError> {
        if self.task.is_none() {
            let (bodies, queue) = sched_tasks::unbounded();
            let (alive, over) = sched_tasks::channel(1);
            let (name, on_error) = (Arc::clone(&self.name), Arc::clone(&self.on_error));
            (self.start)(Box::new(move || {
                run_nursery(&name, &queue, &on_error);
                drop(alive);
            }))?;
            self.task = Some(NurseryTask { bodies, over });
        }
        Ok(self.task.as_ref().expect("started"))
    }
}

/// A nursery task on a thread has the rights of its node, and no budget: no task there belongs to the task that runs the flow.
fn confined(task: Body) -> Body {
    match sched_tasks::Confinement::here() {
        None => task,
        Some(limits) => Box::new(move || limits.enter(task)),
    }
}

/// Opens the nursery and starts the bodies that come, until the channel is closed.
fn run_nursery(name: &Arc<str>, queue: &Receiver<Body>, on_error: &OnTaskError) {
    let verdict = sched_tasks::nursery(|nursery| {
        for body in queue {
            let (name, on_error) = (Arc::clone(name), Arc::clone(on_error));
            nursery.task().name(&*name).spawn(move || {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
                    // A cancellation is no panic: it continues from here.
                    let error = panicked(panic);
                    on_error(NodeError::msg(format!("a task of node `{name}` {error}")));
                }
            });
        }
        nursery.cancel();
        Ok(())
    });
    match verdict {
        Err(error) if !error.is_cancelled() => {
            on_error(NodeError::msg(format!("the tasks of node `{name}` failed: {error}")));
        }
        _ => {}
    }
}

impl Host for NurseryHost {
    fn spawn(&mut self, body: Body) {
        let sent = match self.nursery_task() {
            Ok(task) => task.bodies.send(body).map_err(|_| NodeError::msg("its nursery is over")),
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            (self.on_error)(NodeError::msg(format!("a task of node `{}` could not be started: {error}", self.name)));
        }
    }

    fn end(&mut self) {
        let Some(NurseryTask { bodies, over }) = self.task.take() else { return };
        drop(bodies);
        // The caller may be cancelled itself; it waits for the tasks all the same.
        let _ = sched_tasks::shield(|| over.recv());
    }
}

impl Drop for NurseryHost {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where the nursery tasks of all nodes of a flow are started: as fibers while the workers are fibers, else each on a thread.
#[derive(Clone, Default)]
pub(crate) struct NurseryTasks(Arc<Mutex<Spawners>>);

#[derive(Default)]
struct Spawners {
    /// Starts fibers in the nursery of the workers.
    fibers: Option<Sender<Body>>,
    /// Starts tasks on threads. Opened with the first.
    threads: Option<Arc<OwnedNursery>>,
}

impl NurseryTasks {
    /// Starts the nursery task of a node.
    pub(crate) fn starter(&self, name: &Arc<str>) -> Start {
        let (tasks, name) = (self.clone(), Arc::clone(name));
        Box::new(move |task| {
            let fibers = tasks.lock().fibers.clone();
            match fibers {
                Some(fibers) => fibers.send(task).map_err(|_| NodeError::msg("the flow is over")),
                None => tasks
                    .threads()
                    .and_then(|threads| threads.spawn_thread(format!("flow {name}"), confined(task)))
                    .map_err(|error| NodeError::msg(error.to_string())),
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Spawners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nursery of nursery tasks on threads. It belongs to the scheduler, not to the task that runs the flow: the rights of that task limit the nodes only.
    fn threads(&self) -> Result<Arc<OwnedNursery>, TaskError> {
        if let Some(threads) = &self.lock().threads {
            return Ok(Arc::clone(threads));
        }
        let options = NurseryOptions::new().name("flow").on_failure(OnFailure::WaitAll);
        let opened = Arc::new(OwnedNursery::of_scheduler(options)?); // not under the lock: others may run meanwhile
        Ok(Arc::clone(self.lock().threads.get_or_insert(opened)))
    }

    /// Nursery tasks that are started while `body` runs are fibers of this nursery.
    pub(crate) fn on_fibers<'scope, T>(&self, nursery: &'scope Nursery<'scope, '_>, body: impl FnOnce() -> T) -> T {
        let (fibers, to_start) = sched_tasks::unbounded::<Body>();
        nursery.spawn(move || {
            for task in to_start {
                nursery.spawn(task);
            }
        });
        self.lock().fibers = Some(fibers);
        let _clear = ClearOnDrop(self);
        body()
    }
}

/// Drops the sender, so that the fiber that starts nursery tasks ends.
struct ClearOnDrop<'a>(&'a NurseryTasks);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        self.0.lock().fibers = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    };

    use super::*;

    fn quiet() -> OnTaskError {
        Arc::new(|error| panic!("nothing fails here: {error}"))
    }

    #[test]
    fn what_a_node_started_is_cancelled_and_waited_for() {
        struct Gone(Arc<AtomicBool>);
        impl Drop for Gone {
            fn drop(&mut self) {
                sched_tasks::shield(|| sched_tasks::sleep(std::time::Duration::from_millis(5)));
                self.0.store(true, SeqCst);
            }
        }
        let gone = Arc::new(AtomicBool::new(false));
        let (begun, has_begun) = sched_tasks::channel(1);
        let mut host = NurseryHost::on_thread("n".into(), quiet());
        let guard = Gone(Arc::clone(&gone));
        host.spawn(Box::new(move || {
            let _guard = guard;
            begun.send(()).expect("listened to");
            sched_tasks::sleep(std::time::Duration::from_secs(600));
        }));
        has_begun.recv().expect("it runs");
        host.end();
        assert!(gone.load(SeqCst), "`end` returned before the task had ended");
    }

    #[test]
    fn a_panic_is_reported_and_the_others_go_on() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let (tx, rx) = sched_tasks::channel(8);
        let on_error: OnTaskError = {
            let reported = Arc::clone(&reported);
            let tx = tx.clone();
            Arc::new(move |error| {
                reported.lock().expect("not poisoned").push(error.to_string());
                tx.send(1).expect("listened to");
            })
        };
        let mut host = NurseryHost::on_thread("n".into(), on_error);
        host.spawn(Box::new(|| panic!("bad day")));
        assert_eq!(rx.recv(), Ok(1));
        host.spawn(Box::new(move || tx.send(2).expect("listened to")));
        assert_eq!(rx.recv(), Ok(2));
        host.end();
        assert_eq!(*reported.lock().expect("not poisoned"), ["a task of node `n` panicked: bad day"]);
    }

    #[test]
    fn a_host_that_was_ended_starts_again() {
        let mut host = NurseryHost::on_thread("n".into(), quiet());
        for _ in 0..2 {
            let (tx, rx) = sched_tasks::channel(1);
            host.spawn(Box::new(move || tx.send(()).expect("listened to")));
            assert_eq!(rx.recv(), Ok(()));
            host.end();
        }
        host.end();
    }

    #[test]
    fn a_nursery_task_that_cannot_be_started_is_reported() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let on_error: OnTaskError = {
            let reported = Arc::clone(&reported);
            Arc::new(move |error| reported.lock().expect("not poisoned").push(error.to_string()))
        };
        let mut host = NurseryHost::with("n".into(), on_error, Box::new(|_| Err(NodeError::msg("no threads left"))));
        host.spawn(Box::new(|| ()));
        assert_eq!(
            *reported.lock().expect("not poisoned"),
            ["a task of node `n` could not be started: no threads left"]
        );
    }

    #[test]
    fn a_nursery_task_may_be_a_fiber() {
        sched_tasks::nursery(|nursery| {
            let (tasks, to_start) = sched_tasks::channel::<Body>(1);
            nursery.spawn(move || to_start.iter().for_each(|task| task()));
            let start = move |task: Body| tasks.send(task).map_err(|_| NodeError::msg("over"));
            let mut host = NurseryHost::with("n".into(), quiet(), Box::new(start));
            let (tx, rx) = sched_tasks::channel(1);
            host.spawn(Box::new(move || tx.send(()).expect("listened to")));
            assert_eq!(rx.recv(), Ok(()));
            host.end();
            Ok(())
        })
        .expect("all of it ended");
    }
}
