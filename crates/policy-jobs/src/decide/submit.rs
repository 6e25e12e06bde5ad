//! Adding jobs: the whole batch, or nothing of it.
//!
//! Room: decisions.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use super::cards::CardSet;
use super::graph::{EXTRA, Edge, LOCAL, NEVER, NONE, Node, PART, find_cycle};
use super::{Core, Extra, Retry};
use crate::aging::Time;
use crate::demand::{Demand, GPUS_MAX};
use crate::error::SubmitError;
use crate::event::What;
use crate::id::Needed;
use crate::state::State;

const NAME_BYTES_MAX: usize = 4096;

/// What runs a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    /// A worker of this process: one job at a time.
    Worker,
    /// A fiber of this process.
    Fiber,
    /// An executor.
    Executor,
}

/// A job that is submitted.
#[derive(Debug)]
pub struct NewJob<'a> {
    /// Its name; no other job has it.
    pub name: &'a str,
    /// It has no name, intentionally.
    pub is_unnamed: bool,
    /// The jobs that must have succeeded before it starts.
    pub needs: &'a [Needed],
    /// CPU slots it takes while it runs.
    pub cpu_slots: u32,
    /// Memory it takes, in MB.
    pub ram_mb: u64,
    /// Video memory it takes, in MB: on each of its cards.
    pub vram_mb: u64,
    /// Greater runs first.
    pub priority: i32,
    /// What runs it.
    pub runs_on: RunsOn,
    /// Options that few jobs have.
    pub options: Option<&'a JobOptions>,
}

/// Options that few jobs have.
#[derive(Debug, Clone, Default)]
pub struct JobOptions {
    /// Named resources that it takes.
    pub named: Vec<(String, u64)>,
    /// Graphics cards that it takes.
    pub gpus: u32,
    /// The cards that it had in an earlier process of this run, by their ids.
    pub was_on: Vec<String>,
    /// How often, and how soon, it is retried.
    pub retry: Retry,
    /// How long it is expected to run.
    pub expected: Option<Duration>,
    /// Whether it succeeded in an earlier process of this run.
    pub done: bool,
    /// Attempts that were made in an earlier process of this run.
    pub attempts: u32,
    /// An idempotency key: a second submission with the same key does not run twice.
    pub key: Option<String>,
}

/// The demand of the last added job, and its number: most jobs have the same demand as the one before.
pub(super) type LastDemand = ((u32, u64, u64, RunsOn), u32);

/// A batch that is being added. No other batch may be added meanwhile.
#[derive(Debug)]
pub struct Draft {
    first: usize,
    first_edge: usize,
    /// Dependencies that did not exist yet when they were named: the edge, and the job it needs.
    forward: Vec<(u32, Needed)>,
    bad_ends: u64,
    /// The part that its jobs belong to, or `NONE`.
    part: u32,
    /// The new keys of this batch.
    keys: Vec<Box<str>>,
    /// Jobs whose key was known: how many came before each, and the job with that key.
    known: Vec<(u32, u32)>,
}

impl Draft {
    /// Jobs that were not added, because there are jobs with their keys: how many of the batch came before each, and the job with that key.
    pub fn known(&self) -> &[(u32, u32)] {
        &self.known
    }

    /// As [`known`](Self::known), when the batch is complete.
    pub fn into_known(self) -> Vec<(u32, u32)> {
        self.known
    }
}

impl Core {
    /// Begins a batch. Its jobs may depend on each other in any order.
    pub fn draft(&self, part: Option<u32>) -> Draft {
        Draft {
            first: self.nodes.len(),
            first_edge: self.edges.len(),
            forward: Vec::new(),
            bad_ends: self.bad_ends,
            part: part.unwrap_or(NONE),
            keys: Vec::new(),
            known: Vec::new(),
        }
    }

    /// The batch is complete. Its jobs are scheduled when they are admitted.
    ///
    /// # Errors
    /// If a dependency does not exist, has failed or was cancelled, or the dependencies have a cycle. Then the batch must be undone.
    pub fn seal(&mut self, draft: &Draft) -> Result<Range<u32>, SubmitError> {
        if !draft.forward.is_empty() {
            self.link_forward(draft)?;
        }
        if draft.bad_ends != self.bad_ends {
            // A dependency may have failed or been cancelled since the job was added.
            let bad = self.edges[draft.first_edge..]
                .iter()
                .find(|edge| matches!(self.nodes[edge.need as usize].state, State::Failed | State::Cancelled));
            if let Some(edge) = bad {
                return Err(self.dependency_failed(edge.dependent, edge.need));
            }
        }
        let jobs = draft.first as u32..self.nodes.len() as u32;
        self.parts.add(draft.part, jobs.clone());
        Ok(jobs)
    }

    /// The number of added jobs, admitted or not.
    pub fn added(&self) -> usize {
        self.nodes.len()
    }

