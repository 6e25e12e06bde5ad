//! Errors of tasks, jobs and nodes convert into each other, so `?` works in all three.
//!
//! Room: values. Knows errors; knows nothing of schedulers.
//!
//! # Invariant
//! No conversion loses the original error: [`AnyError::downcast_ref`] finds it after any number of them.
//!
//! # Why it holds
//! An error is kept as it was raised, or as the [`TaskError`] that carries it. A [`TaskError`] keeps what an error of a job or a node says besides (that it is permanent,
//! that it is about one record) as a [mark](mark), which the other error types leave alone.
//!
//! # Rejected
//! One blanket `From` for all three types. A type with a blanket `From` must not itself meet its bound, or it would convert to itself twice. So the bound has a parameter: [`IntoError<Job>`](kind::Job)
//! is met by errors of nodes and [`IntoError<Node>`](kind::Node) by errors of jobs.

use std::{any::Any, error::Error, fmt, sync::Arc};

use crate::error::{self, Reason, TaskError};

/// What an error becomes.
pub mod kind {
    /// An error of a job.
    #[derive(Debug)]
    pub enum Job {}
    /// An error of a node.
    #[derive(Debug)]
    pub enum Node {}
}

/// What `?` turns into an error of this kind: every error type, boxed errors, strings, and the errors of tasks, jobs and nodes.
pub trait IntoError<Kind> {
    #[doc(hidden)]
    fn into_error(self) -> AnyError;
}

impl<Kind, E: Into<Box<dyn Error + Send + Sync>>> IntoError<Kind> for E {
    fn into_error(self) -> AnyError {
        match error::unboxed(self.into()) {
            Ok(error) => AnyError::Task(error),
            Err(error) => AnyError::Other(error),
        }
    }
}

/// An error as jobs and nodes keep it.
pub enum AnyError {
    /// The error of a task, or one that went through a task.
    Task(TaskError),
    /// Any other, as it was raised.
    Other(Box<dyn Error + Send + Sync>),
}

impl AnyError {
    /// The original error, if it is an `E`.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            AnyError::Task(error) => error.downcast_ref(),
            AnyError::Other(error) => error.downcast_ref(),
        }
    }

    /// The error of the task that it comes from.
    pub fn task_error(&self) -> Option<&TaskError> {
        match self {
            AnyError::Task(error) => Some(error),
            AnyError::Other(_) => None,
        }
    }

    /// As the error of a task.
    pub fn into_task_error(self) -> TaskError {
        match self {
            AnyError::Task(error) => error,
            AnyError::Other(error) => TaskError::from_boxed(error),
        }
    }

    /// As a standard error.
    pub fn into_boxed(self) -> Box<dyn Error + Send + Sync> {
        match self {
            AnyError::Task(error) => error.into_boxed(),
            AnyError::Other(error) => error,
        }
    }

    /// What caused it, beyond what it says itself.
    pub fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AnyError::Task(error) => match error.reason() {
                Reason::Failed(error) => error.source(), // the text of the task has what it says
                _ => None,
            },
            AnyError::Other(error) => error.source(),
        }
    }

    /// What a job or a node attached to it before it went through a task.
    pub fn mark<M: Any>(&self) -> Option<&M> {
        self.task_error().and_then(mark)
    }
}

impl fmt::Display for AnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyError::Task(error) => error.fmt(f),
            AnyError::Other(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for AnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyError::Task(error) => fmt::Debug::fmt(error, f),
            AnyError::Other(error) => fmt::Debug::fmt(error, f),
        }
    }
}

/// What is attached to `error`, if it is an `M`.
pub fn mark<M: Any>(error: &TaskError) -> Option<&M> {
    error.mark().and_then(|mark| mark.downcast_ref())
}

/// Attaches `mark` to `error`.
pub fn with_mark(error: TaskError, mark: impl Any + Send + Sync) -> TaskError {
    error.with_mark(Arc::new(mark))
}
