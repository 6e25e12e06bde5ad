//! Nurseries: a scope that owns its tasks, waits for them, and tells them to stop.
//!
//! # Invariants
//! A nursery's block is left only after all its children ended. A cancellation reaches every child, and every child's children, once: those that have
//! not started never start, those that run find out at their next checkpoint, those that wait are woken.
//!
//! # Why they hold
//! Children are counted in a [`Countdown`], whose last member wakes the owner. `cancel` first sets the state, then takes the lock of `inner` and looks who is
//! enlisted; a child first enlists under that lock, then looks at the state: one of the two sees the other. Nested nurseries enlist with the one around them
//! when they open, and cancellation walks that tree with a list of its own, not by recursion, so no depth overflows a stack.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicU8, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
    task::Waker,
    time::Duration,
};

use mech_sync::{Countdown, Seat, SpinLock};
use slab::Slab;

use crate::{
    drive::shared::Shared,
    error::{Reason, TaskError},
    state::{NurseryEvent, NurseryState},
    strand::{self, Strand, Woken},
};

/// At most so many failures are kept beside the first; more are counted in none.
const MAX_OTHERS: usize = 64;

/// What a nursery does when a child fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// Cancels the other children.
    #[default]
    CancelSiblings,
    /// Lets them finish.
    WaitAll,
}

/// What a nursery is to be like. The default is what [`nursery`](crate::nursery) opens.
#[derive(Debug, Clone, Default)]
pub struct NurseryOptions {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) on_failure: OnFailure,
    pub(crate) deadline: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) spawn_limit: Option<u64>,
}

impl NurseryOptions {
    /// Cancels its children when one fails; no deadline, no limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// A name for messages.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What to do when a child fails.
    pub fn on_failure(mut self, policy: OnFailure) -> Self {
        self.on_failure = policy;
        self
    }

    /// Cancels everything in it after this time.
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(after);
        self
    }

    /// How long children may go on after a cancellation before it interrupts them. Meanwhile [`is_cancelled`](crate::is_cancelled) tells them.
    pub fn grace(mut self, time: Duration) -> Self {
        self.grace = Some(time);
        self
    }

    /// How many tasks may be spawned into it in all.
    pub fn spawn_limit(mut self, tasks: u64) -> Self {
        self.spawn_limit = Some(tasks);
        self
    }
}

/// Somebody to be woken by a cancellation.
pub(crate) enum Member {
    Seat(&'static Seat),
    Future(Waker),
}

/// What all parts of a nursery share.
pub(crate) struct NurseryCore {
    countdown: Countdown,
    /// Tasks the owner started; only the owner writes it.
    started: AtomicU64,
    state: AtomicU8,
    /// Children heed the cancellation: at once, or after the grace.
    interrupts: std::sync::atomic::AtomicBool,
    shared: &'static Shared,
    owner: &'static Seat,
    options: NurseryOptions,
    /// A cancellation from around it does not come in.
    shielded: bool,
    outer: Option<(Arc<NurseryCore>, u32)>,
    /// Tasks spawned against the limit, if there is one.
    spawned: AtomicU64,
    inner: SpinLock<Inner>,
}

#[derive(Default)]
struct Inner {
    members: Slab<Member>,
    nested: Slab<Arc<NurseryCore>>,
    first: Option<TaskError>,
    others: Vec<TaskError>,
    /// Why it was cancelled, if not because a child failed.
    cancelled_for: Option<Reason>,
    /// The body has what it wants: a cancellation is not a failure.
    dismissed: bool,
    alarms: Vec<crate::drive::clock::AlarmKey>,
}
