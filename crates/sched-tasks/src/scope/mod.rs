//! What a user holds of a nursery: the nursery inside its block, and the tasks in it.
//!
//! Room: interface. Knows nurseries, tasks and runtimes; knows nothing of queues and fibers.

mod open;
mod owned;
pub(crate) mod run;

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use vocab::{Priority, TaskId};

pub use self::open::{OpenNursery, OpenTask, OpenTaskBuilder};
pub use self::owned::{OwnedNursery, Spawner};
pub use crate::raw::scope::Nursery;
use crate::{
    budget::Pool,
    drive::{runtime, thread_task},
    error::{Reason, TaskError, TaskLabel},
    kernel::{
        nursery::NurseryCore,
        scope,
        shared::Shared,
        task::{Details, Identity, RunnableRef},
    },
    nursery::{Body, Pauser, group_of},
    options::NurseryOptions,
    raw::{handle::Handle, scope as raw, value::Value},
    spending::BudgetSupervisor,
    state::NurseryState,
    strand::{self, Strand, panics, room::in_own_frame, shield::shield},
    task_state::TaskState,
};

/// Opens a nursery, runs `body` in it, and waits for every task the body spawned.
///
/// Tasks may borrow whatever outlives the call, because the call does not return before they ended. If a task fails, the others are cancelled and
/// the error is returned; if several fail, the first is, with the [others](TaskError::others) attached.
///
/// Inside a task this blocks the task only; on a plain thread it blocks the thread, and the tasks run on the common runtime.
///
/// ```
/// use bursar::nursery;
///
/// let words = vec!["alpha".to_string(), "beta".to_string()];
/// let lengths: Vec<usize> = nursery(|n| {
///     let tasks: Vec<_> = words.iter().map(|w| n.spawn(|| w.len())).collect(); // borrows `words`
///     tasks.into_iter().map(|t| t.join()).collect()
/// })?;
/// assert_eq!(lengths, [5, 4]);
/// # Ok::<(), bursar::TaskError>(())
/// ```
///
/// A task cannot outlive what it borrows; this does not compile:
///
/// ```compile_fail,E0373
/// use bursar::nursery;
///
/// nursery(|n| {
///     let local = String::from("gone when the body returns");
///     n.spawn(|| local.len());
///     Ok(())
/// }).unwrap();
/// ```
///
/// Nor can a handle leave the nursery, or a task be spawned outside one:
///
/// ```compile_fail
/// use bursar::nursery;
///
/// let escaped = nursery(|n| Ok(n.spawn(|| 1))).unwrap();
/// ```
///
/// ```compile_fail,E0425
/// bursar::spawn(|| 1); // there is no such function
/// ```
pub fn nursery<'env, F, T>(body: F) -> Result<T, TaskError>
where
    F: for<'scope> FnOnce(&'scope Nursery<'scope, 'env>) -> Result<T, TaskError>,
{
    open_here(&NurseryOptions::DEFAULT, body)
}

/// Opens a nursery that is like `options` say. See [`nursery`].
///
/// ```
/// use bursar::{NurseryOptions, OnFailure, nursery_with};
///
/// let outcome = nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
///     n.try_spawn(|| Ok("12x".parse::<u32>()?)); // fails
///     n.spawn(|| 2 + 2).join() // still runs
/// });
/// assert!(outcome.is_err()); // but the failure is not forgotten
/// ```
pub fn nursery_with<'env, F, T>(options: NurseryOptions, body: F) -> Result<T, TaskError>
where
    F: for<'scope> FnOnce(&'scope Nursery<'scope, 'env>) -> Result<T, TaskError>,
{
    open_here(&options, body)
}

fn open_here<'env, F, T>(options: &NurseryOptions, body: F) -> Result<T, TaskError>
where
    F: for<'scope> FnOnce(&'scope Nursery<'scope, 'env>) -> Result<T, TaskError>,
{
    // On a thread that acts for a task, the tasks run where that one does.
    match strand::with(Strand::runtime) {
        Some(shared) => open(shared, options, body),
        None => open(runtime::global()?.shared(), options, body),
    }
}

