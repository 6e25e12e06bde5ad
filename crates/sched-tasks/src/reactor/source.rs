//! One socket as the reactor knows it, and how a task waits for it.
//!
//! Room: driver. Knows edges and turns; knows nothing of addresses.
//!
//! # Invariant
//! A cancellation interrupts a wait, never what was done: the result of an operation is returned at once.
//!
//! # Why it holds
//! An operation is tried; if it would block, the task waits until there was an edge since and tries again. Only the wait, and the moment before the first try, is a checkpoint.

use std::{
    future::poll_fn,
    io::{self, ErrorKind},
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use mech_sync::{Edge, Readiness, WaitToken};

use super::{REACTOR, reactor};
use crate::{
    kernel::clock,
    strand::{self, Strand, future_wait::FutureWait, room},
    wait::{self, End},
};

pub(super) struct Source {
    pub(super) key: usize,
    pub(super) read: Readiness<Waiting>,
    pub(super) write: Readiness<Waiting>,
}

/// Who waits for an edge.
#[derive(Debug)]
pub(super) enum Waiting {
    Token(WaitToken),
    /// A future that has the socket to itself.
    Waker(Waker),
}

/// What a socket is to be ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Source {
    pub(super) fn new(key: usize) -> Self {
        Self { key, read: Readiness::new(), write: Readiness::new() }
    }

    fn side(&self, direction: Direction) -> &Readiness<Waiting> {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }
}

impl Waiting {
    fn is(&self, token: WaitToken) -> bool {
        matches!(self, Waiting::Token(other) if other.is_same(token))
    }
}

/// A socket that carries a stream of bytes.
pub(crate) trait ByteStream {
    /// Whether a read that gets less than it asked for has emptied the socket. Out-of-band data stops a read, too, but its edge tells so.
    const SHORT_READ_EMPTIES: bool;
}

impl ByteStream for std::net::TcpStream {
    const SHORT_READ_EMPTIES: bool = true;
}

impl ByteStream for std::os::unix::net::UnixStream {
    /// A read stops where descriptors or other credentials were sent along.
    const SHORT_READ_EMPTIES: bool = false;
}

/// A socket whose events are watched.
pub(crate) struct Registered<T: AsFd> {
    source: Arc<Source>,
    io: T,
}

impl<T: AsFd> Registered<T> {
    /// Watches a socket that does not block.
    pub(crate) fn new(io: T) -> io::Result<Self> {
        let source = reactor()?.register(&io)?;
        Ok(Self { source, io })
    }

    pub(crate) fn get_ref(&self) -> &T {
        &self.io
    }

    /// One read of at most `wanted` bytes, as part of an operation. Where the socket allows the conclusion, one that gets less has emptied it, and the next one waits without trying.
    #[inline]
    pub(crate) fn read_stream(&self, wanted: usize, read: impl FnOnce(&T) -> io::Result<usize>) -> io::Result<usize>
    where
        T: ByteStream,
    {
        let is_short =
            |count: &io::Result<usize>| T::SHORT_READ_EMPTIES && matches!(*count, Ok(got @ 1..) if got < wanted);
        self.source.read.read(|| read(&self.io), is_short)
    }

    /// Does `operation` for a task or thread, which waits while it would block, but no longer than `limit`: then it is [`ErrorKind::TimedOut`].
    pub(crate) fn run<R>(
        &self,
        direction: Direction,
        limit: Option<Duration>,
        operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        charge();
        refuse_seeded()?;
        take_turns();
        self.run_paid(direction, limit, operation)
    }

