//! Nurseries that a call opens and another call closes, for code that cannot be written as one block: a foreign language, a state machine.
//!
//! Room: interface. Knows tasks that borrow nothing; how such a nursery ends is `nursery/open.rs`.
//!
//! # Invariants
//! 1. A task of an [`OpenNursery`] ends before what opened it: a task, the body of a nursery, or a plain thread, but the main thread: with that the process ends. And before its runtime does. Handles do not count: a
//!    forgotten one changes nothing.
//! 2. No task is spawned into one that has ended.
//!
//! # Why they hold
//! 1. The strand that opened it has it in a list, which its task, the block it was opened in, or the thread empties before it ends: see `nursery/open.rs`. A thread does so in the destructor of its strand, while that is still
//!    current; after that it opens none. On a plain thread it is in the list of its runtime as well.
//! 2. Only the strand that opened it ends it, so to its own spawns it is open; a task in it is counted, and keeps it open. Any other first counts as a task of it, under the lock that says whether it has begun
//!    to end; and where the runtime may end it, so does its owner.
//!
//! # Rejected
//! A nursery that its owner is not inside of, so that several could be closed in any order: the owner would go on waiting for a value from a task that has failed, and would pay from another budget than
//! its tasks. To close an outer one closes the inner ones first.

use std::{fmt, panic::Location, sync::Arc};

use super::{
    Canceller,
    owned::{Kept, refuse},
};
use crate::{
    drive::{
        runtime::{self, Runtime},
        thread_task,
    },
    error::{Reason, TaskError, TaskLabel},
    kernel::{
        current,
        groups::{Group, Kind},
        scope,
        shared::Shared,
        task::{Details, Identity},
    },
    nursery::{NurseryCore, group_of},
    options::NurseryOptions,
    raw::{handle::Handle, owned},
    spending::BudgetSupervisor,
    state::NurseryState,
    strand::{self, Strand, room},
};

/// A nursery that is opened by one call and closed by another. Its tasks borrow nothing.
///
/// It is in every respect the nursery of a [block](crate::nursery) that reaches from the call that opens it to [`wait_all`](Self::wait_all), or to where it is dropped: inside the nursery of the caller and cancelled
/// with it, with a pool out of the caller's budget, with the caller's capabilities; and when it is cancelled, so is what the caller does meanwhile. A block is simpler, and right wherever one function begins and
/// ends the work.
///
/// It belongs to the task that opened it, or to the plain thread. Others may spawn into it and cancel it; only its owner waits for it and closes it. What it opens inside closes first. An owner that ends, returning
/// or unwinding, with a nursery open cancels it and waits for its tasks; so does the end of a nursery's body, for those that were opened there, and that of a plain thread. Where the main thread ends, so does the process, and waits for nothing. A runtime that ends
/// earlier ends those that threads have open.
///
/// While a task has one open, both halves of its [`join`](crate::join)s run one after the other.
///
/// ```
/// use bursar::{channel, task::OpenNursery};
///
/// let (squares, results) = channel(4);
/// let tasks = OpenNursery::open()?;
/// for i in 1..=3_u64 {
///     let squares = squares.clone();
///     tasks.try_spawn(move || Ok(squares.send(i * i)?))?;
/// }
/// drop(squares);
/// assert_eq!(results.iter().sum::<u64>(), 14);
/// tasks.wait_all()?; // none of them runs any more
/// assert!(tasks.spawn(|| ()).is_err());
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub struct OpenNursery(Arc<Group>);

/// A task of an [`OpenNursery`]. Dropping it lets the task go on.
pub struct OpenTask<T> {
    /// Dropped before the nursery, which it refers to.
    handle: Handle<T>,
    _nursery: Arc<NurseryCore>,
}

/// The options of a task, given before it starts; made by [`OpenNursery::task`].
#[derive(Debug)]
#[must_use = "nothing starts before `spawn`"]
pub struct OpenTaskBuilder<'a> {
    nursery: &'a OpenNursery,
    details: Details,
    on_thread: bool,
}

