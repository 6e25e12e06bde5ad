//! Nurseries that a value owns, not a block: for what lives as long as a handle, such as a scheduler or a server.
//!
//! Room: interface. Knows tasks that borrow nothing; how such a nursery ends is `nursery/groups.rs`.
//!
//! # Invariants
//! 1. When an [`OwnedNursery`] is dropped, or its runtime is, or the seeded run ends in which it was opened, none of its tasks runs any more.
//! 2. No task is spawned into one that has ended.
//!
//! # Why they hold
//! 1. Tasks own what they capture. Of the strands that may end a nursery the first does; others wait until it has. One that is forgotten is in the list of its runtime, which ends it.
//! 2. A spawn first keeps the nursery open, under the lock that also says whether it has begun to end.

use std::{
    fmt,
    panic::Location,
    sync::{Arc, Weak},
};

use vocab::TaskId;

use super::Canceller;
use crate::{
    drive::{runtime, thread_task},
    error::{Reason, TaskError},
    kernel::{
        groups::{Group, Kind, Phase},
        shared::Shared,
        task::{Details, Identity},
    },
    nursery::{Body, Limits, NurseryCore, group_of},
    options::NurseryOptions,
    raw::owned,
    state::NurseryState,
    strand::{self, Strand, panics, shield::shield},
};

/// A nursery that is owned by a value: its tasks borrow nothing, and run until they end or the value is dropped, which cancels them and waits for them (unless one of them drops it: that does not wait for itself).
///
/// Tasks run on the runtime of the task that opened it, or on the common one, and may do what that task may. It is inside no other nursery, so only its owner cancels it: hold it where
/// what it serves is held. A [scoped](crate::nursery) nursery is simpler, and right wherever one block begins and ends the work.
///
/// ```
/// use bursar::{channel, task::OwnedNursery};
///
/// struct Shouter { requests: bursar::Sender<String>, _tasks: OwnedNursery }
///
/// let (requests, received) = channel::<String>(8);
/// let (answers, shouted) = channel(8);
/// let tasks = OwnedNursery::new()?;
/// tasks.spawn(move || while let Ok(word) = received.recv() {
///     _ = answers.send(word.to_uppercase());
/// })?;
/// let shouter = Shouter { requests, _tasks: tasks };
/// shouter.requests.send("quiet".into())?;
/// assert_eq!(shouted.recv()?, "QUIET");
/// drop(shouter); // its task has ended when this returns
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub struct OwnedNursery(Option<Arc<Group>>);

/// Spawns into an [`OwnedNursery`] from anywhere, as long as that is there.
#[derive(Clone)]
pub struct Spawner(Weak<Group>);

impl OwnedNursery {
    /// Opens one.
    ///
    /// # Errors
    /// In a task with a budget: what it starts could outlive it, and no budget would pay.
    pub fn new() -> Result<Self, TaskError> {
        Self::with(NurseryOptions::new())
    }

    /// The same, as `options` say.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with(options: NurseryOptions) -> Result<Self, TaskError> {
        strand::with(|strand| {
            let is_limited = strand.scope.get().is_some_and(|scope| scope.account().is_some());
            if strand.meter.is_metered() || is_limited {
                return Err(TaskError::msg(
                    "a task with a budget cannot open an owned nursery, which may outlive it; use `nursery`, or open it before",
                ));
            }
            Self::open(options, |strand, shared, options| Limits::of(strand, None, shared, options))
        })
    }

    /// Opens one without limits, also in a task that has some: for a scheduler whose own tasks it has, and which [confines](crate::Confinement) what it runs for others.
    ///
    /// # Errors
    /// If the common runtime is needed and cannot be started.
    #[doc(hidden)]
    pub fn of_scheduler(options: NurseryOptions) -> Result<Self, TaskError> {
        Self::open(options, |_, _, _| Limits::default())
    }

    fn open(
        options: NurseryOptions,
        limits: impl FnOnce(&Strand, &'static Shared, &NurseryOptions) -> Limits,
    ) -> Result<Self, TaskError> {
        strand::with(|strand| {
            strand.take_turn();
            let shared = match strand.runtime() {
                Some(shared) => shared,
                None => runtime::global()?.shared(),
            };
            shared.check_process()?;
            let limits = limits(strand, shared, &options);
            let group = group_of(strand, shared, &options)?;
            let core = NurseryCore::open_apart(strand, shared, limits, group, &options);
            let group = Group::new(core, Kind::Owned, None);
            shared.groups.add(&group).iter().for_each(|left| left.end(true)); // does not wait
            Ok(Self(Some(group)))
        })
    }

    fn group(&self) -> &Arc<Group> {
        self.0.as_ref().expect("it is taken out last")
    }

    /// Starts a fiber.
    ///
    /// # Errors
    /// If the nursery is cancelled or closed, or may not spawn.
    #[track_caller]
    pub fn spawn(&self, body: impl FnOnce() + Send + 'static) -> Result<(), TaskError> {
        self.group().spawn(Location::caller(), None, body)
    }

    /// Starts a task that has a thread of that name to itself, beside those that [`Builder::blocking_threads`](crate::Builder::blocking_threads) counts: for workers that live long.
    /// In a [seeded](crate::Builder::seeded) run it is a fiber.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn), or if the system gives no thread.
    #[track_caller]
    pub fn spawn_thread(
        &self,
        name: impl Into<Box<str>>,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), TaskError> {
        self.group().spawn(Location::caller(), Some(name.into()), body)
    }

    /// Something that spawns into it from anywhere.
    pub fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(self.group()))
    }

    /// Tells everything in it to stop. Does not wait for that.
    pub fn cancel(&self) {
        strand::with(Strand::ensure_room);
        self.group().core.cancel_for(Reason::Cancelled);
    }

    /// Something that can cancel it from anywhere.
    pub fn canceller(&self) -> Canceller {
        Canceller::of(&self.group().core)
    }

    /// Where it stands.
    pub fn state(&self) -> NurseryState {
        self.group().core.state()
    }

    /// Whether the caller is one of its tasks, or inside one.
    pub fn is_inside(&self) -> bool {
        self.group().is_around_caller()
    }

    /// Takes no more tasks, and waits for those it has. If the caller is cancelled meanwhile, they are.
    ///
    /// # Errors
    /// What failed first, with the others attached; or that it was cancelled; or that the caller is one of them.
    pub fn wait(mut self) -> Result<(), TaskError> {
        strand::with(Strand::ensure_room);
        if self.is_inside() {
            return Err(TaskError::msg("a task cannot wait for the nursery it is in; return from it"));
        }
        let group = self.0.take().expect("it is taken out last");
        group.end(false);
        strand::with(|strand| group.core.verdict(strand, Body::Returned(Ok(()))))
    }
}

