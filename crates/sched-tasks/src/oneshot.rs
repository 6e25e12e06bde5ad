//! A channel for one value.
//!
//! Room: interface.
//!
//! ```text
//!              recv 1               send 2
//!    EMPTY ─────────────► WAITING ─────────────► SENT ──── recv ───► OVER
//!      │  └───────────── send 3 ──────────────────▲                   ▲
//!      └── an end is dropped 4 ───────────────────────────────────────┘
//! ```
//!
//! # Invariant
//! The value goes to the receiver, or back to the sender; and a receiver that waits is woken by the value or by the sender's end.
//!
//! # Why it holds
//! Every step is taken under one lock, and the side that ends a receiver's wait takes its token out and wakes it.

use std::{
    fmt,
    future::{Future, IntoFuture},
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use mech_sync::{SpinLock, WaitToken};

use crate::{
    channel::{RecvError, RecvTimeoutError, SendError, TryRecvError},
    kernel::clock,
    strand::future_wait::FutureWait,
    strand::panics,
    strand::room,
    strand::{self, Strand},
    wait::{self, End},
};

/// A channel for one value.
///
/// ```
/// use bursar::{nursery, sync::oneshot};
///
/// nursery(|n| {
///     let (tx, rx) = oneshot::channel();
///     n.spawn(move || tx.send(42));
///     assert_eq!(rx.recv()?, 42);
///     Ok(())
/// })?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub fn channel<T: Send>() -> (Sender<T>, Receiver<T>) {
    strand::with(Strand::ensure_room);
    let shared = Arc::new(SpinLock::new(State::Empty));
    (Sender { shared: Some(shared.clone()) }, Receiver { shared })
}

enum State<T> {
    Empty,
    Waiting(WaitToken),
    Sent(T),
    Over,
}

type Shared<T> = Arc<SpinLock<State<T>>>;

/// Sends the one value. Dropping it unsent tells the receiver that nothing will come.
pub struct Sender<T> {
    shared: Option<Shared<T>>,
}

/// Receives the one value: [`recv`](Self::recv) it in code that may block, or `.await` it in a future.
#[must_use = "a value that is not received is dropped"]
pub struct Receiver<T> {
    shared: Shared<T>,
}

/// The one value to come; made by `.await` on a [`Receiver`], or by [`Receiver::recv_async`].
#[must_use = "a future does nothing until it is awaited"]
pub struct RecvFuture<T> {
    receiver: Receiver<T>,
    wait: Option<FutureWait>,
}

impl<T> Sender<T> {
    /// Sends `value`; gives it back if the receiver is gone. Never waits.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::oneshot::channel();
    /// drop(rx);
    /// assert_eq!(tx.send(1).unwrap_err().0, 1);
    /// ```
    pub fn send(mut self, value: T) -> Result<(), SendError<T>> {
        strand::with(Strand::pass_by);
        let shared = self.shared.take().expect("a sender has its channel until it sends");
        let waiting = {
            let mut state = shared.lock();
            match &*state {
                State::Over => return Err(SendError(value)),
                State::Empty | State::Waiting(_) => mem::replace(&mut *state, State::Sent(value)),
                State::Sent(_) => unreachable!("one sender sends once"),
            }
        };
        wake(waiting);
        Ok(())
    }

    /// Whether the receiver is gone.
    ///
    /// ```
    /// let (tx, rx) = bursar::sync::oneshot::channel::<u8>();
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| matches!(&*shared.lock(), State::Over))
    }
}

