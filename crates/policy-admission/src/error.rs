//! Why authority was refused, with a message that says what to do.
//!
//! Room: values.

use std::{error::Error, fmt};

use vocab::Component;

use crate::{CapId, Kind};

/// A refusal. Values, not strings: the runtime puts them into errors of tasks, and the audit log keeps their [`kind`](CapError::kind).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CapError {
    /// A task was to be started without a `CapSpawn`.
    NoSpawnCapability,
    /// A budget was to be recharged without a `CapBudget`.
    NoBudgetCapability,
    /// A channel was to be opened without a `CapChannel`.
    NoChannelCapability,
    /// An executor was to be started without a `CapExecutor`.
    NoExecutorCapability,
    /// All tasks that the capability, or one above it, allows are running.
    TaskLimitExceeded {
        /// How many it allows.
        limit: u64,
        /// How many there were.
        in_use: u64,
    },
    /// One channel too many, or too large a one.
    ChannelLimitExceeded {
        /// Which of the two.
        what: ChannelLimit,
        /// How much is allowed.
        limit: u64,
        /// How much there was already; nothing for a buffer.
        in_use: u64,
        /// How much more was wanted.
        wanted: u64,
    },
    /// Nothing of what was wanted is left.
    BudgetLimitExceeded {
        /// The first component that was wanted.
        component: Component,
        /// How much of it was wanted.
        wanted: u64,
        /// How much of it could be drawn in all.
        limit: u64,
    },
    /// Too many threads.
    ExecutorLimitExceeded {
        /// Of which sort.
        what: ExecutorLimit,
        /// How many are allowed.
        limit: u64,
        /// How many there were already.
        in_use: u64,
        /// How many more were wanted.
        wanted: u64,
    },
    /// The capability may be used, but nothing may be derived from it.
    NotDelegatable {
        /// Which one.
        id: CapId,
    },
    /// The capability, or one above it, was revoked.
    Revoked {
        /// Which one was used.
        id: CapId,
    },
    /// The name belongs to no capability any more.
    Stale {
        /// The name.
        id: CapId,
    },
    /// The capability comes from another ledger than the one that counts here.
    Foreign,
    /// The capability to be revoked was not derived from the one that revokes.
    NotDerived {
        /// Which one was to be revoked.
        id: CapId,
        /// By which.
        from: CapId,
    },
}

/// Which limit of a `CapChannel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelLimit {
    /// How many channels there are.
    Channels,
    /// How many messages one may hold.
    Buffer,
}

/// Which limit of a `CapExecutor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecutorLimit {
    /// Workers.
    Workers,
    /// Threads for calls that block.
    BlockingThreads,
}

/// The kinds of [`CapError`], to count by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CapErrorKind {
    /// See [`CapError::NoSpawnCapability`].
    NoSpawnCapability,
    /// See [`CapError::NoBudgetCapability`].
    NoBudgetCapability,
    /// See [`CapError::NoChannelCapability`].
    NoChannelCapability,
    /// See [`CapError::NoExecutorCapability`].
    NoExecutorCapability,
    /// See [`CapError::TaskLimitExceeded`].
    TaskLimitExceeded,
    /// See [`CapError::ChannelLimitExceeded`].
    ChannelLimitExceeded,
    /// See [`CapError::BudgetLimitExceeded`].
    BudgetLimitExceeded,
    /// See [`CapError::ExecutorLimitExceeded`].
    ExecutorLimitExceeded,
    /// See [`CapError::NotDelegatable`].
    NotDelegatable,
    /// See [`CapError::Revoked`].
    Revoked,
    /// See [`CapError::Stale`].
    Stale,
    /// See [`CapError::NotDerived`].
    NotDerived,
    /// See [`CapError::Foreign`].
    Foreign,
}

impl CapErrorKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [CapErrorKind; 13] = [
        CapErrorKind::NoSpawnCapability,
        CapErrorKind::NoBudgetCapability,
        CapErrorKind::NoChannelCapability,
        CapErrorKind::NoExecutorCapability,
        CapErrorKind::TaskLimitExceeded,
        CapErrorKind::ChannelLimitExceeded,
        CapErrorKind::BudgetLimitExceeded,
        CapErrorKind::ExecutorLimitExceeded,
        CapErrorKind::NotDelegatable,
        CapErrorKind::Revoked,
        CapErrorKind::Stale,
        CapErrorKind::NotDerived,
        CapErrorKind::Foreign,
    ];
}

impl CapError {
    /// What to say where a capability of this kind is needed and there is none.
    pub const fn none(kind: Kind) -> CapError {
        match kind {
            Kind::Spawn => CapError::NoSpawnCapability,
            Kind::Budget => CapError::NoBudgetCapability,
            Kind::Channel => CapError::NoChannelCapability,
            Kind::Executor => CapError::NoExecutorCapability,
        }
    }

