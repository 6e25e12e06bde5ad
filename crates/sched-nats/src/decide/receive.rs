//! The receiving half: what is handed on, what was seen before, and which packs may be acknowledged.
//!
//! Room: decisions. Knows packs by session and number; knows nothing of sockets, clocks and payloads.
//!
//! # Invariant
//! Each message of a session is handed on once in the life of this process, in order. A pack is acknowledged when all that was handed on from it, and from the packs before it, is finished.
//!
//! # Why it holds
//! Numbers of a session rise without gaps, and what is below the next expected number was handed on. Packs are kept in the order in which they were handed on, each with the count of all messages up to its
//! end; the node finishes in that order.
//!
//! # Gaps
//! A connection that breaks loses packs on their way, and the broker gives later ones first. So after a gap all that is not acknowledged is asked for again, in order. If the gap is still there, the broker
//! does not have these messages: they are counted as missing.
//! The first number that a process sees of a session says nothing of those before it: an earlier process had them, or they were lost. The pack says how many were ([`Lost`]).
//!
//! # Credit
//! [`Receiver::has_credit`] limits the messages and bytes that the next node has not handled. Messages that it handled and holds, as a window does, need no credit: else a window larger than the credit would
//! never fill. They are not acknowledged before it lets them go.

use std::collections::VecDeque;

use crate::decide::lost::Lost;

/// Sessions whose numbers are remembered: a new one begins with each start of the sender.
const SESSIONS: usize = 64;

/// A pack as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Came {
    /// The start of the sender that it belongs to.
    pub(crate) session: u64,
    pub(crate) first: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// An earlier process was given it.
    pub(crate) given_before: bool,
    /// Before it, as its sender knows.
    pub(crate) lost: Lost,
}

/// What becomes of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a pack that is neither handed on nor acknowledged comes again"]
pub(crate) enum Decision {
    /// Hand it on without its first `skip` messages.
    HandOn { skip: u64 },
    /// All of it was finished: acknowledge it once more, and drop it.
    Acknowledge,
    /// It was handed on and is not finished, at this place of the window: drop it, and answer this delivery when it is finished.
    Held { at: usize },
    /// One before it has not come: ask the broker for all that is not acknowledged, from the oldest.
    AskAgain,
}

#[derive(Debug)]
struct Held {
    session: u64,
    first: u64,
    messages: u64,
    bytes: u64,
    /// Messages that were emitted up to its end. None before the node has emitted them.
    until: Option<u64>,
}

/// A session of which packs came.
#[derive(Debug)]
struct Known {
    session: u64,
    /// The number with which it began for this process.
    begin: u64,
    /// The next number.
    next: u64,
    /// Lost before it began here.
    lost: u64,
    /// Of these, counted here: no earlier process told it.
    counted: u64,
    /// Missing since.
    missing: u64,
}

/// Where the newest session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) session: u64,
    /// Messages that came, counted from its first.
    pub(crate) received: u64,
    /// Of these, finished.
    pub(crate) delivered: u64,
    /// Of these, lost: here and before.
    pub(crate) missing: u64,
}

/// The counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) redelivered: u64,
    pub(crate) duplicates: u64,
    pub(crate) missing: u64,
}

/// The window of a receiver.
#[derive(Debug)]
pub(crate) struct Receiver {
    messages: u64,
    bytes: u64,
    /// The newest session last.
    known: VecDeque<Known>,
    /// An earlier process ended, and told what of this session is missing before this number.
    told: Option<(u64, u64)>,
    held: VecDeque<Held>,
    /// So many of the oldest held packs are handled.
    handled: usize,
    /// Messages and bytes of the other held packs.
    out: (u64, u64),
    /// The gap for which the broker was asked again: session, and the number that did not come.
    gap: Option<(u64, u64)>,
    counts: Counts,
}

