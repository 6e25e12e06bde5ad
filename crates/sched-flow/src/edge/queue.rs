//! The queue of an edge: what fits, what gives way, and what is counted.
//!
//! Room: decisions. No lock, no clock: [`Edge`](super::Edge) has the lock.
//!
//! # Invariant
//! `put = delivered + dropped + replaced + coalesced + depth`, where the depth counts what waits and what is in the
//! consumer's hand. On a Block edge nothing is dropped while somebody listens, and the depth does not exceed the capacity
//! (unless that was lowered below it).
//!
//! # Why it holds
//! A message is counted as put when its fate is decided, and from then on in exactly one of the other places. What the
//! consumer takes into its hand still occupies a Block edge, so what it gives back always fits. On the other edges it does
//! not, and giving back is decided as if it had never been taken.
//!
//! # Merging
//! A function that merges is the user's, so it is called without the lock of the edge, which whoever looks at the flow wants: the producer takes the newest message out, merges into it in place, and puts
//! it back. It is still counted as waiting. Nobody else puts, so it is still the newest; a consumer that meanwhile finds nothing is told when it is back. An edge that was closed
//! meanwhile drops it. What a consumer gives back is not merged, so such an edge may hold up to twice its capacity.
//!
//! # Two flags that save signals
//! `told`: the scheduler knows, or is about to be told, that something waits here. `wanted`: the producer waits for room.
//! Both are changed under the edge's lock only, so whoever turns one over owes the scheduler exactly one signal. Checked
//! by `tests/loom/main.rs`.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use crate::{
    message::Message,
    node::NodeError,
    policy::{Policy, PutResult},
};

/// Merges a new payload into one that waits.
pub(crate) type Merge<T> = Arc<dyn Fn(&mut T, &T) -> Result<(), NodeError> + Send + Sync>;

/// What an edge does when it is full.
pub(crate) enum Rule<T> {
    Block,
    Drop,
    Latest,
    Coalesce(Merge<T>),
}

impl<T> Rule<T> {
    pub(crate) fn policy(&self) -> Policy {
        match self {
            Rule::Block => Policy::Block,
            Rule::Drop => Policy::Drop,
            Rule::Latest => Policy::Latest,
            Rule::Coalesce(_) => Policy::Coalesce,
        }
    }
}

/// How many messages went where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) put: u64,
    pub(crate) delivered: u64,
    pub(crate) dropped: u64,
    pub(crate) replaced: u64,
    pub(crate) coalesced: u64,
    pub(crate) blocked_times: u64,
    pub(crate) peak: usize,
}

/// What a consumer leaves behind at the end of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the scheduler must be told"]
pub(crate) struct Settled {
    /// Something still waits.
    pub(crate) more: bool,
    /// The producer waited for room, and there is some.
    pub(crate) roomy: bool,
}

pub(crate) struct Queue<T> {
    items: VecDeque<Message<T>>,
    /// So many were taken by the consumer and are neither delivered nor given back.
    held: usize,
    /// The newest was taken by the producer, which merges others into it.
    merging: bool,
    /// The oldest message was let go of, and another is the oldest since.
    head_changed: bool,
    capacity: usize,
    rule: Rule<T>,
    told: bool,
    wanted: bool,
    /// Nobody will ever take from here again.
    closed: bool,
    counts: Counts,
    /// Payloads that nobody gets. They are dropped after the lock is let go: to drop one may wake a node, whose lock comes before this one.
    gone: Vec<T>,
}

