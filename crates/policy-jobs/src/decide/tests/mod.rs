//! Tests of the decisions in virtual time: without threads and clocks.
//!
//! Room: tests.

mod batches;
mod cards;
mod history;
mod laws;
mod lifecycle;
mod order;
mod size;
mod starve;
mod tree;

use core::time::Duration;

use self::history::PARTS;
use super::{Core, Draft, Effect, Ended, JobOptions, NewJob, Retry, Rules, RunsOn, Scope};
use crate::aging::{Aging, Time};
use crate::demand::{Demand, Gpu, Limits};
use crate::error::{Cause, SubmitError};
use crate::event::{Event, What};
use crate::id::Needed;
use crate::state::State;
use crate::trace::TraceId;

/// One millisecond of virtual time.
const MS: Time = 1_000_000;

/// A job to be submitted, owned.
#[derive(Debug, Clone)]
struct Spec {
    name: String,
    needs: Vec<Needed>,
    demand: Demand,
    priority: i32,
    local: bool,
    retry: Retry,
    done: bool,
    key: Option<String>,
}

fn job(name: impl Into<String>) -> Spec {
    let (needs, demand) = (Vec::new(), Demand::default());
    Spec { name: name.into(), needs, demand, priority: 0, local: true, retry: Retry::default(), done: false, key: None }
}

impl Spec {
    fn needs(mut self, name: &str) -> Self {
        self.needs.push(name.into());
        self
    }

    fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    fn cpu(mut self, slots: u32) -> Self {
        self.demand.cpu_slots = slots;
        self
    }

    fn ram(mut self, mb: u64) -> Self {
        self.demand.ram_mb = mb;
        self
    }

    fn vram(mut self, mb: u64) -> Self {
        self.demand.vram_mb = mb;
        self
    }

    fn gpus(mut self, count: u32) -> Self {
        self.demand.gpus = count;
        self
    }

    fn takes(mut self, name: &str, amount: u64) -> Self {
        self.demand.named.push((name.to_owned(), amount));
        self
    }

    fn retries(mut self, times: u32, backoff_ms: u64) -> Self {
        let (backoff, longest) = (Duration::from_millis(backoff_ms), Duration::from_millis(backoff_ms * 8));
        self.retry = Retry { times, backoff, longest };
        self
    }

    fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    fn remote(mut self) -> Self {
        self.local = false;
        self
    }

    fn as_new<'a>(&'a self, options: &'a Option<JobOptions>) -> NewJob<'a> {
        NewJob {
            is_unnamed: false,
            name: &self.name,
            needs: &self.needs,
            cpu_slots: self.demand.cpu_slots,
            ram_mb: self.demand.ram_mb,
            vram_mb: self.demand.vram_mb,
            priority: self.priority,
            runs_on: if self.local { RunsOn::Worker } else { RunsOn::Executor },
            options: options.as_ref(),
        }
    }

    fn options(&self) -> Option<JobOptions> {
        let Spec { demand: Demand { named, gpus, .. }, retry, done, key, .. } = self.clone();
        let plain = named.is_empty() && gpus == 0 && retry == Retry::default() && !done && key.is_none();
        (!plain).then_some(JobOptions {
            named,
            gpus,
            was_on: Vec::new(),
            retry,
            expected: None,
            done,
            attempts: 0,
            key,
        })
    }
}

fn rules(cpu_slots: u32) -> Rules {
    Rules {
        limits: Limits {
            cpu_slots,
            ram_mb: 2048,
            vram_mb: 7680,
            gpus: Vec::new(),
            named: vec![("licence".to_owned(), 2)],
        },
        workers: cpu_slots as usize,
        running_max: usize::MAX,
        aging: Aging { interval: Duration::from_millis(500), boost: 1 },
        pause_timeout: Duration::from_millis(1500),
        by_formula: false,
        seed: 7,
    }
}

