//! A future that cannot fail, as a task's body that may.
//!
//! Room: mechanism.
//!
//! # Invariant
//! The future inside is pinned as this is.
//!
//! # Why it holds
//! Nothing takes it out, there is no destructor that could, and this is `Unpin` only if the future is.
//!
//! # Why not an `async` block
//! It would hold the future twice: where it was captured, and where it is awaited.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::error::TaskError;

/// Its output is `Ok`.
pub(crate) struct Value<F>(pub(crate) F);

impl<F: Future> Future for Value<F> {
    type Output = Result<F::Output, TaskError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the field is pinned with the whole, see above.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll(cx).map(Ok)
    }
}