    /// Admits added jobs: they are scheduled from now on. Called with one range after another, so that events can be published in between.
    pub fn admit(&mut self, now: Time, jobs: Range<u32>) {
        for id in jobs {
            let node = &self.nodes[id as usize];
            let (state, has_part) = (node.state, node.is(PART));
            self.admitted = id + 1;
            self.counts[state as usize] += 1;
            if has_part && !state.is_terminal() {
                self.opens_in_part(id);
            }
            self.emit(now, id, What::Submitted);
            if state == State::Succeeded {
                self.emit(now, id, What::Succeeded);
            } else if self.nodes[id as usize].unmet == 0 {
                self.make_ready(now, id);
            }
        }
    }

    /// Adds a job to a batch; `false` if there is already a job with its key.
    ///
    /// # Errors
    /// If the job is refused: its name is bad or in use, it wants more than there is, or a dependency has failed or was cancelled. Then the batch must be undone.
    pub fn add(&mut self, draft: &mut Draft, job: &NewJob<'_>) -> Result<bool, SubmitError> {
        let (name, bytes) = (job.name, job.name.len());
        if let Some(key) = job.options.and_then(|options| options.key.as_deref())
            && self.is_known(draft, name, key)?
        {
            return Ok(false);
        }
        if (bytes == 0 && !job.is_unnamed) || bytes > NAME_BYTES_MAX {
            return Err(SubmitError::BadName { name: name.chars().take(40).collect(), bytes });
        }
        let first_need = self.edges.len() as u32;
        let has_room = self.names.len() < NONE as usize
            && self.names.has_room(bytes)
            && self.edges.len() + job.needs.len() < NONE as usize;
        if !has_room {
            return Err(SubmitError::TooMany { limit: self.names.len() });
        }
        if !self.names.add(name) {
            return Err(SubmitError::Duplicate { name: name.to_owned() });
        }
        let id = self.nodes.len() as u32;
        let lane = self.lane_for(job)?;
        let mut unmet = 0;
        for needed in job.needs {
            let at = self.edges.len() as u32;
            let Some(need) = self.resolve(needed) else {
                draft.forward.push((at, needed.clone()));
                self.edges.push(Edge { need: NONE, dependent: id, next: NONE });
                unmet += 1;
                continue;
            };
            if need == id {
                return Err(SubmitError::NeedsItself { job: name.to_owned() });
            }
            let node = &mut self.nodes[need as usize];
            match node.state {
                State::Succeeded => {}
                State::Failed | State::Cancelled => return Err(self.dependency_failed(id, need)),
                _ => unmet += 1,
            }
            let next = core::mem::replace(&mut node.first_dependent, at);
            self.edges.push(Edge { need, dependent: id, next });
        }
        let mut flags = if job.runs_on == RunsOn::Executor { 0 } else { LOCAL };
        if draft.part != NONE {
            flags |= PART;
        }
        let (mut attempt, mut state) = (0, State::Queued);
        if let Some(options) = job.options {
            let was_on = self.cards_named(&options.was_on);
            let extra = Extra {
                retry: options.retry,
                expected: options.expected,
                cause: None,
                spent: options.attempts,
                was_on,
            };
            self.extras.insert(id, extra);
            flags |= EXTRA;
            attempt = options.attempts;
            if options.done {
                state = State::Succeeded;
            }
        }
        self.nodes.push(Node {
            ready_since: NEVER,
            started: NEVER,
            first_need,
            needs: job.needs.len() as u32,
            first_dependent: NONE,
            unmet,
            lane,
            stamp: 0,
            attempt,
            slot: NONE,
            held_at: NONE,
            state,
            paused_from: State::Queued,
            flags,
        });
        Ok(true)
    }

    /// Whether there is a job with that key; if not, the next job gets it.
    #[cold]
    fn is_known(&mut self, draft: &mut Draft, name: &str, key: &str) -> Result<bool, SubmitError> {
        let bytes = key.len();
        if bytes == 0 || bytes > NAME_BYTES_MAX {
            return Err(SubmitError::BadKey { job: name.to_owned(), bytes });
        }
        let next = self.nodes.len();
        if let Some(&id) = self.keys.get(key) {
            let before = next - draft.first + draft.known.len();
            draft.known.push((before as u32, id));
            return Ok(true);
        }
        self.keys.insert(key.into(), next as u32);
        draft.keys.push(key.into());
        Ok(false)
    }

    /// The cards with these ids, as far as they are known.
    fn cards_named(&self, ids: &[String]) -> CardSet {
        let number = |id: &String| self.rules.limits.gpus.iter().take(GPUS_MAX).position(|gpu| gpu.id == *id);
        ids.iter().filter_map(number).fold(CardSet::NONE, CardSet::with)
    }

    /// The job that is needed, if it exists. That can be the job that is being added.
    #[inline]
    fn resolve(&self, needed: &Needed) -> Option<u32> {
        match needed {
            Needed::Id(need) => Some(need.0).filter(|need| (*need as usize) < self.names.len()),
            Needed::Name(name) => self.names.find(name),
        }
    }

