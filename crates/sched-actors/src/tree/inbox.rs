//! The inputs of a supervisor, and the inbox through which they come.
//!
//! Room: values.
//!
//! # Invariant
//! Every request gets an answer, also from a supervisor that ends meanwhile.
//!
//! # Why it holds
//! A request carries the sender of its answer. A request that is dropped with the inbox of a supervisor that has ended
//! drops that sender, and the caller sees that.

use std::sync::Arc;

use sched_tasks::{Sender, TaskError, internals, oneshot};

use super::child::Child;
use crate::error::SupervisorError;

/// An input of a supervisor.
pub(crate) enum Input<'a> {
    /// About a child, if it is still this incarnation of it.
    Child { id: u64, serial: u64, report: ChildReport },
    /// From a [`SupervisorHandle`].
    Request(Request<'a>),
    /// Its signal was sent, or its last handle dropped: check again.
    Recheck,
}

/// What a supervisor observes of a child.
pub(crate) enum ChildReport {
    /// It is ready.
    Started,
    /// It has ended.
    Ended { outcome: Result<(), TaskError> },
}

pub(crate) type Reply = oneshot::Sender<Result<(), SupervisorError>>;

pub(crate) enum Request<'a> {
    Start(Child<'a>, Reply),
    StopChild(Arc<str>, Reply),
    RestartChild(Arc<str>, Reply),
    Stop,
}

/// The inbox as all handles share it. When the last handle is dropped, the supervisor checks again.
pub(crate) struct Inbox<'a>(pub(crate) Sender<Input<'a>>);

impl<'a> Inbox<'a> {
    pub(crate) fn put(&self, input: Input<'a>) -> bool {
        internals::put(&self.0, input)
    }
}

impl Drop for Inbox<'_> {
    fn drop(&mut self) {
        self.put(Input::Recheck);
    }
}
