//! Errors of tasks, nurseries and runtimes, with messages that say what to do.
//!
//! Room: values.
//!
//! [`TaskError`] converts from every error type, so `?` works in task bodies; for that reason it does not implement
//! [`std::error::Error`] itself, but becomes a boxed one wherever that is asked for.

use std::{any::Any, error::Error, fmt, panic::Location, sync::Arc, time::Duration};

use policy_admission::CapError;
use vocab::{Component, TaskId};

use crate::{build_error::BuildError, state::NurseryState};

/// Why a task or a nursery did not succeed.
///
/// Cheap to clone: a failing child gives it to the task that joins the child and to its nursery.
///
/// Every error type converts into it, and so do the errors of jobs (`JobError`) and nodes (`NodeError`): `?` works in all three,
/// and [`downcast_ref`](Self::downcast_ref) finds the original after any number of conversions. For that reason it does not implement [`Error`]: a type that did would convert to
/// itself twice. It becomes a standard error by [`into_boxed`](Self::into_boxed), or by `?` where a `Box<dyn Error>` is returned; the original is the
/// [`source`](Error::source) of that.
///
/// ```
/// use bursar::{jobs::JobError, prelude::*};
///
/// fn port(text: &str) -> Result<u16, TaskError> {
///     Ok(text.parse()?) // any error becomes a `TaskError`,
/// }
///
/// fn open(text: &str) -> Result<u16, JobError> {
///     let port = nursery(|n| n.try_spawn(|| port(text)).join())?; // which becomes a `JobError`,
///     Ok(port)
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let error = open("eighty").unwrap_err();
///     assert!(error.downcast_ref::<std::num::ParseIntError>().is_some()); // and the original is still there
///     assert!(nursery(|n| n.try_spawn(|| Ok(open("eighty")?)).join()).is_err());
///     nursery(|_| Ok(()))?; // a standard error
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct TaskError(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    reason: Reason,
    task: Option<TaskLabel>,
    /// The nursery that reports it, if it has a name.
    nursery: Option<Arc<str>>,
    others: Vec<TaskError>,
    /// What an error of a job or a node says besides: see `convert.rs`.
    mark: Option<Arc<dyn Any + Send + Sync>>,
}

/// The kinds of failure.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Reason {
    /// The task panicked.
    Panicked {
        /// The panic message.
        message: Arc<str>,
        /// Where: `file:line:column`, if the panic hook saw it.
        location: Option<Arc<str>>,
    },
    /// The task returned an error.
    Failed(Arc<dyn Error + Send + Sync>),
    /// Its nursery was cancelled.
    Cancelled,
    /// The CPU time of its nursery's context was spent, which cancels it.
    CpuTimeSpent {
        /// How much it had in each period.
        budget: Duration,
        /// How long a period is.
        period: Duration,
    },
    /// Its nursery's deadline passed.
    DeadlineExceeded {
        /// The time it had.
        after: Duration,
    },
    /// The task used up its stack.
    StackOverflow {
        /// How large it was.
        stack_bytes: usize,
    },
    /// A granted amount is spent, and it was not recharged.
    BudgetExhausted {
        /// The component.
        component: Component,
        /// How much there was of it.
        granted: u64,
        /// How much the operation needed when it was refused.
        wanted: u64,
    },
    /// A capability is missing, revoked or used up.
    NotAllowed(CapError),
    /// There is no stack left for what the task needs.
    OutOfStacks {
        /// What was asked for, and the way out.
        what: Arc<str>,
    },
    /// No task in a seeded run could continue, and no timer was set. Everything is cancelled because of it; what waits
    /// behind a [`shield`](crate::shield) as well, if nothing else ends it.
    Deadlock {
        /// Which tasks wait on a stack of their own; futures are not among them.
        waiting: Arc<[TaskLabel]>,
        /// The seed of the run.
        seed: u64,
    },
    /// A seeded run took too many steps.
    StepLimit {
        /// How many it took.
        steps: u64,
        /// The seed of the run.
        seed: u64,
    },
    /// A replayed run did not do what the recorded one did.
    Diverged {
        /// At which decision, counting from 0.
        at: usize,
        /// What was decided there.
        expected: Arc<str>,
        /// What there was to decide now.
        found: Arc<str>,
    },
    /// A spawn came after the nursery stopped taking tasks.
    NurseryNotActive {
        /// What state it was in.
        state: NurseryState,
    },
}

