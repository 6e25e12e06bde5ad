//! How the runtime uses a capability: it counts.
//!
//! # Invariant
//! Whatever is taken here is taken of every capability above too, or not at all; see `node.rs`. A revoked one gives nothing and takes back
//! everything.

use std::{fmt, sync::Arc};

use vocab::{Budget, Component};

use crate::{
    CapBudget, CapChannel, CapError, CapExecutor, CapId, CapSpawn, ChannelLimit, ExecutorLimit, Terms, node::Node,
};

const WORKERS: usize = 0;
const BLOCKING: usize = 1;

/// The runtime's hold on a capability, made by [`Ledger::lease`](crate::Ledger::lease). A clone is the same hold.
///
/// It can use the capability but derive nothing from it, so it does not care for delegation. What was taken and not given back when the last
/// lease goes stays taken of those above: too few is safe, too many is not.
pub struct Lease<T: Terms> {
    node: Arc<Node<T>>,
}

impl<T: Terms> Lease<T> {
    pub(crate) fn new(node: Arc<Node<T>>) -> Self {
        Self { node }
    }

    /// The name of the capability.
    pub fn id(&self) -> CapId {
        self.node.id
    }

    /// What it allows.
    pub fn terms(&self) -> &T {
        &self.node.terms
    }

    /// For whom it is, if that was said.
    pub fn label(&self) -> Option<&Arc<str>> {
        self.node.label.as_ref()
    }

    /// Whether it still holds; if not, that is a refusal, and the log gets it. One load and one comparison.
    #[inline]
    pub fn check(&self) -> Result<(), CapError> {
        self.node.check()
    }

    /// Whether it still holds, for who only wants to know.
    #[inline]
    pub fn is_alive(&self) -> bool {
        self.node.is_alive()
    }
}

impl<T: Terms> Clone for Lease<T> {
    fn clone(&self) -> Self {
        Self::new(self.node.clone())
    }
}

impl<T: Terms> fmt::Debug for Lease<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({}, {:?})", self.node.id, self.node.terms)
    }
}

impl Lease<CapSpawn> {
    /// Takes permits to start tasks: as many as there are, at most `want`, at least one.
    pub fn acquire_tasks(&self, want: u64) -> Result<u64, CapError> {
        self.check()?;
        let full = |full: crate::node::Full| CapError::TaskLimitExceeded { limit: full.limit, in_use: full.in_use };
        self.node.take(0, want).map_err(|error| self.node.refuse(full(error)))
    }

    /// Gives permits back, when tasks have ended or will not start.
    ///
    /// # Panics
    /// If more are given back than were acquired.
    pub fn release_tasks(&self, permits: u64) {
        self.node.give(0, permits);
    }

    /// How many permits are out, of this one and of everything derived from it. Without a limit nobody counts, and this is 0.
    pub fn tasks_in_use(&self) -> u64 {
        self.node.in_use(0)
    }

    /// How many permits could be acquired now.
    pub fn tasks_left(&self) -> u64 {
        self.node.left(0)
    }

    /// How many permits a nursery may keep in store, so as not to ask for each: one in 64 of what is left, at most 64. So the stores of
    /// a few nurseries never starve the others.
    pub fn batch(&self) -> u64 {
        (self.tasks_left() / 64).clamp(1, 64)
    }

    /// The budget that a task gets whose spawner asks for `requested`.
    #[must_use]
    pub fn clamp(&self, requested: Budget) -> Budget {
        self.node.terms.clamp(requested)
    }
}

impl Lease<CapBudget> {
    /// Draws what is left, of each component at most what is wanted. Refused if that is nothing of anything that is wanted.
    pub fn draw(&self, wanted: Budget) -> Result<Budget, CapError> {
        self.check()?;
        let mut drawn = Budget::ZERO;
        let mut refusal = None;
        for (which, component) in Component::ALL.into_iter().enumerate() {
            match self.node.take(which, wanted[component]) {
                Ok(amount) => drawn.set(component, amount),
                Err(full) => {
                    let wanted = wanted[component];
                    refusal = refusal.or(Some(CapError::BudgetLimitExceeded { component, wanted, limit: full.limit }));
                }
            }
        }
        match refusal {
            Some(error) if drawn == Budget::ZERO => Err(self.node.refuse(error)),
            _ => Ok(drawn),
        }
    }

