//! The nursery of a node: what the node starts dies with it.
//!
//! Room: drive. Its keeper is a task: a fiber, or one that has a thread to itself.
//!
//! # Invariant
//! When [`NurseryHost::end`] has returned, nothing runs that was started here. A task that panics ends only itself.
//!
//! # Why it holds
//! Every task lives in one nursery, inside a keeper that is started with the first of them. The keeper takes bodies from a channel;
//! when the channel's only sender is gone, it cancels its nursery, waits for it, and drops `over`, the only sender of the channel that
//! `end` waits at. Panics are caught inside the task, before the nursery could see them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sched_tasks::{Nursery, NurseryOptions, OnFailure, OwnedNursery, Receiver, Sender, TaskError};

use crate::node::{NodeError, cx::Host, inlet::panicked};

/// What a node starts.
type Body = Box<dyn FnOnce() + Send>;
/// Is told of tasks that panicked or could not be started, on any thread.
pub(crate) type Tell = Arc<dyn Fn(NodeError) + Send + Sync>;
/// Starts the keeper of a nursery somewhere: on a thread, or as a fiber. It blocks until the node has ended.
pub(crate) type Start = Box<dyn FnMut(Body) -> Result<(), NodeError> + Send>;

/// Starts the tasks of one node in a nursery of their own.
pub(crate) struct NurseryHost {
    name: Arc<str>,
    tell: Tell,
    start: Start,
    keeper: Option<Keeper>,
}

struct Keeper {
    bodies: Sender<Body>,
    /// Closed when the nursery is over. Nothing is ever sent.
    over: Receiver<()>,
}

impl NurseryHost {
    /// Its keeper has a thread to itself, once something is started.
    pub(crate) fn on_thread(name: Arc<str>, tell: Tell) -> Self {
        let start = Keepers::default().starter(&name);
        Self::with(name, tell, start)
    }

    /// Its keeper is started by `start`.
    pub(crate) fn with(name: Arc<str>, tell: Tell, start: Start) -> Self {
        Self { name, tell, start, keeper: None }
    }

    fn keeper(&mut self) -> Result<&Keeper, NodeError> {
        if self.keeper.is_none() {
            let (bodies, queue) = sched_tasks::unbounded();
            let (alive, over) = sched_tasks::channel(1);
            let (name, tell) = (Arc::clone(&self.name), Arc::clone(&self.tell));
            (self.start)(Box::new(move || {
                keep(&name, &queue, &tell);
                drop(alive);
            }))?;
            self.keeper = Some(Keeper { bodies, over });
        }
        Ok(self.keeper.as_ref().expect("started"))
    }
}

/// A keeper on a thread may do what its node may, and has nothing to spend: nobody there belongs to the task that runs the flow.
fn confined(keeper: Body) -> Body {
    match sched_tasks::Confinement::here() {
        None => keeper,
        Some(limits) => Box::new(move || limits.enter(keeper)),
    }
}

/// Opens the nursery and starts in it what comes, until nothing will.
fn keep(name: &Arc<str>, queue: &Receiver<Body>, tell: &Tell) {
    let verdict = sched_tasks::nursery(|nursery| {
        for body in queue {
            let (name, tell) = (Arc::clone(name), Arc::clone(tell));
            nursery.task().name(&*name).spawn(move || {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
                    // A cancellation goes on its way from here.
                    let error = panicked(panic);
                    tell(NodeError::msg(format!("a task of node `{name}` {error}")));
                }
            });
        }
        nursery.cancel();
        Ok(())
    });
    match verdict {
        Err(error) if !error.is_cancelled() => {
            tell(NodeError::msg(format!("the tasks of node `{name}` were given up: {error}")));
        }
        _ => {}
    }
}

impl Host for NurseryHost {
    fn spawn(&mut self, body: Body) {
        let sent = match self.keeper() {
            Ok(keeper) => keeper.bodies.send(body).map_err(|_| NodeError::msg("its nursery is over")),
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            (self.tell)(NodeError::msg(format!("a task of node `{}` could not be started: {error}", self.name)));
        }
    }

    fn end(&mut self) {
        let Some(Keeper { bodies, over }) = self.keeper.take() else { return };
        drop(bodies);
        // Whoever ends a node may be cancelled itself; its tasks are waited for all the same.
        let _ = sched_tasks::shield(|| over.recv());
    }
}

