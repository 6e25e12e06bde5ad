//! The log of what was granted and what was refused.
//!
//! Room: state.
//!
//! # Invariant
//! Memory is bounded by the capacity; totals are exact, also of what was overwritten. A flood of refusals overwrites
//! refusals only: it cannot push grants out of the log.
//!
//! # Why it holds
//! Grants and refusals have a ring each, of half the capacity. Totals and rings change under one lock. A use that succeeds is counted, by the capability, and writes no
//! record.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{CapErrorKind, CapId, Kind};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditEvent {
    /// The ledger made a capability that has no parent.
    Granted,
    /// A narrower one was derived.
    Attenuated,
    /// One with the same terms was derived.
    Delegated,
    /// It was revoked, and everything derived from it.
    Revoked {
        /// How many capabilities that were, itself included.
        reached: usize,
    },
    /// A use of it was refused, or there was none to use.
    Refused(CapErrorKind),
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditRecord {
    /// Its number, from 0. Gaps are records that were overwritten.
    pub sequence: u64,
    /// What happened.
    pub event: AuditEvent,
    /// The kind of capability, if known.
    pub kind: Option<Kind>,
    /// Which one, if there was one.
    pub id: Option<CapId>,
    /// What it was derived from, if it was.
    pub parent: Option<CapId>,
    /// The label of its holder, if one was given.
    pub label: Option<Arc<str>>,
}

impl fmt::Display for AuditRecord {
    /// `7: refused TaskLimitExceeded, CapSpawn 2v1 of 0v1, for plugin-7`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.sequence)?;
        match self.event {
            AuditEvent::Granted => f.write_str("granted")?,
            AuditEvent::Attenuated => f.write_str("attenuated")?,
            AuditEvent::Delegated => f.write_str("delegated")?,
            AuditEvent::Revoked { reached } => write!(f, "revoked ({reached} in all)")?,
            AuditEvent::Refused(kind) => write!(f, "refused {kind:?}")?,
        }
        if let Some(kind) = self.kind {
            write!(f, ", {kind}")?;
        }
        if let Some(id) = self.id {
            write!(f, " {id}")?;
        }
        if let Some(parent) = self.parent {
            write!(f, " of {parent}")?;
        }
        if let Some(label) = &self.label {
            write!(f, ", for {label}")?;
        }
        Ok(())
    }
}

/// How often a capability was used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CapUse {
    /// Which one.
    pub id: CapId,
    /// Of which kind.
    pub kind: Kind,
    /// The label of its holder, if one was given.
    pub label: Option<Arc<str>>,
    /// How often.
    pub uses: u64,
}

/// How often each event happened since the ledger was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AuditTotals {
    /// [`AuditEvent::Granted`].
    pub granted: u64,
    /// [`AuditEvent::Attenuated`].
    pub attenuated: u64,
    /// [`AuditEvent::Delegated`].
    pub delegated: u64,
    /// [`AuditEvent::Revoked`].
    pub revoked: u64,
    /// The uses of all capabilities together; see [`Ledger::uses`](crate::Ledger::uses).
    pub used: u64,
    refused: [u64; CapErrorKind::ALL.len()],
}

impl AuditTotals {
    /// How often something was refused for this reason.
    pub const fn refused(&self, kind: CapErrorKind) -> u64 {
        self.refused[kind as usize]
    }

    /// How often anything was refused.
    pub fn refusals(&self) -> u64 {
        self.refused.iter().sum()
    }
}

pub(crate) struct AuditLog(Mutex<Log>);

struct Log {
    sequence: u64,
    totals: AuditTotals,
    changes: Ring,
    refusals: Ring,
}

struct Ring {
    records: VecDeque<AuditRecord>,
    capacity: usize,
}

impl Ring {
    fn new(capacity: usize) -> Self {
        Self { records: VecDeque::new(), capacity }
    }

    fn push(&mut self, record: AuditRecord) {
        if self.records.len() == self.capacity && self.records.pop_front().is_none() {
            return; // no capacity at all: only totals
        }
        self.records.push_back(record);
    }
}

impl AuditLog {
    pub(crate) fn new(capacity: usize) -> Self {
        let (changes, refusals) = (Ring::new(capacity / 2), Ring::new(capacity - capacity / 2));
        Self(Mutex::new(Log { sequence: 0, totals: AuditTotals::default(), changes, refusals }))
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        // Nothing inside can leave it half done, so a panic elsewhere on the thread spoiled nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(
        &self,
        event: AuditEvent,
        kind: Option<Kind>,
        id: Option<CapId>,
        parent: Option<CapId>,
        label: Option<Arc<str>>,
    ) {
        let mut log = self.lock();
        let Log { sequence, totals, changes, refusals } = &mut *log;
        let (total, ring) = match event {
            AuditEvent::Granted => (&mut totals.granted, changes),
            AuditEvent::Attenuated => (&mut totals.attenuated, changes),
            AuditEvent::Delegated => (&mut totals.delegated, changes),
            AuditEvent::Revoked { .. } => (&mut totals.revoked, changes),
            AuditEvent::Refused(kind) => (&mut totals.refused[kind as usize], refusals),
        };
        *total += 1;
        ring.push(AuditRecord { sequence: *sequence, event, kind, id, parent, label });
        *sequence += 1;
    }

    /// What is still there, oldest first.
    pub(crate) fn records(&self) -> Vec<AuditRecord> {
        let log = self.lock();
        let mut records: Vec<_> = log.changes.records.iter().chain(&log.refusals.records).cloned().collect();
        drop(log);
        records.sort_by_key(|record| record.sequence);
        records
    }

    pub(crate) fn totals(&self) -> AuditTotals {
        self.lock().totals
    }
}
