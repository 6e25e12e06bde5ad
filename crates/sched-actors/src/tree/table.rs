//! The children of a supervisor as everybody sees them.
//!
//! # Invariant
//! Whoever looks sees every child in one state; only the supervisor moves it. When a supervisor is over, no mailbox of its children takes or holds anything.
//!
//! # Why it holds
//! The table is under one lock, which nobody holds while it waits or calls what a user wrote. [`LastWill`] closes everything, however the supervisor ended,
//! and also if it never began.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex as StdMutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use sched_tasks::{Condvar, Mutex, TaskError, internals, shield};

use super::child::{Child, Kind, Life};
use crate::{
    error::SupervisorError,
    state::{ChildState, Happening},
};

/// At most so many names are listed in an error.
const MAX_KNOWN: usize = 8;

/// A child as everybody sees it.
pub(crate) struct Kid<'a> {
    pub(crate) child: Child<'a>,
    pub(crate) life: Life<'a>,
    /// Whether it came by `start_child`: then a restart of the supervisor forgets it.
    pub(crate) dynamic: bool,
    pub(crate) state: ChildState,
    pub(crate) launches: u64,
    pub(crate) last_error: Option<TaskError>,
}

impl<'a> Kid<'a> {
    pub(crate) fn new(child: Child<'a>, dynamic: bool) -> Self {
        let life = child.recipe.prepare(&child);
        Self { child, life, dynamic, state: ChildState::Waiting, launches: 0, last_error: None }
    }

    pub(crate) fn step(&mut self, happening: Happening) {
        self.state = self
            .state
            .after(happening)
            .unwrap_or_else(|illegal| panic!("child `{}` cannot do that: {illegal:?}", self.child.name));
    }
}

/// Children by their numbers, which grow in the order in which they are started.
pub(crate) type Kids<'a> = BTreeMap<u64, Kid<'a>>;

/// What a supervisor shares with those who hold a handle.
pub(crate) struct Shared<'a> {
    pub(crate) name: Arc<str>,
    kids: StdMutex<Kids<'a>>,
    outcome: Mutex<Option<Result<(), TaskError>>>,
    over: Condvar,
    /// How many wait until it is over.
    awaited: AtomicU64,
    serials: AtomicU64,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(name: Arc<str>, children: &[Child<'a>]) -> Self {
        let kids = (0..).zip(children.iter().map(|child| Kid::new(child.clone(), false))).collect();
        Self {
            name,
            kids: StdMutex::new(kids),
            outcome: Mutex::new(None),
            over: Condvar::new(),
            awaited: AtomicU64::new(0),
            serials: AtomicU64::new(0),
        }
    }

    pub(crate) fn kids(&self) -> MutexGuard<'_, Kids<'a>> {
        self.kids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for an incarnation that no other has, also none of an earlier incarnation of this supervisor.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serials.fetch_add(1, Relaxed)
    }

    /// The child `name` and its number.
    pub(crate) fn find<R>(&self, name: &str, found: impl FnOnce(u64, &mut Kid<'a>) -> R) -> Result<R, SupervisorError> {
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
    pub(crate) fn retire(&self) {
        let kinds: Vec<_> = {
            let mut kids = self.kids();
            kids.values_mut().filter_map(retire_life).collect()
        };
        kinds.into_iter().for_each(Kind::retire); // not under the lock: a hook may look at us
    }

    pub(crate) fn end(&self, outcome: Result<(), TaskError>) {
        shield(|| {
            let mut place = self.outcome.lock();
            place.get_or_insert(outcome);
            self.over.notify_all();
        });
    }

    /// Whether somebody waits until it is over.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Acquire) > 0
    }

    /// Waits until it is over; `tell` makes it look that somebody does.
    pub(crate) fn wait(&self, tell: impl FnOnce()) -> Result<(), TaskError> {
        struct Waits<'a>(&'a AtomicU64);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Release);
            }
        }
        self.awaited.fetch_add(1, Release);
        let _waits = Waits(&self.awaited); // also if the caller is cancelled
        tell();
        let mut outcome = self.outcome.lock();
        self.over.wait_while(&mut outcome, |outcome| outcome.is_none());
        outcome.clone().unwrap_or(Ok(()))
    }
}

/// Marks a child as gone for good; returns what is to be retired, once.
pub(crate) fn retire_life<'a>(kid: &mut Kid<'a>) -> Option<Kind<'a>> {
    (!std::mem::replace(&mut kid.life.retired, true)).then(|| kid.life.kind.clone())
}

impl Kind<'_> {
    pub(crate) fn retire(self) {
        match self {
            Kind::Actor(post) => post.retire(),
            Kind::Task => {}
            Kind::Supervisor(handle, inbox) => {
                inbox.close();
                inbox.try_iter().for_each(drop); // whoever asked is told
                handle.shared.retire();
                handle.shared.end(Err(internals::cancelled()));
            }
        }
    }
}

/// Closes and tells everything when a supervisor is over, also if it never began.
pub(crate) struct LastWill<'a>(pub(crate) Arc<Shared<'a>>);

impl Drop for LastWill<'_> {
    fn drop(&mut self) {
        end_table(&self.0);
        self.0.retire();
        self.0.end(Err(internals::cancelled())); // unless it said something better
    }
}

/// A supervisor begins with the children it was made with. What their earlier incarnations had is kept.
pub(crate) fn begin_table(shared: &Shared<'_>) {
    let mut kids = shared.kids();
    kids.retain(|_, kid| !kid.dynamic);
    for kid in kids.values_mut() {
        kid.state = ChildState::Waiting;
        if kid.life.retired {
            kid.life = kid.child.recipe.prepare(&kid.child);
        }
    }
}

/// No child is left, however that came: the table says so, what was being handled is lost, and who came later is forgotten.
pub(crate) fn end_table(shared: &Shared<'_>) {
    let (mut posts, mut gone) = (Vec::new(), Vec::new());
    for kid in shared.kids().values_mut() {
        let had_fiber = kid.state.has_fiber();
        kid.step(Happening::StopAsked);
        if had_fiber {
            kid.step(Happening::Failed);
        }
        if let Kind::Actor(post) = &kid.life.kind {
            posts.push(post.clone());
        }
        gone.extend(kid.dynamic.then(|| retire_life(kid)).flatten());
    }
    // Not under the lock: a hook may look at us.
    posts.into_iter().for_each(|post| post.settle(None));
    gone.into_iter().for_each(Kind::retire);
}
