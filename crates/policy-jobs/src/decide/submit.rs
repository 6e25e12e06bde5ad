//! Taking jobs in: all of a batch, or none and no trace.

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

const LONGEST_NAME: usize = 4096;

/// What carries out a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// A worker of this process: one job at a time.
    Worker,
    /// A fiber of this process.
    Fiber,
    /// An executor.
    Executor,
}

/// A job as it is handed in.
#[derive(Debug)]
pub struct NewJob<'a> {
    /// Its name; no other job has it.
    pub name: &'a str,
    /// It has no name, on purpose.
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
    /// What carries it out.
    pub on: On,
    /// What few jobs have, if this one has any of it.
    pub rare: Option<&'a Rare>,
}

/// What few jobs have.
#[derive(Debug, Clone, Default)]
pub struct Rare {
    /// Named resources that it takes.
    pub named: Vec<(String, u64)>,
    /// Graphics cards that it takes.
    pub gpus: u32,
    /// The cards that an earlier life of this run gave it, by their ids.
    pub was_on: Vec<String>,
    /// How often, and how soon, it is tried again.
    pub retry: Retry,
    /// How long it probably runs.
    pub expected: Option<Duration>,
    /// Whether it succeeded in an earlier life of this run.
    pub done: bool,
    /// Attempts that an earlier life of this run made.
    pub attempts: u32,
    /// What it is known by, so that it can be submitted again without running twice.
    pub key: Option<String>,
}

/// The demand of the job that was taken last, and its number: most jobs are like the one before.
pub(super) type LastDemand = ((u32, u64, u64, On), u32);

/// A batch that is being taken in. Nobody else may add jobs meanwhile.
#[derive(Debug)]
pub struct Draft {
    first: usize,
    first_edge: usize,
    /// Needs that were not there when they were named: the edge, and whom it needs.
    forward: Vec<(u32, Needed)>,
    misfortunes: u64,
    /// The part that its jobs belong to, or `NONE`.
    part: u32,
    /// The keys that came with it.
    keys: Vec<Box<str>>,
    /// Jobs whose key was known: how many came before each, and which job it is.
    known: Vec<(u32, u32)>,
}

impl Draft {
    /// Jobs that were not taken, because there are jobs of their keys: how many of the batch came before each, and which job it is.
    pub fn known(&self) -> &[(u32, u32)] {
        &self.known
    }

    /// As [`known`](Self::known), when the batch is through.
    pub fn into_known(self) -> Vec<(u32, u32)> {
        self.known
    }
}

impl Core {
    /// Begins a batch. Its jobs may need each other in any order.
    pub fn draft(&self, part: Option<u32>) -> Draft {
        Draft {
            first: self.nodes.len(),
            first_edge: self.edges.len(),
            forward: Vec::new(),
            misfortunes: self.misfortunes,
            part: part.unwrap_or(NONE),
            keys: Vec::new(),
            known: Vec::new(),
        }
    }

    /// All of a batch was added: its jobs take part when they are admitted.
    ///
    /// # Errors
    /// If a job needs one that is not there or ended badly, or jobs need each other in a circle. Then the batch must be undone.
    pub fn seal(&mut self, draft: &Draft) -> Result<Range<u32>, SubmitError> {
        if !draft.forward.is_empty() {
            self.link_forward(draft)?;
        }
        if draft.misfortunes != self.misfortunes {
            // Something it needs may have ended badly since it was added.
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

    /// How many jobs were added, whether they take part or not.
    pub fn added(&self) -> usize {
        self.nodes.len()
    }

    /// Lets jobs that were taken take part. In stretches, so that news of them can be told in between.
    pub fn admit(&mut self, now: Time, jobs: Range<u32>) {
        for id in jobs {
            let node = &self.nodes[id as usize];
            let (state, has_part) = (node.state, node.is(PART));
            self.admitted = id + 1;
            self.counts[state as usize] += 1;
            if has_part && !state.is_terminal() {
                self.opens_in_part(id);
            }
            self.tell(now, id, What::Submitted);
            if state == State::Succeeded {
                self.tell(now, id, What::Succeeded);
            } else if self.nodes[id as usize].unmet == 0 {
                self.make_ready(now, id);
            }
        }
    }

    /// Adds a job to a batch; `false` if there is one of its key.
    ///
    /// # Errors
    /// If the job cannot be taken: its name is bad or used, it wants more than there is, or needs what ended badly. Then the batch must be undone.
    pub fn add(&mut self, draft: &mut Draft, job: &NewJob<'_>) -> Result<bool, SubmitError> {
        let (name, bytes) = (job.name, job.name.len());
        if let Some(key) = job.rare.and_then(|rare| rare.key.as_deref())
            && self.is_known(draft, name, key)?
        {
            return Ok(false);
        }
        if (bytes == 0 && !job.is_unnamed) || bytes > LONGEST_NAME {
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
        let mut flags = if job.on == On::Executor { 0 } else { LOCAL };
        if draft.part != NONE {
            flags |= PART;
        }
        let (mut attempt, mut state) = (0, State::Queued);
        if let Some(rare) = job.rare {
            let was_on = self.cards_named(&rare.was_on);
            let extra = Extra { retry: rare.retry, expected: rare.expected, cause: None, spent: rare.attempts, was_on };
            self.extras.insert(id, extra);
            flags |= EXTRA;
            attempt = rare.attempts;
            if rare.done {
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
            place: NONE,
            held_at: NONE,
            state,
            paused_from: State::Queued,
            flags,
        });
        Ok(true)
    }

    /// Whether there is a job of that key; if not, the next to be added is.
    #[cold]
    fn is_known(&mut self, draft: &mut Draft, name: &str, key: &str) -> Result<bool, SubmitError> {
        let bytes = key.len();
        if bytes == 0 || bytes > LONGEST_NAME {
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

    /// The cards of these ids, as far as they are known.
    fn cards_named(&self, ids: &[String]) -> CardSet {
        let number = |id: &String| self.rules.limits.gpus.iter().take(GPUS_MAX).position(|gpu| gpu.id == *id);
        ids.iter().filter_map(number).fold(CardSet::NONE, CardSet::with)
    }

    /// The job that is needed, if it is there; `id` itself while it is being added.
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

    /// Some jobs of the batch need later ones: links them, unless they go in a circle.
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

    /// The lane of such jobs; refuses what can never fit.
    fn lane_for(&mut self, job: &NewJob<'_>) -> Result<u32, SubmitError> {
        let like = (job.cpu_slots, job.ram_mb, job.vram_mb, job.on);
        let is_plain = job.rare.is_none_or(|rare| rare.named.is_empty() && rare.gpus == 0);
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
        let (named, gpus) = job.rare.map_or_else(Default::default, |rare| (rare.named.clone(), rare.gpus));
        let demand = Demand { cpu_slots: job.cpu_slots, ram_mb: job.ram_mb, vram_mb: job.vram_mb, gpus, named };
        let need = self.room.need(&demand, u64::from(job.on == On::Worker)).map_err(|resource| {
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

    /// Takes back everything of a batch.
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
