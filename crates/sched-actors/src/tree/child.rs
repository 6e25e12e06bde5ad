//! What is described of a child before it starts: a name, what it runs, and the rules for its end.
//!
//! Room: interface.
//!
//! A child is a specification: what it runs can be started any number of times, each time from the beginning. What
//! survives a restart, a mailbox or the inbox of a supervisor below, is made by [`ChildSpec::prepare`] once for all
//! incarnations.

use std::{fmt, panic::Location, sync::Arc, time::Duration};

use sched_tasks::{Receiver, TaskError};

use super::{handle::SupervisorHandle, inbox::Input};
use crate::{
    actor::{Actor, Context, run_actor},
    decide::Restart,
    error::SupervisorError,
    mailbox::{AnyMailbox, CAPACITY, DeadLetter, Hook, Mailbox, Signal},
};

/// How long an actor may take to end after it was asked to, before it is cancelled.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// One child of a [`Supervisor`](crate::Supervisor). It may borrow what outlives the nursery in which the supervisor is started.
pub struct Child<'a> {
    pub(crate) name: Arc<str>,
    /// Where it was described.
    pub(crate) site: &'static Location<'static>,
    pub(crate) restart: Restart,
    /// None: no limit.
    pub(crate) shutdown: Option<Duration>,
    pub(crate) spec: Arc<dyn ChildSpec<'a> + 'a>,
}

impl Clone for Child<'_> {
    fn clone(&self) -> Self {
        let Self { name, site, restart, shutdown, spec } = self;
        Self { name: name.clone(), site, restart: *restart, shutdown: *shutdown, spec: spec.clone() }
    }
}

/// What a child runs.
pub(crate) trait ChildSpec<'a>: Send + Sync {
    /// Makes what survives restarts.
    fn prepare(&self, child: &Child<'a>) -> ChildInstance<'a>;
    /// Checks it for mistakes before anything starts.
    fn check(&self) -> Result<(), SupervisorError> {
        Ok(())
    }
}

/// What an incarnation is given.
pub(crate) struct Incarnation<'i> {
    pub(crate) signal: &'i Signal,
    pub(crate) restarts: u64,
    /// To be called when it is ready.
    pub(crate) ready: &'i dyn Fn(),
}

pub(crate) type Run<'a> = Arc<dyn Fn(Incarnation<'_>) -> Result<(), TaskError> + Send + Sync + 'a>;

/// What all incarnations of a child share.
pub(crate) struct ChildInstance<'a> {
    pub(crate) run: Run<'a>,
    pub(crate) kind: Kind<'a>,
    /// Whether it is gone for good: the next incarnation needs a new one.
    pub(crate) retired: bool,
}

/// How a supervisor reaches a child.
#[derive(Clone)]
pub(crate) enum Kind<'a> {
    Actor(Arc<dyn AnyMailbox>),
    Task,
    Supervisor(SupervisorHandle<'a>, Receiver<Input<'a>>),
}

impl<'a> Child<'a> {
    /// An actor, made anew by `make` for every incarnation, on its own fiber.
    ///
    /// Permanent by default. When it is asked to end it has five seconds to finish the message it handles. If it is to
    /// end for good, that includes the messages that wait.
    #[track_caller]
    pub fn actor<A, F>(name: impl Into<Arc<str>>, make: F) -> ActorChild<'a, A::Message>
    where
        A: Actor + 'a,
        F: Fn() -> A + Send + Sync + 'a,
    {
        let run = move |mailbox: &Arc<Mailbox<A::Message>>, incarnation: Incarnation<'_>| {
            let mut ctx = Context::new(mailbox.clone(), incarnation.restarts);
            run_actor(&mut make(), &mut ctx, incarnation.signal, incarnation.ready)
        };
        ActorChild {
            name: name.into(),
            site: Location::caller(),
            restart: Restart::default(),
            shutdown: Some(SHUTDOWN_TIMEOUT),
            spec: ActorSpec { run: Arc::new(run), capacity: CAPACITY, hook: None },
        }
    }

    /// A fiber that runs `body`, from the beginning in every incarnation.
    ///
    /// Permanent by default. When it is asked to end it is cancelled at once. With [`shutdown`](Self::shutdown) it has
    /// that much time first, in which it sees the request only by [`is_cancelled`](sched_tasks::is_cancelled).
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use bursar::{actor::{Child, Restart, Strategy, Supervisor}, nursery, TaskError};
    ///
    /// let attempts = AtomicU32::new(0); // borrowed from around the nursery
    /// nursery(|n| {
    ///     let fetch = Child::task("fetch", || match attempts.fetch_add(1, Relaxed) {
    ///         0 | 1 => Err(TaskError::msg("no answer")),
    ///         _ => Ok(()),
    ///     });
    ///     Supervisor::new(Strategy::OneForOne).child(fetch.restart(Restart::Transient)).start(n)?;
    ///     Ok(()) // no handle is left: the supervisor ends when the task has done its work
    /// })?;
    /// assert_eq!(attempts.into_inner(), 3);
    /// # Ok::<(), TaskError>(())
    /// ```
    #[track_caller]
    pub fn task<F>(name: impl Into<Arc<str>>, body: F) -> Self
    where
        F: Fn() -> Result<(), TaskError> + Send + Sync + 'a,
    {
        let run: Run<'a> = Arc::new(move |incarnation: Incarnation<'_>| {
            (incarnation.ready)();
            body()
        });
        Self {
            name: name.into(),
            site: Location::caller(),
            restart: Restart::default(),
            shutdown: Some(Duration::ZERO),
            spec: Arc::new(TaskSpec(run)),
        }
    }

    /// When it is started again.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// How long it may take to end after it was asked to, before it is cancelled.
    pub fn shutdown(mut self, time: Duration) -> Self {
        self.shutdown = Some(time);
        self
    }

    /// The grace period of its own nursery: a task with a shutdown time is cancelled with grace.
    pub(crate) fn grace(&self, kind: &Kind<'_>) -> Option<Duration> {
        self.shutdown.filter(|time| matches!(kind, Kind::Task) && !time.is_zero())
    }
}

