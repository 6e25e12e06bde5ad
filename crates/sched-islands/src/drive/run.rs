//! A run of an island: its threads, and the loop of each.
//!
//! Room: driver.
//!
//! # Invariants
//! - No cycle runs before all threads are on their CPUs, and none after one of them was refused what the island requires.
//! - Between the first cycle and the last a thread allocates nothing and takes no lock, but where a task has overrun its budget and where it waits for longer than [`SHORT_WAIT`].
//! - The call returns when all threads have ended: closures may borrow.

use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sched_tasks::internals::{cpu_time_spent, sleep_until, try_spawn_apart};
use sched_tasks::{NurseryOptions, Receiver, Sender, TaskError, channel, checkpoint, nursery_with};

use super::cpu_thread::CpuThread;
use super::cycle::{Body, Cycle};
use super::guard;
use crate::decide::{Entry, Next, Run, Timetable};
use crate::ended::Ended;
use crate::error::IslandError;
use crate::handle::Shared;
use crate::in_force::{CpuInForce, InForce};
use crate::spec::{Realtime, nanos, spec_of};
use crate::telemetry::{IslandStats, Telemetry};

/// A thread whose next release is further away than this waits so that a reason to end wakes it, and goes on to wait by its own timer when this much is left.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// From when all threads are ready to the first release.
const LEAD_TIME: Duration = Duration::from_millis(1);

/// Runs closures, one for each task of the island, until there is a reason to end.
pub(crate) fn run(
    shared: &Arc<Shared>,
    bodies: Vec<Body<'_>>,
    site: &'static Location<'static>,
) -> Result<IslandStats, TaskError> {
    let spec = &shared.spec;
    let revoked = || IslandError::Revoked { island: spec.name.clone() };
    let mut places = Vec::with_capacity(bodies.len());
    for task in &spec.tasks {
        places.push(shared.lease.cpu_of(&task.name).ok_or_else(revoked)?);
    }
    let telemetry: Arc<[_]> = places.iter().map(|cpu| (*cpu, Telemetry::default())).collect();
    let running = shared.begin(telemetry.clone()).ok_or_else(revoked)?;
    let origin = sched_tasks::now();
    let cpu_threads: Vec<CpuThread> = shared.lease.cpus().map(|cpu| CpuThread::new(cpu, origin)).collect();
    let mut bodies: Vec<_> = bodies.into_iter().map(Some).collect();
    let options = NurseryOptions::new().name(&*spec.name);
    let outcome = nursery_with(options, |n| {
        let (ready, is_ready) = channel::<CpuInForce>(cpu_threads.len());
        let mut threads = Vec::with_capacity(cpu_threads.len());
        let mut starts = Vec::with_capacity(cpu_threads.len());
        for cpu_thread in &cpu_threads {
            let (start, starts_at) = channel::<Duration>(1);
            let here = |task: &usize| places[*task] == cpu_thread.cpu;
            let tasks: Vec<usize> = (0..spec.tasks.len()).filter(here).collect();
            let bodies = tasks.iter().filter_map(|task| bodies[*task].take()).collect();
            let sleeps = running.sleeps.clone();
            let thread = Thread { shared, cpu_thread, telemetry: &telemetry, tasks, bodies, origin, sleeps };
            let ready = ready.clone();
            let name = format!("{}-{}", spec.name, cpu_thread.cpu);
            threads.push(try_spawn_apart(n, site, &name, move || thread.main(ready, starts_at)));
            starts.push(start);
        }
        drop(ready);
        let mut cpus: Vec<CpuInForce> = is_ready.iter().take(cpu_threads.len()).collect();
        cpus.sort_by_key(|one| one.cpu);
        let refused = cpus.iter().find_map(|one| Some((one.cpu, one.realtime.as_ref().err()?.clone())));
        let realtime = cpus.iter().find_map(|one| one.realtime.clone().ok());
        shared.set_in_force(InForce { cpus });
        if let (Realtime::Required, Some((cpu, error))) = (spec.realtime, refused) {
            return Err(IslandError::NotRealtime { island: spec.name.clone(), cpu, error }.into());
        }
        if !shared.lease.is_virtual {
            let cpu_threads = &cpu_threads;
            try_spawn_apart(n, site, &format!("{}-guard", spec.name), move || {
                if let Some(priority) = realtime {
                    let _ = mech_cpu::Tid::current().set_fifo(priority + 1); // else it is an ordinary thread
                }
                guard::watch(shared, cpu_threads);
                Ok(())
            });
        }
        let first = sched_tasks::now().saturating_duration_since(origin) + LEAD_TIME;
        for start in starts {
            let _ = start.send(first); // to one that has failed: its error is that of the nursery
        }
        for thread in threads {
            thread.join()?;
        }
        n.dismiss(); // the guard
        Ok(())
    });
    drop(running);
    outcome?;
    match shared.stats().ended {
        Some(Ended::OutOfTime { task }) => {
            let spec = spec.tasks.iter().find(|one| one.name == task).and_then(|one| spec_of(&one.context));
            let [budget, period] = spec.map_or([0; 2], |spec| [spec.budget, spec.period]).map(Duration::from_nanos);
            Err(cpu_time_spent(budget, period))
        }
        _ => Ok(shared.stats()),
    }
}