pub(crate) fn open<'env, F, T>(shared: &'static Shared, options: &NurseryOptions, body: F) -> Result<T, TaskError>
where
    F: for<'scope> FnOnce(&'scope Nursery<'scope, 'env>) -> Result<T, TaskError>,
{
    strand::with(|strand| {
        strand.take_turn();
        strand.look_at_meter(); // a nursery with a budget of its own must not hide it
        if !strand.is_of(shared) {
            shared.check_process()?;
            let seeded = strand.shared().and_then(|own| own.seeded.as_ref());
            if let Some(seeded) = seeded.filter(|_| shared.seeded.is_none()) {
                return Err(seeded.refuse_foreign());
            }
        }
        let _kept = strand.keep_thread_scope()?;
        let group = group_of(strand, shared, options)?;
        let core = NurseryCore::open(strand, shared, group, options);
        if let Some(driver) = &strand.driver {
            driver.note_root(&core);
        }
        let nursery = Nursery::new(core);
        let core = nursery.core();
        scope::while_open(strand, core, || {
            let caught = scope::enter(strand, core, || {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    let returned = in_own_frame(|| body(&nursery));
                    if strand.meter.is_refused() {
                        strand.look_at_meter(); // a task that catches its exhaustion fails
                    }
                    returned
                }));
                if !scope::is_in(strand, core) {
                    strand.end_open_nurseries_inside(core);
                }
                caught
            });
            let body = match caught {
                Ok(returned) => {
                    if let Err(error) = &returned {
                        core.body_failed(error);
                    }
                    Body::Returned(returned)
                }
                Err(payload) => {
                    strand.traces.unwinding().set(false);
                    let body = core.body_unwound(strand, payload);
                    core.cancel();
                    body
                }
            };
            strand.interleave();
            core.wait(strand);
            core.verdict(strand, body)
        })
    })
}

impl<'scope, 'env> Nursery<'scope, 'env> {
    /// Starts a fiber: a closure that may block, and borrow what outlives the nursery.
    ///
    /// Whatever it returns is handed over by [`Task::join`]. An `Err` is a value like any other; use [`try_spawn`](Self::try_spawn) if it is to
    /// fail the nursery. A nursery that takes no more tasks gives out a task that has already failed.
    #[track_caller]
    #[inline(always)]
    pub fn spawn<F, T>(&'scope self, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn_at(Location::caller(), body)
    }

    #[inline(always)]
    pub(crate) fn spawn_at<F, T>(&'scope self, site: &'static Location<'static>, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.start(site, None, Priority::Normal, move || Ok(body()))
    }

