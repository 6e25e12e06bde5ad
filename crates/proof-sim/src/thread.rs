//! A thread of the machine: where it stands in its program, and what is counted of it.
//!
//! Room: state.

use std::collections::VecDeque;

use policy_cpu::{Nanos, ThreadCpuAccount, ThreadId};

use crate::histogram::Histogram;
use crate::program::{Program, Step};

/// A thread, as the machine knows it. In the order of how often it is looked at: what a wake needs is one cache line, what a step needs the next, what a start needs the third.
#[repr(C, align(64))]
pub(crate) struct Simulated {
    pub(crate) id: ThreadId,
    pub(crate) is_over: bool,
    /// Since when it could run and did not.
    pub(crate) ready_since: Option<Nanos>,
    /// By when it should be done.
    pub(crate) due: Option<Nanos>,
    /// By when after a wake it should be done.
    pub(crate) deadline: Option<Nanos>,

    /// What is left of the step that computes.
    pub(crate) left: Nanos,
    /// The step that comes next.
    pub(crate) at: usize,
    pub(crate) program: Program,
    /// The request of a ring that it serves.
    pub(crate) serves: Option<u32>,
    pub(crate) rounds: u64,

    pub(crate) waits: Histogram,
    /// A longer wait breaks a law.
    pub(crate) wait_limit: Option<Nanos>,

    /// Threads that wait to call it.
    pub(crate) callers: VecDeque<u32>,
    pub(crate) deadlines: u64,
    pub(crate) misses: u64,
    /// Calls and polls that were refused.
    pub(crate) refused: u64,
    pub(crate) name: String,
    pub(crate) process: usize,
    /// What it had used when it ended.
    pub(crate) final_account: ThreadCpuAccount,
}

impl Simulated {
    pub(crate) fn new(name: String, process: usize, id: ThreadId, program: Program) -> Self {
        Simulated {
            name,
            process,
            id,
            at: usize::from(program.steps.first() == Some(&Step::Receive)),
            program,
            left: 0,
            callers: VecDeque::new(),
            serves: None,
            ready_since: None,
            is_over: false,
            waits: Histogram::default(),
            wait_limit: None,
            deadline: None,
            due: None,
            deadlines: 0,
            misses: 0,
            rounds: 0,
            refused: 0,
            final_account: ThreadCpuAccount::default(),
        }
    }

    /// It could run from now on.
    pub(crate) fn is_ready(&mut self, now: Nanos) {
        self.ready_since = Some(now);
        if self.due.is_none() {
            self.due = self.deadline.map(|deadline| now + deadline);
        }
    }

    /// It got a CPU. How long it waited, if that is too long.
    pub(crate) fn starts(&mut self, now: Nanos) -> Option<Nanos> {
        let waited = now - self.ready_since.take()?;
        self.waits.add(waited);
        self.wait_limit.filter(|limit| waited > *limit).map(|_| waited)
    }

    /// How long it waited each time, also the wait that lasts.
    pub(crate) fn waits_until(&self, now: Nanos) -> Histogram {
        let mut waits = self.waits.clone();
        if let (Some(since), false) = (self.ready_since, self.is_over) {
            waits.add(now - since);
        }
        waits
    }

    /// It did what it was woken for.
    pub(crate) fn is_done(&mut self, now: Nanos) {
        if let Some(due) = self.due.take() {
            self.deadlines += 1;
            self.misses += u64::from(now > due);
        }
    }
}
