//! What users hold of a supervisor: its children, their addresses, and a way to ask for changes.
//!
//! Room: interface.
//!
//! Reading looks at the table and never waits; changes are requested through the inbox and made by the supervisor, one
//! after the other.

use std::{fmt, sync::Arc};

use sched_tasks::{Sender, TaskError, oneshot};

use super::{
    child::{Child, Kind},
    inbox::{Inbox, Input, Reply, Request},
    table::{ChildEntry, Shared},
};
use crate::{address::Address, error::SupervisorError, mailbox::MailboxStats, state::ChildState};

/// A supervisor that was started. Cheap to clone.
///
/// Dropping it stops nothing. But a supervisor without a handle, or with a caller that [waits](Self::wait) for it, ends
/// when its last child has ended.
///
/// ```
/// use bursar::{actor::{self, Child, ChildState, Strategy, Supervisor}, nursery};
///
/// nursery(|n| {
///     let sup = Supervisor::new(Strategy::OneForOne).name("rooms").start(n)?;
///     for room in ["blue", "green"] {
///         sup.start_child(Child::actor(room, || actor::from_fn(|guest: String, ctx| {
///             println!("{guest} enters {}", ctx.name());
///             Ok(())
///         })))?;
///     }
///     sup.address::<String>("green")?.send("Ada".into())?;
///     sup.stop_child("green")?; // after it has handled what it was sent
///     let green = sup.child("green")?;
///     assert_eq!((green.state, green.mailbox.unwrap().handled), (ChildState::Stopped, 1));
///     assert!(sup.address::<String>("red").is_err());
///     sup.stop()
/// })?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub struct SupervisorHandle<'a> {
    pub(crate) shared: Arc<Shared<'a>>,
    pub(crate) inbox: Arc<Inbox<'a>>,
}

impl<'a> SupervisorHandle<'a> {
    pub(crate) fn new(shared: Arc<Shared<'a>>, inbox: Sender<Input<'a>>) -> Self {
        Self { shared, inbox: Arc::new(Inbox(inbox)) }
    }
}

impl Clone for SupervisorHandle<'_> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), inbox: self.inbox.clone() }
    }
}

/// A child as it was when [`SupervisorHandle::children`] looked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChildInfo {
    /// Its name.
    pub name: Arc<str>,
    /// Its state.
    pub state: ChildState,
    /// How often it was started again, for any reason.
    pub restarts: u64,
    /// How it last failed.
    pub last_error: Option<TaskError>,
    /// What happened to its messages, if it is an actor.
    pub mailbox: Option<MailboxStats>,
    /// Its children, if it is a supervisor.
    pub children: Vec<ChildInfo>,
}