/// The thread of one CPU.
struct Thread<'a, 'env> {
    shared: &'a Shared,
    cpu_thread: &'a CpuThread,
    telemetry: &'a [(u32, Telemetry)],
    /// Its tasks, among those of the island; and what they do.
    tasks: Vec<usize>,
    bodies: Vec<Body<'env>>,
    origin: Instant,
    /// Is disconnected when there is a reason to end.
    sleeps: Receiver<()>,
}

impl Thread<'_, '_> {
    fn main(mut self, ready: Sender<CpuInForce>, starts_at: Receiver<Duration>) -> Result<(), TaskError> {
        let (spec, lease) = (&self.shared.spec, &self.shared.lease);
        let entered = lease.enter(self.cpu_thread.cpu).map_err(|error| IslandError::System {
            island: spec.name.clone(),
            what: "CPU to a thread",
            error: error.to_string(),
        })?;
        if entered.is_none() && !lease.is_virtual {
            return Ok(()); // revoked meanwhile
        }
        let in_force = self.cpu_thread.start(spec.realtime, spec.priority, lease.is_virtual);
        ready.send(in_force)?;
        drop(ready);
        let Ok(first) = starts_at.recv() else { return Ok(()) }; // the island does not run
        let entry = |task: &usize| {
            let after = spec.tasks[*task].after.as_ref();
            let place = |name: &String| self.tasks.iter().position(|one| spec.tasks[*one].name == *name);
            let context = spec_of(&spec.tasks[*task].context).expect("it was admitted");
            Entry { spec: context, overrun: spec.overrun_of(*task), after: after.and_then(place) }
        };
        let mut timetable = Timetable::new(self.tasks.iter().map(entry).collect(), nanos(first));
        self.cycles(&mut timetable)
    }

    /// Cycle after cycle, until there is a reason to end.
    fn cycles(&mut self, timetable: &mut Timetable) -> Result<(), TaskError> {
        loop {
            checkpoint(); // a cancellation ends it here
            if self.shared.is_ended() {
                return Ok(());
            }
            let now = self.now();
            match timetable.next(nanos(now)) {
                Next::Run(run) => self.cycle(timetable, run, now),
                Next::Sleep { until } => {
                    self.count(timetable);
                    self.wait(Duration::from_nanos(until), now);
                }
                Next::End { task } => {
                    self.count(timetable);
                    let task = self.shared.spec.tasks[self.tasks[task]].name.clone();
                    self.shared.end(Ended::OutOfTime { task });
                }
            }
        }
    }

    /// Waits for the next release, or until there is a reason to end.
    fn wait(&self, release: Duration, now: Duration) {
        let is_virtual = self.shared.lease.is_virtual;
        let spin = if is_virtual { Duration::ZERO } else { self.shared.spec.spin };
        let awake = release.saturating_sub(spin);
        let short = if is_virtual { Duration::from_millis(1) } else { SHORT_WAIT };
        if awake > now + short {
            let _ = self.sleeps.recv_timeout(awake - now - short); // nothing is ever sent: time is up, or the island ends
            return;
        }
        if awake > now {
            sleep_until(self.origin + awake);
        }
        while self.now() < release && !self.shared.is_ended() {
            std::hint::spin_loop();
        }
    }

    fn cycle(&mut self, timetable: &mut Timetable, run: Run, began: Duration) {
        let limit = (!run.is_demoted).then(|| began + Duration::from_nanos(run.left));
        let in_cycle = self.cpu_thread.begin(limit, &self.shared.lease);
        let cycle = Cycle { run, origin: self.origin, began, shared: self.shared };
        (self.bodies[run.task])(&cycle);
        let now = self.now();
        drop(in_cycle);
        let ended = timetable.ended(run, nanos(began), nanos(now));
        let (_, telemetry) = &self.telemetry[self.tasks[run.task]];
        telemetry.ended(ended);
        telemetry.set(timetable.counts(run.task));
    }

    /// Tells what was left out meanwhile.
    fn count(&self, timetable: &Timetable) {
        for (place, task) in self.tasks.iter().enumerate() {
            self.telemetry[*task].1.set(timetable.counts(place));
        }
    }

    fn now(&self) -> Duration {
        sched_tasks::now().saturating_duration_since(self.origin)
    }
}
