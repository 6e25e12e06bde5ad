//! The queue of an edge: what fits, what gives way, and what is counted.
//!
//! Room: decisions. No lock, no clock, and no function of a user: who holds the lock of the edge asks. What a message is, it does not know.
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

use alloc::{collections::VecDeque, vec::Vec};

use vocab::or_planted;

use crate::policy::{Policy, PutResult};

/// How many messages went where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages whose fate was decided.
    pub put: u64,
    /// Messages that were handled, or given up by the consumer.
    pub delivered: u64,
    /// New messages that were dropped, and whatever was left when the consumer ended.
    pub dropped: u64,
    /// Old messages that made room.
    pub replaced: u64,
    /// Messages that became part of another.
    pub coalesced: u64,
    /// How often the producer had to wait.
    pub blocked_times: u64,
    /// The most that ever waited.
    pub peak: usize,
}

/// What a consumer leaves behind at the end of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the scheduler must be told"]
pub struct Settled {
    /// Something still waits.
    pub more: bool,
    /// The producer waited for room, and there is some.
    pub roomy: bool,
}

/// What waits on an edge.
pub struct Queue<M> {
    items: VecDeque<M>,
    /// So many were taken by the consumer and are neither delivered nor given back.
    held: usize,
    /// The newest was taken by the producer, which merges others into it.
    merging: bool,
    /// The oldest message was let go of, and another is the oldest since.
    head_changed: bool,
    capacity: usize,
    policy: Policy,
    told: bool,
    wanted: bool,
    /// Nobody will ever take from here again.
    closed: bool,
    counts: Counts,
    /// Messages that nobody gets. They are dropped after the lock is let go: to drop one may wake a node, whose lock comes before this one.
    gone: Vec<M>,
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
            told: false,
            wanted: false,
            closed: false,
            counts: Counts::default(),
            gone: Vec::new(),
        }
    }

    /// How many wait, or are in the hand of the consumer.
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

    /// How many messages went where.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether the producer waits for room.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// How many more fit before a producer must wait. Without limit, if it never must.
    pub fn room(&self) -> usize {
        match self.policy {
            Policy::Block if !self.closed => self.capacity.saturating_sub(self.depth()),
            _ => usize::MAX,
        }
    }

    /// The room; and if there is none, the producer is owed a signal when there is.
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
            self.gone.push(message);
            return (PutResult::Closed, None);
        }
        let waiting = match self.policy {
            Policy::Block => self.depth(),
            // What the consumer already has in its hand is no longer in the way.
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
                self.gone.push(message);
                (PutResult::Dropped, None)
            }
            Policy::Latest => {
                self.counts.put += 1;
                self.counts.replaced += 1;
                self.head_changed |= self.held == 0;
                self.gone.extend(self.items.pop_front());
                self.push(message);
                (PutResult::Replaced, None)
            }
            // The producer merges, without the lock: see `begin_merge`.
            Policy::Coalesce => (PutResult::Blocked, Some(message)),
        }
    }

    /// If the edge is full and coalesces: its newest message, to merge others into it without the lock. Only the producer puts, so none comes meanwhile.
    pub fn begin_merge(&mut self) -> Option<Merging<M>> {
        if self.policy != Policy::Coalesce || self.closed || self.items.len() < self.capacity {
            return None;
        }
        let newest = self.items.pop_back()?;
        self.merging = true;
        Some(Merging { newest, count: 0 })
    }

    /// The newest is back. If one could not be merged, its producer waits for room, as if this were a Block edge: neither may be lost. True if it has to.
    pub fn end_merge(&mut self, merging: Merging<M>, failed: bool) -> bool {
        let Merging { newest, count } = merging;
        self.merging = false;
        self.counts.put += count;
        self.counts.coalesced += count;
        if self.closed {
            self.counts.dropped += 1;
            self.gone.push(newest);
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

    /// Puts as many of the first messages as it takes. What is left in `from` must wait.
    pub fn put_all(&mut self, from: &mut VecDeque<M>) {
        if from.is_empty() {
            return;
        }
        if matches!(self.policy, Policy::Block) && !self.closed {
            let room = self.room();
            if room >= from.len() && self.items.is_empty() {
                // The whole outbox becomes the queue: no message is touched.
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

    /// Puts copies of as many messages as it takes, and says how many those were.
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
                    self.gone.push(message);
                    break;
                }
                done += 1;
            }
        }
        self.check();
        done
    }

    /// True once, when something waits that nobody told the scheduler of.
    pub fn tell(&mut self) -> bool {
        let news = !self.told && !self.items.is_empty() && !self.closed;
        self.told |= news;
        news
    }

    /// Moves up to `most` messages into the consumer's hand. True if the first is not the one that was given back last time.
    pub fn take(&mut self, most: usize, hand: &mut VecDeque<M>) -> bool {
        debug_assert!(hand.is_empty() && self.held == 0, "one turn at a time");
        if self.items.len() <= most {
            self.held = self.items.len();
            core::mem::swap(&mut self.items, hand);
        } else {
            self.held = most;
            hand.extend(self.items.drain(..most));
        }
        core::mem::take(&mut self.head_changed)
    }

    /// The consumer's turn is over. What is left in its hand goes back to where it came from.
    pub fn settle(&mut self, hand: &mut VecDeque<M>) -> Settled {
        self.counts.delivered += (self.held - hand.len()) as u64;
        self.held = 0;
        if self.closed {
            self.counts.dropped += hand.len() as u64;
            self.gone.extend(hand.drain(..));
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
            match self.policy {
                // Held messages count here, so there is too much only if the capacity was lowered, and then it drains.
                Policy::Block => break,
                // To merge them takes a user's function, which is not called here. New ones are merged until it has drained.
                Policy::Coalesce => break,
                Policy::Drop => {
                    self.gone.extend(self.items.pop_back());
                    self.counts.dropped += 1;
                }
                Policy::Latest => {
                    self.gone.extend(self.items.pop_front());
                    self.counts.replaced += 1;
                    self.head_changed |= self.held == 0;
                }
            }
        }
    }

    /// So many may wait from now on. True if the producer waited and has room now.
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

    /// Nobody will take from here again: what waits is dropped, and so is what comes. True if the producer waited.
    pub fn close(&mut self) -> bool {
        self.closed = true;
        self.counts.dropped += self.items.len() as u64;
        self.gone.extend(self.items.drain(..));
        self.check();
        self.take_wanted()
    }

    /// Hands over what nobody gets, for an empty list that keeps its memory.
    pub fn swap_gone(&mut self, empty: &mut Vec<M>) {
        debug_assert!(empty.is_empty(), "what was handed over is dropped first");
        core::mem::swap(&mut self.gone, empty);
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

/// Messages are added to a queue: those that are there at the end are counted, also if the next could not be copied because its `Clone` panicked.
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

/// The newest message of an edge, while others are merged into it.
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

    /// Another one became part of it.
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
