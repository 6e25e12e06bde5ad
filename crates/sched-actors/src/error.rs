//! Errors of actors and of their supervisors. A message that was not delivered comes back.
//!
//! Room: values.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use sched_tasks::{Profile, TaskError};

/// A message that did not get into a mailbox, and why.
///
/// ```
/// use bursar::{actor, nursery};
///
/// nursery(|n| {
///     let quitter = actor::spawn(n, "quitter", actor::from_fn(|_: u32, ctx| Ok(ctx.stop())));
///     quitter.send(1)?;
///     while quitter.send(2).is_ok() {} // until it is gone
///     let refused = quitter.send(3).unwrap_err();
///     assert_eq!(refused.to_string(), "actor `quitter` is gone for good; the message is in the error");
///     assert_eq!(refused.into_message(), 3);
///     Ok(())
/// })?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Undelivered<M> {
    pub(crate) actor: Arc<str>,
    pub(crate) why: Refusal,
    pub(crate) message: M,
}

/// Why a mailbox did not take a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no room now.
    Full {
        /// How many messages fit.
        capacity: usize,
    },
    /// There was no room in time.
    TimedOut {
        /// The time it had.
        after: Duration,
    },
    /// The actor is gone and will not come back.
    Gone,
}

impl<M> Undelivered<M> {
    /// The message.
    pub fn into_message(self) -> M {
        self.message
    }

    /// Why it was not delivered.
    pub fn why(&self) -> Refusal {
        self.why
    }

    /// Whether the actor is gone for good.
    pub fn is_gone(&self) -> bool {
        self.why == Refusal::Gone
    }
}

impl<M> fmt::Display for Undelivered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { actor, .. } = self;
        match self.why {
            Refusal::Full { capacity } => write!(
                f,
                "the mailbox of actor `{actor}` is full with {capacity} messages; use `send` to wait for room, or give it a \
                 larger `mailbox`"
            ),
            Refusal::TimedOut { after } => {
                write!(f, "the mailbox of actor `{actor}` stayed full for {after:?}; the message is in the error")
            }
            Refusal::Gone => write!(f, "actor `{actor}` is gone for good; the message is in the error"),
        }
    }
}

// By hand: an error can be shown whatever the message is.
impl<M> fmt::Debug for Undelivered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undelivered").field("actor", &self.actor).field("why", &self.why).finish_non_exhaustive()
    }
}

impl<M> Error for Undelivered<M> {}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// The actor is gone and will not come back.
    Gone {
        /// The actor.
        actor: Arc<str>,
    },
    /// The question was dropped: the actor failed on it, ended before it came to it, or chose not to answer.
    NoAnswer {
        /// The actor.
        actor: Arc<str>,
    },
    /// No answer came in time.
    TimedOut {
        /// The actor.
        actor: Arc<str>,
        /// The time it had.
        after: Duration,
    },
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { actor } => write!(f, "actor `{actor}` is gone for good and does not answer"),
            Self::NoAnswer { actor } => write!(
                f,
                "actor `{actor}` dropped the question unanswered: it failed on it, ended first, or chose not to; \
                 ask again if asking twice does no harm"
            ),
            Self::TimedOut { actor, after } => {
                write!(f, "actor `{actor}` did not answer within {after:?}; give it more time or less to do")
            }
        }
    }
}

impl Error for AskError {}

/// Why a supervisor did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupervisorError {
    /// The profile of the runtime has no actors.
    NoActors {
        /// The profile.
        profile: Profile,
    },
    /// Two children would have the same name.
    DuplicateChild {
        /// The name.
        name: Arc<str>,
        /// The supervisor.
        supervisor: Arc<str>,
    },
    /// There is no child of that name.
    UnknownChild {
        /// The name.
        name: Arc<str>,
        /// The supervisor.
        supervisor: Arc<str>,
        /// The names there are; the first few.
        known: Vec<Arc<str>>,
    },
    /// The child takes other messages, or none.
    WrongMessage {
        /// The child.
        name: Arc<str>,
        /// What was asked for.
        wanted: &'static str,
        /// What it takes. None if it is no actor.
        takes: Option<&'static str>,
    },
    /// The child is no supervisor.
    NotASupervisor {
        /// The child.
        name: Arc<str>,
    },
    /// The supervisor has ended.
    Over {
        /// The supervisor.
        supervisor: Arc<str>,
    },
}

impl fmt::Display for SupervisorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoActors { profile } => {
                write!(f, "the profile {profile} has no actors; build the runtime with `.profile(Profile::Cluster)`")
            }
            Self::DuplicateChild { name, supervisor } => {
                write!(f, "supervisor `{supervisor}` has a child `{name}` already; give the second another name")
            }
            Self::UnknownChild { name, supervisor, known } => {
                write!(f, "supervisor `{supervisor}` has no child `{name}`; it has {}", known.join(", "))
            }
            Self::WrongMessage { name, wanted, takes: Some(takes) } => {
                write!(
                    f,
                    "child `{name}` takes messages of type `{takes}`, not `{wanted}`; ask for the address of that type"
                )
            }
            Self::WrongMessage { name, wanted, takes: None } => write!(
                f,
                "child `{name}` is no actor and takes no messages, also none of type `{wanted}`; make it with `Child::actor`"
            ),
            Self::NotASupervisor { name } => {
                write!(f, "child `{name}` is no supervisor; make it with `Child::supervisor`")
            }
            Self::Over { supervisor } => {
                write!(
                    f,
                    "supervisor `{supervisor}` has ended and does nothing more; look at its `children` for the reason"
                )
            }
        }
    }
}

impl Error for SupervisorError {}

/// A child failed too often, and so its supervisor failed. Found in a [`TaskError`] by [`TaskError::downcast_ref`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RestartsExceeded {
    /// The supervisor that gave up.
    pub supervisor: Arc<str>,
    /// The child that ended once too often.
    pub child: Arc<str>,
    /// Restarts within the window, of all children together.
    pub restarts: u32,
    /// The window.
    pub within: Duration,
    /// How the child ended the last time. None if it returned, although it is permanent.
    pub last: Option<TaskError>,
}

impl fmt::Display for RestartsExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { supervisor, child, restarts, within, last } = self;
        let plural = if *restarts == 1 { "" } else { "s" };
        write!(
            f,
            "supervisor `{supervisor}` gave up on child `{child}` after {restarts} restart{plural} within {within:?}; fix the \
             child, or allow more with `max_restarts`; "
        )?;
        match last {
            Some(last) => write!(f, "its last failure: {last}"),
            None => f.write_str("the last time it returned, but it is permanent"),
        }
    }
}

impl Error for RestartsExceeded {}