/// Which task it was.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskLabel {
    /// Its number.
    pub id: TaskId,
    /// Its name, if it was given one.
    pub name: Option<Arc<str>>,
    /// Where it was spawned.
    pub spawned_at: &'static Location<'static>,
}

impl TaskError {
    pub(crate) fn new(reason: Reason, task: Option<TaskLabel>) -> Self {
        Self(Arc::new(Inner { reason, task, nursery: None, others: Vec::new(), mark: None }))
    }

    /// An error with this message.
    pub fn msg(message: impl Into<String>) -> Self {
        Self::from(Message(message.into()))
    }

    pub(crate) fn of_task(self, task: &TaskLabel) -> Self {
        match &self.0.task {
            Some(_) => self,
            None => self.with(|inner| inner.task = Some(task.clone())),
        }
    }

    /// Says which nursery it comes from.
    pub(crate) fn of_nursery(self, name: Option<&Arc<str>>) -> Self {
        match name {
            None => self,
            Some(name) => self.with(|inner| inner.nursery = Some(name.clone())),
        }
    }

    /// Another error that is like this one but for `change`.
    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// Whether it is the very same failure, not just one like it.
    pub(crate) fn is_same(&self, other: &TaskError) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn with_others(self, others: Vec<TaskError>) -> Self {
        if others.is_empty() {
            return self;
        }
        self.with(|inner| inner.others = others)
    }

    /// What is attached to it.
    pub(crate) fn mark(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.0.mark.as_deref()
    }

    /// The nursery that reports it, if it has a name.
    pub(crate) fn nursery(&self) -> Option<&str> {
        self.0.nursery.as_deref()
    }

    pub(crate) fn with_mark(self, mark: Arc<dyn Any + Send + Sync>) -> Self {
        self.with(|inner| inner.mark = Some(mark))
    }

    /// The same with more failures, after those it has.
    pub(crate) fn and_others(self, more: Vec<TaskError>) -> Self {
        if more.is_empty() {
            return self;
        }
        let others = self.others().iter().cloned().chain(more).collect();
        self.with_others(others)
    }

    /// What happened.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Which task it happened to, if it was one.
    pub fn task(&self) -> Option<&TaskLabel> {
        self.0.task.as_ref()
    }

    /// What else failed in the same nursery, in the order it happened.
    pub fn others(&self) -> &[TaskError] {
        &self.0.others
    }

    /// Whether it is the consequence of a cancellation rather than a failure of its own.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.reason(), Reason::Cancelled)
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.reason(), Reason::Panicked { .. })
    }

    /// The error the task returned, if it is an `E`.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match self.reason() {
            Reason::Failed(error) => error.downcast_ref(),
            _ => None,
        }
    }

    /// A boxed error as the error of a task. One that a task's error [became](Self::into_boxed) is that error again.
    pub fn from_boxed(error: Box<dyn Error + Send + Sync>) -> Self {
        unboxed(error).unwrap_or_else(|error| Self::new(Reason::Failed(Arc::from(error)), None))
    }

    /// This error as a standard one, whose [`source`](Error::source) is the error the task returned.
    pub fn into_boxed(self) -> Box<dyn Error + Send + Sync> {
        self.into()
    }
}

