//! The options of a task, given before it starts.
//!
//! Room: interface.
//!
//! # Invariant
//! A task that survives its own overflow borrows nothing: only [`OwnedTaskBuilder`] makes one, and it takes `'static` closures.

use std::{future::Future, panic::Location, sync::Arc};

use vocab::Priority;

use crate::{
    error::TaskError,
    kernel::task::Details,
    raw::value::Value,
    scope::{Nursery, Task},
};

/// The options of a task, given before it starts; made by [`Nursery::task`].
///
/// ```
/// use bursar::{Priority, nursery};
///
/// nursery(|n| {
///     let parse = n.task().name("parse").priority(Priority::High).spawn(|| "42".parse::<u32>());
///     assert_eq!(parse.join()?, Ok(42));
///     Ok(())
/// })?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing starts before `spawn`"]
pub struct TaskBuilder<'scope, 'env> {
    nursery: &'scope Nursery<'scope, 'env>,
    details: Details,
    priority: Priority,
}

impl<'scope, 'env> Nursery<'scope, 'env> {
    /// Options for a task: its name, its priority.
    pub fn task(&'scope self) -> TaskBuilder<'scope, 'env> {
        TaskBuilder::new(self)
    }
}

impl<'scope, 'env> TaskBuilder<'scope, 'env> {
    pub(crate) fn new(nursery: &'scope Nursery<'scope, 'env>) -> Self {
        Self { nursery, details: Details::default(), priority: Priority::Normal }
    }

    /// A name for messages.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.details.name = Some(name.into());
        self
    }

    /// How much stack it gets, if that is more than the runtime's [usual](crate::Builder::stack_bytes): up to 1 GiB, rounded up to a power of two. Only what
    /// it touches is taken from memory. Stacks of one size share 64 GiB of addresses: 8,192 of 8 MiB at a time, 64 of 1 GiB. A task beyond that fails.
    ///
    /// ```
    /// use bursar::nursery;
    ///
    /// fn depth(n: u64) -> u64 {
    ///     if n == 0 { 0 } else { std::hint::black_box(depth(n - 1)) + 1 }
    /// }
    ///
    /// let deep = nursery(|n| n.task().stack_bytes(64 << 20).spawn(|| depth(100_000)).join())?;
    /// assert_eq!(deep, 100_000);
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.details.stack_bytes = bytes;
        self
    }

    /// Has the task fail alone, with [`Reason::StackOverflow`](crate::Reason::StackOverflow), if it overflows its stack. Else that ends the process.
    ///
    /// It may borrow nothing. Its frames are skipped, not unwound: its stack and all it owns, also what it allocated, is kept for ever; locks it holds stay
    /// locked, those of `println!` included. The thread of its worker is kept as well when the runtime ends. Tasks it started are cancelled and
    /// waited for.
    ///
    /// The overflow still ends the process where other code would be left with half an operation: while the task
    /// unwinds; in the second half of a [`join`](crate::join), which borrows from the first; in a destructor of what it
    /// captured and never ran with, or of a result that was not taken; in a foreign waker that an operation of the task
    /// calls; and in a [seeded](crate::Builder::seeded) run. Inside [`unblock`](crate::unblock) the stack is a
    /// thread's, which cannot be skipped.
    ///
    /// ```
    /// use bursar::{Reason, nursery};
    ///
    /// fn endless(n: u64) -> u64 {
    ///     std::hint::black_box(endless(n + 1)) + 1
    /// }
    ///
    /// let outcome = nursery(|n| n.task().survives_overflow().spawn(|| endless(0)).join());
    /// assert!(matches!(outcome.unwrap_err().reason(), Reason::StackOverflow { .. }));
    /// ```
    ///
    /// ```compile_fail,E0597
    /// use bursar::nursery;
    ///
    /// let mut lent = vec![3, 1, 2];
    /// let lent = &mut lent;
    /// nursery(|n| n.task().survives_overflow().spawn(move || lent.sort()).join()).unwrap();
    /// ```
    pub fn survives_overflow(mut self) -> OwnedTaskBuilder<'scope, 'env> {
        self.details.survives_overflow = true;
        OwnedTaskBuilder(self)
    }

    /// Gives the task a thread to itself: a full-size system stack, and it may block the thread, in a system call or a
    /// C library. Otherwise it is a task like any other: it borrows, its nursery waits for it, it is cancelled at its
    /// checkpoints (and at any operation of this library that waits), and spends the budget of its nursery.
    ///
    /// Threads are reused. [`blocking_threads`](crate::Builder::blocking_threads) is the limit at a time; further tasks
    /// wait for one. In a [seeded](crate::Builder::seeded) run it is a fiber.
    ///
    /// ```
    /// use bursar::nursery;
    ///
    /// let path = String::from("Cargo.toml");
    /// let bytes = nursery(|n| {
    ///     let file = n.task().name("read").on_thread().spawn(|| std::fs::read(&path)); // borrows, and blocks no worker
    ///     Ok(file.join()??.len())
    /// })?;
    /// assert!(bytes > 0);
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    ///
    /// It cannot outlive what it borrows, either:
    ///
    /// ```compile_fail,E0373
    /// use bursar::nursery;
    ///
    /// nursery(|n| {
    ///     let local = String::from("gone when the body returns");
    ///     n.task().on_thread().spawn(|| local.len());
    ///     Ok(())
    /// }).unwrap();
    /// ```
    pub fn on_thread(self) -> ThreadTaskBuilder<'scope, 'env> {
        ThreadTaskBuilder(self)
    }

    /// The options, if any were given.
    fn details(&mut self) -> Option<Arc<Details>> {
        let Details { name, stack_bytes, survives_overflow } = &self.details;
        let says_something = name.is_some() || *stack_bytes > 0 || *survives_overflow;
        says_something.then(|| Arc::new(std::mem::take(&mut self.details)))
    }

    /// How soon it would like to start.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// As [`Nursery::spawn`].
    #[track_caller]
    pub fn spawn<F, T>(mut self, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.nursery.start(Location::caller(), self.details(), self.priority, move || Ok(body()))
    }

    /// As [`Nursery::try_spawn`].
    #[track_caller]
    pub fn try_spawn<F, T>(mut self, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
        T: Send + 'scope,
    {
        self.nursery.start(Location::caller(), self.details(), self.priority, body)
    }

    /// The same with the location of another caller.
    pub(crate) fn try_spawn_at<F, T>(mut self, site: &'static Location<'static>, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
        T: Send + 'scope,
    {
        self.nursery.start(site, self.details(), self.priority, body)
    }

    /// As [`Nursery::spawn_async`].
    #[track_caller]
    pub fn spawn_async<F>(mut self, future: F) -> Task<'scope, F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        self.nursery.start_async(Location::caller(), self.details(), self.priority, Value(future))
    }

    /// As [`Nursery::try_spawn_async`].
    #[track_caller]
    pub fn try_spawn_async<F, T>(mut self, future: F) -> Task<'scope, T>
    where
        F: Future<Output = Result<T, TaskError>> + Send + 'scope,
        T: Send + 'scope,
    {
        self.nursery.start_async(Location::caller(), self.details(), self.priority, future)
    }
}

