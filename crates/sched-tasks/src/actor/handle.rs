//! What is seen of a supervisor from outside: its children, their addresses, and a way to ask for changes.
//!
//! # Invariant
//! Whoever looks sees every child in one state; only the supervisor moves it. Whoever asks gets an answer, also from a supervisor that ends meanwhile.
//!
//! # Why it holds
//! The table is under one lock, which nobody holds while it waits. A question carries the place for its answer; a question that is dropped with the inbox of
//! a supervisor that is over drops that place, and that is an answer too.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex as StdMutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{
    address::Address,
    child::{Child, Kind, Life},
    error::SupervisorError,
    mailbox::MailboxStats,
    state::{ChildState, Happening},
};
use crate::{
    channel::Sender,
    error::{Reason, TaskError},
    free::shield,
    oneshot,
    sync::{Condvar, Mutex},
};

/// At most so many names are listed in an error.
const MAX_KNOWN: usize = 8;

/// What reaches a supervisor.
pub(super) enum Input<'a> {
    /// About a child, if it is still this incarnation of it.
    Child { id: u64, serial: u64, event: ChildEvent },
    /// From a [`SupervisorHandle`].
    Request(Request<'a>),
    /// Its signal was given, or its last handle dropped: look.
    Nudge,
}

/// What a supervisor observes of a child.
pub(super) enum ChildEvent {
    /// It is ready.
    Started,
    /// It has ended.
    Ended { outcome: Result<(), TaskError> },
}

pub(super) type Reply = oneshot::Sender<Result<(), SupervisorError>>;

pub(super) enum Request<'a> {
    Start(Child<'a>, Reply),
    StopChild(Arc<str>, Reply),
    RestartChild(Arc<str>, Reply),
    Stop,
}

/// A child as everybody sees it.
pub(super) struct Kid<'a> {
    pub(super) child: Child<'a>,
    pub(super) life: Life<'a>,
    /// Whether it came by `start_child`: then a restart of the supervisor forgets it.
    pub(super) dynamic: bool,
    pub(super) state: ChildState,
    pub(super) launches: u64,
    pub(super) last_error: Option<TaskError>,
}

impl<'a> Kid<'a> {
    pub(super) fn new(child: Child<'a>, dynamic: bool) -> Self {
        let life = child.recipe.prepare(&child);
        Self { child, life, dynamic, state: ChildState::Waiting, launches: 0, last_error: None }
    }

    pub(super) fn step(&mut self, happening: Happening) {
        self.state = self
            .state
            .after(happening)
            .unwrap_or_else(|illegal| panic!("child `{}` cannot do that: {illegal:?}", self.child.name));
    }
}

/// Children by their numbers, which grow in the order in which they are started.
pub(super) type Kids<'a> = BTreeMap<u64, Kid<'a>>;

/// What a supervisor shares with those who hold a handle.
pub(super) struct Shared<'a> {
    pub(super) name: Arc<str>,
    kids: StdMutex<Kids<'a>>,
    outcome: Mutex<Option<Result<(), TaskError>>>,
    over: Condvar,
    serials: AtomicU64,
}

impl<'a> Shared<'a> {
    pub(super) fn new(name: Arc<str>, children: &[Child<'a>]) -> Self {
        let kids = (0..).zip(children.iter().map(|child| Kid::new(child.clone(), false))).collect();
        Self {
            name,
            kids: StdMutex::new(kids),
            outcome: Mutex::new(None),
            over: Condvar::new(),
            serials: AtomicU64::new(0),
        }
    }

    pub(super) fn kids(&self) -> MutexGuard<'_, Kids<'a>> {
        self.kids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for an incarnation that no other has, also none of an earlier incarnation of this supervisor.
    pub(super) fn next_serial(&self) -> u64 {
        self.serials.fetch_add(1, Relaxed)
    }

    /// The child `name` and its number.
    pub(super) fn find<R>(&self, name: &str, found: impl FnOnce(u64, &mut Kid<'a>) -> R) -> Result<R, SupervisorError> {
        let mut kids = self.kids();
        match kids.iter_mut().find(|(_, kid)| &*kid.child.name == name) {
            Some((&id, kid)) => Ok(found(id, kid)),
            None => Err(SupervisorError::UnknownChild {
                name: name.into(),
                supervisor: self.name.clone(),
                known: kids.values().take(MAX_KNOWN).map(|kid| kid.child.name.clone()).collect(),
            }),
        }
    }

    /// No child comes back: closes all that could be waited for.
    pub(super) fn retire(&self) {
        let kinds: Vec<_> = {
            let mut kids = self.kids();
            kids.values_mut().filter_map(retire_life).collect()
        };
        kinds.into_iter().for_each(Kind::retire); // not under the lock: a hook may look at us
    }

    pub(super) fn end(&self, outcome: Result<(), TaskError>) {
        shield(|| {
            let mut place = self.outcome.lock();
            place.get_or_insert(outcome);
            self.over.notify_all();
        });
    }

    fn wait(&self) -> Result<(), TaskError> {
        let mut outcome = self.outcome.lock();
        self.over.wait_while(&mut outcome, |outcome| outcome.is_none());
        outcome.clone().unwrap_or(Ok(()))
    }
}

/// Marks a child as gone for good; returns what is to be retired, once.
pub(super) fn retire_life<'a>(kid: &mut Kid<'a>) -> Option<Kind<'a>> {
    (!std::mem::replace(&mut kid.life.retired, true)).then(|| kid.life.kind.clone())
}

impl Kind<'_> {
    pub(super) fn retire(self) {
        match self {
            Kind::Actor(post) => post.retire(),
            Kind::Task => {}
            Kind::Supervisor(handle, inbox) => {
                inbox.close();
                inbox.try_iter().for_each(drop); // whoever asked is told
                handle.shared.retire();
                handle.shared.end(Err(TaskError::new(Reason::Cancelled, None)));
            }
        }
    }
}