impl Runtime {
    /// Opens a nursery whose tasks run here; see [`OpenNursery`].
    ///
    /// # Errors
    /// As for [`OpenNursery::open`]; on a [seeded](crate::Builder::seeded) runtime also outside of its runs.
    pub fn open_nursery(&self, options: NurseryOptions) -> Result<OpenNursery, TaskError> {
        open(self.shared(), options)
    }
}

impl OpenNursery {
    /// Opens one, on the runtime of the caller or on the common one.
    ///
    /// # Errors
    /// Inside the poll of a future, and in [`unblock`](crate::unblock): what closes it would be another's. In a destructor of a thread that has ended its own: nothing would close it. If the common runtime is needed and cannot be started.
    pub fn open() -> Result<Self, TaskError> {
        Self::with(NurseryOptions::new())
    }

    /// The same, as `options` say.
    ///
    /// # Errors
    /// As for [`open`](Self::open); also if the options ask for more than there is.
    pub fn with(options: NurseryOptions) -> Result<Self, TaskError> {
        match strand::with(Strand::runtime) {
            Some(shared) => open(shared, options),
            None => open(runtime::global()?.shared(), options),
        }
    }

    pub(crate) fn core(&self) -> &NurseryCore {
        &self.0.core
    }

    /// Starts a fiber.
    ///
    /// # Errors
    /// If the nursery is cancelled or has ended, or may not spawn.
    #[track_caller]
    pub fn spawn<F, T>(&self, body: F) -> Result<OpenTask<T>, TaskError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.0.start(Location::caller(), None, false, move || Ok(body()))
    }

    /// Starts a fiber whose `Err` is a failure: it cancels the siblings and becomes the nursery's error.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn).
    #[track_caller]
    pub fn try_spawn<F, T>(&self, body: F) -> Result<OpenTask<T>, TaskError>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'static,
        T: Send + 'static,
    {
        self.0.start(Location::caller(), None, false, body)
    }

    /// Options for a task: its name, its stack.
    pub fn task(&self) -> OpenTaskBuilder<'_> {
        OpenTaskBuilder { nursery: self, details: Details::default(), on_thread: false }
    }

    /// Waits for all its tasks, those among them that they spawn meanwhile; then it has ended and takes no more. Open nurseries that were opened inside it are waited for before. If the caller is
    /// cancelled meanwhile, they are. Called again it says the same.
    ///
    /// # Errors
    /// What failed first, with the others attached; or that it was cancelled. If the caller did not open it, or is in the block of a nursery inside it, it is not waited for: then it has not
    /// [ended](Self::has_ended).
    pub fn wait_all(&self) -> Result<(), TaskError> {
        strand::with(|strand| {
            strand.ensure_room();
            if strand.has_open(&self.0) && !strand.end_open(&self.0, false) {
                return Err(TaskError::msg(
                    "a nursery cannot be waited for inside the block of another that was opened in it; return from the block first",
                ));
            }
            self.verdict().unwrap_or_else(|| {
                Err(TaskError::msg(
                    "only what opened an open nursery waits for it; wait for its tasks, or cancel it from here",
                ))
            })
        })
    }

    /// Cancels its tasks and waits for them, as dropping it does. False if the caller may not: it did not open it, or is in the block of a nursery inside it. Then it is cancelled, and what opened it will wait.
    pub fn close(&self) -> bool {
        strand::with(|strand| {
            let _room = room::to_drop();
            let closed = self.has_ended() || strand.has_open(&self.0) && strand.end_open(&self.0, true);
            if !closed {
                self.0.core.cancel();
            }
            closed
        })
    }

    /// What it was worth, if its owner has waited for it.
    pub fn verdict(&self) -> Option<Result<(), TaskError>> {
        self.0.verdict.get().cloned()
    }

    /// Whether none of its tasks runs any more, and none will.
    pub fn has_ended(&self) -> bool {
        matches!(self.state(), NurseryState::Closed | NurseryState::Cancelled)
    }

    /// Tells everything in it to stop, and what its owner does meanwhile. Does not wait for that.
    pub fn cancel(&self) {
        strand::with(Strand::ensure_room);
        self.0.core.cancel_for(Reason::Cancelled);
    }

    /// Something that can cancel it from anywhere.
    pub fn canceller(&self) -> Canceller {
        Canceller::of(&self.0.core)
    }

    /// Where it stands.
    pub fn state(&self) -> NurseryState {
        self.0.core.state()
    }

    /// How many of its tasks have not ended. A worker tells of its last ones only when it goes on to something else, so it may be a few more than that.
    pub fn tasks(&self) -> u64 {
        if self.has_ended() { 0 } else { self.0.core.tasks() }
    }

    /// Whether the caller opened it, and has not closed it.
    pub fn is_owned_here(&self) -> bool {
        strand::with(|strand| strand.has_open(&self.0))
    }

    /// Whether the caller is one of its tasks, or inside one, or its owner.
    pub fn is_inside(&self) -> bool {
        self.0.is_around_caller()
    }

    /// Returns a supervisor to which tasks that have spent their budget apply, and wait for its answer; see [`Nursery::budget_supervisor`](crate::Nursery::budget_supervisor). None if nothing in it is limited, or
    /// it has ended.
    pub fn budget_supervisor(&self) -> Option<BudgetSupervisor> {
        strand::with(Strand::ensure_room);
        let _kept = self.0.keep_for_spawn().ok()?; // while it looks at what is around
        if self.has_ended() {
            return None; // to its owner it seems open to the end
        }
        self.0.core.account().is_some().then(|| BudgetSupervisor::open(self.0.core.clone()))
    }
}