impl<'a> SupervisorHandle<'a> {
    /// The supervisor's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The address of the actor `name`, which takes messages of type `M`. Good at once and across restarts.
    ///
    /// Once an actor was gone for good, [`restart_child`](Self::restart_child) gives it a new mailbox, and with it a new address.
    pub fn address<M: Send + 'static>(&self, name: &str) -> Result<Address<M>, SupervisorError> {
        let kind = self.shared.find(name, |_, entry| entry.instance.kind.clone())?;
        let wrong =
            |takes| SupervisorError::WrongMessage { name: name.into(), wanted: std::any::type_name::<M>(), takes };
        let Kind::Actor(mailbox) = kind else { return Err(wrong(None)) };
        let address = mailbox.address_any().downcast().map_err(|_| wrong(Some(mailbox.takes())))?;
        Ok(*address)
    }

    /// The supervisor `name` below this one.
    pub fn supervisor(&self, name: &str) -> Result<SupervisorHandle<'a>, SupervisorError> {
        match self.shared.find(name, |_, entry| entry.instance.kind.clone())? {
            Kind::Supervisor(handle, _) => Ok(handle),
            _ => Err(SupervisorError::NotASupervisor { name: name.into() }),
        }
    }

    /// Starts one more child, as the last; waits until it is ready, has failed, or is stopped by another request.
    ///
    /// A child must not do this while it is itself being started: children are started one after the other.
    ///
    /// A child of that name that has ended for good is replaced. One that is [`Temporary`](crate::Restart::Temporary) is forgotten when it ends.
    pub fn start_child(&self, child: impl Into<Child<'a>>) -> Result<(), SupervisorError> {
        let child = child.into();
        child.spec.check()?;
        self.ask(|reply| Request::Start(child, reply))
    }

    /// Stops the child `name` for good and waits until it has ended. It stays in the list, and [`restart_child`](Self::restart_child) starts it again.
    pub fn stop_child(&self, name: &str) -> Result<(), SupervisorError> {
        self.ask(|reply| Request::StopChild(name.into(), reply))
    }

    /// Stops the child `name` if it runs, and starts it again; waits until it is ready, has failed, or is stopped by
    /// another request. Does not count towards the restart limit.
    pub fn restart_child(&self, name: &str) -> Result<(), SupervisorError> {
        self.ask(|reply| Request::RestartChild(name.into(), reply))
    }

    /// All children in the order in which they are started.
    pub fn children(&self) -> Vec<ChildInfo> {
        let entries = self.shared.entries();
        let info = |entry: &ChildEntry<'_>| ChildInfo {
            name: entry.child.name.clone(),
            state: entry.state,
            restarts: entry.launches.saturating_sub(1),
            last_error: entry.last_error.clone(),
            mailbox: if let Kind::Actor(mailbox) = &entry.instance.kind { Some(mailbox.stats()) } else { None },
            children: if let Kind::Supervisor(below, _) = &entry.instance.kind { below.children() } else { Vec::new() },
        };
        entries.values().map(info).collect()
    }

    /// The child `name`.
    pub fn child(&self, name: &str) -> Result<ChildInfo, SupervisorError> {
        let unknown = self.shared.find(name, |_, _| ());
        self.children().into_iter().find(|child| &*child.name == name).ok_or_else(|| match unknown {
            Err(error) => error,
            Ok(()) => self.over(), // it was removed in between
        })
    }

    /// Stops all children, the last started first, and waits until the supervisor has ended.
    ///
    /// Actors finish what is in their mailboxes, as far as their time allows. One that fails meanwhile is not started
    /// again, one that has not started never does, and what is left becomes dead letters. The error is the supervisor's
    /// own, for example that it gave up before.
    /// For a supervisor below another use [`stop_child`](Self::stop_child) of the one above, which would otherwise start it again.
    pub fn stop(&self) -> Result<(), TaskError> {
        self.inbox.put(Input::Request(Request::Stop)); // if it is closed, it has ended already
        self.wait()
    }

    /// Waits until the supervisor has ended: it is stopped, gives up, or its last child has ended. While a caller
    /// waits, the supervisor ends with its last child as if there were no handle, and
    /// [`start_child`](Self::start_child) then fails because it has ended. Never returns while a child runs and is not
    /// stopped.
    ///
    /// A supervisor below another ends when its parent stops it.
    ///
    /// ```
    /// use bursar::{actor::{Child, Restart, Strategy, Supervisor}, nursery};
    ///
    /// nursery(|n| {
    ///     let sup = Supervisor::new(Strategy::OneForOne)
    ///         .child(Child::task("greeter", || { println!("hello"); Ok(()) }).restart(Restart::Transient))
    ///         .start(n)?;
    ///     sup.wait() // until it has greeted
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn wait(&self) -> Result<(), TaskError> {
        self.shared.wait(|| _ = self.inbox.put(Input::Recheck)) // if it is closed, it has ended already
    }

    fn ask(&self, request: impl FnOnce(Reply) -> Request<'a>) -> Result<(), SupervisorError> {
        let (reply, answer) = oneshot::channel();
        if !self.inbox.put(Input::Request(request(reply))) {
            return Err(self.over());
        }
        answer.recv().unwrap_or_else(|_| Err(self.over()))
    }

    fn over(&self) -> SupervisorError {
        SupervisorError::Over { supervisor: self.shared.name.clone() }
    }
}

impl fmt::Debug for SupervisorHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisorHandle").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