/// Closes and tells everything when a supervisor is over, also if it never began.
pub(super) struct LastWill<'a>(pub(super) Arc<Shared<'a>>);

impl Drop for LastWill<'_> {
    fn drop(&mut self) {
        self.0.retire();
        self.0.end(Err(TaskError::new(Reason::Cancelled, None))); // unless it said something better
    }
}

/// A supervisor that was started. Cheap to clone.
///
/// Dropping it stops nothing, but a supervisor to which nobody holds a handle ends when its last child has.
pub struct SupervisorHandle<'a> {
    pub(super) shared: Arc<Shared<'a>>,
    pub(super) inbox: Arc<Inbox<'a>>,
}

/// The inbox as all handles share it. When the last of them is dropped, the supervisor is told to look.
pub(super) struct Inbox<'a>(Sender<Input<'a>>);

impl<'a> Inbox<'a> {
    pub(super) fn put(&self, input: Input<'a>) -> bool {
        self.0.try_send(input).is_ok()
    }
}

impl Drop for Inbox<'_> {
    fn drop(&mut self) {
        self.put(Input::Nudge);
    }
}

impl<'a> SupervisorHandle<'a> {
    pub(super) fn new(shared: Arc<Shared<'a>>, inbox: Sender<Input<'a>>) -> Self {
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
    /// Where it stands.
    pub state: ChildState,
    /// How often it was started again, for whatever reason.
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
        let kind = self.shared.find(name, |_, kid| kid.life.kind.clone())?;
        let wrong =
            |takes| SupervisorError::WrongMessage { name: name.into(), wanted: std::any::type_name::<M>(), takes };
        let Kind::Actor(post) = kind else { return Err(wrong(None)) };
        let address = post.address_any().downcast().map_err(|_| wrong(Some(post.takes())))?;
        Ok(*address)
    }

    /// The supervisor `name` below this one.
    pub fn supervisor(&self, name: &str) -> Result<SupervisorHandle<'a>, SupervisorError> {
        match self.shared.find(name, |_, kid| kid.life.kind.clone())? {
            Kind::Supervisor(handle, _) => Ok(handle),
            _ => Err(SupervisorError::NotASupervisor { name: name.into() }),
        }
    }

    /// Starts one more child, as the last. Its address can be had as soon as this has returned.
    ///
    /// A child of that name that has ended for good is replaced. One that is [`Temporary`](super::Restart::Temporary) is forgotten when it ends.
    pub fn start_child(&self, child: impl Into<Child<'a>>) -> Result<(), SupervisorError> {
        let child = child.into();
        if let Some(supervisor) = child.recipe.supervisor() {
            supervisor.check()?;
        }
        self.ask(|reply| Request::Start(child, reply))
    }

    /// Stops the child `name` for good and waits until it has ended. It stays in the list, and [`restart_child`](Self::restart_child) starts it again.
    pub fn stop_child(&self, name: &str) -> Result<(), SupervisorError> {
        self.ask(|reply| Request::StopChild(name.into(), reply))
    }

    /// Stops the child `name` if it runs, and starts it again; waits until it is ready, or has failed to be. Does not count as a restart that happens too
    /// often.
    pub fn restart_child(&self, name: &str) -> Result<(), SupervisorError> {
        self.ask(|reply| Request::RestartChild(name.into(), reply))
    }

    /// All children in the order in which they are started.
    pub fn children(&self) -> Vec<ChildInfo> {
        let kids = self.shared.kids();
        let info = |kid: &Kid<'_>| ChildInfo {
            name: kid.child.name.clone(),
            state: kid.state,
            restarts: kid.launches.saturating_sub(1),
            last_error: kid.last_error.clone(),
            mailbox: if let Kind::Actor(post) = &kid.life.kind { Some(post.stats()) } else { None },
            children: if let Kind::Supervisor(below, _) = &kid.life.kind { below.children() } else { Vec::new() },
        };
        kids.values().map(info).collect()
    }

    /// The child `name`.
    pub fn child(&self, name: &str) -> Result<ChildInfo, SupervisorError> {
        let unknown = self.shared.find(name, |_, _| ());
        self.children().into_iter().find(|child| &*child.name == name).ok_or_else(|| match unknown {
            Err(error) => error,
            Ok(()) => self.over(), // it was forgotten in between
        })
    }

    /// Stops all children, the last started first, and waits until the supervisor has ended.
    ///
    /// Actors finish what is in their mailboxes, as far as their time allows. The error is the supervisor's own: if it had given up before, that it did.
    /// For a supervisor below another use [`stop_child`](Self::stop_child) of the one above, which would otherwise start it again.
    pub fn stop(&self) -> Result<(), TaskError> {
        self.inbox.put(Input::Request(Request::Stop)); // if it is closed, it is over already
        self.wait()
    }

    /// Waits until the supervisor has ended. Never returns for one that nobody stops and that does not give up.
    pub fn wait(&self) -> Result<(), TaskError> {
        self.shared.wait()
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
