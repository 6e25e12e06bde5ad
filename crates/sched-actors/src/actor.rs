//! What an actor is, and one incarnation of it: started, one message after the other, stopped.
//!
//! Room: driver.
//!
//! # Invariant
//! An actor handles one message at a time, in the order in which they came.
//!
//! # Why it holds
//! It is made on one fiber and never leaves it; only [`run_actor`] of that fiber calls it.

use std::{fmt, marker::PhantomData, sync::Arc};

use sched_tasks::{Nursery, TaskError, checkpoint, internals};

use crate::{
    address::Address,
    error::SupervisorError,
    mailbox::{CAPACITY, Mailbox, Signal, StopMode},
};

/// Something with a mailbox, that handles one message at a time.
///
/// It lives on a fiber of its own: it may block, open nurseries that borrow from it, and hold what is not `Send`. An
/// error or a panic ends it; its supervisor, or its nursery, decides what happens then.
///
/// ```
/// use bursar::{actor::{self, Actor, Context}, nursery, sync::oneshot, TaskError};
///
/// #[derive(Default)]
/// struct Counter(u64);
///
/// enum Message {
///     Add(u64),
///     Read(oneshot::Sender<u64>),
/// }
///
/// impl Actor for Counter {
///     type Message = Message;
///
///     fn handle(&mut self, message: Message, _: &mut Context<Message>) -> Result<(), TaskError> {
///         match message {
///             Message::Add(n) => self.0 = self.0.checked_add(n).ok_or_else(|| TaskError::msg("too much"))?,
///             Message::Read(reply) => drop(reply.send(self.0)), // the caller may have timed out
///         }
///         Ok(())
///     }
/// }
///
/// nursery(|n| {
///     let counter = actor::spawn(n, "counter", Counter::default());
///     counter.send(Message::Add(40))?;
///     counter.send(Message::Add(2))?;
///     assert_eq!(counter.ask(Message::Read)?, 42);
///     Ok(()) // the last address is dropped, and the actor ends
/// })?;
/// # Ok::<(), TaskError>(())
/// ```
pub trait Actor {
    /// What it is sent. Messages own what they carry; the actor itself may borrow.
    type Message: Send + 'static;

    /// Handles one message.
    fn handle(&mut self, message: Self::Message, ctx: &mut Context<Self::Message>) -> Result<(), TaskError>;

    /// Called once before the first message. A supervisor starts the next child when this has returned.
    fn started(&mut self, ctx: &mut Context<Self::Message>) -> Result<(), TaskError> {
        let _ = ctx;
        Ok(())
    }

    /// Called once after the last message, unless the actor panicked or was cancelled: then only its destructor runs.
    fn stopped(&mut self, reason: &StopReason, ctx: &mut Context<Self::Message>) {
        let _ = (reason, ctx);
    }
}

/// Why an actor stops.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StopReason {
    /// It called [`Context::stop`].
    Itself,
    /// Its mailbox is closed and it has handled everything: its last address was dropped, or its supervisor ends it for
    /// good.
    Closed,
    /// Its supervisor will start it again; what waits in the mailbox is for the next incarnation.
    Restart,
    /// It returned this error.
    Failed(TaskError),
}

/// What an actor knows of itself.
pub struct Context<M> {
    mailbox: Arc<Mailbox<M>>,
    restarts: u64,
    stops: bool,
}

impl<M: Send + 'static> Context<M> {
    pub(crate) fn new(mailbox: Arc<Mailbox<M>>, restarts: u64) -> Self {
        Self { mailbox, restarts, stops: false }
    }

    /// Its own address, to be given to others. While it keeps one itself, an actor without a supervisor does not end by
    /// itself.
    pub fn address(&self) -> Address<M> {
        self.mailbox.address()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.mailbox.name()
    }

    /// How often it was started again: 0 in the first incarnation.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Ends successfully when this message is handled. What waits in the mailbox is not handled by this incarnation.
    pub fn stop(&mut self) {
        self.stops = true;
    }
}

impl<M> fmt::Debug for Context<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("mailbox", &self.mailbox)
            .field("restarts", &self.restarts)
            .finish_non_exhaustive()
    }
}