    /// Puts back what was drawn and not spent.
    ///
    /// # Panics
    /// If more is put back than was drawn.
    pub fn put_back(&self, unspent: Budget) {
        for (which, component) in Component::ALL.into_iter().enumerate() {
            self.node.give(which, unspent[component]);
        }
    }

    /// How much can still be drawn.
    pub fn left(&self) -> Budget {
        let mut left = Budget::ZERO;
        for (which, component) in Component::ALL.into_iter().enumerate() {
            left.set(component, self.node.left(which));
        }
        left
    }
}

impl Lease<CapChannel> {
    /// Takes the permit for a channel of so many messages; without bound is `u64::MAX`.
    pub fn open_channel(&self, capacity: u64) -> Result<ChannelPermit, CapError> {
        self.check()?;
        let limit = self.node.terms.get_max_buffer();
        let outcome = if capacity > limit {
            Err(CapError::ChannelLimitExceeded { what: ChannelLimit::Buffer, limit, in_use: 0, wanted: capacity })
        } else {
            self.node.take_all(0, 1).map_err(|full| CapError::ChannelLimitExceeded {
                what: ChannelLimit::Channels,
                limit: full.limit,
                in_use: full.in_use,
                wanted: 1,
            })
        };
        match outcome {
            Ok(()) => Ok(ChannelPermit { lease: self.clone() }),
            Err(error) => Err(self.node.refuse(error)),
        }
    }

    /// How many channels are open by it and by everything derived from it. Without a limit nobody counts, and this is 0.
    pub fn channels_in_use(&self) -> u64 {
        self.node.in_use(0)
    }
}

impl Lease<CapExecutor> {
    /// Takes the permit for so many threads: all of them or none.
    pub fn open_executor(&self, workers: usize, blocking_threads: usize) -> Result<ExecutorPermit, CapError> {
        self.check()?;
        let (workers, blocking) = (workers as u64, blocking_threads as u64);
        let refused = |what, wanted| {
            move |full: crate::node::Full| {
                let crate::node::Full { limit, in_use } = full;
                CapError::ExecutorLimitExceeded { what, limit, in_use, wanted }
            }
        };
        let outcome =
            self.node.take_all(WORKERS, workers).map_err(refused(ExecutorLimit::Workers, workers)).and_then(|()| {
                let taken = self.node.take_all(BLOCKING, blocking);
                taken.map_err(refused(ExecutorLimit::BlockingThreads, blocking)).inspect_err(|_| {
                    self.node.give(WORKERS, workers);
                })
            });
        match outcome {
            Ok(()) => Ok(ExecutorPermit { lease: self.clone(), workers, blocking }),
            Err(error) => Err(self.node.refuse(error)),
        }
    }

    /// How many workers and blocking threads there are by it. Without a limit nobody counts, and it is 0.
    pub fn threads_in_use(&self) -> (u64, u64) {
        (self.node.in_use(WORKERS), self.node.in_use(BLOCKING))
    }
}

/// One open channel is counted as long as this lives.
#[must_use = "dropping the permit says that the channel is gone"]
#[derive(Debug)]
pub struct ChannelPermit {
    lease: Lease<CapChannel>,
}

impl Drop for ChannelPermit {
    fn drop(&mut self) {
        self.lease.node.give(0, 1);
    }
}

/// Threads of one executor are counted as long as this lives.
#[must_use = "dropping the permit says that the threads are gone"]
#[derive(Debug)]
pub struct ExecutorPermit {
    lease: Lease<CapExecutor>,
    workers: u64,
    blocking: u64,
}

impl Drop for ExecutorPermit {
    fn drop(&mut self) {
        self.lease.node.give(WORKERS, self.workers);
        self.lease.node.give(BLOCKING, self.blocking);
    }
}