impl Receiver {
    /// `messages` and `bytes`: the credit.
    pub(crate) fn new(messages: u64, bytes: u64) -> Self {
        Self {
            messages,
            bytes,
            known: VecDeque::new(),
            told: None,
            held: VecDeque::new(),
            handled: 0,
            out: (0, 0),
            gap: None,
            counts: Counts::default(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Of the newest session.
    pub(crate) fn position(&self) -> Option<Position> {
        let known = self.known.back()?;
        let session = known.session;
        let open = self.held.iter().find(|held| held.session == session).map_or(known.next, |held| held.first);
        let missing = known.lost + known.missing;
        Some(Position { session, received: known.next - 1, delivered: open - 1, missing })
    }

    /// An earlier process ended, and told what of this session is missing before this number.
    pub(crate) fn was_told(&mut self, told: Option<(u64, u64)>) {
        self.told = told;
    }

    /// Whether another pack may be handed on.
    pub(crate) fn has_credit(&self) -> bool {
        self.out.0 < self.messages && self.out.1 < self.bytes
    }

    /// A pack came.
    pub(crate) fn came(&mut self, pack: Came) -> Decision {
        let Came { session, first, messages, bytes, given_before, lost } = pack;
        let end = first + messages;
        let known = self.known.iter().position(|known| known.session == session);
        let next = known.map_or(first, |at| self.known[at].next);
        let is_same =
            |held: &Held| held.session == session && held.first == first && (held.messages == 0) == (messages == 0);
        if let Some(at) = self.held.iter().position(is_same) {
            self.counts.duplicates += messages;
            return Decision::Held { at };
        }
        if end <= next && messages > 0 {
            self.counts.duplicates += messages;
            return Decision::Acknowledge;
        }
        if first > next && self.gap.replace((session, next)) != Some((session, next)) {
            return Decision::AskAgain;
        }
        self.gap = None;
        let skip = next.saturating_sub(first).min(messages);
        self.counts.duplicates += skip;
        self.counts.received += messages - skip;
        if given_before {
            self.counts.redelivered += messages - skip;
        }
        let at = known.unwrap_or_else(|| {
            if self.known.len() == SESSIONS {
                self.known.pop_front();
            }
            self.known.push_back(Known { session, begin: first, next, lost: 0, counted: 0, missing: 0 });
            self.known.len() - 1
        });
        let gap = first.saturating_sub(next);
        let known = &mut self.known[at];
        known.next = end.max(next);
        known.missing += gap;
        self.counts.missing += gap;
        // What was lost later is seen by the numbers.
        if lost.before <= known.begin {
            let is_told = self.told.is_some_and(|(of, before)| of == session && lost.before <= before);
            let counted = if is_told { 0 } else { lost.messages };
            self.counts.missing = self.counts.missing - known.counted + counted;
            (known.lost, known.counted) = (lost.messages, counted);
        }
        self.out.0 += messages;
        self.out.1 += bytes;
        self.held.push_back(Held { session, first, messages, bytes, until: None });
        Decision::HandOn { skip }
    }

    /// The node emitted the next pack that was handed on; `total`: messages that it has emitted up to its end.
    pub(crate) fn emitted(&mut self, total: u64) {
        if let Some(held) = self.held.iter_mut().find(|held| held.until.is_none()) {
            held.until = Some(total);
        }
    }

    /// Of the emitted messages so many are handled, and so many finished. Returns how many packs, from the oldest, may be acknowledged.
    pub(crate) fn progressed(&mut self, handled: u64, finished: u64) -> usize {
        let until = |held: &Held, total: u64| held.until.is_some_and(|until| until <= total);
        while let Some(held) = self.held.get(self.handled).filter(|held| until(held, handled)) {
            self.out.0 -= held.messages;
            self.out.1 -= held.bytes;
            self.handled += 1;
        }
        let whole = self.held.iter().take(self.handled).take_while(|held| until(held, finished)).count();
        self.held.drain(..whole);
        self.handled -= whole;
        whole
    }
}
