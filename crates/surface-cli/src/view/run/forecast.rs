//! The estimated end of a run.
//!
//! Room: decisions.
//!
//! A run cannot end before its critical path has, and not before each resource has served all remaining demands. The
//! later of these is shown. Jobs without a measurement are taken to need what others of their group needed, or all others.
//!
//! # Invariant
//! `left` is, for each resource, the sum of *demand × expected time* over jobs that have not ended.
//!
//! # Why it is cheap
//! An end subtracts. The longest chain that has not begun is found by a cursor that walks the jobs from the longest chain to the shortest and
//! skips what runs or has ended; it goes back only when a job does. Everything is computed again when this run has new measurements, which
//! happens when a number doubles.

use std::sync::Arc;
use std::time::Duration;

use sched_jobs::{Limits, State};
use surface_jobfile::{Job, Plan};

use super::board::Board;

/// CPU, memory and video memory; then the named ones.
const FIXED: usize = 3;

pub(crate) struct Forecast {
    plan: Arc<Plan>,
    /// Every job after those it needs.
    order: Vec<usize>,
    /// From earlier runs.
    expected: Vec<Option<Duration>>,
    /// What there is of each resource; 0 is unlimited.
    limits: Vec<u64>,
    names: Vec<String>,
    guess_ms: Vec<u64>,
    /// The longest chain that begins with this job.
    chain_ms: Vec<u64>,
    by_chain: Vec<u32>,
    rank: Vec<u32>,
    cursor: usize,
    left: Vec<u128>,
    learned: Option<u64>,
    learned_at: Duration,
}

impl Forecast {
    pub(crate) fn new(plan: Arc<Plan>, mut expected: Vec<Option<Duration>>, limits: &Limits) -> Forecast {
        expected.resize(plan.jobs.len(), None);
        let mut sizes = vec![u64::from(limits.cpu_slots), limits.ram_mb, limits.vram_mb];
        sizes.extend(limits.named.iter().map(|(_, amount)| *amount));
        Forecast {
            order: plan.order().unwrap_or_default(),
            guess_ms: vec![0; plan.jobs.len()],
            chain_ms: vec![0; plan.jobs.len()],
            by_chain: Vec::new(),
            rank: vec![0; plan.jobs.len()],
            cursor: 0,
            left: vec![0; sizes.len()],
            names: limits.named.iter().map(|(name, _)| name.clone()).collect(),
            limits: sizes,
            learned: None,
            learned_at: Duration::ZERO,
            expected,
            plan,
        }
    }

    /// A job moved.
    pub(crate) fn moved(&mut self, job: usize, from: State, to: State) {
        if job >= self.guess_ms.len() || self.learned.is_none() {
            return;
        }
        match (from.is_terminal(), to.is_terminal()) {
            (false, true) => self.count(job, false),
            (true, false) => self.count(job, true),
            _ => {}
        }
        if !to.is_terminal() && to != State::Running {
            self.cursor = self.cursor.min(self.rank[job] as usize);
        }
    }

    fn count(&mut self, job: usize, add: bool) {
        for resource in 0..self.left.len() {
            let wanted = self.wants(&self.plan.jobs[job], resource);
            let work = u128::from(wanted) * u128::from(self.guess_ms[job]);
            let left = &mut self.left[resource];
            *left = if add { *left + work } else { left.saturating_sub(work) };
        }
    }

    fn wants(&self, job: &Job, resource: usize) -> u64 {
        match resource {
            0 => u64::from(job.cpu.unwrap_or(1)),
            1 => job.ram_mb.unwrap_or(256),
            2 => job.vram_mb.unwrap_or(0).saturating_mul(job.gpus.unwrap_or(1).into()),
            named => {
                let name = &self.names[named - FIXED];
                job.named.iter().find(|(known, _)| known == name).map_or(0, |(_, amount)| *amount)
            }
        }
    }

