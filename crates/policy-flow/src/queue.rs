//! The queue of an edge: which messages fit, which are dropped, and what is counted.
//!
//! Room: decisions. Knows policies and counters; knows nothing of locks, clocks and payloads.
//!
//! # Invariant
//! `put = delivered + dropped + replaced + coalesced + depth`, where the depth counts the messages in the queue and those in the
//! consumer's hand. A Block edge drops nothing while its consumer runs, and its depth does not exceed its capacity
//! (unless the capacity was lowered below it).
//!
//! # Why it holds
//! A message is counted as put when its result is decided, and from then on in exactly one of the other counters. Messages in the
//! hand of the consumer still occupy a Block edge, so what the consumer gives back always fits. They do not occupy other edges;
//! there, the policy decides over a message that is given back as if it had never been taken.
//!
//! # Merging
//! The merge function is user code, so it is called without the lock of the edge; others need that lock for statistics. The producer takes the newest message out, merges into it in place, and puts
//! it back. Meanwhile it still counts as waiting. Only the producer puts, so it is still the newest. A consumer that finds the queue empty meanwhile gets a signal when the message is back. An edge that was closed
//! meanwhile drops it. A message that a consumer gives back is not merged, so such an edge may hold up to twice its capacity.
//!
//! # Two flags that save signals
//! `signalled`: the scheduler knows, or is about to get the signal, that this queue has messages. `wanted`: the producer waits for room.
//! Both change under the lock of the edge only, so a thread that changes one owes the scheduler exactly one signal. Checked
//! by `tests/loom/main.rs`.

use alloc::{collections::VecDeque, vec::Vec};

use vocab::or_planted;

use crate::policy::{Policy, PutResult};

/// The counters of an edge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were accepted, dropped or merged.
    pub put: u64,
    /// Messages that were handled, or given up by the consumer.
    pub delivered: u64,
    /// New messages that were dropped, and all that were left when the consumer ended.
    pub dropped: u64,
    /// Old messages that made room.
    pub replaced: u64,
    /// Messages that became part of another.
    pub coalesced: u64,
    /// How often the producer had to wait.
    pub blocked_times: u64,
    /// The largest depth so far.
    pub peak: usize,
}

/// The state of an edge at the end of a turn of its consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the scheduler needs the signal"]
pub struct Settled {
    /// More messages wait.
    pub more: bool,
    /// The producer waited for room, and there is some.
    pub roomy: bool,
}

/// The messages of an edge.
pub struct Queue<M> {
    items: VecDeque<M>,
    /// So many are in the hand of the consumer: taken, and neither delivered nor given back.
    held: usize,
    /// The producer took the newest out and merges others into it.
    merging: bool,
    /// The oldest message was replaced, and another is the oldest since.
    head_changed: bool,
    capacity: usize,
    policy: Policy,
    signalled: bool,
    wanted: bool,
    /// The consumer has ended: no message is taken any more.
    closed: bool,
    counts: Counts,
    /// Messages that are discarded. They are dropped after the lock is released: to drop one may wake a node, and the lock of a node comes before this one.
    discarded: Vec<M>,
}

impl<M: Clone> Queue<M> {
    /// An empty queue.
    ///
    /// # Panics
    /// If nothing fits.
    pub fn new(capacity: usize, policy: Policy) -> Self {
        assert!(capacity > 0, "an edge holds at least one message");
        Self {
            items: VecDeque::new(),
            held: 0,
            merging: false,
            head_changed: false,
            capacity,
            policy,
            signalled: false,
            wanted: false,
            closed: false,
            counts: Counts::default(),
            discarded: Vec::new(),
        }
    }

    /// How many messages wait, or are in the hand of the consumer.
    pub fn depth(&self) -> usize {
        self.items.len() + self.held + usize::from(self.merging)
    }

    /// How many may wait.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// What it does when it is full.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether the producer waits for room.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// How many more messages fit before the producer must wait; `usize::MAX` if it never must.
    pub fn room(&self) -> usize {
        match self.policy {
            Policy::Block if !self.closed => self.capacity.saturating_sub(self.depth()),
            _ => usize::MAX,
        }
    }

    /// The room. If there is none, the producer gets a signal when there is.
    pub fn room_or_want(&mut self) -> usize {
        let room = self.room();
        if room == 0 && !self.wanted {
            self.wanted = or_planted!(true, "want-not-set" => false);
            self.counts.blocked_times += 1;
        }
        room
    }

    /// Puts one message, or hands it back if it must wait.
    pub fn put(&mut self, message: M) -> (PutResult, Option<M>) {
        let result = self.offer(message);
        self.check();
        result
    }

