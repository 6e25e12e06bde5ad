//! The children of a supervisor, as all handles see them.
//!
//! Room: state.
//!
//! # Invariant
//! A reader sees every child in one state; only the supervisor moves it. When a supervisor has ended, no mailbox of its
//! children takes or holds anything.
//!
//! # Why it holds
//! The table is under one lock, which is never held while waiting or calling user code. [`CloseOnDrop`] closes
//! everything, however the supervisor ended, and also if it never began.

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

use super::child::{Child, ChildInstance, Kind};
use crate::{
    error::SupervisorError,
    state::{ChildEvent, ChildState},
};

/// The limit of names that are listed in an error.
const MAX_KNOWN: usize = 8;

/// The table entry of one child.
pub(crate) struct ChildEntry<'a> {
    pub(crate) child: Child<'a>,
    pub(crate) instance: ChildInstance<'a>,
    /// Whether it came by `start_child`: then a restart of the supervisor forgets it.
    pub(crate) dynamic: bool,
    pub(crate) state: ChildState,
    pub(crate) launches: u64,
    pub(crate) last_error: Option<TaskError>,
}

impl<'a> ChildEntry<'a> {
    pub(crate) fn new(child: Child<'a>, dynamic: bool) -> Self {
        let instance = child.spec.prepare(&child);
        Self { child, instance, dynamic, state: ChildState::Waiting, launches: 0, last_error: None }
    }

    pub(crate) fn step(&mut self, event: ChildEvent) {
        self.state = self
            .state
            .after(event)
            .unwrap_or_else(|illegal| panic!("child `{}` cannot do that: {illegal:?}", self.child.name));
    }
}

/// Children by their numbers, which grow in the order in which they are started.
pub(crate) type Entries<'a> = BTreeMap<u64, ChildEntry<'a>>;

/// What a supervisor shares with its handles.
pub(crate) struct Shared<'a> {
    pub(crate) name: Arc<str>,
    entries: StdMutex<Entries<'a>>,
    outcome: Mutex<Option<Result<(), TaskError>>>,
    over: Condvar,
    /// How many callers wait until it has ended.
    awaited: AtomicU64,
    serials: AtomicU64,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(name: Arc<str>, children: &[Child<'a>]) -> Self {
        let entries = (0..).zip(children.iter().map(|child| ChildEntry::new(child.clone(), false))).collect();
        Self {
            name,
            entries: StdMutex::new(entries),
            outcome: Mutex::new(None),
            over: Condvar::new(),
            awaited: AtomicU64::new(0),
            serials: AtomicU64::new(0),
        }
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries<'a>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for an incarnation that no other has, also none of an earlier incarnation of this supervisor.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serials.fetch_add(1, Relaxed)
    }

    /// The child `name` and its number.
    pub(crate) fn find<R>(
        &self,
        name: &str,
        found: impl FnOnce(u64, &mut ChildEntry<'a>) -> R,
    ) -> Result<R, SupervisorError> {
        let mut entries = self.entries();
        match entries.iter_mut().find(|(_, entry)| &*entry.child.name == name) {
            Some((&id, entry)) => Ok(found(id, entry)),
            None => Err(SupervisorError::UnknownChild {
                name: name.into(),
                supervisor: self.name.clone(),
                known: entries.values().take(MAX_KNOWN).map(|entry| entry.child.name.clone()).collect(),
            }),
        }
    }

    /// No child comes back: closes everything that a caller could wait for.
    pub(crate) fn retire(&self) {
        let kinds: Vec<_> = {
            let mut entries = self.entries();
            entries.values_mut().filter_map(retire_instance).collect()
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

    /// Whether a caller waits until it has ended.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Acquire) > 0
    }

    /// Waits until it has ended; `notify` makes the supervisor check that a caller waits.
    pub(crate) fn wait(&self, notify: impl FnOnce()) -> Result<(), TaskError> {
        struct Waits<'a>(&'a AtomicU64);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Release);
            }
        }
        self.awaited.fetch_add(1, Release);
        let _waits = Waits(&self.awaited); // also if the caller is cancelled
        notify();
        let mut outcome = self.outcome.lock();
        self.over.wait_while(&mut outcome, |outcome| outcome.is_none());
        outcome.clone().unwrap_or(Ok(()))
    }
}

/// Marks a child as gone for good; returns what is to be retired, once.
pub(crate) fn retire_instance<'a>(entry: &mut ChildEntry<'a>) -> Option<Kind<'a>> {
    (!std::mem::replace(&mut entry.instance.retired, true)).then(|| entry.instance.kind.clone())
}

impl Kind<'_> {
    pub(crate) fn retire(self) {
        match self {
            Kind::Actor(mailbox) => mailbox.retire(),
            Kind::Task => {}
            Kind::Supervisor(handle, inbox) => {
                inbox.close();
                inbox.try_iter().for_each(drop); // the callers see it
                handle.shared.retire();
                handle.shared.end(Err(internals::cancelled()));
            }
        }
    }
}

/// Closes everything and answers all callers when a supervisor has ended, also if it never began.
pub(crate) struct CloseOnDrop<'a>(pub(crate) Arc<Shared<'a>>);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        end_table(&self.0);
        self.0.retire();
        self.0.end(Err(internals::cancelled())); // unless it set another outcome before
    }
}

/// A supervisor begins with the children it was made with. Mailboxes of their earlier incarnations are kept.
pub(crate) fn begin_table(shared: &Shared<'_>) {
    let mut entries = shared.entries();
    entries.retain(|_, entry| !entry.dynamic);
    for entry in entries.values_mut() {
        entry.state = ChildState::Waiting;
        if entry.instance.retired {
            entry.instance = entry.child.spec.prepare(&entry.child);
        }
    }
}

/// No child is left: the table shows that, the messages being handled are lost, and children added later are removed.
pub(crate) fn end_table(shared: &Shared<'_>) {
    let (mut mailboxes, mut gone) = (Vec::new(), Vec::new());
    for entry in shared.entries().values_mut() {
        let had_fiber = entry.state.has_fiber();
        entry.step(ChildEvent::StopAsked);
        if had_fiber {
            entry.step(ChildEvent::Failed);
        }
        if let Kind::Actor(mailbox) = &entry.instance.kind {
            mailboxes.push(mailbox.clone());
        }
        gone.extend(entry.dynamic.then(|| retire_instance(entry)).flatten());
    }
    // Not under the lock: a hook may look at us.
    mailboxes.into_iter().for_each(|mailbox| mailbox.settle(None));
    gone.into_iter().for_each(Kind::retire);
}