    /// Starts a fiber whose `Err` is a failure: it cancels the siblings and becomes the nursery's error.
    ///
    /// Any error type can be raised with `?`.
    #[track_caller]
    pub fn try_spawn<F, T>(&'scope self, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
        T: Send + 'scope,
    {
        self.start(Location::caller(), None, Priority::Normal, body)
    }

    /// Starts a future. Any worker polls it, and it is `Send`; its output is handed over by [`Task::join`] or by awaiting the task.
    #[track_caller]
    pub fn spawn_async<F>(&'scope self, future: F) -> Task<'scope, F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        self.start_async(Location::caller(), None, Priority::Normal, Value(future))
    }

    /// Starts a future whose `Err` is a failure, as in [`try_spawn`](Self::try_spawn).
    #[track_caller]
    pub fn try_spawn_async<F, T>(&'scope self, future: F) -> Task<'scope, T>
    where
        F: Future<Output = Result<T, TaskError>> + Send + 'scope,
        T: Send + 'scope,
    {
        self.start_async(Location::caller(), None, Priority::Normal, future)
    }

    #[inline(always)]
    pub(crate) fn start<F, T>(
        &'scope self,
        site: &'static Location<'static>,
        details: Option<Arc<Details>>,
        priority: Priority,
        body: F,
    ) -> Task<'scope, T>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
        T: Send + 'scope,
    {
        self.start_by(site, details, body, |core, runnable| core.shared().publish_as(priority, runnable))
    }

    /// The same on a thread.
    pub(crate) fn start_on_thread<F, T>(
        &'scope self,
        site: &'static Location<'static>,
        details: Option<Arc<Details>>,
        body: F,
    ) -> Task<'scope, T>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
        T: Send + 'scope,
    {
        self.start_by(site, details, body, thread_task::start)
    }

    /// The same on a thread of its own, beside those of the pool.
    pub(crate) fn start_apart<F, T>(
        &'scope self,
        site: &'static Location<'static>,
        name: &str,
        body: F,
    ) -> Task<'scope, T>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
        T: Send + 'scope,
    {
        let details = Some(Arc::new(Details { name: Some(name.into()), ..Details::default() }));
        // If there is no thread, the task has failed, and so has the nursery.
        self.start_by(site, details, body, |core, task| _ = thread_task::start_apart(core, task, name))
    }

    #[inline(always)]
    fn start_by<F, T>(
        &'scope self,
        site: &'static Location<'static>,
        details: Option<Arc<Details>>,
        body: F,
        publish: impl FnOnce(&Arc<NurseryCore>, RunnableRef),
    ) -> Task<'scope, T>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
        T: Send + 'scope,
    {
        let (id, refusal) = self.admit();
        let identity = Identity { id, site, details };
        if let Some(refusal) = refusal {
            return self.refuse(identity, refusal, body);
        }
        let (runnable, handle) = raw::spawn(self, body, identity);
        publish(self.shared_core(), runnable);
        Task::new(handle)
    }

    pub(crate) fn start_async<F, T>(
        &'scope self,
        site: &'static Location<'static>,
        details: Option<Arc<Details>>,
        priority: Priority,
        future: F,
    ) -> Task<'scope, T>
    where
        F: Future<Output = Result<T, TaskError>> + Send + 'scope,
        T: Send + 'scope,
    {
        let (id, refusal) = self.admit();
        let identity = Identity { id, site, details };
        if let Some(refusal) = refusal {
            return self.refuse(identity, refusal, future);
        }
        let (runnable, handle) = raw::spawn_async(self, future, identity, true);
        self.core().shared().publish_as(priority, runnable);
        Task::new(handle)
    }

    /// Starts a future of the runtime's own: no budget stops it.
    pub(crate) fn spawn_free<F>(&'scope self, site: &'static Location<'static>, future: F) -> Task<'scope, ()>
    where
        F: Future<Output = ()> + Send + 'scope,
    {
        let (id, refusal) = self.admit();
        let identity = Identity { id, site, details: None };
        if let Some(refusal) = refusal {
            return self.refuse(identity, refusal, future);
        }
        let future = async move {
            future.await;
            Ok(())
        };
        let (runnable, handle) = raw::spawn_async(self, future, identity, false);
        self.core().shared().publish_as(Priority::Normal, runnable);
        Task::new(handle)
    }

    /// A task that may not start. What it captured is dropped here: a destructor that panics fails that task, not the one that spawned it.
    #[cold]
    fn refuse<B, T: Send + 'scope>(&'scope self, identity: Identity, refusal: TaskError, body: B) -> Task<'scope, T> {
        let error = match shield(|| panics::drop_apart(body)) {
            Ok(()) => refusal,
            Err(payload) => {
                let error = panics::error(payload, || identity.label());
                self.core().child_failed(error.clone());
                error
            }
        };
        Task::new(raw::refused(self, identity, error))
    }

    /// A number for a task, and why it may not start, if so.
    #[inline]
    fn admit(&self) -> (TaskId, Option<TaskError>) {
        strand::with(|strand| {
            strand.count_turn();
            strand.interleave();
            (strand.next_task_id(), self.core().admit(strand).err())
        })
    }

    /// Takes no more tasks: later spawns fail with [`Reason::NurseryNotActive`].
    pub fn close(&self) {
        strand::with(Strand::ensure_room);
        self.core().close();
    }

    /// Tells everything in the nursery to stop, the body included. The block ends with [`Reason::Cancelled`].
    pub fn cancel(&self) {
        strand::with(Strand::ensure_room);
        self.core().cancel_for(Reason::Cancelled);
    }

    /// Stops the tasks that are left: the body has what it wanted, and its value is the block's.
    ///
    /// ```
    /// use bursar::{channel, nursery};
    ///
    /// let fastest = nursery(|n| {
    ///     let (tx, rx) = channel(1);
    ///     for mirror in ["a", "b", "c"] {
    ///         let tx = tx.clone();
    ///         n.spawn(move || tx.send(mirror));
    ///     }
    ///     let first = rx.recv()?;
    ///     n.dismiss(); // the others are not waited for
    ///     Ok(first)
    /// })?;
    /// assert!(["a", "b", "c"].contains(&fastest));
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn dismiss(&self) {
        strand::with(Strand::ensure_room);
        self.core().dismiss();
    }

    /// Cancels everything in the nursery, nested nurseries included, after this time, counted from this call. The block ends with [`Reason::DeadlineExceeded`].
    ///
    /// Of several deadlines the earliest counts: a later one takes nothing back, neither here nor in a nursery inside.
    pub fn timeout(&self, after: Duration) {
        strand::with(Strand::ensure_room);
        self.core().set_timeout(after);
    }

    /// As [`timeout`](Self::timeout), at a time of [`now`](crate::now): also in a seeded run, where time is virtual. A time that has passed cancels it at once.
    pub fn deadline(&self, at: Instant) {
        strand::with(Strand::ensure_room);
        self.core().set_deadline(at);
    }

    /// Returns a supervisor to which tasks that have spent their budget apply, and wait for its answer.
    ///
    /// # Panics
    /// If nothing in this nursery is limited: give it a [`budget`](NurseryOptions::budget).
    pub fn budget_supervisor(&self) -> BudgetSupervisor {
        assert!(
            self.core().account().is_some(),
            "a nursery without a budget has no budget supervisor; open it with `NurseryOptions::budget`"
        );
        BudgetSupervisor::open(self.shared_core().clone())
    }

    /// Where the nursery's budget is. None if nothing in it is limited.
    pub fn pool(&self) -> Option<Pool> {
        strand::with(Strand::ensure_room);
        self.core().pool()
    }

    /// Where the nursery stands.
    pub fn state(&self) -> NurseryState {
        strand::with(Strand::ensure_room);
        self.core().state()
    }

    /// Something that can pause this nursery, and resume it.
    ///
    /// What is paused, the body of the nursery included, stands still at its next checkpoint: an operation of this library that may wait, or [`checkpoint`](crate::checkpoint). One that waits goes on to
    /// wait, and stands still when it comes back (one that waits for a [`Mutex`](crate::Mutex), at the next operation). What it holds meanwhile, locks and permits, it keeps. One that is
    /// [shielded](crate::shield) goes on until it is not. Deadlines go on.
    pub fn pauser(&self) -> Pauser {
        Pauser::of(self.shared_core())
    }

    /// Something that can cancel this nursery from anywhere, also after it is over.
    pub fn canceller(&self) -> Canceller {
        Canceller::of(self.shared_core())
    }
}

impl fmt::Debug for Nursery<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nursery").field("state", &self.state()).finish_non_exhaustive()
    }
}