impl Reason {
    /// The name of the kind of failure.
    pub fn name(&self) -> &'static str {
        match self {
            Reason::Panicked { .. } => "Panicked",
            Reason::Failed(_) => "Failed",
            Reason::Cancelled => "Cancelled",
            Reason::CpuTimeSpent { .. } => "CpuTimeSpent",
            Reason::DeadlineExceeded { .. } => "DeadlineExceeded",
            Reason::StackOverflow { .. } => "StackOverflow",
            Reason::BudgetExhausted { component, .. } => match component {
                Component::Ops => "OpsBudgetExhausted",
                Component::Memory => "MemoryBudgetExhausted",
                Component::Spawns => "SpawnBudgetExhausted",
                Component::ChannelOps => "ChannelBudgetExhausted",
                Component::Syscalls => "SyscallBudgetExhausted",
            },
            Reason::NotAllowed(error) => match error {
                CapError::NoSpawnCapability => "NoSpawnCapability",
                CapError::NoBudgetCapability => "NoBudgetCapability",
                CapError::NoChannelCapability => "NoChannelCapability",
                CapError::TaskLimitExceeded { .. } => "TaskLimitExceeded",
                CapError::ChannelLimitExceeded { .. } => "ChannelLimitExceeded",
                CapError::NoExecutorCapability => "NoExecutorCapability",
                CapError::BudgetLimitExceeded { .. } => "BudgetLimitExceeded",
                CapError::ExecutorLimitExceeded { .. } => "ExecutorLimitExceeded",
                CapError::NotDelegatable { .. } => "NotDelegatable",
                CapError::Revoked { .. } => "Revoked",
                CapError::Stale { .. } => "Stale",
                CapError::Foreign => "Foreign",
                _ => "NotAllowed",
            },
            Reason::Deadlock { .. } => "Deadlock",
            Reason::StepLimit { .. } => "StepLimit",
            Reason::Diverged { .. } => "Diverged",
            Reason::OutOfStacks { .. } => "OutOfStacks",
            Reason::NurseryNotActive { .. } => "NurseryNotActive",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Panicked { message, location: Some(at) } => write!(f, "panicked at {at}: {message}"),
            Reason::Panicked { message, location: None } => write!(f, "panicked: {message}"),
            Reason::Failed(error) => write!(f, "failed: {error}"),
            Reason::Cancelled => f.write_str("cancelled"),
            Reason::CpuTimeSpent { budget, period } => write!(
                f,
                "its {budget:?} of CPU time in every {period:?} were spent; give the context more, or let it throttle: `on_overrun(Overrun::Throttle)`"
            ),
            Reason::DeadlineExceeded { after } => {
                write!(f, "the deadline of {after:?} passed; give the nursery more time or less work")
            }
            Reason::StackOverflow { stack_bytes } => write!(
                f,
                "overflowed its stack of {stack_bytes} bytes; recurse less deeply or give the task more: \
                 `n.task().stack_bytes({})`",
                stack_bytes * 2
            ),
            Reason::BudgetExhausted { component: Component::Spawns, granted, .. } => write!(
                f,
                "{}: the nursery has spawned the {granted} tasks it may; raise `NurseryOptions::spawn_limit`, or the spawns of its budget or of its capability",
                self.name()
            ),
            Reason::BudgetExhausted { component, granted: 0, wanted } => write!(
                f,
                "{}: got none of the {wanted} {component} it needs: none were granted, or others have spent the pool of its nursery; grant more with \
                 `NurseryOptions::budget` or `task_budget`, or let it recharge",
                self.name()
            ),
            Reason::BudgetExhausted { component, granted, wanted } => write!(
                f,
                "{}: spent its {component} ({granted} granted, {wanted} more needed); grant more with `NurseryOptions::budget` or \
                 `task_budget`, or let it recharge",
                self.name()
            ),
            Reason::NotAllowed(error) => write!(f, "{}: {error}", self.name()),
            Reason::OutOfStacks { what } => f.write_str(what),
            Reason::Deadlock { waiting, seed } => {
                f.write_str("deadlock: nothing can go on, and no timer is set; ")?;
                match waiting.len() {
                    0 => f.write_str("no fiber waits, but the body of the run, or a future")?,
                    1 => f.write_str("1 task waits")?,
                    n => write!(f, "{n} tasks wait")?,
                }
                for (at, task) in waiting.iter().take(MAX_LISTED).enumerate() {
                    write!(f, "{} {task}", if at == 0 { ":" } else { "," })?;
                }
                f.write_str(if waiting.len() > MAX_LISTED { ", …" } else { "" })?;
                write!(f, "; seed {seed} shows it again")
            }
            Reason::StepLimit { steps, seed } => write!(
                f,
                "not done after {steps} steps: a livelock, or more work than `max_steps` allows; seed {seed} shows it again"
            ),
            Reason::Diverged { at, expected, found } => diverged(f, *at, expected, found),
            Reason::NurseryNotActive { state } => {
                write!(f, "the nursery is {state} and takes no more tasks; spawn before it is closed")
            }
        }
    }
}

/// The limit of tasks that are named in a deadlock.
const MAX_LISTED: usize = 8;