fn open(shared: &'static Shared, options: NurseryOptions) -> Result<OpenNursery, TaskError> {
    strand::with(|strand| {
        strand.take_turn();
        strand.look_at_meter(); // a nursery with a budget of its own must not hide it
        if strand.turn.is_fixed() {
            return Err(TaskError::msg(
                "a future cannot open a nursery that outlives its poll; use `nursery` there, or a fiber",
            ));
        }
        if strand.shared().is_none() && current::is_ending() {
            return Err(TaskError::msg(
                "the thread is ending, and nothing would close the nursery; open and close it before, or use a block",
            ));
        }
        if strand.acts_for.get().is_some() {
            return Err(TaskError::msg(
                "an open nursery would belong to the thread of `unblock`, not to the task; open it in the task",
            ));
        }
        if !strand.is_of(shared) {
            shared.check_process()?;
            if let Some(seeded) = strand.shared().and_then(|own| own.seeded.as_ref()) {
                return Err(seeded.refuse_foreign());
            }
            if shared.seeded.is_some() {
                return Err(TaskError::msg(
                    "a seeded runtime runs on the thread of its caller; open the nursery inside a run of it",
                ));
            }
        }
        let share = group_of(strand, shared, &options)?;
        let (kind, around) = strand.kind_of_open();
        let group = Group::new(NurseryCore::open(strand, shared, share, &options), kind, around);
        if group.is_listed() {
            shared.groups.add(&group).iter().for_each(|left| left.end(true)); // does not wait
        }
        scope::enter_open(strand, group.clone());
        Ok(OpenNursery(group))
    })
}

impl Strand {
    /// Of which kind a nursery is that is opened here now, and which one around it has to be kept.
    fn kind_of_open(&self) -> (Kind, Option<Arc<Group>>) {
        if self.running.get().is_some() {
            return (Kind::OfBlock, None);
        }
        match (self.scope.get(), self.thread_scope()) {
            (None, _) => (Kind::OfThread, None),
            (Some(_), Some(around)) => (Kind::OfThread, Some(around)),
            (Some(_), None) => (Kind::OfBlock, None), // the body of a nursery
        }
    }

    /// The open nursery that a plain thread is in, if its runtime may end that.
    fn thread_scope(&self) -> Option<Arc<Group>> {
        let scopes = self.open_scopes.borrow();
        let innermost = scopes.last().map(|scope| scope.group().clone());
        innermost.filter(|group| group.kind == Kind::OfThread && scope::is_in(self, &group.core))
    }

    /// Keeps the open nursery that a plain thread is in until the nursery of a block inside it has ended: its runtime waits for that, too.
    #[inline]
    pub(super) fn keep_thread_scope(&self) -> Result<KeptGroup, TaskError> {
        if self.running.get().is_some() || self.scope.get().is_none() {
            return Ok(KeptGroup(None));
        }
        let kept = self.thread_scope();
        if let Some(group) = &kept {
            std::mem::forget(group.keep_open()?); // `KeptGroup` gives it back
        }
        Ok(KeptGroup(kept))
    }
}