    fn offer(&mut self, message: M) -> (PutResult, Option<M>) {
        if self.closed {
            self.counts.put += 1;
            self.counts.dropped += 1;
            self.discarded.push(message);
            return (PutResult::Closed, None);
        }
        let waiting = match self.policy {
            Policy::Block => self.depth(),
            // Messages in the hand of the consumer take no room here.
            _ => self.items.len(),
        };
        debug_assert!(!self.merging, "the producer merges or puts");
        if waiting < self.capacity {
            self.counts.put += 1;
            self.push(message);
            return (PutResult::Ok, None);
        }
        match self.policy {
            Policy::Block => {
                if !self.wanted {
                    self.wanted = true;
                    self.counts.blocked_times += 1;
                }
                (PutResult::Blocked, Some(message))
            }
            Policy::Drop => {
                self.counts.put += 1;
                self.counts.dropped += 1;
                self.discarded.push(message);
                (PutResult::Dropped, None)
            }
            Policy::Latest => {
                self.counts.put += 1;
                self.counts.replaced += 1;
                self.head_changed |= self.held == 0;
                self.discarded.extend(self.items.pop_front());
                self.push(message);
                (PutResult::Replaced, None)
            }
            // The producer merges, without the lock: see `begin_merge`.
            Policy::Coalesce => (PutResult::Blocked, Some(message)),
        }
    }

    /// Takes the newest message out of a full edge that coalesces, to merge others into it without the lock. Only the producer puts, so none comes meanwhile.
    pub fn begin_merge(&mut self) -> Option<Merging<M>> {
        if self.policy != Policy::Coalesce || self.closed || self.items.len() < self.capacity {
            return None;
        }
        let newest = self.items.pop_back()?;
        self.merging = true;
        Some(Merging { newest, count: 0 })
    }