fn diverged(f: &mut fmt::Formatter<'_>, at: usize, expected: &str, found: &str) -> fmt::Result {
    write!(
        f,
        "the replay left its trace at decision {at}: {expected} expected, found {found}; the program, its input or the \
         number of workers is not what it was"
    )
}

impl fmt::Display for TaskLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "task `{name}` ({}, spawned at {})", self.id, self.spawned_at),
            None => write!(f, "task {} (spawned at {})", self.id, self.spawned_at),
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.0.nursery {
            write!(f, "nursery `{name}`: ")?;
        }
        match self.task() {
            Some(task) => write!(f, "{task} {}", self.reason())?,
            None => write!(f, "{}", self.reason())?,
        }
        match self.others().len() {
            0 => Ok(()),
            1 => write!(f, " (and one more: {})", self.others()[0]),
            n => write!(f, " (and {n} more, the next: {})", self.others()[0]),
        }
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug)]
struct Message(String);

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Message {}

impl<E: Error + Send + Sync + 'static> From<E> for TaskError {
    fn from(error: E) -> Self {
        let mut error = Some(error);
        // Decided when this is compiled: a run that failed because of its task has the error of the task.
        let run = (&mut error as &mut dyn Any).downcast_mut::<Option<RunError>>();
        match run.and_then(|run| run.take_if(|run| matches!(run, RunError::Task(_)))) {
            Some(RunError::Task(error)) => error,
            _ => Self::new(Reason::Failed(Arc::new(error.expect("only the error of a task is taken out"))), None),
        }
    }
}

/// A [`TaskError`] as a standard error.
#[derive(Debug)]
struct Boxed(TaskError);

impl fmt::Display for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Boxed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.0.reason() {
            Reason::Failed(error) => Some(&**error),
            _ => None,
        }
    }
}

impl From<TaskError> for Box<dyn Error + Send + Sync> {
    fn from(error: TaskError) -> Self {
        Box::new(Boxed(error))
    }
}

impl From<TaskError> for Box<dyn Error> {
    fn from(error: TaskError) -> Self {
        Box::new(Boxed(error))
    }
}

/// The error of a task that `error` stands for, if it does.
pub(crate) fn unboxed(error: Box<dyn Error + Send + Sync>) -> Result<TaskError, Box<dyn Error + Send + Sync>> {
    let error = match error.downcast::<Boxed>() {
        Ok(boxed) => return Ok(boxed.0),
        Err(error) => error,
    };
    match error.downcast::<RunError>() {
        Ok(run) => match *run {
            RunError::Task(error) => Ok(error),
            other => Err(Box::new(other)),
        },
        Err(error) => Err(error),
    }
}

/// Why [`crate::Runtime::run`] has no result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RunError {
    /// The root task did not succeed.
    Task(TaskError),
    /// The runtime could not be made.
    Build(BuildError),
    /// This process is a fork of the one that made the runtime, and forks have no workers.
    Forked {
        /// The process that has the workers.
        parent: u32,
    },
    /// A replayed run did not do what the recorded one did.
    Diverged {
        /// At which decision, counting from 0.
        at: usize,
        /// What was decided there.
        expected: Arc<str>,
        /// What there was to decide now.
        found: Arc<str>,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Task(error) => error.fmt(f),
            RunError::Build(error) => error.fmt(f),
            RunError::Diverged { at, expected, found } => diverged(f, *at, expected, found),
            RunError::Forked { parent } => write!(
                f,
                "this runtime's workers live in process {parent}, of which this one is a fork; build a new runtime after `fork`"
            ),
        }
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.task_error()?.reason() {
            Reason::Failed(error) => Some(&**error),
            _ => None,
        }
    }
}

impl RunError {
    /// The error of the root task, if that did not succeed.
    pub fn task_error(&self) -> Option<&TaskError> {
        match self {
            RunError::Task(error) => Some(error),
            _ => None,
        }
    }

    /// The error the root task returned, if it is an `E`.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.task_error()?.downcast_ref()
    }
}

impl From<TaskError> for RunError {
    fn from(error: TaskError) -> Self {
        RunError::Task(error)
    }
}

impl From<BuildError> for RunError {
    fn from(error: BuildError) -> Self {
        RunError::Build(error)
    }
}