fn wake<T>(state: State<T>) {
    if let State::Waiting(token) = state {
        strand::wake(token, 0);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            let _room = room::to_drop();
            let state = mem::replace(&mut *shared.lock(), State::Over);
            wake(state);
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for the value. Fails if the sender was dropped without sending.
    ///
    /// ```
    /// use bursar::{mpmc::RecvError, sync::oneshot};
    ///
    /// let (tx, rx) = oneshot::channel::<u8>();
    /// drop(tx);
    /// assert_eq!(rx.recv(), Err(RecvError));
    /// ```
    pub fn recv(self) -> Result<T, RecvError> {
        self.until(None).map_err(|_| RecvError)
    }

    /// Waits up to `time` for the value; may be called again if time was up.
    ///
    /// ```
    /// use std::time::Duration;
    /// use bursar::{mpmc::RecvTimeoutError, sync::oneshot};
    ///
    /// let (tx, mut rx) = oneshot::channel();
    /// assert_eq!(rx.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    /// tx.send(1)?;
    /// assert_eq!(rx.recv_timeout(Duration::from_millis(1)), Ok(1));
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn recv_timeout(&mut self, time: Duration) -> Result<T, RecvTimeoutError> {
        self.until(Some(clock::due(time)))
    }

    /// Takes the value if it is there.
    ///
    /// ```
    /// use bursar::{mpmc::TryRecvError, sync::oneshot};
    ///
    /// let (tx, mut rx) = oneshot::channel();
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(1)?;
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Closed)); // there was only one
    /// # Ok::<(), bursar::mpmc::SendError<i32>>(())
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        strand::with(Strand::take_turn);
        self.take()
    }

    /// Waits for the value in a future; the same as `.await` on the receiver itself.
    ///
    /// ```
    /// use bursar::{nursery, sync::oneshot};
    ///
    /// nursery(|n| {
    ///     let (tx, rx) = oneshot::channel();
    ///     let echo = n.spawn_async(async move { rx.await });
    ///     tx.send("hello")?;
    ///     assert_eq!(echo.join()?, Ok("hello"));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), bursar::TaskError>(())
    /// ```
    pub fn recv_async(self) -> RecvFuture<T> {
        RecvFuture { receiver: self, wait: None }
    }

    fn take(&self) -> Result<T, TryRecvError> {
        let mut state = self.shared.lock();
        match &*state {
            State::Empty => Err(TryRecvError::Empty),
            State::Over => Err(TryRecvError::Closed),
            State::Sent(_) => match mem::replace(&mut *state, State::Over) {
                State::Sent(value) => Ok(value),
                _ => unreachable!("it was there under this lock"),
            },
            State::Waiting(_) => unreachable!("a receiver that waits takes nothing"),
        }
    }

    /// Leaves a token for the sender. False if there is something to take.
    fn enlist(&self, token: WaitToken) -> bool {
        let mut state = self.shared.lock();
        let must_wait = matches!(&*state, State::Empty);
        if must_wait {
            *state = State::Waiting(token);
        }
        must_wait
    }

    /// Takes the token back.
    fn leave(&self) {
        let mut state = self.shared.lock();
        if matches!(&*state, State::Waiting(_)) {
            *state = State::Empty;
        }
    }

    fn until(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        strand::with(|strand| {
            strand.checkpoint();
            let token = strand.waiter.token();
            let mut timed_out = false;
            if self.enlist(token) {
                match wait::wait(strand, token, deadline) {
                    End::Claimed(_) => {}
                    End::TimedOut => timed_out = true,
                    End::Cancelled => {
                        self.leave();
                        strand.unwind();
                    }
                }
            }
            if timed_out {
                self.leave();
            }
            match self.take() {
                Ok(value) => Ok(value),
                Err(TryRecvError::Closed) => Err(RecvTimeoutError::Closed),
                Err(TryRecvError::Empty) => Err(RecvTimeoutError::Timeout),
            }
        })
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let _room = room::to_drop();
        let state = mem::replace(&mut *self.shared.lock(), State::Over);
        panics::drop_contained(state); // not under the lock: a value that came too late may have a destructor
    }
}

impl<T> IntoFuture for Receiver<T> {
    type Output = Result<T, RecvError>;
    type IntoFuture = RecvFuture<T>;

    fn into_future(self) -> RecvFuture<T> {
        self.recv_async()
    }
}

impl<T> Future for RecvFuture<T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        if self.wait.is_none() {
            let wait = FutureWait::begin(cx.waker());
            if self.receiver.enlist(wait.token()) {
                self.wait = Some(wait);
            }
        }
        if self.wait.as_ref().is_some_and(|wait| !wait.poll(cx.waker())) {
            return Poll::Pending;
        }
        self.wait = None;
        strand.turn.count();
        Poll::Ready(self.receiver.take().map_err(|_| RecvError))
    }
}

impl<T> Unpin for RecvFuture<T> {}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for RecvFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvFuture").field("waiting", &self.wait.is_some()).finish_non_exhaustive()
    }
}