    /// How long a job probably takes, if anything is known.
    pub(crate) fn guess(&self, job: u32) -> Option<Duration> {
        let known = Some(self.guess_ms[job as usize]).filter(|guess| *guess > 0);
        self.learned.and(known).map(Duration::from_millis)
    }

    /// The estimated time of the longest chain after a job.
    pub(crate) fn after(&self, job: u32) -> Duration {
        Duration::from_millis(self.chain_ms[job as usize].saturating_sub(self.guess_ms[job as usize]))
    }

    /// The time until the run ends. `None` if nothing is known about how long jobs take.
    pub(crate) fn left(&mut self, board: &Board, now: Duration) -> Option<Duration> {
        let is_due = self.learned.is_none() || now >= self.learned_at + Duration::from_secs(1);
        if is_due && self.learned != Some(board.lessons()) {
            self.learn(board);
            self.learned_at = now;
        }
        self.learned?;
        let mut longest = 0;
        let mut done = vec![0_u128; self.left.len()];
        for &job in board.running() {
            let guess = self.guess_ms[job as usize];
            let ran = (board.since(job, now).as_millis() as u64).min(guess);
            longest = longest.max(self.chain_ms[job as usize].saturating_sub(ran));
            for (resource, done) in done.iter_mut().enumerate() {
                *done += u128::from(self.wants(&self.plan.jobs[job as usize], resource)) * u128::from(ran);
            }
        }
        let begins = |job: u32| !board.state(job).is_terminal() && board.state(job) != State::Running;
        while self.by_chain.get(self.cursor).is_some_and(|job| !begins(*job)) {
            self.cursor += 1;
        }
        if let Some(job) = self.by_chain.get(self.cursor) {
            longest = longest.max(self.chain_ms[*job as usize]);
        }
        let by_resource = self.left.iter().zip(&done).zip(&self.limits).filter(|(_, limit)| **limit > 0);
        let carried = by_resource.map(|((left, done), limit)| left.saturating_sub(*done) / u128::from(*limit)).max();
        let carried = u64::try_from(carried.unwrap_or(0)).unwrap_or(u64::MAX);
        Some(Duration::from_millis(longest.max(carried)))
    }

    /// Computes everything again, from the measurements of this run and earlier ones.
    fn learn(&mut self, board: &Board) {
        let (mut many, mut sum) = (0_u64, 0_u64);
        for time in self.expected.iter().flatten() {
            (many, sum) = (many + 1, sum.saturating_add(time.as_millis() as u64));
        }
        for group in board.groups() {
            many += u64::from(group.measured.0);
            sum = sum.saturating_add(group.measured.1.as_millis() as u64);
        }
        if many == 0 {
            return;
        }
        let usual = (sum / many).max(1);
        let of_group = board.groups().iter().map(|group| group.mean().map(|mean| mean.as_millis() as u64));
        let of_group: Vec<Option<u64>> = of_group.collect();
        for job in 0..self.guess_ms.len() {
            let expected = self.expected[job].map(|time| time.as_millis() as u64);
            self.guess_ms[job] = expected.or(of_group[board.group_of(job as u32)]).unwrap_or(usual).max(1);
        }
        self.chain_ms.fill(0);
        for &job in self.order.iter().rev() {
            let chain = self.chain_ms[job].saturating_add(self.guess_ms[job]);
            self.chain_ms[job] = chain;
            for &need in &self.plan.jobs[job].needs {
                self.chain_ms[need] = self.chain_ms[need].max(chain);
            }
        }
        self.by_chain = (0..self.guess_ms.len() as u32).collect();
        self.by_chain.sort_by_key(|job| std::cmp::Reverse(self.chain_ms[*job as usize]));
        for (rank, job) in self.by_chain.iter().enumerate() {
            self.rank[*job as usize] = rank as u32;
        }
        self.cursor = 0;
        self.left.fill(0);
        for job in (0..self.guess_ms.len()).filter(|job| !board.state(*job as u32).is_terminal()) {
            self.count(job, true);
        }
        self.learned = Some(board.lessons());
    }
}