    /// The same for what was paid.
    pub(crate) fn run_paid<R>(
        &self,
        direction: Direction,
        limit: Option<Duration>,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let side = self.source.side(direction);
        let mut deadline = None;
        loop {
            let seen = side.edge();
            if !side.is_emptied(seen) {
                match operation(&self.io) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    done => return done,
                }
            }
            if let Some(limit) = limit
                && deadline.is_none()
            {
                deadline = Some(clock::due(limit));
            }
            if strand::with(|strand| wait_for_edge(strand, side, seen, deadline)) == End::TimedOut {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// Does `operation` for a future that has this direction to itself: a later call replaces its waker. `paid` says whether the operation was paid by an earlier call.
    pub(crate) fn poll<R>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        paid: &mut bool,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let side = self.source.side(direction);
        self.poll_with(cx, paid, direction, &mut operation, |seen, cx| {
            let waker = Waiting::Waker(cx.waker().clone());
            let replaced = side.wait_instead(seen, waker, |old| matches!(old, Waiting::Waker(_)));
            replaced.is_ok() // what it replaces is dropped here, outside the lock
        })
    }

    /// Does `operation` for one of several futures.
    pub(crate) async fn run_async<R>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let side = self.source.side(direction);
        let (mut enlisted, mut paid) = (None::<Enlisted<'_>>, false);
        poll_fn(|cx| {
            if let Some(waiting) = &enlisted
                && !waiting.wait.poll(cx.waker())
            {
                return Poll::Pending;
            }
            enlisted = None;
            self.poll_with(cx, &mut paid, direction, &mut operation, |seen, cx| {
                let wait = FutureWait::begin(cx.waker());
                let is_waiting = side.wait(seen, Waiting::Token(wait.token())).is_ok();
                enlisted = is_waiting.then_some(Enlisted { side, wait });
                is_waiting
            })
        })
        .await
    }

    fn poll_with<R>(
        &self,
        cx: &mut Context<'_>,
        paid: &mut bool,
        direction: Direction,
        operation: &mut impl FnMut(&T) -> io::Result<R>,
        mut wait: impl FnMut(Edge, &mut Context<'_>) -> bool,
    ) -> Poll<io::Result<R>> {
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        refuse_seeded()?;
        if !std::mem::replace(paid, true) {
            strand.charge_syscall();
        }
        let side = self.source.side(direction);
        loop {
            let seen = side.edge();
            if !side.is_emptied(seen) {
                match operation(&self.io) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    done => {
                        *paid = false; // the next one is charged again
                        strand.turn.count();
                        return Poll::Ready(done);
                    }
                }
            }
            if wait(seen, cx) {
                return Poll::Pending;
            }
        }
    }
}

/// A future's place in a list, which it leaves when it is dropped.
struct Enlisted<'a> {
    side: &'a Readiness<Waiting>,
    wait: FutureWait,
}

impl Drop for Enlisted<'_> {
    fn drop(&mut self) {
        let _room = room::to_drop();
        let token = self.wait.token();
        self.side.leave(|waiting| waiting.is(token));
    }
}

impl<T: AsFd> Drop for Registered<T> {
    fn drop(&mut self) {
        let _room = room::to_drop();
        let reactor = REACTOR.get().expect("it was registered");
        reactor.deregister(&self.source, &self.io);
    }
}

impl<T: AsFd> AsFd for Registered<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl<T: AsFd + std::fmt::Debug> std::fmt::Debug for Registered<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.io.fmt(f)
    }
}

/// Stops until there was an edge since `seen`. Unwinds if the task is cancelled.
fn wait_for_edge(strand: &Strand, side: &Readiness<Waiting>, seen: Edge, deadline: Option<Instant>) -> End {
    let token = strand.waiter.token();
    if side.wait(seen, Waiting::Token(token)).is_err() {
        token.withdraw(); // it was in no list
        return End::Claimed(0);
    }
    let end = wait::wait(strand, token, deadline);
    match end {
        End::Claimed(_) => {}
        End::TimedOut => _ = side.leave(|waiting| waiting.is(token)),
        End::Cancelled => {
            side.leave(|waiting| waiting.is(token));
            strand.unwind();
        }
    }
    end
}

/// Every operation on a socket begins here: the one function that charges the task for it.
#[inline]
pub(crate) fn charge() {
    strand::with(|strand| {
        strand.ensure_room();
        strand.charge_syscall();
    });
}

/// A checkpoint, and now and then a yield: a peer that is always ready must not keep the worker busy. It counts as two
/// operations, because it calls the system.
fn take_turns() {
    strand::with(|strand| {
        strand.turn.count();
        strand.checkpoint(); // the operation is paid already
    });
}

/// Refuses a seeded run: a seed cannot reproduce what comes from outside.
pub(crate) fn refuse_seeded() -> io::Result<()> {
    match strand::with(Strand::shared).is_some_and(|shared| shared.seeded.is_some()) {
        true => Err(io::Error::new(
            ErrorKind::Unsupported,
            "a seeded run has no sockets, since no seed could repeat what the network does; use a channel in their place",
        )),
        false => Ok(()),
    }
}