/// An actor that is one function; made by [`from_fn`].
pub struct FnActor<M, F> {
    handle: F,
    message: PhantomData<fn(M)>,
}

/// Makes an actor of a closure.
///
/// ```
/// use bursar::{actor, channel, nursery};
///
/// nursery(|n| {
///     let (tx, rx) = channel(8);
///     let mut sum = 0;
///     let adder = actor::spawn(n, "adder", actor::from_fn(move |x: u32, _| {
///         sum += x;
///         Ok(tx.send(sum)?)
///     }));
///     (1..=3).try_for_each(|x| adder.send(x))?;
///     drop(adder); // it handles what it has, and ends
///     assert_eq!(rx.iter().collect::<Vec<_>>(), [1, 3, 6]);
///     Ok(())
/// })?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub fn from_fn<M, F>(handle: F) -> FnActor<M, F>
where
    M: Send + 'static,
    F: FnMut(M, &mut Context<M>) -> Result<(), TaskError>,
{
    FnActor { handle, message: PhantomData }
}

impl<M, F> Actor for FnActor<M, F>
where
    M: Send + 'static,
    F: FnMut(M, &mut Context<M>) -> Result<(), TaskError>,
{
    type Message = M;

    fn handle(&mut self, message: M, ctx: &mut Context<M>) -> Result<(), TaskError> {
        (self.handle)(message, ctx)
    }
}

impl<M, F> fmt::Debug for FnActor<M, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnActor").finish_non_exhaustive()
    }
}

/// Starts an actor without a supervisor: it ends when its last address is dropped and all messages are handled, and its failure is the nursery's.
///
/// Its mailbox holds 64 messages; see [`spawn_bounded`]. In a profile [without actors](sched_tasks::Profile::actors) it does not start: the nursery fails, and the address is that of
/// an actor that is gone.
#[track_caller]
pub fn spawn<'scope, A>(n: &'scope Nursery<'scope, '_>, name: impl Into<Arc<str>>, actor: A) -> Address<A::Message>
where
    A: Actor + Send + 'scope,
{
    spawn_bounded(n, name, CAPACITY, actor)
}

/// The same with a mailbox for `capacity` messages. With capacity 0 a sender waits until the actor takes its message.
#[track_caller]
pub fn spawn_bounded<'scope, A>(
    n: &'scope Nursery<'scope, '_>,
    name: impl Into<Arc<str>>,
    capacity: usize,
    actor: A,
) -> Address<A::Message>
where
    A: Actor + Send + 'scope,
{
    let name = name.into();
    let (mailbox, address) = Mailbox::addressed(name.clone(), capacity);
    if let Some(profile) = internals::no_actors(n) {
        internals::fail(n, SupervisorError::NoActors { profile }.into());
        return address; // of a mailbox that is closed
    }
    n.task().name(&*name).try_spawn(move || {
        let mut actor = actor;
        let mut ctx = Context::new(Arc::new(mailbox), 0);
        run_actor(&mut actor, &mut ctx, &Signal::new(), || {})
    });
    address
}

/// One incarnation. `ready` is called when it has started.
pub(crate) fn run_actor<A: Actor>(
    actor: &mut A,
    ctx: &mut Context<A::Message>,
    signal: &Signal,
    ready: impl FnOnce(),
) -> Result<(), TaskError> {
    actor.started(ctx)?;
    ready();
    let mailbox = ctx.mailbox.clone();
    let reason = loop {
        if ctx.stops {
            break StopReason::Itself;
        }
        checkpoint();
        let Some(message) = mailbox.next(signal) else {
            break match signal.asked() {
                Some(StopMode::ToRestart) => StopReason::Restart,
                _ => StopReason::Closed,
            };
        };
        if let Err(error) = mailbox.handled(|| actor.handle(message, ctx)) {
            break StopReason::Failed(error);
        }
    };
    actor.stopped(&reason, ctx);
    match reason {
        StopReason::Failed(error) => Err(error),
        _ => Ok(()),
    }
}