impl Drop for OwnedNursery {
    fn drop(&mut self) {
        let _room = crate::strand::room::to_drop();
        match self.0.take() {
            Some(group) if group.is_around_caller() => group.leave(), // it cannot wait for itself
            Some(group) if group.is_foreign() => group.leave(), // no run with a seed waits for other threads; it fails for having tried
            Some(group) => group.end(true),
            None => {}
        }
    }
}

impl Spawner {
    /// As [`OwnedNursery::spawn`].
    ///
    /// # Errors
    /// As there; also if the nursery is gone.
    #[track_caller]
    pub fn spawn(&self, body: impl FnOnce() + Send + 'static) -> Result<(), TaskError> {
        self.group()?.spawn(Location::caller(), None, body)
    }

    /// As [`OwnedNursery::spawn_thread`].
    ///
    /// # Errors
    /// As there; also if the nursery is gone.
    #[track_caller]
    pub fn spawn_thread(
        &self,
        name: impl Into<Box<str>>,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), TaskError> {
        self.group()?.spawn(Location::caller(), Some(name.into()), body)
    }

    /// Whether it may take tasks still: not if the nursery is gone, or was cancelled, with its runtime or without.
    pub fn is_open(&self) -> bool {
        self.0.upgrade().is_some_and(|group| matches!(*group.lock(), Phase::Open) && group.core.state().takes_tasks())
    }

    fn group(&self) -> Result<Arc<Group>, TaskError> {
        self.0.upgrade().ok_or_else(|| TaskError::new(Reason::NurseryNotActive { state: NurseryState::Closed }, None))
    }
}

impl Group {
    pub(super) fn is_around_caller(&self) -> bool {
        strand::with(|strand| {
            let mut around = strand.scope.get();
            while let Some(scope) = around {
                if std::ptr::eq(&raw const *scope, Arc::as_ptr(&self.core)) {
                    return true;
                }
                around = scope.outer();
            }
            false
        })
    }

    /// Whether a seed decides here, and does not there. Then the run is to fail.
    pub(super) fn is_foreign(&self) -> bool {
        strand::with(|strand| match strand.shared().and_then(|own| own.seeded.as_ref()) {
            Some(seeded) if self.core.shared().seeded.is_none() => {
                seeded.refuse_foreign();
                true
            }
            _ => false,
        })
    }

    fn spawn(
        &self,
        site: &'static Location<'static>,
        thread: Option<Box<str>>,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), TaskError> {
        let admitted = self.keep_open().and_then(|kept| Ok((self.admit()?, kept)));
        let (id, _kept) = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => return Err(refuse(body, refusal)),
        };
        let on_thread = thread.is_some();
        let details = thread.clone().map(|name| Arc::new(Details { name: Some(name), ..Details::default() }));
        let task = owned::spawn(&self.core, body, Identity { id, site, details });
        if on_thread {
            thread_task::start_apart(&self.core, task, thread.as_deref().unwrap_or_default())
        } else {
            self.core.shared().publish(task);
            Ok(())
        }
    }

    /// A number for a task that is about to be spawned, or why it may not be.
    #[inline]
    pub(super) fn admit(&self) -> Result<TaskId, TaskError> {
        strand::with(|strand| {
            strand.count_turn();
            strand.interleave();
            self.core.admit(strand).map(|()| strand.next_task_id())
        })
    }

    /// It counts as one more task as long as this is there.
    pub(super) fn keep_open(&self) -> Result<Kept<'_>, TaskError> {
        match &*self.lock() {
            Phase::Open => {
                self.core.keep_open();
                Ok(Kept(&self.core))
            }
            _ => Err(TaskError::new(Reason::NurseryNotActive { state: self.core.state() }, None)),
        }
    }
}

/// Counts as a task of a nursery.
pub(super) struct Kept<'a>(&'a NurseryCore);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.children_ended(1, 0);
    }
}

/// Drops what may not start. A destructor that panics is printed by the panic hook, and fails no task.
#[cold]
pub(super) fn refuse(body: impl FnOnce(), refusal: TaskError) -> TaskError {
    shield(|| panics::drop_apart(body)).unwrap_or_else(panics::discard);
    refusal
}

impl fmt::Debug for OwnedNursery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedNursery").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").finish_non_exhaustive()
    }
}