    #[cold]
    fn dependency_failed(&self, id: u32, need: u32) -> SubmitError {
        let (job, dependency) = (self.names.get(id).into_owned(), self.names.get(need).into_owned());
        SubmitError::DependencyFailed { job, dependency, state: self.nodes[need as usize].state }
    }

    /// Links the dependencies on later jobs of the batch, unless there is a cycle.
    #[cold]
    fn link_forward(&mut self, draft: &Draft) -> Result<(), SubmitError> {
        for (at, needed) in &draft.forward {
            let dependent = self.edges[*at as usize].dependent;
            let Some(need) = self.resolve(needed) else {
                let (job, dependency) = (self.names.get(dependent).into_owned(), needed.to_string());
                return Err(SubmitError::MissingDependency { job, dependency });
            };
            self.edges[*at as usize].need = need;
        }
        let first = draft.first;
        let inside = |edge: &Edge| (edge.need as usize).checked_sub(first);
        let cycle = find_cycle(self.nodes.len() - first, |member| {
            let node = &self.nodes[first + member];
            let start = node.first_need as usize;
            self.edges[start..start + node.needs as usize].iter().filter_map(inside)
        });
        if let Some(members) = cycle {
            let jobs = members.into_iter().map(|member| self.names.get((first + member) as u32).into_owned()).collect();
            return Err(SubmitError::Cycle { jobs });
        }
        for &(at, _) in &draft.forward {
            let Edge { need, dependent, .. } = self.edges[at as usize];
            let node = &mut self.nodes[need as usize];
            let is_done = node.state == State::Succeeded;
            self.edges[at as usize].next = core::mem::replace(&mut node.first_dependent, at);
            if is_done {
                self.nodes[dependent as usize].unmet -= 1;
            }
        }
        Ok(())
    }

    /// The lane of such jobs; refuses a job that can never fit.
    fn lane_for(&mut self, job: &NewJob<'_>) -> Result<u32, SubmitError> {
        let like = (job.cpu_slots, job.ram_mb, job.vram_mb, job.runs_on);
        let is_plain = job.options.is_none_or(|options| options.named.is_empty() && options.gpus == 0);
        let demand = match &self.last_demand {
            Some((last, demand)) if is_plain && *last == like => *demand,
            _ => self.demand_of(job)?,
        };
        if is_plain {
            self.last_demand = Some((like, demand));
        }
        Ok(self.lanes.lane(job.priority, demand, self.needs[demand as usize].plain))
    }

    fn demand_of(&mut self, job: &NewJob<'_>) -> Result<u32, SubmitError> {
        let (named, gpus) = job.options.map_or_else(Default::default, |options| (options.named.clone(), options.gpus));
        let demand = Demand { cpu_slots: job.cpu_slots, ram_mb: job.ram_mb, vram_mb: job.vram_mb, gpus, named };
        let need = self.room.need(&demand, u64::from(job.runs_on == RunsOn::Worker)).map_err(|resource| {
            SubmitError::UnknownResource {
                job: job.name.to_owned(),
                resource,
                known: self.room.named().map(|(name, _)| name.to_string()).collect(),
            }
        })?;
        Ok(match self.need_ids.get(&need) {
            Some(id) => *id,
            None => {
                let never = |resource: &str, wanted, hard_limit| SubmitError::NeverFits {
                    job: job.name.to_owned(),
                    resource: resource.to_owned(),
                    wanted,
                    hard_limit,
                };
                let (wanted, limit) = (u64::from(job.cpu_slots), self.room.cpu_limit());
                if wanted > limit {
                    return Err(never("CPU slots", wanted, limit));
                }
                self.room.check_cards(job.name, &demand)?;
                for &(i, wanted) in &need.named {
                    let (name, limit) = self.room.named().nth(usize::from(i)).expect("it was looked up");
                    if wanted > limit {
                        return Err(never(name, wanted, limit));
                    }
                }
                let id = self.needs.len() as u32;
                self.needs.push(need.clone());
                self.need_ids.insert(need, id);
                id
            }
        })
    }

    /// Removes everything of a batch.
    #[cold]
    pub fn undo(&mut self, draft: &Draft) {
        let first = draft.first;
        while self.edges.len() > draft.first_edge {
            let at = self.edges.len() as u32 - 1;
            let edge = self.edges.pop().expect("there is one");
            if let Some(node) = self.nodes.get_mut(edge.need as usize)
                && node.first_dependent == at
            {
                node.first_dependent = edge.next;
            }
        }
        for key in &draft.keys {
            self.keys.remove(key);
        }
        for id in first..self.nodes.len() {
            self.extras.remove(&(id as u32));
        }
        self.nodes.truncate(first);
        self.names.truncate(first);
    }
}