/// Cancels a nursery from anywhere. Does nothing once the nursery is over.
#[derive(Clone)]
pub struct Canceller(Weak<NurseryCore>);

impl Canceller {
    pub(crate) fn of(core: &Arc<NurseryCore>) -> Self {
        Self(Arc::downgrade(core))
    }

    /// As [`Nursery::cancel`].
    pub fn cancel(&self) {
        strand::with(Strand::ensure_room);
        if let Some(core) = self.0.upgrade() {
            core.cancel_for(Reason::Cancelled);
        }
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}

/// A spawned task. Dropping it lets the task go on: its nursery waits for it.
///
/// [`join`](Self::join) it where one may block, or `.await` it in a future.
pub struct Task<'scope, T> {
    handle: Handle<T>,
    scope: PhantomData<&'scope ()>,
}

impl<T> Task<'_, T> {
    #[inline]
    fn new(handle: Handle<T>) -> Self {
        Self { handle, scope: PhantomData }
    }

    /// Waits for the task and takes its result.
    #[inline]
    pub fn join(self) -> Result<T, TaskError> {
        self.handle.join()
    }

    /// Whether it has ended.
    pub fn is_done(&self) -> bool {
        self.handle.is_done()
    }

    /// Where it stands, as of a moment ago. Costs the task nothing, and the caller a look at every worker.
    ///
    /// ```
    /// use bursar::{channel, nursery, task::TaskState, yield_now};
    ///
    /// nursery(|n| {
    ///     let (tx, rx) = channel::<()>(1);
    ///     let task = n.spawn(move || rx.recv().is_err());
    ///     while task.state() != TaskState::Blocked {
    ///         yield_now(); // it is Ready, then Running, and soon it waits
    ///     }
    ///     drop(tx);
    ///     task.join()
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn state(&self) -> TaskState {
        strand::with(Strand::ensure_room);
        self.handle.state()
    }

    /// Whether it has spent its budget and waits for an answer; see [`Nursery::budget_supervisor`].
    pub fn is_exhausted(&self) -> bool {
        strand::with(Strand::ensure_room);
        self.handle.is_exhausted()
    }

    /// Its number, its name and where it was spawned.
    pub fn label(&self) -> TaskLabel {
        self.handle.label()
    }
}

impl<T> Unpin for Task<'_, T> {}

impl<T> Future for Task<'_, T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        let polled = self.handle.poll(cx);
        if polled.is_ready() {
            strand.turn.count();
        }
        polled
    }
}

impl<T> fmt::Debug for Task<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("label", &self.label()).field("done", &self.is_done()).finish()
    }
}