impl Drop for NurseryHost {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where the keepers of all nodes of a flow are started: each on a thread, or while workers are fibers, each as a fiber.
#[derive(Clone, Default)]
pub(crate) struct Keepers(Arc<Mutex<Where>>);

#[derive(Default)]
struct Where {
    /// Fibers of the nursery of the workers.
    fibers: Option<Sender<Body>>,
    /// Tasks on threads, once there is one.
    threads: Option<Arc<OwnedNursery>>,
}

impl Keepers {
    /// Starts the keeper of a node.
    pub(crate) fn starter(&self, name: &Arc<str>) -> Start {
        let (keepers, name) = (self.clone(), Arc::clone(name));
        Box::new(move |keeper| {
            let fibers = keepers.lock().fibers.clone();
            match fibers {
                Some(fibers) => fibers.send(keeper).map_err(|_| NodeError::msg("the flow is over")),
                None => keepers
                    .threads()
                    .and_then(|threads| threads.spawn_thread(format!("flow {name}"), confined(keeper)))
                    .map_err(|error| NodeError::msg(error.to_string())),
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Where> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nursery of keepers that have threads. Nodes are confined to what the task may that runs the flow; keepers are the scheduler's.
    fn threads(&self) -> Result<Arc<OwnedNursery>, TaskError> {
        if let Some(threads) = &self.lock().threads {
            return Ok(Arc::clone(threads));
        }
        let options = NurseryOptions::new().name("flow").on_failure(OnFailure::WaitAll);
        let opened = Arc::new(OwnedNursery::of_scheduler(options)?); // not under the lock: others may run meanwhile
        Ok(Arc::clone(self.lock().threads.get_or_insert(opened)))
    }

    /// Keepers that are started while `body` runs are fibers of this nursery.
    pub(crate) fn on_fibers<'scope, T>(&self, nursery: &'scope Nursery<'scope, '_>, body: impl FnOnce() -> T) -> T {
        let (fibers, to_start) = sched_tasks::unbounded::<Body>();
        nursery.spawn(move || {
            for keeper in to_start {
                nursery.spawn(keeper);
            }
        });
        self.lock().fibers = Some(fibers);
        let _clears = Clears(self);
        body()
    }
}

/// The fiber that starts keepers ends when nobody can ask it any more.
struct Clears<'a>(&'a Keepers);

impl Drop for Clears<'_> {
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

    fn quiet() -> Tell {
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
    fn a_panic_is_told_and_the_others_go_on() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let (said, heard) = sched_tasks::channel(8);
        let tell: Tell = {
            let told = Arc::clone(&told);
            let said = said.clone();
            Arc::new(move |error| {
                told.lock().expect("not poisoned").push(error.to_string());
                said.send(1).expect("listened to");
            })
        };
        let mut host = NurseryHost::on_thread("n".into(), tell);
        host.spawn(Box::new(|| panic!("bad day")));
        assert_eq!(heard.recv(), Ok(1));
        host.spawn(Box::new(move || said.send(2).expect("listened to")));
        assert_eq!(heard.recv(), Ok(2));
        host.end();
        assert_eq!(*told.lock().expect("not poisoned"), ["a task of node `n` panicked: bad day"]);
    }

    #[test]
    fn a_host_that_was_ended_starts_again() {
        let mut host = NurseryHost::on_thread("n".into(), quiet());
        for _ in 0..2 {
            let (said, heard) = sched_tasks::channel(1);
            host.spawn(Box::new(move || said.send(()).expect("listened to")));
            assert_eq!(heard.recv(), Ok(()));
            host.end();
        }
        host.end();
    }

    #[test]
    fn a_keeper_that_cannot_be_started_is_told() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell: Tell = {
            let told = Arc::clone(&told);
            Arc::new(move |error| told.lock().expect("not poisoned").push(error.to_string()))
        };
        let mut host = NurseryHost::with("n".into(), tell, Box::new(|_| Err(NodeError::msg("no threads left"))));
        host.spawn(Box::new(|| ()));
        assert_eq!(*told.lock().expect("not poisoned"), ["a task of node `n` could not be started: no threads left"]);
    }

    #[test]
    fn a_keeper_may_be_a_fiber() {
        sched_tasks::nursery(|nursery| {
            let (keepers, to_start) = sched_tasks::channel::<Body>(1);
            nursery.spawn(move || to_start.iter().for_each(|keeper| keeper()));
            let start = move |keeper: Body| keepers.send(keeper).map_err(|_| NodeError::msg("over"));
            let mut host = NurseryHost::with("n".into(), quiet(), Box::new(start));
            let (said, heard) = sched_tasks::channel(1);
            host.spawn(Box::new(move || said.send(()).expect("listened to")));
            assert_eq!(heard.recv(), Ok(()));
            host.end();
            Ok(())
        })
        .expect("all of it ended");
    }
}