impl fmt::Debug for Child<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, restart, shutdown, .. } = self;
        f.debug_struct("Child")
            .field("name", name)
            .field("restart", restart)
            .field("shutdown", shutdown)
            .finish_non_exhaustive()
    }
}

struct TaskSpec<'a>(Run<'a>);

impl<'a> ChildSpec<'a> for TaskSpec<'a> {
    fn prepare(&self, _: &Child<'a>) -> ChildInstance<'a> {
        ChildInstance { run: self.0.clone(), kind: Kind::Task, retired: false }
    }
}

type RunActor<'a, M> = Arc<dyn Fn(&Arc<Mailbox<M>>, Incarnation<'_>) -> Result<(), TaskError> + Send + Sync + 'a>;

struct ActorSpec<'a, M> {
    run: RunActor<'a, M>,
    capacity: usize,
    hook: Option<Hook<M>>,
}

impl<'a, M: Send + 'static> ChildSpec<'a> for ActorSpec<'a, M> {
    fn prepare(&self, child: &Child<'a>) -> ChildInstance<'a> {
        let mailbox = Arc::new(Mailbox::lasting(child.name.clone(), self.capacity, self.hook.clone()));
        let (run, own) = (self.run.clone(), mailbox.clone());
        ChildInstance {
            run: Arc::new(move |incarnation| run(&own, incarnation)),
            kind: Kind::Actor(mailbox),
            retired: false,
        }
    }
}

/// An actor as a child; made by [`Child::actor`]. Knows its message type, which a [`Child`] does not.
#[must_use = "nothing starts before the supervisor does"]
pub struct ActorChild<'a, M> {
    name: Arc<str>,
    site: &'static Location<'static>,
    restart: Restart,
    shutdown: Option<Duration>,
    spec: ActorSpec<'a, M>,
}

impl<M> ActorChild<'_, M> {
    /// When it is started again.
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// How long it may take to end after it was asked to, before it is cancelled.
    pub fn shutdown(mut self, time: Duration) -> Self {
        self.shutdown = Some(time);
        self
    }

    /// How many messages its mailbox holds before senders wait: 64 by default.
    pub fn mailbox(mut self, capacity: usize) -> Self {
        self.spec.capacity = capacity;
        self
    }

    /// Called with every message that will not be handled. The supervisor calls it between two other things, so it
    /// should be quick.
    pub fn dead_letters(mut self, hook: impl Fn(DeadLetter<M>) + Send + Sync + 'static) -> Self {
        self.spec.hook = Some(Arc::new(hook));
        self
    }
}

impl<'a, M: Send + 'static> From<ActorChild<'a, M>> for Child<'a> {
    fn from(child: ActorChild<'a, M>) -> Self {
        let ActorChild { name, site, restart, shutdown, spec } = child;
        Self { name, site, restart, shutdown, spec: Arc::new(spec) }
    }
}

impl<M> fmt::Debug for ActorChild<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, restart, shutdown, spec, .. } = self;
        f.debug_struct("ActorChild")
            .field("name", name)
            .field("restart", restart)
            .field("shutdown", shutdown)
            .field("mailbox", &spec.capacity)
            .finish_non_exhaustive()
    }
}