impl<T: Clone> Queue<T> {
    pub(crate) fn new(capacity: usize, rule: Rule<T>) -> Self {
        assert!(capacity > 0, "an edge holds at least one message");
        Self {
            items: VecDeque::new(),
            held: 0,
            merging: false,
            head_changed: false,
            capacity,
            rule,
            told: false,
            wanted: false,
            closed: false,
            counts: Counts::default(),
            gone: Vec::new(),
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.items.len() + self.held + usize::from(self.merging)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn policy(&self) -> Policy {
        self.rule.policy()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// How many more fit before a producer must wait. Without limit, if it never must.
    pub(crate) fn room(&self) -> usize {
        match self.rule {
            Rule::Block if !self.closed => self.capacity.saturating_sub(self.depth()),
            _ => usize::MAX,
        }
    }

    /// The room; and if there is none, the producer is owed a signal when there is.
    pub(crate) fn room_or_want(&mut self) -> usize {
        let room = self.room();
        if room == 0 && !self.wanted {
            self.wanted = or_planted!(true, "want-not-set" => false);
            self.counts.blocked_times += 1;
        }
        room
    }

    /// Puts one message, or hands it back if it must wait.
    pub(crate) fn put(&mut self, message: Message<T>) -> (PutResult, Option<Message<T>>) {
        let result = self.offer(message);
        self.check();
        result
    }

    fn offer(&mut self, message: Message<T>) -> (PutResult, Option<Message<T>>) {
        if self.closed {
            self.counts.put += 1;
            self.counts.dropped += 1;
            self.gone.push(message.payload);
            return (PutResult::Closed, None);
        }
        let waiting = match self.rule {
            Rule::Block => self.depth(),
            // What the consumer already has in its hand is no longer in the way.
            _ => self.items.len(),
        };
        debug_assert!(!self.merging, "the producer merges or puts");
        if waiting < self.capacity {
            self.counts.put += 1;
            self.push(message);
            return (PutResult::Ok, None);
        }
        match &self.rule {
            Rule::Block => {
                if !self.wanted {
                    self.wanted = true;
                    self.counts.blocked_times += 1;
                }
                (PutResult::Blocked, Some(message))
            }
            Rule::Drop => {
                self.counts.put += 1;
                self.counts.dropped += 1;
                self.gone.push(message.payload);
                (PutResult::Dropped, None)
            }
            Rule::Latest => {
                self.counts.put += 1;
                self.counts.replaced += 1;
                self.head_changed |= self.held == 0;
                self.gone.extend(self.items.pop_front().map(|oldest| oldest.payload));
                self.push(message);
                (PutResult::Replaced, None)
            }
            // The producer merges, without the lock: see `begin_merge`.
            Rule::Coalesce(_) => (PutResult::Blocked, Some(message)),
        }
    }

    /// If the edge is full and coalesces: its newest message, to merge others into it without the lock. Only the producer puts, so none comes meanwhile.
    pub(crate) fn begin_merge(&mut self) -> Option<Merging<T>> {
        let Rule::Coalesce(merge) = &self.rule else { return None };
        if self.closed || self.items.len() < self.capacity {
            return None;
        }
        let merge = Arc::clone(merge);
        let newest = self.items.pop_back()?;
        self.merging = true;
        Some(Merging { newest, merge, count: 0 })
    }

    /// The newest is back. If one could not be merged, its producer waits for room, as if this were a Block edge: neither may be lost. True if it has to.
    pub(crate) fn end_merge(&mut self, merging: Merging<T>, failed: bool) -> bool {
        let Merging { newest, count, .. } = merging;
        self.merging = false;
        self.counts.put += count;
        self.counts.coalesced += count;
        if self.closed {
            self.counts.dropped += 1;
            self.gone.push(newest.payload);
        } else {
            self.items.push_back(newest);
        }
        let waits = failed && !self.closed && self.items.len() >= self.capacity;
        if waits && !self.wanted {
            self.wanted = or_planted!(true, "merge-want-not-set" => false);
            self.counts.blocked_times += 1;
        }
        self.check();
        waits
    }

    fn push(&mut self, message: Message<T>) {
        self.items.push_back(message);
        self.counts.peak = self.counts.peak.max(self.depth());
    }

    /// Puts as many of the first messages as it takes. What is left in `from` must wait.
    pub(crate) fn put_all(&mut self, from: &mut VecDeque<Message<T>>) {
        if from.is_empty() {
            return;
        }
        if matches!(self.rule, Rule::Block) && !self.closed {
            let room = self.room();
            if room >= from.len() && self.items.is_empty() {
                // The whole outbox becomes the queue: no message is touched.
                self.counts.put += from.len() as u64;
                std::mem::swap(&mut self.items, from);
            } else {
                let fitting = room.min(from.len());
                self.counts.put += fitting as u64;
                self.items.extend(from.drain(..fitting));
                if !from.is_empty() && !self.wanted {
                    self.wanted = true;
                    self.counts.blocked_times += 1;
                }
            }
            self.counts.peak = self.counts.peak.max(self.depth());
        } else {
            while let Some(message) = from.pop_front() {
                if let (PutResult::Blocked, Some(message)) = self.offer(message) {
                    from.push_front(message);
                    break;
                }
            }
        }
        self.check();
    }

    /// Puts copies of as many messages as it takes, and says how many those were.
    pub(crate) fn put_copies<'a>(&mut self, from: impl ExactSizeIterator<Item = &'a Message<T>>) -> usize
    where
        T: 'a,
    {
        let all = from.len();
        let mut done = 0;
        if matches!(self.rule, Rule::Block) && !self.closed {
            done = self.room().min(all);
            let before = self.items.len();
            let copies = catch_unwind(AssertUnwindSafe(|| self.items.extend(from.take(done).cloned())));
            self.counts.put += (self.items.len() - before) as u64;
            if let Err(panic) = copies {
                resume_unwind(panic); // with those counted that are there
            }
            self.counts.peak = self.counts.peak.max(self.depth());
            if done < all && !self.wanted {
                self.wanted = true;
                self.counts.blocked_times += 1;
            }
        } else {
            for message in from {
                if let (PutResult::Blocked, Some(message)) = self.offer(message.clone()) {
                    self.gone.push(message.payload);
                    break;
                }
                done += 1;
            }
        }
        self.check();
        done
    }

    /// True once, when something waits that nobody told the scheduler of.
    pub(crate) fn tell(&mut self) -> bool {
        let news = !self.told && !self.items.is_empty() && !self.closed;
        self.told |= news;
        news
    }

    /// Moves up to `most` messages into the consumer's hand. True if the first is not the one that was given back last time.
    pub(crate) fn take(&mut self, most: usize, hand: &mut VecDeque<Message<T>>) -> bool {
        debug_assert!(hand.is_empty() && self.held == 0, "one turn at a time");
        if self.items.len() <= most {
            self.held = self.items.len();
            std::mem::swap(&mut self.items, hand);
        } else {
            self.held = most;
            hand.extend(self.items.drain(..most));
        }
        std::mem::take(&mut self.head_changed)
    }

    /// The consumer's turn is over. What is left in its hand goes back to where it came from.
    pub(crate) fn settle(&mut self, hand: &mut VecDeque<Message<T>>) -> Settled {
        self.counts.delivered += (self.held - hand.len()) as u64;
        self.held = 0;
        if self.closed {
            self.counts.dropped += hand.len() as u64;
            self.gone.extend(hand.drain(..).map(|message| message.payload));
        }
        if !hand.is_empty() {
            if self.items.is_empty() {
                std::mem::swap(&mut self.items, hand);
            } else {
                while let Some(message) = hand.pop_back() {
                    self.items.push_front(message);
                }
            }
            self.trim();
        }
        let more = !self.items.is_empty();
        self.told = or_planted!(more, "settle-stays-told" => true);
        let roomy = or_planted!(self.take_wanted(), "wanted-cleared-quietly" => self.take_wanted() && false);
        self.check();
        Settled { more, roomy }
    }

    /// Whether a producer that was turned away would now be let in.
    fn has_room(&self) -> bool {
        self.closed || self.depth() < self.capacity
    }

    /// Messages were given back, or the capacity was lowered: the rule decides over what is too much.
    fn trim(&mut self) {
        while self.items.len() > self.capacity {
            match &self.rule {
                // Held messages count here, so there is too much only if the capacity was lowered, and then it drains.
                Rule::Block => break,
                // To merge them takes a user's function, which is not called here. New ones are merged until it has drained.
                Rule::Coalesce(_) => break,
                Rule::Drop => {
                    self.gone.extend(self.items.pop_back().map(|newest| newest.payload));
                    self.counts.dropped += 1;
                }
                Rule::Latest => {
                    self.gone.extend(self.items.pop_front().map(|oldest| oldest.payload));
                    self.counts.replaced += 1;
                    self.head_changed |= self.held == 0;
                }
            }
        }
    }

    /// True if the producer waited and has room now.
    pub(crate) fn set_capacity(&mut self, capacity: usize) -> bool {
        assert!(capacity > 0, "an edge holds at least one message");
        self.capacity = capacity;
        if matches!(self.rule, Rule::Latest) {
            self.trim();
        }
        self.check();
        self.take_wanted()
    }

    /// Nobody will take from here again: what waits is dropped, and so is what comes. True if the producer waited.
    pub(crate) fn close(&mut self) -> bool {
        self.closed = true;
        self.counts.dropped += self.items.len() as u64;
        self.gone.extend(self.items.drain(..).map(|message| message.payload));
        self.check();
        self.take_wanted()
    }

    /// Hands over what nobody gets, for an empty list that keeps its memory.
    pub(crate) fn swap_gone(&mut self, empty: &mut Vec<T>) {
        debug_assert!(empty.is_empty(), "what was handed over is dropped first");
        std::mem::swap(&mut self.gone, empty);
    }

    fn take_wanted(&mut self) -> bool {
        let roomy = self.wanted && self.has_room();
        if roomy {
            self.wanted = false;
        }
        roomy
    }

    /// The law of this file, asserted also in release: it is five additions a turn.
    fn check(&self) {
        let Counts { put, delivered, dropped, replaced, coalesced, .. } = self.counts;
        let fates = delivered + dropped + replaced + coalesced + self.depth() as u64;
        assert!(put == fates, "a message was lost or made: {put} put, {fates} accounted for");
    }
}

/// The newest message of an edge, while others are merged into it.
pub(crate) struct Merging<T> {
    newest: Message<T>,
    merge: Merge<T>,
    count: u64,
}

impl<T> Merging<T> {
    /// Whether it worked. A function that fails leaves what waits as it was: it says so to its users. One that panics failed.
    pub(crate) fn add(&mut self, new: &T) -> bool {
        let Self { newest, merge, .. } = self;
        let done = matches!(catch_unwind(AssertUnwindSafe(|| merge(&mut newest.payload, new))), Ok(Ok(())));
        self.count += u64::from(done);
        done
    }
}