/// Rules with graphics cards that have this much memory.
fn with_cards(cpu_slots: u32, vram_mb: &[u64]) -> Rules {
    let mut rules = rules(cpu_slots);
    rules.limits.gpus = vram_mb.iter().zip(0..).map(|(mb, id)| Gpu::new(format!("{id}"), *mb)).collect();
    rules
}

/// A scheduler, its time, and all its events and effects.
struct Stage {
    core: Core,
    now: Time,
    log: Vec<Event>,
    effects: Vec<Effect>,
    /// The chain that a worker has claimed: the running job, and those that follow.
    chain: Vec<u32>,
}

impl Stage {
    fn new(rules: Rules) -> Self {
        let mut core = Core::new(rules);
        core.record_events(true);
        for part in 0..PARTS {
            let trace = TraceId::from_u128(u128::from(part) + 1).expect("it is not 0");
            assert_eq!(core.part(&format!("part-{part}"), trace), part);
        }
        Self { core, now: 0, log: Vec::new(), effects: Vec::new(), chain: Vec::new() }
    }

    fn drain(&mut self) {
        self.log.extend(self.core.events());
        self.core.clear_events();
        self.core.take_effects(&mut self.effects);
    }

    fn try_submit(&mut self, jobs: &[Spec]) -> Result<(), SubmitError> {
        self.try_submit_to(None, jobs)
    }

    /// Submits to a part.
    fn try_submit_to(&mut self, part: Option<u32>, jobs: &[Spec]) -> Result<(), SubmitError> {
        let mut draft = self.core.draft(part);
        let added = self.add(&mut draft, jobs);
        let result = added.and_then(|()| self.finish(&draft));
        if result.is_err() {
            self.core.undo(&draft);
        }
        self.drain();
        result
    }

    /// Adds jobs to a batch that is not complete yet.
    fn add(&mut self, draft: &mut Draft, jobs: &[Spec]) -> Result<(), SubmitError> {
        jobs.iter().try_for_each(|job| self.core.add(draft, &job.as_new(&job.options())).map(|_| ()))
    }

    /// The batch is complete.
    fn finish(&mut self, draft: &Draft) -> Result<(), SubmitError> {
        let range = self.core.seal(draft)?;
        self.core.admit(self.now, range);
        Ok(())
    }

    fn submit(&mut self, job: Spec) -> u32 {
        self.try_submit(std::slice::from_ref(&job)).unwrap();
        self.core.len() as u32 - 1
    }

    /// Picks until nothing more may start.
    fn pick(&mut self) -> Vec<u32> {
        let picked = core::iter::from_fn(|| self.core.pick(self.now)).collect();
        self.drain();
        picked
    }

    fn end(&mut self, id: u32, how: Ended) {
        self.core.ended(self.now, id, how);
        self.drain();
    }

    fn succeed(&mut self, id: u32) {
        self.end(id, Ended::Succeeded);
    }

    fn fail(&mut self, id: u32) {
        self.end(id, Ended::Failed(Cause::Error("no".to_owned())));
    }

    fn pause(&mut self, id: u32) {
        let _ = self.core.pause(self.now, Scope::Job(id));
        self.drain();
    }

    /// Asks a running job to pause, which it does at once.
    fn pause_running(&mut self, id: u32) {
        self.pause(id);
        assert!(self.core.paused(self.now, id), "job {id} was asked to pause");
        self.drain();
    }

    fn resume(&mut self, id: u32) {
        self.core.resume(self.now, Scope::Job(id)).unwrap();
        self.drain();
    }

    fn cancel(&mut self, id: u32) {
        self.core.cancel(self.now, Scope::Job(id));
        self.drain();
    }

    fn state(&self, id: u32) -> State {
        self.core.state(id)
    }

    fn ends_of(&self, id: u32) -> Vec<What> {
        let ends = |what: &What| matches!(what, What::Succeeded | What::Failed | What::Cancelled);
        self.log.iter().filter(|event| event.job.0 == id).map(|event| event.what).filter(ends).collect()
    }
}