/// Counts as a task of an open nursery.
pub(super) struct KeptGroup(Option<Arc<Group>>);

impl Drop for KeptGroup {
    #[inline]
    fn drop(&mut self) {
        if let Some(group) = self.0.take() {
            group.core.children_ended(1, 0);
        }
    }
}

impl Group {
    /// Keeps it open while something is spawned into it; nothing is needed where that is certain.
    #[inline]
    fn keep_for_spawn(&self) -> Result<Option<Kept<'_>>, TaskError> {
        let is_certain = strand::with(|strand| {
            let owns = self.kind == Kind::OfBlock && self.core.is_owned_by(strand.waiter);
            owns || strand.base.get().is_some_and(|base| std::ptr::eq(&raw const *base, Arc::as_ptr(&self.core)))
        });
        if is_certain { Ok(None) } else { self.keep_open().map(Some) }
    }

    fn start<F, T>(
        &self,
        site: &'static Location<'static>,
        details: Option<Arc<Details>>,
        on_thread: bool,
        body: F,
    ) -> Result<OpenTask<T>, TaskError>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'static,
        T: Send + 'static,
    {
        let admitted = self.keep_for_spawn().and_then(|kept| Ok((self.admit()?, kept)));
        let (id, _kept) = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => return Err(refuse(move || drop(body), refusal)),
        };
        let (runnable, handle) = owned::joinable(&self.core, body, Identity { id, site, details });
        if on_thread {
            thread_task::start(&self.core, runnable);
        } else {
            self.core.shared().publish(runnable);
        }
        Ok(OpenTask { handle, _nursery: self.core.clone() })
    }
}

impl OpenTaskBuilder<'_> {
    /// A name for messages.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.details.name = Some(name.into());
        self
    }

    /// How much stack it gets, if that is more than the runtime's usual; see [`TaskBuilder::stack_bytes`](crate::TaskBuilder::stack_bytes).
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.details.stack_bytes = bytes;
        self
    }

    /// Gives it a thread to itself, which it may block; see [`TaskBuilder::on_thread`](crate::TaskBuilder::on_thread).
    pub fn on_thread(mut self) -> Self {
        self.on_thread = true;
        self
    }

    /// Starts it, as [`OpenNursery::try_spawn`] does.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn try_spawn<F, T>(self, body: F) -> Result<OpenTask<T>, TaskError>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'static,
        T: Send + 'static,
    {
        self.nursery.0.start(Location::caller(), Some(Arc::new(self.details)), self.on_thread, body)
    }
}

impl<T> OpenTask<T> {
    /// Waits for the task and takes its result. A cancelled caller unwinds, unless the result came first.
    ///
    /// # Errors
    /// Why the task did not succeed.
    pub fn join(self) -> Result<T, TaskError> {
        let Self { handle, _nursery } = self;
        handle.join()
    }

    /// Takes its result if it has ended; else gives it back. Never lets another task run, so it may be called under a lock of the standard library.
    ///
    /// # Errors
    /// The task itself, if it has not ended.
    pub fn try_join(self) -> Result<Result<T, TaskError>, Self> {
        let Self { handle, _nursery } = self;
        handle.take_if_done().map_err(|handle| Self { handle, _nursery })
    }

    /// Waits until it has ended, and leaves the result for [`join`](Self::join). A cancelled caller unwinds, unless that came first.
    pub fn wait(&mut self) {
        self.handle.wait_done();
    }

    /// Whether it has ended.
    pub fn is_done(&self) -> bool {
        self.handle.is_done()
    }

    /// Its number, its name and where it was spawned.
    pub fn label(&self) -> TaskLabel {
        self.handle.label()
    }
}

impl Drop for OpenNursery {
    fn drop(&mut self) {
        self.close(); // elsewhere than at its owner it is cancelled only: the owner waits for it
    }
}

impl fmt::Debug for OpenNursery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenNursery").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for OpenTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTask").field("label", &self.label()).field("done", &self.is_done()).finish()
    }
}
