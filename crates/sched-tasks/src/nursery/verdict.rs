//! What fails in a nursery, and what its block is worth in the end.
//!
//! Room: driver. Knows failures; knows nothing of how a task ran.
//!
//! # Invariant
//! What failed first is what the block says; what failed besides is attached to it, and nothing is forgotten but what [`MAX_OTHERS`] cuts off.

use std::any::Any;

use crate::{
    error::{Reason, TaskError},
    kernel::nursery::{NurseryCore, Rare},
    options::OnFailure,
    state::NurseryState,
    strand::panics,
    strand::{Cancellation, Strand},
};

/// Limit of the failures that are kept beside the first; further failures are discarded.
const MAX_OTHERS: usize = 64;

/// How a body ended.
pub(crate) enum Body<T> {
    Returned(Result<T, TaskError>),
    Cancelled,
    Panicked(Box<dyn Any + Send>),
}

impl NurseryCore {
    #[cold]
    pub(super) fn refuse(&self, reason: Reason) -> TaskError {
        let error = TaskError::new(reason, None).of_nursery(self.name.as_ref());
        if !error.is_cancelled() {
            self.child_failed(error.clone());
        }
        error
    }

    /// A child failed: its error is kept, and its siblings are cancelled. An error of one that was dismissed, such as that a channel has no reader any more, is discarded; a
    /// panic is.
    #[cold]
    pub(crate) fn child_failed(&self, error: TaskError) {
        if matches!(error.reason(), Reason::Failed(_)) && self.inner.lock().known().is_some_and(|known| known.dismissed)
        {
            return;
        }
        self.keep_failure(error);
    }

    fn keep_failure(&self, error: TaskError) {
        {
            let mut inner = self.inner.lock();
            let kept = inner.rare();
            if kept.first.is_none() {
                kept.first = Some(error);
            } else if kept.others.len() < MAX_OTHERS {
                kept.others.push(error);
            }
        }
        self.cancel_after_failure();
    }

    fn cancel_after_failure(&self) {
        if self.on_failure == OnFailure::CancelSiblings {
            self.cancel();
        }
    }

    /// The body returned an error, perhaps one that a child's failure gave it.
    pub(crate) fn body_failed(&self, error: &TaskError) {
        let known = {
            let mut inner = self.inner.lock();
            let is_kept = |kept: &mut Rare| kept.first.iter().chain(&kept.others).any(|known| known.is_same(error));
            inner.known().is_some_and(is_kept)
        };
        if error.is_cancelled() {
            // The cancellation of another nursery, handed on: no failure, but a body that gives up does not leave its children behind.
            self.cancel_after_failure();
        } else if !known {
            self.keep_failure(error.clone());
        }
    }

    /// The body was left by unwinding. What failed first is what the block says: a panic after a child's failure is attached to it, and does not go on.
    #[cold]
    pub(crate) fn body_unwound<T>(&self, strand: &Strand, payload: Box<dyn Any + Send>) -> Body<T> {
        if payload.is::<Cancellation>() {
            return Body::Cancelled;
        }
        let is_task = strand.running.get().is_some();
        match payload.downcast::<TaskError>() {
            // On a plain thread there is no task to end with it: the block does.
            Ok(error) if !is_task => {
                self.body_failed(&error);
                Body::Returned(Err(*error))
            }
            Ok(error) => Body::Panicked(error),
            Err(payload) if self.inner.lock().known().is_some_and(|known| known.first.is_some()) => {
                let error = panic_error(strand, payload);
                self.keep_failure(error);
                Body::Cancelled
            }
            Err(payload) => Body::Panicked(payload),
        }
    }

    /// What the block is worth: failed before cancelled before success.
    pub(crate) fn verdict<T>(&self, strand: &Strand, body: Body<T>) -> Result<T, TaskError> {
        let body = match body {
            // Without a look at what was kept: a failure would have cancelled it.
            Body::Returned(returned)
                if self.on_failure == OnFailure::CancelSiblings && self.state() == NurseryState::Closed =>
            {
                return returned;
            }
            body => body,
        };
        let kept = self.inner.lock().take_rare();
        let Rare { first, mut others, cancelled_for, dismissed, .. } = kept.map_or_else(Rare::default, |kept| *kept);
        let cancelled = || {
            let reason = cancelled_for.clone().unwrap_or(Reason::Cancelled);
            TaskError::new(reason, None).of_nursery(self.name.as_ref())
        };
        match (body, first) {
            (Body::Panicked(payload), first) => {
                strand.failed_before.borrow_mut().extend(first.into_iter().chain(others));
                strand.rethrow(payload)
            }
            (Body::Returned(Ok(value)), None) if dismissed || self.state() == NurseryState::Closed => Ok(value),
            (Body::Returned(Err(error)), None) if self.state() == NurseryState::Closed => Err(error),
            (body, first) => {
                // The value is dropped. If its destructor panics, that is one more failure.
                let dropped = panics::drop_apart(body).err().map(|payload| panic_error(strand, payload));
                match (first, dropped) {
                    (Some(first), dropped) => {
                        others.extend(dropped);
                        Err(first.with_others(others))
                    }
                    (None, Some(dropped)) => Err(dropped),
                    (None, None) => Err(cancelled()),
                }
            }
        }
    }
}

/// A panic of the body as an error.
fn panic_error(strand: &Strand, payload: Box<dyn Any + Send>) -> TaskError {
    strand.traces.unwinding().set(false); // it was caught
    let error = TaskError::new(panics::reason(&*payload), strand.label()).and_others(panics::take_others());
    panics::discard(payload);
    error
}
