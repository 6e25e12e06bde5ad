//! Waiting for a channel in a future.
//!
//! Room: driver.
//!
//! # Invariant
//! A future that is dropped has sent or received its value, or has left the channel as if it had never asked.
//!
//! # Why it holds
//! Its wait is claimed or taken back, by one CAS. Taken back: the token is off the list and an offered value is back in
//! the future. Claimed: the claim is passed on to the next waiter.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::{
    core::Core,
    error::{RecvError, SendError, TryRecvError, TrySendError},
};
use crate::{strand, strand::future_wait::FutureWait, strand::room};

/// A value on its way into a channel; made by [`Sender::send_async`](super::Sender::send_async).
#[must_use = "a future does nothing until it is awaited"]
pub struct SendFuture<'a, T> {
    core: &'a Core<T>,
    slot: Option<T>,
    stage: Stage,
}

/// A value to come; made by [`Receiver::recv_async`](super::Receiver::recv_async). Polled again, it is for the next value.
#[must_use = "a future does nothing until it is awaited"]
pub struct RecvFuture<'a, T> {
    core: &'a Core<T>,
    stage: Stage,
}

/// How far one is.
enum Stage {
    /// Its task was not charged for it.
    Begun,
    Paid,
    Waits(FutureWait),
}

impl Stage {
    /// Charges the task, if it was not.
    fn pay(&mut self, strand: &strand::Strand) {
        if matches!(self, Self::Begun) {
            *self = Self::Paid;
            strand.charge_channel_op();
        }
    }

    fn waits(&self) -> bool {
        matches!(self, Self::Waits(_))
    }

    /// Waits from now on.
    fn wait(&mut self, cx: &Context<'_>) -> &mut FutureWait {
        *self = Self::Waits(FutureWait::begin(cx.waker()));
        let Self::Waits(wait) = self else { unreachable!("just set") };
        wait
    }
}

// The value is moved, never pinned.
impl<T> Unpin for SendFuture<'_, T> {}
impl<T> Unpin for RecvFuture<'_, T> {}

impl<'a, T> SendFuture<'a, T> {
    pub(super) fn new(core: &'a Core<T>, value: T) -> Self {
        Self { core, slot: Some(value), stage: Stage::Begun }
    }
}

impl<'a, T> RecvFuture<'a, T> {
    pub(super) fn new(core: &'a Core<T>) -> Self {
        Self { core, stage: Stage::Begun }
    }
}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // A rendezvous channel holds the value of a sender that waits.
        assert!(
            this.slot.is_some() || this.stage.waits(),
            "`send_async` was polled after its value was sent or given back"
        );
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        this.stage.pay(&strand);
        let polled = this.proceed(cx);
        if polled.is_ready() {
            strand.turn.count();
        }
        polled
    }
}

impl<T> SendFuture<'_, T> {
    fn proceed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError<T>>> {
        let this = self;
        loop {
            if let Stage::Waits(wait) = &this.stage {
                if !wait.poll(cx.waker()) {
                    return Poll::Pending;
                }
                this.core.claimed_send(wait.token(), 0, &mut this.slot);
                this.stage = Stage::Paid;
            }
            let Some(value) = this.slot.take() else { return Poll::Ready(Ok(())) };
            match this.core.try_send(value) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(TrySendError::Closed(value)) => return Poll::Ready(Err(SendError(value))),
                Err(TrySendError::Full(value)) => this.slot = Some(value),
            }
            let wait = this.stage.wait(cx);
            let token = wait.token();
            if this.core.enlist_send(token, 0, &mut this.slot) && wait.withdraw() {
                this.core.leave_send(token, 0, &mut this.slot);
                this.stage = Stage::Paid;
            }
        }
    }
}

impl<T> Drop for SendFuture<'_, T> {
    fn drop(&mut self) {
        if let Stage::Waits(wait) = &mut self.stage {
            let _room = room::to_drop();
            let token = wait.token();
            if wait.withdraw() {
                self.core.leave_send(token, 0, &mut self.slot);
            } else {
                self.core.pass_on_send(token, 0, &mut self.slot);
            }
        }
    }
}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        this.stage.pay(&strand);
        let polled = this.proceed(cx);
        if polled.is_ready() {
            this.stage = Stage::Begun; // polled again, it is for the next value, which is charged again
            strand.turn.count();
        }
        polled
    }
}

impl<T> RecvFuture<'_, T> {
    fn proceed(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        let this = self;
        loop {
            if let Stage::Waits(wait) = &this.stage {
                if !wait.poll(cx.waker()) {
                    return Poll::Pending;
                }
                let value = this.core.claimed_recv(wait.token());
                this.stage = Stage::Paid;
                if let Some(value) = value {
                    return Poll::Ready(Ok(value));
                }
            }
            match this.core.try_recv() {
                Ok(value) => return Poll::Ready(Ok(value)),
                Err(TryRecvError::Closed) => return Poll::Ready(Err(RecvError)),
                Err(TryRecvError::Empty) => {}
            }
            let wait = this.stage.wait(cx);
            let token = wait.token();
            if this.core.enlist_recv(token, 0) && wait.withdraw() {
                this.core.leave_recv(token);
                this.stage = Stage::Paid;
            }
        }
    }
}

impl<T> Drop for RecvFuture<'_, T> {
    fn drop(&mut self) {
        if let Stage::Waits(wait) = &mut self.stage {
            let _room = room::to_drop();
            let token = wait.token();
            if wait.withdraw() {
                self.core.leave_recv(token);
            } else {
                self.core.pass_on_recv(token);
            }
        }
    }
}

impl<T> std::fmt::Debug for SendFuture<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendFuture").field("waiting", &self.stage.waits()).finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for RecvFuture<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecvFuture").field("waiting", &self.stage.waits()).finish_non_exhaustive()
    }
}