/// A [`TaskBuilder`] for tasks that have a thread to themselves; made by [`TaskBuilder::on_thread`].
#[derive(Debug)]
#[must_use = "nothing starts before `spawn`"]
pub struct ThreadTaskBuilder<'scope, 'env>(TaskBuilder<'scope, 'env>);

impl<'scope> ThreadTaskBuilder<'scope, '_> {
    /// As [`TaskBuilder::name`].
    pub fn name(self, name: impl Into<Box<str>>) -> Self {
        Self(self.0.name(name))
    }

    /// As [`Nursery::spawn`].
    #[track_caller]
    pub fn spawn<F, T>(mut self, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.0.nursery.start_on_thread(Location::caller(), self.0.details(), move || Ok(body()))
    }

    /// As [`Nursery::try_spawn`].
    #[track_caller]
    pub fn try_spawn<F, T>(mut self, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'scope,
        T: Send + 'scope,
    {
        self.0.nursery.start_on_thread(Location::caller(), self.0.details(), body)
    }
}

/// A [`TaskBuilder`] for tasks that borrow nothing; made by [`TaskBuilder::survives_overflow`].
#[derive(Debug)]
#[must_use = "nothing starts before `spawn`"]
pub struct OwnedTaskBuilder<'scope, 'env>(TaskBuilder<'scope, 'env>);

impl<'scope> OwnedTaskBuilder<'scope, '_> {
    /// As [`TaskBuilder::name`].
    pub fn name(self, name: impl Into<Box<str>>) -> Self {
        Self(self.0.name(name))
    }

    /// As [`TaskBuilder::priority`].
    pub fn priority(self, priority: Priority) -> Self {
        Self(self.0.priority(priority))
    }

    /// As [`TaskBuilder::stack_bytes`].
    pub fn stack_bytes(self, bytes: usize) -> Self {
        Self(self.0.stack_bytes(bytes))
    }

    /// As [`Nursery::spawn`].
    #[track_caller]
    pub fn spawn<F, T>(self, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.0.spawn(body)
    }

    /// As [`Nursery::try_spawn`].
    #[track_caller]
    pub fn try_spawn<F, T>(self, body: F) -> Task<'scope, T>
    where
        F: FnOnce() -> Result<T, TaskError> + Send + 'static,
        T: Send + 'static,
    {
        self.0.try_spawn(body)
    }

    /// As [`Nursery::spawn_async`]: a poll that overflows ends the future alone.
    #[track_caller]
    pub fn spawn_async<F>(self, future: F) -> Task<'scope, F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.spawn_async(future)
    }

    /// As [`Nursery::try_spawn_async`]: a poll that overflows ends the future alone.
    #[track_caller]
    pub fn try_spawn_async<F, T>(self, future: F) -> Task<'scope, T>
    where
        F: Future<Output = Result<T, TaskError>> + Send + 'static,
        T: Send + 'static,
    {
        self.0.try_spawn_async(future)
    }
}
