//! One direction of a socket: who waits until it is ready, where the system tells only that it has become so.
//!
//! Room: mechanism. Knows edges and who waits for one; knows nothing of sockets.
//!
//! A socket is tried first. If it would block, its user waits for the next *edge*: the moment at which the system says that the socket has become ready
//! (`EPOLLET`). A socket that stays ready has no further edge, so a user that has not seen the last one must not wait for another.
//!
//! A read that got less than it asked for has emptied the socket. Until the next edge another try would be in vain: who reads then waits at once.
//!
//! # Invariants
//! - An edge that comes after a socket was found not ready ends the wait for it, whether it comes before the wait begins or after.
//! - A socket that will stay ready, since its peer has closed it or it has failed, is always tried.
//!
//! # Why it holds
//! A user does *read `edges`, try the socket, lock, compare `edges`, join the list*. The poller does *lock, add to `edges`, take the list*. Both hold the lock when they
//! meet: the poller's first, and the user finds another number and tries again; the user's first, and the poller finds it in the list. An edge before the user
//! read `edges` came before it tried the socket, and the socket was ready then, or was emptied since by another user, who has waited or will wait for an edge of its own.
//!
//! `emptied` holds the number of edges that was read before the read that emptied the socket. What comes after that read makes another edge, and then the numbers differ. What the last edge said to stay
//! is one bit of the same number.
//!
//! Checked by `tests/loom/readiness.rs`: a user that does not compare, or an edge that is not counted, fails `an_edge_is_seen_or_ends_the_wait`; one that notes the number after its read fails
//! `what_comes_after_a_short_read_is_read`, and a bit that the next edge takes away fails `the_end_of_a_stream_is_read`.

use crate::{
    spin::SpinLock,
    sync::{
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
        or_planted,
    },
};

/// Those that wait for the next edge.
#[derive(Debug)]
pub struct Readiness<W> {
    /// Twice their number, and one if the socket stays ready. Written under the lock.
    edges: AtomicU64,
    /// What `edges` was before the read that emptied the socket.
    emptied: AtomicU64,
    waiting: SpinLock<Waiting<W>>,
}

/// Mostly one waits at a time: no memory is taken for it.
#[derive(Debug)]
struct Waiting<W> {
    first: Option<W>,
    more: Vec<W>,
}

/// In `edges`: the socket stays ready.
const STAYS: u64 = 1;
/// In `emptied`: it was not.
const NOT_EMPTIED: u64 = STAYS;

/// How many edges there were when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge(u64);

/// What an edge says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasts {
    /// It is ready, until it is emptied.
    UntilEmptied,
    /// It stays ready: it was closed or has failed.
    ForEver,
}

impl<W> Default for Readiness<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W> Readiness<W> {
    /// None waits.
    pub fn new() -> Self {
        Self {
            edges: AtomicU64::new(0),
            emptied: AtomicU64::new(NOT_EMPTIED),
            waiting: SpinLock::new(Waiting { first: None, more: Vec::new() }),
        }
    }

    /// To be asked before the socket is tried.
    #[inline]
    pub fn edge(&self) -> Edge {
        Edge(self.edges.load(Acquire))
    }

    /// Whether the socket was emptied since the last edge: then it need not be tried.
    #[inline]
    pub fn is_emptied(&self, seen: Edge) -> bool {
        seen.0 & STAYS == 0 && self.emptied.load(Relaxed) == seen.0
    }

    /// Reads from the socket. `is_short` says whether that has emptied it.
    #[inline]
    pub fn read<R>(&self, read: impl FnOnce() -> R, is_short: impl FnOnce(&R) -> bool) -> R {
        let seen = self.edge();
        let result = read();
        if is_short(&result) {
            self.emptied.store(or_planted!(seen.0, "emptied-noted-late" => self.edge().0), Relaxed);
        }
        result
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
    #[inline]
    pub fn ready(&self, lasts: Lasts) -> Woken<W> {
        let mut waiting = self.waiting.lock();
        let before =
            or_planted!(self.edges.load(Relaxed), "stays-until-next-edge" => self.edges.load(Relaxed) & !STAYS);
        let stays = before | if lasts == Lasts::ForEver { STAYS } else { 0 };
        self.edges.store(stays.wrapping_add(or_planted!(2, "edge-not-counted" => 0)), Release);
        Woken { first: waiting.first.take(), more: take_any(&mut waiting.more) }
    }
}

/// Those that waited for an edge, in the order in which they came.
#[derive(Debug)]
pub struct Woken<W> {
    first: Option<W>,
    more: Option<std::vec::IntoIter<W>>,
}

#[inline]
fn take_any<W>(list: &mut Vec<W>) -> Option<std::vec::IntoIter<W>> {
    if list.is_empty() { None } else { Some(std::mem::take(list).into_iter()) }
}

impl<W> Iterator for Woken<W> {
    type Item = W;

    #[inline]
    fn next(&mut self) -> Option<W> {
        self.first.take().or_else(|| self.more.as_mut()?.next())
    }
}