    /// Which error it is, without its values.
    pub const fn kind(&self) -> CapErrorKind {
        match self {
            CapError::NoSpawnCapability => CapErrorKind::NoSpawnCapability,
            CapError::NoBudgetCapability => CapErrorKind::NoBudgetCapability,
            CapError::NoChannelCapability => CapErrorKind::NoChannelCapability,
            CapError::NoExecutorCapability => CapErrorKind::NoExecutorCapability,
            CapError::TaskLimitExceeded { .. } => CapErrorKind::TaskLimitExceeded,
            CapError::ChannelLimitExceeded { .. } => CapErrorKind::ChannelLimitExceeded,
            CapError::BudgetLimitExceeded { .. } => CapErrorKind::BudgetLimitExceeded,
            CapError::ExecutorLimitExceeded { .. } => CapErrorKind::ExecutorLimitExceeded,
            CapError::NotDelegatable { .. } => CapErrorKind::NotDelegatable,
            CapError::Revoked { .. } => CapErrorKind::Revoked,
            CapError::Stale { .. } => CapErrorKind::Stale,
            CapError::NotDerived { .. } => CapErrorKind::NotDerived,
            CapError::Foreign => CapErrorKind::Foreign,
        }
    }

    /// The kind of capability that was missing, if one was.
    pub(crate) const fn missing(&self) -> Option<Kind> {
        match self {
            CapError::NoSpawnCapability => Some(Kind::Spawn),
            CapError::NoBudgetCapability => Some(Kind::Budget),
            CapError::NoChannelCapability => Some(Kind::Channel),
            CapError::NoExecutorCapability => Some(Kind::Executor),
            _ => None,
        }
    }
}

impl fmt::Display for CapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CapError::NoSpawnCapability => {
                f.write_str("there is no CapSpawn here, so no task can start; give the nursery one that its owner may delegate")
            }
            CapError::NoBudgetCapability => f.write_str(
                "there is no CapBudget here, so nothing can be recharged; give the task one, or let its nursery or supervisor recharge it",
            ),
            CapError::NoChannelCapability => {
                f.write_str("there is no CapChannel here, so no channel can open; give the nursery one, or hand an open channel in")
            }
            CapError::NoExecutorCapability => {
                f.write_str("there is no CapExecutor here, so no executor can start; give one, or use the executor that runs")
            }
            CapError::TaskLimitExceeded { limit, in_use } => write!(
                f,
                "{in_use} of {limit} allowed tasks are running; wait for one to end, or attenuate less: `.max_tasks({})`",
                limit.saturating_add(1)
            ),
            CapError::ChannelLimitExceeded { what: ChannelLimit::Channels, limit, in_use, wanted } => write!(
                f,
                "{in_use} of {limit} allowed channels are open and {wanted} more was wanted; drop one, or attenuate less: \
                 `.max_channels({})`",
                in_use.saturating_add(wanted)
            ),
            CapError::ChannelLimitExceeded { what: ChannelLimit::Buffer, limit, wanted, .. } => write!(
                f,
                "a channel for {wanted} messages was wanted but the limit is {limit}; ask for a smaller one, or attenuate less: \
                 `.max_buffer({wanted})`"
            ),
            CapError::BudgetLimitExceeded { component, wanted, limit } => write!(
                f,
                "{wanted} of {component} was wanted but all {limit} are drawn, and nothing is put back; have a new CapBudget granted, \
                 or attenuate less: a larger `.limit`"
            ),
            CapError::ExecutorLimitExceeded { what, limit, in_use, wanted } => {
                let (what, knob) = match what {
                    ExecutorLimit::Workers => ("workers", "max_workers"),
                    ExecutorLimit::BlockingThreads => ("blocking threads", "max_blocking_threads"),
                };
                let enough = in_use.saturating_add(wanted);
                write!(
                    f,
                    "{wanted} {what} were wanted and {in_use} are in use, but the limit is {limit}; ask for fewer, or attenuate \
                     less: `.{knob}({enough})`"
                )
            }
            CapError::NotDelegatable { id } => write!(
                f,
                "capability {id} may be used but not passed on; derive from one above it, or have it granted with \
                 `Delegation::Allowed`"
            ),
            CapError::Revoked { id } => {
                write!(f, "capability {id}, or one above it, was revoked; ask its grantor for a new one")
            }
            CapError::Stale { id } => {
                write!(f, "{id} names no capability any more: it was dropped or revoked; use the name of a live one")
            }
            CapError::Foreign => f.write_str(
                "the capability comes from another ledger than the scope's, and adds nothing here; derive it from one that the scope has, or \
                 build the runtime with the ledger that granted it",
            ),
            CapError::NotDerived { id, from } => write!(
                f,
                "capability {id} was not derived from {from}, which therefore cannot revoke it; ask its own parent, or the ledger"
            ),
        }
    }
}

impl Error for CapError {}
