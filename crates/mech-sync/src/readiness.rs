//! One direction of a socket: who waits until it is ready, where the system tells only that it has become so.
//!
//! Room: mechanism. Knows edges and who waits for one; knows nothing of sockets.
//!
//! A socket is tried first. If it would block, its user waits for the next *edge*: the moment at which the system says that the socket has become ready
//! (`EPOLLET`). A socket that stays ready has no further edge, so a user that has not seen the last one must not wait for another.
//!
//! # Invariant
//! An edge that comes after a socket was found not ready ends the wait for it, whether it comes before the wait begins or after.
//!
//! # Why it holds
//! A user does *read `edges`, try the socket, lock, compare `edges`, join the list*. The poller does *lock, add to `edges`, take the list*. Both hold the lock when they
//! meet: the poller's first, and the user finds another number and tries again; the user's first, and the poller finds it in the list. An edge before the user
//! read `edges` came before it tried the socket, and the socket was ready then, or was emptied since by another user, who has waited or will wait for an edge of its own.
//!
//! Checked by `tests/loom/readiness.rs`: a user that does not compare, or an edge that is not counted, fails `an_edge_is_seen_or_ends_the_wait`.

use crate::{
    spin::SpinLock,
    sync::{
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Relaxed, Release},
        },
        or_planted,
    },
};

/// Those that wait for the next edge.
#[derive(Debug)]
pub struct Readiness<W> {
    /// Written under the lock.
    edges: AtomicU32,
    waiting: SpinLock<Waiting<W>>,
}

/// Mostly one waits at a time: no memory is taken for it.
#[derive(Debug)]
struct Waiting<W> {
    first: Option<W>,
    more: Vec<W>,
}

/// How many edges there were when it was asked. After 2^32 edges between a question and a wait one more is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge(u32);

impl<W> Default for Readiness<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W> Readiness<W> {
    /// None waits.
    pub fn new() -> Self {
        Self { edges: AtomicU32::new(0), waiting: SpinLock::new(Waiting { first: None, more: Vec::new() }) }
    }

    /// To be asked before the socket is tried.
    #[inline]
    pub fn edge(&self) -> Edge {
        Edge(self.edges.load(Acquire))
    }

    /// Waits for the next edge. If there was one since `seen` it comes back: the socket is to be tried again.
    pub fn wait(&self, seen: Edge, waiter: W) -> Result<(), W> {
        let mut waiting = self.waiting.lock();
        if or_planted!(self.edges.load(Relaxed) != seen.0, "wait-without-compare" => false) {
            return Err(waiter);
        }
        match &waiting.first {
            None => waiting.first = Some(waiter),
            Some(_) => waiting.more.push(waiter),
        }
        Ok(())
    }

    /// The same in place of one that `is_old`, which is returned.
    pub fn wait_instead(&self, seen: Edge, waiter: W, is_old: impl Fn(&W) -> bool) -> Result<Option<W>, W> {
        let mut waiting = self.waiting.lock();
        if self.edges.load(Relaxed) != seen.0 {
            return Err(waiter);
        }
        let Waiting { first, more } = &mut *waiting;
        if let Some(old) = first.iter_mut().chain(more.iter_mut()).find(|old| is_old(old)) {
            return Ok(Some(std::mem::replace(old, waiter)));
        }
        match first {
            None => *first = Some(waiter),
            Some(_) => more.push(waiter),
        }
        Ok(None)
    }

    /// One does not wait any more.
    pub fn leave(&self, is_it: impl Fn(&W) -> bool) -> Option<W> {
        let mut waiting = self.waiting.lock();
        if waiting.first.as_ref().is_some_and(&is_it) {
            return waiting.first.take();
        }
        let at = waiting.more.iter().position(is_it)?;
        Some(waiting.more.swap_remove(at))
    }

    /// An edge: those that waited for it are to be woken, not under a lock of the caller.
    #[must_use = "they wait for ever if they are not woken"]
    pub fn ready(&self) -> impl Iterator<Item = W> + use<W> {
        let mut waiting = self.waiting.lock();
        let edges = self.edges.load(Relaxed).wrapping_add(or_planted!(1, "edge-not-counted" => 0));
        self.edges.store(edges, Release);
        let (first, more) = (waiting.first.take(), std::mem::take(&mut waiting.more));
        first.into_iter().chain(more)
    }
}
