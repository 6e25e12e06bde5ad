//! Mailboxes: channels that outlive the actor that reads them.
//!
//! Room: driver.
//!
//! # Invariants
//! A message is handled once, or comes back to its sender, or becomes a dead letter. Only the one that was being
//! handled when an actor failed is lost, and it is counted. A mailbox whose actor is gone for good is closed and empty.
//!
//! # Why they hold
//! One incarnation at a time reads: the next is launched after the one before has ended. A message leaves the channel
//! only to be handled, and `handling` is set from then until the handler has returned. Only [`AnyMailbox::retire`]
//! empties it otherwise: it closes first, and every message that a closed channel accepted is found by emptying it.

use std::{
    any::Any,
    fmt,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU8, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
};

use sched_tasks::{Receiver, Select, Sender, TaskError, TryRecvError, channel, internals, shield};

use crate::address::Address;

/// The default capacity of a mailbox, in messages.
pub(crate) const CAPACITY: usize = 64;

/// A message that will not be handled any more.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeadLetter<M> {
    /// It was in the mailbox when the actor was gone for good.
    Unhandled(M),
    /// The actor ended while it handled this one: what was half done is gone.
    Lost {
        /// How the actor ended. None if it ended without an error.
        error: Option<TaskError>,
    },
}

/// What happened to the messages of an actor so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MailboxStats {
    /// Messages that wait.
    pub waiting: usize,
    /// Messages that were handled.
    pub handled: u64,
    /// Messages that were being handled when the actor failed or was cancelled.
    pub lost: u64,
    /// Messages that waited when the actor was gone for good.
    pub unhandled: u64,
}

pub(crate) type Hook<M> = Arc<dyn Fn(DeadLetter<M>) + Send + Sync>;

pub(crate) struct Mailbox<M> {
    name: Arc<str>,
    messages: Receiver<M>,
    /// Keeps the channel open while there is no address: a supervised actor can be asked for one.
    _open: Option<Sender<M>>,
    hook: Option<Hook<M>>,
    handling: AtomicBool,
    handled: AtomicU64,
    lost: AtomicU64,
    unhandled: AtomicU64,
}

impl<M: Send + 'static> Mailbox<M> {
    /// A mailbox that stays open until it is retired.
    pub(crate) fn lasting(name: Arc<str>, capacity: usize, hook: Option<Hook<M>>) -> Self {
        let (sender, messages) = channel(capacity);
        Self { _open: Some(sender), ..Self::new(name, messages, hook) }
    }

    /// A mailbox that closes when its last address is dropped.
    pub(crate) fn addressed(name: Arc<str>, capacity: usize) -> (Self, Address<M>) {
        let (sender, messages) = channel(capacity);
        (Self::new(name.clone(), messages, None), Address::new(name, sender))
    }

    fn new(name: Arc<str>, messages: Receiver<M>, hook: Option<Hook<M>>) -> Self {
        let (handled, lost, unhandled) = Default::default();
        Self { name, messages, _open: None, hook, handling: AtomicBool::new(false), handled, lost, unhandled }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn address(&self) -> Address<M> {
        Address::new(self.name.clone(), internals::sender(&self.messages))
    }

    /// Waits for the next message. None if the mailbox is closed and empty, or `signal` was sent.
    pub(crate) fn next(&self, signal: &Signal) -> Option<M> {
        loop {
            if signal.asked().is_some() {
                return None;
            }
            // A select costs several times as much; it is needed only by an actor that has nothing else to do.
            match self.messages.try_recv() {
                Ok(message) => return Some(message),
                Err(TryRecvError::Closed) => return None,
                Err(TryRecvError::Empty) => {}
            }
            let (mut message, mut notified) = (self.messages.case(), signal.notifier.1.case());
            Select::new().with(&mut message).with(&mut notified).wait();
            if message.is_done() {
                return message.take().ok();
            }
        }
    }

    /// Counts what `handle` does with a message. An unwinding leaves it counted as being handled.
    pub(crate) fn handled(&self, handle: impl FnOnce() -> Result<(), TaskError>) -> Result<(), TaskError> {
        self.handling.store(true, Release);
        handle()?;
        self.handled.fetch_add(1, Relaxed);
        self.handling.store(false, Release);
        Ok(())
    }

    fn report(&self, letter: DeadLetter<M>) {
        // The caller is a supervisor: a hook that panics, or a message that panics when it is dropped, must not end it.
        internals::apart(|| match &self.hook {
            Some(hook) => shield(|| hook(letter)),
            None => drop(letter),
        });
    }
}

/// A mailbox without its message type, as a supervisor uses it.
pub(crate) trait AnyMailbox: Send + Sync {
    /// Takes no more messages; those that wait can be handled.
    fn close(&self);
    /// The actor ended: the message it was handling, if any, is lost.
    fn settle(&self, error: Option<&TaskError>);
    /// The actor is gone for good: closes, and what waits becomes dead letters.
    fn retire(&self);
    fn stats(&self) -> MailboxStats;
    /// An `Address<M>`.
    fn address_any(&self) -> Box<dyn Any>;
    /// The name of the type `M`.
    fn takes(&self) -> &'static str;
}

impl<M: Send + 'static> AnyMailbox for Mailbox<M> {
    fn close(&self) {
        self.messages.close();
    }

    fn settle(&self, error: Option<&TaskError>) {
        if self.handling.swap(false, AcqRel) {
            self.lost.fetch_add(1, Relaxed);
            self.report(DeadLetter::Lost { error: error.cloned() });
        }
    }

    fn retire(&self) {
        self.messages.close();
        while let Some(message) = internals::take(&self.messages) {
            self.unhandled.fetch_add(1, Relaxed);
            self.report(DeadLetter::Unhandled(message));
        }
    }

    fn stats(&self) -> MailboxStats {
        MailboxStats {
            waiting: self.messages.len(),
            handled: self.handled.load(Relaxed),
            lost: self.lost.load(Relaxed),
            unhandled: self.unhandled.load(Relaxed),
        }
    }

    fn address_any(&self) -> Box<dyn Any> {
        Box::new(self.address())
    }

    fn takes(&self) -> &'static str {
        std::any::type_name::<M>()
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("name", &self.name).field("messages", &self.messages).finish_non_exhaustive()
    }
}

/// Whether a stopped child is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopMode {
    /// It comes back: what waits in its mailbox is for the next incarnation.
    ToRestart,
    /// It does not: it may finish what it has.
    ForGood,
}

/// Asks one incarnation to stop.
#[derive(Debug)]
pub(crate) struct Signal {
    /// 0 if not asked.
    asked: AtomicU8,
    notifier: (Sender<()>, Receiver<()>),
}

impl Signal {
    pub(crate) fn new() -> Self {
        Self { asked: AtomicU8::new(0), notifier: channel(1) }
    }

    pub(crate) fn send(&self, mode: StopMode) {
        self.asked.store(1 + mode as u8, Release);
        internals::put(&self.notifier.0, ()); // full: a notification is under way already
    }

    pub(crate) fn asked(&self) -> Option<StopMode> {
        match self.asked.load(Acquire) {
            0 => None,
            1 => Some(StopMode::ToRestart),
            _ => Some(StopMode::ForGood),
        }
    }
}