    /// Puts the newest message back. If a message could not be merged, the producer waits for room, as on a Block edge, so that neither is lost. True if it has to wait.
    pub fn end_merge(&mut self, merging: Merging<M>, failed: bool) -> bool {
        let Merging { newest, count } = merging;
        self.merging = false;
        self.counts.put += count;
        self.counts.coalesced += count;
        if self.closed {
            self.counts.dropped += 1;
            self.discarded.push(newest);
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

    fn push(&mut self, message: M) {
        self.items.push_back(message);
        self.counts.peak = self.counts.peak.max(self.depth());
    }

    /// Puts as many of the first messages as fit. The rest stays in `from`.
    pub fn put_all(&mut self, from: &mut VecDeque<M>) {
        if from.is_empty() {
            return;
        }
        if matches!(self.policy, Policy::Block) && !self.closed {
            let room = self.room();
            if room >= from.len() && self.items.is_empty() {
                // The whole outbox becomes the queue: no message is moved.
                self.counts.put += from.len() as u64;
                core::mem::swap(&mut self.items, from);
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

    /// Puts copies of as many messages as fit, and returns how many.
    pub fn put_copies<'a>(&mut self, from: impl ExactSizeIterator<Item = &'a M>) -> usize
    where
        M: 'a,
    {
        let all = from.len();
        let mut done = 0;
        if matches!(self.policy, Policy::Block) && !self.closed {
            done = self.room().min(all);
            Counting::new(&mut self.items, &mut self.counts.put).items.extend(from.take(done).cloned());
            self.counts.peak = self.counts.peak.max(self.depth());
            if done < all && !self.wanted {
                self.wanted = true;
                self.counts.blocked_times += 1;
            }
        } else {
            for message in from {
                if let (PutResult::Blocked, Some(message)) = self.offer(message.clone()) {
                    self.discarded.push(message);
                    break;
                }
                done += 1;
            }
        }
        self.check();
        done
    }

    /// True if the queue has messages and the scheduler has no signal of it yet. Then the caller sends that signal.
    pub fn signal_filled(&mut self) -> bool {
        let news = !self.signalled && !self.items.is_empty() && !self.closed;
        self.signalled |= news;
        news
    }

    /// Moves up to `limit` messages into the hand of the consumer. True if the first is not the one that was given back last time.
    pub fn take(&mut self, limit: usize, hand: &mut VecDeque<M>) -> bool {
        debug_assert!(hand.is_empty() && self.held == 0, "one turn at a time");
        if self.items.len() <= limit {
            self.held = self.items.len();
            core::mem::swap(&mut self.items, hand);
        } else {
            self.held = limit;
            hand.extend(self.items.drain(..limit));
        }
        core::mem::take(&mut self.head_changed)
    }

    /// Ends a turn of the consumer. What is left in its hand goes back to the front of the queue.
    pub fn settle(&mut self, hand: &mut VecDeque<M>) -> Settled {
        self.counts.delivered += (self.held - hand.len()) as u64;
        self.held = 0;
        if self.closed {
            self.counts.dropped += hand.len() as u64;
            self.discarded.extend(hand.drain(..));
        }
        if !hand.is_empty() {
            if self.items.is_empty() {
                core::mem::swap(&mut self.items, hand);
            } else {
                while let Some(message) = hand.pop_back() {
                    self.items.push_front(message);
                }
            }
            self.trim();
        }
        let more = !self.items.is_empty();
        self.signalled = or_planted!(more, "settle-stays-signalled" => true);
        let roomy = or_planted!(self.take_wanted(), "wanted-cleared-quietly" => self.take_wanted() && false);
        self.check();
        Settled { more, roomy }
    }

    /// Whether a producer that waits may put now.
    fn has_room(&self) -> bool {
        self.closed || self.depth() < self.capacity
    }

    /// Applies the policy to messages above the capacity, after some were given back or the capacity was lowered.
    fn trim(&mut self) {
        while self.items.len() > self.capacity {
            match self.policy {
                // Messages in the hand count here, so there are too many only if the capacity was lowered. Then the edge drains.
                Policy::Block => break,
                // Merging calls user code, which is not allowed here. New messages are merged until the edge has drained.
                Policy::Coalesce => break,
                Policy::Drop => {
                    self.discarded.extend(self.items.pop_back());
                    self.counts.dropped += 1;
                }
                Policy::Latest => {
                    self.discarded.extend(self.items.pop_front());
                    self.counts.replaced += 1;
                    self.head_changed |= self.held == 0;
                }
            }
        }
    }

    /// Sets the capacity. True if the producer waited and has room now.
    ///
    /// # Panics
    /// If nothing fits.
    pub fn set_capacity(&mut self, capacity: usize) -> bool {
        assert!(capacity > 0, "an edge holds at least one message");
        self.capacity = capacity;
        if matches!(self.policy, Policy::Latest) {
            self.trim();
        }
        self.check();
        self.take_wanted()
    }

    /// The consumer has ended: drops the messages that wait, and all that come later. True if the producer waited.
    pub fn close(&mut self) -> bool {
        self.closed = true;
        self.counts.dropped += self.items.len() as u64;
        self.discarded.extend(self.items.drain(..));
        self.check();
        self.take_wanted()
    }

    /// Swaps the discarded messages for an empty list, whose memory is used again.
    pub fn swap_discarded(&mut self, empty: &mut Vec<M>) {
        debug_assert!(empty.is_empty(), "the list was emptied before");
        core::mem::swap(&mut self.discarded, empty);
    }

    fn take_wanted(&mut self) -> bool {
        let roomy = self.wanted && self.has_room();
        if roomy {
            self.wanted = false;
        }
        roomy
    }

    /// Asserts the invariant of this file, also in release: it costs five additions a turn.
    fn check(&self) {
        let Counts { put, delivered, dropped, replaced, coalesced, .. } = self.counts;
        let fates = delivered + dropped + replaced + coalesced + self.depth() as u64;
        assert!(put == fates, "a message was lost or made: {put} put, {fates} accounted for");
    }
}

/// Counts the messages that were added to a queue, also if the `Clone` of the next one panicked.
struct Counting<'a, M> {
    items: &'a mut VecDeque<M>,
    before: usize,
    put: &'a mut u64,
}

impl<'a, M> Counting<'a, M> {
    #[inline]
    fn new(items: &'a mut VecDeque<M>, put: &'a mut u64) -> Self {
        let before = items.len();
        Self { items, before, put }
    }
}

impl<M> Drop for Counting<'_, M> {
    #[inline]
    fn drop(&mut self) {
        *self.put += (self.items.len() - self.before) as u64;
    }
}

/// The newest message of an edge while others are merged into it.
#[must_use = "the edge counts it as waiting until it is back"]
pub struct Merging<M> {
    newest: M,
    count: u64,
}

impl<M> Merging<M> {
    /// The message that others are merged into.
    pub fn newest(&mut self) -> &mut M {
        &mut self.newest
    }

    /// One more message was merged into it.
    pub fn merged(&mut self) {
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Cannot be copied if it is 0.
    #[derive(Debug, PartialEq)]
    struct Fragile(u32);

    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert!(self.0 > 0, "it broke");
            Self(self.0)
        }
    }

    #[test]
    fn copies_made_before_one_that_panics_are_counted() {
        let mut queue = Queue::new(8, Policy::Block);
        let messages = [3, 2, 1, 0, 7].map(Fragile);
        let panicked = catch_unwind(AssertUnwindSafe(|| queue.put_copies(messages.iter()))).is_err();
        assert!(panicked);
        assert_eq!((queue.counts().put, queue.depth()), (3, 3));
        let mut hand = VecDeque::new();
        queue.take(8, &mut hand);
        assert_eq!(hand, [3, 2, 1].map(Fragile));
        hand.clear();
        assert_eq!(queue.settle(&mut hand), Settled { more: false, roomy: false });
        assert_eq!(queue.counts().delivered, 3);
    }

    #[test]
    fn what_became_part_of_the_newest_is_counted_when_it_is_back() {
        let mut queue = Queue::new(1, Policy::Coalesce);
        assert_eq!(queue.put(1), (PutResult::Ok, None));
        assert_eq!(queue.put(2), (PutResult::Blocked, Some(2)));
        let mut merging = queue.begin_merge().expect("it is full and coalesces");
        *merging.newest() += 2;
        merging.merged();
        assert_eq!(queue.depth(), 1, "what is being merged still waits");
        assert!(!queue.end_merge(merging, false));
        let Counts { put, coalesced, .. } = queue.counts();
        assert_eq!((put, coalesced, queue.depth()), (2, 1, 1));
    }
}
