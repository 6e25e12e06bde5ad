//! Waiting for something that every reader sees for itself: how fibers, threads, futures and selects wait for the news of a `watch` or a `broadcast` channel.
//!
//! Room: driver. Knows waits; knows nothing of what is read.
//!
//! # Invariant
//! A reader that finds nothing and waits is woken by the next change. A wait that ends otherwise has taken nothing.
//!
//! # Why it holds
//! A source enlists a token only if there is nothing, and sees that under the same lock; a change is made under that lock, and claims all waits. A claimed reader looks again,
//! cancelled or not. One that does not, because its future was dropped or its select took another case, keeps no one from anything: all others were woken with it.

use std::{
    task::{Context, Poll, ready},
    time::Instant,
};

use mech_sync::WaitToken;

use crate::{
    select::Steps,
    strand::{self, Strand, future_wait::FutureWait, room},
    wait::{self, End},
};

/// What can be read, by one reader.
pub(crate) trait Source {
    type News;

    /// What there is for this reader, which has it then.
    fn look(&self) -> Option<Self::News>;

    /// Enlists a token, unless there is something: then it says true.
    fn enlist(&self, token: WaitToken, code: u16) -> bool;

    /// A wait of a token that was enlisted has ended, and was not claimed.
    fn leave(&self);
}

/// Reads, and waits until there is something. None if time was up first.
pub(crate) fn read<S: Source>(source: &S, deadline: Option<Instant>) -> Option<S::News> {
    strand::with(|strand| {
        strand.checkpoint();
        strand.charge_channel_op();
        loop {
            if let Some(news) = source.look() {
                return Some(news);
            }
            strand.interleave(); // a change may come here; `enlist` sees it
            let token = strand.token();
            if source.enlist(token, 0) {
                continue;
            }
            match wait::wait(strand, token, deadline) {
                End::Claimed(_) => {}
                End::TimedOut => {
                    source.leave();
                    return source.look();
                }
                End::Cancelled => {
                    source.leave();
                    strand.unwind();
                }
            }
        }
    })
}

/// Reads what there is now.
pub(crate) fn try_read<S: Source>(source: &S) -> Option<S::News> {
    strand::with(Strand::begin_try);
    source.look()
}

/// A future that reads.
pub(crate) struct Reading<S: Source> {
    source: S,
    wait: Option<FutureWait>,
    /// Its task was charged for it.
    is_paid: bool,
}

impl<S: Source> Reading<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, wait: None, is_paid: false }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<S::News> {
        let this = self;
        let strand = strand::current();
        ready!(strand.poll_turn(cx));
        if !std::mem::replace(&mut this.is_paid, true) {
            strand.charge_channel_op();
        }
        strand.interleave();
        let polled = this.proceed(cx);
        if polled.is_ready() {
            this.is_paid = false; // polled again, it is for the next news
            strand.turn.count();
        }
        polled
    }

    fn proceed(&mut self, cx: &Context<'_>) -> Poll<S::News> {
        if self.wait.as_ref().is_some_and(|wait| !wait.poll(cx.waker())) {
            return Poll::Pending;
        }
        self.wait = None;
        loop {
            if let Some(news) = self.source.look() {
                return Poll::Ready(news);
            }
            strand::with(Strand::interleave);
            let wait = FutureWait::begin(cx.waker());
            if !self.source.enlist(wait.token(), 0) {
                self.wait = Some(wait);
                return Poll::Pending;
            }
        }
    }
}

impl<S: Source> Drop for Reading<S> {
    fn drop(&mut self) {
        if let Some(wait) = &mut self.wait {
            let _room = room::to_drop();
            if wait.withdraw() {
                self.source.leave();
            }
        }
    }
}

/// Reading, as a case of a select.
pub(crate) struct Case<S: Source> {
    source: S,
    news: Option<S::News>,
    /// Its token is on the source's list.
    is_enlisted: bool,
}

impl<S: Source> Case<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { source, news: None, is_enlisted: false }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.news.is_some()
    }

    pub(crate) fn take(&mut self) -> S::News {
        self.news.take().expect("only a completed case has an outcome; ask `is_done`, or the select for its number")
    }
}

impl<S: Source> Steps for Case<S> {
    fn is_open(&self) -> bool {
        self.news.is_none()
    }

    fn attempt(&mut self) -> bool {
        self.news = self.source.look();
        self.is_done()
    }

    fn enlist(&mut self, token: WaitToken, code: u16) -> bool {
        self.is_enlisted = !self.source.enlist(token, code);
        !self.is_enlisted
    }

    fn leave(&mut self, _: WaitToken, _: u16) {
        if std::mem::replace(&mut self.is_enlisted, false) {
            self.source.leave();
        }
    }

    fn claimed(&mut self, _: WaitToken, _: u16) -> bool {
        self.is_enlisted = false;
        self.attempt()
    }
}

/// The steps of a public case are those of the [`Case`] in it.
macro_rules! steps_of_inner {
    ($case:ident $(: $bound:path)?) => {
        impl<T $(: $bound)?> $crate::select::Steps for $case<'_, T> {
            fn is_open(&self) -> bool {
                self.0.is_open()
            }

            fn attempt(&mut self) -> bool {
                self.0.attempt()
            }

            fn enlist(&mut self, token: mech_sync::WaitToken, code: u16) -> bool {
                self.0.enlist(token, code)
            }

            fn leave(&mut self, token: mech_sync::WaitToken, code: u16) {
                self.0.leave(token, code);
            }

            fn claimed(&mut self, token: mech_sync::WaitToken, code: u16) -> bool {
                self.0.claimed(token, code)
            }
        }
    };
}

pub(crate) use steps_of_inner;
