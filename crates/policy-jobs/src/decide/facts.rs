//! Queries about jobs. Nothing here changes a job.
//!
//! Room: decisions.

use alloc::borrow::Cow;

use super::graph::{CANCELLING, LOCAL, NEVER, NONE, PAUSING};
use super::{Core, Usage};
use crate::JobId;
use crate::aging::Time;
use crate::error::Cause;
use crate::state::State;
use crate::trace::TraceId;

/// What an observer of events may look up about a job.
#[derive(Debug, Clone, Copy)]
pub struct JobFacts<'a>(pub(super) &'a Core);

impl<'a> JobFacts<'a> {
    /// Its name.
    pub fn name(self, job: JobId) -> Cow<'a, str> {
        self.0.names.get(job.0)
    }

    /// Why it ended without success; or the error of its last attempt.
    pub fn cause(self, job: JobId) -> Option<&'a Cause> {
        self.0.cause(job.0)
    }

    /// The name of the part it belongs to.
    pub fn part(self, job: JobId) -> Option<&'a str> {
        self.0.part_of(job.0).map(|part| self.0.part_name(part))
    }

    /// The trace id of the part it belongs to.
    pub fn trace_id(self, job: JobId) -> Option<TraceId> {
        self.0.trace_id(job.0)
    }
}

impl Core {
    /// The number of admitted jobs.
    pub fn len(&self) -> usize {
        self.admitted as usize
    }

    /// Whether no job is admitted.
    pub fn is_empty(&self) -> bool {
        self.admitted == 0
    }

    /// The name of a job.
    pub fn name(&self, id: u32) -> Cow<'_, str> {
        self.names.get(id)
    }

    /// The admitted job with that name.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names.find(name).filter(|id| *id < self.admitted)
    }

    /// The state of a job.
    #[inline]
    pub fn state(&self, id: u32) -> State {
        self.nodes[id as usize].state
    }

    /// How many attempts of a job have begun.
    #[inline]
    pub fn attempt(&self, id: u32) -> u32 {
        self.nodes[id as usize].attempt
    }

    /// Where a job runs, as the driver [set](Self::set_slot) it; `u32::MAX` if nowhere.
    #[inline]
    pub fn slot(&self, id: u32) -> u32 {
        let node = &self.nodes[id as usize];
        if node.state.is_terminal() { NONE } else { node.slot }
    }

    /// Why a job ended without success; or the error of its last attempt.
    pub fn cause(&self, id: u32) -> Option<&Cause> {
        self.extras.get(&id)?.cause.as_ref()
    }

    /// When it last became ready, when its last attempt began, and when it ended; `None` for what has not happened.
    pub fn times(&self, id: u32) -> [Option<Time>; 3] {
        let node = &self.nodes[id as usize];
        let known = |at: Time| Some(at).filter(|at| *at != NEVER);
        [known(node.ready_since), known(node.started), node.ended()]
    }

    /// The state that a paused job was paused from.
    pub fn paused_from(&self, id: u32) -> Option<State> {
        let node = &self.nodes[id as usize];
        (node.state == State::Paused).then_some(node.paused_from)
    }

    /// The job with that key.
    pub fn find_key(&self, key: &str) -> Option<u32> {
        self.keys.get(key).copied().filter(|id| *id < self.admitted)
    }

    /// Whether it runs on a worker of this process.
    #[inline]
    pub fn is_local(&self, id: u32) -> bool {
        self.nodes[id as usize].is(LOCAL)
    }

    /// Whether it was asked to end and still runs.
    #[inline]
    pub fn is_cancelling(&self, id: u32) -> bool {
        self.nodes[id as usize].is(CANCELLING)
    }

    /// Whether it was asked to pause and still runs.
    #[inline]
    pub fn is_pausing(&self, id: u32) -> bool {
        self.nodes[id as usize].is(PAUSING)
    }

    /// Whether it is paused in the middle of an attempt.
    #[inline]
    pub fn is_paused_from_running(&self, id: u32) -> bool {
        let node = &self.nodes[id as usize];
        node.state == State::Paused && node.paused_from == State::Running
    }

    /// Rises whenever a job joins a lane.
    #[inline]
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// The jobs that it needs.
    pub fn needs_of(&self, id: u32) -> impl Iterator<Item = u32> {
        let node = &self.nodes[id as usize];
        let first = node.first_need as usize;
        self.edges[first..first + node.needs as usize].iter().map(|edge| edge.need)
    }

    /// How many jobs are in each state, in the order of `State::ALL`.
    #[inline]
    pub fn counts(&self) -> [usize; 7] {
        self.counts
    }

    /// How many jobs have not ended.
    #[inline]
    pub fn open(&self) -> usize {
        self.counts[..4].iter().sum()
    }

    /// What running jobs use, and what this run would start if other runs released something.
    pub fn usage(&self) -> Usage {
        let mut usage = self.room.usage();
        (usage.wanted, usage.lacks_memory) = self.pending_demand();
        usage
    }
}
