//! Taking jobs in: all of a batch, or none and no trace.

use core::ops::Range;

use super::graph::{EXTRA, Edge, LOCAL, NONE, Node, find_cycle};
use super::{Core, Extra};
use crate::aging::Time;
use crate::demand::Demand;
use crate::error::SubmitError;
use crate::event::What;
use crate::job::{Needed, Rare};
use crate::state::State;

const LONGEST_NAME: usize = 4096;

/// A job as it is handed in.
#[derive(Debug)]
pub(crate) struct NewJob<'a> {
    pub(crate) name: &'a str,
    pub(crate) needs: &'a [Needed],
    pub(crate) cpu_slots: u32,
    pub(crate) ram_mb: u64,
    pub(crate) vram_mb: u64,
    pub(crate) priority: i32,
    /// Whether it runs on a worker of this process.
    pub(crate) local: bool,
    pub(crate) rare: Option<&'a Rare>,
}

/// The demand of the job that was taken last, and its number: most jobs are like the one before.
pub(super) type LastDemand = ((u32, u64, u64, bool), u32);

impl Core {
    /// Takes a batch of jobs, which may need each other in any order. They take part when they are admitted.
    pub(crate) fn submit<'a>(
        &mut self,
        jobs: impl Iterator<Item = NewJob<'a>> + Clone,
    ) -> Result<Range<u32>, SubmitError> {
        let (first, first_edge) = (self.nodes.len(), self.edges.len());
        let expected = jobs.size_hint().0;
        if expected > 16 {
            self.nodes.reserve(expected);
            self.names.reserve(expected);
        }
        let result = self.add(first, jobs);
        if let Err(error) = result {
            self.undo(first, first_edge);
            return Err(error);
        }
        Ok(first as u32..self.nodes.len() as u32)
    }

    /// Lets jobs that were taken take part. In stretches, so that news of them can be told in between.
    pub(crate) fn admit(&mut self, now: Time, jobs: Range<u32>) {
        for id in jobs {
            let state = self.nodes[id as usize].state;
            self.counts[state as usize] += 1;
            self.tell(now, id, What::Submitted);
            if state == State::Succeeded {
                self.tell(now, id, What::Succeeded);
            } else if self.nodes[id as usize].unmet == 0 {
                self.make_ready(now, id);
            }
        }
    }

    fn add<'a>(&mut self, first: usize, jobs: impl Iterator<Item = NewJob<'a>> + Clone) -> Result<(), SubmitError> {
        for job in jobs.clone() {
            let (name, bytes) = (job.name, job.name.len());
            if bytes == 0 || bytes > LONGEST_NAME {
                return Err(SubmitError::BadName { name: name.chars().take(40).collect(), bytes });
            }
            if self.names.len() >= NONE as usize || !self.names.has_room(bytes) {
                return Err(SubmitError::TooMany { limit: self.names.len() });
            }
            if !self.names.add(name) {
                return Err(SubmitError::Duplicate { name: name.to_owned() });
            }
        }
        let mut forward = false;
        for job in jobs {
            let id = self.nodes.len() as u32;
            let lane = self.lane_for(&job)?;
            let first_need = u32::try_from(self.edges.len())
                .ok()
                .filter(|at| at.checked_add(job.needs.len() as u32).is_some_and(|end| end < NONE))
                .ok_or(SubmitError::TooMany { limit: self.nodes.len() })?;
            let mut unmet = 0;
            for needed in job.needs {
                let need = self.resolve(&job, id, needed)?;
                let mut next = NONE;
                if let Some(node) = self.nodes.get_mut(need as usize) {
                    match node.state {
                        State::Succeeded => {}
                        State::Failed | State::Canceled => {
                            let dependency = self.names.get(need).to_owned();
                            let (job, state) = (job.name.to_owned(), self.nodes[need as usize].state);
                            return Err(SubmitError::DependencyFailed { job, dependency, state });
                        }
                        _ => unmet += 1,
                    }
                    next = core::mem::replace(&mut node.first_dependent, self.edges.len() as u32);
                } else {
                    forward = true; // linked below, when it is there
                    unmet += 1;
                }
                self.edges.push(Edge { need, dependent: id, next });
            }
            let mut flags = if job.local { LOCAL } else { 0 };
            let (mut attempt, mut state) = (0, State::Queued);
            if let Some(rare) = job.rare {
                let extra = Extra { retry: rare.retry, expected: rare.expected, cause: None, spent: rare.attempts };
                self.extras.insert(id, extra);
                flags |= EXTRA;
                attempt = rare.attempts;
                if rare.done {
                    state = State::Succeeded;
                }
            }
            self.nodes.push(Node {
                ready_since: 0,
                started: 0,
                first_need,
                needs: job.needs.len() as u32,
                first_dependent: NONE,
                unmet,
                lane,
                stamp: 0,
                attempt,
                place: NONE,
                state,
                paused_from: State::Queued,
                flags,
            });
        }
        if forward { self.link_forward(first) } else { Ok(()) }
    }

    fn resolve(&self, job: &NewJob<'_>, id: u32, needed: &Needed) -> Result<u32, SubmitError> {
        let found = match needed {
            Needed::Id(need) => Some(need.0).filter(|need| (*need as usize) < self.names.len()),
            Needed::Name(name) => self.names.find(name),
        };
        match found {
            Some(need) if need == id => Err(SubmitError::NeedsItself { job: job.name.to_owned() }),
            Some(need) => Ok(need),
            None => Err(SubmitError::MissingDependency { job: job.name.to_owned(), dependency: needed.to_string() }),
        }
    }

    /// Some jobs of the batch need later ones: links them, unless they go in a circle.
    #[cold]
    fn link_forward(&mut self, first: usize) -> Result<(), SubmitError> {
        let inside = |edge: &Edge| (edge.need as usize).checked_sub(first);
        let cycle = find_cycle(self.nodes.len() - first, |member| {
            let node = &self.nodes[first + member];
            let start = node.first_need as usize;
            self.edges[start..start + node.needs as usize].iter().filter_map(inside)
        });
        if let Some(members) = cycle {
            let jobs = members.into_iter().map(|member| self.names.get((first + member) as u32).to_owned()).collect();
            return Err(SubmitError::Cycle { jobs });
        }
        for at in self.nodes[first].first_need as usize..self.edges.len() {
            let Edge { need, dependent, .. } = self.edges[at];
            if need > dependent {
                let node = &mut self.nodes[need as usize];
                if node.state == State::Succeeded {
                    self.nodes[dependent as usize].unmet -= 1;
                }
                let node = &mut self.nodes[need as usize];
                self.edges[at].next = core::mem::replace(&mut node.first_dependent, at as u32);
            }
        }
        Ok(())
    }

    /// The lane of such jobs; refuses what can never fit.
    fn lane_for(&mut self, job: &NewJob<'_>) -> Result<u32, SubmitError> {
        let like = (job.cpu_slots, job.ram_mb, job.vram_mb, job.local);
        let is_plain = job.rare.is_none_or(|rare| rare.named.is_empty());
        let demand = match &self.last_demand {
            Some((last, demand)) if is_plain && *last == like => *demand,
            _ => self.demand_of(job)?,
        };
        if is_plain {
            self.last_demand = Some((like, demand));
        }
        Ok(self.lanes.lane(job.priority, demand))
    }

    fn demand_of(&mut self, job: &NewJob<'_>) -> Result<u32, SubmitError> {
        let named = job.rare.map_or_else(Vec::new, |rare| rare.named.clone());
        let demand = Demand { cpu_slots: job.cpu_slots, ram_mb: job.ram_mb, vram_mb: job.vram_mb, named };
        let need = self.room.need(&demand, u64::from(job.local)).map_err(|resource| SubmitError::UnknownResource {
            job: job.name.to_owned(),
            resource,
            known: self.room.named().map(|(name, _)| name.to_string()).collect(),
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

    /// Takes back everything from that job and that edge on.
    #[cold]
    fn undo(&mut self, first: usize, first_edge: usize) {
        while self.edges.len() > first_edge {
            let at = self.edges.len() as u32 - 1;
            let edge = self.edges.pop().expect("there is one");
            if let Some(node) = self.nodes.get_mut(edge.need as usize)
                && node.first_dependent == at
            {
                node.first_dependent = edge.next;
            }
        }
        for id in first..self.nodes.len() {
            self.extras.remove(&(id as u32));
        }
        self.nodes.truncate(first);
        self.names.truncate(first);
    }
}
