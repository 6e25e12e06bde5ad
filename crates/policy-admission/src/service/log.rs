//! The log of what was decided about the service's messages.
//!
//! Room: state.
//!
//! # Invariant
//! Memory is bounded; totals are exact. A flood of refusals overwrites refusals only, and one of equal refusals is a single record with a count.

use std::{collections::VecDeque, fmt};

use policy_cpu::Nanos;

/// How many changes are kept, and as many refusals.
const KEPT: usize = 128;
/// The longest reason that is kept, in bytes: it may quote what a service sent.
const REASON_BYTES_MAX: usize = 512;

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Heard {
    /// A policy under a number.
    Proposal,
    /// A sign of life.
    Heartbeat,
    /// Bytes that are no message.
    Garbage,
    /// The end of the connection.
    Disconnection,
    /// Nothing, for a while.
    Silence,
}

impl Heard {
    /// As it is written in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Heard::Proposal => "proposal",
            Heard::Heartbeat => "heartbeat",
            Heard::Garbage => "garbage",
            Heard::Disconnection => "disconnection",
            Heard::Silence => "silence",
        }
    }
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is in force now.
    Accepted,
    /// It changed nothing.
    Refused,
    /// The service is there.
    Alive,
    /// The service says nothing.
    Stale,
    /// The service is not there.
    Gone,
}

impl Verdict {
    /// As it is written in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Accepted => "accepted",
            Verdict::Refused => "refused",
            Verdict::Alive => "alive",
            Verdict::Stale => "stale",
            Verdict::Gone => "gone",
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its number, from 0. Gaps are records that were overwritten.
    pub sequence: u64,
    /// When, on the receiver's clock.
    pub at: Nanos,
    /// What came.
    pub heard: Heard,
    /// Under which number, if it has one.
    pub number: Option<u64>,
    /// What was decided.
    pub verdict: Verdict,
    /// The epoch in force after it.
    pub in_force: u64,
    /// Why; empty if that is plain.
    pub reason: String,
    /// How often the same was refused again, right after.
    pub repeated: u64,
}

impl fmt::Display for Record {
    /// `proposal of epoch 8: refused, 7 stays in force: epoch 8 …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.heard.name())?;
        if let Some(number) = self.number {
            write!(f, " of epoch {number}")?;
        }
        write!(f, ": {}", self.verdict.name())?;
        if self.verdict != Verdict::Accepted {
            write!(f, "; epoch {} stays in force", self.in_force)?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        if self.repeated > 0 {
            write!(f, " ({} times more)", self.repeated)?;
        }
        Ok(())
    }
}

/// The log: two rings.
#[derive(Debug, Clone, Default)]
pub(super) struct DecisionLog {
    next: u64,
    refused: u64,
    changes: VecDeque<Record>,
    refusals: VecDeque<Record>,
}

impl DecisionLog {
    /// Adds a record. `is_again` says that a refusal is of the same kind as the one before.
    pub(super) fn add(&mut self, mut record: Record, is_again: bool) {
        let is_refusal = record.verdict == Verdict::Refused;
        self.refused += u64::from(is_refusal);
        if is_refusal
            && is_again
            && let Some(last) = self.refusals.back_mut()
            && last.heard == record.heard
            && last.sequence + 1 == self.next
        {
            last.repeated += 1;
            return;
        }
        record.sequence = self.next;
        self.next += 1;
        clip(&mut record.reason);
        let ring = if is_refusal { &mut self.refusals } else { &mut self.changes };
        if ring.len() == KEPT {
            ring.pop_front();
        }
        ring.push_back(record);
    }

    /// What is still there, oldest first.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut all: Vec<Record> = self.changes.iter().chain(&self.refusals).cloned().collect();
        all.sort_by_key(|record| record.sequence);
        all
    }

    /// How often anything was refused.
    pub(super) const fn refused(&self) -> u64 {
        self.refused
    }

    /// The newest refusal.
    pub(super) fn last_refusal(&self) -> Option<&Record> {
        self.refusals.back()
    }
}

fn clip(reason: &mut String) {
    if reason.len() > REASON_BYTES_MAX {
        let end = (0..=REASON_BYTES_MAX).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
        reason.truncate(end);
        reason.push('…');
    }
}
